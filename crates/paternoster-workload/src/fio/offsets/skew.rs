// SPDX-License-Identifier: MIT OR Apache-2.0
//! Skew: draws below n of which some are far more likely than others: zipf, pareto, normal.
//!
//! A draw gives a rank, 0 the likeliest; the rank is scattered over the n places by a hash and
//! shifted, so that the hot places are not neighbours:
//!
//! ```text
//! zipf:theta     P(rank) ~ 1 / (rank + 1)^theta        Gray et al. 1994, in closed form
//! pareto:h       rank = (n - 1) * u^(ln h / ln (1-h))  the first h of the ranks get 1 - h
//! normal:d       the mean of 12 draws of 0..=n, rounded up, plus one of a width of d % of n;
//!                here "rank" is a place on the bell, most likely n/2
//! place          (rank * 0x61c8864680b583eb mod 2^64 + shift) mod n
//! shift          center * n if given (normal: (center - 1/2) * n), else zipf and pareto take
//!                their first draw, and normal takes 0
//! ```
//!
//! A deviation that leads out of 0..=n is halved until it does not; its width is at most n/2. The
//! sum of zipf's weights is taken over the first ten million ranks at most.
//!
//! The generator is taus88; the caller seeds it. All of this was found by experiment on fio 3.33:
//! every offset of the measured jobs is equal.
//!
//! Differs: `pow` and `ln` are those of the crate `libm`, so that every machine gets the same
//! bits; a draw on the very edge between two ranks may fall to the other side of it in fio.
//!
//! Sources: J. Gray et al., Quickly generating billion-record synthetic databases, 1994, for
//! zipf; FIO-50.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::fio::random::Taus88;

/// Scatters ranks over places.
const SCATTER: u64 = 0x61c8_8646_80b5_83eb;
/// Ranks over which zipf's weights are summed.
const RANKS_MAX: u64 = 10_000_000;
/// The largest 32-bit draw, which represents 1.
const DRAW_MAX: f64 = 4_294_967_295.0;
/// A normally distributed draw is the mean of this many uniform ones.
const MEAN_OF: u64 = 12;
/// Sums of weights that are remembered.
const SUMS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
enum Shape {
    Zipf {
        sum: f64,
        second: f64,
        alpha: f64,
        eta: f64,
    },
    Pareto {
        power: f64,
    },
    /// The width of the deviation in places.
    Normal {
        width: u64,
    },
}

/// A skewed distribution over the numbers below some n.
#[derive(Debug, Clone)]
pub(in crate::fio) struct Skew {
    shape: Shape,
    count: u64,
    shift: u64,
    hashed: bool,
    generator: Taus88,
}

impl Skew {
    /// Zipf's distribution over `count` places (at least 1).
    pub(in crate::fio) fn zipf(theta: f64, center: Option<f64>, count: u64, seed: u64) -> Skew {
        let count = count.max(1);
        let sum = sum_of_weights(theta, count.min(RANKS_MAX));
        let second = 1.0 + libm::pow(0.5, theta);
        let alpha = 1.0 / (1.0 - theta);
        let eta = (1.0 - libm::pow(2.0 / as_double(count), 1.0 - theta)) / (1.0 - second / sum);
        Skew::new(Shape::Zipf { sum, second, alpha, eta }, center, count, seed)
    }

    /// A Pareto distribution over `count` places.
    pub(in crate::fio) fn pareto(h: f64, center: Option<f64>, count: u64, seed: u64) -> Skew {
        let power = libm::log(h) / libm::log(1.0 - h);
        Skew::new(Shape::Pareto { power }, center, count.max(1), seed)
    }

    /// A normal distribution over `count` places, with a deviation in percent.
    pub(in crate::fio) fn normal(percent: f64, center: Option<f64>, count: u64, seed: u64) -> Skew {
        let count = count.max(1);
        let width = libm::ceil(as_double(count) * percent / 100.0);
        let width = whole(width).min(count / 2);
        Skew::new(Shape::Normal { width }, center, count, seed)
    }

    fn new(shape: Shape, center: Option<f64>, count: u64, seed: u64) -> Skew {
        let mut generator = Taus88::new(seed);
        let shift = match (shape, center) {
            (Shape::Normal { .. }, None) => 0,
            (Shape::Normal { .. }, Some(center)) => low_word((center - 0.5) * as_double(count)),
            (_, center) => {
                // Drawn even if it is not used: the first rank is always the second draw's.
                let drawn = u64::from(generator.next_u32());
                center.map_or(drawn, |center| low_word(center * as_double(count)))
            }
        };
        Skew { shape, count, shift: shift % count, hashed: true, generator }
    }

