// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls: the medium as an open file, for production's backends, that fails at any call.
//!
//! | call | how it fails |
//! |---|---|
//! | read, write | an errno, some sectors moved all the same; less than requested |
//! | durable write, sync | an errno; the kernel's of a write-back that failed, once |
//! | fallocate | an errno; not known here at all, or not for this range |
//! | lseek | an errno |
//!
//! What is made again (EINTR) or done in another way (EOPNOTSUPP) is no failure: no client may hear
//! of it.

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::RawFd;
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use libc::{EAGAIN, EDQUOT, EINVAL, EIO, ENOMEM, ENOSPC, EOPNOTSUPP, iovec};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::book::zeroes;
use super::medium::{EINTR, Flaw, Medium, State};
use super::names::Writer;
use crate::device::Piece;
use crate::device::calls::{Calls, Description};
use crate::device::pieces::Vectors;

/// A file of the medium, opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) medium: Medium,
    pub(super) inode: usize,
    /// The file's number in the medium.
    number: OnceLock<usize>,
    writer: Option<Writer>,
    bytes: Range<usize>,
    /// Flushes have a description of their own.
    alone: bool,
    /// How many failed write-backs were reported to each description.
    seen: [AtomicU64; 2],
}

impl Opened {
    pub(super) fn new(
        medium: &Medium,
        inode: usize,
        alone: bool,
        writer: Option<Writer>,
    ) -> Arc<Opened> {
        let state = medium.state();
        let (bytes, errors) = (state.range(inode), state.errors(inode));
        let seen = [errors; 2].map(AtomicU64::new);
        let (medium, number) = (medium.clone(), OnceLock::new());
        Arc::new(Opened { medium, inode, number, writer, bytes, alone, seen })
    }

    /// The bytes of the medium that it has.
    pub(super) fn bytes(&self) -> Range<usize> {
        self.bytes.clone()
    }

    /// Whether it may be written to.
    pub(super) const fn writes(&self) -> bool {
        self.writer.is_some()
    }

    /// Moves what the vectors name; how much, or the errno.
    ///
    /// # Safety
    /// Their memory is valid, and nothing else touches it.
    pub(super) unsafe fn transfer(
        &self,
        vectors: &[iovec],
        offset: u64,
        to_file: bool,
        durable: bool,
    ) -> Result<u64, i32> {
        // SAFETY: the caller's promise.
        let moved = unsafe { self.begin(vectors, offset, to_file, durable) }?;
        self.end(moved, offset, durable)
    }

    /// A durable write ends, and gets the error of failed write-backs.
    pub(super) fn end(&self, moved: u64, offset: u64, durable: bool) -> Result<u64, i32> {
        if durable {
            let start = self.bytes.start + usize::try_from(offset).unwrap();
            let range = start..start + usize::try_from(moved).unwrap();
            self.told(&mut self.medium.state(), Description::Data, range)?;
        }
        Ok(moved)
    }

