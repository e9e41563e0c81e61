// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event: a file descriptor that is readable when a backend has something to report.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    pub(crate) fn new() -> io::Result<Event> {
        Ok(Event(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable.
    pub(super) fn set(&self) {
        // It can only fail when it is readable for 2^64 - 2 reasons already.
        let _readable = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it wait for the next time.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        // Fails when it is not readable, which is what is wanted.
        let _was_clear = rustix::io::read(&self.0, &mut count);
    }

    pub(super) fn as_raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
