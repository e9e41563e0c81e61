// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages: which pages of which file are in memory, and in what state.
//!
//! A page has 4 KiB. Sixteen neighbours form a *chunk*, which keeps one bit for each of them in
//! every state, so that a cache of 8 GiB costs a few MiB here:
//!
//! ```text
//! chunk 3 of a file    pages 48 to 63
//! present              1111 1111 1111 0000     read or written, and in memory
//! reading              0000 0000 0000 1111     a bio brings them
//! marked               0000 0000 1000 0000     a reader of page 56 starts the next read-ahead
//! dirty                0000 0000 0000 0000     newer than the device
//! writeback            0000 0000 0000 0000     a bio carries them to the device
//! ```
//!
//! When the memory is full, the chunk that was used longest ago leaves, if it is clean and nothing
//! is in flight for it.
//!
//! # Invariants
//! I1  A page is not present and being read at once; dirty and writeback pages are present.
//! I2  The counts (present with reading, dirty, writeback) are those of the bits, of a file and of
//!     all.
//! I3  A chunk with no bit set is free; a chunk with some is in the list of ages, once.
//!
//! # Not here
//! When to read ahead (`read_ahead.rs`), when to write back (`flusher.rs`), which process waits
//! (`mod.rs`).
//!
//! Differs from Linux: one list of ages instead of an active and an inactive one, and by chunks
//! instead of pages; so a chunk of which one page was read keeps its age for all sixteen.

use std::collections::BTreeSet;

use hashbrown::HashTable;
use paternoster_core::Nanos;
use paternoster_core::list::{Links, List};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Pages of a chunk: the bits of a mask.
const CHUNK: u64 = 16;
/// No chunk.
const NONE: u32 = u32::MAX;
/// A chunk takes the room of at least this many pages, so that scattered single pages cannot make
/// more chunks than memory should hold.
const LEAST_PAGES: u64 = 4;

/// The state of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// Not in memory.
    Absent,
    /// A bio brings it.
    Reading,
    /// In memory; and whether it carries the marker of a read-ahead.
    Present {
        /// A process that reads it starts the next read-ahead.
        marked: bool,
    },
}

#[derive(Debug, Clone, Copy, Default)]
struct Chunk {
    file: u32,
    /// Its number in the file, in two parts: 48 bits, which are all that a file of 2^64 bytes
    /// needs, where 64 would make each chunk a fifth larger.
    number_low: u32,
    number_high: u16,
    present: u16,
    reading: u16,
    marked: u16,
    dirty: u16,
    writeback: u16,
}

impl Chunk {
    const fn is_empty(&self) -> bool {
        self.present | self.reading == 0
    }

    /// Chunk `number` of a file, with nothing in memory.
    fn new(file: u32, number: u64) -> Chunk {
        let (low, high) = (number & u64::from(u32::MAX), number >> 32);
        Chunk {
            file,
            number_low: u32::try_from(low).expect("32 bits"),
            number_high: u16::try_from(high).expect("a page's number has at most 52 bits"),
            ..Chunk::default()
        }
    }

    const fn number(&self) -> u64 {
        (self.number_high as u64) << 32 | self.number_low as u64
    }

    const fn is(&self, file: u32, number: u64) -> bool {
        self.file == file && self.number() == number
    }

    const fn hash(&self) -> u64 {
        hash(self.file, self.number())
    }

    /// Whether some of its pages may leave.
    const fn may_leave(&self) -> bool {
        self.present & !(self.dirty | self.writeback) != 0
    }
}

/// A run of neighbouring pages of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first page.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
}

#[derive(Debug, Clone, Default)]
struct FilePages {
    /// Chunks in memory.
    chunks: u32,
    /// Chunks with a dirty page.
    dirty_chunks: BTreeSet<u64>,
    dirty: u64,
    writeback: u64,
    /// When it became dirty; for the age of its oldest dirty page.
    dirtied_at: Nanos,
}