    /// As [`Opened::transfer`], without the error that a durable write may get at its end.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn begin(
        &self,
        vectors: &[iovec],
        offset: u64,
        to_file: bool,
        durable: bool,
    ) -> Result<u64, i32> {
        let state = &mut *self.medium.state();
        let start = self.bytes.start + usize::try_from(offset).unwrap();
        let length: usize = vectors.iter().map(|vector| vector.iov_len).sum();
        let range = start..start + length;
        assert!(range.end <= self.bytes.end, "D3: a call beyond the file's end: {range:?}");
        if durable && state.lacks.dsync {
            return Err(EOPNOTSUPP);
        }
        let (often, errnos) = match to_file {
            false => (state.faults.reads, [EIO, EIO, EINTR, EAGAIN, ENOMEM]),
            true => (state.faults.writes, [EIO, ENOSPC, EINTR, EDQUOT, EIO]),
        };
        let errno = state.draw(often, &errnos);
        let some = match errno {
            Some(_) => state.torn(length),
            None if state.chance.once_in(state.faults.shorts) => self.some(state, length),
            None => length,
        };
        if to_file && state.direct {
            state.make_way(range.clone());
        }
        // SAFETY: the caller's promise.
        unsafe { state.move_some(vectors, start, some, to_file) };
        match errno {
            Some(EINTR) => return Err(EINTR),
            Some(errno) => return Err(state.note(errno, range, durable)),
            None => state.is_well(),
        }
        if durable && state.sync(start..start + some) {
            return Err(state.note(EIO, range, true));
        }
        Ok(some as u64)
    }

    /// Less than all, but not nothing.
    fn some(&self, state: &mut State, length: usize) -> usize {
        let unit = if state.direct { state.block } else { 1 };
        let units = state.chance.below((length / unit).max(1) as u64);
        (usize::try_from(units).unwrap() * unit).max(unit).min(length)
    }

    /// A sync begins: what is dirty now is what it writes back; whether the device has failed to.
    pub(super) fn begin_sync(&self) -> bool {
        self.medium.state().sync(self.bytes.clone())
    }

    /// A sync ends, and gets the error of failed write-backs. `begun`: whether the device failed
    /// when it began; a sync that has not begun is done whole now.
    pub(super) fn sync_as(&self, of: Description, begun: Option<bool>) -> Result<(), Errno> {
        let state = &mut *self.medium.state();
        let range = self.bytes.clone();
        match state.draw(state.faults.syncs, &[EIO, EIO, EINTR, ENOSPC, EDQUOT]) {
            Some(EINTR) => return Err(Errno::INTR),
            Some(errno) => {
                if begun.is_none() {
                    state.fail_to_sync(range.clone());
                }
                let _also = self.told(state, of, range.clone());
                return Err(Errno::from_raw_os_error(state.note(errno, range, true)));
            }
            None => {}
        }
        if begun.unwrap_or_else(|| state.sync(range.clone())) {
            let _also = self.told(state, of, range.clone());
            return Err(Errno::from_raw_os_error(state.note(EIO, range, true)));
        }
        self.told(state, of, range).map_err(Errno::from_raw_os_error)
    }

    /// Whether a description has not been told yet of a write-back that failed.
    fn told(&self, state: &mut State, of: Description, range: Range<usize>) -> Result<(), i32> {
        let of = usize::from(of == Description::Flushes && self.alone);
        let errors = state.errors(self.inode);
        if self.seen[of].swap(errors, Ordering::SeqCst) == errors {
            return Ok(());
        }
        Err(state.note(EIO, range, true))
    }
}

impl State {
    /// A file was opened.
    pub(super) fn note_opened(&mut self, opened: &Arc<Opened>) {
        opened.number.set(self.opened.len()).expect("it is noted once");
        self.opened.push(Arc::downgrade(opened));
    }

    /// The open file that calls are of.
    pub(super) fn opened(&self, raw: RawFd) -> Option<Arc<Opened>> {
        self.opened.get(usize::try_from(raw).ok()?)?.upgrade()
    }

    /// Moves this many bytes.
    ///
    /// # Safety
    /// As [`Opened::transfer`].
    unsafe fn move_some(&mut self, vectors: &[iovec], start: usize, some: usize, to_file: bool) {
        let (mut at, end) = (start, start + some);
        let less = self.flaw == Some(Flaw::MovesLess) && self.chance.once_in(8);
        let astray = self.flaw == Some(Flaw::Misdirects) && self.chance.once_in(8);
        for vector in vectors {
            let length = vector.iov_len.min(end - at);
            let memory = vector.iov_base.cast::<u8>();
            if to_file {
                // SAFETY: the caller's promise.
                let bytes = unsafe { from_raw_parts(memory, length) };
                let bytes = if less { &bytes[..length / 1024 * 512] } else { bytes };
                let place = if astray { at + self.block } else { at };
                if place + bytes.len() <= self.cache.len() {
                    self.change(place, bytes, self.direct);
                }
            } else {
                // SAFETY: the caller's promise.
                let memory = unsafe { from_raw_parts_mut(memory, length) };
                memory.copy_from_slice(&self.cache[at..at + length]);
            }
            at += length;
        }
    }
}

