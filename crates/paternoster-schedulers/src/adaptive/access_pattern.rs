// SPDX-License-Identifier: MIT OR Apache-2.0
//! AccessPattern: when a client's next request is expected, and whether it continues where it left
//! off.
//!
//! A client that waits for an answer before it asks again has nothing queued when the device
//! becomes free, and would lose its turn over twenty microseconds of thinking. So its *think time*
//! is measured, and each completion opens a *window* in which its next request is expected:
//!
//! ```text
//! completed          arrived      completed                          think 20 us, +- 2
//!     |--- think 20 us --|            |------ window 48 us ------|   2 * 20 + 4 * 2
//! ```
//!
//! A client that thinks for longer than its requests take is not expected: waiting for it would
//! cost more than it would gain.
//!
//! # Invariants
//! I1  `owed` counts completions that no arrival has answered yet, while the window is open.
//! I2  No client is expected before its think time has been seen three times.
//!
//! Source: R1, S2 of `docs/rules/adaptive.md`.

use paternoster_core::Request;
use paternoster_core::time::Nanos;

/// The least window: the time that a submission takes to get through.
const WINDOW_LEAST: Nanos = Nanos::from_micros(10);
/// Think times needed before a client is expected.
const SAMPLES_LEAST: u8 = 3;
/// The whole and the threshold of `run`: 5 of the last 8 requests continue their predecessors.
const RUN_WHOLE: u32 = 256;
const RUN_IS_STREAM: u32 = 160;
/// The first requests count for more: 256 * (1 - (3/4)^4) is 175, so that four after the first one
/// are enough for a stream.
const KNOWN_AFTER: u8 = 4;
/// A stream that falls below this is no longer one.
const RUN_WAS_STREAM: u32 = 96;

/// What is known of a client's behaviour.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AccessPattern {
    /// Mean time from a completion to the next arrival, and mean deviation from it, in ns.
    pub(super) think: u64,
    pub(super) deviation: u64,
    /// How often it was seen, up to [`SAMPLES_LEAST`].
    samples: u8,
    /// Mean time that a request is in the device, and mean device time, in ns.
    pub(super) latency: u64,
    pub(super) cost: u64,
    /// The least time for its sorts of requests, and how much longer its own took, in ns (up to
    /// four seconds): means over more requests, so that chance does not decide which client is
    /// crowded.
    least: u32,
    excess: u32,
    /// How many of 256 requests continue their predecessors, and how many have been seen, counted
    /// until that is [known](AccessPattern::is_known).
    run: u32,
    seen: u8,
    pub(super) is_stream: bool,
    next_sector: u64,
    /// Completions since the last arrival, and the time of the last one.
    unanswered: u32,
    last_end: Nanos,
    /// Requests that are expected, and until when (I1).
    pub(super) expected: u32,
    pub(super) window: Nanos,
    /// A request has ended since the last count.
    pub(super) was_active: bool,
}

/// Mean of `mean` and `sample`, weighted 2^shift - 1 to 1.
pub(super) const fn blend(mean: u64, sample: u64, shift: u32) -> u64 {
    if mean == 0 { sample } else { mean - (mean >> shift) + (sample >> shift) }
}

impl AccessPattern {
    /// A request arrives; `busy`: others of its client are in the device or wait.
    pub(super) fn arrived(&mut self, now: Nanos, request: &Request, busy: bool) {
        self.falls_asleep(now, busy);
        self.expected = self.expected.saturating_sub(1);
        let hit = request.sector() == self.next_sector;
        self.next_sector = request.end();
        let shift = if self.is_known() { 3 } else { 2 };
        self.seen += u8::from(self.seen <= KNOWN_AFTER);
        self.run -= self.run >> shift;
        if hit {
            self.run += RUN_WHOLE >> shift;
        }
        self.is_stream = self.run >= if self.is_stream { RUN_WAS_STREAM } else { RUN_IS_STREAM };
    }

    fn think_for(&mut self, think: u64, shift: u32) {
        let off = self.think.abs_diff(think);
        if self.samples == 0 {
            (self.think, self.deviation) = (think, think / 2);
        } else {
            self.think = self.think - (self.think >> shift) + (think >> shift);
            self.deviation = self.deviation - (self.deviation >> shift) + (off >> shift);
        }
        self.samples += u8::from(self.samples < SAMPLES_LEAST);
    }

    /// It asks, and has to sleep for a request: it has thought until now.
    #[inline(always)]
    pub(super) fn falls_asleep(&mut self, now: Nanos, busy: bool) {
        if self.unanswered > 0 {
            self.unanswered -= 1;
            self.think_for((now - self.last_end).0, if busy { 4 } else { 3 });
        }
    }

