// SPDX-License-Identifier: MIT OR Apache-2.0
//! Busy poll: staying awake for a moment where that makes requests faster.
//!
//! A client of depth 1 sends its next request some microseconds after an answer. Sleeping in
//! between costs as much again where the two have a processor each: the processor goes idle, and an
//! interrupt has to wake it. Looking for 20 us before sleeping saves that. But where the system has
//! put the client on the loop's own processor, the client runs only once the loop sleeps, and each
//! look is 20 us lost. Nothing that the loop sees tells the two apart, and the system moves threads
//! as it likes. So the loop tries: now and then it does the other for a few requests, and goes on
//! with what took less time for each.
//!
//! ```text
//! sleeps … sleeps │ 16 measured │ 16 looking │ the better … │ 16 measured │ 16 of the other │
//!        pause                    trial        pause: twice as long as long as nothing changes
//! ```
//!
//! The time of a request is the time between two waits, without that in which the device had
//! commands, divided by the requests that came in between; the [`STRAYS`] longest of 16 are left
//! out, in which something else had the processor. Looking has to be faster by [`GAIN`]: a tie is
//! not worth the processor time. And half of the looks have to find something: otherwise it was
//! the client's think time that varied. On a single processor the loop never looks: the client
//! would wait for it.
//!
//! If one client alone was answered, the loop does not ask which socket has something: it reads
//! from that client's, with a short pause between two tries, and asks for the others every eighth
//! time. Then a request has been read already: it takes three system calls, not four.
//!
//! Invariants: I1 at most [`LONGEST`] of processor time is wasted before a sleep; I2 as long as the
//! one stays better, the other gets 16 waits after each [`PAUSE_MOST`] and 16 in the end.

use paternoster_core::Nanos;

/// Twice the time of a request from one processor to another and back.
pub(super) const LONGEST: Nanos = Nanos::from_micros(20);
/// Pauses of the processor between two looks: some hundred nanoseconds.
pub(super) const PAUSES: u32 = 16;
/// How often it reads from the client that it has answered before it looks for others.
pub(super) const LISTENS: u32 = 8;
/// Waits that are compared with as many.
const SAMPLES: usize = 16;
/// The longest of these, which do not count.
const STRAYS: usize = 2;
/// Looking has to save more than one part in so many. Measured on an idle machine, reads lost 8 %
/// by looking and writes gained 13 % (docs/serve/speed.md).
const GAIN: u64 = 32;
/// Waits between two trials: after something has changed, and at most.
const PAUSE_LEAST: u32 = 64;
const PAUSE_MOST: u32 = 4096;

/// Decides whether the loop looks for a while before it sleeps.
#[derive(Debug)]
pub(super) struct BusyPoll {
    possible: bool,
    /// Looking is better than sleeping at once.
    looks: bool,
    /// Waits until the next 16 are measured, and how many these were the last time.
    left: u32,
    pause: u32,
    /// Nanoseconds for a request: with what is better, then with the other.
    took: [u64; 2 * SAMPLES],
    taken: usize,
    /// How many looks there were since this is measured, and how many found something.
    looked: u32,
    found: u32,
    /// When the last wait began that a request ended, and how many requests had come until then.
    last: Option<(Nanos, u64)>,
    /// Since when the loop has waited for the device.
    away: Option<Nanos>,
}

impl BusyPoll {
    /// On a machine with this many processors.
    pub(super) const fn new(processors: usize) -> BusyPoll {
        BusyPoll {
            possible: processors > 1,
            looks: false,
            left: PAUSE_LEAST,
            pause: PAUSE_LEAST,
            took: [0; 2 * SAMPLES],
            taken: 0,
            looked: 0,
            found: 0,
            last: None,
            away: None,
        }
    }

    /// A policy that always looks.
    #[cfg(test)]
    pub(super) const fn always() -> BusyPoll {
        BusyPoll { looks: true, left: u32::MAX, ..BusyPoll::new(2) }
    }

