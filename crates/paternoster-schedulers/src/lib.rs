// SPDX-License-Identifier: MIT OR Apache-2.0
//! The I/O schedulers of Linux, and one of our own, for the queue of `paternoster-core`.
//!
//! Each is an [`Elevator`]: it keeps the requests that wait in a queue and decides which goes to
//! the device next. They use what any elevator may use: nothing of the queue is open to them that
//! is not open to one that is written elsewhere, since the compiler lets them through only by the
//! public items of `paternoster-core`.
//!
//! ```text
//!                  paternoster-core                          this crate
//!   Bio ─▶ RequestQueue ──▶ Box<dyn Elevator> ◀── by_name("bfq"), Bfq::new(), ALL
//!            │        ▲          │
//!            ▼        └─ pick ───┘  by way of QueueView, and of what lies there for elevators:
//!          Device                   pick, observe, tree, list, slab, knob, ratio
//! ```
//!
//! ```
//! use paternoster_core::{Bio, ClientSpec, DeviceFacts, Nanos, Op, Outcome, Output, RequestQueue};
//!
//! let facts = DeviceFacts { depth: 1, ..DeviceFacts::default() };
//! let elevator = paternoster_schedulers::by_name("mq-deadline").unwrap();
//! let mut queue = RequestQueue::builder(facts, elevator).build().unwrap();
//! let now = Nanos::ZERO;
//! let client = queue.attach(now, ClientSpec::new()).unwrap();
//!
//! // Two adjacent reads of 4 KiB become one command of 8 KiB.
//! queue.submit(now, Bio::new(client, Op::Read, 0, 8).cookie(1)).unwrap();
//! queue.submit(now, Bio::new(client, Op::Read, 8, 8).cookie(2)).unwrap();
//! let Output::Issue(command) = queue.next(now) else { panic!("nothing to do") };
//! assert_eq!((command.sector, command.sectors), (0, 16));
//!
//! // The device took a millisecond; both bios end.
//! let now = Nanos::from_millis(1);
//! queue.complete(now, command.tag, Outcome::OK).unwrap();
//! assert!(matches!(queue.next(now), Output::Done(1, _)));
//! assert!(matches!(queue.next(now), Output::Done(2, _)));
//! assert!(matches!(queue.next(now), Output::Wait { until: None, .. }));
//! ```
//!
//! Capacities are fixed when a queue is built. A client that wants more than there is room for gets
//! `Busy` and sleeps; its `Wake` comes when it may try again:
//!
//! ```
//! # use paternoster_core::{Bio, ClientSpec, DeviceFacts, Limits, Nanos, Op, Outcome, Output};
//! # use paternoster_core::{RequestQueue, SubmitError};
//! let limits = Limits { bios: 16, ..Limits::default() };
//! let elevator = paternoster_schedulers::by_name("bfq").unwrap();
//! let facts = DeviceFacts::default();
//! let mut queue = RequestQueue::builder(facts, elevator).limits(limits).build().unwrap();
//! let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
//!
//! // 20 reads, each a megabyte apart, on a device that takes 100 us for each.
//! let (mut wanted, mut done, mut sleeps, mut now) = (0, 0, false, Nanos::ZERO);
//! let mut slept = 0;
//! while done < 20 {
//!     while !sleeps && wanted < 20 {
//!         match queue.submit(now, Bio::new(client, Op::Read, wanted * 2048, 8).cookie(wanted)) {
//!             Ok(_ticket) => wanted += 1,
//!             Err(SubmitError::Busy) => (sleeps, slept) = (true, slept + 1),
//!             Err(why) => panic!("{why}"),
//!         }
//!     }
//!     match queue.next(now) {
//!         Output::Issue(command) => {
//!             now += Nanos::from_micros(100);
//!             queue.complete(now, command.tag, Outcome::OK).unwrap();
//!         }
//!         Output::Done(_cookie, outcome) => done += u32::from(outcome == Outcome::OK),
//!         Output::Wake(_client) => sleeps = false,
//!         Output::Wait { until, .. } => now = until.expect("the queue idles, and says how long"),
//!     }
//! }
//! assert!(slept >= 1, "the seventeenth finds no room");
//! ```
//!
//! # Features
//! * `audit`: that of `paternoster-core`: in debug builds queue and elevator verify their
//!   invariants in passing.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!("../README.md")]
    struct OfTheCrate;
}
#[cfg(any(test, feature = "conformance"))]
extern crate std;

mod adaptive;
mod bfq;
mod bypass;
mod cfq;
#[cfg(feature = "conformance")]
pub mod conformance;
mod contexts;
mod cost_model;
mod deadline;
mod kyber;
mod mq_deadline;
mod noop;
mod prefetch;
mod queue_table;

use alloc::boxed::Box;

pub use adaptive::Paternoster;
pub use bfq::Bfq;
pub use cfq::Cfq;
pub use cost_model::{CostModel, Rates};
pub use deadline::Deadline;
pub use kyber::Kyber;
pub use mq_deadline::MqDeadline;
pub use noop::Noop;

use paternoster_core::elevator::{Elevator, Entry};

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
