// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that change during the run: do shares and rates follow, when it is time and not before?
//!
//! Law: two readers that always ask, in cgroups, have the shares of their weights in each phase
//! between two changes, whatever the weights are. A rate is kept from the instant at which it is
//! set, and counts from the job's begin.

use paternoster_core::{Nanos, NoObserver};
use paternoster_sim::{Description, Simulated, catalog};
use paternoster_workload::{RunError, RunResult, Settings, Watcher, run};
use proptest::prelude::*;

use crate::common::jobs_of;

/// How many I/Os each process has done, at each report.
#[derive(Default)]
struct Counts(Vec<Vec<u64>>);

impl Watcher for Counts {
    fn status(&mut self, result: &RunResult) {
        let ios = result.processes.iter().map(|process| process.statistics.ios());
        self.0.push(ios.collect());
    }
}

/// What each process had done after each interval.
fn counts(text: &str, device: &Description, elevator: &str, interval: Nanos) -> Vec<Vec<u64>> {
    let status_interval = Some(interval);
    let submit_cost = Nanos(1);
    let settings = Settings { submit_cost, status_interval, ..Settings::default() };
    let elevator = paternoster_schedulers::by_name(elevator).expect("it is known");
    let (mut model, mut counts) = (Simulated::new(device.model()), Counts::default());
    let prepare = |queue: &mut paternoster_workload::observed::Queue| {
        // Turns that are short enough for a phase to have many.
        let _not_bfq = queue.set_attribute(Nanos::ZERO, "max_budget", "256");
        let _not_bfq = queue.set_attribute(Nanos::ZERO, "low_latency", "0");
        Ok(())
    };
    let jobs = jobs_of(text).expect("a sound job file").jobs;
    let done: Result<_, RunError> =
        run(&jobs, &settings, &mut model, elevator, NoObserver, prepare, &mut counts);
    done.unwrap_or_else(|error| panic!("{error}"));
    counts.0
}

fn device(name: &str) -> Description {
    catalog::by_name(name).expect("it is known").expect("it is sound")
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 6, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Do two readers have the shares of their weights before a change and after it, within 5
    /// points?
    #[test]
    fn shares_follow_weights(
        weights in prop::array::uniform3(100..=1000_u32),
        under in 0..2_usize,
    ) {
        let [before, behind, other] = weights;
        let text = format!(
            "[global]\ndirect=1\nioengine=libaio\niodepth=64\nrw=randread\nbs=4k\nsize=1g\n\
             time_based\nruntime=2\nnorandommap\n\
             [a]\ncgroup=a\ncgroup_weight={before}\nchange=1s cgroup_weight={behind}\n\
             [b]\ncgroup=b\ncgroup_weight={other}\n"
        );
        let elevator = ["bfq", "paternoster"][under];
        let told = counts(&text, &device("ssd-870evo"), elevator, Nanos::from_millis(200));
        // Counted from 0.4 s to 1 s, and from 1.2 s to 1.8 s.
        for (from, to, weight) in [(1, 4, before), (5, 8, behind)] {
            let had = [0, 1].map(|place| (told[to][place] - told[from][place]) as f64);
            let share = had[0] / (had[0] + had[1]);
            let owed = f64::from(weight) / f64::from(weight + other);
            prop_assert!(
                (share - owed).abs() < 0.05,
                "{elevator}, {weights:?}: {share:.3} where {owed:.3} is owed"
            );
        }
    }
}

