// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fair I/O scheduler inside any program: ask, get a permit in fair order, give it back.
//!
//! Programs that store data put a semaphore or a token bucket in front of their disk, and a person
//! has to type in how much the disk can take. A gate needs no such number: the library's scheduler
//! `paternoster` finds out at run time how many permits may be out, which class to keep one for,
//! and whether streams take turns.
//!
//! ```text
//! reads 400 ──ask──▶ ┌───────────────────────────┐ ──permit──▶ read, write, fsync
//! flush 100 ──ask──▶ │ which has had least for its │                  │
//! scrub idle ─ask──▶ │ weight? how many at once? │ ◀──give back─────┘
//!                    └───────────────────────────┘
//! ```
//!
//! [`Gate`] is for threads (`class.permit(…)`), tasks (`class.permit_async(…)`, of any runtime) and
//! callbacks. [`Core`] is the gate without threads or clock, for event loops and simulators;
//! without the feature `std` there is nothing else.
//!
//! A class pays by device time: while k permits are out each is charged 1/k of the time that
//! passes. So hold a permit only while the device works for you.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod machine;
#[cfg(feature = "std")]
mod shell;

pub use machine::{
    Ask, AskError, ClassError, ClassId, ClassSpec, Core, Counts, Eta, Kind, Next, NotOut, Op, Rate,
    ReplayError, Report, Settings, Sink, Ticket,
};
pub use paternoster_core::Nanos;
#[cfg(feature = "std")]
pub use shell::{Class, Gate, Permit, PermitError, PermitFuture};

/// The READMEs of the repository and of the package, whose examples are tests.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../../../docs/gate.md")]
#[doc = include_str!("../README.md")]
struct Pages;
