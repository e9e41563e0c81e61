// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spread: how long commands took, in cells narrow enough to speak of percents.
//!
//! Each power of two is cut into 64 cells (fio's layout), and a cell is reported as its middle, so
//! that a reported value is off by at most 1/128, 0.8 %:
//!
//! ```text
//! 1.048576 ms = 2^20 ns … 2^21 ns in 64 cells of 16.384 us
//! ```
//!
//! Below 64 ns a cell is one nanosecond; from 2^41 ns, 37 minutes, on there is one cell.
//!
//! Invariant: a histogram has [`CELLS`] cells, 18 KiB, whatever it counts.

use paternoster_core::Nanos;

use super::model_queue::{Ended, Kind};
use super::{KindPrecision, Precision, Spread};

/// Cells of a power of two, as a power of two.
const PARTS_SHIFT: u32 = 6;
const PARTS: u64 = 1 << PARTS_SHIFT;
/// From here on there is one cell.
const SHIFT_MAX: u32 = 41;
/// 64 of one nanosecond, then 64 for each power from 2^6 to 2^40, then the last.
const CELLS: usize = (((SHIFT_MAX - PARTS_SHIFT) as usize + 1) << PARTS_SHIFT) + 1;

/// Times by size.
#[derive(Debug, Clone)]
struct Histogram {
    count: u64,
    most: Nanos,
    cells: Vec<u64>,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram { count: 0, most: Nanos::ZERO, cells: vec![0; CELLS] }
    }

    fn add(&mut self, time: Nanos) {
        self.count += 1;
        self.most = self.most.max(time);
        self.cells[place(time)] += 1;
    }

    fn join(&mut self, other: &Histogram) {
        self.count += other.count;
        self.most = self.most.max(other.most);
        for (cell, more) in self.cells.iter_mut().zip(&other.cells) {
            *cell += more;
        }
    }

    /// The value that this many of a thousand did not exceed.
    fn permille(&self, permille: u64) -> Nanos {
        let rank = (u128::from(self.count) * u128::from(permille)).div_ceil(1_000).max(1);
        let mut below = 0;
        for (place, count) in self.cells.iter().enumerate() {
            below += u128::from(*count);
            if below >= rank {
                return middle(place).min(self.most);
            }
        }
        self.most
    }

    fn spread(&self) -> Spread {
        Spread { p50: self.permille(500), p99: self.permille(990) }
    }
}

fn place(time: Nanos) -> usize {
    let power = time.0.max(1).ilog2();
    let place = match power {
        0..PARTS_SHIFT => time.0,
        PARTS_SHIFT..SHIFT_MAX => {
            let part = time.0 >> (power - PARTS_SHIFT);
            // The part is from 64 to 127: the second 64 cells are those of the first power.
            u64::from(power - PARTS_SHIFT) * PARTS + part
        }
        _ => return CELLS - 1,
    };
    usize::try_from(place).unwrap_or(CELLS - 1)
}

fn middle(place: usize) -> Nanos {
    let place = place as u64;
    if place < PARTS {
        return Nanos(place);
    }
    let (power, part) = (place / PARTS - 1, place % PARTS + PARTS);
    // Half a cell is less than a nanosecond in the first of them.
    Nanos((part << power) + (1 << power >> 1))
}

/// One kind's times.
#[derive(Debug, Clone)]
struct Times {
    set: Histogram,
    served: Histogram,
    late: Histogram,
}

impl Times {
    fn new() -> Times {
        let [set, served, late] = [(); 3].map(|()| Histogram::new());
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

    /// What it amounts to.
    pub(super) fn precision(&self, overhead: Nanos) -> Precision {
        let mut all = Times::new();
        let mut kinds = Vec::new();
        for (times, (_, name)) in self.kinds.iter().zip(KINDS) {
            all.join(times);
            let Times { set, served, late } = times;
            if set.count > 0 {
                let [set, served, late] = [set, served, late].map(Histogram::spread);
                let commands = times.set.count;
                kinds.push(KindPrecision { name, commands, set, served, late });
            }
        }
        let [set, served, late] = [&all.set, &all.served, &all.late].map(Histogram::spread);
        Precision { commands: all.set.count, set, served, late, overhead, kinds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are cells where the essay says, and reported by their middle?
    #[test]
    fn cells_by_hand() {
        // 2^20 + 3 * 16 384 is the beginning of the fourth cell; its middle is 8 192 further.
        let begin = (1 << 20) + 3 * 16_384;
        let cell = place(Nanos(begin));
        assert_eq!(place(Nanos(begin + 16_383)), cell);
        assert_eq!(place(Nanos(begin + 16_384)), cell + 1);
        assert_eq!(middle(cell), Nanos(begin + 8_192));
        assert_eq!(
            [0, 1, 63, 64, 127, 128].map(|time| place(Nanos(time))),
            [0, 1, 63, 64, 127, 128]
        );
        assert_eq!(place(Nanos((1 << 41) - 1)), CELLS - 2);
        assert_eq!(place(Nanos::MAX), CELLS - 1);
    }

    /// Is every time reported within 1/128?
    #[test]
    fn nothing_is_told_wrongly() {
        let mut time = 1u64;
        while time < 1 << 41 {
            let told = middle(place(Nanos(time))).0;
            assert!(told.abs_diff(time) <= time / 128, "{time} is told as {told}");
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
