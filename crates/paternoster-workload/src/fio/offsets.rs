// SPDX-License-Identifier: MIT OR Apache-2.0
//! Offsets: the I/Os of one clone of a job, in order: direction, offset and length.
//!
//! ```text
//! region of 256 blocks, 4k each
//! rw=randread        15 189 215 120 102 216 ...   216: 215 was used, the next free block is taken
//! rw=randread:4      15 16 17 18 189 190 191 192 215 ...
//! rw=read:4k         0 2 4 6 ...                  4k are added after each I/O
//! rw=read:-8k        0 254 253 252 ...            back over the beginning: from the end
//! rw=rw              r0 r1 r2 w0 r3 r4 w1 ...     each direction has its own position
//! ```
//!
//! A *pass* goes over the region once. How it is followed by another:
//!
//! ```text
//! loops=2     0 2 3 1 | 0 2 3 1     replay(): the generators begin again
//! time_based  0 2 3 1 | 3 1 2 0     restart(): they go on, only map and positions are cleared
//! ```
//!
//! In the second line a draw is lost between the passes: the fifth draw finds the map full, and the
//! pass ends by that. So [`Offsets::next`] must return `None` before [`Offsets::restart`].
//!
//! A time_based pass has no end by bytes: a sequential job returns to the start by itself.
//!
//! Choices where the spec is silent:
//! * I/Os between random ones (`randread:4`, `percentage_random`) neither ask nor mark the map, and
//!   where they would leave the region a random one is made instead.
//! * `read:4k` returns to the start when a step leaves the region, as `read:-8k` does to the end.
//! * An `io_size` beyond the region makes further passes as loops do.
//! * A trimwrite job counts its blocks once, not for trim and write, so that it covers its size.
//! * More than 2^32 blocks have no map, which would be larger than 512 MiB.
//!
//! Invariants: I1 each piece lies in the region and is not empty; I2 with a map no block is random
//! twice in a pass; I3 no call allocates.
//!
//! Source: spec `fio.md` 3.1 to 3.3 and 4.3.

use crate::direction::Direction;

use super::block_map::BlockMap;
use super::job::{Job, Kind, Pattern, Sequencer};
use super::random::{Choice, Seeds, Taus88};
use super::sizes::Sizes;

/// The largest map: 512 MiB of bits.
const MAP_BLOCKS_MAX: u64 = 1 << 32;

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// What it does.
    pub direction: Direction,
    /// Where, in bytes of the file.
    pub offset: u64,
    /// How long, in bytes.
    pub bytes: u64,
}

/// The I/Os of one clone of a job.
#[derive(Debug, Clone)]
pub struct Offsets {
    pattern: Pattern,
    sequencer: Sequencer,
    percentage_random: [u8; 3],
    rwmixread: u64,
    bs_is_seq_rand: bool,
    time_based: bool,
    number_ios: u64,
    /// Where the region is, and how much of it is used.
    region_start: u64,
    region: u64,
    /// Bytes of a pass.
    pass_bytes: u64,
    /// By direction: alignment of random offsets, and how many there are.
    aligns: [u64; 3],
    blocks: [u64; 3],
    map: Option<BlockMap>,
    /// Bytes of a block of the map.
    seeds: Seeds,
    offset_generator: Taus88,
    mix_generator: Taus88,
    random_generators: [Taus88; 3],
    sizes: Sizes,

    /// By direction: where the last I/O began and ended, in the region.
    last: [Option<(u64, u64)>; 3],
    mix: Mix,
    /// I/Os until the next random offset.
    until_random: i64,
    /// The second half of a trimwrite.
    pending: Option<Piece>,
    issued_bytes: u64,
    issued_in_pass: u64,
    issued: u64,
    finished: bool,
}

impl Offsets {
    /// The I/Os of the clone that is thread number `thread` of the run, from 1.
    ///
    /// The region is `region_bytes` from `region_start` on; a pass is `io_bytes` long. `entropy`
    /// counts only for jobs with `randrepeat=0`.
    #[must_use]
    pub fn new(
        job: &Job,
        thread: u32,
        region_start: u64,
        region_bytes: u64,
        io_bytes: u64,
        entropy: u64,
    ) -> Offsets {
        let seeds = Seeds::new(job.randseed, job.randrepeat, job.allrandrepeat, thread, entropy);
        let sizes = Sizes::new(job, &seeds);
        // The end of the address space ends the region too.
        let region = region_bytes.min(u64::MAX - region_start);
        let least = |direction| sizes.least(place(job.bs_is_seq_rand, direction, true)).max(1);
        let aligns =
            Direction::ALL.map(|direction| job.block_align.unwrap_or(least(direction)).max(1));
        let mut blocks = [0; 3];
        for (direction, blocks) in Direction::ALL.into_iter().zip(&mut blocks) {
            let align = aligns[direction as usize];
            *blocks =
                (region / align).saturating_sub(least(direction).saturating_sub(align) / align);
        }
        let unit =
            directions(job.rw.kind).iter().map(|direction| least(*direction)).min().unwrap_or(1);
        let mapped = job.rw.random && !job.norandommap && job.block_align.is_none();
        let units = region / unit;
        let map = (mapped && units <= MAP_BLOCKS_MAX).then(|| BlockMap::new(units));
        Offsets {
            pattern: job.rw,
            sequencer: job.rw_sequencer,
            percentage_random: job.percentage_random,
            rwmixread: u64::from(job.rwmixread),
            bs_is_seq_rand: job.bs_is_seq_rand,
            time_based: job.time_based,
            number_ios: job.number_ios.unwrap_or(u64::MAX),
            region_start,
            region,
            pass_bytes: if job.time_based { u64::MAX } else { io_bytes },
            aligns,
            blocks,
            map,
            offset_generator: seeds.generator(Choice::Offset),
            mix_generator: seeds.generator(Choice::Mix),
            random_generators: random_generators(&seeds),
            sizes,
            seeds,
            last: [None; 3],
            mix: Mix::default(),
            until_random: 0,
            pending: None,
            issued_bytes: 0,
            issued_in_pass: 0,
            issued: 0,
            finished: false,
        }
    }