/// The pages of all files.
#[derive(Debug, Clone)]
pub struct Pages {
    files: Vec<FilePages>,
    chunks: Vec<Chunk>,
    /// Slots of chunks by file and number. Only looked up, never iterated: no hash order.
    index: HashTable<u32>,
    free: Vec<u32>,
    links: Links,
    /// From the chunk used longest ago to the one used last.
    ages: List,
    /// Present or being read; of these those being read, and those that are not clean.
    resident: u64,
    reading: u64,
    unclean: u64,
    dirty: u64,
    writeback: u64,
    capacity: u64,
    chunks_max: usize,
}

impl Pages {
    /// Nothing in memory, for files of these sizes in bytes and a memory of `capacity` pages.
    #[must_use]
    pub fn new(sizes: &[u64], capacity: u64) -> Pages {
        let chunks_of = |bytes: u64| bytes.div_ceil(PAGE).div_ceil(CHUNK);
        let all: u64 = sizes.iter().map(|&bytes| chunks_of(bytes)).sum();
        let most = u32::try_from(all.min(capacity / LEAST_PAGES).max(CHUNK)).unwrap_or(NONE - 1);
        Pages {
            files: vec![FilePages::default(); sizes.len()],
            chunks: Vec::with_capacity(most as usize),
            index: HashTable::new(),
            free: Vec::new(),
            links: Links::with_capacity(most),
            ages: List::new(),
            resident: 0,
            reading: 0,
            unclean: 0,
            dirty: 0,
            writeback: 0,
            capacity,
            chunks_max: most as usize,
        }
    }

    /// The state of a page.
    #[must_use]
    pub fn state(&self, file: u32, page: u64) -> PageState {
        let Some(chunk) = self.find(file, page).map(|slot| &self.chunks[slot as usize]) else {
            return PageState::Absent;
        };
        let bit = bit(page);
        if chunk.present & bit != 0 {
            PageState::Present { marked: chunk.marked & bit != 0 }
        } else if chunk.reading & bit != 0 {
            PageState::Reading
        } else {
            PageState::Absent
        }
    }

    /// The state of a page that a reader comes to. If it is present this counts as a use: its chunk
    /// is the youngest, its marker is gone.
    pub fn meet(&mut self, file: u32, page: u64) -> PageState {
        let Some(slot) = self.find(file, page) else { return PageState::Absent };
        let (bit, chunk) = (bit(page), &mut self.chunks[slot as usize]);
        if chunk.present & bit != 0 {
            let marked = chunk.marked & bit != 0;
            chunk.marked &= !bit;
            self.make_youngest(slot);
            PageState::Present { marked }
        } else if chunk.reading & bit != 0 {
            PageState::Reading
        } else {
            PageState::Absent
        }
    }

    /// The pages of `run` that are absent are being read from now on.
    pub fn begin_read(&mut self, file: u32, run: Run) {
        for page in run.first..run.first + run.pages {
            let slot = self.find_or_make(file, page);
            let chunk = &mut self.chunks[slot as usize];
            if (chunk.present | chunk.reading) & bit(page) == 0 {
                chunk.reading |= bit(page);
                self.resident += 1;
                self.reading += 1;
            }
        }
    }

    /// The bio that read `run` has ended: its pages are present, or absent if it failed.
    pub fn end_read(&mut self, file: u32, run: Run, ok: bool) {
        for page in run.first..run.first + run.pages {
            let Some(slot) = self.find(file, page) else { continue };
            let chunk = &mut self.chunks[slot as usize];
            if chunk.reading & bit(page) == 0 {
                continue;
            }
            chunk.reading &= !bit(page);
            self.reading -= 1;
            if ok {
                chunk.present |= bit(page);
            } else {
                chunk.marked &= !bit(page);
                self.resident -= 1;
                self.free_if_empty(slot);
            }
        }
    }

    /// A reader of this page, which is present or being read, starts the next read-ahead.
    pub fn mark(&mut self, file: u32, page: u64) {
        if let Some(slot) = self.find(file, page) {
            self.chunks[slot as usize].marked |= bit(page);
        }
    }

