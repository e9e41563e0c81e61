// SPDX-License-Identifier: MIT OR Apache-2.0
//! Axis: a range of values, its ticks at 1, 2 or 5 times a power of ten, and their labels.
//!
//! ```text
//! 0 to 16.5 s, at most 10 ticks:    steps of 1 s would be 16, of 2 s 8:   0 2 4 … 16
//! 80 us to 3 ms, logarithmic:       50 us  100 us  200 us  500 us  1 ms  2 ms  5 ms
//! ```
//!
//! Values are whole numbers of a small unit (nanoseconds, bytes, thousandths of a request); labels
//! are in a unit that suits the range, with as many decimals as the step needs and no float.

use std::fmt::Write as _;

use super::svg::Px;

/// The unit of labels: this many of the small unit, and a name.
pub(super) type Unit = (u64, &'static str);

/// Units of times, from nanoseconds.
pub(super) const TIMES: [Unit; 4] = [(1, "ns"), (1_000, "us"), (1_000_000, "ms"), (SECOND, "s")];
/// Units of sizes, from bytes, in powers of 1000.
pub(super) const SIZES: [Unit; 5] = [
    (1, "bytes"),
    (1_000, "kB"),
    (1_000_000, "MB"),
    (1_000_000_000, "GB"),
    (1_000_000_000_000, "TB"),
];
/// Units of rates, from bytes per second.
pub(super) const RATES: [Unit; 4] =
    [(1, "bytes/s"), (1_000, "kB/s"), (1_000_000, "MB/s"), (1_000_000_000, "GB/s")];
/// From thousandths of a request in a second.
pub(super) const IOPS: [Unit; 3] =
    [(1_000, "IOPS"), (1_000_000, "thousand IOPS"), (1_000_000_000, "million IOPS")];
/// Units of percentages, from thousandths of a percent.
pub(super) const PERCENT: [Unit; 1] = [(1_000, "%")];
/// Units of request counts, from thousandths of a request.
pub(super) const REQUESTS: [Unit; 1] = [(1_000, "requests")];

const SECOND: u64 = 1_000_000_000;

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// Equal steps are equally long.
    Even { step: u64, unit: Unit },
    /// Equal ratios are equally long. Ticks are at these digits of each power of ten, labels are
    /// in whatever unit suits them.
    Ratio { digits: &'static [u64], units: &'static [Unit] },
}

/// A range with its ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) from: u64,
    pub(super) to: u64,
    scale: Scale,
}

impl Axis {
    /// From `from` to `to`, with about `ticks` ticks, never closer than `step_min`. Labels take
    /// the largest unit that `to` has at least one of.
    pub(super) fn new(from: u64, to: u64, ticks: u64, step_min: u64, units: &[Unit]) -> Axis {
        let to = to.max(from.saturating_add(1));
        let unit = units.iter().rev().find(|unit| unit.0 <= to).or(units.first());
        let step = step(to - from, ticks, step_min);
        Axis { from, to, scale: Scale::Even { step, unit: unit.copied().unwrap_or((1, "")) } }
    }

    /// The same with labels in the unit of another one.
    pub(super) const fn in_unit_of(self, other: &Axis) -> Axis {
        match (self.scale, other.scale) {
            (Scale::Even { step, .. }, Scale::Even { unit, .. }) => {
                Axis { scale: Scale::Even { step, unit }, ..self }
            }
            _ => self,
        }
    }