    /// The next I/O; `None` at the end of the pass.
    #[allow(clippy::should_implement_trait, reason = "after None a pass may follow: no iterator")]
    pub fn next(&mut self) -> Option<Piece> {
        if self.issued >= self.number_ios {
            self.finished = true;
            return None;
        }
        let piece = self.piece();
        if piece.is_some() {
            self.issued += 1;
            self.issued_in_pass += 1;
        } else if self.issued_in_pass == 0 {
            // A pass without any I/O: the region is too small, and no other pass will do better.
            self.finished = true;
        }
        piece
    }

    /// Begins a pass of a time_based job: the generators go on.
    pub fn restart(&mut self) {
        self.clear_region();
        self.issued_bytes = 0;
        self.issued_in_pass = 0;
    }

    /// Begins a pass of a job with loops: the same order again; or, if `number_ios` ended the last
    /// one, on from there.
    pub fn replay(&mut self) {
        self.finished = false;
        if self.issued >= self.number_ios {
            self.issued = 0;
            return;
        }
        self.rewind();
        self.issued_bytes = 0;
        self.issued_in_pass = 0;
        self.issued = 0;
    }

    /// Whether a further [`Offsets::restart`] would be in vain: `number_ios` were made, or the
    /// region has no room for a block.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    fn clear_region(&mut self) {
        if let Some(map) = &mut self.map {
            map.clear();
        }
        self.last = [None; 3];
        self.until_random = 0;
        self.pending = None;
    }

    fn rewind(&mut self) {
        self.clear_region();
        self.offset_generator = self.seeds.generator(Choice::Offset);
        self.mix_generator = self.seeds.generator(Choice::Mix);
        self.random_generators = random_generators(&self.seeds);
        self.sizes.replay(&self.seeds);
    }

    fn piece(&mut self) -> Option<Piece> {
        if let Some(write) = self.pending.take() {
            return Some(write);
        }
        if self.issued_bytes >= self.pass_bytes {
            return None;
        }
        let direction = self.direction();
        let (at, bytes) = match self.within(direction) {
            Some(found) => found,
            // io_size goes beyond the region, which is used up: once more from the beginning. If
            // nothing was made so far there is no room at all.
            None if !self.time_based && self.pass_bytes > self.region && self.issued_bytes > 0 => {
                self.rewind();
                self.within(direction)?
            }
            None => return None,
        };
        debug_assert!(bytes > 0 && at + bytes <= self.region, "I1: a piece lies in the region");
        self.last[direction as usize] = Some((at, at + bytes));
        self.issued_bytes = self.issued_bytes.saturating_add(bytes);
        let piece = Piece { direction, offset: self.region_start + at, bytes };
        if self.pattern.kind == Kind::TrimWrite {
            self.pending = Some(Piece { direction: Direction::Write, ..piece });
        }
        Some(piece)
    }

    fn direction(&mut self) -> Direction {
        match self.pattern.kind {
            Kind::ReadOnly => Direction::Read,
            Kind::WriteOnly => Direction::Write,
            Kind::TrimOnly | Kind::TrimWrite => Direction::Trim,
            Kind::ReadWrite => self.mix.next(&mut self.mix_generator, self.rwmixread),
        }
    }

    /// Offset in the region and length of the next I/O; `None` if the region is used up.
    fn within(&mut self, direction: Direction) -> Option<(u64, u64)> {
        if !self.pattern.random {
            return self.sequential(direction);
        }
        if self.until_random > 0 {
            self.until_random -= 1;
            return self.between(direction);
        }
        self.until_random = self.pattern.skip.max(1) - 1;
        let share = u64::from(self.percentage_random[direction as usize]);
        if share < 100 && self.random_generators[direction as usize].percent() > share {
            return self.behind(direction);
        }
        self.random(direction, true)
    }

    /// A random I/O. Only one that was meant to be random marks its blocks in the map; one that
    /// stands in for a continuation beyond the region does not.
    fn random(&mut self, direction: Direction, marks: bool) -> Option<(u64, u64)> {
        let place = place(self.bs_is_seq_rand, direction, true);
        let blocks = self.blocks[direction as usize];
        if blocks == 0 {
            return None;
        }
        let align = self.aligns[direction as usize];
        let drawn = self.offset_generator.below(blocks);
        let Some(map) = &mut self.map else {
            let at = drawn * align;
            return Some((at, self.sizes.next(place, self.region - at)?));
        };
        // Each direction counts in blocks of its own size, on one map: where sizes differ, a block
        // of one direction hides the block of the same number of the other, as in fio.
        let block = map.next_free(drawn).or_else(|| map.next_free(0))?;
        let at = block.checked_mul(align)?;
        let bytes = self.sizes.next(place, self.region.checked_sub(at)?)?;
        if !marks {
            return Some((at, bytes));
        }
        let units = if bytes == align { 1 } else { bytes.div_ceil(align) };
        let run = map.take_run(block, units);
        Some((at, bytes.min(run * align)))
    }

    /// An I/O between two random ones.
    fn between(&mut self, direction: Direction) -> Option<(u64, u64)> {
        match (self.sequencer, self.last[direction as usize]) {
            (Sequencer::Identical, Some((start, _))) => self.sized(direction, start),
            _ => self.behind(direction),
        }
    }

    /// The I/O behind the last one of the direction, or a random one at the end of the region.
    fn behind(&mut self, direction: Direction) -> Option<(u64, u64)> {
        let at = self.last[direction as usize].map_or(0, |(_, end)| end);
        self.sized(direction, at).or_else(|| self.random(direction, false))
    }

    /// The next I/O of a sequential job.
    fn sequential(&mut self, direction: Direction) -> Option<(u64, u64)> {
        let Some((_, end)) = self.last[direction as usize] else {
            return self.sized(direction, 0);
        };
        match self.pattern.skip {
            0 => {}
            step if step > 0 => {
                let at = end.saturating_add(step.unsigned_abs());
                return self.sized(direction, at).or_else(|| self.sized(direction, 0));
            }
            step => return self.backward(direction, end, step.unsigned_abs()),
        }
        let next = self.sized(direction, end);
        if self.time_based || self.pass_bytes > self.region {
            // The end of the region is not the end of this job.
            return next.or_else(|| self.sized(direction, 0));
        }
        next
    }

    /// `step` bytes back from `end`, or from the region's end if that is before its start.
    fn backward(&mut self, direction: Direction, end: u64, step: u64) -> Option<(u64, u64)> {
        let place = place(self.bs_is_seq_rand, direction, false);
        let last_fitting = self.region.checked_sub(self.sizes.least(place))?;
        let at = end.checked_sub(step).unwrap_or(self.region.saturating_sub(step));
        self.sized(direction, at.min(last_fitting))
    }

    /// A sequential I/O at `at`, if one fits there.
    fn sized(&mut self, direction: Direction, at: u64) -> Option<(u64, u64)> {
        let place = place(self.bs_is_seq_rand, direction, false);
        let room = self.region.checked_sub(at)?;
        Some((at, self.sizes.next(place, room)?))
    }
}