    /// It slept for a request, and has one now: it had asked before others ended, and has not
    /// thought since then.
    pub(super) const fn slept(&mut self) {
        self.unanswered = 0;
    }

    /// A request has grown at its end: its continuation begins there.
    pub(super) const fn grown(&mut self, end: u64) {
        self.next_sector = end;
    }

    /// A request has ended, after `latency` and for `cost`. R1: opens the window, if the client
    /// thinks for no longer than `limit`, or than a request takes.
    pub(super) fn ended(&mut self, now: Nanos, latency: u64, cost: u64, limit: u64) {
        if self.window <= now {
            self.expected = 0;
        }
        self.latency = blend(self.latency, latency, 3);
        self.cost = blend(self.cost, cost, 3);
        self.last_end = now;
        self.unanswered = self.unanswered.saturating_add(1);
        self.was_active = true;
        let limit = limit.max(self.latency).max(self.cost);
        if self.samples >= SAMPLES_LEAST && self.think <= limit {
            self.expected = self.expected.saturating_add(1);
            let length = Nanos(2 * self.think + 4 * self.deviation).max(WINDOW_LEAST);
            self.window = now + length;
        } else {
            self.expected = 0;
        }
    }

    /// A request was in the device for `latency`; the least for its sort is `least`.
    pub(super) fn compare(&mut self, latency: u64, least: u64) {
        let mean = |mean: u32, sample: u64| {
            let sample = u32::try_from(sample).unwrap_or(u32::MAX);
            mean - (mean >> 5) + (sample >> 5)
        };
        self.least = mean(self.least, least);
        self.excess = mean(self.excess, latency.saturating_sub(least));
    }

    /// Whether it asks again as soon as one of its requests ends: within an 8th of the time that
    /// took.
    pub(super) const fn is_greedy(&self) -> bool {
        self.samples >= SAMPLES_LEAST && 8 * self.think <= self.latency
    }

    /// Whether it loses next to no time between requests, even if it has the device to itself:
    /// within a quarter of the least time for its requests. And that is at least half of the
    /// `usual` time: one that sends small requests among much larger ones has its part only while
    /// nearly none of those is inside, and what is saved for it is lost. On a device that
    /// `rotates` the least may be that of a hit in the drive's own cache, which says nothing of
    /// the others: there a quarter of the device time that its requests take will do. And small
    /// ones cost about as much there as larger ones: the way to them.
    pub(super) fn is_prompt(&self, usual: u64, rotates: bool) -> bool {
        let least = u64::from(self.least);
        let loses_little = 4 * self.think <= least || rotates && 4 * self.think <= self.cost;
        self.samples >= SAMPLES_LEAST && loses_little && (2 * least >= usual || rotates)
    }

    /// Whether its requests take more than this many percent of the least time for them.
    pub(super) fn is_crowded(&self, percent: u64) -> bool {
        u64::from(self.excess) * 100 > u64::from(self.least) * percent.saturating_sub(100)
    }

    /// It is known to think for longer than `limit`, in ns, and than its requests take: it is not
    /// waited for.
    pub(super) fn thinks_beyond(&self, limit: u64) -> bool {
        let limit = limit.max(self.latency).max(self.cost);
        self.samples >= SAMPLES_LEAST && self.think > limit
    }

    /// For how many expected requests a slot may be kept: none of a client that thinks for longer
    /// than its requests take (R3).
    pub(super) fn expected_soon(&self) -> u32 {
        if self.patience() > self.latency.max(self.cost) { 0 } else { self.expected }
    }

    /// Whether it has asked often enough to be recognised if it is a stream.
    pub(super) const fn is_known(&self) -> bool {
        self.seen > KNOWN_AFTER
    }

    /// Whether a request is expected at `now`.
    pub(super) fn is_expected(&self, now: Nanos) -> bool {
        self.expected > 0 && self.window > now
    }

