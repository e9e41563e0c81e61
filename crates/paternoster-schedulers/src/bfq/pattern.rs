// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pattern: what a queue's requests look like, seen as they arrive.
//!
//! Three things are learned of each queue, and decide whether it pays to keep the device for it:
//! whether it is seeky (seek history), how long its process thinks between a completion and its
//! next request (think time), and whether it does hardly anything but I/O (I/O bound).
//!
//! ```text
//! I/O bound (6.18)   idle at most a fifth of the time, over windows of 100 to 200 ms
//!                    window exceeds 200 ms: both halves are forgotten
//! I/O bound (4.19)   lost when idled for without use, little done; back after 120 arrivals in time
//! ```
//!
//! Source: BFQ-85 to BFQ-89.

use paternoster_core::observe::seek::SeekHistory;
use paternoster_core::observe::think_time::ThinkTime;
use paternoster_core::time::Nanos;

/// A queue with more seeks than this among its last 32 requests is seeky.
const SEEKY_MARKS: u32 = 19;
/// An observation window longer than this is halved.
const WINDOW: Nanos = Nanos::from_millis(200);
/// Idle at most one part in this many.
const BUSY_PARTS: u64 = 5;
/// A queue that idled with less than this many tenths of its budget used is not I/O bound (4.19).
const BOUND_TENTHS: u64 = 2;
/// Arrivals in time that make a queue I/O bound again (4.19).
const ARRIVALS_IN_TIME: u32 = 120;

/// How much of the time a queue is idle.
#[derive(Debug, Clone, Copy, Default)]
struct Intensity {
    since: Nanos,
    idle: Nanos,
}

impl Intensity {
    const fn new(now: Nanos) -> Intensity {
        Intensity { since: now, idle: Nanos::ZERO }
    }

    /// The queue was idle for this long until now.
    fn was_idle(&mut self, time: Nanos) {
        self.idle += time;
    }

    /// Whether it has been busy enough, at a moment when it is busy.
    fn is_bound(&mut self, now: Nanos) -> bool {
        let window = now - self.since;
        let bound = self.idle.0.saturating_mul(BUSY_PARTS) <= window.0;
        if window > WINDOW {
            self.since = now - Nanos(window.0 / 2);
            self.idle = Nanos(self.idle.0 / 2);
        }
        bound
    }
}

/// What the requests of a queue look like.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pattern {
    pub(super) thinks_short: bool,
    pub(super) is_io_bound: bool,
    pub(super) think_time: ThinkTime,
    intensity: Intensity,
    /// Arrivals in time in a row (4.19).
    in_time: u32,
    pub(super) last_completion: Option<Nanos>,
    pub(super) seek: SeekHistory,
}

impl Pattern {
    /// The pattern of a queue without requests.
    pub(super) fn new(now: Nanos, is_sync: bool) -> Pattern {
        Pattern {
            thinks_short: is_sync,
            is_io_bound: true,
            intensity: Intensity::new(now),
            seek: SeekHistory::marked(),
            ..Pattern::default()
        }
    }

    /// A word of each of its cache lines (`prefetch`).
    #[inline]
    pub(super) const fn touch(&self) -> u64 {
        self.intensity.since.0 ^ self.seek.marks() as u64
    }

    /// Whether a queue is seeky: twenty of its last 32 requests were seeks (BFQ-85).
    #[inline]
    pub(super) const fn is_seeky(&self) -> bool {
        self.seek.marks().count_ones() > SEEKY_MARKS
    }

    /// Whether all of its last requests were seeks.
    #[inline]
    pub(super) const fn is_totally_seeky(&self) -> bool {
        self.seek.marks() == u32::MAX
    }

    /// Whether it reads on: hardly does anything else, and does not seek.
    #[inline]
    pub(super) const fn reads_on(&self) -> bool {
        self.is_io_bound && self.thinks_short && !self.is_seeky()
    }

    /// A request comes: how long has its process been thinking (BFQ-86)?
    #[inline]
    pub(super) fn sample_think_time(&mut self, now: Nanos, slice_idle: Nanos) {
        let longest = Nanos(slice_idle.0.saturating_mul(2));
        let gap = self.last_completion.map_or(longest, |end| now - end);
        self.think_time.sample_gap(gap.min(longest), Nanos(1));
    }

