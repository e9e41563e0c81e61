// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seek: how long the arm takes over a distance.
//!
//! Over a short distance the arm speeds up and slows down, and the time grows with the root of the
//! distance; over a long one it coasts, and the time grows with the distance. A curve is given in
//! one of three ways:
//!
//! ```text
//! three parts    0 for d = 0;  a + b*sqrt(d) up to a knee;  c + e*d beyond     (Ruemmler, Wilkes)
//!                HP 97560: 3.24 + 0.400*sqrt(d) ms up to 383 cylinders, 8.00 + 0.008*d beyond
//! square root    from track-to-track and average: b over the whole stroke; the average itself
//!                beyond the next cylinder where there are fewer than eight
//! points         measured times, straight lines between them
//! ```
//!
//! Looking up a time must be cheap: each decision looks up 32 commands. So the curve is tabulated
//! when it is made: every distance up to `NEAR`, where it bends, and beyond that in steps wide
//! enough for the whole table to fit in a few tens of KiB, with straight lines between.
//!
//! No floating point: roots are integer roots of d * 2^32, exact to 2^-16.
//!
//! Source: `docs/rules/devices.md`.

use paternoster_core::Nanos;

/// Distances with an entry of their own.
const NEAR: u32 = 1024;
/// At most this many entries beyond `NEAR`.
const FAR_ENTRIES: u32 = 8192;
/// From this many cylinders on a square root is fitted to the average. Over fewer, the mean root of
/// a distance is next to 1, and what would be missing to the average would be multiplied.
const FITTED_FROM: u32 = 8;
/// Fraction bits of a root.
const ROOT_BITS: u32 = 16;

/// How the curve is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Curve {
    /// `short_base + short_root * sqrt(d)` for d up to the knee, `long_base + long_slope * d`
    /// beyond.
    ThreeParts {
        /// A short seek's fixed part.
        short_base: Nanos,
        /// The factor of the root of the distance.
        short_root: Nanos,
        /// The last short distance, in cylinders.
        knee: u32,
        /// A long seek's fixed part.
        long_base: Nanos,
        /// What each cylinder of a long seek costs.
        long_slope: Nanos,
    },
    /// In proportion to the root of the distance, over the whole stroke.
    SquareRoot {
        /// Time of a seek to the next cylinder.
        track_to_track: Nanos,
        /// Mean over two random cylinders.
        average: Nanos,
    },
    /// Measured times at distances in cylinders, in their order.
    Points(Vec<(u32, Nanos)>),
}

/// The root of `distance` with [`ROOT_BITS`] fraction bits.
fn root(distance: u32) -> u64 {
    (u64::from(distance) << (2 * ROOT_BITS)).isqrt()
}

impl Curve {
    /// The time over `distance` on a disk of `cylinders`, in nanoseconds.
    fn time(&self, distance: u32, cylinders: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        match self {
            Curve::ThreeParts { short_base, short_root, knee, long_base, long_slope } => {
                if distance <= *knee {
                    short_base.0 + ((short_root.0 * root(distance)) >> ROOT_BITS)
                } else {
                    long_base.0 + long_slope.0 * u64::from(distance)
                }
            }
            Curve::SquareRoot { track_to_track, average } if cylinders < FITTED_FROM => {
                if distance == 1 { track_to_track.0 } else { average.0 }
            }
            Curve::SquareRoot { track_to_track, average } => {
                // The mean root of the distance of two random places on a stroke C is
                // 8/15 * sqrt(C): the density of d = x*C is 2(1 - x), and the integral of
                // 2(1 - x)*sqrt(x) is 8/15. With t = a + b*(sqrt(d) - 1) and t(1) = a,
                // b = (average - a) / (8/15*sqrt(C) - 1).
                let one = 1 << ROOT_BITS;
                let mean = root(cylinders) * 8 / 15 - one;
                let rise = (average.0).saturating_sub(track_to_track.0);
                let scaled = u128::from(rise) * u128::from(root(distance) - one);
                let more = u64::try_from(scaled / u128::from(mean)).unwrap_or(u64::MAX);
                track_to_track.0 + more
            }
            Curve::Points(points) => between(points, distance),
        }
    }
}

/// The straight line between the two points around `distance`; the last ones beyond the ends.
fn between(points: &[(u32, Nanos)], distance: u32) -> u64 {
    let behind = points.partition_point(|&(at, _)| at <= distance);
    let Some(&(left, low)) = points.get(behind.wrapping_sub(1)) else {
        return points.first().map_or(0, |&(_, time)| time.0);
    };
    match points.get(behind) {
        None => low.0,
        Some(&(right, high)) => {
            let (run, width) = (u64::from(distance - left), u64::from(right - left));
            if high >= low {
                low.0 + (high.0 - low.0) * run / width
            } else {
                low.0 - (low.0 - high.0) * run / width
            }
        }
    }
}

