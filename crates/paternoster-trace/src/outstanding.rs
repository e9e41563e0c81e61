// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outstanding: the extents in flight on a device, found by place.
//!
//! A trace numbers nothing: sectors show what belongs together. A bio is found by any sector of it,
//! those of a request by lying within it:
//!
//! ```text
//! bios         [8,16)  [16,24)            [64,72)
//! find(20)             [16,24)
//! within(8,24) [8,16)  [16,24)
//! touching(10,20)      both
//! ```
//!
//! One extent for each first sector: a second one replaces the first. With more than
//! [`OUTSTANDING_MAX`] the one at the lowest sector is dropped; no queue holds that many.
//!
//! Source: BTT-6, BTT-7, without the order of btt's tree.

use std::collections::BTreeMap;

/// The most extents in flight on one device.
pub const OUTSTANDING_MAX: usize = 1 << 13;

/// Extents with what is known of them.
#[derive(Debug, Clone)]
pub struct Outstanding<T> {
    by_start: BTreeMap<u64, (u64, T)>,
    /// No extent was longer than this.
    longest: u64,
}

impl<T> Default for Outstanding<T> {
    fn default() -> Outstanding<T> {
        Outstanding { by_start: BTreeMap::new(), longest: 0 }
    }
}

impl<T> Outstanding<T> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Inserts an extent; returns the one at its first sector, or the one dropped for it.
    pub fn insert(&mut self, start: u64, end: u64, value: T) -> Option<T> {
        self.longest = self.longest.max(end.saturating_sub(start));
        let replaced = self.by_start.insert(start, (end, value));
        let too_many = self.by_start.len() > OUTSTANDING_MAX;
        let given_up = if too_many { self.by_start.pop_first() } else { None };
        replaced.or(given_up.map(|(_, extent)| extent)).map(|(_, value)| value)
    }

    /// The extent that has this sector; the one that begins last, if there are several.
    pub fn find(&mut self, sector: u64) -> Option<&mut T> {
        let from = sector.saturating_sub(self.longest);
        let mut before = self.by_start.range_mut(from..=sector).rev();
        before.find(|(_, (end, _))| sector < *end).map(|(_, (_, value))| value)
    }

    /// Those that have a sector of `start` to `end`, by place, with their extents.
    pub fn touching(&mut self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, &mut T)> {
        let from = start.saturating_sub(self.longest);
        let range = self.by_start.range_mut(from..end.max(from));
        let reaches = range.filter(move |(_, (last, _))| *last > start);
        reaches.map(|(first, (last, value))| (*first, *last, value))
    }

    /// Takes the extent that begins here.
    pub fn take(&mut self, start: u64) -> Option<T> {
        self.by_start.remove(&start).map(|(_, value)| value)
    }

    /// Those that lie within `start` to `end`, by place.
    pub fn within(&mut self, start: u64, end: u64) -> impl Iterator<Item = &mut T> {
        let range = self.by_start.range_mut(start..end.max(start));
        range.filter(move |(_, (last, _))| *last <= end).map(|(_, (_, value))| value)
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.by_start.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the extents of the drawing found as shown?
    #[test]
    fn extents_are_found_by_place() {
        let mut all = Outstanding::default();
        for (start, name) in [(8, 'a'), (16, 'b'), (64, 'c')] {
            assert_eq!(all.insert(start, start + 8, name), None);
        }
        assert_eq!(all.find(20), Some(&mut 'b'));
        assert_eq!(all.find(24), None);
        assert_eq!(all.within(8, 24).map(|name| *name).collect::<String>(), "ab");
        assert_eq!(all.within(8, 23).count(), 1);
        assert_eq!(all.insert(16, 32, 'd'), Some('b'));
        let touched: Vec<_> = all.touching(10, 20).map(|(first, end, _)| (first, end)).collect();
        assert_eq!(touched, [(8, 16), (16, 32)]);
        assert_eq!(all.touching(16, 16).count() + all.touching(9, 3).count(), 0);
        assert_eq!((all.take(8), all.take(8), all.len()), (Some('a'), None, 2));
    }

    /// Is a long extent found though a shorter one begins within it and ends before?
    #[test]
    fn a_long_extent_is_found_behind_a_short_one() {
        let mut all = Outstanding::default();
        all.insert(0, 100, "long");
        all.insert(10, 12, "short");
        assert_eq!(all.find(11), Some(&mut "short"));
        assert_eq!(all.find(50), Some(&mut "long"));
    }
}
