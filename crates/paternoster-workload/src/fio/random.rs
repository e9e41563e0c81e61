// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers: fio's generator and seeds, so that a job makes the same I/O here as there.
//!
//! The generator is taus88 (L'Ecuyer 1996): three 32-bit shift registers, combined by exclusive or,
//! with a period of about 2^88. A job has one generator for each kind of choice, so that for
//! example another block size does not change the order of offsets. Each is seeded from the number
//! `T` of the thread: 1 for the first clone of the first job, counting every clone of every job.
//!
//! ```text
//!             T=1: 256 blocks -> 15 189 215 120 102 216 ...    the same on every run
//!             T=2:            -> 65 46 153 10 ...
//! ```
//!
//! | options | offsets | the rest |
//! |---|---|---|
//! | none, or `randrepeat=1` | 0xb1899bed * T | s * T + i, s from 0x89 |
//! | `randseed=S` | 0xb1899bed * T; of clones after the first s * T + 6 | s * T + i, s from S |
//! | `randseed=S`, `randrepeat=0` | s * T + 6, s from S | s * T + i, s from S |
//! | `randrepeat=0` | s * T + 6, s from the run's entropy | likewise |
//! | `allrandrepeat=1` | 0xb1899bed * T | 0xb1899bed * T + i |
//! | and `randrepeat=0`, or `randseed=S` and a later clone | 0xb1899bed * T + 6 | likewise |
//!
//! A fraction r / 2^32 of n is taken in double precision by fio; [`Taus88::below`] rounds as a
//! double would, in integers.
//!
//! Skewed distributions have seeds of their own: see [`Seeds::of_file`].
//!
//! Source: FIO-90 to FIO-95, each compared with fio 3.33.

use super::job::{Generator, Job};
use super::taus258::Taus258;

/// The multiplier of seeds that repeat from run to run.
const REPEATABLE_SEED: u64 = 0xb189_9bed;
/// The default of `randseed`.
const DEFAULT_SEED: u64 = 0x89;
/// The step from one kind's seed to the next.
const SEED_STEP: u64 = 0x9e37_0001;
/// How often the seed is stirred before the first kind takes it.
const SEED_WARM_UPS: u32 = 4;
/// How many kinds of choice there are.
const KINDS: usize = 21;
/// Significant bits of a double.
const DOUBLE_BITS: u32 = 53;

/// What a generator chooses; the numbers are fio's indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Size of reads; writes and trims have the next two.
    BlockSizeRead = 0,
    /// Size of writes.
    BlockSizeWrite = 1,
    /// Size of trims.
    BlockSizeTrim = 2,
    /// Read or write.
    Mix = 4,
    /// File.
    File = 5,
    /// Offset, if it must not repeat.
    Offset = 6,
    /// Size of files.
    FileSize = 7,
    /// Sequential or random, for each direction by itself.
    SequentialOrRandom = 10,
    /// Start delay within its range.
    StartDelay = 13,
    /// Gaps between reads of a Poisson process; writes and trims have 17 and 18.
    PoissonRead = 15,
    /// Zone of a zoned distribution.
    Zone = 16,
    /// Gaps between writes.
    PoissonWrite = 17,
    /// Gaps between trims.
    PoissonTrim = 18,
    /// Priority of an I/O.
    Priority = 19,
}

/// The seeds of one thread.
#[derive(Debug, Clone)]
pub struct Seeds {
    seeds: [u64; KINDS],
}

impl Seeds {
    /// Seeds of thread number `thread`, from 1. `entropy` counts only with `randrepeat=0`.
    #[must_use]
    pub fn new(
        randseed: Option<u64>,
        randrepeat: bool,
        allrandrepeat: bool,
        thread: u32,
        entropy: u64,
    ) -> Seeds {
        let thread = u64::from(thread);
        let repeatable = REPEATABLE_SEED.wrapping_mul(thread);
        let mut seeds = [0; KINDS];
        if allrandrepeat {
            for (seed, kind) in seeds.iter_mut().zip(0..) {
                *seed = repeatable.wrapping_add(kind);
            }
        } else {
            let mut state = match randseed {
                Some(seed) => seed,
                None if randrepeat => DEFAULT_SEED,
                None => stir(entropy),
            };
            for _ in 0..SEED_WARM_UPS {
                state = state.wrapping_mul(SEED_STEP);
            }
            for (seed, kind) in seeds.iter_mut().zip(0..) {
                *seed = state.wrapping_mul(thread).wrapping_add(kind);
                state = state.wrapping_mul(SEED_STEP);
            }
        }
        if randrepeat {
            seeds[Choice::Offset as usize] = repeatable;
        }
        Seeds { seeds }
    }

