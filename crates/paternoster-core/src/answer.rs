// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers: what a queue returns to its caller.
//!
//! [`Output`] is the only way out: what `next` wants done. [`Waiting`] is its reason for wanting
//! nothing; the audit holds the queue to it. The errors are values with the numbers in them.

use core::fmt;

use crate::bio::Cookie;
use crate::client::ClientId;
use crate::device::{Command, Outcome};
use crate::time::Nanos;

/// What the queue wants done.
#[must_use = "a command that is not given to the device keeps its tag for ever"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Give this to the device.
    Issue(Command),
    /// A bio has ended, even if it never became a command: a flush without a cache, a cancel.
    Done(Cookie, Outcome),
    /// A client that got `Busy` may try again.
    Wake(ClientId),
    /// Nothing now. Call again when something has happened, and at the latest at `until`.
    Wait {
        /// When a timer fires, or sleepers are asked again, if that is to come.
        until: Option<Nanos>,
        /// Why there is nothing.
        why: Waiting,
    },
}

/// Why the queue issues no command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing waits, and nothing is in the device.
    Empty,
    /// Nothing waits; something is in the device.
    InDevice,
    /// The device holds as many commands as it takes.
    DeviceFull,
    /// The elevator idles on purpose.
    Idling,
    /// The elevator waits for a command in the device to end.
    Completion,
    /// Requests are held back to be merged.
    Plugged,
    /// A flush is in flight or delayed, and what waits is held for it.
    Flush,
    /// Only clients that owe others device time have requests waiting, and the others get a moment
    /// to send some.
    Throttled,
    /// The device refused the last command.
    Refused,
}

/// A bio was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubmitError {
    /// No request or bio is free. The client sleeps now; an `Output::Wake` will come. The bio
    /// belongs to the caller again.
    Busy,
    /// The client has gone, or never existed.
    NoClient,
    /// It reaches beyond the device.
    BeyondEnd {
        /// The sector after its last.
        end: u64,
        /// Sectors of the device.
        capacity: u64,
    },
    /// It is larger than a command may be; split it.
    TooLarge {
        /// Its sectors or segments.
        size: u32,
        /// The most that is allowed.
        most: u32,
    },
    /// It has no sectors, and is no flush; or it is a flush and has some.
    Size,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubmitError::Busy => f.write_str("no free request, the client sleeps"),
            SubmitError::NoClient => f.write_str("no such client"),
            SubmitError::BeyondEnd { end, capacity } => {
                write!(f, "it ends at sector {end} of a device of {capacity}")
            }
            SubmitError::TooLarge { size, most } => {
                write!(f, "it has {size} sectors or segments where {most} are allowed")
            }
            SubmitError::Size => f.write_str("a flush has no sectors, everything else has some"),
        }
    }
}

impl core::error::Error for SubmitError {}

/// A handle names something that no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale;

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the handle names something that has gone")
    }
}

impl core::error::Error for Stale {}
