// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ratio: the inverse of a share, multiplied along a hierarchy.
//!
//! In fixed point with 16 fraction bits. A client with 40 of 120 in a group with 200 of 300 has 2/9
//! of the device; its ratio is 4.5, and for each unit of its own time the others get 3.5:
//!
//! ```text
//! ONE.times(120, 40).times(300, 200) = 4.5        .without_one() = 3.5        .of(10 ms) = 35 ms
//! ```
//!
//! It is at most 2^32; weights between 1 and 10 000 need more than two levels to exceed that, and
//! then it stays there.

use crate::time::Nanos;

const SHIFT: u32 = 16;
const MOST: u64 = 1 << (32 + SHIFT);

/// How many times larger the whole is than a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u64);

/// The part is the whole.
pub const ONE: Ratio = Ratio(1 << SHIFT);

impl Ratio {
    /// Multiplied by `all`, divided by `own`.
    #[must_use]
    pub fn times(self, all: u64, own: u64) -> Ratio {
        let product = u128::from(self.0) * u128::from(all) / u128::from(own.max(1));
        Ratio(u64::try_from(product).unwrap_or(MOST).min(MOST))
    }

    /// The part of the others: one less.
    #[must_use]
    pub fn without_one(self) -> Ratio {
        Ratio(self.0.saturating_sub(ONE.0))
    }

    /// `time` multiplied by this.
    #[must_use]
    pub fn of(self, time: Nanos) -> Nanos {
        let product = (u128::from(self.0) * u128::from(time.0)) >> SHIFT;
        Nanos(u64::try_from(product).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the module's example hold?
    #[test]
    fn two_ninths_of_the_device() {
        let ratio = ONE.times(120, 40).times(300, 200);
        assert_eq!(ratio.without_one().of(Nanos::from_millis(10)), Nanos::from_millis(35));
    }

    /// Is a share of one in 10^12 limited instead of overflowing?
    #[test]
    fn the_least_share_has_a_limit() {
        let ratio = ONE.times(10_000, 1).times(10_000, 1).times(10_000, 1);
        assert_eq!(ratio, Ratio(MOST));
        assert!(ratio.of(Nanos::MAX) == Nanos(u64::MAX));
    }
}