impl Calls for Opened {
    unsafe fn move_one(&self, piece: Piece, offset: u64, to_file: bool) -> isize {
        let vector = iovec { iov_base: piece.at.as_ptr().cast(), iov_len: piece.length };
        // SAFETY: the caller's promise.
        let moved = unsafe { self.transfer(&[vector], offset, to_file, false) };
        moved.map_or(-1, |moved| isize::try_from(moved).unwrap())
    }

    unsafe fn move_all(
        &self,
        vectors: &Vectors,
        offset: u64,
        to_file: bool,
        durable: bool,
    ) -> Result<u64, i32> {
        // SAFETY: the caller's promise.
        unsafe { self.transfer(vectors.all(), offset, to_file, durable) }
    }

    fn sync(&self, of: Description) -> Result<(), Errno> {
        self.sync_as(of, None)
    }

    fn allocate(&self, flags: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
        let state = &mut *self.medium.state();
        let start = self.bytes.start + usize::try_from(offset).unwrap();
        let length = usize::try_from(length).unwrap();
        let range = start..start + length;
        assert!(range.end <= self.bytes.end, "D3: fallocate beyond the file's end: {range:?}");
        let lacks = match () {
            () if flags.contains(FallocateFlags::PUNCH_HOLE) => state.lacks.punch,
            () if flags.contains(FallocateFlags::ZERO_RANGE) => state.lacks.zero_range,
            () => false,
        };
        if lacks {
            return Err(Errno::OPNOTSUPP);
        }
        let clears = flags != FallocateFlags::KEEP_SIZE;
        let errno = state.draw(state.faults.clears, &[EIO, ENOSPC, EINTR, EINVAL, EOPNOTSUPP]);
        let some = if errno.is_some() { state.torn(length) } else { length };
        if clears && !matches!(errno, Some(EINVAL | EOPNOTSUPP)) {
            state.change(start, zeroes(some), false);
        }
        match errno {
            None => {
                state.is_well();
                Ok(())
            }
            Some(errno @ (EINTR | EINVAL | EOPNOTSUPP)) => Err(Errno::from_raw_os_error(errno)),
            Some(errno) => Err(Errno::from_raw_os_error(state.note(errno, range, false))),
        }
    }

    fn will_need(&self, _: u64, _: NonZeroU64) {}

    fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        let state = &mut *self.medium.state();
        let (offset, wants_hole) = match to {
            SeekFrom::Data(offset) => (offset, false),
            SeekFrom::Hole(offset) => (offset, true),
            _ => return Err(Errno::INVAL),
        };
        let at = self.bytes.start + usize::try_from(offset).unwrap();
        match state.draw(state.faults.seeks, &[EIO, EINVAL, ENOMEM]) {
            // It is not known where there are holes; where data were found it is.
            Some(EINVAL) if !wants_hole => return Err(Errno::INVAL),
            Some(errno) => {
                let errno = state.note(errno, at..self.bytes.end, false);
                return Err(Errno::from_raw_os_error(errno));
            }
            None => {}
        }
        let mut from = at;
        while from < self.bytes.end {
            let until = ((from / state.block + 1) * state.block).min(self.bytes.end);
            if (state.cache[from..until] == *zeroes(until - from)) == wants_hole {
                return Ok((from - self.bytes.start) as u64);
            }
            from = until;
        }
        // Beyond the end there is a hole, and no data.
        if wants_hole { Ok(self.bytes.len() as u64) } else { Err(Errno::NXIO) }
    }

    fn flushes_alone(&self) -> bool {
        self.alone
    }

    fn raw(&self) -> [RawFd; 2] {
        [i32::try_from(*self.number.get().expect("the medium knows it")).unwrap(); 2]
    }
}