    /// It thinks short if its mean is at most `limit`, and a process uses it. Returns the new
    /// judgement if it is another (BFQ-87).
    #[inline]
    pub(super) fn judge_think_time(&mut self, limit: Nanos, is_used: bool) -> Option<bool> {
        let short = is_used && !self.think_time.is_longer_than(limit, Nanos(1));
        let before = core::mem::replace(&mut self.thinks_short, short);
        (before != short).then_some(short)
    }

    /// 6.18: a request comes, to a queue that `was_idle` until now and has had requests before
    /// unless it `is_new`. Is it busy with I/O most of the time (BFQ-89)?
    #[inline]
    pub(super) fn measure_intensity(&mut self, now: Nanos, was_idle: bool, is_new: bool) {
        if let (true, Some(end)) = (was_idle, self.last_completion) {
            self.intensity.was_idle(now - end);
        }
        if !is_new {
            self.is_io_bound = self.intensity.is_bound(now);
        }
    }

    /// Whether it comes back within three idle slices of its last completion.
    #[inline]
    pub(super) fn comes_in_time(&self, now: Nanos, slice_idle: Nanos) -> bool {
        let window = Nanos(slice_idle.0.saturating_mul(3));
        self.last_completion.is_some_and(|end| now <= end + window)
    }

    /// 4.19: a queue becomes busy again, in time or not (BFQ-88).
    pub(super) fn count_arrival_in_time(&mut self, in_time: bool) {
        if self.is_io_bound {
            return;
        }
        self.in_time = if in_time { self.in_time + 1 } else { 0 };
        self.is_io_bound = self.in_time >= ARRIVALS_IN_TIME;
    }

    /// 4.19: the device idled for it without success, and it was served `service` of `budget`: too
    /// little (BFQ-88)?
    pub(super) fn idled_in_vain(&mut self, service: u64, budget: u64) {
        if service.saturating_mul(10) <= budget.saturating_mul(BOUND_TENTHS) {
            self.is_io_bound = false;
        }
    }

    /// What was saved of another queue continues here; seeks and completions are this one's.
    pub(super) fn resume(&mut self, saved: &Pattern, with_intensity: bool) {
        self.think_time = saved.think_time;
        self.thinks_short = saved.thinks_short;
        self.is_io_bound = saved.is_io_bound;
        if with_intensity {
            self.intensity = saved.intensity;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Is a queue I/O bound while it is idle at most a fifth of the time, and is the window halved
    /// when it exceeds 200 ms? 20 of 100 ms idle; 41 of 200; 41 and 10 of 201, of which half stay:
    /// 25 of 100 ms, then 25 of 125.
    #[test]
    fn idle_at_most_a_fifth() {
        let mut intensity = Intensity::new(ms(0));
        intensity.was_idle(ms(20));
        assert!(intensity.is_bound(ms(100)) && !intensity.is_bound(ms(99)));
        intensity.was_idle(ms(21));
        assert!(!intensity.is_bound(ms(200)));
        intensity.was_idle(ms(9));
        assert!(!intensity.is_bound(ms(202)), "50 of 202; halved to 25 of 101");
        assert!(!intensity.is_bound(ms(225)) && intensity.is_bound(ms(226)), "25 of 125");
    }

    /// Is a judgement of think time reported only if it is another, and does a queue that no
    /// process uses never think short?
    #[test]
    fn a_judgement_is_reported_once() {
        let mut pattern = Pattern::new(ms(0), true);
        pattern.last_completion = Some(ms(0));
        for _ in 0..20 {
            pattern.sample_think_time(ms(9), ms(8));
        }
        assert_eq!(
            [8, 8].map(|limit| pattern.judge_think_time(ms(limit), true)),
            [Some(false), None]
        );
        assert_eq!(pattern.judge_think_time(ms(10), false), None);
        assert_eq!(pattern.judge_think_time(ms(10), true), Some(true));
    }

    /// Does a queue resume how it thought, and keep where it seeks?
    #[test]
    fn what_is_resumed() {
        let mut saved = Pattern::new(ms(0), false);
        saved.seek = SeekHistory::default();
        saved.is_io_bound = false;
        let mut own = Pattern::new(ms(5), true);
        own.last_completion = Some(ms(7));
        own.resume(&saved, true);
        assert!(!own.thinks_short && !own.is_io_bound && own.seek == SeekHistory::marked());
        assert_eq!((own.last_completion, own.intensity.since), (Some(ms(7)), ms(0)));
    }
}
