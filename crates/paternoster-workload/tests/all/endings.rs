// SPDX-License-Identifier: MIT OR Apache-2.0
//! How runs end.

use std::sync::Arc;

use paternoster_core::{Nanos, NoObserver};
use paternoster_sim::{Simulated, catalog};
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::recorded::Recorded;
use paternoster_workload::{NoWatcher, RunError, RunResult, Settings, Watcher, run};

use crate::common::jobs_of;

/// Runs jobs on an SSD.
fn ran(jobs: &[Job], watcher: &mut dyn Watcher) -> RunResult {
    let device = catalog::by_name("ssd-870evo").expect("it is known").expect("it is sound");
    let settings = Settings { submit_cost: Nanos(1), ..Settings::default() };
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
        let result = ran(&jobs, &mut NoWatcher);
        assert_eq!(result.processes[0].statistics.ios(), 0);
        assert_eq!(result.processes[0].error, 0);
    }
}
