// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spread: how long commands took, in cells narrow enough to speak of percents.
//!
//! A time is reported as the middle of its bin in fio's histogram, so that a reported value is off
//! by at most 1/128, 0.8 %:
//!
//! ```text
//! 1.048576 ms = 2^20 ns … 2^21 ns in 64 cells of 16.384 us
//! ```
//!
//! Below 128 ns a cell is one nanosecond. Times of 2^40 ns, 18 minutes, and more are reported as
//! that.
//!
//! Invariant: the memory does not depend on what is counted: 18 KiB for each kind and measure.

use paternoster_core::Nanos;
use paternoster_measure::Histogram;

use super::model_queue::{Ended, Kind};
use super::{KindPrecision, Precision, Spread};

/// Times by size, and the longest.
#[derive(Debug, Clone)]
struct Stretch {
    most: Nanos,
    histogram: Histogram,
}

impl Stretch {
    fn new() -> Stretch {
        Stretch { most: Nanos::ZERO, histogram: Histogram::new() }
    }

    fn add(&mut self, time: Nanos) {
        self.most = self.most.max(time);
        self.histogram.record(time);
    }

    fn join(&mut self, other: &Stretch) {
        self.most = self.most.max(other.most);
        self.histogram.merge(&other.histogram);
    }

    fn spread(&self) -> Spread {
        let [p50, p99] = [50.0, 99.0].map(|p| Nanos(self.histogram.percentile(p)).min(self.most));
        Spread { p50, p99 }
    }
}

/// Times of one kind of command.
#[derive(Debug, Clone)]
struct Times {
    set: Stretch,
    served: Stretch,
    late: Stretch,
}

impl Times {
    fn new() -> Times {
        let [set, served, late] = [(); 3].map(|()| Stretch::new());
        Times { set, served, late }
    }

    fn join(&mut self, other: &Times) {
        self.set.join(&other.set);
        self.served.join(&other.served);
        self.late.join(&other.late);
    }
}

/// Everything that was answered.
#[derive(Debug)]
pub(super) struct Tally {
    kinds: [Times; 4],
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Read, "read"),
    (Kind::Write, "write"),
    (Kind::Discard, "discard"),
    (Kind::Flush, "flush"),
];

impl Tally {
    pub(super) fn new() -> Tally {
        Tally { kinds: [(); 4].map(|()| Times::new()) }
    }

    /// Counts what has ended in the model and was answered at `answered`.
    pub(super) fn add<T>(&mut self, ended: &Ended<T>, answered: Nanos) {
        let Some(nth) = KINDS.iter().position(|(kind, _)| *kind == ended.kind) else { return };
        let late = answered - ended.at.min(answered);
        let times = &mut self.kinds[nth];
        times.set.add(ended.set);
        times.late.add(late);
        times.served.add(ended.set + late);
    }

    /// The summary of the precision.
    pub(super) fn precision(&self, overhead: Nanos) -> Precision {
        let mut all = Times::new();
        let mut kinds = Vec::new();
        for (times, (_, name)) in self.kinds.iter().zip(KINDS) {
            all.join(times);
            let Times { set, served, late } = times;
            let commands = set.histogram.total();
            if commands > 0 {
                let [set, served, late] = [set, served, late].map(Stretch::spread);
                kinds.push(KindPrecision { name, commands, set, served, late });
            }
        }
        let [set, served, late] = [&all.set, &all.served, &all.late].map(Stretch::spread);
        Precision { commands: all.set.histogram.total(), set, served, late, overhead, kinds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is every time reported within 1/128, and no time as more than the longest?
    #[test]
    fn nothing_is_told_wrongly() {
        let mut time = 1u64;
        while time < 1 << 40 {
            let mut stretch = Stretch::new();
            stretch.add(Nanos(time));
            let told = stretch.spread().p99.0;
            assert!(told <= time && time - told <= time / 128, "{time} is told as {told}");
            time += time / 100 + 1;
        }
    }

    /// Are served and late what set and answered say, over all kinds and for each?
    #[test]
    fn figures_by_hand() {
        let mut tally = Tally::new();
        for (kind, ms, late) in [(Kind::Read, 1, 0), (Kind::Read, 1, 1), (Kind::Flush, 8, 4)] {
            let (set, at) = (Nanos::from_millis(ms), Nanos::from_millis(100));
            let ended = Ended { token: (), kind, set, at, error: 0 };
            tally.add(&ended, at + Nanos::from_millis(late));
        }
        let told = tally.precision(Nanos(7));
        let near = |told: Nanos, ms: u64| {
            let right = ms * 1_000_000;
            assert!(told.0.abs_diff(right) <= right / 128, "{told} is not {ms} ms");
        };
        assert_eq!((told.commands, told.overhead, told.kinds.len()), (3, Nanos(7), 2));
        // Sorted: set 1 1 8, served 1 2 12, late 0 1 4.
        near(told.set.p50, 1);
        near(told.set.p99, 8);
        near(told.served.p50, 2);
        near(told.served.p99, 12);
        near(told.late.p50, 1);
        near(told.late.p99, 4);
        let read = &told.kinds[0];
        assert_eq!((read.name, read.commands, read.late.p50), ("read", 2, Nanos::ZERO));
    }
}