    /// A page was written: present and dirty. True if it was not dirty before.
    pub fn write(&mut self, now: Nanos, file: u32, page: u64) -> bool {
        let slot = self.find_or_make(file, page);
        self.make_youngest(slot);
        let chunk = &mut self.chunks[slot as usize];
        let bit = bit(page);
        if (chunk.present | chunk.reading) & bit == 0 {
            self.resident += 1;
        }
        self.reading -= u64::from(chunk.reading & bit != 0);
        chunk.reading &= !bit;
        chunk.present |= bit;
        if chunk.dirty & bit != 0 {
            return false;
        }
        self.unclean += u64::from(chunk.writeback & bit == 0);
        chunk.dirty |= bit;
        let number = chunk.number();
        let file = &mut self.files[file as usize];
        if file.dirty == 0 {
            file.dirtied_at = now;
        }
        file.dirty += 1;
        file.dirty_chunks.insert(number);
        self.dirty += 1;
        true
    }

    /// The dirty pages of `run` are on their way to the device: clean once it has them.
    pub fn begin_writeback(&mut self, file: u32, run: Run) {
        for page in run.first..run.first + run.pages {
            let Some(slot) = self.find(file, page) else { continue };
            let chunk = &mut self.chunks[slot as usize];
            let bit = bit(page);
            if chunk.dirty & bit == 0 || chunk.writeback & bit != 0 {
                continue;
            }
            chunk.dirty &= !bit;
            chunk.writeback |= bit;
            let (clean, number) = (chunk.dirty == 0, chunk.number());
            let file = &mut self.files[file as usize];
            if clean {
                file.dirty_chunks.remove(&number);
            }
            file.dirty -= 1;
            file.writeback += 1;
            self.dirty -= 1;
            self.writeback += 1;
        }
    }

    /// The bio that wrote `run` has ended.
    pub fn end_writeback(&mut self, file: u32, run: Run) {
        for page in run.first..run.first + run.pages {
            let Some(slot) = self.find(file, page) else { continue };
            let chunk = &mut self.chunks[slot as usize];
            if chunk.writeback & bit(page) != 0 {
                chunk.writeback &= !bit(page);
                self.unclean -= u64::from(chunk.dirty & bit(page) == 0);
                self.files[file as usize].writeback -= 1;
                self.writeback -= 1;
            }
        }
    }

    /// The next run of at most `most` pages at or after `from` that are dirty and not being
    /// written; and whether dirty pages were skipped because they are.
    #[must_use]
    pub fn next_dirty(&self, file: u32, from: u64, most: u64) -> (Option<Run>, bool) {
        let (mut run, mut passed): (Option<Run>, bool) = (None, false);
        for &number in self.files[file as usize].dirty_chunks.range(chunk_number(from)..) {
            let first = number * CHUNK;
            if run.is_some_and(|run| run.first + run.pages != first) {
                break;
            }
            let Some(slot) = self.find(file, first) else { continue };
            let chunk = &self.chunks[slot as usize];
            for page in first.max(from)..first + CHUNK {
                let dirty = chunk.dirty & bit(page) != 0;
                let wanted = dirty && chunk.writeback & bit(page) == 0;
                passed |= dirty && !wanted;
                match &mut run {
                    None if wanted => run = Some(Run { first: page, pages: 1 }),
                    None => {}
                    Some(run) if wanted && run.pages < most => run.pages += 1,
                    Some(_) => return (run, passed),
                }
            }
        }
        (run, passed)
    }

    /// The first page of `most` from `from` on that is absent.
    #[must_use]
    pub fn next_absent(&self, file: u32, from: u64, most: u64) -> Option<u64> {
        (from..from.saturating_add(most)).find(|&page| self.state(file, page) == PageState::Absent)
    }

    /// How many pages right before `page`, at most `most`, are not absent.
    #[must_use]
    pub fn run_before(&self, file: u32, page: u64, most: u64) -> u64 {
        let there = |&page: &u64| self.state(file, page) != PageState::Absent;
        (page.saturating_sub(most)..page).rev().take_while(there).count() as u64
    }

