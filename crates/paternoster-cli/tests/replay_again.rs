// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of jobs, recorded in memory and replayed: does the same device do the same, and a faster
//! one what a faster device does?
//!
//! ```text
//! jobs ──▶ run ──▶ events ──▶ Matcher ──▶ Recording ──▶ replay ──▶ the same times?
//! ```
//!
//! What a trace does not tell, no replay repeats: I/O priorities, cgroups. The random jobs have
//! none.

use paternoster::{Action, Event, Nanos, Note, Observer, Op, elevators};
use paternoster_sim::{Description, Simulated, catalog};
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::replay::{
    Arrival, Backlog, Fit, Manner, Mapping, Matcher, Recording, Replay, ReplayStuck, Replayed,
    Schedule, Speed, replay,
};
use paternoster_workload::run::{NoWatcher, RunError, Settings};
use proptest::prelude::*;

/// Listens to a run as a tracer does, and knows one thing more: which flushes our queue answers at
/// once, because nothing was written since the last one. It tells of these no end.
#[derive(Default)]
struct Tracer {
    matcher: Matcher,
    dirty: bool,
    dirty_before_flush: bool,
}

impl Observer for Tracer {
    fn event(&mut self, event: &Event) {
        let Event { at, action, client, op, flags, sector, sectors, .. } = *event;
        match (action, op) {
            (Action::Complete, Op::Write) => self.dirty = true,
            (Action::Issue, Op::Flush) => {
                self.dirty_before_flush = std::mem::take(&mut self.dirty);
            }
            (Action::Requeue, Op::Flush) => self.dirty |= self.dirty_before_flush,
            _ => {}
        }
        let (matcher, pid) = (&mut self.matcher, client.index());
        match (action, op) {
            (Action::Queue, _) => {
                let arrival = Arrival { at, pid, op, flags, sector, sectors };
                matcher.arrive(&arrival).expect("a short run");
            }
            (Action::Get, Op::Flush) if self.dirty => matcher.allocate_flush(pid),
            (Action::Issue, Op::Flush) => matcher.issue_flush(at),
            (Action::Complete, Op::Flush) => matcher.complete_flush(at),
            (Action::Issue, _) => matcher.issue(at, sector, sectors),
            (Action::Complete, _) => matcher.complete(at, sector, sectors),
            (Action::Plug, _) => matcher.plug(pid),
            (Action::Unplug | Action::UnplugTimer, _) => matcher.unplug(pid),
            _ => {}
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}

/// Runs jobs and returns what a tracer saw.
fn record(device: &Description, scheduler: &str, text: &str) -> Recording {
    let source = Source { name: "test.fio", text };
    let parsed = parse(&[source], &[], &[], &|_| None, &|_, name| Err(name.to_owned()));
    let jobs = parsed.unwrap_or_else(|problems| panic!("{problems:?}")).jobs;
    let settings = Settings { submit_cost: device.submit_cost, ..Settings::default() };
    let (_, mut queue) = paternoster_workload::run(
        &jobs,
        &settings,
        &mut Simulated::new(device.model()),
        elevators::by_name(scheduler).expect("a scheduler"),
        Tracer::default(),
        |_| Ok::<(), RunError>(()),
        &mut NoWatcher,
    )
    .unwrap_or_else(|error| panic!("{error}\n{text}"));
    std::mem::take(&mut queue.observer_mut().1.matcher).finish()
}

fn play(recording: &Recording, device: &Description, scheduler: &str, manner: Manner) -> Replayed {
    let schedule = &Schedule::new(recording, manner, Speed::AS_RECORDED);
    let mapping = &Mapping::new(recording, device.facts.capacity, Fit::Fail).expect("it fits");
    let elevator = elevators::by_name(scheduler).expect("a scheduler");
    let what = Replay { recording, schedule, mapping };
    let device = &mut Simulated::new(device.model());
    let prepare = |_: &mut _| Ok::<(), ReplayStuck>(());
    let (replayed, queue) =
        replay(what, device, elevator, paternoster::NoObserver, prepare, &mut |_| {})
            .unwrap_or_else(|error| panic!("{error}"));
    queue.audit().unwrap_or_else(|fault| panic!("{fault:?}"));
    replayed
}

/// When the last I/O ended.
fn length(replayed: &Replayed) -> Nanos {
    replayed.ended.iter().copied().max().expect("something was replayed")
}

/// Where a replay differs from its recording: the first I/O whose time is another one.
fn difference(recording: &Recording, replayed: &Replayed) -> Option<String> {
    let ios = recording.ios().iter().zip(replayed.came.iter().zip(&replayed.ended));
    let mut numbered = ios.enumerate();
    numbered.find_map(|(number, (io, (came, ended)))| {
        let same = io.at() == *came && io.completed().is_none_or(|at| at == *ended);
        (!same).then(|| format!("I/O {number}: {io:?} came {came} and ended {ended}"))
    })
}

fn device(name: &str) -> Description {
    catalog::by_name(name).expect("a device").expect("a sound one")
}

/// One job: (kind, block, depth, computing, more).
fn job(
    (rw, block, depth, think, more): (usize, usize, usize, usize, usize),
    number: usize,
) -> String {
    let rw = ["read", "randread", "write", "randwrite", "randrw"][rw];
    let block = ["4k", "16k", "64k", "256k", "1m"][block];
    let depth = [1, 2, 4, 16][depth];
    let engine = if depth == 1 { "psync" } else { "libaio" };
    let think = ["", "thinktime=100", "thinktime=3000\nthinktime_blocks=3"][think];
    // The first one begins at once: where a disk's platter stands depends on when.
    let later = if number == 0 { "" } else { "startdelay=20ms" };
    let more = ["", "fsync=4", later, "direct=0", "iodepth_batch=2", "numjobs=3"][more];
    format!(
        "[job{number}]\ndirect=1\nrw={rw}\nbs={block}\niodepth={depth}\nioengine={engine}\n\
         size=8m\nnumber_ios=40\nrandrepeat=1\n{think}\n{more}\n"
    )
}

fn jobs() -> impl Strategy<Value = String> {
    let one = (0..5_usize, 0..5_usize, 0..4_usize, 0..3_usize, 0..6_usize);
    prop::collection::vec(one, 1..4).prop_map(|drawn| {
        drawn.into_iter().enumerate().map(|(number, drawn)| job(drawn, number)).collect()
    })
}

const DEVICES: [&str; 5] = ["lab-disk", "hdd-7200", "ssd-870evo", "flash-card-2010", "null"];
const SCHEDULERS: [&str; 6] = ["noop", "deadline", "mq-deadline", "kyber", "cfq", "bfq"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// I2 of the inference, and the open loop: does everything come and end when it was recorded,
    /// on the same device under the same scheduler, in both manners?
    #[test]
    fn the_same_device_does_the_same(
        text in jobs(),
        on in 0..DEVICES.len(),
        under in 0..SCHEDULERS.len(),
    ) {
        let (device, scheduler) = (device(DEVICES[on]), SCHEDULERS[under]);
        let recording = record(&device, scheduler, &text);
        // A few buffered writes stay in memory.
        prop_assume!(recording.completions() > 0);
        for manner in [Manner::Timed, Manner::Think] {
            let replayed = play(&recording, &device, scheduler, manner);
            let difference = difference(&recording, &replayed);
            let name = manner.name();
            prop_assert_eq!(difference, None, "{} under {} on {}", name, scheduler, DEVICES[on]);
        }
    }
}
