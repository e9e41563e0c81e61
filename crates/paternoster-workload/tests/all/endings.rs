// SPDX-License-Identifier: MIT OR Apache-2.0
//! How runs end, and what is told of those that have not ended yet.

use std::sync::Arc;

use paternoster_core::{Nanos, NoObserver};
use paternoster_sim::{Simulated, catalog};
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::recorded::Recorded;
use paternoster_workload::{RunError, RunResult, Settings, Watcher, run};

use crate::common::jobs_of;

/// Keeps interim results; stops the run at a time if it is told to.
#[derive(Default)]
struct Interim {
    told: Vec<RunResult>,
    stops_after: Option<usize>,
}

impl Watcher for Interim {
    fn status(&mut self, result: &RunResult) {
        self.told.push(result.clone());
    }

    fn stops(&mut self) -> bool {
        self.stops_after.is_some_and(|reports| self.told.len() >= reports)
    }
}

/// Runs jobs on an SSD, told of each half second.
fn ran(jobs: &[Job], watcher: &mut Interim) -> RunResult {
    let device = catalog::by_name("ssd-870evo").expect("it is known").expect("it is sound");
    let status_interval = Some(Nanos::from_millis(500));
    let settings = Settings { submit_cost: Nanos(1), status_interval, ..Settings::default() };
    let elevator = paternoster_schedulers::by_name("noop").expect("it is known");
    let mut model = Simulated::new(device.model());
    let done: Result<_, RunError> =
        run(jobs, &settings, &mut model, elevator, NoObserver, |_| Ok(()), watcher);
    done.unwrap_or_else(|error| panic!("{error}")).0
}

/// Does a log without I/O end with its first pass, on the stack that a test has, whatever `loops`
/// says? One that was read, and one of which `replay_skip` leaves nothing.
#[test]
fn a_log_without_io_ends() {
    let log = "fio version 3 iolog\n0 a add\n0 a open\n0 a read 0 4096\n0 a close\n";
    for (log, more) in [("fio version 3 iolog\n", ""), (log, "replay_skip=read\n")] {
        let text = format!("[a]\nread_iolog=e.log\nloops=1000000\nrw=read\n{more}");
        let mut jobs = jobs_of(&text).expect("a sound job file").jobs;
        let log = Recorded::read("e.log", log.as_bytes(), &jobs[0].replay).expect("a sound log");
        jobs[0].recorded = vec![Arc::new(log)];
        let result = ran(&jobs, &mut Interim::default());
        assert_eq!(result.processes[0].statistics.ios(), 0);
        assert_eq!(result.processes[0].error, 0);
    }
}

/// Is the device time of processes that still run told, from the end of their ramp on, in interim
/// results and where the run is stopped? What a and b have adds up to the busy time, of which b has
/// three parts of four. c is told from 1 s on.
#[test]
fn device_time_of_running_processes() {
    let text = "[global]\ndirect=1\nioengine=psync\nrw=randread\nbs=4k\nsize=1g\nnorandommap\n\
                time_based\nruntime=3\n[a]\n[b]\nioengine=libaio\niodepth=3\n";
    for stops_after in [None, Some(2)] {
        let jobs = jobs_of(text).expect("a sound job file").jobs;
        let mut watcher = Interim { stops_after, ..Interim::default() };
        let last = ran(&jobs, &mut watcher);
        assert_eq!(stops_after.is_some(), last.ended < Nanos::from_millis(1_100));
        for result in watcher.told.iter().chain([&last]) {
            let served: Vec<Nanos> = result.processes.iter().map(|one| one.served).collect();
            let sum = served[0] + served[1];
            // What is inside has had its time, but nothing tells that yet.
            assert!(sum <= result.device.busy, "{served:?} of {:?}", result.device.busy);
            assert!(result.device.busy - sum < Nanos::from_millis(1), "{served:?}");
            assert!(served[1] > served[0] + served[0] && served[0] > Nanos::ZERO, "{served:?}");
        }
    }
    let text = format!("{text}[c]\nramp_time=1\n");
    let mut watcher = Interim::default();
    ran(&jobs_of(&text).expect("a sound job file").jobs, &mut watcher);
    let had: Vec<Nanos> = watcher.told.iter().map(|result| result.processes[2].served).collect();
    assert_eq!(had[0], Nanos::ZERO);
    assert!(had[2] > Nanos::ZERO && had.is_sorted(), "{had:?}");
}
