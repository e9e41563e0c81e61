// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process measures that sleeps for a request: Little's law, as fio sees it.
//!
//! A process of `iodepth` 64 on a queue of few requests sleeps in its submissions. What ends
//! meanwhile it reaps later: one I/O after each submission, the oldest first. So by its latencies
//! it has `iodepth` I/Os in flight all the time, however many the queue has:
//!
//! ```text
//! 64 requests, 32 in the device, 667 I/Os a second each of two processes of depth 64
//!   in the block layer    64 / 1333 = 48 ms
//!   as fio measures it    64 /  667 = 96 ms          real fio on Linux 6.18: 99 ms
//! ```
//!
//! Source: FIO-59; `paternoster versus-kernel jobs/found/deep-writers.fio`, `nr_requests=64`.

use paternoster_core::{Nanos, NoObserver, Value};
use paternoster_sim::{Description, Simulated, catalog};
use paternoster_workload::run::{ProcessResult, RunResult, Settings};
use paternoster_workload::{NoWatcher, Queue, RunError, run};
use proptest::prelude::*;

use crate::common::jobs_of;

const SECONDS: u32 = 20;

#[derive(Debug, Clone)]
struct Case {
    device: &'static str,
    scheduler: &'static str,
    engine: &'static str,
    rw: &'static str,
    requests: u64,
    depths: Vec<u32>,
}

fn cases() -> impl Strategy<Value = Case> {
    (
        prop::sample::select(vec!["flash-card-2010", "lab-disk", "hdd-7200"]),
        prop::sample::select(vec!["noop", "mq-deadline", "bfq", "cfq", "paternoster"]),
        prop::sample::select(vec!["libaio", "io_uring"]),
        prop::sample::select(vec!["randread", "randwrite"]),
        4u64..=64,
        prop::collection::vec(1u32..=64, 1..=3),
    )
        .prop_map(|(device, scheduler, engine, rw, requests, depths)| Case {
            device,
            scheduler,
            engine,
            rw,
            requests,
            depths,
        })
}

/// What the jobs of `text` measure on a queue of so many requests.
fn measured(
    text: &str,
    device: &Description,
    scheduler: &str,
    requests: u64,
    reaps: bool,
) -> RunResult {
    let jobs = jobs_of(text).expect("a sound job file").jobs;
    let elevator = paternoster_schedulers::by_name(scheduler).expect("it is known");
    let mut model = Simulated::new(device.model());
    let prepare = |queue: &mut Queue| {
        let requests = Value::from(requests);
        queue.set_value(Nanos::ZERO, "nr_requests", requests).expect("a sound number");
        Ok(())
    };
    let settings = Settings { reaps, ..Settings::default() };
    let done: Result<_, RunError> =
        run(&jobs, &settings, &mut model, elevator, NoObserver, prepare, &mut NoWatcher);
    done.unwrap_or_else(|error| panic!("{error}")).0
}

/// Do latencies of two deep writers end at the reaping, and their I/Os when they end? 32 servers of
/// 24.08 ms (24 ms and 8 KiB at 100 MB/s) do 1329 I/Os a second. mq-deadline gives writes 3/4 of 64
/// requests, and one more I/O of each writer sleeps: (48 + 2) / 1329 = 37.6 ms. By fio 64 I/Os of
/// each writer are in flight, which are 64 divided by its rate: 96.3 ms if both have the same.
#[test]
fn fio_59_latencies_end_at_the_reaping() {
    let text = "[global]\nioengine=libaio\ndirect=1\nrw=randwrite\nbs=8k\niodepth=64\nsize=1g\n\
                time_based\nramp_time=2\nruntime=20\n[one]\n[two]\n";
    let device = "name = \"flash\"\nmodel = \"linear\"\nsummary = \"32 servers\"\n\
        valid = \"arithmetic\"\n[facts]\n\
        capacity = { value = \"4 GiB\", source = \"chosen\" }\n\
        depth = { value = 32, source = \"chosen\" }\n\
        rotational = { value = false, source = \"chosen\" }\n[linear]\n\
        servers = { value = 32, source = \"chosen\" }\n\
        base = { value = \"24 ms\", source = \"chosen\" }\n\
        rate = { value = \"100 MB/s\", source = \"chosen\" }\n";
    let device = Description::parse("flash.toml", device).expect("a sound description");
    let told = |reaps| {
        let result = measured(text, &device, "mq-deadline", 64, reaps);
        let tell = |process: &ProcessResult| {
            let all = process.statistics.mixed();
            (all.ios(), all.total().mean() / 1e6)
        };
        result.processes.iter().map(tell).collect::<Vec<_>>()
    };
    let (by_end, by_reaping) = (told(false), told(true));
    let (mut all, mut waited) = (0.0, 0.0);
    for ((ios, by_end), (same, by_reaping)) in by_end.into_iter().zip(by_reaping) {
        assert_eq!(ios, same);
        let ios = ios as f64;
        let fios = 64.0 * 20_000.0 / ios;
        assert!((0.99..1.01).contains(&(by_reaping / fios)), "{by_reaping} for {fios}");
        (all, waited) = (all + ios, waited + by_end * ios);
    }
    assert!((26_500.0..26_700.0).contains(&all), "{all} for 20 * 1329 = 26 580");
    assert!((37.2..38.0).contains(&(waited / all)), "{}", waited / all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Is the mean number of I/Os in flight, as their latencies say it, the depth of their job? At
    /// both ends of what is measured a longest latency is cut, and the one that is being submitted
    /// may count or not.
    #[test]
    fn latencies_are_those_of_iodepth_in_flight(case in cases()) {
        let mut text = format!(
            "[global]\ndirect=1\nsize=256m\nbs=4k\ntime_based\nnorandommap\nrw={}\nioengine={}\n\
             ramp_time=2\nruntime={SECONDS}\n",
            case.rw, case.engine
        );
        for (number, depth) in case.depths.iter().enumerate() {
            text += &format!("[process{number}]\niodepth={depth}\n");
        }
        let device = catalog::by_name(case.device).expect("it is known").expect("it is sound");
        let result = measured(&text, &device, case.scheduler, case.requests, true);
        let by_end = measured(&text, &device, case.scheduler, case.requests, false);
        for (one, other) in result.processes.iter().zip(&by_end.processes) {
            let ended = |process: &ProcessResult| process.statistics.mixed().ios();
            prop_assert_eq!(ended(one), ended(other));
        }
        for (process, depth) in result.processes.iter().zip(&case.depths) {
            let mixed = process.statistics.mixed();
            let total = mixed.total();
            if total.n() == 0 {
                continue;
            }
            let runtime = process.statistics.runtime().0 as f64;
            let in_flight = total.mean() * total.n() as f64 / runtime;
            let cut = f64::from(*depth) * 2.0 * total.max().0 as f64 / runtime;
            let least = f64::from(*depth) - cut - 1.0;
            let most = f64::from(*depth) + cut + 1.0;
            prop_assert!(
                (least..=most).contains(&in_flight),
                "depth {depth}: {in_flight:.1} in flight, {least:.1} to {most:.1}"
            );
        }
    }
}
