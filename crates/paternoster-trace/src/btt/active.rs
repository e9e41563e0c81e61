// SPDX-License-Identifier: MIT OR Apache-2.0
//! Active: when a device had something to do, as the union of all times from D to C.
//!
//! ```text
//! I/Os      ├──────┤      ├───┤
//!              ├──────┤       ├────┤      touching ends are one period
//! periods   ├─────────┤   ├────────┤      2 live, the rest from 0 to the last C idle
//! ```
//!
//! An interval is known when it ends. Known ones are kept in order; a new one absorbs all that it
//! reaches back to. While nothing is in flight none of them can be reached any more, and only their
//! number and length need be kept.
//!
//! Invariants: I1 periods are in order and do not touch; I2 at most [`PERIODS_MAX`] are kept unless
//! all are requested (an I/O that was issued longer ago than that many periods would not join
//! them).
//!
//! Source: BTT-23.

use super::times::seconds;

/// Periods that are kept, at most, while anything is in flight.
pub const PERIODS_MAX: usize = 1 << 16;

/// The periods of a device or of the system, in ns.
#[derive(Debug)]
pub(super) struct Periods {
    known: Vec<(u64, u64)>,
    keep: bool,
    /// I/Os in the device.
    under_way: u64,
    folded: u64,
    folded_time: u64,
    last: u64,
}

/// The reported figures of the periods.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ActiveFigures {
    /// How many there were.
    pub live: u64,
    /// How long one was on average, in seconds; 0 if there was just one.
    pub average_active: f64,
    /// How long the pause between two was on average, in seconds.
    pub average_idle: f64,
    /// How much of the time, from 0 to the last completion, in percent.
    pub percent: f64,
}

impl Periods {
    /// Periods, which are kept individually if they are to be reported.
    pub(super) const fn new(keep: bool) -> Periods {
        Periods { known: Vec::new(), keep, under_way: 0, folded: 0, folded_time: 0, last: 0 }
    }

    /// A bio went to the device.
    pub(super) const fn issued(&mut self) {
        self.under_way += 1;
    }

    /// One that went to the device is not looked for any more.
    pub(super) fn lost(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.fold_when_idle();
    }

    /// One came back.
    pub(super) fn completed(&mut self, from: u64, to: u64) {
        let (mut from, mut to) = (from.min(to), to);
        self.last = self.last.max(to);
        while let Some(last) = self.known.last().copied().filter(|last| last.1 >= from) {
            from = from.min(last.0);
            to = to.max(last.1);
            self.known.pop();
        }
        self.known.push((from, to));
        self.lost();
    }

    fn fold_when_idle(&mut self) {
        if self.keep {
            return;
        }
        // The last period can still be touched by one that begins at its end.
        let reachable = if self.under_way == 0 { 1 } else { PERIODS_MAX };
        if self.known.len() > reachable {
            let count = if reachable == 1 { self.known.len() - 1 } else { PERIODS_MAX / 2 };
            for (from, to) in self.known.drain(..count) {
                self.folded += 1;
                self.folded_time += to - from;
            }
        }
    }

    /// All periods, if they were kept.
    pub(super) fn known(&self) -> &[(u64, u64)] {
        &self.known
    }

    #[expect(clippy::cast_precision_loss, reason = "averages, as btt has them")]
    pub(super) fn figures(&self) -> ActiveFigures {
        let live = self.folded + self.known.len() as u64;
        let time: u64 = self.known.iter().map(|(from, to)| to - from).sum();
        let active = seconds(self.folded_time + time);
        match live {
            0 => ActiveFigures::default(),
            1 => ActiveFigures { live, percent: 100.0, ..ActiveFigures::default() },
            _ => {
                let total = seconds(self.last);
                let average_active = active / live as f64;
                let average_idle = (total - active) / (live - 1) as f64;
                let percent = 100.0 * active / total;
                ActiveFigures { live, average_active, average_idle, percent }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn periods(keep: bool, intervals: &[(u64, u64)]) -> Periods {
        let mut periods = Periods::new(keep);
        for (from, to) in intervals {
            periods.issued();
            periods.completed(*from, *to);
        }
        periods
    }

    /// Do overlapping and touching times make one period?
    #[test]
    fn periods_are_the_union() {
        let intervals = [(10, 20), (15, 30), (30, 40), (60, 70), (50, 80)];
        assert_eq!(periods(true, &intervals).known(), [(10, 40), (50, 80)]);
        let (kept, folded) = (periods(true, &intervals), periods(false, &intervals));
        assert_eq!(kept.figures(), folded.figures());
        // 30 + 30 of 80 ns; a pause of 10 between the two, but btt counts the one before the first
        // as well: (80 - 60) / 1.
        let figures = kept.figures();
        assert_eq!((figures.live, format!("{:6.2}", figures.percent)), (2, " 75.00".to_owned()));
        assert_eq!(format!("{:.9}", figures.average_active), "0.000000030");
        assert_eq!(format!("{:.9}", figures.average_idle), "0.000000020");
    }

    /// Is one period reported as btt does: all of the time, of no length?
    #[test]
    fn one_period_is_all_of_the_time() {
        let figures = periods(false, &[(5, 9)]).figures();
        let expected = ActiveFigures { live: 1, percent: 100.0, ..ActiveFigures::default() };
        assert_eq!(figures, expected);
    }

    /// Are periods kept while an old I/O may still join them, and folded when none may?
    #[test]
    fn periods_wait_for_what_is_under_way() {
        let mut periods = Periods::new(false);
        periods.issued();
        for at in 0..100 {
            periods.issued();
            periods.completed(100 + 10 * at, 105 + 10 * at);
        }
        assert_eq!(periods.known().len(), 100);
        periods.completed(0, 2000);
        assert_eq!((periods.known(), periods.figures().live), (&[(0, 2000)][..], 1));
    }
}
