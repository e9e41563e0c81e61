// SPDX-License-Identifier: MIT OR Apache-2.0
//! Climb: searches for the `slice_idle` with which the device moves most.
//!
//! Jan Kara's remark in seed 001: measure completions and tune `slice_idle` to maximize them,
//! hoping that the curve has one peak. Windows of a second are compared:
//!
//! ```text
//! 8 ms ── 4 ── 2 ── 1 ── 0            a step at a time
//! more than 5 % better: go on   5 % worse: turn round   neither: a plateau
//! ```
//!
//! The curve turned out to be a step, flat from 1 to 16 ms and different only at 0 (on a disk
//! idling gains everything, on an array it loses everything). On a plateau a small step shows
//! nothing, so the climber jumps to the other end and looks; if that is no better it goes back and
//! rests for ten windows.
//!
//! A window counts if it has 100 completions and two sync queues that are busy or have requests in
//! flight.
//!
//! Source: seed 001 (Kara, 22 April 2010); CFQ-53. Its form, above all the jump, is ours.

use paternoster_core::time::Nanos;

const WINDOW: Nanos = Nanos::from_secs(1);
const COMPLETIONS: u32 = 100;
/// Windows without a step on a plateau.
const REST: u32 = 10;
/// The values between which it climbs, in milliseconds.
const STEPS: [u64; 5] = [0, 1, 2, 4, 8];

/// The climber's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Climber {
    began: Nanos,
    completions: u32,
    sectors: u64,
    /// The most sync queues seen at work in the window, and in the last that counted.
    busy: u32,
    busy_before: u32,
    /// Sectors of the last window that counted.
    before: Option<u64>,
    /// Its index in `STEPS`, and whether the next step is upwards.
    place: usize,
    upwards: bool,
    /// Where it jumped from, while it looks at the other end.
    jumped_from: Option<usize>,
    resting: u32,
}

impl Climber {
    /// A climber that begins at `now`, with `slice_idle` as it is.
    pub(super) fn new(now: Nanos, slice_idle: Nanos) -> Climber {
        let ms = slice_idle.as_millis();
        let place = STEPS.iter().rposition(|&step| step <= ms).unwrap_or(0);
        Climber {
            began: now,
            completions: 0,
            sectors: 0,
            busy: 0,
            busy_before: 0,
            before: None,
            place,
            upwards: place == 0,
            jumped_from: None,
            resting: 0,
        }
    }

    /// A request of so many sectors has ended, with so many sync queues at work, and perhaps a
    /// window. Returns the `slice_idle` of the next one.
    pub(super) fn ended(&mut self, now: Nanos, sectors: u32, busy: u32) -> Option<Nanos> {
        self.completions = self.completions.saturating_add(1);
        self.sectors += u64::from(sectors);
        // Without idling all their requests may be in the device, so that no queue is busy.
        self.busy = self.busy.max(busy);
        if now < self.began + WINDOW {
            return None;
        }
        self.judge();
        self.began = now;
        (self.completions, self.sectors, self.busy) = (0, 0, 0);
        Some(self.slice_idle())
    }

    fn slice_idle(&self) -> Nanos {
        Nanos::from_millis(STEPS[self.place])
    }

    /// A window has ended: chooses the next step.
    fn judge(&mut self) {
        let (now, busy) = (self.sectors, self.busy);
        if self.completions < COMPLETIONS || busy < 2 {
            return;
        }
        let crowd_changed = busy > 2 * self.busy_before || self.busy_before > 2 * busy;
        self.busy_before = busy;
        let Some(before) = self.before.replace(now).filter(|_| !crowd_changed) else {
            self.jumped_from = None;
            self.resting = 0;
            return self.step();
        };
        if self.resting > 0 {
            self.resting -= 1;
            if self.resting == 0 {
                self.step();
            }
            return;
        }
        let better = now.saturating_mul(100) > before.saturating_mul(105);
        let worse = now.saturating_mul(100) < before.saturating_mul(95);
        match self.jumped_from.take() {
            Some(from) if !better => {
                self.place = from;
                self.resting = REST;
            }
            _ if better => self.step(),
            _ if worse => {
                self.upwards = !self.upwards;
                self.step();
            }
            _ => self.jump(),
        }
    }

    /// Takes one step; turns round at an end.
    fn step(&mut self) {
        let last = STEPS.len() - 1;
        if self.upwards && self.place == last || !self.upwards && self.place == 0 {
            self.resting = REST;
            self.upwards = !self.upwards;
        } else if self.upwards {
            self.place += 1;
        } else {
            self.place -= 1;
        }
    }

    fn jump(&mut self) {
        self.jumped_from = Some(self.place);
        self.place = if self.place == 0 { STEPS.len() - 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of `sectors` by 100 requests of two queues, which ends at `second`.
    fn window(climber: &mut Climber, second: u64, sectors: u32) -> u64 {
        for _ in 0..99 {
            let at = Nanos::from_millis(1000 * second - 1);
            assert_eq!(climber.ended(at, sectors / 100, 2), None);
        }
        let next = climber.ended(Nanos::from_secs(second), sectors / 100, 2);
        next.expect("a window has ended").as_millis()
    }

    /// Does it go on while a window is more than 5 % better, turn round when it is 5 % worse, and
    /// jump to the other end of a plateau? From 8 ms down: 1000, 1100 sectors, then 1000; the way
    /// back finds 1000 again.
    #[test]
    fn cfq_53_it_climbs_to_where_most_is_moved() {
        let mut climber = Climber::new(Nanos::ZERO, Nanos::from_millis(8));
        let moved = [1000, 1100, 1000, 1000];
        let steps = [1, 2, 3, 4].map(|second| {
            window(&mut climber, second, moved[usize::try_from(second).unwrap() - 1])
        });
        assert_eq!(steps, [4, 2, 4, 0]);
    }

    /// Does a window with fewer than 100 completions, or of one queue, change nothing?
    #[test]
    fn cfq_53_small_windows_do_not_count() {
        for (count, busy) in [(99, 2), (150, 1)] {
            let mut climber = Climber::new(Nanos::ZERO, Nanos::from_millis(8));
            for _ in 1..count {
                climber.ended(Nanos::ZERO, 8, busy);
            }
            let next = climber.ended(Nanos::from_secs(1), 8, busy);
            assert_eq!(next, Some(Nanos::from_millis(8)), "{count} {busy}");
        }
    }
}
