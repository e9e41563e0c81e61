// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process measures that sleeps for a request: Little's law, as fio sees it.
//!
//! A process of `iodepth` 64 on a queue of few requests sleeps in its submissions. What ends
//! meanwhile it takes back later: one I/O whenever its depth is full, behind each submission, the
//! oldest first. So it has `iodepth` I/Os in flight all the time, whatever the queue has of them:
//!
//! ```text
//! 64 requests, 32 in the device, 667 I/Os a second each of two processes of depth 64
//!   in the block layer    64 / 1333 = 48 ms
//!   as fio measures it    64 /  667 = 96 ms          real fio on Linux 6.18: 99 ms
//! ```
//!
//! Source: FIO-53; `paternoster versus-kernel jobs/found/deep-writers.fio`, `nr_requests=64`.

use paternoster_core::{Nanos, NoObserver, Value};
use paternoster_sim::{Simulated, catalog};
use paternoster_workload::run::Settings;
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
        let jobs = jobs_of(&text).expect("a sound job file").jobs;
        let device = catalog::by_name(case.device).expect("it is known").expect("it is sound");
        let elevator = paternoster_schedulers::by_name(case.scheduler).expect("it is known");
        let mut model = Simulated::new(device.model());
        let prepare = |queue: &mut Queue| {
            let requests = Value::from(case.requests);
            queue.set_value(Nanos::ZERO, "nr_requests", requests).expect("a sound number");
            Ok(())
        };
        let settings = Settings::default();
        let done: Result<_, RunError> =
            run(&jobs, &settings, &mut model, elevator, NoObserver, prepare, &mut NoWatcher);
        let (result, ..) = done.unwrap_or_else(|error| panic!("{error}"));
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