    /// Clean pages of a file leave the memory.
    pub fn drop_file(&mut self, file: u32) {
        if self.files[file as usize].chunks == 0 {
            return;
        }
        let own = |slot: &u32| self.chunks[*slot as usize].file == file;
        let slots: Vec<u32> = self.ages.iter(&self.links).filter(own).collect();
        slots.into_iter().for_each(|slot| self.drop_clean_pages(slot));
    }

    fn drop_clean_pages(&mut self, slot: u32) {
        let chunk = &mut self.chunks[slot as usize];
        let kept = chunk.dirty | chunk.writeback;
        self.resident -= u64::from((chunk.present & !kept).count_ones());
        chunk.present &= kept;
        chunk.marked &= chunk.reading;
        self.free_if_empty(slot);
    }

    /// Makes room for `pages` more, as far as clean chunks can leave.
    pub fn make_room(&mut self, pages: u64) {
        while self.resident + pages > self.capacity {
            if !self.evict_oldest() {
                return;
            }
        }
    }

    /// The clean pages of the oldest chunk that has some leave. False if there are none.
    ///
    /// Chunks without any are skipped and count as young again, as Linux rotates its lists:
    /// otherwise each call would skip them again.
    fn evict_oldest(&mut self) -> bool {
        if self.resident <= self.reading + self.unclean {
            return false;
        }
        for _ in 0..self.ages.len() {
            let Some(slot) = self.ages.first() else { return false };
            if self.chunks[slot as usize].may_leave() {
                self.drop_clean_pages(slot);
                return true;
            }
            self.make_youngest(slot);
        }
        false
    }

    /// Dirty pages, and those on their way to the device; of all files.
    #[must_use]
    pub const fn unwritten(&self) -> u64 {
        self.dirty + self.writeback
    }

    /// Dirty pages of all files that are not on their way to the device.
    #[must_use]
    pub const fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Dirty pages of a file.
    #[must_use]
    pub fn dirty_of(&self, file: u32) -> u64 {
        self.files[file as usize].dirty
    }

    /// Pages of a file that are on their way to the device.
    #[must_use]
    pub fn writeback_of(&self, file: u32) -> u64 {
        self.files[file as usize].writeback
    }

    /// Since when a file has dirty pages.
    #[must_use]
    pub fn dirty_since(&self, file: u32) -> Option<Nanos> {
        let file = &self.files[file as usize];
        (file.dirty > 0).then_some(file.dirtied_at)
    }

    /// Pages in memory, those being read included.
    #[must_use]
    pub const fn resident(&self) -> u64 {
        self.resident
    }

    fn find(&self, file: u32, page: u64) -> Option<u32> {
        let number = chunk_number(page);
        let same = |&slot: &u32| self.chunks[slot as usize].is(file, number);
        self.index.find(hash(file, number), same).copied()
    }

    fn find_or_make(&mut self, file: u32, page: u64) -> u32 {
        if let Some(slot) = self.find(file, page) {
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| self.new_slot());
        let number = chunk_number(page);
        self.chunks[slot as usize] = Chunk::new(file, number);
        self.files[file as usize].chunks += 1;
        let chunks = &self.chunks;
        let rehash = |&slot: &u32| chunks[slot as usize].hash();
        self.index.insert_unique(hash(file, number), slot, rehash);
        self.ages.push_back(&mut self.links, slot);
        slot
    }

    /// A slot that no chunk has had; the room of an old chunk if there are enough of them.
    fn new_slot(&mut self) -> u32 {
        if self.chunks.len() >= self.chunks_max
            && self.evict_oldest()
            && let Some(slot) = self.free.pop()
        {
            return slot;
        }
        if self.chunks.len() >= self.chunks_max {
            // Nothing may leave: everything is dirty or in flight. The links must grow after all.
            self.grow_links();
        }
        self.chunks.push(Chunk::default());
        u32::try_from(self.chunks.len() - 1).unwrap_or(NONE)
    }