    /// Seeds of a clone of `job`, which is thread number `thread` of the run.
    #[must_use]
    pub fn of(job: &Job, thread: u32, entropy: u64) -> Seeds {
        Seeds::new(
            job.random.randseed,
            job.random.randrepeat,
            job.random.allrandrepeat,
            thread,
            entropy,
        )
    }

    /// A fresh generator for `choice`.
    #[must_use]
    pub fn generator(&self, choice: Choice) -> Taus88 {
        Taus88::new(self.seed(choice))
    }

    /// The seed of a skewed distribution over the blocks of a file.
    ///
    /// Without `randseed` it is a hash of the file's name times the thread's number (measured: the
    /// same job on another file makes other offsets); with it, and with `randrepeat=0`, that of the
    /// offsets.
    #[must_use]
    pub fn of_file(&self, job: &Job, thread: u32, name_hash: u32) -> u64 {
        if job.random.randseed.is_none() && job.random.randrepeat {
            u64::from(name_hash).wrapping_mul(u64::from(thread))
        } else {
            self.seed(Choice::Offset)
        }
    }

    /// The seed of that generator.
    #[must_use]
    pub fn seed(&self, choice: Choice) -> u64 {
        self.seeds[choice as usize]
    }
}

/// The generator of a choice, of the kind that `random_generator` says.
#[derive(Debug, Clone)]
pub enum Draw {
    /// taus88.
    Taus88(Taus88),
    /// LFSR258, with `tausworthe64`.
    Taus258(Taus258),
}

impl Draw {
    /// A fresh generator of `job` for `choice`.
    #[must_use]
    pub fn of(job: &Job, seeds: &Seeds, choice: Choice) -> Draw {
        match job.random.random_generator {
            Generator::Tausworthe64 => Draw::Taus258(Taus258::new(seeds.seed(choice))),
            Generator::Tausworthe | Generator::Lfsr => Draw::Taus88(seeds.generator(choice)),
        }
    }

    /// A fresh one of the same kind.
    #[must_use]
    pub fn again(&self, seeds: &Seeds, choice: Choice) -> Draw {
        match self {
            Draw::Taus88(_) => Draw::Taus88(seeds.generator(choice)),
            Draw::Taus258(_) => Draw::Taus258(Taus258::new(seeds.seed(choice))),
        }
    }

    /// The next random bits, and the largest number that they can be.
    pub fn bits(&mut self) -> (u64, u64) {
        match self {
            Draw::Taus88(generator) => (generator.next_u32().into(), u32::MAX.into()),
            Draw::Taus258(generator) => (generator.next_u64(), u64::MAX),
        }
    }

    /// A number below `count`, and 0 if that is 0.
    pub fn below(&mut self, count: u64) -> u64 {
        match self {
            Draw::Taus88(generator) => generator.below(count),
            Draw::Taus258(generator) => generator.below(count),
        }
    }
}

/// Spreads an entropy of few bits over 64 (the finaliser of `splitmix64`).
fn stir(entropy: u64) -> u64 {
    let mut bits = entropy.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The generator taus88.
#[derive(Debug, Clone)]
pub struct Taus88 {
    first: u32,
    second: u32,
    third: u32,
}

impl Taus88 {
    /// A generator from the low 32 bits of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Taus88 {
        const MULTIPLIER: u32 = 69_069;
        const START: u32 = 53;
        let bytes = seed.to_le_bytes();
        let low = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        // A register stays at zero for ever if only its unused low bits are set: hence the minima.
        let next = |from: u32, least: u32| {
            let value = from.wrapping_mul(MULTIPLIER) ^ low;
            if value < least { value.wrapping_add(least) } else { value }
        };
        let first = next(START, 1);
        let second = next(first, 7);
        let third = next(second, 15);
        let mut generator = Taus88 { first, second, third };
        for _ in 0..6 {
            generator.next_u32();
        }
        generator
    }

    /// The next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        let (a, b, c) = (self.first, self.second, self.third);
        self.first = ((a & 0xffff_fffe) << 12) ^ (((a << 13) ^ a) >> 19);
        self.second = ((b & 0xffff_fff8) << 4) ^ (((b << 2) ^ b) >> 25);
        self.third = ((c & 0xffff_fff0) << 17) ^ (((c << 3) ^ c) >> 11);
        self.first ^ self.second ^ self.third
    }

    /// A number below `count`, and 0 if that is 0: floor(count * (r / 2^32)) as doubles give it.
    ///
    /// Beyond 2^32 not every number is drawn: fio 3.33 has the same 32 bits there (measured on 2^33
    /// and 2^35 blocks; its manual says otherwise).
    pub fn below(&mut self, count: u64) -> u64 {
        let draw = u64::from(self.next_u32());
        // Nearly always: a product that a double holds whole.
        if let Some(product) = draw.checked_mul(count).filter(|p| *p < 1 << DOUBLE_BITS) {
            return product >> 32;
        }
        let number = double_product(draw, count) >> 32;
        // The draw is below 2^32, so the quotient is below count, or rounded up to it.
        u64::try_from(number).unwrap_or(u64::MAX).min(count.saturating_sub(1))
    }

    /// A number from 1 to 100.
    pub fn percent(&mut self) -> u64 {
        1 + self.below(100)
    }
}

