// SPDX-License-Identifier: MIT OR Apache-2.0
//! LFSR: all numbers below n in a scattered order, each once, without a map.
//!
//! A linear feedback shift register of k bits goes through 2^k - 1 states before it repeats. With
//! the least k for which these are at least n, the states that are n or more are skipped:
//!
//! ```text
//! n = 10: 4 bits, taps 4 and 3, seed 0xb1899bed ends in 1101
//! 13 -> (14) -> 3 -> 9 -> (12) -> (14 ...)   out: 3 9 2 5 1 8 0 4 6 7
//! ```
//!
//! It is the form that feeds zeros back (all ones is the excluded state, 0 is included). A new
//! generator is a step ahead of its seed; one that begins again is not. Where 14 is a block, it
//! comes last in the first pass, and first in the others. All taps up to 54 bits were read from fio
//! 3.33's own offsets.
//!
//! Invariant: between two calls of [`Lfsr::restart`] each number below n comes once.

/// The taps of each register as a mask of its bits; the first is that of 3 bits.
const TAPS: [u64; 52] = [
    taps(&[3, 2]),
    taps(&[4, 3]),
    taps(&[5, 3]),
    taps(&[6, 5]),
    taps(&[7, 6]),
    taps(&[8, 6, 5, 4]),
    taps(&[9, 5]),
    taps(&[10, 7]),
    taps(&[11, 9]),
    taps(&[12, 6, 4, 1]),
    taps(&[13, 4, 3, 1]),
    taps(&[14, 5, 3, 1]),
    taps(&[15, 14]),
    taps(&[16, 15, 13, 4]),
    taps(&[17, 14]),
    taps(&[18, 11]),
    taps(&[19, 6, 2, 1]),
    taps(&[20, 17]),
    taps(&[21, 19]),
    taps(&[22, 21]),
    taps(&[23, 18]),
    taps(&[24, 23, 22, 17]),
    taps(&[25, 22]),
    taps(&[26, 6, 2, 1]),
    taps(&[27, 5, 2, 1]),
    taps(&[28, 25]),
    taps(&[29, 27]),
    taps(&[30, 6, 4, 1]),
    taps(&[31, 28]),
    taps(&[32, 31, 29, 1]),
    taps(&[33, 20]),
    taps(&[34, 27, 2, 1]),
    taps(&[35, 33]),
    taps(&[36, 25]),
    taps(&[37, 5, 4, 3, 2, 1]),
    taps(&[38, 6, 5, 1]),
    taps(&[39, 35]),
    taps(&[40, 38, 21, 19]),
    taps(&[41, 38]),
    taps(&[42, 41, 20, 19]),
    taps(&[43, 42, 38, 37]),
    taps(&[44, 43, 18, 17]),
    taps(&[45, 44, 42, 41]),
    taps(&[46, 45, 26, 25]),
    taps(&[47, 42]),
    taps(&[48, 47, 21, 20]),
    taps(&[49, 40]),
    taps(&[50, 49, 24, 23]),
    taps(&[51, 50, 36, 35]),
    taps(&[52, 49]),
    taps(&[53, 52, 38, 37]),
    taps(&[54, 53, 18, 17]),
];

/// The shortest register.
const BITS_MIN: u32 = 3;
/// The longest register: 2^54 blocks of 512 bytes are more than any offset.
const BITS_MAX: u32 = 54;

/// Numbers from 1 as a mask of bits from 0.
const fn taps(bits: &[u32]) -> u64 {
    let (mut mask, mut place) = (0, 0);
    while place < bits.len() {
        mask |= 1 << (bits[place] - 1);
        place += 1;
    }
    mask
}

/// A register with the count of numbers it is to give.
#[derive(Debug, Clone)]
pub(super) struct Lfsr {
    count: u64,
    taps: u64,
    ones: u64,
    first: u64,
    state: u64,
    given: u64,
}

impl Lfsr {
    /// All numbers below `count` (at most 2^54 - 1) in the order that `seed` begins.
    pub(super) fn new(count: u64, seed: u64) -> Lfsr {
        let count = count.min((1 << BITS_MAX) - 1);
        let bits = (count + 1).next_power_of_two().trailing_zeros();
        let bits = bits.clamp(BITS_MIN, BITS_MAX);
        let ones = (1 << bits) - 1;
        let taps = TAPS[(bits - BITS_MIN) as usize];
        // The state of all ones follows itself: fio fails to make such a register, and the job has
        // no I/O. The third thread's seed ends in three ones.
        let count = if seed & ones == ones { 0 } else { count };
        let first = seed & ones;
        let mut lfsr = Lfsr { count, taps, ones, first, state: first, given: 0 };
        lfsr.step();
        lfsr
    }

    /// Begins again.
    pub(super) fn restart(&mut self) {
        if self.given > 0 {
            self.given = 0;
            self.state = self.first;
        }
    }

    /// The next number; `None` when all were given.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.given == self.count {
            return None;
        }
        loop {
            self.step();
            if self.state < self.count {
                break;
            }
        }
        self.given += 1;
        Some(self.state)
    }

    /// In terms of the register's complement: shift right, and feed a one back into the taps.
    fn step(&mut self) {
        let register = self.state ^ self.ones;
        let feedback = if register & 1 == 1 { self.taps } else { 0 };
        self.state = ((register >> 1) ^ feedback) ^ self.ones;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 0xb189_9bed;

    fn order(count: u64, seed: u64) -> Vec<u64> {
        let mut lfsr = Lfsr::new(count, seed);
        core::iter::from_fn(|| lfsr.next()).collect()
    }

    /// Are the orders those that fio 3.33 showed for its first thread?
    #[test]
    fn orders_equal_fio() {
        assert_eq!(order(4, SEED), [1, 0, 2, 3]);
        assert_eq!(order(8, SEED), [3, 2, 5, 1, 0, 4, 6, 7]);
        assert_eq!(order(10, SEED), [3, 9, 2, 5, 1, 8, 0, 4, 6, 7]);
        assert_eq!(order(100, SEED)[..6], [27, 77, 19, 73, 18, 41]);
    }

    /// Does each number come once, for every length of register that can be walked through?
    #[test]
    fn each_number_comes_once() {
        for count in (1..70).chain([127, 128, 255, 1000, 4096, 65_535, 100_000]) {
            for seed in [0, 1, SEED, SEED * 2] {
                let mut all = order(count, seed);
                all.sort_unstable();
                assert!(all.iter().copied().eq(0..count), "{count} {seed:#x}");
            }
        }
        assert!(order(0, SEED).is_empty());
        // 3 * 0xb1899bed ends in three ones.
        assert!(order(7, SEED * 3).is_empty());
        assert_eq!(order(8, SEED * 3).len(), 8);
    }

    /// Does a restart begin a step earlier, each time, and the longest register work? Both orders
    /// are those of fio's passes over 7 blocks.
    #[test]
    fn restarts_repeat() {
        let mut lfsr = Lfsr::new(7, SEED);
        let mut pass = || {
            let all: Vec<u64> = core::iter::from_fn(|| lfsr.next()).collect();
            lfsr.restart();
            all
        };
        assert_eq!(pass(), [1, 4, 0, 2, 3, 5, 6]);
        for _ in 0..2 {
            assert_eq!(pass(), [6, 1, 4, 0, 2, 3, 5]);
        }
        assert!(Lfsr::new(u64::MAX, SEED).next().is_some());
    }
}