    fn grow_links(&mut self) {
        self.chunks_max *= 2;
        let mut links = Links::with_capacity(u32::try_from(self.chunks_max).unwrap_or(NONE));
        let mut ages = List::new();
        while let Some(slot) = self.ages.pop_front(&mut self.links) {
            ages.push_back(&mut links, slot);
        }
        (self.links, self.ages) = (links, ages);
    }

    fn make_youngest(&mut self, slot: u32) {
        if self.ages.last() != Some(slot) {
            self.ages.remove(&mut self.links, slot);
            self.ages.push_back(&mut self.links, slot);
        }
    }

    fn free_if_empty(&mut self, slot: u32) {
        let chunk = self.chunks[slot as usize];
        if !chunk.is_empty() {
            return;
        }
        self.files[chunk.file as usize].chunks -= 1;
        if let Ok(entry) = self.index.find_entry(chunk.hash(), |&other| other == slot) {
            entry.remove();
        }
        self.ages.remove(&mut self.links, slot);
        self.free.push(slot);
    }

    /// Verifies I1 to I3; the time grows with what is in memory.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let (mut resident, mut dirty, mut writeback, mut used) = (0, 0, 0, 0);
        let (mut reading, mut unclean) = (0, 0);
        let mut next = self.ages.first();
        while let Some(slot) = next {
            let chunk = &self.chunks[slot as usize];
            if chunk.present & chunk.reading != 0 {
                return Err(format!("I1: present and being read: {chunk:?}"));
            }
            if (chunk.dirty | chunk.writeback) & !chunk.present != 0 {
                return Err(format!("I1: dirty and absent: {chunk:?}"));
            }
            if chunk.is_empty() || self.find(chunk.file, chunk.number() * CHUNK) != next {
                return Err(format!("I3: {chunk:?} is empty or lost"));
            }
            resident += u64::from((chunk.present | chunk.reading).count_ones());
            dirty += u64::from(chunk.dirty.count_ones());
            writeback += u64::from(chunk.writeback.count_ones());
            reading += u64::from(chunk.reading.count_ones());
            unclean += u64::from((chunk.dirty | chunk.writeback).count_ones());
            used += 1;
            next = self.links.next(slot);
        }
        if used + self.free.len() != self.chunks.len() {
            return Err(format!("I3: {used} used and {} free chunks", self.free.len()));
        }
        let counted = (resident, dirty, writeback, reading, unclean);
        let kept = (self.resident, self.dirty, self.writeback, self.reading, self.unclean);
        let by_file = self.files.iter().fold((0, 0), |(dirty, writeback), file| {
            (dirty + file.dirty, writeback + file.writeback)
        });
        if counted != kept || by_file != (dirty, writeback) {
            return Err(format!("I2: counted {counted:?}, kept {kept:?}, by file {by_file:?}"));
        }
        Ok(())
    }
}

const fn bit(page: u64) -> u16 {
    1 << (page % CHUNK)
}

const fn chunk_number(page: u64) -> u64 {
    page / CHUNK
}