    /// A logarithmic one from `from` to `to`, which may not be 0, with ends that are ticks. There
    /// are ticks at 1, 2 and 5 if there are few enough of those, and at powers of ten otherwise.
    pub(super) fn logarithmic(from: u64, to: u64, ticks: usize, units: &'static [Unit]) -> Axis {
        let (from, to) = (from.max(1), to.max(from).max(2));
        let with = |digits: &'static [u64]| {
            let below = tens(digits).take_while(|tick| *tick <= from).last().unwrap_or(1);
            let above = tens(digits).find(|tick| *tick >= to && *tick > below);
            let scale = Scale::Ratio { digits, units };
            Axis { from: below, to: above.unwrap_or(u64::MAX), scale }
        };
        let fine = with(&[1, 2, 5]);
        if fine.ticks().count() <= ticks { fine } else { with(&[1]) }
    }

    /// The same with ends that are ticks.
    pub(super) fn rounded(self) -> Axis {
        let Axis { from, to, .. } = self;
        match self.scale {
            Scale::Ratio { .. } => self,
            Scale::Even { step, .. } => {
                let to = to.div_ceil(step).saturating_mul(step);
                Axis { from: from / step * step, to, ..self }
            }
        }
    }

    /// The unit of labels; empty if each has its own.
    pub(super) const fn unit(&self) -> &'static str {
        match self.scale {
            Scale::Even { unit, .. } => unit.1,
            Scale::Ratio { .. } => "",
        }
    }

    /// Every tick's value and label.
    pub(super) fn ticks(&self) -> Box<dyn Iterator<Item = (u64, String)> + '_> {
        match self.scale {
            Scale::Even { step, unit } => {
                let ticks = (self.from.div_ceil(step)..=self.to / step).map(move |nth| nth * step);
                let decimals = decimals(step, unit);
                Box::new(ticks.map(move |value| (value, decimal(value, unit.0, decimals))))
            }
            Scale::Ratio { digits, units } => {
                let ticks = tens(digits).skip_while(|tick| *tick < self.from);
                let ticks = ticks.take_while(|tick| *tick <= self.to);
                Box::new(ticks.map(|value| (value, in_units(value, units))))
            }
        }
    }

    /// Where `value` lies on a line of this length, from its beginning.
    pub(super) fn place(&self, value: u64, length: Px) -> Px {
        let [from, to, value] = [self.from, self.to, value.clamp(self.from, self.to)];
        let [from, to, value] = match self.scale {
            Scale::Even { .. } => [from, to, value],
            Scale::Ratio { .. } => [from, to, value].map(log2),
        };
        let span = u128::from(to - from).max(1);
        let value = u128::from(value - from);
        let length = u128::from(length.0.unsigned_abs());
        Px(i64::try_from((value * length + span / 2) / span).unwrap_or(i64::MAX))
    }
}

/// These digits of each power of ten, in order.
fn tens(digits: &'static [u64]) -> impl Iterator<Item = u64> {
    let powers = (0..20).map(|power| 10_u64.pow(power));
    powers.flat_map(|power| digits.iter().filter_map(move |digit| power.checked_mul(*digit)))
}

/// `value` in the largest unit that it has one of.
fn in_units(value: u64, units: &[Unit]) -> String {
    let unit = units.iter().rev().find(|unit| unit.0 <= value).or(units.first());
    let (of, name) = unit.copied().unwrap_or((1, ""));
    format!("{} {name}", decimal(value, of, 0))
}

/// The logarithm to base 2, in parts of 2^20, one bit after the other: squaring a number doubles
/// its logarithm. No float, so that no machine rounds it in its own way.
fn log2(value: u64) -> u64 {
    const BITS: u32 = 20;
    let value = value.max(1);
    let power = value.ilog2();
    let mut part = u128::from(value) << (63 - power);
    let mut result = u64::from(power) << BITS;
    for bit in (0..BITS).rev() {
        part = (part * part) >> 63;
        if part >> 64 != 0 {
            part >>= 1;
            result |= 1 << bit;
        }
    }
    result
}

/// How many decimals a step needs.
fn decimals(step: u64, unit: Unit) -> u32 {
    let exact =
        |decimals: &u32| (u128::from(step) * 10u128.pow(*decimals)).is_multiple_of(unit.0.into());
    (0..12).find(exact).unwrap_or(12)
}

