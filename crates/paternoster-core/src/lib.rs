// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block layer in user space, without I/O of its own.
//!
//! The journey of a request: a client submits a [`Bio`]; the [`RequestQueue`] merges it with its
//! neighbours or gives it a request of its own; an [`Elevator`] decides when that request goes to
//! the device as a [`Command`]; at its end the bio comes back. Time is an argument of every call,
//! so that the same code runs in virtual time on a model and in real time before a real device.
//!
//! ```
//! use paternoster_core::{Bio, ClientSpec, DeviceFacts, Nanos, Op, Outcome, Output};
//! use paternoster_core::{RequestQueue, elevators};
//!
//! let facts = DeviceFacts { depth: 1, ..DeviceFacts::default() };
//! let elevator = elevators::by_name("mq-deadline").unwrap();
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
//! # use paternoster_core::{RequestQueue, SubmitError, elevators};
//! let limits = Limits { bios: 16, ..Limits::default() };
//! let elevator = elevators::by_name("bfq").unwrap();
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
//! # Modules
//! * [`RequestQueue`]: the interface. Its parts: merging, plugs, allocation, dispatch list, flush,
//!   attributes.
//! * [`elevator`]: what a scheduler sees and answers; [`elevators`]: the existing ones.
//! * [`pick`]: the data structures with which several schedulers choose; [`observe`]: what they
//!   measure.
//! * [`tree`], [`list`], [`slab`]: containers that do not allocate after construction.
//! * [`event`]: the stream from which figures and traces are made.
//!
//! # Features
//! * `audit`: in debug builds the queue and its elevator verify their invariants automatically,
//!   many times slower; for testing your own elevator. [`RequestQueue::audit`] does it on request,
//!   in any build.
//! * `testing`: an elevator without a queue, in a view whose time, clients and requests a test makes
//!   (the module `testing`).
//!
//! # What one queue on one thread cannot model
//! BLK-13 (which CPU completes), the per-queue parts of BLK-8 (shared tag sets, several hardware
//! queues), and BLK-9's choice between batch sizes: a caller pulls one command at a time, so there
//! is no batch whose size could be chosen; its retry after a refusal is included.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!("../README.md")]
    struct OfTheCrate;
    #[doc = include_str!("../../../README.md")]
    struct OfTheProject;
}
#[cfg(any(test, feature = "conformance"))]
extern crate std;

mod answer;
pub mod attribute;
mod bio_slot;
mod block;
mod builder;
mod client;
pub mod device;
pub mod elevator;
pub mod elevators;
pub mod event;
mod flush;
mod inspect;
pub mod knob;
pub mod list;
#[doc(hidden)]
pub mod near;
pub mod observe;
pub mod pick;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod positions;
mod queue;
mod queue_view;
pub mod ratio;
mod request;
pub mod slab;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
pub mod tree;

pub use answer::{Output, Stale, SubmitError, Waiting};
pub use attribute::{Attribute, AttributeError, Value, Values};
pub use builder::{BuildError, Builder};
pub use client::{Class, Client, ClientId, ClientSpec, Group, GroupId, GroupSpec, Priority};
pub use device::{Command, Completion, Device, DeviceFacts, Outcome, Refused, Status, Tag};
pub use elevator::Elevator;
pub use event::{
    Action, Distrust, Event, Expiry, NoObserver, Note, NoteKind, Observer, Preemption,
};
pub use inspect::{AUDITS, Explanation};
pub use knob::Knob;
pub use queue::RequestQueue;
pub use queue::attributes::QUEUE_ATTRIBUTES;
pub use queue::lifecycle::{AddError, CancelError, InUse};
pub use queue_view::{InDevice, Limits, Ncq, QueueView};
pub use request::{Bio, Cookie, Flags, Op, Request, RequestId, Stage, Ticket, is_sync};
pub use time::{Hz, Nanos};

/// What [`QueueView`] was called.
#[deprecated(since = "0.1.0", note = "it is `QueueView` now")]
pub type Scene = QueueView;
