// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durability: what of a file was written and is not yet known to be safe.
//!
//! Writes are counted when they end. A sync that starts covers the writes counted by then, and no
//! others; two syncs at a time therefore do not take each other's word for it:
//!
//! ```text
//! writes ended   1  2        3
//! sync A            |--covers 2--|      synced = 2 when A ends
//! sync B                |--covers 2--|  must run too: A has promised nothing yet
//! after both                            3 is owed to the next
//! ```
//!
//! A sync that fails has lost data, and the kernel reports that only once: it may have dropped the
//! pages, so that the next sync finds nothing to do. Here the file stays *lost*: otherwise, once
//! one client had got the error, another would be told that its data are safe.
//!
//! There is one such state for everything that has the same file open on a device: volumes of one
//! file, and a volume to which a reload gives another name or path, and with it another open file.
//!
//! A durable write that fails (FUA, or a sync after writing zeroes) may have been told of another
//! client's lost pages: the kernel reports an error once, and this call was the wrong one to report
//! it to. The file is *in doubt* then:
//!
//! ```text
//! A writes ── write-back fails ──┐
//! B's FUA write ──────────────── EIO     told here, and by this description not again
//! A's flush ──────────────────── ?       must not end well by asking the same description
//! ```
//!
//! Flushes therefore have an open file description that nothing else syncs: the kernel reports an
//! error once to each description. Doubt ends when a sync of that description ends: either it
//! succeeds, or the file is lost. A file that could not be opened twice is lost at once.
//!
//! # Invariants
//! I1  A write that was reported before a flush began is synced before that flush ends well.
//! I2  After a failed sync no flush of the file ends well.
//! I3 After a failed durable write no flush succeeds before a sync has, of a description to which
//!    the failure was not reported.
//!
//! Source: Linux's `Documentation/filesystems/vfs.rst`, "Handling errors during writeback".

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

#[cfg(test)]
use crate::device_loop::planted::{self, Bug};

/// What a file owes to the next flush.
#[derive(Debug)]
pub(crate) struct Durability {
    written: AtomicU64,
    synced: AtomicU64,
    /// The errno of the sync that failed, 0 if none has.
    lost: AtomicI32,
    /// Durable writes and syncs that have failed.
    failures: AtomicU32,
}

impl Default for Durability {
    /// A flush is owed: an earlier user of the file may have left writes that are not safe.
    fn default() -> Durability {
        #[cfg(test)]
        let owed = u64::from(!planted::has(Bug::OwesNothing));
        #[cfg(not(test))]
        let owed = 1;
        Durability {
            written: AtomicU64::new(owed),
            synced: AtomicU64::new(0),
            lost: AtomicI32::new(0),
            failures: AtomicU32::new(0),
        }
    }
}

impl Durability {
    /// The state without any file: nothing is owed.
    pub(crate) fn of_nothing() -> Durability {
        Durability { written: AtomicU64::new(0), ..Durability::default() }
    }

    /// Something was written, perhaps only in part. To be called before it is reported.
    pub(crate) fn note_write(&self) {
        self.written.fetch_add(1, Ordering::SeqCst);
    }

    /// What a sync that starts now covers; `None` if all writes are durable.
    ///
    /// # Errors
    /// The errno of an earlier sync that failed (I2).
    pub(crate) fn owed(&self) -> Result<Option<u64>, i32> {
        self.is_not_lost()?;
        let written = self.written.load(Ordering::SeqCst);
        Ok((self.synced.load(Ordering::SeqCst) < written).then_some(written))
    }

    /// A sync that covers this has ended well.
    ///
    /// # Errors
    /// The errno of another that has failed meanwhile (I2).
    pub(crate) fn covered(&self, covers: u64) -> Result<(), i32> {
        self.is_not_lost()?;
        self.synced.fetch_max(covers, Ordering::SeqCst);
        Ok(())
    }

    /// A sync of another process has failed, whose description of the file this is.
    pub(crate) fn was_lost(&self, errno: i32) {
        self.lost.store(errno, Ordering::SeqCst);
    }

    /// A sync for a flush has failed.
    pub(crate) fn failed(&self, errno: i32) {
        #[cfg(test)]
        if planted::has(Bug::ForgetsLoss) {
            return;
        }
        self.failures.fetch_add(1, Ordering::SeqCst);
        self.lost.store(errno, Ordering::SeqCst);
    }

    /// A durable write has failed; `alone`: flushes have a description of their own.
    pub(crate) fn doubt(&self, errno: i32, alone: bool) {
        #[cfg(test)]
        if planted::has(Bug::ForgetsDoubt) {
            return self.note_write();
        }
        self.failures.fetch_add(1, Ordering::SeqCst);
        if !alone {
            self.lost.store(errno, Ordering::SeqCst);
        }
        self.note_write();
    }

    /// Call this before a durable write, and [`Durability::is_durable`] after it.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Ordering::SeqCst)
    }

    /// Whether a durable write that ended well is durable: not if another one failed meanwhile,
    /// since the error may have been about this one's pages.
    ///
    /// # Errors
    /// EIO.
    pub(crate) fn is_durable(&self, failures: u32) -> Result<(), i32> {
        if self.failures() == failures { Ok(()) } else { Err(libc::EIO) }
    }

    /// # Errors
    /// The errno of the sync that failed.
    pub(crate) fn is_not_lost(&self) -> Result<(), i32> {
        match self.lost.load(Ordering::SeqCst) {
            0 => Ok(()),
            errno => Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does each sync cover what ended before it began, whatever others do meanwhile?
    #[test]
    fn a_sync_covers_what_was_written_before_it() {
        let file = Durability::default();
        let first = file.owed().unwrap().expect("who had it before");
        file.note_write();
        file.covered(first).unwrap();
        let a = file.owed().unwrap().expect("one write");
        let b = file.owed().unwrap().expect("A has promised nothing yet");
        file.covered(a).unwrap();
        file.note_write();
        file.covered(b).unwrap();
        assert!(file.owed().unwrap().is_some(), "the last write is owed");
        file.covered(file.owed().unwrap().unwrap()).unwrap();
        assert_eq!(file.owed(), Ok(None));
    }

    /// Does a file whose sync has failed stay failed?
    #[test]
    fn what_is_lost_stays_lost() {
        let file = Durability::default();
        let covers = file.owed().unwrap().expect("who had it before");
        file.failed(libc::EIO);
        assert_eq!(file.covered(covers), Err(libc::EIO), "one that was under way meanwhile");
        assert_eq!(file.owed(), Err(libc::EIO));
    }

    /// After a durable write has failed, is the file synced through a description to which the
    /// failure was not reported; and is it lost if there is none?
    #[test]
    fn a_failed_durable_write_is_asked_about() {
        let file = Durability::default();
        file.covered(file.owed().unwrap().unwrap()).unwrap();
        let before = file.failures();
        file.doubt(libc::EIO, true);
        assert_eq!(file.is_durable(before), Err(libc::EIO), "a write beside it");
        assert_eq!(file.is_durable(file.failures()), Ok(()), "a write behind it");
        let covers = file.owed().unwrap().expect("a sync that tells");
        file.covered(covers).unwrap();
        assert_eq!(file.owed(), Ok(None), "it is known again");
        planted::plant(Some(Bug::ForgetsDoubt));
        file.doubt(libc::EIO, false);
        planted::plant(None);
        assert!(file.owed().is_ok(), "so it was once");
        file.doubt(libc::EIO, false);
        assert_eq!(file.owed(), Err(libc::EIO));
    }
}
