// SPDX-License-Identifier: MIT OR Apache-2.0
//! Torture: random loads, on imaginary devices, and the laws that each run must obey.
//!
//! A scheduler's faults are where its author did not look, and its author's tests do not look there
//! either. So loads are drawn:
//!
//! ```text
//! seed ──▶ draw: device, clients ──▶ bench: runs it under noop and a scheduler ──▶ laws ──▶ fault?
//!                                                                                          │
//!                          a job file, with as few clients as break the law  ◀── shrink ◀──┘
//! ```
//!
//! The kernel's schedulers break some laws by design; a case that such a rule explains is
//! *excused*, with the rule, and counted ([`excuses`]). Our own elevator has no excuses.
//!
//! * [`load`]: a device and its clients; [`draw`]: the load of a seed; `device`: drawn devices.
//! * [`emulable`]: loads that can also run on a real kernel.
//! * [`mod@bench`]: runs a load; [`mod@bounds`]: how long a client may wait; [`laws`]: what must
//!   hold.
//! * [`paternoster_workload::entitlement`]: what each client should have got.
#![forbid(unsafe_code)]

pub mod bench;
pub mod bounds;
mod device;
pub mod draw;
pub mod emulable;
pub mod excuses;
pub mod laws;
pub mod load;

use bench::{Bench, Given};
use bounds::{Bounds, bounds};
use laws::{Fault, broken, classes, more, promises_classes, promises_shares, shares, short};
use load::Load;

/// One case in this many also checks whether more weight gives less: ten runs.
const MORE_ONE_IN: u64 = 16;
/// And one in this many is run twice.
const REPEATS_ONE_IN: u64 = 4;

/// The result of a case.
#[derive(Debug)]
pub struct Case {
    /// The load.
    pub load: Load,
    /// The scheduler, with its attributes.
    pub scheduler: String,
    /// Length of the run in seconds.
    pub seconds: f64,
    /// What the clients got.
    pub given: Given,
    /// What is wrong, if anything is.
    pub fault: Option<Fault>,
    /// The most that a client misses of what it is entitled to, where shares are promised.
    pub missed: Option<f64>,
}

/// Judges one load under one scheduler by all laws.
pub fn judge(bench: &mut Bench, load: &Load, scheduler: &str, within: &Bounds) -> Case {
    let given = bench.run(load, scheduler, within.seconds);
    let mut fault = broken(load, scheduler, &given, within);
    let mut missed = None;
    if promises_shares(scheduler) {
        let all = shares(bench, load, &given);
        missed = all.iter().map(|&(_, missed)| missed).reduce(f64::max);
        fault = fault.or_else(|| short(&all));
    }
    if fault.is_none() && promises_classes(scheduler) {
        fault = classes(bench, load, scheduler, (&given, within.seconds));
    }
    if fault.is_none() && load.seed.is_multiple_of(REPEATS_ONE_IN) {
        let again = bench.run(load, scheduler, within.seconds);
        fault = (again != given).then_some(Fault::Differs);
    }
    let weighs = promises_shares(scheduler) && load.seed.is_multiple_of(MORE_ONE_IN);
    if fault.is_none() && weighs {
        fault = more(bench, load, scheduler, within.seconds);
    }
    let (load, scheduler, seconds) = (load.clone(), scheduler.to_owned(), within.seconds);
    Case { load, scheduler, seconds, given, fault, missed }
}

/// The smallest load under which `scheduler` still breaks the law that it breaks under `load`: as
/// many clients as possible are left out.
pub fn shrink(bench: &mut Bench, load: &Load, scheduler: &str, law: &str) -> Load {
    let mut least = load.clone();
    let mut place = 0;
    while least.clients.len() > 1 && place < least.clients.len() {
        let less = least.without(place);
        let within = bounds(bench, &less);
        let case = judge(bench, &less, scheduler, &within);
        if case.fault.is_some_and(|fault| fault.law() == law) {
            least = less;
        } else {
            place += 1;
        }
    }
    least
}
