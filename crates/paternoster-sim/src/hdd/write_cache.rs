// SPDX-License-Identifier: MIT OR Apache-2.0
//! Write cache: data that were acknowledged and are not yet on the medium.
//!
//! A write that finds room is acknowledged at once and drains later. Dirty sectors are kept as
//! *extents*; a write that touches or overlaps extents becomes one with them, so overwriting costs
//! nothing and a sequential stream is one extent:
//!
//! ```text
//! by sector   [8..16) [32..40)         write [16..32)         [8..40)        2 extents become 1
//! by age      [32..40) before [8..16)                         as old as the oldest of them
//! ```
//!
//! They drain in the order of the positioning time among the oldest few (the *window*), as queued
//! commands do (`schedule.rs`): without a window only luck would prevent starvation. A long extent
//! drains in chunks, so that a read need not wait for all of it.
//!
//! A flush waits for what was dirty when it began, which each extent remembers as a part of itself.
//! What is merged later is not in it, so a writer that goes on, however fast, holds no flush up:
//!
//! ```text
//! a flush begins    [0..48)                       owed 0..48
//! write [48..64)    [0..64)                       owed 0..48
//! drain a chunk     [16..64)   written 0..16      owed 16..48
//! ```
//!
//! Room is limited both in sectors and in extents: a real disk's table of dirty extents is finite,
//! and 64 MiB of scattered 4 KiB would take it minutes to write.
//!
//! # Invariants
//! I1  Extents do not overlap or touch.
//! I2  The count of dirty sectors is the sum of the extents' lengths.
//! I3  Both orders hold the same extents.
//! I4  What an extent owes a flush lies in it.
//!
//! # Not here
//! Data: only their places are kept. Power failures: the model does not say what a flush would have
//! saved.

use super::geometry::{Geometry, Place};

/// No extent.
const NONE: u32 = u32::MAX;

/// Dirty sectors that follow each other.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    first: u64,
    end: u64,
    /// The place of its first sector.
    place: Place,
    /// A counter that grows with every new extent.
    born: u64,
    /// From where to where a flush waits for it; empty if none does.
    owed: (u64, u64),
    older: u32,
    newer: u32,
}

impl Extent {
    const fn owes(&self) -> bool {
        self.owed.0 < self.owed.1
    }
}

/// What two neighbours owe once they are one. What lies between goes along, which happens once: it
/// is at most what the cache holds.
fn both_owed(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    match (a.0 < a.1, b.0 < b.1) {
        (true, true) => (a.0.min(b.0), a.1.max(b.1)),
        (true, false) => a,
        _ => b,
    }
}

/// How much may be dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteRoom {
    /// Sectors; 0 for a disk that writes through.
    pub sectors: u64,
    /// Extents.
    pub extents: u32,
    /// Most sectors that drain at once.
    pub chunk: u64,
}

/// Dirty extents, by sector and by age.
#[derive(Debug, Clone)]
pub struct WriteCache {
    room: WriteRoom,
    extents: Vec<Extent>,
    free: Vec<u32>,
    /// First sector and place in `extents`, ascending.
    by_sector: Vec<(u64, u32)>,
    oldest: u32,
    newest: u32,
    sectors: u64,
    born: u64,
}

/// A dirty extent that may be drained next.
#[derive(Debug, Clone, Copy)]
pub struct Dirty {
    /// Give this to [`WriteCache::take`].
    pub extent: u32,
    /// Where what is to be written of it begins.
    pub place: Place,
    /// Whether only what it owes a flush is to be written.
    pub owed: bool,
}

impl WriteCache {
    /// A clean cache.
    #[must_use]
    pub fn new(room: WriteRoom) -> WriteCache {
        let count = if room.sectors == 0 { 0 } else { room.extents.max(1) };
        WriteCache {
            room: WriteRoom { extents: count, chunk: room.chunk.max(1), ..room },
            extents: vec![Extent::default(); count as usize],
            free: (0..count).rev().collect(),
            by_sector: Vec::with_capacity(count as usize),
            oldest: NONE,
            newest: NONE,
            sectors: 0,
            born: 0,
        }
    }

