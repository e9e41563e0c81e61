// SPDX-License-Identifier: MIT OR Apache-2.0
//! Script: the very requests of one start, drawn by a seed from a profile's counts.
//!
//! ```text
//! leg: 37 requests, 188 KiB, 2 at random, 31 ahead         4 KiB each, and one of 44
//!
//! place    |#|#|                  |#|~~~~31~~~~|############|#|#|
//! request   1 2                    3             35          36 37
//!           jump                   jump, and read ahead
//! ```
//!
//! The counts are exact in every leg; chance decides which requests are the large ones, which jump
//! and where to, and after which others are read ahead. The first of a leg always jumps: another
//! process reads another file.
//!
//! Invariants: I1 a leg has as many requests as the profile says, with as many bytes, jumps and
//! requests ahead; I2 all lie within the area.

use paternoster_core::Nanos;

use super::profile::{Leg, Profile, THINK};
use crate::fio::iolog::{LogAction, LogEntry};
use crate::fio::random::Taus88;
use crate::fio::recorded::{Chain, Recorded};

/// Size of most requests in KiB, and what sizes are multiples of.
const SMALL_KIB: u32 = 4;
/// Bytes of that.
const SMALL: u64 = 4 << 10;
/// Requests that are read ahead together: a file system reads 32 blocks of a table of inodes, one
/// of which it waits for.
pub(super) const AHEAD: u32 = 31;
/// The name of the file that all processes read.
const FILE: &str = "system";

/// What each process reads, in its order, by place in the profile.
pub(super) fn draw(profile: &Profile, area: u64, random: &mut Taus88) -> Vec<Recorded> {
    let log = || Recorded {
        files: vec![FILE.to_owned()],
        sizes: vec![area],
        entries: Vec::new(),
        chain: Some(Chain { think: THINK, ahead: Vec::new() }),
    };
    let mut logs: Vec<Recorded> = profile.processes.iter().map(|_| log()).collect();
    for leg in profile.legs {
        let log = &mut logs[leg.process as usize];
        let mut script = Script { area, at: 0, log };
        script.draw(leg, profile.large_kib, random);
    }
    logs
}

/// The log of a process under construction.
struct Script<'a> {
    area: u64,
    /// The end of the last request.
    at: u64,
    log: &'a mut Recorded,
}

impl Script<'_> {
    fn draw(&mut self, leg: &Leg, large_kib: u32, random: &mut Taus88) {
        let mut sizes = Sizes::new(leg, large_kib);
        let mut jumps = Chosen { left: leg.random };
        let mut batches = Chosen { left: leg.ahead.div_ceil(AHEAD) };
        let mut ahead = leg.ahead;
        let waited_for = leg.waited_for();
        for left in (1..=waited_for).rev() {
            let bytes = u64::from(sizes.draw(left, random)) << 10;
            let first = left == waited_for;
            if jumps.take(left, first, random) {
                self.at = random.below((self.area - bytes) / SMALL + 1) * SMALL;
            }
            self.read(bytes, false);
            if batches.take(left, false, random) {
                let batch = ahead.min(AHEAD);
                ahead -= batch;
                (0..batch).for_each(|_| self.read(SMALL, true));
            }
        }
    }

    fn read(&mut self, bytes: u64, ahead: bool) {
        if self.at + bytes > self.area {
            self.at = 0;
        }
        let (action, file, offset) = (LogAction::Read, 0, self.at);
        self.log.entries.push(LogEntry { at: Nanos::ZERO, file, action, offset, bytes });
        if let Some(chain) = &mut self.log.chain {
            chain.ahead.push(ahead);
        }
        self.at += bytes;
    }
}

/// A number of future requests, each equally likely to be chosen.
struct Chosen {
    left: u32,
}

impl Chosen {
    /// Whether the next of `left` is one; `surely` if it must be.
    fn take(&mut self, left: u32, surely: bool, random: &mut Taus88) -> bool {
        let taken = random.below(left.into()) < self.left.into() || surely && self.left > 0;
        self.left -= u32::from(taken);
        taken
    }
}

/// The sizes of a leg's requests that are waited for: small ones, some large ones, and one in
/// between that makes their sum right.
struct Sizes {
    small: u32,
    large: u32,
    large_left: u32,
    /// The size of the one in between, until it has been drawn.
    between: Option<u32>,
}

