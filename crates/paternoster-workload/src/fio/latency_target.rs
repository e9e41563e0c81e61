// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency target: the search for the deepest queue that keeps a latency.
//!
//! A job with `latency_target` begins with one I/O in flight. Each depth is tried for
//! `latency_window`; it is good if at least `latency_percentile` of its I/Os took no longer than
//! the target. The search doubles the depth until one fails, then halves the space between the
//! deepest good and the shallowest bad one:
//!
//! ```text
//! target kept up to 11, iodepth 32
//! depth   1 2 4 8 16 12 10 11 11
//!         g g g g b  b  g  g  final      16 bad: (16 + 8) / 2 = 12 bad: (12 + 8) / 2 = 10 good:
//!                                        (10 + 12) / 2 = 11 good: (11 + 12) / 2 = 11, found
//! ```
//!
//! The depth is found when it no longer changes. One more window is run at it, for the report,
//! whose statistics restart; then the job ends. With `latency_run` it goes on at that depth, and is
//! reported as a whole. If not even one I/O in flight is good the job goes on like that to its end.
//!
//! With a `latency_percentile` of 100, which is the default, an I/O that takes longer than the
//! target is the job's last: it fails with ETIMEDOUT, as with `max_latency`. So a search wants a
//! percentile.
//!
//! I/Os that were issued at another depth are counted too; a window begins with the change.
//!
//! Invariants: I1 the depth is from 1 to `iodepth`; I2 good < bad, once both are known; I3 the
//! search ends: each window makes the space between them smaller or the depth twice as deep.
//!
//! Source: FIO-66, measured on fio 3.33 on devices of one and two servers.

use paternoster_core::Nanos;

use super::value::{self, MICROSECOND, Reader};

/// The options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyGoal {
    /// `latency_target`; zero: no target.
    pub target: Nanos,
    /// `latency_window`.
    pub window: Nanos,
    /// `latency_percentile`: how many hundredths must keep the target.
    pub percentile: f64,
    /// `latency_run`: the job goes on at the depth that was found.
    pub goes_on: bool,
}

impl Default for LatencyGoal {
    fn default() -> LatencyGoal {
        LatencyGoal { target: Nanos::ZERO, window: Nanos::ZERO, percentile: 100.0, goes_on: false }
    }
}

impl LatencyGoal {
    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        match name {
            "latency_target" => self.target = read.time(text, MICROSECOND)?,
            "latency_window" => self.window = read.time(text, MICROSECOND)?,
            "latency_percentile" => self.percentile = value::percentages(text, 1)?[0],
            "latency_run" => self.goes_on = value::boolean(text)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses options that do not go together.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.target > Nanos::ZERO && self.window == Nanos::ZERO {
            return Err("latency_target needs a latency_window, as in latency_window=5s".to_owned());
        }
        Ok(())
    }
}

/// What the end of a window has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The window goes on.
    Wait,
    /// Another depth from now on.
    Try(u32),
    /// The depth was found: the statistics restart for its last window, unless it goes on.
    Found(u32),
    /// An I/O took too long, and none may.
    TooLong,
    /// The last window is over: the job ends. With `latency_run` this is never said.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Searching,
    Final,
    Over,
}

/// The search of one clone.
#[derive(Debug, Clone)]
pub struct LatencySearch {
    goal: LatencyGoal,
    depth_max: u32,
    depth: u32,
    good: u32,
    bad: Option<u32>,
    stage: Stage,
    window_ends: Nanos,
    ios: u64,
    kept: u64,
}

impl LatencySearch {
    /// A search from depth 1 up to `iodepth`, begun at `now`; `None` without a target.
    #[must_use]
    pub fn new(goal: &LatencyGoal, iodepth: u32, now: Nanos) -> Option<LatencySearch> {
        let search = LatencySearch {
            goal: *goal,
            depth_max: iodepth.max(1),
            depth: 1,
            good: 0,
            bad: None,
            stage: Stage::Searching,
            window_ends: now + goal.window,
            ios: 0,
            kept: 0,
        };
        (goal.target > Nanos::ZERO).then_some(search)
    }

    /// How many I/Os may be in flight.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether the depth was found.
    #[must_use]
    pub fn is_found(&self) -> bool {
        self.stage != Stage::Searching
    }

    /// When the window ends. The first completion at or after this time judges it.
    #[must_use]
    pub fn window_ends(&self) -> Nanos {
        self.window_ends
    }

    /// An I/O has completed at `now` after `latency`.
    pub fn completed(&mut self, now: Nanos, latency: Nanos) -> Verdict {
        if latency > self.goal.target && self.goal.percentile >= 100.0 {
            return Verdict::TooLong;
        }
        self.ios += 1;
        self.kept += u64::from(latency <= self.goal.target);
        if now < self.window_ends || self.stage == Stage::Over {
            return Verdict::Wait;
        }
        let good = self.is_good();
        (self.ios, self.kept) = (0, 0);
        self.window_ends = now + self.goal.window;
        match self.stage {
            Stage::Final | Stage::Over => {
                self.stage = Stage::Over;
                if self.goal.goes_on { Verdict::Wait } else { Verdict::Done }
            }
            Stage::Searching => self.search(good),
        }
    }

