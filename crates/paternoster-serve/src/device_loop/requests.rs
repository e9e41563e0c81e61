// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: the I/Os and fragments of a loop, and which of their changes must wait for others.
//!
//! ```text
//! I/O ─▶ fragment ─▶ lock ─▶ granted: to the queue
//!                      └──▶ excluded, until the changes before it have ended ─▶ next granted
//! ```
//!
//! Invariants: I1 `left` of an I/O counts its fragments here; I2 a change holds its lock, or waits
//! for it, until it is removed; I3 one call releases changes at a time, so that a chain of them
//! does not become as deep a recursion.

use super::io_fragment::{Fragment, Io, Step};
use super::range_lock::{Mode, RangeLocks};
use crate::nbd::transmission::Kind;
use crate::table::Table;

/// The requests of a loop.
#[derive(Debug)]
pub(super) struct Requests {
    ios: Table<Io>,
    fragments: Table<Fragment>,
    /// By fragment: changes under way, or waiting for other changes of their blocks.
    changes: RangeLocks,
    /// Fragments that waited are being released.
    is_releasing: bool,
    /// Number of I/Os that have begun.
    begun: u64,
}

impl Requests {
    /// Room for at most this many.
    pub(super) fn new(ios: u32, fragments: u32) -> Requests {
        Requests {
            ios: Table::new(ios),
            fragments: Table::new(fragments),
            changes: RangeLocks::default(),
            is_releasing: false,
            begun: 0,
        }
    }

    /// The I/Os.
    pub(super) const fn ios(&self) -> &Table<Io> {
        &self.ios
    }

    /// The fragments.
    pub(super) const fn fragments(&self) -> &Table<Fragment> {
        &self.fragments
    }

    /// An I/O.
    #[inline]
    pub(super) fn io(&self, io: u32) -> &Io {
        self.ios.at(io)
    }

    /// An I/O, to be changed.
    #[inline]
    pub(super) fn io_mut(&mut self, io: u32) -> &mut Io {
        self.ios.at_mut(io)
    }

    /// A fragment.
    #[inline]
    pub(super) fn fragment(&self, fragment: u32) -> &Fragment {
        self.fragments.at(fragment)
    }

    /// A fragment, to be changed.
    #[inline]
    pub(super) fn fragment_mut(&mut self, fragment: u32) -> &mut Fragment {
        self.fragments.at_mut(fragment)
    }

    /// The I/O of a fragment.
    #[inline]
    pub(super) fn io_of(&self, fragment: u32) -> &Io {
        self.ios.at(self.fragments.at(fragment).io)
    }

    /// The connection of a fragment.
    #[inline]
    pub(super) fn owner(&self, fragment: u32) -> u32 {
        self.io_of(fragment).connection
    }

    /// Whether a fragment is a question for holes.
    pub(super) fn is_question(&self, fragment: u32) -> bool {
        self.io_of(fragment).request.kind == Kind::BlockStatus
    }

    /// A request, in words.
    pub(super) fn in_words(&self, fragment: u32) -> String {
        let request = &self.io_of(fragment).request;
        format!("{:?} of {} bytes at {}", request.kind, request.length, request.offset)
    }

    /// An I/O begins; `None`: there are too many.
    pub(super) fn begin(&mut self, io: Io) -> Option<u32> {
        let io = self.ios.insert(io).ok()?;
        self.begun += 1;
        Some(io)
    }

    /// How many I/Os have begun since the loop began.
    pub(super) const fn begun(&self) -> u64 {
        self.begun
    }

    /// An I/O has ended.
    pub(super) fn end(&mut self, io: u32) -> Io {
        self.ios.release(io)
    }

    /// A fragment of an I/O is made; `None`: there are too many.
    pub(super) fn add(&mut self, fragment: Fragment) -> Option<u32> {
        let io = fragment.io;
        let index = self.fragments.insert(fragment).ok()?;
        self.ios.at_mut(io).left += 1;
        Some(index)
    }

    /// A fragment has ended with this errno, which is its I/O's if it is the first.
    pub(super) fn remove(&mut self, fragment: u32, error: i32) -> Fragment {
        let fragment = self.fragments.release(fragment);
        let io = self.ios.at_mut(fragment.io);
        io.left -= 1;
        if error != 0 && io.error == 0 {
            io.error = error;
        }
        fragment
    }

