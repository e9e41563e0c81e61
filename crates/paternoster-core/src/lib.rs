// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block layer in user space, without I/O of its own.
//!
//! The journey of a request: a client submits a [`Bio`]; the [`RequestQueue`] merges it with its
//! neighbours or gives it a request of its own; an [`Elevator`] decides when that request goes to
//! the device as a [`Command`]; at its end the bio comes back. Time is an argument of every call,
//! so that the same code runs in virtual time on a model and in real time before a real device.
//!
//! The schedulers of Linux, and one of our own, are in the crate `paternoster-schedulers`. An
//! elevator of one's own is as good as they are; this one serves first what came first:
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use paternoster_core::elevator::{Elevator, Pick, Place, Position, Traits};
//! use paternoster_core::{Bio, ClientSpec, DeviceFacts, Nanos, Op, Outcome, Output};
//! use paternoster_core::{QueueView, RequestId, RequestQueue};
//!
//! #[derive(Debug, Default)]
//! struct Fifo(VecDeque<RequestId>);
//!
//! impl Elevator for Fifo {
//!     fn traits(&self) -> Traits {
//!         Traits::mq("fifo")
//!     }
//!     fn attach(&mut self, view: &mut QueueView) {
//!         self.0.reserve(view.request_slots() as usize);
//!     }
//!     fn insert(&mut self, _: &mut QueueView, request: RequestId, at: Position) {
//!         match at {
//!             Position::Sorted => self.0.push_back(request),
//!             Position::Head => self.0.push_front(request),
//!         }
//!     }
//!     fn pick(&mut self, _: &mut QueueView) -> Pick {
//!         let first = self.0.pop_front();
//!         first.map_or(Pick::Nothing, |request| Pick::Dispatch(request, Place::Tail))
//!     }
//!     fn removed(&mut self, _: &mut QueueView, request: RequestId) {
//!         self.0.retain(|&other| other != request);
//!     }
//!     fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
//!         self.0.pop_front()
//!     }
//!     fn waiting(&self) -> u32 {
//!         self.0.len() as u32
//!     }
//! }
//!
//! let facts = DeviceFacts { depth: 1, ..DeviceFacts::default() };
//! let mut queue = RequestQueue::builder(facts, Box::new(Fifo::default())).build().unwrap();
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
//! `Busy` and sleeps; its `Wake` comes when it may try again.
//!
//! # Modules
//! * [`RequestQueue`]: the interface. Its parts: merging, plugs, allocation, dispatch list, flush,
//!   attributes.
//! * [`elevator`]: what a scheduler sees and answers.
//! * [`pick`]: the data structures with which several schedulers choose; [`observe`]: what they
//!   measure; [`ratio`]: what a share of a share is.
//! * [`tree`], [`list`], [`slab`]: containers that do not allocate after construction.
//! * [`event`]: the stream from which figures and traces are made.
//!
//! # Features
//! * `audit`: in debug builds the queue and its elevator verify their invariants automatically,
//!   many times slower; for testing your own elevator. [`RequestQueue::audit`] does it on request,
//!   in any build.
//! * `testing`: an elevator without a queue, in a view whose time, clients and requests a test
//!   makes (the module `testing`).
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
}
#[cfg(test)]
extern crate std;

mod answer;
pub mod attribute;
mod bio;
mod bio_slot;
mod block;
mod builder;
mod client;
pub mod device;
pub mod elevator;
pub mod event;
mod flush;
mod inspect;
pub mod knob;
pub mod list;
#[doc(hidden)]
pub mod near;
pub mod observe;
mod op;
pub mod pick;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod positions;
mod queue;
mod queue_view;
pub mod ratio;
mod request;
pub mod slab;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
pub mod tree;
mod unit;

pub use answer::{Output, Stale, SubmitError, Waiting};
pub use attribute::{Attribute, AttributeError, Value, Values};
pub use bio::{Bio, Cookie, Ticket};
pub use builder::{BuildError, Builder};
pub use client::{Class, Client, ClientId, ClientSpec, Group, GroupId, GroupSpec, Priority};
pub use device::{Command, Completion, Device, DeviceFacts, Outcome, Refused, Status, Tag};
pub use elevator::Elevator;
pub use event::{
    Action, Distrust, Event, Expiry, NoObserver, Note, NoteKind, Observer, Preemption,
};
pub use inspect::{AUDITS, Explanation};
pub use knob::Knob;
pub use op::{Flags, Op, is_sync};
pub use queue::RequestQueue;
pub use queue::attributes::QUEUE_ATTRIBUTES;
pub use queue::lifecycle::{AddError, CancelError, InUse};
pub use queue_view::{InDevice, Limits, Ncq, QueueView};
pub use request::{Request, RequestId, Stage};
pub use time::{Hz, Nanos};

/// What [`QueueView`] was called.
#[deprecated(since = "0.1.0", note = "it is `QueueView` now")]
pub type Scene = QueueView;