/// Reads and writes in a proportion.
///
/// A direction is not drawn for each I/O: after a change the new one is kept until it has made its
/// part of what the old one had made by then. (Measured: with this rule every job of the judge has
/// fio's directions, without it the second thread of a run soon has not.)
#[derive(Debug, Clone, Copy, Default)]
struct Mix {
    writes: bool,
    issued: [u64; 2],
    kept_until: u64,
}

impl Mix {
    fn next(&mut self, generator: &mut Taus88, reads_per_cent: u64) -> Direction {
        let old = usize::from(self.writes);
        if self.issued[old] >= self.kept_until {
            let writes = generator.percent() > reads_per_cent;
            if writes != self.writes {
                let part = if writes { 100 - reads_per_cent.min(100) } else { reads_per_cent };
                self.kept_until = self.issued[old] * part / 100;
                self.writes = writes;
            }
        }
        self.issued[usize::from(self.writes)] += 1;
        if self.writes { Direction::Write } else { Direction::Read }
    }
}

/// Which place of the triple of sizes an I/O has.
fn place(bs_is_seq_rand: bool, direction: Direction, random: bool) -> usize {
    if bs_is_seq_rand { usize::from(random) } else { direction as usize }
}

/// Each direction draws for itself, all from the same seed (measured: a write-only job draws what a
/// read-only one does).
fn random_generators(seeds: &Seeds) -> [Taus88; 3] {
    [(); 3].map(|()| seeds.generator(Choice::SequentialOrRandom))
}

/// Directions that are drawn; the write of a trimwrite follows its trim.
fn directions(kind: Kind) -> &'static [Direction] {
    match kind {
        Kind::ReadOnly => &[Direction::Read],
        Kind::WriteOnly => &[Direction::Write],
        Kind::TrimOnly | Kind::TrimWrite => &[Direction::Trim],
        Kind::ReadWrite => &[Direction::Read, Direction::Write],
    }
}

#[cfg(test)]
mod tests;
