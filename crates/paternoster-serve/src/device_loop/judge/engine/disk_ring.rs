// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disk ring: a ring of the kernel, whose entries are calls of the medium.
//!
//! ```text
//! push ─▶ waiting ─submit▶ held (syncs, durable writes may begin) ─▶ ended in any order ─▶ next
//!                                                                      └─▶ unseen for a while
//! ```
//!
//! A submission may be refused, or take only some of the entries; an entry may hang. When the
//! server goes, each entry is cancelled, after it was carried out or not.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::slice::from_raw_parts;
use std::sync::Arc;

use libc::{EAGAIN, EBADF, EBUSY, ECANCELED, iovec};
use rustix::io::Errno;

use super::super::calls::Opened;
use super::super::medium::{EINTR, Medium};
use crate::device::calls::Calls;
use crate::device::uring::ring::{Entry, NoRoom, Ring};
/// How far an entry is before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Not,
    /// A sync has written back what it found, or the device has failed to.
    Sync(bool),
    /// A durable write has moved this much, and written it back.
    Moved(u64),
}

/// An entry that is handed over.
struct Under {
    number: u32,
    entry: Entry,
    /// Its file, which stays until it has ended.
    of: Option<Arc<Opened>>,
    hangs: bool,
    begun: Begun,
}

/// A ring whose entries are calls of the medium, in any order.
pub(super) struct DiskRing {
    medium: Medium,
    server: usize,
    files: Vec<Option<Arc<Opened>>>,
    depth: usize,
    registers: bool,
    is_enabled: bool,
    waiting: VecDeque<(u32, Entry)>,
    held: Vec<Under>,
    done: VecDeque<(u64, i32)>,
    /// Entries that have ended and were not reported yet.
    unseen: Vec<(u64, i32)>,
}

// SAFETY: everything happens in one thread; what entries point to stays as `push` has it.
unsafe impl Send for DiskRing {}

impl DiskRing {
    pub(super) fn new(
        (medium, server): (&Medium, usize),
        files: Vec<Option<Arc<Opened>>>,
        depth: u32,
        registers: bool,
    ) -> DiskRing {
        DiskRing {
            medium: medium.clone(),
            server,
            files,
            depth: depth as usize,
            registers,
            is_enabled: false,
            waiting: VecDeque::new(),
            held: Vec::new(),
            done: VecDeque::new(),
            unseen: Vec::new(),
        }
    }

    /// Makes an entry's call, or what is left of it; its result, as a completion has it.
    fn perform(&self, under: &Under) -> i32 {
        let Under { number, entry, begun, .. } = *under;
        let Some(of) = &under.of else { return -EBADF };
        self.medium.state().at = Some((self.server, number));
        let told = |ended: Result<(), Errno>| match ended {
            Ok(()) => 0,
            Err(errno) => -errno.raw_os_error(),
        };
        let result = match entry {
            Entry::Fixed { offset, .. } | Entry::Move { offset, .. }
                if let Begun::Moved(some) = begun =>
            {
                moved(of.end(some, offset, true))
            }
            Entry::Fixed { at, length, offset, to_file, durable, .. } => {
                let vector = iovec { iov_base: at.cast(), iov_len: length as usize };
                // SAFETY: the promise of `push`.
                moved(unsafe { of.transfer(&[vector], offset, to_file, durable) })
            }
            Entry::Move { all, count, offset, to_file, durable, .. } => {
                // SAFETY: the promise of `push`.
                let vectors = unsafe { from_raw_parts(all, count as usize) };
                // SAFETY: the same.
                moved(unsafe { of.transfer(vectors, offset, to_file, durable) })
            }
            Entry::Sync { of: which, .. } => {
                let begun = if let Begun::Sync(fails) = begun { Some(fails) } else { None };
                told(of.sync_as(which, begun))
            }
            Entry::Allocate { flags, offset, length, .. } => {
                told(of.allocate(flags, offset, length))
            }
            Entry::WillNeed { .. } => 0,
        };
        self.medium.state().at = None;
        result
    }

    /// A sync may write back what is dirty when it is submitted, and end later: it does not cover
    /// what is written meanwhile. The same holds for a durable write, which gets at its end the
    /// errors that no other call has got.
    fn begin(&self, number: u32, entry: Entry, of: &Opened) -> Begun {
        match entry {
            Entry::Sync { .. } if self.medium.state().chance.once_in(2) => {
                Begun::Sync(of.begin_sync())
            }
            Entry::Fixed { at, length, offset, durable: true, .. }
                if self.medium.writes_early() =>
            {
                let vector = iovec { iov_base: at.cast(), iov_len: length as usize };
                self.begin_write(number, of, &[vector], offset)
            }
            Entry::Move { all, count, offset, durable: true, .. } if self.medium.writes_early() => {
                // SAFETY: the promise of `push`.
                let vectors = unsafe { from_raw_parts(all, count as usize) };
                self.begin_write(number, of, vectors, offset)
            }
            _ => Begun::Not,
        }
    }

