// SPDX-License-Identifier: MIT OR Apache-2.0
//! Torture: loads that nobody chose, on devices that nobody has, and the laws that each must obey.
//!
//! Faults of a scheduler lie where its author did not look, and so do its tests. So loads are
//! drawn:
//!
//! ```text
//! seed ──▶ draw: device, clients ──▶ bench: runs it under noop and a scheduler ──▶ laws ──▶ fault?
//!                                                                                          │
//!                          a job file, with as few clients as break the law  ◀── shrink ◀──┘
//! ```
//!
//! The kernel's schedulers have ways that are their own; a case that one of them explains is
//! *excused*, with the rule that says so, and counted ([`excuses`]). The elevator of this house has
//! no excuses.
//!
//! * [`load`]: a device and its clients; [`draw`]: the load of a seed; `device`: drawn devices.
//! * [`emulable`]: loads that a running kernel can be given as well.
//! * [`mod@bench`]: runs a load; [`mod@bounds`]: how long a client may wait; [`laws`]: what must
//!   be so.
//! * [`paternoster_workload::entitlement`]: what each client ought to have had.
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
use laws::{Fault, broken, more, promises_shares, shares, short};
use load::Load;

/// One case in so many is asked whether more weight gives less: ten runs.
const MORE_ONE_IN: u64 = 16;
/// And one in so many is run twice.
const REPEATS_ONE_IN: u64 = 4;

/// What became of a case.
#[derive(Debug)]
pub struct Case {
    /// The load.
    pub load: Load,
    /// The scheduler, with its attributes.
    pub scheduler: String,
    /// How long it was run.
    pub seconds: f64,
    /// What it gave.
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

/// The least load under which `scheduler` breaks the law that it breaks under `load`: with as many
/// clients less as can be.
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
