// SPDX-License-Identifier: MIT OR Apache-2.0
//! taus258: the generator of `random_generator=tausworthe64`.
//!
//! L'Ecuyer's LFSR258 (Tables of maximally equidistributed combined LFSR generators, 1999): five
//! 64-bit shift registers combined by exclusive or, with a period of about 2^258. It is seeded like
//! fio's taus88, with the multiplier 6906969069 and five least values, and six steps are discarded;
//! verified with fio 3.33's first offsets.
//!
//! ```text
//! T=1: 256 blocks -> 240 6 20 25 135 7 112 ...
//! ```

use super::random::double_product;

/// One register: shift left, shift right, bits kept, shift of those.
struct Register {
    left: u32,
    right: u32,
    keep: u64,
    up: u32,
}

const fn register(left: u32, right: u32, unused: u32, up: u32) -> Register {
    Register { left, right, keep: u64::MAX << unused, up }
}

const REGISTERS: [Register; 5] = [
    register(1, 53, 1, 10),
    register(24, 50, 9, 5),
    register(3, 23, 12, 29),
    register(5, 24, 17, 23),
    register(3, 33, 23, 8),
];

/// The least value of each register, so that its used bits are not all zero.
const LEAST: [u64; 5] = [1, 7, 15, 33, 49];
/// Multiplier with which the seed is scrambled.
const MULTIPLIER: u64 = 6_906_969_069;
/// First value of the scrambled seed, as in taus88.
const START: u64 = 53;
/// Steps discarded.
const WARM_UPS: u32 = 6;

/// The generator.
#[derive(Debug, Clone)]
pub struct Taus258 {
    state: [u64; 5],
}

impl Taus258 {
    /// A generator from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Taus258 {
        let mut before = START;
        let state = LEAST.map(|least| {
            let value = before.wrapping_mul(MULTIPLIER) ^ seed;
            before = if value < least { value.wrapping_add(least) } else { value };
            before
        });
        let mut generator = Taus258 { state };
        for _ in 0..WARM_UPS {
            generator.next_u64();
        }
        generator
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        for (value, register) in self.state.iter_mut().zip(&REGISTERS) {
            let fed = ((*value << register.left) ^ *value) >> register.right;
            *value = ((*value & register.keep) << register.up) ^ fed;
        }
        self.state.iter().fold(0, |bits, value| bits ^ value)
    }

    /// A number below `count`, and 0 if that is 0: floor(count * (r / 2^64)) in doubles.
    pub fn below(&mut self, count: u64) -> u64 {
        let draw = self.next_u64();
        let number = double_product(draw, count) >> 64;
        // A draw just below 2^64 rounds up to it.
        u64::try_from(number).unwrap_or(u64::MAX).min(count.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the draws those of fio 3.33, on few blocks and on 2^32 of them?
    #[test]
    fn draws_equal_fio() {
        let draws = |count| {
            let mut generator = Taus258::new(0xb189_9bed);
            [(); 5].map(|()| generator.below(count))
        };
        assert_eq!(draws(256), [240, 6, 20, 25, 135]);
        assert_eq!(draws(1 << 20), [984_020, 27_569, 84_586, 104_289, 554_784]);
        let large = [4_030_547_033, 112_924_984, 346_465_923, 427_169_531, 2_272_395_362];
        assert_eq!(draws(1 << 32), large);
    }

    /// Do draws stay below their bound, at the edges too?
    #[test]
    fn draws_stay_below() {
        let mut generator = Taus258::new(0);
        for count in [0, 1, 3, u64::MAX] {
            assert!((0..1000).all(|_| generator.below(count) < count.max(1)));
        }
    }
}