    /// A connection's fragments, and its I/Os without fragments.
    pub(super) fn fragments_of(&self, connection: u32) -> Vec<u32> {
        self.fragments.which(|fragment| self.ios.at(fragment.io).connection == connection)
    }

    /// I/Os of a connection that have no fragments.
    pub(super) fn empty_of(&self, connection: u32) -> Vec<u32> {
        self.ios.which(|io| io.connection == connection && io.left == 0)
    }

    /// Locks what a fragment changes, if it changes anything; returns whether it may go on.
    /// Otherwise it waits for other changes of the same blocks.
    pub(super) fn lock(&mut self, index: u32) -> bool {
        let fragment = self.fragments.at_mut(index);
        if !fragment.is_change() {
            return true;
        }
        let mode = if fragment.reads_first { Mode::Exclusive } else { Mode::Shared };
        let range = fragment.on_line..fragment.on_line + u64::from(fragment.span);
        let is_granted = self.changes.lock(index, range, mode);
        if !is_granted {
            fragment.step = Step::Excluded;
        }
        is_granted
    }

    /// A change has ended.
    pub(super) fn unlock(&mut self, index: u32) {
        self.changes.unlock(index);
    }

    /// Changes that waited are about to be released; returns whether no other call does that.
    pub(super) const fn begin_release(&mut self) -> bool {
        !std::mem::replace(&mut self.is_releasing, true)
    }

    /// The next change that waited and may go on; with the last, the release ends.
    pub(super) fn next_granted(&mut self) -> Option<u32> {
        let next = self.changes.next_granted();
        self.is_releasing = next.is_some();
        next
    }

    /// The locks on ranges that are being changed.
    #[cfg(test)]
    pub(super) const fn changes(&self) -> &RangeLocks {
        &self.changes
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::Nanos;

    use super::*;
    use crate::device::Work;
    use crate::nbd::transmission::{CommandFlags, Request};

    fn with_io() -> (Requests, u32) {
        let mut requests = Requests::new(1, 3);
        let flags = CommandFlags(0);
        let request = Request { flags, kind: Kind::Write, cookie: 1, offset: 0, length: 8192 };
        let io = Io::new(9, request, Nanos::ZERO);
        let io = requests.begin(io).unwrap();
        (requests, io)
    }

    fn write(io: u32, (offset, length): (u64, u32), span: u32) -> Fragment {
        Fragment::new(io, Work::Write { fua: false }, (offset, length), (0, span), 0)
    }

    /// Does a ragged write wait for the one before it, and go on when that has ended?
    #[test]
    fn a_ragged_write_waits() {
        let (mut requests, io) = with_io();
        let whole = requests.add(write(io, (0, 4096), 4096)).unwrap();
        let ragged = requests.add(write(io, (100, 8), 4096)).unwrap();
        assert!(requests.lock(whole) && !requests.lock(ragged));
        assert_eq!(requests.fragment(ragged).step, Step::Excluded);
        requests.remove(whole, 0);
        requests.unlock(whole);
        assert!(requests.begin_release() && !requests.begin_release(), "one at a time");
        assert_eq!((requests.next_granted(), requests.next_granted()), (Some(ragged), None));
        assert!(requests.begin_release());
    }

    /// Is the first errno the I/O's, and are its fragments counted?
    #[test]
    fn the_first_error_counts() {
        let (mut requests, io) = with_io();
        let made = [0; 3].map(|_| requests.add(write(io, (0, 4096), 4096)).unwrap());
        assert!(requests.add(write(io, (0, 4096), 4096)).is_none(), "there are three places");
        assert_eq!((requests.io(io).left, requests.fragments_of(9)), (3, made.to_vec()));
        assert!(requests.empty_of(9).is_empty() && requests.fragments_of(8).is_empty());
        made.into_iter().zip([0, libc::EIO, libc::ENOSPC]).for_each(|(fragment, error)| {
            requests.remove(fragment, error);
        });
        assert_eq!(requests.empty_of(9), [io]);
        assert_eq!(requests.end(io).error, libc::EIO);
    }
}
