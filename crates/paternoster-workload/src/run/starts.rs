// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts: when each process of a section begins.
//!
//! Several processes never start in the same nanosecond. fio forks them, waits until all are there,
//! and then lets one after the other go, with the time to wake one in between. With a jitter of 250
//! us four processes without `startdelay` begin, for seed 0,
//!
//! ```text
//! 0 us ── 218 ── 218 us ── 31 ── 249 us ── 95 ── 344 us
//! ```
//!
//! each a gap after the one before, drawn from 0 to the jitter. The process itself begins then: its
//! `runtime` and `ramp_time` count from there. A section after a `stonewall`, and a job that waits
//! for another, start from zero again, so that the first process of each is never late.
//!
//! With `startdelay` a process begins when fio next looks, which it does every 100 ms, and 200 ms
//! after a look that let any go (it waits for these to be there):
//!
//! ```text
//! delays 0, 10, 190, 250, 450, 990 ms     looks at 0  200  400  600  800  900  1000
//!                                         lets go  1   2    1    1    -    -     1
//! delays 1, 300, 950 ms                   looks at 0 100 300 500 600 ... 1000
//! ```
//!
//! Without a jitter all begin at once, in the order of the job file, and delays are what they are.
//!
//! Source: measured with fio 3.33 on two processors: ten runs of `numjobs=8`, the 70 gaps between
//! first reads: 120 us in the median, 0.8 to 4.9 ms from the first to the last of eight. Delays: 18
//! jobs whose files say when they were written, 0.2 to 0.4 % later than the looks above.

use paternoster_core::Nanos;

use crate::fio::job::Job;
use crate::fio::random::{Choice, Seeds, Taus88};

/// How often fio looks whether a delayed process is due.
const LOOK: Nanos = Nanos::from_millis(100);

/// The starts of a run's processes, in the order of jobs and clones.
#[derive(Debug)]
pub(super) struct Starts {
    jitter: Nanos,
    chance: Taus88,
    /// The last process: its section, and the job that it waits for.
    last: Option<(usize, Option<usize>)>,
    behind: Nanos,
}

impl Starts {
    pub(super) fn new(jitter: Nanos, seed: u64) -> Starts {
        let chance = Seeds::new(None, false, false, 1, seed).generator(Choice::StartDelay);
        Starts { jitter, chance, last: None, behind: Nanos::ZERO }
    }

    /// How long the next process begins after the first of those that begin with it.
    pub(super) fn next(&mut self, section: usize, after: Option<usize>) -> Nanos {
        let with = Some((section, after));
        let gap = part_of(self.jitter, self.chance.next_u32());
        self.behind = if self.last == with { self.behind + gap } else { Nanos::ZERO };
        self.last = with;
        self.behind
    }
}

/// When processes with these due times begin, the first look being at `now`.
pub(super) fn looks(now: Nanos, due: &mut [Nanos]) {
    let mut order: Vec<usize> = (0..due.len()).collect();
    order.sort_by_key(|place| due[*place]);
    let (mut left, mut look) = (&order[..], now);
    while let Some(first) = left.first().map(|place| due[*place]) {
        // The looks at which there is nothing to let go.
        let empty = first.0.saturating_sub(look.0).div_ceil(LOOK.0);
        look += Nanos(empty * LOOK.0);
        let ready = left.iter().take_while(|place| due[**place] <= look).count();
        let (go, later) = left.split_at(ready);
        go.iter().for_each(|place| due[*place] = look);
        (left, look) = (later, look + LOOK + LOOK);
    }
}

/// A draw from the range of `startdelay`, by the job's own generator for it.
pub(super) fn start_delay(job: &Job, seeds: &Seeds) -> Nanos {
    let draw = seeds.generator(Choice::StartDelay).next_u32();
    let (low, high) = job.time.start_delay;
    low + part_of(high - low, draw)
}

/// The part of `all` that `draw` is of 2^32.
fn part_of(all: Nanos, draw: u32) -> Nanos {
    let part = (u128::from(all.0) * u128::from(draw)) >> 32;
    Nanos(u64::try_from(part).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does each process begin after the one before, by no more than the jitter, and the first of a
    /// section and of those that wait for another at once?
    #[test]
    fn processes_begin_one_behind_the_other() {
        let mut starts = Starts::new(Nanos(1000), 7);
        let first: Vec<u64> = (0..50).map(|_| starts.next(0, None).0).collect();
        assert_eq!(first[0], 0);
        assert!(first.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] < pair[0] + 1000));
        // 49 gaps of 500 in the mean: 24,500, give or take 2,000 (49 * 1000^2 / 12, twice).
        assert!((20_000..29_000).contains(&first[49]), "{}", first[49]);
        assert_eq!(starts.next(0, Some(0)), Nanos::ZERO);
        assert_eq!(starts.next(1, None), Nanos::ZERO);
        let four = [1, 2, 3].map(|place| Starts::new(Nanos(250), 0).nth_start(place).0);
        assert_eq!(four, [218, 249, 344], "as the essay shows");
        assert_ne!(Starts::new(Nanos(1000), 8).nth_start(9).0, first[9]);
        assert_eq!(Starts::new(Nanos(1000), 7).nth_start(9).0, first[9]);
    }

    /// Do delayed processes begin when fio looks, as the essay shows?
    #[test]
    fn delays_end_when_fio_looks() {
        let begins = |now: u64, due: &[u64]| {
            let mut due: Vec<Nanos> = due.iter().map(|due| Nanos::from_millis(*due)).collect();
            looks(Nanos::from_millis(now), &mut due);
            due.iter().map(|due| due.as_micros() / 1000).collect::<Vec<_>>()
        };
        let delays = [0, 10, 190, 250, 450, 990];
        assert_eq!(begins(0, &delays), [0, 200, 200, 400, 600, 1000]);
        assert_eq!(begins(0, &[950, 1, 300]), [1000, 100, 300]);
        // After a stonewall that fio reached at 1.2 s.
        assert_eq!(begins(1200, &[0, 500, 1300, 1700]), [1200, 1200, 1400, 1700]);
        assert_eq!(begins(7, &[]), [0; 0]);
    }

    /// Do all begin at once without a jitter?
    #[test]
    fn without_a_jitter_all_begin_at_once() {
        assert_eq!(Starts::new(Nanos::ZERO, 7).nth_start(9), Nanos::ZERO);
    }

    impl Starts {
        fn nth_start(&mut self, place: usize) -> Nanos {
            (0..=place).map(|_| self.next(0, None)).last().unwrap_or(Nanos::ZERO)
        }
    }
}