    /// How long its next request is waited for, as a rule.
    pub(super) const fn patience(&self) -> u64 {
        self.think + 2 * self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::{Bio, ClientId, Op};

    fn at(sector: u64) -> Request {
        Request::of(&Bio::new(ClientId::NOBODY, Op::Read, sector, 8), Nanos::ZERO)
    }

    /// A request arrives, and ends after its latency, of which it took so much device time (ns).
    fn serve(pattern: &mut AccessPattern, now: &mut Nanos, sector: u64, [latency, took]: [u64; 2]) {
        pattern.arrived(*now, &at(sector), false);
        *now += Nanos(latency);
        pattern.ended(*now, latency, took, 0);
    }

    /// Is a client expected once its think time of 20 us has been seen three times, for 2 x 20 + 4
    /// x deviation? The deviation starts at 10 us and falls by an eighth each time: 10, 8.75,
    /// 7.65..., so that the window after the third is about 71 us.
    #[test]
    fn r1_a_window_opens_after_three_samples() {
        let mut pattern = AccessPattern::default();
        let mut now = Nanos::from_micros(1000);
        for round in 0..4u64 {
            serve(&mut pattern, &mut now, 1000 * round, [200_000; 2]);
            assert_eq!(pattern.is_expected(now), round == 3, "round {round}");
            assert!(round < 3 || pattern.is_expected(now + Nanos::from_micros(60)));
            assert!(!pattern.is_expected(now + Nanos::from_micros(80)));
            now += Nanos::from_micros(20);
        }
    }

    /// Is a client that thinks for longer than its requests take not expected?
    #[test]
    fn r1_who_thinks_for_long_is_not_expected() {
        let mut pattern = AccessPattern::default();
        let mut now = Nanos::from_micros(1000);
        for round in 0..10u64 {
            serve(&mut pattern, &mut now, 1000 * round, [200_000; 2]);
            assert!(!pattern.is_expected(now), "round {round}");
            now += Nanos::from_micros(300);
        }
        // The holder of a seat is waited for as long as leaving it would cost.
        pattern.ended(now, 200_000, 200_000, 10_000_000);
        assert!(pattern.is_expected(now));
    }

    /// L6: is a client prompt that thinks for 20 us where its requests take 5 ms of a disk's time,
    /// although one of them was a hit of 30 us, which is less than four times 20? Not on flash,
    /// where nothing else tells what it would lose with the device to itself; there it is with a
    /// least time of 90 us.
    #[test]
    fn l6_a_hit_in_a_drives_cache_does_not_count() {
        let is_prompt = |least: u64, rotates: bool| {
            let mut pattern = AccessPattern::default();
            let mut now = Nanos::from_micros(1000);
            for round in 0..200u64 {
                serve(&mut pattern, &mut now, 1000 * round, [20_000_000, 5_000_000]);
                pattern.compare(20_000_000, least);
                now += Nanos::from_micros(20);
            }
            pattern.is_prompt(0, rotates)
        };
        assert_eq!([true, false].map(|rotates| is_prompt(30_000, rotates)), [true, false]);
        assert_eq!([true, false].map(|rotates| is_prompt(90_000, rotates)), [true, true]);
    }

    /// Is a client a stream after four requests that continue each other (256 * (1 - (3/4)^4) = 175
    /// >= 160), and no longer after a few that do not?
    #[test]
    fn s2_streams_are_found_out() {
        let mut pattern = AccessPattern::default();
        pattern.arrived(Nanos::ZERO, &at(800), false);
        let mut hits = 0;
        while !pattern.is_stream {
            hits += 1;
            pattern.arrived(Nanos::ZERO, &at(800 + 8 * hits), false);
        }
        assert_eq!(hits, 4);
        let mut misses = 0;
        while pattern.is_stream {
            misses += 1;
            pattern.arrived(Nanos::ZERO, &at(100_000 * misses), false);
        }
        assert!((3..10).contains(&misses), "{misses}");
    }

    /// R1: is the time for which a client slept for a request not taken for thinking? One that
    /// thinks for 20 us asks once more at the instant at which its request ends: it had asked
    /// before.
    #[test]
    fn r1_one_that_slept_has_not_thought() {
        for slept in [false, true] {
            let (mut pattern, mut now) = (AccessPattern::default(), Nanos::ZERO);
            for _ in 0..20 {
                serve(&mut pattern, &mut now, 0, [1000, 1000]);
                now += Nanos(20_000);
            }
            assert_eq!(pattern.think, 20_000);
            serve(&mut pattern, &mut now, 0, [1000, 1000]);
            if slept {
                pattern.slept();
            }
            pattern.arrived(now, &at(0), false);
            // 7 parts of 8, in whole eighths.
            assert_eq!(pattern.think, if slept { 20_000 } else { 17_500 });
        }
    }

    /// R1: is the think time known of a client that has slept for each request, from the first one
    /// on? It asks 20 us after each end, and has the request 3 ms later.
    #[test]
    fn r1_one_that_always_sleeps_is_seen_to_think() {
        let (mut pattern, mut now) = (AccessPattern::default(), Nanos::ZERO);
        for round in 0..10 {
            serve(&mut pattern, &mut now, 1000 * round, [5_000_000; 2]);
            now += Nanos(20_000);
            pattern.falls_asleep(now, false);
            now += Nanos(3_000_000);
            pattern.slept();
        }
        assert_eq!(pattern.think, 20_000);
    }
}
