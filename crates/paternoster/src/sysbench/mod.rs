// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster sysbench`: sysbench's test `fileio`, with its own options and in its own words.
//!
//! ```text
//! sysbench fileio OPTIONS run        a run on a fresh device under each scheduler
//!                         prepare    nothing: a run begins with its files in place
//!                         cleanup    nothing: they are gone when it ends
//! ```
//!
//! `options.rs` reads the request, `tell.rs` prints the results. Experiments that want more than
//! the figures of `reproduce/measure.rs` call [`one`].

mod options;
mod tell;

use paternoster_core::Observer;
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::setting::Setting;
use paternoster_frame::target::Target;
use paternoster_frame::{Failure, print};
use paternoster_workload::builtin::sysbench::{Sysbench, Totals};
use paternoster_workload::fio::job::Job;
use paternoster_workload::layout;
use paternoster_workload::run::{RunResult, Settings};

use crate::evidence::{Evidence, Which};
use crate::plot::clients;

use options::{Command, LINES_MAX, command};
pub(crate) use options::{SysbenchOptions, asked};
use tell::Done;

pub(crate) fn sysbench(options: &SysbenchOptions) -> Result<(), Failure> {
    match command(options)? {
        Command::Prepare => {
            return print(
                "Nothing to prepare: the files are laid out on the modelled device when `run` \
                 begins.\n",
            );
        }
        Command::Cleanup => {
            return print("Nothing to clean up: the files end with the `run` that had them.\n");
        }
        Command::Run => {}
    }
    let sysbench = asked(options)?;
    let setting = Setting::new(&options.setting, None)?;
    let mut evidence = Evidence::new(&options.setting)?;
    for device in &setting.devices {
        for scheduler in &setting.schedulers {
            setting.check(&[], device, scheduler)?;
        }
    }
    let mut all = Vec::new();
    for device in &setting.devices {
        for scheduler in &setting.schedulers {
            let (mut lines, mut told, mut before) = (String::new(), 0, None);
            let mut status = |totals: Totals| {
                let since = match before.take() {
                    Some(before) => totals.clone().since(&before),
                    None => totals.clone(),
                };
                // A test without a time may take long.
                told += 1;
                if told <= LINES_MAX {
                    lines.push_str(&sysbench.interim(totals.time, &since));
                }
                before = Some(totals);
            };
            let on = (&setting, device, scheduler);
            let setting = &setting;
            let which = Which { setting, device, scheduler, more: "" };
            let run_observer = evidence.run_observer(which, clients(&sysbench.jobs()))?;
            let (totals, _, run_observer) = one(on, &sysbench, run_observer, &mut status)?;
            evidence.keep(which, run_observer)?;
            let (device, scheduler) = (&*device.name, &*scheduler.text);
            all.push(Done { sysbench: &sysbench, device, scheduler, lines, totals });
        }
    }
    tell::tell(options.output_format, setting.seed(), &all)?;
    evidence.write(&setting.subject(&format!("sysbench {}", sysbench.mode.name())))
}

/// One run on a fresh device under one scheduler. `status` gets the totals so far in every report
/// interval.
///
/// # Errors
/// The files do not fit on the device, or a thread fails.
pub(crate) fn one<O: Observer + 'static>(
    (setting, device, scheduler): (&Setting, &Target, &SchedulerChoice),
    sysbench: &Sysbench,
    observer: O,
    status: &mut dyn FnMut(Totals),
) -> Result<(Totals, RunResult, O), Failure> {
    let jobs: Vec<Job> = sysbench.jobs();
    let Settings { placement, seed, .. } = setting.on(device);
    layout::plan(&jobs, device.facts.capacity * 512, placement, seed).map_err(|_| {
        let (total, name, room) = (sysbench.total, &device.name, device.facts.capacity * 512);
        Failure::Request(format!(
            "--file-total-size={total}: {name} has {room} bytes, too few for these files; make it \
             smaller"
        ))
    })?;
    let mut tell = |result: &RunResult| status(Totals::of(result));
    let (result, observer, _) = setting.run(&jobs, device, scheduler, observer, &mut tell)?;
    match result.processes.iter().find(|process| process.error != 0) {
        None => Ok((Totals::of(&result), result, observer)),
        Some(failed) => {
            let (thread, errno) = (failed.clone, failed.error);
            Err(Failure::Job(format!("sysbench: thread {thread} failed with errno {errno}")))
        }
    }
}