    /// Whether to look before this sleep. It begins now; so many requests have come so far.
    pub(super) fn is_worth_it(&mut self, now: Nanos, requests: u64) -> bool {
        if let (Some(since), Some((begin, _))) = (self.away.take(), &mut self.last) {
            *begin += now - since;
        }
        if let Some((begin, before)) = self.last
            && requests > before
        {
            self.note((now.0 - begin.0) / (requests - before));
        }
        if self.last.is_none_or(|(_, before)| requests > before) {
            self.last = Some((now, requests));
        }
        let is_trial = self.taken >= SAMPLES;
        self.possible && self.looks != is_trial
    }

    /// The loop waits for the device, or has more to do: from now until it waits for clients alone,
    /// time is not that of a request.
    pub(super) fn waits_for_device(&mut self, now: Nanos) {
        self.away.get_or_insert(now);
    }

    /// A look before a sleep has ended.
    pub(super) fn looked(&mut self, found: bool) {
        if self.left == 0 {
            self.looked += 1;
            self.found += u32::from(found);
        }
    }

    /// A request took this long.
    fn note(&mut self, nanos: u64) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.took[self.taken] = nanos;
        self.taken += 1;
        if self.taken < self.took.len() {
            return;
        }
        self.taken = 0;
        let [same, other] = [0, SAMPLES].map(|at| typical(&mut self.took[at..at + SAMPLES]));
        let (looking, sleeping) = if self.looks { (same, other) } else { (other, same) };
        let finds = 2 * core::mem::take(&mut self.found) >= core::mem::take(&mut self.looked);
        let looks = finds && looking + looking / GAIN < sleeping;
        self.pause = if looks == self.looks { PAUSE_MOST.min(2 * self.pause) } else { PAUSE_LEAST };
        self.looks = looks;
        self.left = self.pause;
    }
}

