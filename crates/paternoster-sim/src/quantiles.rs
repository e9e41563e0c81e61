// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantiles: times drawn from a distribution of which some points are published.
//!
//! A data sheet says "99.9 %: 300 us", a measurement a dozen of such points. Between two points
//! time grows linearly; below the first and beyond the last it is constant, so that nothing is made
//! up that no source says:
//!
//! ```text
//! ["1 % 65 us", "50 % 77 us", "99 % 92 us", "100 % 632 us"]
//!
//!  drawn   0.5 %   10 %                     50 %    99.5 %
//!  time    65 us   65 + 12 * 9/49 = 67.2    77 us   92 + 540 / 2 = 362
//! ```
//!
//! # Invariants
//! I1  Points grow in part and time, and a larger part never has a smaller time.
//! I2  Only integers: the same seed draws the same times on every machine.

use paternoster_core::Nanos;
use toml::Value;

use crate::chance::Chance;
use crate::quantity;
use crate::sections::{DeviceFileError, Fields};

/// Parts are counted in ten-millionths, so that 99.999 % is exact.
const WHOLE: u64 = 10_000_000;
const POINTS_MAX: usize = 64;

/// Points of a distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quantiles {
    /// Part and time, growing; at least one.
    points: Vec<(u64, Nanos)>,
}

impl Quantiles {
    /// The field `name`, if it is there.
    pub(crate) fn read(
        fields: &mut Fields<'_>,
        name: &'static str,
    ) -> Result<Option<Quantiles>, DeviceFileError> {
        let one = |value: &Value| point(value.as_str().unwrap_or(""));
        let Some(points) = fields.list(name, one)? else { return Ok(None) };
        let grows = points.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        if points.is_empty() || points.len() > POINTS_MAX || !grows {
            let why = "one to 64 points, growing in part and time, as \
                       `[\"50 % 75 us\", \"99.9 % 250 us\"]`";
            return Err(fields.wrong(name, why));
        }
        Ok(Some(Quantiles { points }))
    }

    /// A time.
    pub(crate) fn draw(&self, chance: &mut Chance) -> Nanos {
        self.at(chance.below(WHOLE))
    }

    /// The median.
    pub(crate) fn median(&self) -> Nanos {
        self.at(WHOLE / 2)
    }

    /// The time below which this part of the draws lies.
    fn at(&self, part: u64) -> Nanos {
        let above = self.points.partition_point(|(point, _)| *point <= part);
        match (above.checked_sub(1).map(|below| self.points[below]), self.points.get(above)) {
            (Some((from, low)), Some(&(to, high))) => {
                let grown = u128::from((high - low).0) * u128::from(part - from);
                low + Nanos(u64::try_from(grown / u128::from(to - from)).unwrap_or(0))
            }
            (Some((_, last)), None) => last,
            (None, first) => first.map_or(Nanos::ZERO, |&(_, first)| first),
        }
    }
}

/// `99.9 % 265 us`.
fn point(text: &str) -> Result<(u64, Nanos), String> {
    let wrong = || "a part and a time (as `99.9 % 265 us`)".to_owned();
    let (part, time) = text.split_once('%').ok_or_else(wrong)?;
    let part = quantity::decimal(part, WHOLE / 100).filter(|part| *part <= WHOLE);
    let time = quantity::time(time)?;
    if time > Nanos::from_secs(60) {
        return Err("no such time is more than a minute".to_owned());
    }
    Ok((part.ok_or_else(wrong)?, time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quantiles(points: &[(u64, u64)]) -> Quantiles {
        let points = points.iter().map(|&(part, us)| (part, Nanos::from_micros(us)));
        Quantiles { points: points.collect() }
    }

    /// Does the drawing hold? 1 % are 100,000 ten-millionths; 12 us * 900,000 / 4,900,000 = 2.204.
    #[test]
    fn between_points_time_grows_evenly() {
        let of = quantiles(&[(100_000, 65), (5_000_000, 77), (9_900_000, 92), (WHOLE, 632)]);
        for (part, nanos) in [
            (0, 65_000),
            (50_000, 65_000),
            (1_000_000, 67_204),
            (5_000_000, 77_000),
            (9_950_000, 362_000),
        ] {
            assert_eq!(of.at(part), Nanos(nanos), "{part}");
        }
        assert_eq!(of.median(), Nanos(77_000));
        assert_eq!(quantiles(&[(5_000_000, 77)]).at(WHOLE - 1), Nanos(77_000));
    }

    /// Are points read exactly, and nonsense refused?
    #[test]
    fn points_are_read() {
        assert_eq!(point("99.999 % 1.5 ms"), Ok((9_999_900, Nanos(1_500_000))));
        assert_eq!(point("0% 5us"), Ok((0, Nanos(5_000))));
        for text in ["", "50 %", "50 75 us", "101 % 5 us", "-1 % 5 us", "50 % 2000 s", "% 5 us"] {
            assert!(point(text).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        /// Do the quantiles of the draws match the points, both ways: of 20,000 draws, does each
        /// point's part lie at or below it, within five deviations? And does a larger part never
        /// have a smaller time (I1)?
        #[test]
        fn draws_have_the_quantiles(
            parts in prop::collection::btree_set(1u64..WHOLE, 1..8),
            steps in prop::collection::vec(1u64..300, 8), seed in any::<u64>()
        ) {
            let mut us = 10;
            let points: Vec<(u64, u64)> = parts.iter().zip(steps).map(|(&part, step)| {
                us += step;
                (part, us)
            }).collect();
            let of = quantiles(&points);
            let mut chance = Chance::new(seed, 0);
            let mut drawn: Vec<Nanos> = (0..20_000).map(|_| of.draw(&mut chance)).collect();
            drawn.sort_unstable();
            prop_assert!(drawn[0] >= Nanos::from_micros(points[0].1));
            prop_assert!(drawn[19_999] <= Nanos::from_micros(us));
            for &(part, us) in points.iter().take(points.len() - 1).skip(1) {
                let found = drawn.partition_point(|time| *time <= Nanos::from_micros(us));
                let part = f64::from(u32::try_from(part).unwrap()) / 1e7;
                let deviation = (20_000.0 * part * (1.0 - part)).sqrt();
                let off = f64::from(u32::try_from(found).unwrap()) - 20_000.0 * part;
                prop_assert!(off.abs() <= 5.0 * deviation + 2.0, "{part}: {found}");
            }
            for part in (0..WHOLE).step_by(99_991) {
                prop_assert!(of.at(part) <= of.at(part + 99_991));
            }
        }
    }
}
