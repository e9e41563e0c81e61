// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same processes in the simulator, counted.
//!
//! The device is the model that served the kernel, plus what the emulation added to it:
//!
//! ```text
//! disk    128 KiB that continue   100 us + 874 us = 974 us    the log says 1111 (median D to C)
//!         4 KiB elsewhere         100 + 8000 + 27 = 8127                   8286
//! flash   4 KiB                   1640                                     1757
//! C to Q, Q to D          disk 42 and 70 us, flash 33 and 12: from an answer to the next request
//! ```

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use paternoster_core::{Action, Event, Expiry, Nanos, Note, Observer};
use paternoster_sim::{Description, Simulated};
use paternoster_workload::Queue;
use paternoster_workload::fio::jobfile::{JobFile, Source, parse};
use paternoster_workload::run::{NoWatcher, RunError, Settings};

use super::figures::Figures;

/// A modelled device of the recordings.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Device {
    /// One server, 100 us, 8 ms if not contiguous, 150 MB/s; driver depth 4.
    Disk,
    /// 32 servers of 1.64 ms; driver depth 32.
    Flash,
}

impl Device {
    /// From a completion to the next request in the device.
    const fn returns(self) -> Nanos {
        match self {
            Device::Disk => Nanos::from_micros(110),
            Device::Flash => Nanos::from_micros(45),
        }
    }

    fn description(self) -> Description {
        let (depth, rotational, servers, base, rate, penalty) = match self {
            Device::Disk => (4, true, 1, 200, "150 MB/s", 8000),
            Device::Flash => (32, false, 32, 1740, "100000 MB/s", 0),
        };
        let text = format!(
            "name = \"recorded\"\nmodel = \"linear\"\nsummary = \"s\"\nvalid = \"v\"\n\
             [facts]\n\
             capacity = {{ value = \"8 GiB\", source = \"recorded\" }}\n\
             depth = {{ value = {depth}, source = \"recorded\" }}\n\
             rotational = {{ value = {rotational}, source = \"recorded\" }}\n\
             [linear]\n\
             servers = {{ value = {servers}, source = \"recorded\" }}\n\
             base = {{ value = \"{base} us\", source = \"recorded, with the emulation's\" }}\n\
             rate = {{ value = \"{rate}\", source = \"recorded\" }}\n\
             penalty = {{ value = \"{penalty} us\", source = \"recorded\" }}\n"
        );
        Description::parse("recorded.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Half of the requests take this much longer, at random, so that processes do not stay in step.
const LONGER: &str = "delay probability=0.5 time=100us";

/// Counts what happens between two times.
#[derive(Debug, Clone)]
struct Counter {
    from: Nanos,
    to: Nanos,
    began: Option<Nanos>,
    figures: Rc<RefCell<Figures>>,
}

impl Counter {
    fn counts(&self, at: Nanos) -> bool {
        at >= self.from && at < self.to
    }
}

impl Observer for Counter {
    fn event(&mut self, event: &Event) {
        if event.action == Action::Queue && self.counts(event.at) {
            let mut figures = self.figures.borrow_mut();
            let sectors = figures.sectors.entry(event.client.index()).or_default();
            *sectors += u64::from(event.sectors);
        }
    }

    fn note(&mut self, at: Nanos, _: u64, note: &Note) {
        match note {
            Note::BudgetGranted { .. } => self.began = Some(at),
            Note::Expired { why, .. } => {
                let began = self.began.take().unwrap_or(at);
                if self.counts(at) {
                    let reason = match why {
                        Expiry::TooIdle => 0,
                        Expiry::BudgetTimeout => 1,
                        Expiry::BudgetExhausted => 2,
                        Expiry::NoMoreRequests => 3,
                        Expiry::Preempted => 4,
                    };
                    let lasted = Duration::from_nanos((at - began).0);
                    self.figures.borrow_mut().turn_ends(lasted, reason);
                }
            }
            _ => {}
        }
    }
}

fn job_file(jobs: &str, seconds: u64) -> JobFile {
    let global = "direct=1\nioengine=psync\nfilename=/dev/disk\nsize=6g\nnorandommap";
    let text = format!("[global]\n{global}\ntime_based\nruntime={seconds}\n{jobs}");
    let source = Source { name: "job", text: &text };
    parse(&[source], &[], &[], &|_| None, &|_, _| Err(String::new()))
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// What happens between `from` and `to`.
pub(crate) fn figures(
    jobs: &str,
    device: Device,
    attributes: &[(&str, &str)],
    (from, to): (Duration, Duration),
    seed: u64,
) -> Figures {
    let file = job_file(jobs, to.as_secs() + 1);
    let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).expect("seconds"));
    let figures = Rc::new(RefCell::new(Figures::default()));
    let counter =
        Counter { from: nanos(from), to: nanos(to), began: None, figures: Rc::clone(&figures) };
    let prepare = |queue: &mut Queue| {
        let fixed = [("ncq", "probe"), ("hz", "250"), ("nr_requests", "256")];
        for (name, value) in fixed.iter().chain(attributes) {
            queue.set_attribute(Nanos::ZERO, name, value).expect("an attribute");
        }
        Ok::<(), RunError>(())
    };
    let settings = Settings { submit_cost: device.returns(), ..Settings::default() };
    let longer = [LONGER.parse().expect("a rule")];
    let mut device = Simulated::new(device.description().faulty_model(&longer, seed));
    let elevator = paternoster_schedulers::by_name("bfq").expect("bfq");
    let watcher = &mut NoWatcher;
    paternoster_workload::run(
        &file.jobs,
        &settings,
        &mut device,
        elevator,
        counter,
        prepare,
        watcher,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    figures.take()
}
