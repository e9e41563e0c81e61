// SPDX-License-Identifier: MIT OR Apache-2.0
//! Intervals: how long bios take from step to step.
//!
//! ```text
//!  Q ──────▶ G ──────▶ I ──────▶ D ──────▶ C
//!  └─ Q2G ──┘└─ G2I ──┘└─ I2D ──┘└─ D2C ──┘      a bio that gets a request
//!  Q ──▶ M ────────────────────▶ D ──────▶ C
//!  └ Q2M ┘└──────── M2D ────────┘└─ D2C ──┘      a bio that is merged into one
//!  └──────────────── Q2C ─────────────────┘
//! ```
//!
//! Every sample counts three times: for the system, the device, and the process whose bio it is.
//! A step that took no time counts as one nanosecond, as in btt.
//!
//! Source: BTT-8 to BTT-11.

use core::ops::Index;

use super::times::{NEVER, seconds};

/// Which interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interval {
    /// From a bio to the next, on a device that remaps.
    Q2QRemapper,
    /// From a bio on a remapping device to its remap to another one that remaps in turn.
    Q2ARemapper,
    /// From a bio on a remapping device to its completion.
    Q2CRemapper,
    /// From a bio to the next.
    Q2Q,
    /// From a bio to its remap.
    Q2A,
    /// From a bio to its request.
    Q2G,
    /// From when its process slept for want of a request until it had one.
    S2G,
    /// From request to scheduler.
    G2I,
    /// From a bio to its merge.
    Q2M,
    /// From scheduler to device.
    I2D,
    /// From merge to device.
    M2D,
    /// From device to completion.
    D2C,
    /// From a bio to its completion.
    Q2C,
}

impl Interval {
    /// All of them, in btt's order.
    pub const ALL: [Interval; 13] = [
        Interval::Q2QRemapper,
        Interval::Q2ARemapper,
        Interval::Q2CRemapper,
        Interval::Q2Q,
        Interval::Q2A,
        Interval::Q2G,
        Interval::S2G,
        Interval::G2I,
        Interval::Q2M,
        Interval::I2D,
        Interval::M2D,
        Interval::D2C,
        Interval::Q2C,
    ];
    /// How many of them are of remapping devices; they come first.
    pub(super) const REMAPPER: usize = 3;

    /// Its name, as btt prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Interval::Q2QRemapper => "Q2Qdm",
            Interval::Q2ARemapper => "Q2Adm",
            Interval::Q2CRemapper => "Q2Cdm",
            Interval::Q2Q => "Q2Q",
            Interval::Q2A => "Q2A",
            Interval::Q2G => "Q2G",
            Interval::S2G => "S2G",
            Interval::G2I => "G2I",
            Interval::Q2M => "Q2M",
            Interval::I2D => "I2D",
            Interval::M2D => "M2D",
            Interval::D2C => "D2C",
            Interval::Q2C => "Q2C",
        }
    }
}

/// How an interval is spread, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spread {
    /// Samples.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The shortest; 0 without samples.
    pub min: u64,
    /// The longest.
    pub max: u64,
}

impl Spread {
    fn add(&mut self, sample: u64) {
        self.min = if self.count == 0 { sample } else { self.min.min(sample) };
        self.max = self.max.max(sample);
        self.sum = self.sum.saturating_add(sample);
        self.count += 1;
    }

    /// The average in seconds, as btt computes it; 0 without samples.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an average, as btt has it")]
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { seconds(self.sum) / self.count as f64 }
    }
}

/// The time from one step to the next, in ns: at least one.
pub(super) const fn delta(from: u64, to: u64) -> u64 {
    if from < to { to - from } else { 1 }
}

/// All intervals of the system, a device or a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Intervals {
    spreads: [Spread; Interval::ALL.len()],
}

impl Intervals {
    pub(super) fn add(&mut self, interval: Interval, sample: u64) {
        self.spreads[interval as usize].add(sample);
    }
}

impl Index<Interval> for Intervals {
    type Output = Spread;
    fn index(&self, interval: Interval) -> &Spread {
        &self.spreads[interval as usize]
    }
}

/// The times between arrivals, each seen from the one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrivals {
    last: u64,
}

impl Arrivals {
    pub(super) const fn new() -> Arrivals {
        Arrivals { last: NEVER }
    }

    /// An arrival; how long after the last one, if there was one.
    pub(super) const fn next(&mut self, at: u64) -> Option<u64> {
        let last = core::mem::replace(&mut self.last, at);
        if last == NEVER { None } else { Some(delta(last, at)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a step without duration count as a nanosecond, and are the bounds right?
    #[test]
    fn spreads_have_bounds_and_average() {
        let mut intervals = Intervals::default();
        for (from, to) in [(100, 400), (5, 5), (10, 9)] {
            intervals.add(Interval::D2C, delta(from, to));
        }
        let spread = intervals[Interval::D2C];
        assert_eq!(spread, Spread { count: 3, sum: 302, min: 1, max: 300 });
        // 302 ns in three.
        assert_eq!(format!("{:.9}", spread.average()), "0.000000101");
        assert_eq!(intervals[Interval::Q2C], Spread::default());
    }

    /// Has the first arrival no interval?
    #[test]
    fn arrivals_are_seen_from_the_one_before() {
        let mut arrivals = Arrivals::new();
        assert_eq!([7, 10, 10].map(|at| arrivals.next(at)), [None, Some(3), Some(1)]);
    }
}