/// The sum of all but the longest.
fn typical(took: &mut [u64]) -> u64 {
    took.sort_unstable();
    took[..SAMPLES - STRAYS].iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client for which a request takes this long when the loop looks, and when it sleeps.
    struct Requests {
        busy_poll: BusyPoll,
        now: Nanos,
        sent: u64,
    }

    impl Requests {
        fn new(processors: usize) -> Requests {
            Requests { busy_poll: BusyPoll::new(processors), now: Nanos::ZERO, sent: 0 }
        }

        /// So many requests; how many of them the loop looked for.
        fn looked(&mut self, requests: u32, takes: impl Fn(bool, u64) -> u64) -> u32 {
            let looks = (0..requests).filter(|_| {
                let looks = self.busy_poll.is_worth_it(self.now, self.sent);
                let took = Nanos(takes(looks, self.sent));
                if looks {
                    self.busy_poll.looked(took <= LONGEST);
                }
                self.now += took;
                self.sent += 1;
                looks
            });
            u32::try_from(looks.count()).expect("not more than requests")
        }
    }

    /// Where the client waits for the loop's processor, does the loop look in trials alone? Of
    /// 10,000 requests these are 16 after each of 7 pauses: 64 + 128 + ... + 4096 = 8128, and 32
    /// that are measured with each make 8352; the next trial comes after 12,448.
    #[test]
    fn a_loop_whose_looks_are_vain_sleeps() {
        let looked =
            Requests::new(2).looked(10_000, |looks, _| if looks { 30_000 } else { 10_000 });
        assert_eq!(looked, 7 * 16);
    }

    /// Where the client has a processor of its own, does the loop sleep before the first trial has
    /// ended, and in trials, alone? These are 64 + 16 requests, then 16 after each of 7 pauses.
    #[test]
    fn a_loop_whose_looks_find_something_looks() {
        let looked =
            Requests::new(2).looked(10_000, |looks, _| if looks { 10_000 } else { 25_000 });
        assert_eq!(10_000 - looked, 64 + 16 + 7 * 16);
    }

    /// Does the loop follow a system that moves the client, at the latest with the second trial?
    #[test]
    fn the_better_one_may_change() {
        let takes = |looks: bool| if looks { 10_000 } else { 25_000 };
        let mut requests = Requests::new(2);
        requests.looked(20_000, |looks, _| takes(looks));
        requests.looked(2 * 4096 + 2 * 32, |looks, _| takes(!looks));
        assert_eq!(requests.looked(64, |looks, _| takes(!looks)), 0);
    }

    /// Does a client for which both are alike make the loop sleep, and one for which looking is
    /// faster by less than one part in 32?
    #[test]
    fn what_gains_nothing_is_not_done() {
        for faster in [0, 1_000_000 / 34] {
            let mut requests = Requests::new(2);
            let takes = |looks: bool, _| 1_000_000 - if looks { faster } else { 0 };
            assert_eq!(requests.looked(10_000, takes), 7 * 16, "{faster}");
        }
    }

    /// Does a client that thinks for 0.1 to 2 ms, drawn, make the loop sleep but for its trials,
    /// though by chance 16 waits with looks are often shorter than 16 without?
    #[test]
    fn think_times_do_not_make_it_look() {
        let mut random = 1_u64;
        let draws: Vec<u64> = (0..10_000)
            .map(|_| {
                // Knuth's generator for 64 bits; its upper bits are drawn well.
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                100_000 + (random >> 33) % 1_900_000
            })
            .collect();
        let think = |_, at: u64| draws[usize::try_from(at).expect("a small number")];
        assert_eq!(Requests::new(2).looked(10_000, think), 7 * 16);
    }

    /// Is the device's time left out of the time of a request? The client takes 10 us, or 25 if it
    /// has to be woken, and the device a millisecond.
    #[test]
    fn a_device_that_takes_time_does_not_count() {
        let mut busy_poll = BusyPoll::new(2);
        let (mut now, mut looked) = (Nanos::ZERO, 0);
        for sent in 0..10_000 {
            let looks = busy_poll.is_worth_it(now, sent);
            if looks {
                busy_poll.looked(true);
                looked += 1;
            }
            now += Nanos(if looks { 10_000 } else { 25_000 });
            busy_poll.waits_for_device(now);
            busy_poll.waits_for_device(now + Nanos(1));
            now += Nanos(1_000_000 + 977 * (sent % 1_000));
        }
        assert_eq!(10_000 - looked, 64 + 16 + 7 * 16);
    }

    /// Do two of 16 requests that something else held up change nothing?
    #[test]
    fn strays_do_not_count() {
        let mut requests = Requests::new(2);
        let takes = |looks: bool, at: u64| match (looks, at % 8) {
            (_, 3) => 3_000_000,
            (true, _) => 10_000,
            (false, _) => 12_000,
        };
        requests.looked(64 + 32, takes);
        assert_eq!(requests.looked(64, takes), 64);
    }

    /// With a single processor, does the loop never look, so that the client can run?
    #[test]
    fn one_processor_is_left_to_the_client() {
        assert_eq!(Requests::new(1).looked(10_000, |looks, _| if looks { 1 } else { 1_000 }), 0);
    }

    /// Do requests that came together count as one, and rounds without a request not at all?
    #[test]
    fn the_time_is_that_of_a_request() {
        let mut busy_poll = BusyPoll::new(2);
        busy_poll.left = 0;
        for (now, requests) in [(1_000, 0), (3_000, 0), (5_000, 4), (6_000, 4), (7_000, 5)] {
            busy_poll.is_worth_it(Nanos(now), requests);
        }
        busy_poll.waits_for_device(Nanos(8_000));
        busy_poll.is_worth_it(Nanos(1_000_000), 9);
        // 4 requests in 4,000 from 1,000 on; one in 2,000; 4 in 1,000 before the device had any.
        assert_eq!(busy_poll.took[..busy_poll.taken], [1_000, 2_000, 250]);
    }
}
