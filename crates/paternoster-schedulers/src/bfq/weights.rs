// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights: whether all queues with work have the same weight.
//!
//! If all do, a device that queues commands may serve them side by side; if one weighs more, the
//! device has to wait for its next request, or it would not get its share. So the queues that are
//! not raised and have something waiting or in flight are counted by weight, and a bit for each
//! weight says whether there are any:
//!
//! ```text
//! weight      10   40   80
//! queues       1    3    1        more than one weight; the least is 10
//! ```
//!
//! A queue that asks for one request at a time comes and goes with each. Counting it takes a few
//! steps, however many others there are.
//!
//! # Invariants
//! I1  It counts exactly the queues that are not raised and are busy or have requests in flight,
//!     each under its present weight.
//! I2  A weight's bit is set exactly while its count is not zero; `distinct` counts such weights.
//!
//! Source: BFQ-73, BFQ-74, BFQ-90, BFQ-199.

use alloc::vec::Vec;

use crate::bfq::entity::WEIGHTS;

/// Weights, 0 among them, and the words that have a bit for each.
const ALL: usize = *WEIGHTS.end() as usize + 1;
const WORDS: usize = ALL.div_ceil(64);

/// Queues by weight.
#[derive(Debug)]
pub(super) struct Weights {
    /// The weight under which each queue counts; 0 if it does not.
    of: Vec<u32>,
    counts: Vec<u32>,
    /// Weights that count any.
    distinct: u32,
    /// A bit for each of these.
    present: [u64; WORDS],
}

impl Weights {
    pub(super) fn with_capacity(queues: u32) -> Weights {
        Weights {
            of: (0..queues).map(|_| 0).collect(),
            counts: (0..ALL).map(|_| 0).collect(),
            distinct: 0,
            present: [0; WORDS],
        }
    }

    /// A queue counts from now on, unless it does already.
    pub(super) fn add(&mut self, queue: u32, weight: u32) {
        let weight = weight.clamp(*WEIGHTS.start(), *WEIGHTS.end());
        let own = &mut self.of[queue as usize];
        if *own != 0 {
            return;
        }
        *own = weight;
        let count = &mut self.counts[weight as usize];
        *count += 1;
        if *count == 1 {
            self.distinct += 1;
            self.present[weight as usize / 64] |= 1 << (weight % 64);
        }
    }

    /// A queue counts no longer.
    pub(super) fn remove(&mut self, queue: u32) {
        let weight = core::mem::take(&mut self.of[queue as usize]) as usize;
        if weight == 0 {
            return;
        }
        self.counts[weight] -= 1;
        if self.counts[weight] == 0 {
            self.distinct -= 1;
            self.present[weight / 64] &= !(1 << (weight % 64));
        }
    }

    /// Whether there are two weights that differ.
    pub(super) const fn differ(&self) -> bool {
        self.distinct > 1
    }

    /// Whether a queue counts, and no counted queue weighs less.
    pub(super) fn is_least(&self, queue: u32) -> bool {
        let word = (0..).zip(self.present).find(|(_, bits)| *bits != 0);
        let least = word.map(|(word, bits)| 64 * word + bits.trailing_zeros());
        least == Some(self.of[queue as usize])
    }

    /// The weight under which a queue counts.
    pub(super) fn of(&self, queue: u32) -> Option<u32> {
        Some(self.of[queue as usize]).filter(|&own| own != 0)
    }

    /// Verifies counts and bits. O(n).
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let mut counted: Vec<u32> = (0..ALL).map(|_| 0).collect();
        for &weight in self.of.iter().filter(|&&weight| weight != 0) {
            counted[weight as usize] += 1;
        }
        if counted != self.counts {
            return Err("weights I1: other queues than counted");
        }
        let is_set = |weight: usize| self.present[weight / 64] >> (weight % 64) & 1 == 1;
        let distinct = counted.iter().filter(|&&count| count > 0).count();
        let is_wrong = (0..ALL).any(|weight| is_set(weight) != (counted[weight] > 0));
        if is_wrong || distinct != self.distinct as usize {
            return Err("weights I2: bits are not those of the counts");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do two distinct weights differ, and does a weight counted twice not?
    #[test]
    fn bfq_199_weights_are_counted_once_each() {
        let mut weights = Weights::with_capacity(3);
        assert!(!weights.differ());
        weights.add(0, 40);
        weights.add(1, 40);
        weights.add(1, 80);
        assert!(!weights.differ(), "queue 1 counted already, with 40");
        weights.remove(1);
        weights.add(1, 80);
        assert!(weights.differ());
        assert!(weights.is_least(0) && !weights.is_least(1) && !weights.is_least(2));
        weights.remove(0);
        assert!(!weights.differ() && weights.is_least(1));
        weights.check().unwrap();
    }

    /// After each of 20,000 steps, are the least weight and whether two differ those of a list that
    /// is looked through, also with weights at the borders of words?
    #[test]
    fn as_a_list_that_is_looked_through() {
        const SOME: [u32; 8] = [1, 63, 64, 65, 127, 128, 999, 1000];
        let mut weights = Weights::with_capacity(16);
        let mut list = [0; 16];
        let mut state = 1u64;
        for step in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (queue, weight) = ((state >> 60) as u32, SOME[(state >> 57) as usize % 8]);
            let own = &mut list[queue as usize];
            // Mostly few queues count, so that they often have the same weight.
            if (state >> 32).is_multiple_of(4) {
                weights.add(queue, weight);
                *own = if *own == 0 { weight } else { *own };
            } else {
                weights.remove(queue);
                *own = 0;
            }
            let own = *own;
            let least = list.iter().copied().filter(|&weight| weight != 0).min();
            let most = list.iter().copied().max().filter(|&weight| weight != 0);
            assert_eq!(weights.differ(), least != most, "step {step}");
            assert_eq!(weights.is_least(queue), least == Some(own), "step {step}");
            weights.check().unwrap();
        }
    }
}
