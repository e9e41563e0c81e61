// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain: one job, done whole by blocking system calls.
//!
//! Calls that do less than they were asked are continued. One that does nothing has met the end of
//! a file that was shorter than it said: EIO, and never half of the data.

use super::calls::Description;
use super::clearing::{Clearing, Next};
use super::files::File;
use super::pieces::{self, Vectors};
use super::{Job, Piece, Work};
#[cfg(test)]
use crate::device_loop::planted::{self, Bug};

/// Does a job; its errno, 0 for none.
///
/// # Safety
/// The memory of its pieces is valid and untouched by others meanwhile.
pub(crate) unsafe fn perform(files: &[File], job: &Job<'_>) -> i32 {
    // SAFETY: the same promise.
    let done = unsafe { try_perform(files, job) };
    done.err().unwrap_or(0)
}

/// Whether the job can be done at all: a file that there is, a range within it, not read-only.
pub(super) fn check<'a>(files: &'a [File], job: &Job<'_>) -> Result<&'a File, i32> {
    let file = files.get(usize::from(job.file)).ok_or(libc::EBADF)?;
    match job.work {
        Work::Read | Work::Prefetch | Work::Flush => {}
        Work::Write { .. } | Work::Discard | Work::Zero { .. } if file.facts().readonly => {
            return Err(libc::EPERM);
        }
        Work::Write { .. } | Work::Discard | Work::Zero { .. } => {}
    }
    if file.holds(job.offset, job.length) { Ok(file) } else { Err(libc::EINVAL) }
}

unsafe fn try_perform(files: &[File], job: &Job<'_>) -> Result<(), i32> {
    let Job { offset, length, pieces, .. } = *job;
    if job.work == Work::Flush {
        return files.iter().try_for_each(sync_what_is_owed);
    }
    let file = check(files, job)?;
    match job.work {
        Work::Read => {
            let from = Source::Pieces { pieces, to_file: false };
            // SAFETY: the caller's promise for the pieces.
            unsafe { transfer(file, from, offset, length, false) }
        }
        Work::Write { fua } => {
            let from = Source::Pieces { pieces, to_file: true };
            let failures = file.durability.failures();
            // SAFETY: the caller's promise for the pieces.
            let done = unsafe { transfer(file, from, offset, length, fua) };
            if fua {
                return durable(file, failures, done);
            }
            file.durability.note_write();
            done
        }
        Work::Discard => clear(file, Clearing::discard(), offset, length),
        Work::Zero { may_unmap, fua, fast } => {
            let clearing = Clearing::zero(may_unmap, file.block_device, fast);
            let failures = file.durability.failures();
            let done = clear(file, clearing, offset, length);
            if done.is_err_and(|errno| job.work.is_too_slow(errno)) {
                return done;
            }
            let synced = |()| sync(file, Description::Data);
            if fua { durable(file, failures, done.and_then(synced)) } else { done }
        }
        Work::Prefetch => {
            prefetch(file, offset, length);
            Ok(())
        }
        Work::Flush => Ok(()),
    }
}

/// Syncs a file if it owes anything.
pub(super) fn sync_what_is_owed(file: &File) -> Result<(), i32> {
    let Some(covers) = file.durability.owed()? else { return Ok(()) };
    sync(file, Description::Flushes).inspect_err(|&errno| file.durability.failed(errno))?;
    file.durability.covered(covers)
}

/// What becomes of a durable write that has ended; `failures` were there when it began.
fn durable(file: &File, failures: u32, done: Result<(), i32>) -> Result<(), i32> {
    match done {
        Ok(()) => file.durability.is_durable(failures),
        Err(errno) => {
            file.doubt(errno);
            Err(errno)
        }
    }
}

fn sync(file: &File, of: Description) -> Result<(), i32> {
    loop {
        match file.calls.sync(of) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.raw_os_error()),
        }
    }
}

/// Where data are, and where they go.
#[derive(Clone, Copy)]
enum Source<'a> {
    Pieces { pieces: &'a [Piece], to_file: bool },
    Zeroes,
}

