// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes: how long each I/O is, by `bs`, `bsrange` or `bssplit`.
//!
//! Each direction has its own generator, so the sizes of reads do not depend on how many writes lie
//! between them. A size that would pass the end of the region is drawn again.
//!
//! ```text
//! bsrange=4k-16k   4k + floor(16k * r / 2^32), down to a multiple of 4k, at most 16k
//!                  draws 4k..20k: 1/4 each for 4k, 8k, 12k ... and the rest, 16k and above, is 16k
//! bssplit          the smallest share first; r picks by cumulative percent, otherwise the last;
//!                  12k of 8k:12k is not a multiple of the least size and becomes 8k
//!                  with bsrange=4k-12k after it 16k is 12k, and 2k ends the pass, as does a size
//!                  alone that has no share (`8k/`)
//! ```
//!
//! Source: FIO-36 to FIO-39.

use super::job::{Job, Kind};
use super::random::{Choice, Draw, Seeds};

/// Draws before a size that fits is given up; then it is the smallest one. fio never gives up: with
/// bs_unaligned one in `most` draws is the smallest size, which alone may fit.
const DRAWS_MAX: u32 = 1 << 22;

/// The generators of sizes of one job, and what they draw from.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    ranges: [(u64, u64); 3],
    splits: [Vec<(u64, u8)>; 3],
    unaligned: bool,
    generators: [Draw; 3],
    kind: Kind,
}

impl Sizes {
    pub(super) fn new(job: &Job, seeds: &Seeds) -> Sizes {
        Sizes {
            ranges: job.blocks.block_size,
            splits: job.blocks.bssplit.clone(),
            unaligned: job.blocks.bs_unaligned,
            generators: choices(job.order.rw.kind).map(|choice| Draw::of(job, seeds, choice)),
            kind: job.order.rw.kind,
        }
    }

    /// Begins the order of sizes again.
    pub(super) fn replay(&mut self, seeds: &Seeds) {
        for (generator, choice) in self.generators.iter_mut().zip(choices(self.kind)) {
            *generator = generator.again(seeds, choice);
        }
    }

    /// The smallest size of a place in the triple.
    pub(super) fn least(&self, place: usize) -> u64 {
        self.ranges[place].0
    }

    /// The next size, at most `room`; `None` if not even the smallest fits, or if the share drawn
    /// is below the range.
    #[inline]
    pub(super) fn next(&mut self, place: usize, room: u64) -> Option<u64> {
        let (least, most) = self.ranges[place];
        if least > room {
            return None;
        }
        if least == most {
            return Some(least);
        }
        let fitting = |size: &u64| *size <= room;
        let drawn = (0..DRAWS_MAX).map(|_| self.draw(place, room)).find(fitting);
        Some(drawn.unwrap_or(least)).filter(|size| *size > 0)
    }

    /// Whether a place of the triple has more than one size.
    pub(super) fn varies(&self, place: usize) -> bool {
        self.ranges[place].0 < self.ranges[place].1
    }

    fn draw(&mut self, place: usize, room: u64) -> u64 {
        let (least, most) = self.ranges[place];
        let generator = &mut self.generators[place];
        if !self.splits[place].is_empty() {
            let size = pick(&self.splits[place], generator.bits(), room);
            // A bsrange that is given after it still bounds it.
            return if self.unaligned { size } else { size / least * least }.min(most);
        }
        let size = least + generator.below(most);
        let size = if self.unaligned { size } else { size / least * least };
        size.min(most)
    }
}

/// The seeds for the sizes of reads, writes and trims: the trims of a trimwrite are as long as its
/// writes.
fn choices(kind: Kind) -> [Choice; 3] {
    let trims =
        if kind == Kind::TrimWrite { Choice::BlockSizeWrite } else { Choice::BlockSizeTrim };
    [Choice::BlockSizeRead, Choice::BlockSizeWrite, trims]
}

/// The first size whose cumulative percentage reaches `draw` and which fits, otherwise the last;
/// 0 for a size alone without a share.
fn pick(split: &[(u64, u8)], (draw, most): (u64, u64), room: u64) -> u64 {
    let mut cumulative = 0_u64;
    for (size, percent) in split.iter().filter(|(_, percent)| *percent > 0) {
        cumulative += u64::from(*percent);
        if draw / cumulative <= most / 100 && *size <= room {
            return *size;
        }
    }
    split.last().filter(|(_, percent)| *percent > 0).map_or(0, |(size, _)| *size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(job: &Job) -> Sizes {
        Sizes::new(job, &Seeds::new(None, true, false, 1, 0))
    }

    /// A job with blocks of 4 to 16 KiB.
    fn ranged() -> Job {
        let mut job = Job::default();
        job.blocks.block_size = [(4096, 16_384); 3];
        job
    }

    /// Is the greatest size of a range favoured? 4k..16k draws 4k + 0..16k: a quarter each for 4k,
    /// 8k and 12k, and the last quarter for 16k; 4k..8k draws 4k + 0..8k: half each.
    #[test]
    fn ranges_are_multiples_of_the_least() {
        let mut sizes = sizes(&ranged());
        let mut counts = [0; 5];
        for _ in 0..4000 {
            let size = sizes.next(0, u64::MAX).unwrap();
            assert_eq!(size % 4096, 0);
            counts[usize::try_from(size / 4096).unwrap()] += 1;
        }
        assert!(counts[1..].iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    /// Do shares come out as given, and does the end of the region limit sizes?
    #[test]
    fn splits_come_out_as_given() {
        let mut job = ranged();
        job.blocks.bssplit[0] = vec![(16_384, 40), (4096, 60)];
        let mut sizes = sizes(&job);
        let large = (0..1000).filter(|_| sizes.next(0, u64::MAX) == Some(16_384)).count();
        assert!((350..450).contains(&large), "{large}");
        assert!((0..100).all(|_| sizes.next(0, 8192) == Some(4096)));
        assert_eq!(sizes.next(0, 4095), None);
    }
}