    /// Whether nothing is dirty.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.by_sector.is_empty()
    }

    /// Whether this many sectors could ever be held.
    #[must_use]
    pub const fn can_hold(&self, sectors: u64) -> bool {
        sectors <= self.room.sectors && self.room.extents > 0
    }

    /// Whether this many more fit now, as an extent of their own.
    #[must_use]
    pub fn has_room(&self, sectors: u64) -> bool {
        self.sectors + sectors <= self.room.sectors && !self.free.is_empty()
    }

    /// Whether it is so full that draining can no longer wait for idle time: half of either limit.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.sectors * 2 >= self.room.sectors.max(1)
            || self.by_sector.len() * 2 >= self.extents.len().max(1)
    }

    /// A flush begins, and waits for what is dirty now. At most one does at a time.
    pub fn begin_flush(&mut self) {
        for &(_, at) in &self.by_sector {
            let extent = &mut self.extents[at as usize];
            extent.owed = (extent.first, extent.end);
        }
    }

    /// The place in `by_sector` of the first extent that ends at `sector` or beyond it.
    fn first_ending_from(&self, sector: u64) -> usize {
        self.by_sector.partition_point(|&(_, at)| self.extents[at as usize].end < sector)
    }

    /// Whether all of `[sector, end)` is dirty, in one extent.
    #[must_use]
    pub fn covers(&self, sector: u64, end: u64) -> bool {
        let behind = self.by_sector.partition_point(|&(first, _)| first <= sector);
        let extent = self.by_sector.get(behind.wrapping_sub(1));
        extent.is_some_and(|&(_, at)| end <= self.extents[at as usize].end)
    }

    /// Whether any of `[sector, end)` is dirty.
    #[must_use]
    pub fn touches(&self, sector: u64, end: u64) -> bool {
        self.by_sector
            .get(self.first_ending_from(sector + 1))
            .is_some_and(|&(first, _)| first < end)
    }

    /// Makes `[sector, end)` dirty. There is room for it.
    pub fn insert(&mut self, geometry: &Geometry, sector: u64, end: u64) {
        let (mut first, mut last, mut owed) = (sector, end, (0, 0));
        let at = self.first_ending_from(sector);
        let mut kept = NONE;
        while let Some(&(start, extent)) = self.by_sector.get(at) {
            if start > end {
                break;
            }
            let other = self.extents[extent as usize];
            self.sectors -= other.end - other.first;
            (first, last) = (first.min(other.first), last.max(other.end));
            owed = both_owed(owed, other.owed);
            self.by_sector.remove(at);
            // The oldest of them stays, so that data that are rewritten still drain.
            let goes = match kept {
                NONE => {
                    kept = extent;
                    continue;
                }
                _ if self.extents[kept as usize].born > other.born => {
                    std::mem::replace(&mut kept, extent)
                }
                _ => extent,
            };
            self.release(goes);
        }
        if kept == NONE {
            let Some(extent) = self.free.pop() else { return };
            kept = extent;
            self.append(extent);
        }
        let extent = &mut self.extents[kept as usize];
        (extent.first, extent.end, extent.owed) = (first, last, owed);
        extent.place = geometry.place(first);
        self.by_sector.insert(at, (first, kept));
        self.sectors += last - first;
    }

    /// `[sector, end)` is on the medium or discarded: it is no longer dirty. The middle of an
    /// extent stays dirty, and is written once more than needed.
    pub fn forget(&mut self, geometry: &Geometry, sector: u64, end: u64) {
        let mut at = self.first_ending_from(sector);
        while let Some(&(first, extent)) = self.by_sector.get(at) {
            if first >= end {
                break;
            }
            let dirty = &mut self.extents[extent as usize];
            let before = dirty.end - dirty.first;
            if sector <= dirty.first && dirty.end <= end {
                self.sectors -= before;
                self.by_sector.remove(at);
                self.release(extent);
                continue;
            }
            if sector <= dirty.first {
                dirty.first = end;
                dirty.place = geometry.place(end);
                self.by_sector[at].0 = end;
            } else if dirty.end <= end {
                dirty.end = dirty.end.min(sector);
            }
            dirty.owed = (dirty.owed.0.max(dirty.first), dirty.owed.1.min(dirty.end));
            self.sectors -= before - (dirty.end - dirty.first);
            at += 1;
        }
    }

    /// The oldest `window` extents, or of those that owe something to a flush.
    pub fn window(
        &self,
        geometry: &Geometry,
        window: u32,
        owed: bool,
    ) -> impl Iterator<Item = Dirty> {
        let first = (self.oldest != NONE).then_some(self.oldest);
        let next = |&at: &u32| Some(self.extents[at as usize].newer).filter(|&next| next != NONE);
        let dirty = move |at: u32| {
            let extent = &self.extents[at as usize];
            let inside = owed && extent.owed.0 > extent.first;
            let place = if inside { geometry.place(extent.owed.0) } else { extent.place };
            Dirty { extent: at, place, owed }
        };
        // Those that owe nothing any more may be the oldest: they take none of the window's places.
        std::iter::successors(first, next)
            .filter(move |&at| !owed || self.extents[at as usize].owes())
            .take(window as usize)
            .map(dirty)
    }

    /// Removes an extent, or its first chunk, to write it: `[first, end)`. What is owed in the
    /// middle of an extent is owed no more, but stays dirty (see [`WriteCache::forget`]).
    pub fn take(&mut self, geometry: &Geometry, dirty: Dirty) -> (u64, u64) {
        let extent = &mut self.extents[dirty.extent as usize];
        let (first, end) = if dirty.owed { extent.owed } else { (extent.first, extent.end) };
        let end = end.min(first + self.room.chunk);
        if dirty.owed {
            extent.owed.0 = end;
        }
        self.forget(geometry, first, end);
        (first, end)
    }

    /// Puts an extent at the end of the age order.
    fn append(&mut self, extent: u32) {
        let (older, newer, born) = (self.newest, NONE, self.born);
        self.extents[extent as usize] = Extent { born, older, newer, ..Extent::default() };
        self.born += 1;
        match self.newest {
            NONE => self.oldest = extent,
            newest => self.extents[newest as usize].newer = extent,
        }
        self.newest = extent;
    }

    /// Takes an extent out of the age order.
    fn release(&mut self, extent: u32) {
        let Extent { older, newer, .. } = self.extents[extent as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.extents[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.extents[newer as usize].older = older,
        }
        self.free.push(extent);
    }

    /// Verifies I1 to I3.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check(&self) {
        let (mut sum, mut last_end) = (0, None);
        for &(first, at) in &self.by_sector {
            let extent = self.extents[at as usize];
            assert_eq!(first, extent.first, "I3: an extent is where its first sector says");
            assert!(extent.first < extent.end, "an extent holds something");
            let (from, to) = extent.owed;
            let inside = extent.first <= from && to <= extent.end;
            assert!(!extent.owes() || inside, "I4: what is owed is in the extent");
            assert!(last_end.is_none_or(|end| end < first), "I1: extents do not touch");
            sum += extent.end - first;
            last_end = Some(extent.end);
        }
        assert_eq!(sum, self.sectors, "I2: the dirty sectors add up");
        let next = |&at: &u32| Some(self.extents[at as usize].newer).filter(|&at| at != NONE);
        let first = (self.oldest != NONE).then_some(self.oldest);
        let by_age = std::iter::successors(first, next).count();
        assert_eq!(by_age, self.by_sector.len(), "I3: both orders hold the same");
        assert_eq!(by_age + self.free.len(), self.extents.len(), "no extent is lost");
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::Zone;
    use super::*;
    use paternoster_core::Nanos;
    use proptest::prelude::*;

    fn geometry() -> Geometry {
        let skew = Nanos::ZERO;
        let (cylinders, track_sectors) = (100, 100);
        let zone =
            Zone { cylinders, track_sectors, sectors: 0, track_skew: skew, cylinder_skew: skew };
        Geometry::new(1, Nanos(1000), &[zone])
    }

    fn cache() -> WriteCache {
        WriteCache::new(WriteRoom { sectors: 100, extents: 8, chunk: 16 })
    }

    fn firsts(cache: &WriteCache) -> Vec<u32> {
        cache.window(&geometry(), 8, false).map(|dirty| dirty.place.index).collect()
    }

    /// Writes what a flush waits for, with `between` after each chunk; says what was written.
    fn flush(cache: &mut WriteCache, mut between: impl FnMut(&mut WriteCache)) -> Vec<(u64, u64)> {
        let geometry = geometry();
        let mut written = Vec::new();
        let next = |cache: &WriteCache| cache.window(&geometry, 8, true).next();
        while let Some(dirty) = next(cache) {
            written.push(cache.take(&geometry, dirty));
            assert!(written.len() < 100, "{written:?}");
            between(cache);
            cache.check();
        }
        written
    }

    /// Does the example above come out: three writes, one extent, as old as the oldest?
    #[test]
    fn neighbours_become_one() {
        let (geometry, mut cache) = (geometry(), cache());
        for (sector, end) in [(32, 40), (60, 62), (8, 16)] {
            cache.insert(&geometry, sector, end);
        }
        assert_eq!(firsts(&cache), [32, 60, 8]);
        cache.insert(&geometry, 16, 32);
        cache.check();
        assert_eq!(firsts(&cache), [8, 60]);
        assert!(cache.covers(8, 40) && cache.covers(20, 21) && !cache.covers(8, 41));
    }

    /// Does overwriting take no room, and a long extent drain in chunks of 16?
    #[test]
    fn overwriting_is_free_and_chunks_are_short() {
        let (geometry, mut cache) = (geometry(), cache());
        for _ in 0..50 {
            cache.insert(&geometry, 0, 40);
        }
        assert!(cache.has_room(60) && !cache.has_room(61));
        let dirty = cache.window(&geometry, 1, false).next().unwrap();
        assert_eq!(cache.take(&geometry, dirty), (0, 16));
        assert_eq!(cache.take(&geometry, dirty), (16, 32));
        assert_eq!(cache.take(&geometry, dirty), (32, 40));
        assert!(cache.is_clean());
    }

    /// Does a flush wait for what was dirty before and for nothing that came later: beside it, and
    /// in the same extent, behind what is owed (the essay's), before it, or over it?
    #[test]
    fn a_flush_waits_for_what_was_before_it() {
        let geometry = geometry();
        let begun = |first, end| {
            let mut cache = cache();
            cache.insert(&geometry, first, end);
            cache.begin_flush();
            cache
        };
        let mut cache = begun(10, 20);
        cache.insert(&geometry, 50, 60);
        assert_eq!(flush(&mut cache, |_| ()), [(10, 20)]);
        assert!(!cache.is_clean());

        let mut cache = begun(0, 48);
        let mut end = 48;
        let written = flush(&mut cache, |cache| {
            cache.insert(&geometry, end, end + 16);
            end += 16;
        });
        assert_eq!(written, [(0, 16), (16, 32), (32, 48)]);
        assert!(cache.covers(48, end));

        let mut cache = begun(1000, 1040);
        cache.insert(&geometry, 990, 1000);
        let mut first = 990;
        let written = flush(&mut cache, |cache| {
            cache.insert(&geometry, first - 8, first);
            first -= 8;
        });
        assert_eq!(written, [(1000, 1016), (1016, 1032), (1032, 1040)]);

        let mut cache = begun(0, 40);
        let written = flush(&mut cache, |cache| cache.insert(&geometry, 0, 40));
        assert_eq!(written, [(0, 16), (16, 32), (32, 40)]);
    }

    proptest! {
        /// Do the invariants hold, and are the dirty sectors those of a naive set, whatever is
        /// written and forgotten? The set may lack what `forget` leaves in the middle of an extent.
        /// And does a flush wait until all that was dirty when it began is written?
        #[test]
        fn equals_a_set_of_sectors(
            steps in prop::collection::vec((0u64..200, 1u64..20, 0u8..7), 1..60)
        ) {
            let (geometry, mut cache) = (geometry(), cache());
            let mut naive = std::collections::BTreeSet::new();
            // What was dirty when the last flush began, and has not been written since.
            let mut owed = naive.clone();
            for (sector, length, what) in steps {
                let end = sector + length;
                match what {
                    0 => {
                        cache.forget(&geometry, sector, end);
                        for sector in sector..end {
                            naive.remove(&sector);
                            owed.remove(&sector);
                        }
                    }
                    1 | 2 => if let Some(dirty) = cache.window(&geometry, 3, what == 2).last() {
                        let (sector, end) = cache.take(&geometry, dirty);
                        prop_assert!(sector < end && end - sector <= 16);
                        for sector in sector..end {
                            naive.remove(&sector);
                            owed.remove(&sector);
                        }
                    },
                    3 if owed.is_empty() => {
                        cache.begin_flush();
                        owed = naive.clone();
                    }
                    _ => if cache.has_room(length) {
                        cache.insert(&geometry, sector, end);
                        naive.extend(sector..end);
                    },
                }
                cache.check();
                let waits = cache.window(&geometry, 1, true).next().is_some();
                prop_assert!(waits || owed.is_empty(), "{owed:?}");
                for sector in 0..220 {
                    prop_assert!(!naive.contains(&sector) || cache.covers(sector, sector + 1));
                    let any = (sector..sector + 3).any(|sector| cache.covers(sector, sector + 1));
                    prop_assert_eq!(cache.touches(sector, sector + 3), any);
                }
            }
        }
    }
}