/// `draw * count` as doubles multiply: both factors and the product with 53 significant bits.
pub(super) fn double_product(draw: u64, count: u64) -> u128 {
    let (draw, count) = (round_as_double(draw.into()), round_as_double(count.into()));
    // Each is at most 2^64, and the product of two of those is one too large.
    round_as_double(draw.saturating_mul(count))
}

/// `number`, rounded to the nearest one with 53 significant bits, ties to even.
fn round_as_double(number: u128) -> u128 {
    let excess = (u128::BITS - number.leading_zeros()).saturating_sub(DOUBLE_BITS);
    if excess == 0 {
        return number;
    }
    let unit = 1_u128 << excess;
    let (kept, rest) = (number & !(unit - 1), number & (unit - 1));
    let odd = kept & unit != 0;
    if rest > unit / 2 || (rest == unit / 2 && odd) { kept.saturating_add(unit) } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(thread: u32, count: u64, draws: usize) -> Vec<u64> {
        let mut generator = Seeds::new(None, true, false, thread, 7).generator(Choice::Offset);
        (0..draws).map(|_| generator.below(count)).collect()
    }

    /// Are the draws those of fio 3.33? 61440 / 4096 = 15, 774144 / 4096 = 189, 880640 / 4096 is
    /// 215, 491520 / 4096 = 120; the second job's 266240 / 4096 = 65, then 46, 153, 10.
    #[test]
    fn draws_equal_fio() {
        assert_eq!(blocks(1, 256, 4), [15, 189, 215, 120]);
        assert_eq!(blocks(2, 256, 4), [65, 46, 153, 10]);
    }

    /// Do the options change the seeds as the module's table says?
    #[test]
    fn seeds_follow_the_options() {
        let plain = Seeds::new(None, true, false, 1, 1);
        assert_eq!(plain.seeds[6], REPEATABLE_SEED);
        let given = Seeds::new(Some(7), true, false, 1, 1);
        assert_eq!(given.seeds[6], REPEATABLE_SEED);
        assert_ne!(given.seeds[4], plain.seeds[4]);
        assert_ne!(Seeds::new(Some(7), false, false, 1, 1).seeds[6], REPEATABLE_SEED);
        let all = Seeds::new(None, true, true, 3, 1);
        assert_eq!(all.seeds[4], 3 * REPEATABLE_SEED + 4);
        let only_all = Seeds::new(None, false, true, 3, 1);
        assert_eq!(only_all.seeds[6], 3 * REPEATABLE_SEED + 6);
        let (one, two) =
            (Seeds::new(None, false, false, 1, 1), Seeds::new(None, false, false, 1, 2));
        assert_ne!(one.seeds, two.seeds);
        assert_ne!(one.seeds[6], REPEATABLE_SEED);
    }

    /// Does rounding equal real double arithmetic? Doubles are allowed in a test.
    #[test]
    fn rounding_equals_doubles() {
        let mut generator = Taus88::new(99);
        for count in [1, 3, 100, 4097, (1 << 22) + 1, 0xffff_fffe, u32::MAX] {
            let mut twin = generator.clone();
            for _ in 0..20_000 {
                let double = f64::from(count) * (f64::from(twin.next_u32()) / 4_294_967_296.0);
                let whole = u32::try_from(generator.below(u64::from(count))).unwrap();
                assert!(f64::from(whole) <= double && double < f64::from(whole) + 1.0);
            }
        }
        // 2^54 + 3 lies between 2^54 and 2^54 + 4 on a grid of 4: nearer to the upper one.
        assert_eq!(round_as_double((1 << 54) + 3), (1 << 54) + 4);
        assert_eq!(round_as_double((1 << 54) + 2), 1 << 54);
    }

    /// Is a draw always below its bound, at the edges too?
    #[test]
    fn draws_stay_below() {
        let mut generator = Taus88::new(0);
        for count in [0, 1, 2, 1 << 32, (1 << 32) + 1, u64::MAX] {
            for _ in 0..1000 {
                assert!(generator.below(count) < count.max(1));
            }
        }
    }
}
