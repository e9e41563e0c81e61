// SPDX-License-Identifier: MIT OR Apache-2.0
//! Excuses: ways of the kernel's schedulers that break a law, with the rule that says so.
//!
//! An excuse names a scheduler, a law and the rule; a case that it fits is counted beside it and
//! not taken for a fault. Where there is neither a rule nor a recorded run of a kernel there is no
//! excuse, and `paternoster` has none.

use crate::laws::Fault;
use crate::load::{Class, Load};

/// A rule that explains why a law is broken.
#[derive(Debug, Clone, Copy)]
pub struct Excuse {
    /// How the scheduler's name begins.
    pub scheduler: &'static str,
    /// The law.
    pub law: &'static str,
    /// In words, with its source.
    pub rule: &'static str,
    /// Whether it is about loads like this one.
    applies: fn(&Load) -> bool,
}

const fn always(_: &Load) -> bool {
    true
}

fn has_classes(load: &Load) -> bool {
    load.clients.iter().any(|client| client.class != Class::BestEffort)
}

fn has_writers(load: &Load) -> bool {
    load.clients.iter().any(|client| client.kind.rw.contains("write") || client.kind.rw == "randrw")
}

/// All of them.
pub const ALL: &[Excuse] = &[
    Excuse {
        scheduler: "mq-deadline",
        law: "waits",
        rule: "mq-deadline: a lower class waits for prio_aging_expire, 10 s",
        applies: has_classes,
    },
    Excuse {
        scheduler: "deadline",
        law: "waits",
        rule: "deadline: readers pass writers for write_expire, 5 s, and batches behind it",
        applies: has_writers,
    },
    Excuse {
        scheduler: "bfq",
        law: "waits",
        rule: "BFQ-100: a raised queue is served before all others for seconds",
        applies: always,
    },
    Excuse {
        scheduler: "bfq",
        law: "equals",
        rule: "BFQ-100: of clients alike one is raised, another is not",
        applies: always,
    },
    Excuse {
        scheduler: "bfq",
        law: "shares",
        rule: "BFQ-100 and injection: raised queues and injected requests are not weighed",
        applies: always,
    },
    Excuse {
        scheduler: "cfq",
        law: "waits",
        rule: "CFQ-68: of ten recorded readers six had 2 % of the rate of two",
        applies: always,
    },
    Excuse {
        scheduler: "cfq",
        law: "equals",
        rule: "CFQ-68: preemption among equals",
        applies: always,
    },
    Excuse {
        scheduler: "cfq",
        law: "shares",
        rule: "cfq: slices are of time, and queues that do not idle share one tree",
        applies: always,
    },
];

/// The first excuse that fits.
#[must_use]
pub fn excuse(load: &Load, scheduler: &str, fault: &Fault) -> Option<&'static Excuse> {
    ALL.iter().find(|excuse| {
        scheduler.starts_with(excuse.scheduler)
            && excuse.law == fault.law()
            && (excuse.applies)(load)
    })
}