/// Does a job of the idle class get next to nothing while it competes with a reader, for exactly as
/// long as it is in that class? The other begins 0.8 s later: if two begin together bfq makes one
/// queue (stable merging), which keeps its class. Back in its class it is of level 0, because it
/// has a class and no level, and the other of 4: 80 to 40, two thirds.
#[test]
fn a_class_counts_from_when_it_is_set() {
    let text = "[global]\ndirect=1\nioengine=libaio\niodepth=64\nrw=randread\nbs=4k\nsize=1g\n\
                time_based\nruntime=4\nnorandommap\n\
                [a]\nchange=2s prioclass=3\nchange=3s prioclass=2\n[b]\nstartdelay=800ms\n";
    let told = counts(text, &device("ssd-870evo"), "bfq", Nanos::from_millis(200));
    let share = |from: usize, to: usize| {
        let had = [0, 1].map(|place| (told[to][place] - told[from][place]) as f64);
        had[0] / (had[0] + had[1])
    };
    // From 1.4 to 2 s, from 2.4 to 3 s, from 3.4 to 4 s.
    let shares = [share(6, 9), share(11, 14), share(16, 19)];
    assert!((0.45..=0.55).contains(&shares[0]), "{shares:?}");
    assert!(shares[1] < 0.05, "{shares:?}");
    assert!((0.62..=0.71).contains(&shares[2]), "{shares:?}");
}

/// Is a rate kept from when it is set, counted from the job's start? 100 a second from 0.5 s on
/// (its `startdelay`), 1000 from 1.5 s, none from 2.5 s to the end at 3.5 s. The first I/O of a
/// rate is due at its start, so 100 have been made at 1.5 s, one more or less for its position: 99
/// to 101.
#[test]
fn rates_begin_anew() {
    let text = "[a]\ndirect=1\nioengine=libaio\niodepth=4\nrw=randread\nbs=4k\nsize=1g\n\
                norandommap\ntime_based\nruntime=3\nstartdelay=500ms\n\
                rate_iops=100\nchange=1s rate_iops=1000\nchange=2s rate_iops=0\n";
    let told = counts(text, &device("ssd-870evo"), "noop", Nanos::from_millis(500));
    let at = |half: usize| told[half - 1][0];
    assert_eq!(at(1), 0);
    assert!((99..=101).contains(&at(3)), "{told:?}");
    assert!((1098..=1102).contains(&at(5)), "{told:?}");
    // At depth 4 in half a second, 150 us each: 13,000.
    assert!(at(6) - at(5) > 10_000, "{told:?}");
}

/// Does a change at zero to the existing values leave decisions unchanged: does it give the very
/// same run?
#[test]
fn a_change_to_the_same_changes_nothing() {
    let job = |change: &str| {
        format!(
            "[global]\ndirect=1\nioengine=libaio\niodepth=8\nrw=randread\nbs=4k\nsize=64m\n\
             number_ios=2000\n[a]\ncgroup=a\ncgroup_weight=300\n{change}\n[b]\nrw=randwrite\n"
        )
    };
    let run = |text: &str| counts(text, &device("hdd-7200"), "bfq", Nanos::from_millis(100));
    assert_eq!(run(&job("change=100ms cgroup_weight=300")), run(&job("")));
}

/// Is a job with more changes than fit refused at the line that is too many, those of `[global]`
/// counted? 255 and two: the second of the section's own, line 261 of the file.
#[test]
fn changes_have_a_limit() {
    let global = "change=1 prio=1\n".repeat(255);
    let text = |own| format!("[global]\n{global}[a]\nrw=read\nsize=1m\n{own}");
    assert_eq!(jobs_of(&text("change=2 prio=2\n")).unwrap().jobs.len(), 1);
    let problems = jobs_of(&text("change=2 prio=2\nchange=3s prio=3\n")).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "jobs:261: the job has 256 changes already, those of `[global]` among them, and no more \
         fit: leave some out: `change=3s prio=3`"
    );
}

/// Is a weight without a cgroup refused, and a player's rate?
#[test]
fn what_does_not_go_together() {
    for (text, words) in [
        ("[a]\nrw=read\nsize=1m\nchange=1 cgroup_weight=200\n", "give it cgroup=NAME"),
        ("[a]\nrw=read\nsize=1m\nframe_period=40ms\nchange=1 rate=1m\n", "its rate cannot change"),
        ("[a]\nrw=read\nsize=1m\nchange=1 bs=4k\n", "`bs` cannot change while a job runs"),
        ("[a]\nrw=read\nsize=1m\nchange\n", "needs a value"),
    ] {
        let problems = jobs_of(text).unwrap_err();
        assert!(problems[0].to_string().contains(words), "{text}: {}", problems[0]);
    }
}