/// Spreads file and number over 64 bits: an odd constant (2^64 / golden ratio).
const fn hash(file: u32, number: u64) -> u64 {
    // Beyond 2^32 chunks, 256 TiB, a number shares bits with the file: that costs a look, no more.
    let key = (file as u64) << 32 ^ number;
    let once = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    once ^ (once >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(first: u64, pages: u64) -> Run {
        Run { first, pages }
    }

    /// Are pages beyond 256 TiB, 2^32 chunks, told apart, by 48 bits, at the room of 32?
    #[test]
    fn far_pages_are_their_own() {
        let far = 1 << 36;
        let mut pages = Pages::new(&[u64::MAX, u64::MAX], 256);
        let places = [0, far - 1, far, far + 1, 3 * far + 16, u64::MAX / PAGE];
        for (nth, &page) in places.iter().enumerate() {
            assert_eq!(pages.state(0, page), PageState::Absent, "{page}");
            pages.write(Nanos(nth as u64), 0, page);
            pages.check().unwrap();
        }
        assert_eq!((pages.resident(), pages.dirty_of(0)), (6, 6));
        assert_eq!(pages.state(1, far), PageState::Absent);
        assert_eq!(pages.next_dirty(0, 1, 64), (Some(run(far - 1, 3)), false));
        assert_eq!(pages.next_dirty(0, far + 2, 64), (Some(run(3 * far + 16, 1)), false));
        assert_eq!(size_of::<Chunk>(), 20);
    }

    /// Does a page go through its states, and is a marker met once?
    #[test]
    fn a_page_is_read_and_used() {
        let mut pages = Pages::new(&[1 << 20], 256);
        pages.begin_read(0, run(14, 4));
        pages.mark(0, 16);
        assert_eq!(pages.state(0, 15), PageState::Reading);
        assert_eq!(pages.state(0, 18), PageState::Absent);
        pages.end_read(0, run(14, 4), true);
        assert_eq!(pages.meet(0, 16), PageState::Present { marked: true });
        assert_eq!(pages.state(0, 16), PageState::Present { marked: false });
        assert_eq!((pages.next_absent(0, 14, 10), pages.run_before(0, 18, 10)), (Some(18), 4));
        pages.check().unwrap();
    }

    /// Do dirty pages come as runs, and those on their way not again?
    #[test]
    fn dirty_pages_come_as_runs() {
        let mut pages = Pages::new(&[1 << 20], 256);
        for page in [3, 4, 5, 15, 16, 17, 40] {
            assert!(pages.write(Nanos(7), 0, page));
        }
        assert!(!pages.write(Nanos(8), 0, 4));
        assert_eq!(pages.next_dirty(0, 0, 100), (Some(run(3, 3)), false));
        assert_eq!(pages.next_dirty(0, 6, 2), (Some(run(15, 2)), false));
        pages.begin_writeback(0, run(15, 3));
        assert_eq!(pages.next_dirty(0, 6, 100), (Some(run(40, 1)), false));
        // Written again on its way: dirty, but not to be sent before it has arrived.
        assert!(pages.write(Nanos(9), 0, 16));
        assert_eq!(pages.next_dirty(0, 6, 100), (Some(run(40, 1)), true));
        assert_eq!((pages.dirty_of(0), pages.writeback_of(0)), (5, 3));
        pages.end_writeback(0, run(15, 3));
        assert_eq!(pages.next_dirty(0, 6, 100), (Some(run(16, 1)), false));
        assert_eq!(pages.dirty_since(0), Some(Nanos(7)));
        pages.check().unwrap();
    }

    /// Does the chunk that was used longest ago leave first, and do dirty pages stay?
    #[test]
    fn the_oldest_clean_chunk_leaves() {
        // A memory of 48 pages: three chunks.
        let mut pages = Pages::new(&[1 << 20], 48);
        for first in [0, 16, 32] {
            pages.begin_read(0, run(first, 16));
            pages.end_read(0, run(first, 16), true);
        }
        pages.write(Nanos(0), 0, 0);
        pages.meet(0, 16);
        // By age: 32, 0 (its first page dirty), 16. Room for 20 pages takes all of 32 and what is
        // clean of 0.
        pages.make_room(20);
        let there = |page| pages.state(0, page) != PageState::Absent;
        assert_eq!([32, 0, 1, 16].map(there), [false, true, false, true]);
        pages.check().unwrap();
    }

    proptest! {
        /// Do counts stay those of the bits under any order of calls?
        #[test]
        fn counts_hold(steps in prop::collection::vec((0u8..7, 0u64..80, 1u64..20), 1..200)) {
            let mut pages = Pages::new(&[100 * PAGE, 100 * PAGE], 64);
            for (what, first, count) in steps {
                let (file, run) = (u32::from(what % 2 == 0), run(first, count));
                match what {
                    0 | 1 => pages.begin_read(file, run),
                    2 => pages.end_read(0, run, count % 3 > 0),
                    3 => { pages.write(Nanos(first), 1, first); }
                    4 => pages.begin_writeback(1, run),
                    5 => pages.end_writeback(1, run),
                    _ => { pages.make_room(count); pages.drop_file(file); }
                }
                prop_assert_eq!(pages.check(), Ok(()));
            }
        }
    }
}
