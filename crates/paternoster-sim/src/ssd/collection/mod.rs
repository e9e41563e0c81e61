// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collection: what a write costs in addition to itself, depending on how full the drive is.
//!
//! `blocks` knows where pages lie and chooses what is erased; here commands become pages, and moved
//! pages become programs and erases that keep dies busy.
//!
//! ```text
//! write 4 KiB ──▶ page 17 ──▶ blocks: 4 pages moved ──▶ 16 KiB owed ──▶ a unit: 1 program
//! trim 1 MiB  ──▶ pages 256..512 have no place: their blocks are cheaper to free
//! ```
//!
//! # A sample
//! A table of every page of a terabyte would take a gigabyte, and what collection costs depends on
//! ratios alone: of flash to data, of blocks to pages. So for a large drive one page of each
//! `sample` neighbours is mapped, chosen by a hash; blocks shrink in proportion, and each moved
//! page counts as `sample` pages. Its cost is spread over as many writes, so that it does not come
//! in lumps. A drive of up to 2^18 pages (1 GiB) is mapped in full.
//!
//! # Age
//! A drive comes with a past: a part of it was written from front to back, then pages of that part
//! were overwritten at random, as often as the file says. This is computed once per device file;
//! every run begins with the same drive.
//!
//! # Invariants
//! I1  Pages billed + pages still owed = pages moved times `sample`.
//! I2  A page is trimmed only if all of its sectors are.
//!
//! # Where it stops being valid
//! There is no collection in idle time, no separation of hot and cold data, no wear levelling.
//! Areas that are small compared with `sample` pages have no amplification of their own, only that
//! of the whole.
//!
//! Judged: `tests.rs`, by the published formulas for greedy collection under uniform random writes.

mod blocks;
mod numbers;
#[cfg(test)]
mod tests;

use crate::chance::Chance;

use self::blocks::Blocks;
pub(super) use self::numbers::CollectionNumbers;

/// The seed of a drive's past; the same for every run.
const PAST: u64 = 0x5eed_0fa9_a570;

#[cfg(test)]
std::thread_local! {
    static MADE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// How many pasts this thread has computed.
#[cfg(test)]
fn made() -> u32 {
    MADE.get()
}

/// What a write owes to the dies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bill {
    /// Bytes to read and to program elsewhere.
    pub(super) moved: u64,
    /// Blocks to erase.
    pub(super) erased: u64,
}

/// The mapping of a drive, and what it owes.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    numbers: CollectionNumbers,
    blocks: Blocks,
    /// Pages moved and not yet billed, times `sample`.
    owed: u64,
    /// Bytes of blocks erased and not yet billed.
    erased: u64,
}

impl Collection {
    /// A drive with its past.
    pub(super) fn new(numbers: &CollectionNumbers) -> Collection {
        #[cfg(test)]
        MADE.set(MADE.get() + 1);
        let mut blocks = Blocks::new(numbers.shape);
        for page in 0..numbers.filled {
            blocks.write(page);
        }
        let mut chance = Chance::new(PAST, 0);
        for _ in 0..u64::from(numbers.filled) * numbers.overwritten / 1000 {
            let page = chance.below(u64::from(numbers.filled));
            blocks.write(u32::try_from(page).unwrap_or(0));
        }
        Collection { numbers: *numbers, blocks, owed: 0, erased: 0 }
    }

    /// The host writes sectors.
    pub(super) fn write(&mut self, sector: u64, sectors: u32) -> Bill {
        let page = u64::from(self.numbers.page_sectors);
        let (first, end) = (sector / page, (sector + u64::from(sectors)).div_ceil(page));
        for sampled in self.sampled(first, end) {
            let work = self.blocks.write(sampled);
            self.owed += u64::from(work.moved) * u64::from(self.numbers.sample);
            self.erased += u64::from(work.erased) * self.numbers.row_bytes;
        }
        let paid = (self.owed.saturating_mul(end - first))
            .div_ceil(u64::from(self.numbers.sample))
            .min(self.owed);
        self.owed -= paid;
        let erased = self.erased / self.numbers.block_bytes;
        self.erased %= self.numbers.block_bytes;
        Bill { moved: paid * page * 512, erased }
    }

    /// The host no longer needs sectors.
    pub(super) fn trim(&mut self, sector: u64, sectors: u32) {
        let page = u64::from(self.numbers.page_sectors);
        let (first, end) = (sector.div_ceil(page), (sector + u64::from(sectors)) / page);
        for sampled in self.sampled(first, end) {
            self.blocks.trim(sampled);
        }
    }

    /// The fraction of the capacity that holds data.
    pub(super) fn occupied(&self) -> f64 {
        f64::from(self.blocks.mapped()) / f64::from(self.numbers.shape.logical.max(1))
    }

    /// Bytes of the address space that hold no data.
    pub(super) fn unused_bytes(&self) -> u64 {
        let unused = self.numbers.shape.logical - self.blocks.mapped();
        let page = u64::from(self.numbers.page_sectors) * 512;
        u64::from(unused) * u64::from(self.numbers.sample) * page
    }

    /// The pages of the sample among those from `first` to before `end`.
    fn sampled(&self, first: u64, end: u64) -> impl Iterator<Item = u32> + use<> {
        let sample = u64::from(self.numbers.sample);
        let logical = u64::from(self.numbers.shape.logical);
        let groups = first / sample..end.div_ceil(sample).min(logical);
        let groups = if first < end { groups } else { 0..0 };
        groups.filter_map(move |group| {
            let drawn = group * sample + Chance::new(group, sample).below(sample);
            (first..end).contains(&drawn).then(|| u32::try_from(group).ok()).flatten()
        })
    }
}