    fn search(&mut self, good: bool) -> Verdict {
        let before = self.depth;
        if good {
            self.good = before;
            // Deeper than a depth that was bad before need not be tried again.
            self.depth = match self.bad {
                None => before.saturating_mul(2).min(self.depth_max),
                Some(bad) => before.midpoint(bad),
            };
        } else {
            self.bad = Some(before);
            // A depth that was good before may fail when it is tried again.
            self.good = self.good.min(before - 1);
            self.depth = before.midpoint(self.good).max(1);
        }
        debug_assert!(self.check().is_ok(), "{:?}", self.check());
        // Not even one is good: it is tried again.
        if !good && before == 1 {
            return Verdict::Wait;
        }
        if self.depth == before {
            self.stage = Stage::Final;
            return Verdict::Found(before);
        }
        Verdict::Try(self.depth)
    }

    fn is_good(&self) -> bool {
        paternoster_measure::reaches(self.kept, self.goal.percentile, self.ios)
    }

    /// Verifies I1 and I2.
    ///
    /// # Errors
    /// Names the invariant which does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.depth == 0 || self.depth > self.depth_max {
            return Err("I1: depth out of range");
        }
        if self.bad.is_some_and(|bad| bad <= self.good) {
            return Err("I2: a good depth above a bad one");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn goal() -> LatencyGoal {
        LatencyGoal {
            target: Nanos::from_millis(5),
            window: Nanos::from_secs(1),
            percentile: 99.0,
            goes_on: false,
        }
    }

    /// The depths tried on a device that keeps the target up to depth `kept`; the last one, which
    /// was found, appears twice.
    fn depths(kept: u32, iodepth: u32) -> Vec<u32> {
        let mut search = LatencySearch::new(&goal(), iodepth, Nanos::ZERO).unwrap();
        let (mut now, mut depths) = (Nanos::ZERO, vec![1]);
        loop {
            now += Nanos::from_millis(100);
            let latency = if search.depth() <= kept { 4 } else { 6 };
            match search.completed(now, Nanos::from_millis(latency)) {
                Verdict::Wait => {}
                Verdict::Try(depth) | Verdict::Found(depth) => depths.push(depth),
                Verdict::Done | Verdict::TooLong => return depths,
            }
            search.check().unwrap();
        }
    }

    /// Does the search go as the module docs say, and end at the edges too?
    #[test]
    fn search_doubles_then_halves() {
        assert_eq!(depths(11, 32), [1, 2, 4, 8, 16, 12, 10, 11, 11]);
        assert_eq!(depths(32, 32), [1, 2, 4, 8, 16, 32, 32]);
        assert_eq!(depths(100, 20), [1, 2, 4, 8, 16, 20, 20]);
        assert_eq!(depths(1, 1), [1, 1]);
    }

    /// Does a job go on with one I/O in flight if not even that is good enough (fio: 246 of 10 ms
    /// in 2.5 s with a target of 7.5 ms)? And does the first late one end it, if none may be late?
    #[test]
    fn a_target_that_cannot_be_kept() {
        let late = Nanos::from_millis(6);
        let mut search = LatencySearch::new(&goal(), 8, Nanos::ZERO).unwrap();
        for n in 1..=250 {
            assert_eq!(search.completed(Nanos::from_millis(10 * n), late), Verdict::Wait);
        }
        assert_eq!((search.depth(), search.is_found()), (1, false));
        let all = LatencyGoal { percentile: 100.0, ..goal() };
        let mut search = LatencySearch::new(&all, 8, Nanos::ZERO).unwrap();
        assert_eq!(search.completed(Nanos::from_millis(6), all.target), Verdict::Wait);
        assert_eq!(search.completed(Nanos::from_millis(12), late), Verdict::TooLong);
    }

    /// Does the percentile count? One slow I/O of a hundred is within 99 %, two are not.
    #[test]
    fn percentile_of_a_window() {
        for (slow, verdict) in [(1, Verdict::Try(2)), (2, Verdict::Wait)] {
            let mut search = LatencySearch::new(&goal(), 8, Nanos::ZERO).unwrap();
            let mut last = Verdict::Wait;
            for n in 1..=100 {
                let latency = Nanos::from_millis(if n <= slow { 9 } else { 1 });
                last = search.completed(Nanos::from_millis(n * 10), latency);
            }
            assert_eq!(last, verdict);
        }
    }

    /// Does `latency_run` go on, and is a job without target not searched?
    #[test]
    fn latency_run_goes_on() {
        let endless = LatencyGoal { goes_on: true, ..goal() };
        let mut search = LatencySearch::new(&endless, 1, Nanos::ZERO).unwrap();
        let mut verdicts = Vec::new();
        for n in 1..=5 {
            verdicts.push(search.completed(Nanos::from_secs(n), Nanos::from_millis(1)));
        }
        assert_eq!(verdicts[0], Verdict::Found(1));
        assert!(verdicts[1..].iter().all(|verdict| *verdict == Verdict::Wait));
        assert!(LatencySearch::new(&LatencyGoal::default(), 1, Nanos::ZERO).is_none());
    }

    proptest! {
        /// Is the deepest good depth found, whatever it is?
        #[test]
        fn finds_the_deepest(kept in 1_u32..600, iodepth in 1_u32..512) {
            prop_assert_eq!(*depths(kept, iodepth).last().unwrap(), kept.min(iodepth));
        }
    }
}
