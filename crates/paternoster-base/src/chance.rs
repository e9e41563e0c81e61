// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chance: a small generator of numbers (splitmix64), the same on every machine.
//!
//! Every random choice of a simulation draws from a generator of its own, so that one never shifts
//! the numbers of another.

/// Numbers that follow from a seed.
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The numbers of `seed` for the `place`-th of several that share it.
    #[must_use]
    pub fn new(seed: u64, place: u64) -> Chance {
        let mut chance = Chance { state: seed };
        // Here nearby seeds, and places of one seed, diverge.
        chance.state = chance.next() ^ place.wrapping_mul(0xd6e8_feb8_6659_fd93);
        chance
    }

    /// Any number.
    #[allow(clippy::should_implement_trait)] // It never ends, and is no iterator.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(limit);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// True once in `times`; never if that is 0.
    pub fn once_in(&mut self, times: u64) -> bool {
        times != 0 && self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do a seed and a place always give the same numbers, and other ones others?
    #[test]
    fn numbers_follow_from_the_seed() {
        let draw = |seed, place| {
            let mut chance = Chance::new(seed, place);
            (0..4).map(|_| chance.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
    }

    /// Is a number below its limit, and every one reached? 1000 draws of 8 miss one with a chance
    /// of 8 (7/8)^1000, some 10^-57.
    #[test]
    fn a_number_is_below_its_limit() {
        let mut chance = Chance::new(7, 7);
        let mut seen = [false; 8];
        for _ in 0..1000 {
            seen[usize::try_from(chance.below(8)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 8]);
        assert!(!chance.once_in(0) && chance.once_in(1));
    }
}