/// Moves all of the data.
///
/// # Safety
/// As [`perform`].
unsafe fn transfer(
    file: &File,
    source: Source<'_>,
    offset: u64,
    length: u64,
    mut fua: bool,
) -> Result<(), i32> {
    let (mut done, mut sync_after) = (0, false);
    if let (Source::Pieces { pieces: &[piece], to_file }, false) = (source, fua) {
        // Most jobs are this one call.
        // SAFETY: the caller's promise for the piece.
        done = unsafe { one_call(file, piece, offset, to_file) };
        if done == length {
            return Ok(());
        }
    }
    let mut vectors = Vectors::new();
    while done < length {
        match source {
            Source::Pieces { pieces, .. } => vectors.fill(pieces::rest(pieces, done)),
            Source::Zeroes => vectors.fill(pieces::zeroes(length - done)),
        }
        let to_file = !matches!(source, Source::Pieces { to_file: false, .. });
        // SAFETY: the caller's promise for the pieces; zeroes are only read from.
        match unsafe { file.calls.move_all(&vectors, offset + done, to_file, fua) } {
            Ok(0) => return Err(libc::EIO),
            // What follows of a last part of a block would not be a whole block.
            Ok(moved) if file.direct && !moved.is_multiple_of(u64::from(file.facts().block)) => {
                return Err(libc::EIO);
            }
            #[cfg(test)]
            Ok(_) if planted::has(Bug::BelievesShort) => done = length,
            Ok(moved) => done += moved,
            Err(libc::EINTR) => {}
            Err(libc::EOPNOTSUPP) if fua => (fua, sync_after) = (false, true),
            Err(errno) => return Err(errno),
        }
    }
    if sync_after { sync(file, Description::Data) } else { Ok(()) }
}

/// One piece in one call; how much it has moved. What is wrong the next call finds too.
unsafe fn one_call(file: &File, piece: Piece, offset: u64, to_file: bool) -> u64 {
    // SAFETY: the caller's promise for the piece.
    let moved = unsafe { file.calls.move_one(piece, offset, to_file) };
    let moved = u64::try_from(moved).unwrap_or(0);
    // A part of a block is left to the loop, which knows what it means.
    if moved == piece.length as u64 || !file.direct { moved } else { 0 }
}

/// Clears a range, by the first way that the file knows.
fn clear(file: &File, mut clearing: Clearing, offset: u64, length: u64) -> Result<(), i32> {
    let done = loop {
        match clearing.next(&file.refusals) {
            Next::Done => break Ok(()),
            Next::TooSlow => break Err(libc::EOPNOTSUPP),
            // SAFETY: no pieces are concerned.
            Next::Write => break unsafe { transfer(file, Source::Zeroes, offset, length, false) },
            Next::Allocate(flags) => {
                let ended = file.calls.allocate(flags, offset, length).err();
                let errno = ended.map_or(0, |errno| errno.raw_os_error());
                if let Err(errno) = clearing.ended(&file.refusals, errno) {
                    break Err(errno);
                }
            }
        }
    };
    file.durability.note_write();
    done
}

/// Asks for a range to be read ahead; nothing is wrong if it is not.
pub(super) fn prefetch(file: &File, offset: u64, length: u64) {
    if let (false, Some(length)) = (file.direct, std::num::NonZeroU64::new(length)) {
        file.calls.will_need(offset, length);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::io::Errno;

    use super::super::FileFacts;
    use super::super::calls::Refusing;
    use super::*;

    /// Are durable zeroes that could not be written a failure, whatever errno they end with, after
    /// which others are told that they may not be durable; and are those that were to be fast, and
    /// were given up with the same errno, none?
    #[test]
    fn only_what_was_to_be_fast_is_too_slow() {
        // It can neither be cleared nor written.
        let refusing = Arc::new(Refusing(Errno::OPNOTSUPP));
        let files = [File::over(refusing, FileFacts::of_a_test(8192, 512), false)];
        let zero = |fast| {
            let work = Work::Zero { may_unmap: true, fua: true, fast };
            let job = Job { work, length: 4096, ..Job::flush() };
            let before = files[0].durability.failures();
            // SAFETY: there are no pieces.
            let errno = unsafe { perform(&files, &job) };
            (errno, files[0].durability.is_durable(before).is_ok())
        };
        assert_eq!(zero(true), (libc::EOPNOTSUPP, true));
        assert_eq!(zero(false), (libc::EOPNOTSUPP, false), "the file is in doubt");
    }
}