    /// One that failed at its beginning is repeated at its end.
    fn begin_write(&self, number: u32, of: &Opened, vectors: &[iovec], offset: u64) -> Begun {
        let before = self.medium.state().at.replace((self.server, number));
        // SAFETY: the promise of `push`.
        let begun = unsafe { of.begin(vectors, offset, true, true) };
        self.medium.state().at = before;
        begun.map_or(Begun::Not, Begun::Moved)
    }

    /// Its server has gone: everything ends, and something of it is done.
    fn end_all(&mut self) {
        for under in std::mem::take(&mut self.held) {
            let is_read = matches!(
                under.entry,
                Entry::Fixed { to_file: false, .. } | Entry::Move { to_file: false, .. }
            );
            let is_left = under.begun == Begun::Not && !is_read;
            if is_left && self.medium.is_done_unheard(self.server) {
                let _unheard = self.perform(&under);
            }
            self.done.push_back((u64::from(under.number), -ECANCELED));
        }
        self.done.extend(self.unseen.drain(..));
    }
}

fn moved(result: Result<u64, i32>) -> i32 {
    result.map_or_else(|errno| -errno, |moved| i32::try_from(moved).unwrap())
}

impl Ring for DiskRing {
    fn enable(&mut self) -> io::Result<()> {
        assert!(!self.is_enabled, "E1: a ring is enabled once");
        self.is_enabled = true;
        Ok(())
    }

    fn room(&self) -> usize {
        64
    }

    fn set_file(&mut self, number: u16, raw: [RawFd; 2]) -> io::Result<()> {
        let place = usize::from(number);
        self.files.resize(self.files.len().max(place + 1), None);
        self.files[place] = self.medium.state().opened(raw[0]);
        Ok(())
    }

    unsafe fn push(&mut self, number: u32, entry: Entry) -> Result<(), NoRoom> {
        assert!(self.is_enabled, "E1: a ring is enabled before it is used");
        if self.waiting.len() >= self.depth.next_power_of_two() {
            return Err(NoRoom);
        }
        self.waiting.push_back((number, entry));
        Ok(())
    }

    fn has_waiting(&mut self) -> bool {
        !self.waiting.is_empty()
    }

    fn has_deferred(&mut self) -> bool {
        false
    }

    fn submit(&mut self, wait_for: usize) -> io::Result<usize> {
        let mut count = self.waiting.len();
        if wait_for == 0 && self.medium.state().servers[self.server].is_none() {
            let state = &mut *self.medium.state();
            if let Some(errno) = state.draw(state.faults.refusals, &[EINTR, EAGAIN, EBUSY, 0]) {
                if errno != 0 {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                count = count.div_ceil(2);
            }
        }
        let given: Vec<_> = self.waiting.drain(..count).collect();
        for (number, entry) in given {
            let hangs = self.medium.hangs();
            let file = usize::from(entry.file());
            let of = self.files.get(file).and_then(Option::clone);
            let begun = of.as_ref().map_or(Begun::Not, |of| self.begin(number, entry, of));
            self.held.push(Under { number, entry, of, hangs, begun });
        }
        if wait_for > 0 {
            self.end_all();
        }
        Ok(count)
    }

    fn next(&mut self) -> Option<(u64, i32)> {
        if let Some(done) = self.done.pop_front() {
            return Some(done);
        }
        if (self.held.is_empty() && self.unseen.is_empty()) || self.medium.is_lazy() {
            return None;
        }
        loop {
            if let Some(seen) = self.medium.choose_seen(self.unseen.len(), self.held.is_empty()) {
                return Some(self.unseen.swap_remove(seen));
            }
            let hangs = self.held.iter().map(|under| under.hangs);
            let Some(which) = self.medium.choose(hangs) else {
                return self.unseen.pop();
            };
            let under = self.held.swap_remove(which);
            // A job may need many, and moves with each.
            self.medium.state().ended += 1;
            let ended = (u64::from(under.number), self.perform(&under));
            if !self.medium.is_unseen() {
                return Some(ended);
            }
            self.unseen.push(ended);
        }
    }

    unsafe fn register(&mut self, _: &[iovec]) -> io::Result<()> {
        if self.registers { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOMEM)) }
    }
}
