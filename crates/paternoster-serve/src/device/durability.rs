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
//! A sync that fails has lost data, and the kernel tells that only once: it may have dropped the
//! pages, so that the next sync finds nothing to do. Here the file stays failed, so that no client
//! is told that its data are safe because another one has heard that they are not.
//!
//! # Invariants
//! I1  A write that was reported before a flush began is synced before that flush ends well.
//! I2  After a failed sync no flush of the file ends well.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// What a file owes to the next flush.
#[derive(Debug)]
pub(super) struct Durability {
    written: AtomicU64,
    synced: AtomicU64,
    /// The errno of the sync that failed, 0 if none has.
    lost: AtomicI32,
}

impl Default for Durability {
    /// Something is owed: who had the file before may have left writes that are not safe.
    fn default() -> Durability {
        Durability {
            written: AtomicU64::new(1),
            synced: AtomicU64::new(0),
            lost: AtomicI32::new(0),
        }
    }
}

impl Durability {
    /// Something was written, perhaps only in part. To be called before it is reported.
    pub(super) fn note_write(&self) {
        self.written.fetch_add(1, Ordering::SeqCst);
    }

    /// What a sync that starts now covers; `None` if nothing is owed.
    ///
    /// # Errors
    /// The errno of an earlier sync that failed (I2).
    pub(super) fn owed(&self) -> Result<Option<u64>, i32> {
        match self.lost.load(Ordering::SeqCst) {
            0 => {
                let written = self.written.load(Ordering::SeqCst);
                Ok((self.synced.load(Ordering::SeqCst) < written).then_some(written))
            }
            errno => Err(errno),
        }
    }

    /// A sync that covers this has ended well.
    pub(super) fn covered(&self, covers: u64) {
        self.synced.fetch_max(covers, Ordering::SeqCst);
    }

    /// A sync has failed.
    pub(super) fn failed(&self, errno: i32) {
        self.lost.store(errno, Ordering::SeqCst);
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
        file.covered(first);
        let a = file.owed().unwrap().expect("one write");
        let b = file.owed().unwrap().expect("A has promised nothing yet");
        file.covered(a);
        file.note_write();
        file.covered(b);
        assert!(file.owed().unwrap().is_some(), "the last write is owed");
        file.covered(file.owed().unwrap().unwrap());
        assert_eq!(file.owed(), Ok(None));
    }

    /// Does a file whose sync has failed stay failed?
    #[test]
    fn what_is_lost_stays_lost() {
        let file = Durability::default();
        file.failed(libc::EIO);
        file.covered(100);
        assert_eq!(file.owed(), Err(libc::EIO));
    }
}
