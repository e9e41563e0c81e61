// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layout: which bytes of the disk belong to which bytes of a file.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::RwLock;

/// Files grow in steps of this.
pub(crate) const EXTENT: u64 = 1 << 20;
/// The device's sector.
pub(crate) const SECTOR: u64 = 512;

/// The part of the disk that no file has used yet.
#[derive(Debug, Default)]
pub(crate) struct Space {
    next: AtomicU64,
    capacity: u64,
}

impl Space {
    pub(crate) const fn new(capacity: u64) -> Space {
        Space { next: AtomicU64::new(0), capacity }
    }

    /// Takes this many adjacent extents, or none.
    fn take(&self, extents: u64) -> Option<u64> {
        let fits = |at: u64| {
            let end = extents.checked_mul(EXTENT)?.checked_add(at)?;
            (end <= self.capacity).then_some(end)
        };
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Extents {
    pub(crate) len: u64,
    /// Bytes of this range beyond `len` may be from failed or abandoned writes. All others beyond
    /// it are zero.
    stale: Range<u64>,
    at: Vec<u64>,
}

impl Extents {
    /// Forgets everything of the file beyond `len`.
    pub(crate) fn cut(&mut self, len: u64) {
        self.at.truncate(usize::try_from(len.div_ceil(EXTENT)).unwrap_or(usize::MAX));
        self.len = len;
    }

    /// What must be zeroed before the file grows to `len`; at most one extent's worth.
    pub(crate) fn stale_up_to(&self, len: u64) -> Option<Range<u64>> {
        let from = self.stale.start.max(self.len);
        let to = self.stale.end.min(len).min((from / EXTENT + 1) * EXTENT);
        (from < to).then_some(from..to)
    }

    /// Notes that bytes beyond the file's end are zero up to `to`.
    pub(crate) fn cleared(&mut self, to: u64) {
        self.stale.start = self.stale.start.max(to);
    }

    /// The pieces of the disk that hold these bytes, which the file must have; equally long in
    /// total.
    pub(crate) fn pieces(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        let mut pieces: Vec<Range<u64>> = Vec::new();
        let mut from = bytes.start;
        while from < bytes.end {
            let to = bytes.end.min((from / EXTENT + 1) * EXTENT);
            let extent = self.at[usize::try_from(from / EXTENT).unwrap_or(usize::MAX)];
            let piece = extent + from % EXTENT..extent + from % EXTENT + (to - from);
            match pieces.last_mut() {
                Some(last) if last.end == piece.start => last.end = piece.end,
                _ => pieces.push(piece),
            }
            from = to;
        }
        pieces
    }
}

/// A write of these bytes is under way. If dropped before it ended well, some may remain.
pub(crate) struct UnderWay<'a>(pub(crate) &'a Inode, pub(crate) Range<u64>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let (mut extents, own) = (self.0.extents(), &self.1);
        let stale = &mut extents.stale;
        if stale.is_empty() {
            *stale = own.clone();
        } else {
            *stale = stale.start.min(own.start)..stale.end.max(own.end);
        }
    }
}

/// A file, whatever its name is.
#[derive(Debug)]
pub(crate) struct Inode {
    extents: Mutex<Extents>,
    space: Arc<Space>,
    /// Held exclusively by writes that must read first, and by those beyond the file's end.
    pub(crate) order: RwLock<()>,
}

impl Inode {
    pub(crate) fn new(space: Arc<Space>) -> Inode {
        Inode { extents: Mutex::default(), space, order: RwLock::new(()) }
    }

    pub(crate) fn extents(&self) -> MutexGuard<'_, Extents> {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self) {
        *self.extents() = Extents::default();
    }

    /// Reserves room for `len` bytes. `None`: the disk is full, and nothing has changed.
    pub(crate) fn reserve(&self, len: u64) -> Option<()> {
        let mut extents = self.extents();
        let more = len.div_ceil(EXTENT).saturating_sub(extents.at.len() as u64);
        let from = self.space.take(more)?;
        extents.at.extend((0..more).map(|extent| from + extent * EXTENT));
        Some(())
    }
}
