// SPDX-License-Identifier: MIT OR Apache-2.0
//! Positions: which tag each request has, under mq rules.
//!
//! Tags are numbered, and an elevator's limit on some kinds of I/O (BFQ-35, BFQ-36, DL-9, KY-6) is
//! a limit on the *number* of the tag: a request limited to the first n waits until one of those is
//! free, whatever holds others, and no longer. In Linux used tags are scattered over the whole map
//! by chance. Here a request that may have any tag takes the last free one, and leaves the first
//! ones to those that may have no others, so that a limit delays a request only when tags run out:
//!
//! ```text
//! 0 1 2 3 4 5 6 7      x: taken
//! x . x x . x . x      for any: 6    for one of the first 4: 1    for the first one: none
//! ```
//!
//! # Invariants
//! I1  A position is free exactly if its bit is set; there are as many as requests can be
//!     allocated.
//!
//! Source: the limits as in BFQ-35 and BLK-8; that they limit positions, from measurements of 6.18
//! (debugfs `min_shallow_depth`, tags free while tasks sleep).

use alloc::vec;
use alloc::vec::Vec;

/// The position of a request that has none: under legacy rules. It lies beyond every map, so that
/// taking or freeing it changes nothing, and needs no comparison of its own.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The free positions.
#[derive(Debug, Clone)]
pub(crate) struct Positions {
    free: Vec<u64>,
}

impl Positions {
    pub(crate) fn with_capacity(capacity: u32) -> Positions {
        Positions { free: vec![u64::MAX; capacity.div_ceil(64).max(1) as usize] }
    }

    /// The first free position below `limit`.
    pub(crate) fn first(&self, limit: u32) -> Option<u32> {
        for (word, &bits) in (0..).step_by(64).zip(&self.free) {
            if bits != 0 || word + 64 >= limit {
                let found = word + bits.trailing_zeros();
                return (found < limit).then_some(found);
            }
        }
        None
    }

    /// The last free position below `limit`.
    #[inline]
    pub(crate) fn last(&self, limit: u32) -> Option<u32> {
        let mut word = limit.checked_sub(1)? / 64;
        let mut bits = *self.free.get(word as usize)? & (u64::MAX >> (63 - (limit - 1) % 64));
        while bits == 0 {
            word = word.checked_sub(1)?;
            bits = self.free[word as usize];
        }
        Some(word * 64 + 63 - bits.leading_zeros())
    }

    /// Marks it taken, unless it is [`NOWHERE`].
    #[inline]
    pub(crate) fn take(&mut self, position: u32) {
        if let Some(word) = self.free.get_mut((position / 64) as usize) {
            *word &= !(1 << (position % 64));
        }
    }

    /// Marks it free again, unless it is [`NOWHERE`].
    #[inline]
    pub(crate) fn free(&mut self, position: u32) {
        if let Some(word) = self.free.get_mut((position / 64) as usize) {
            *word |= 1 << (position % 64);
        }
    }

    /// Whether a position is free, for the audit.
    #[must_use]
    pub(crate) fn is_free(&self, position: u32) -> bool {
        self.free[(position / 64) as usize] >> (position % 64) & 1 == 1
    }

    /// How many are not free, for the audit.
    #[must_use]
    pub(crate) fn taken(&self) -> u32 {
        self.free.iter().map(|word| word.count_zeros()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the module's example hold?
    #[test]
    fn limits_are_kept() {
        let mut positions = Positions::with_capacity(8);
        (0..8).for_each(|position| positions.take(position));
        for position in [1, 4, 6] {
            positions.free(position);
        }
        assert_eq!((positions.last(8), positions.last(6)), (Some(6), Some(4)));
        assert_eq!((positions.first(4), positions.first(1)), (Some(1), None));
        assert_eq!((positions.taken(), positions.is_free(1)), (5, true));
        positions.take(NOWHERE);
        positions.free(NOWHERE);
        assert_eq!(positions.taken(), 5);
    }

    /// Is each position found once, from either end, also across words of the map?
    #[test]
    fn every_position_is_found_once() {
        let mut positions = Positions::with_capacity(200);
        for (low, high) in (0..100).zip((100..200).rev()) {
            assert_eq!((positions.first(200), positions.last(200)), (Some(low), Some(high)));
            positions.take(low);
            positions.take(high);
        }
        assert_eq!((positions.first(200), positions.last(200)), (None, None));
        positions.free(70);
        assert_eq!((positions.first(70), positions.last(70)), (None, None));
        assert_eq!((positions.first(71), positions.last(71)), (Some(70), Some(70)));
        positions.free(128);
        assert_eq!((positions.first(200), positions.last(200)), (Some(70), Some(128)));
    }
}
