// SPDX-License-Identifier: MIT OR Apache-2.0
//! The elevators, by name.

mod adaptive;
mod bfq;
mod cfq;
#[cfg(feature = "conformance")]
#[doc(hidden)]
pub mod conformance;
mod deadline;
mod kyber;
mod mq_deadline;
mod noop;

use alloc::boxed::Box;

pub use adaptive::Paternoster;
pub use bfq::Bfq;
pub use cfq::Cfq;
pub use deadline::Deadline;
pub use kyber::Kyber;
pub use mq_deadline::MqDeadline;
pub use noop::Noop;

pub use crate::elevator::Entry;

use crate::elevator::Elevator;

/// Every elevator, in reading order.
pub const ALL: &[Entry] = &[
    Entry {
        name: "noop",
        summary: "first come, first served (legacy block layer)",
        make: || Box::new(Noop::new()),
    },
    Entry {
        name: "deadline",
        summary: "batches in sector order, with deadlines (legacy block layer)",
        make: || Box::new(Deadline::new()),
    },
    Entry {
        name: "mq-deadline",
        summary: "deadline for blk-mq, with classes (Linux 6.0)",
        make: || Box::new(MqDeadline::new()),
    },
    Entry {
        name: "mq-deadline-6.8",
        summary: "mq-deadline whose directions go on where they stood (Linux 6.8)",
        make: || Box::new(MqDeadline::linux_6_8()),
    },
    Entry {
        name: "kyber",
        summary: "latency targets for reads and writes, met by a short device queue (Linux 6.0)",
        make: || Box::new(Kyber::new()),
    },
    Entry {
        name: "cfq",
        summary: "a time slice for each process, by class, level and group (Linux 2.6.34)",
        make: || Box::new(Cfq::new()),
    },
    Entry {
        name: "cfq-3.6",
        summary: "cfq that idles for groups and measures think times of trees (Linux 3.6)",
        make: || Box::new(Cfq::linux_3_6()),
    },
    Entry {
        name: "cfq-4.19",
        summary: "cfq with nested groups, without queue idling on flash (Linux 4.19)",
        make: || Box::new(Cfq::linux_4_19()),
    },
    Entry {
        name: "bfq",
        summary: "a budget for each process, by weight in groups, interactive first (Linux 6.18)",
        make: || Box::new(Bfq::new()),
    },
    Entry {
        name: "bfq-4.19",
        summary: "bfq with injection by coefficient, merging on flash, too (Linux 4.19 LTS)",
        make: || Box::new(Bfq::linux_4_19()),
    },
    Entry {
        name: "paternoster",
        summary: "device time by weight, slots kept for who comes back, turns that are learned",
        make: || Box::new(Paternoster::new()),
    },
];

/// No elevator, as in blk-mq: not one of [`ALL`].
pub const NONE: Entry = Entry {
    name: "none",
    summary: "no scheduler: a request is a tag of the device (blk-mq)",
    make: || Box::new(Noop::none()),
};

/// What can be chosen: [`NONE`], then [`ALL`].
pub fn choices() -> impl Iterator<Item = &'static Entry> + Clone {
    core::iter::once(&NONE).chain(ALL)
}

/// Makes the elevator of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Elevator>> {
    choices().find(|entry| entry.name == name).map(|entry| (entry.make)())
}