    /// The same, with ranks that are not scattered.
    pub(in crate::fio) fn without_hash(mut self) -> Skew {
        self.hashed = false;
        self
    }

    /// The next draw.
    pub(in crate::fio) fn next(&mut self) -> u64 {
        let rank = self.rank();
        let place = if self.hashed { rank.wrapping_mul(SCATTER) } else { rank };
        (place % self.count + self.shift) % self.count
    }

    fn rank(&mut self) -> u64 {
        match self.shape {
            Shape::Normal { width } => self.bell(width),
            Shape::Pareto { power } => {
                let uniform = f64::from(self.generator.next_u32()) / DRAW_MAX;
                whole(as_double(self.count - 1) * libm::pow(uniform, power))
            }
            Shape::Zipf { sum, second, alpha, eta } => {
                let uniform = f64::from(self.generator.next_u32()) / DRAW_MAX;
                let weight = uniform * sum;
                if weight < 1.0 {
                    0
                } else if weight < second {
                    1
                } else {
                    let base = eta * uniform - eta + 1.0;
                    whole(as_double(self.count) * libm::pow(base, alpha))
                }
            }
        }
    }

    fn bell(&mut self, width: u64) -> u64 {
        let mut draw = || u64::from(self.generator.next_u32());
        let sum: u128 = (0..MEAN_OF).map(|_| u128::from(draw() % (self.count + 1))).sum();
        // The mean of numbers up to count fits where they do.
        let mean = i128::try_from(sum.div_ceil(u128::from(MEAN_OF))).unwrap_or(0);
        if width == 0 {
            return u64::try_from(mean).unwrap_or(0);
        }
        let part = (u128::from(draw()) * u128::from(width)) >> 32;
        let mut deviation = i128::try_from(part).unwrap_or(0) - i128::from(width / 2);
        let end = i128::from(self.count);
        loop {
            // Halving ends at 0, where the mean itself is within.
            match mean + deviation {
                place if (0..=end).contains(&place) => return u64::try_from(place).unwrap_or(0),
                _ => deviation /= 2,
            }
        }
    }

    /// `theta` if zipf can use it.
    ///
    /// # Errors
    /// What would be right.
    pub(in crate::fio) fn check_zipf(theta: f64) -> Result<f64, String> {
        if theta > 0.0 && theta <= 100.0 && theta != 1.0 {
            Ok(theta)
        } else {
            Err(format!("zipf's theta {theta} must be above 0, up to 100, and not 1"))
        }
    }

    /// `h` if pareto can use it.
    ///
    /// # Errors
    /// What would be right.
    pub(in crate::fio) fn check_pareto(h: f64) -> Result<f64, String> {
        if h > 0.0 && h < 1.0 {
            Ok(h)
        } else {
            Err(format!("pareto's power {h} must be between 0 and 1"))
        }
    }

    /// `percent` if normal can use it.
    ///
    /// # Errors
    /// What would be right.
    pub(in crate::fio) fn check_normal(percent: f64) -> Result<f64, String> {
        if (0.0..100.0).contains(&percent) {
            Ok(percent)
        } else {
            Err(format!("normal's deviation {percent} must be from 0 to below 100 percent"))
        }
    }
}

/// The sum of 1 / rank^theta over `ranks` ranks from 1, in this order.
///
/// Up to ten million powers: a second. Clones of a job need the same sum, so the last ones are
/// remembered; a sum is the same whichever asks first.
fn sum_of_weights(theta: f64, ranks: u64) -> f64 {
    static SUMS: Mutex<BTreeMap<(u64, u64), f64>> = Mutex::new(BTreeMap::new());
    let key = (theta.to_bits(), ranks);
    // A panic elsewhere leaves the map whole: it is only looked up and inserted into.
    if let Some(sum) = SUMS.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return *sum;
    }
    let sum = (1..=ranks).map(|rank| libm::pow(1.0 / as_double(rank), theta)).sum();
    let mut sums = SUMS.lock().unwrap_or_else(PoisonError::into_inner);
    if sums.len() >= SUMS_MAX {
        sums.clear();
    }
    sums.insert(key, sum);
    sum
}

/// A count as a double, rounded beyond 2^53.
#[expect(clippy::cast_precision_loss, reason = "fio computes in doubles too")]
const fn as_double(count: u64) -> f64 {
    count as f64
}