/// The smallest of 1, 2 and 5 times a power of ten that makes at most `ticks` steps of `span`.
fn step(span: u64, ticks: u64, least: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for step in [1, 2, 5].map(|digit| power.saturating_mul(digit)) {
            if step >= least && span / step <= ticks || step == u64::MAX {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// `value / unit` with this many decimals, rounded.
pub(super) fn decimal(value: u64, unit: u64, decimals: u32) -> String {
    ratio(value.into(), unit.into(), decimals)
}

/// `amount / by` with this many decimals, rounded. A division by zero returns it undivided.
pub(super) fn ratio(amount: u128, by: u128, decimals: u32) -> String {
    let power = 10u128.pow(decimals);
    let by = by.max(1);
    // What a run can measure leaves room for this; beyond it the last digits go.
    let scaled = amount.saturating_mul(power).saturating_add(by / 2) / by;
    let mut text = (scaled / power).to_string();
    if decimals > 0 {
        let width = usize::try_from(decimals).unwrap_or(0);
        let _infallible = write!(text, ".{:0width$}", scaled % power);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> String {
        let labels: Vec<String> = axis.ticks().map(|(_, label)| label).collect();
        labels.join(" ")
    }

    /// Are ticks at 1, 2 or 5 times a power of ten, in a unit that suits them?
    #[test]
    fn ticks_are_round() {
        let time = |to| Axis::new(0, to, 10, 1, &TIMES);
        assert_eq!(labels(&time(16_500_000_000)), "0 2 4 6 8 10 12 14 16");
        assert_eq!(labels(&time(1_100_000_000)), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(
            (labels(&time(450_000)), time(450_000).unit()),
            ("0 50 100 150 200 250 300 350 400 450".to_owned(), "us")
        );
        assert_eq!(labels(&time(0)), "0 1");
    }

    /// Does a small range far from zero keep the digits that distinguish its ticks?
    #[test]
    fn far_out() {
        let axis = Axis::new(500_000_100_000, 500_000_900_000, 5, 1, &SIZES).rounded();
        assert_eq!(labels(&axis), "500.0000 500.0002 500.0004 500.0006 500.0008 500.0010");
        assert_eq!(axis.unit(), "GB");
    }

    /// Are requests counted in whole ones, and does the axis end at a tick? 8.2 of them, at most 6
    /// steps: 2, up to 10.
    #[test]
    fn requests_are_whole() {
        let few = Axis::new(0, 900, 6, 1_000, &REQUESTS).rounded();
        assert_eq!(labels(&few), "0 1");
        let more = Axis::new(0, 8_200, 6, 1_000, &REQUESTS).rounded();
        assert_eq!((labels(&more), more.to), ("0 2 4 6 8 10".to_owned(), 10_000));
    }

    /// Do units have the right names? 20,000 requests a second are 20 thousand IOPS, 24,000,000
    /// bytes a second are 24 MB/s, and 100,000 thousandths of a percent are 100 %.
    #[test]
    fn units_are_what_they_are_called() {
        let axis = |to, units: &[Unit]| Axis::new(0, to, 5, 1, units);
        let iops = axis(20_000_000, &IOPS);
        assert_eq!((labels(&iops), iops.unit()), ("0 5 10 15 20".to_owned(), "thousand IOPS"));
        let rate = axis(24_000_000, &RATES);
        assert_eq!((labels(&rate), rate.unit()), ("0 5 10 15 20".to_owned(), "MB/s"));
        let part = axis(100_000, &PERCENT);
        assert_eq!((labels(&part), part.unit()), ("0 20 40 60 80 100".to_owned(), "%"));
    }

    /// Is a value's place rounded to the nearest tenth? A third of 100.0 pixels is 33.3.
    #[test]
    fn places() {
        let axis = Axis::new(0, 3, 5, 1, &TIMES);
        assert_eq!(axis.place(1, Px(1000)), Px(333));
        assert_eq!(axis.place(2, Px(1000)), Px(667));
        assert_eq!(axis.place(9, Px(1000)), Px(1000));
    }

    /// Are figures rounded as people do? 1600 / 1200 = 1.33, 2 / 3 = 0.67.
    #[test]
    fn ratios() {
        assert_eq!([ratio(1600, 1200, 2), ratio(2, 3, 2), ratio(5, 0, 0)], ["1.33", "0.67", "5"]);
    }

    /// Are ticks of a logarithmic axis at 1, 2 and 5, its ends among them, and equal ratios equally
    /// long? From 50 us to 5 ms is a factor of 100: 500 us are in the middle.
    #[test]
    fn ratios_are_even() {
        let axis = Axis::logarithmic(80_000, 3_000_000, 8, &TIMES);
        assert_eq!(labels(&axis), "50 us 100 us 200 us 500 us 1 ms 2 ms 5 ms");
        assert_eq!(axis.place(500_000, Px(1000)), Px(500));
        assert_eq!(axis.place(5_000, Px(1000)), Px(0));
        let wide = Axis::logarithmic(900, 20_000_000_000, 8, &TIMES);
        assert_eq!(labels(&wide), "100 ns 1 us 10 us 100 us 1 ms 10 ms 100 ms 1 s 10 s 100 s");
        let point = Axis::logarithmic(1_000, 1_000, 8, &TIMES);
        assert_eq!(labels(&point), "1 us 2 us");
    }

    /// Is the logarithm right? log2(10) = 3.321928, in 2^20ths 3483294.3.
    #[test]
    fn logarithms() {
        assert_eq!([log2(1), log2(8), log2(10)], [0, 3 << 20, 3_483_294]);
        assert_eq!(log2(u64::MAX) >> 20, 63);
    }

    /// Do the largest numbers end in an answer?
    #[test]
    fn no_overflow() {
        assert!(Axis::logarithmic(0, u64::MAX, 8, &TIMES).ticks().count() <= 20);
        let axis = Axis::new(0, u64::MAX, 10, 1, &TIMES).rounded();
        assert!(axis.ticks().count() <= 12);
        assert_eq!(axis.place(u64::MAX, Px(1000)), Px(1000));
    }
}
