// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bins: values by size, each power of two cut into equal parts.
//!
//! With 2^`bits` parts a bin is never wider than 1/2^`bits` of what is in it. The highest bit of a
//! value gives the power, the `bits` below it the part:
//!
//! ```text
//! 40570 = 1001 1110 0111 1010   bits = 6: bit 15 leads, shift = 15 - 6 = 9, 40570 >> 9 = 79
//!                               bin = 9 * 64 + 79 = 655, which holds 40448..40959
//! ```
//!
//! Values below 2^(`bits` + 1) have bins of their own.
//!
//! Invariant: a value's bin contains the value, and bins rise with values.
//!
//! Source: FIO-102 (with 6 bits).

/// The bin of a value.
#[inline]
pub(crate) fn bin_of(value: u64, bits: u32) -> usize {
    // A value without a bit above those of the part has shift 0: it is its own bin.
    let shift = (value | 1 << bits).ilog2() - bits;
    // What is left runs from 2^bits on once shift > 0: the first two powers are the small values.
    usize::try_from((u64::from(shift) << bits) + (value >> shift)).unwrap_or(usize::MAX)
}

/// The least value of a bin, and the bin's width as a power of two.
#[inline]
pub(crate) fn floor_of(bin: usize, bits: u32) -> (u64, u32) {
    let bin = bin as u64;
    let shift = u32::try_from(bin >> bits).unwrap_or(u32::MAX).saturating_sub(1);
    ((bin - (u64::from(shift) << bits)) << shift, shift)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Is 40570 in the bin of the drawing?
    #[test]
    fn a_bin_by_hand() {
        assert_eq!(bin_of(40_570, 6), 655);
        assert_eq!(floor_of(655, 6), (40_448, 9));
        for (bin, small) in [0, 1, 63, 64, 127].into_iter().zip([0u64, 1, 63, 64, 127]) {
            assert_eq!((bin_of(small, 6), floor_of(bin, 6)), (bin, (small, 0)));
        }
        assert_eq!((bin_of(128, 6), bin_of(130, 6)), (128, 129));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, ..ProptestConfig::default()
        })]

        /// Does a bin hold its value, whatever the number of parts, over the whole scale?
        #[test]
        fn a_bin_holds_its_value(power in 0..64u32, noise in any::<u64>(), bits in 1..9u32) {
            let value = 1 << power | noise & ((1 << power) - 1);
            let (floor, shift) = floor_of(bin_of(value, bits), bits);
            prop_assert!(floor <= value && value - floor < 1 << shift);
            prop_assert!(1 << shift <= (value >> bits).max(1));
        }
    }
}
