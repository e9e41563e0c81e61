// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places: which I/O has which range of sectors, in tables; of several at one place it gives the
//! oldest.
//!
//! ```text
//! 8..16     1, 4, 5, 9          touching 10..12:   1 and 2, in two steps
//! 8..24     2, 3
//! ```
//!
//! Entries of one range and one class are in order of their numbers, and a question needs the first
//! alone: it passes over the others in one step, however many there are.
//!
//! # Invariants
//! I1  A question costs a logarithm for each *different* range and class that it looks at.
//! I2  `sizes` counts the entries of each table by size, so that sizes without any cost nothing.

use core::ops::{Bound, Range};
use std::collections::BTreeSet;

use crate::in_flight::Extent;

/// Table, device, direction, size as a power of two, first sector, end, class, number.
type Key = (u8, u32, bool, u8, u64, u64, u8, u64);

/// 0, and a size for each bit.
const SIZES: usize = u64::BITS as usize + 1;

/// Ranges by table and place. There are `TABLES` tables.
#[derive(Debug, Clone)]
pub(crate) struct Places<const TABLES: usize> {
    entries: BTreeSet<Key>,
    sizes: [[u32; SIZES]; TABLES],
    /// Entries that were looked at.
    #[cfg(test)]
    pub(crate) steps: core::cell::Cell<u64>,
}

impl<const TABLES: usize> Default for Places<TABLES> {
    fn default() -> Self {
        Places {
            entries: BTreeSet::new(),
            sizes: [[0; SIZES]; TABLES],
            #[cfg(test)]
            steps: core::cell::Cell::new(0),
        }
    }
}

impl<const TABLES: usize> Places<TABLES> {
    pub(crate) fn insert(&mut self, table: u8, place: &Extent, class: u8, id: u64) {
        if self.entries.insert(key(table, place, class, id)) {
            self.sizes[usize::from(table)][usize::from(size(place))] += 1;
        }
    }

    pub(crate) fn remove(&mut self, table: u8, place: &Extent, class: u8, id: u64) {
        if self.entries.remove(&key(table, place, class, id)) {
            self.sizes[usize::from(table)][usize::from(size(place))] -= 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.sizes = [[0; SIZES]; TABLES];
    }

    /// How many entries a table has.
    #[cfg(test)]
    pub(crate) fn len(&self, table: u8) -> u32 {
        self.sizes[usize::from(table)].iter().sum()
    }

    /// The oldest with exactly this range, of this class.
    pub(crate) fn oldest(&self, table: u8, place: &Extent, class: u8) -> Option<u64> {
        let mut oldest = None;
        let within = key(table, place, class, 0)..key(table, place, class, u64::MAX);
        self.groups(within, |entry| oldest = Some(entry.7));
        oldest
    }

    /// The oldest I/O of each class with exactly this range, with its class.
    pub(crate) fn exactly(&self, table: u8, place: &Extent, mut visit: impl FnMut(u8, u64)) {
        let within = key(table, place, 0, 0)..key(table, place, u8::MAX, u64::MAX);
        self.groups(within, |entry| visit(entry.6, entry.7));
    }

    /// Those whose range has one of these sectors, of each range and class the oldest, with its
    /// class.
    pub(crate) fn touching(&self, table: u8, place: &Extent, mut visit: impl FnMut(u8, u64)) {
        for near in self.near(table, *place) {
            self.groups(near, |entry| {
                if entry.5 > place.sector {
                    visit(entry.6, entry.7);
                }
            });
        }
    }

    /// All I/Os whose range has one of these sectors, by place.
    pub(crate) fn all_touching(&self, table: u8, place: Extent) -> impl Iterator<Item = u64> {
        let sector = place.sector;
        let near = self.near(table, place).flat_map(move |near| self.entries.range(near));
        near.filter(move |entry| entry.5 > sector).map(|entry| entry.7)
    }

    /// The part of the table whose entries can have one of these sectors.
    fn near(&self, table: u8, place: Extent) -> impl Iterator<Item = Range<Key>> {
        let Extent { device, write, sector, end } = place;
        let sizes = (0..).zip(&self.sizes[usize::from(table)]).skip(1);
        sizes.filter(|(_, count)| **count > 0).map(move |(size, _): (u8, _)| {
            // Of less than 2^size sectors.
            let longest = u64::MAX >> (u64::BITS - u32::from(size));
            let from = sector.saturating_sub(longest);
            let first = (table, device, write, size, from, 0, 0, 0);
            first..(table, device, write, size, end.max(from), 0, 0, 0)
        })
    }

    /// The first entry of each range and class.
    fn groups(&self, within: Range<Key>, mut visit: impl FnMut(&Key)) {
        let mut from = Bound::Included(within.start);
        while let Some(entry) = self.entries.range((from, Bound::Excluded(within.end))).next() {
            #[cfg(test)]
            self.steps.set(self.steps.get() + 1);
            visit(entry);
            let mut next = *entry;
            next.7 = u64::MAX;
            if next >= within.end {
                break;
            }
            from = Bound::Excluded(next);
        }
    }
}

fn key(table: u8, place: &Extent, class: u8, id: u64) -> Key {
    (table, place.device, place.write, size(place), place.sector, place.end, class, id)
}

/// The bits that a length needs.
fn size(place: &Extent) -> u8 {
    u8::try_from(u64::BITS - place.sectors().leading_zeros()).unwrap_or(u8::MAX)
}