/// A curve, tabulated.
#[derive(Debug, Clone)]
pub struct SeekTable {
    near: Vec<u32>,
    far: Vec<u32>,
    /// Distances between two entries of `far`, as a power of two.
    step_bits: u32,
}

impl SeekTable {
    /// Tabulates `curve` for a disk of `cylinders`.
    #[must_use]
    pub fn new(curve: &Curve, cylinders: u32) -> SeekTable {
        let time =
            |distance: u32| u32::try_from(curve.time(distance, cylinders)).unwrap_or(u32::MAX);
        let mut step_bits = 0;
        while (cylinders >> step_bits) >= FAR_ENTRIES {
            step_bits += 1;
        }
        let last = (cylinders >> step_bits) + 1;
        SeekTable {
            near: (0..NEAR).map(time).collect(),
            far: (0..=last).map(|entry| time(entry << step_bits)).collect(),
            step_bits,
        }
    }

    /// The time over `distance` cylinders, in nanoseconds.
    #[must_use]
    pub fn time(&self, distance: u32) -> u64 {
        if let Some(&time) = self.near.get(distance as usize) {
            return u64::from(time);
        }
        let entry = (distance >> self.step_bits) as usize;
        let beyond = self.far.len() - 1;
        let low = u64::from(self.far[entry.min(beyond)]);
        let high = u64::from(self.far[(entry + 1).min(beyond)]);
        let rest = u64::from(distance & ((1 << self.step_bits) - 1));
        if high >= low {
            low + (((high - low) * rest) >> self.step_bits)
        } else {
            low - (((low - high) * rest) >> self.step_bits)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    /// Does the HP 97560's published curve come out? d = 100: 3.24 + 0.4*10 = 7.24 ms; d = 383:
    /// 3.24 + 0.4*19.5704 = 11.06816 ms; d = 1000: 8 + 8 = 16 ms; d = 1961: 23.688 ms.
    #[test]
    fn hp_97560() {
        let curve = Curve::ThreeParts {
            short_base: us(3_240),
            short_root: us(400),
            knee: 383,
            long_base: us(8_000),
            long_slope: us(8),
        };
        let table = SeekTable::new(&curve, 1962);
        assert_eq!(table.time(0), 0);
        assert_eq!(table.time(100), 7_240_000);
        assert!(table.time(383).abs_diff(11_068_160) < 100);
        assert_eq!(table.time(1000), 16_000_000);
        assert_eq!(table.time(1961), 23_688_000);
    }

    /// Does the square root keep track-to-track and average, over all pairs of cylinders? Weights
    /// 2(C - d) for each distance d; the sum differs from the integral by one part in a thousand.
    #[test]
    fn square_root_keeps_the_average() {
        let curve = Curve::SquareRoot { track_to_track: us(1_500), average: us(12_000) };
        let cylinders = 120_000u32;
        let table = SeekTable::new(&curve, cylinders);
        assert_eq!(table.time(1), 1_500_000);
        let (mut sum, mut pairs) = (0u128, u128::from(cylinders));
        for distance in 1..cylinders {
            let weight = 2 * u128::from(cylinders - distance);
            sum += weight * u128::from(table.time(distance));
            pairs += weight;
        }
        let mean = u64::try_from(sum / pairs).unwrap();
        assert!(mean.abs_diff(12_000_000) < 12_000, "{mean}");
        // 1.5 + 10.5 * 15/8 = 21.2 ms over the full stroke, a little more for the -1.
        assert!(table.time(cylinders - 1).abs_diff(21_190_000) < 50_000);
    }

    /// Is no seek absurd where cylinders are few? Over fewer than eight the average is the longest;
    /// over eight the full stroke, 1.5 + 10.5 * (sqrt(7) - 1) / (8/15 * sqrt(8) - 1) = 35.5 ms.
    #[test]
    fn few_cylinders_have_short_seeks() {
        let curve = Curve::SquareRoot { track_to_track: us(1_500), average: us(12_000) };
        for cylinders in 1..100 {
            let table = SeekTable::new(&curve, cylinders);
            let times: Vec<u64> = (1..cylinders).map(|distance| table.time(distance)).collect();
            assert!(times.is_sorted(), "{cylinders}: {times:?}");
            assert!(times.iter().all(|&time| time <= 35_500_000), "{cylinders}: {times:?}");
            assert!(times.first().is_none_or(|&time| time == 1_500_000), "{cylinders}: {times:?}");
        }
    }

    /// Are measured points kept, lines drawn between them, and the ends held? A dip stays a dip.
    #[test]
    fn points_are_joined_by_lines() {
        let points = vec![(1, us(1_000)), (10, us(1_900)), (20, us(1_500)), (5_000, us(9_000))];
        let table = SeekTable::new(&Curve::Points(points), 6_000);
        assert_eq!(table.time(1), 1_000_000);
        assert_eq!(table.time(4), 1_300_000);
        assert_eq!(table.time(15), 1_700_000);
        assert_eq!(table.time(20), 1_500_000);
        assert_eq!(table.time(5_999), 9_000_000);
    }
}