impl Sizes {
    /// For a leg of at least `SMALL_KIB` for each request.
    fn new(leg: &Leg, large: u32) -> Sizes {
        let (requests, kib) = (leg.waited_for(), leg.kib - SMALL_KIB * leg.ahead);
        let (above, step) = (kib - SMALL_KIB * requests, large - SMALL_KIB);
        let (count, rest) = (above / step, above % step);
        let between = (rest > 0).then_some(SMALL_KIB + rest);
        if count + u32::from(rest > 0) <= requests {
            return Sizes { small: SMALL_KIB, large, large_left: count, between };
        }
        // So few requests must all be larger.
        let small = kib / requests / SMALL_KIB * SMALL_KIB;
        let rest = kib - small * requests;
        Sizes { small, large, large_left: 0, between: (rest > 0).then_some(small + rest) }
    }

    /// The size of the next of `left` requests.
    fn draw(&mut self, left: u32, random: &mut Taus88) -> u32 {
        let draw = random.below(left.into());
        if draw < self.large_left.into() {
            self.large_left -= 1;
            return self.large;
        }
        let special = self.large_left + u32::from(self.between.is_some());
        if draw < special.into() { self.between.take().unwrap_or(self.small) } else { self.small }
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::PROFILES;
    use super::*;

    /// So large that hardly a run reaches its end, or a jump the end of a run.
    const AREA: u64 = 1 << 40;

    /// Are the counts those of the profile, whatever the seed: requests, bytes, jumps and requests
    /// ahead of each leg, and nothing outside?
    #[test]
    fn counts_are_exact() {
        for profile in PROFILES {
            for seed in 0..20 {
                let logs = draw(profile, AREA, &mut Taus88::new(seed));
                let mut next = vec![0; logs.len()];
                for leg in profile.legs {
                    let place = leg.process as usize;
                    let range = next[place]..next[place] + leg.requests as usize;
                    next[place] = range.end;
                    let (entries, chain) = (&logs[place].entries, logs[place].chain.as_ref());
                    let (entries, ahead) = (&entries[range.clone()], &chain.unwrap().ahead[range]);
                    let bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
                    assert_eq!(bytes, u64::from(leg.kib) << 10, "{} {leg:?}", profile.name);
                    assert!(entries.iter().all(|entry| entry.offset + entry.bytes <= AREA));
                    let jumps =
                        entries.windows(2).filter(|pair| end(&pair[0]) != pair[1].offset).count();
                    assert_eq!(jumps + 1, leg.random as usize, "{} {leg:?}", profile.name);
                    let ahead = ahead.iter().filter(|ahead| **ahead).count();
                    assert_eq!(ahead, leg.ahead as usize, "{} {leg:?}", profile.name);
                }
                let all: Vec<usize> = logs.iter().map(|log| log.entries.len()).collect();
                assert_eq!(all, next);
            }
        }
    }

    fn end(entry: &LogEntry) -> u64 {
        entry.offset + entry.bytes
    }

    /// Do other seeds jump elsewhere, and equal ones to the same places?
    #[test]
    fn places_follow_the_seed() {
        let drawn = |seed| draw(&PROFILES[0], AREA, &mut Taus88::new(seed));
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    /// Are the sizes those of the module's example: five of 4 KiB and one of 44 besides those
    /// ahead? And are they larger with too few requests for the bytes: 336 KiB in four are 84 each,
    /// 68 in one is 68.
    #[test]
    fn sizes_add_up() {
        let sizes = |requests: u32, kib: u32, ahead: u32| {
            let leg = Leg { process: 0, requests, kib, random: 1, ahead };
            let mut sizes = Sizes::new(&leg, 44);
            let mut random = Taus88::new(7);
            let mut drawn: Vec<u32> =
                (1..=leg.waited_for()).rev().map(|left| sizes.draw(left, &mut random)).collect();
            drawn.sort_unstable();
            drawn
        };
        assert_eq!(sizes(37, 188, 31), [4, 4, 4, 4, 4, 44]);
        assert_eq!(sizes(3, 64, 0), [4, 16, 44]);
        assert_eq!(sizes(4, 336, 0), [84; 4]);
        assert_eq!(sizes(1, 68, 0), [68]);
    }
}