/// The whole part of what is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cut is what is wanted; the cast saturates"
)]
const fn whole(value: f64) -> u64 {
    value as u64
}

/// The low 32 bits of the whole part: how fio keeps a shift, negative ones too.
#[expect(clippy::cast_possible_truncation, reason = "the cut to a whole number is what is wanted")]
const fn low_word(value: f64) -> u64 {
    (value as i64).cast_unsigned() & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::offsets::name_hash::name_hash;

    /// Draws as fio's first thread makes them on a file of this name.
    fn draws(make: impl Fn(u64) -> Skew, count: usize) -> Vec<u64> {
        let mut skew = make(u64::from(name_hash("judge.dat")));
        (0..count).map(|_| skew.next()).collect()
    }

    /// Are the first places those of fio 3.33, in blocks of a file judge.dat?
    #[test]
    fn draws_equal_fio() {
        assert_eq!(draws(|s| Skew::zipf(1.1, None, 250, s), 5), [172, 118, 237, 237, 206]);
        assert_eq!(draws(|s| Skew::zipf(1.1, None, 1024, s), 5), [650, 881, 923, 923, 789]);
        assert_eq!(draws(|s| Skew::pareto(0.2, None, 1000, s), 5), [964, 987, 987, 987, 569]);
        assert_eq!(draws(|s| Skew::pareto(0.2, Some(0.25), 1000, s), 3), [227, 250, 250]);
        assert_eq!(draws(|s| Skew::normal(1.0, None, 1000, s), 5), [683, 752, 44, 729, 313]);
        assert_eq!(draws(|s| Skew::normal(0.0, None, 1024, s), 5), [360, 523, 964, 144, 223]);
    }

    /// Do ranks have zipf's shares? With theta 1.2 over 1000 ranks the sum of weights is 4.33, so
    /// the first has 23 %; and in the ratio 2^1.2 = 2.3 to the second.
    #[test]
    fn zipf_has_its_shares() {
        let mut skew = Skew::zipf(1.2, Some(0.0), 1000, 7).without_hash();
        let mut counts = [0_u32; 1000];
        for _ in 0..100_000 {
            counts[usize::try_from(skew.next()).unwrap()] += 1;
        }
        let ratio = f64::from(counts[0]) / f64::from(counts[1]);
        assert!((22_500..23_700).contains(&counts[0]), "{}", counts[0]);
        assert!((2.2..2.4).contains(&ratio), "{ratio}");
    }

    /// Do the first 20 % of the ranks get 80 %, and is the bell's mean in the middle?
    #[test]
    fn pareto_and_normal_have_theirs() {
        let mut pareto = Skew::pareto(0.2, Some(0.0), 1000, 7).without_hash();
        let hot = (0..10_000).filter(|_| pareto.next() < 200).count();
        assert!((7900..8100).contains(&hot), "{hot}");
        let mut normal = Skew::normal(20.0, None, 10_000, 7).without_hash();
        let draws: Vec<u64> = (0..10_000).map(|_| normal.next()).collect();
        let mean = draws.iter().sum::<u64>() / 10_000;
        assert!((4970..5030).contains(&mean), "{mean}");
        // The mean of 12 has a deviation of 10000 / 12 = 833, the width of 2000 one of 577: 1014
        // together. Within one of them lie 68 %.
        let near = draws.iter().filter(|place| (4000..6000).contains(*place)).count();
        assert!((6400..7200).contains(&near), "{near}");
    }

    /// Does a single place, or none, do no harm?
    #[test]
    fn small_counts() {
        for count in [0, 1, 2, 3] {
            for mut skew in [
                Skew::zipf(2.5, None, count, 3),
                Skew::pareto(0.9, Some(1.0), count, 3),
                Skew::normal(99.0, Some(0.0), count, 3),
            ] {
                assert!((0..1000).all(|_| skew.next() < count.max(1)));
            }
        }
    }

    /// Is the range of every parameter checked?
    #[test]
    fn parameters_are_checked() {
        assert!(Skew::check_zipf(1.0).is_err() && Skew::check_zipf(f64::NAN).is_err());
        assert!(Skew::check_pareto(1.0).is_err() && Skew::check_pareto(0.0).is_err());
        assert!(Skew::check_normal(100.0).is_err() && Skew::check_normal(-1.0).is_err());
        assert_eq!(Skew::check_normal(0.0), Ok(0.0));
    }
}
