// SPDX-License-Identifier: MIT OR Apache-2.0
//! File: where in one of its files a job's next I/O is.
//!
//! Everything per file is here: its region, which blocks were used, where each direction is, its
//! zone, and the generators that are a file's own (lfsr and the skewed distributions, whose seed is
//! made of the file's name). What a clone has once for all its files comes as [`Shared`].
//!
//! Choices that no measurement of fio decides:
//! * I/Os between random ones (`randread:4`, `percentage_random`) neither check nor mark the map;
//!   at the very end of the region a random one is made instead.
//! * `read:4k` returns to the start when a step leaves a region from 0, as `read:-8k` does to the
//!   end; an I/O up to the very end, or a remainder in which no block fits, ends the pass.
//! * More than 2^32 blocks have no map, which would be larger than 512 MiB.

use crate::direction::Direction;
use crate::fio::block_map::BlockMap;
use crate::fio::distribution::Distribution;
use crate::fio::job::{Generator, Job, Kind, Pattern, Sequencer};
use crate::fio::random::{Choice, Draw, Seeds, Taus88};
use crate::fio::sizes::Sizes;
use crate::fio::strides::ZoneCursor;

use super::Extent;
use super::lfsr::Lfsr;
use super::name_hash::name_hash;
use super::skew::Skew;
use super::zones::ZoneDraw;

/// The largest map: 512 MiB of bits.
const MAP_BLOCKS_MAX: u64 = 1 << 32;

/// The state that a clone shares among all its files.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) pattern: Pattern,
    sequencer: Sequencer,
    percentage_random: [u8; 3],
    bs_is_seq_rand: bool,
    /// A sequential direction goes from the end of a region back to its start.
    endless: bool,
    /// A map that is full is cleared at once, and the next draw counts.
    reuses: bool,
    blocks: Draw,
    zones: Option<ZoneDraw>,
    random: [Taus88; 3],
    sizes: Sizes,
    /// The last draw found every block used.
    exhausted: bool,
    /// The next I/O, if it is drawn, does not mark the map, as the one before it, a continuation
    /// for which there was no room, would not have (measured).
    pub(super) unmarked: bool,
    /// I/Os until the next random offset.
    pub(super) until_random: i64,
    /// Bytes of I/O since a zone was left.
    pub(super) zone_done: u64,
}

impl Shared {
    pub(super) fn new(job: &Job, seeds: &Seeds, endless: bool, reuses: bool) -> Shared {
        Shared {
            pattern: job.order.rw,
            sequencer: job.order.rw_sequencer,
            percentage_random: job.order.percentage_random,
            bs_is_seq_rand: job.blocks.bs_is_seq_rand,
            endless,
            reuses,
            blocks: Draw::of(job, seeds, Choice::Offset),
            zones: ZoneDraw::new(&job.random.random_distribution, seeds),
            random: random_generators(seeds),
            sizes: Sizes::new(job, seeds),
            exhausted: false,
            unmarked: false,
            until_random: 0,
            zone_done: 0,
        }
    }

    /// All generators begin again.
    pub(super) fn replay(&mut self, seeds: &Seeds) {
        if let Some(zones) = &mut self.zones {
            zones.replay(seeds);
        }
        self.blocks = self.blocks.again(seeds, Choice::Offset);
        self.random = random_generators(seeds);
        self.sizes.replay(seeds);
    }

    /// The smallest block of a direction, whatever `bs_is_seq_rand` says.
    fn least(&self, direction: Direction) -> u64 {
        self.sizes.least(direction as usize).max(1)
    }
}

/// One file of a clone.
#[derive(Debug, Clone)]
pub(super) struct FileOffsets {
    /// Where the region is, and how much of it is used.
    start: u64,
    region: u64,
    /// How far from the start an I/O may reach that begins in the region.
    room: u64,
    /// Offset at which later passes begin.
    later: u64,
    /// Sizes are drawn as if the region ended so much later, where that of later passes would; one
    /// that reaches beyond the end then ends the pass.
    seeming: u64,
    /// By direction: alignment of random offsets, and how many there are.
    aligns: [u64; 3],
    blocks: [u64; 3],
    /// The unit of the map: the smallest block of all directions.
    unit: u64,
    map: Option<BlockMap>,
    lfsr: Option<Lfsr>,
    skew: Option<Skew>,
    zone: Option<ZoneCursor>,
    /// By direction: where the last I/O began and ended, in the region.
    last: [Option<(u64, u64)>; 3],
    /// The job trims each block before it writes it.
    trims_first: bool,
    /// The last trim has not been written.
    unwritten: bool,
}

impl FileOffsets {
    pub(super) fn new(
        job: &Job,
        thread: u32,
        extent: &Extent<'_>,
        shared: &Shared,
        seeds: &Seeds,
    ) -> FileOffsets {
        // The end of the address space ends the region too.
        let region = extent.bytes.min(u64::MAX - extent.start);
        let least = |direction| shared.least(direction);
        let align =
            |way: Direction| job.blocks.block_align[way as usize].unwrap_or(least(way)).max(1);
        let aligns = Direction::ALL.map(align);
        let mut blocks = [0; 3];
        for (direction, blocks) in Direction::ALL.into_iter().zip(&mut blocks) {
            let align = aligns[direction as usize];
            *blocks = region.saturating_sub(least(direction).saturating_sub(align)) / align;
        }
        // The least of all directions, those included that the job does not have.
        let unit = job.blocks.block_size.iter().map(|(least, _)| *least).min().unwrap_or(1).max(1);
        let skewed = matches!(
            job.random.random_distribution,
            Distribution::Zipf(..) | Distribution::Pareto(..) | Distribution::Normal(..)
        );
        let scattered =
            job.order.rw.random && !skewed && job.random.random_generator == Generator::Lfsr;
        let units = region / unit;
        let zone = ZoneCursor::new(&job.region.strides);
        let in_zone = zone.as_ref().map(|zone| zone.zone().1 / unit);
        let seed = seeds.of_file(job, thread, name_hash(extent.file));
        // A place for each smallest block of reads or writes, the last one perhaps in part.
        let places = region.div_ceil(least(Direction::Read).min(least(Direction::Write)));
        FileOffsets {
            start: extent.start,
            region,
            room: extent.room.max(region).min(u64::MAX - extent.start),
            later: extent.later,
            seeming: extent.later.saturating_sub(extent.start),
            aligns,
            blocks,
            unit,
            map: (job.has_random_map() && units <= MAP_BLOCKS_MAX).then(|| BlockMap::new(units)),
            lfsr: scattered
                .then(|| Lfsr::new(in_zone.unwrap_or(units), seeds.seed(Choice::Offset))),
            skew: skew(&job.random.random_distribution, places, seed)
                .filter(|_| job.order.rw.random),
            zone,
            last: [None; 3],
            trims_first: job.order.rw.kind == Kind::TrimWrite,
            unwritten: false,
        }
    }

    /// What a trimwrite job does next here. A sequential one, whose trims and writes have sizes of
    /// their own, writes until a write has begun where the last trim did.
    pub(super) fn trim_or_write(&self, random: bool) -> Direction {
        let began = |way: Direction| self.last[way as usize].map(|(begin, _)| begin);
        let unwritten = began(Direction::Trim) != began(Direction::Write);
        if if random { self.unwritten } else { unwritten } {
            Direction::Write
        } else {
            Direction::Trim
        }
    }

    /// Begins a pass: positions and map are cleared. Skewed draws go on, as measured.
    pub(super) fn clear(&mut self) {
        if let Some(zone) = &mut self.zone {
            zone.restart();
        }
        self.start_over();
    }

    /// A file at its end starts over where a skewed choice draws it again: in the zone where it is.
    pub(super) fn start_over(&mut self) {
        if let Some(map) = &mut self.map {
            map.clear();
        }
        if let Some(lfsr) = &mut self.lfsr {
            lfsr.restart();
        }
        self.last = [None; 3];
        self.unwritten = false;
    }

    /// A later pass begins where its percentage of the file, as it is now, says. The end stays, and
    /// random I/Os are drawn from as many blocks as before: one beyond the end ends the pass.
    pub(super) fn go_to_later_start(&mut self) {
        let less = self.later.saturating_sub(self.start).min(self.region);
        self.start += less;
        self.region -= less;
        self.room -= less;
    }

    /// Offset in the file and length of the next I/O; `None` if the region is used up.
    pub(super) fn next(&mut self, shared: &mut Shared, direction: Direction) -> Option<(u64, u64)> {
        if let Some(zone) = &mut self.zone {
            let begin = self.later.saturating_sub(self.start);
            let moved = zone.advance(begin, self.room, &mut shared.zone_done);
            // Whenever a zone has had as many bytes as it is long, it begins again.
            if moved || shared.zone_done.is_multiple_of(zone.zone().1.max(1)) {
                self.last = [None; 3];
                if let Some(map) = &mut self.map {
                    map.clear();
                }
                if let Some(lfsr) = &mut self.lfsr {
                    lfsr.restart();
                }
            }
        }
        shared.exhausted = false;
        let found = self.within(shared, direction);
        let each_once = self.map.is_some() || self.lfsr.is_some();
        let again = found.is_none() && shared.reuses && each_once && shared.exhausted;
        let (at, bytes) = if again {
            self.start_over();
            self.random(shared, direction, true)?
        } else {
            found?
        };
        debug_assert!(bytes > 0 && at + bytes <= self.room, "I1: a piece lies in its room");
        shared.unmarked = false;
        self.last[direction as usize] = Some((at, at + bytes));
        self.unwritten |= direction == Direction::Trim;
        shared.zone_done = shared.zone_done.saturating_add(bytes);
        Some((self.start + at, bytes))
    }

    fn within(&mut self, shared: &mut Shared, direction: Direction) -> Option<(u64, u64)> {
        if !shared.pattern.random {
            return self.sequential(shared, direction);
        }
        let between = shared.until_random > 0;
        shared.until_random =
            if between { shared.until_random } else { shared.pattern.skip.max(1) } - 1;
        if self.trims_first && direction == Direction::Write {
            let (at, end) = self.last[Direction::Trim as usize]?;
            // fio 3.33 counts the start of region and zone twice here, and then takes it for
            // another place.
            let twice = self.start + self.zone.as_ref().map_or(0, |zone| zone.zone().0);
            let again = at.checked_add(twice)?;
            self.unwritten = twice > 0;
            return Some((again, end - at)).filter(|_| again <= self.region - (end - at));
        }
        let way = direction as usize;
        let share = u64::from(shared.percentage_random[way]);
        let found = if between {
            self.between(shared, direction)
        } else if share < 100 && shared.random[way].percent() > share {
            self.behind(shared, direction)
        } else {
            return self.random(shared, direction, true);
        };
        shared.unmarked |= found.is_none();
        found
    }

    /// A random I/O. Only one that was meant to be random marks its blocks in the map; one that
    /// replaces a continuation beyond the region does not, and has the size of a continuation.
    fn random(
        &mut self,
        shared: &mut Shared,
        direction: Direction,
        marks: bool,
    ) -> Option<(u64, u64)> {
        shared.exhausted = true;
        let way = direction as usize;
        let place = place(shared.bs_is_seq_rand, direction, marks);
        let align = self.aligns[way];
        // A smallest block has to end where the blocks do.
        let less = shared.least(direction).saturating_sub(align);
        let (zone_at, blocks) = match &self.zone {
            Some(zone) => (zone.zone().0, zone.zone().1.saturating_sub(less) / align),
            None => (0, self.blocks[way]),
        };
        // A skewed draw is one of the whole file's places.
        if blocks == 0 && self.skew.is_none() {
            return None;
        }
        let end = match &self.zone {
            Some(_) => self.end(zone_at),
            None => self.room,
        };
        let drawn = self.draw(shared, way, blocks)?;
        let at = |block: u64| zone_at.checked_add(block.checked_mul(align)?);
        let fits = self.fits(shared, place, end);
        let Some(map) = &mut self.map else {
            let at = at(drawn)?;
            return Some((at, size(&mut shared.sizes, place, at, end, fits)?));
        };
        // Each direction counts in blocks of its own size, on one map: where sizes differ, a block
        // of one direction hides the block of the same number of the other, as in fio.
        let block = if let Some(zone) = &self.zone {
            // In a zone neither a full map nor a draw beyond the region is drawn once more.
            shared.exhausted = false;
            free_in_zone(map, drawn, zone.zone().1 / self.unit)?
        } else {
            map.next_free(drawn).or_else(|| map.next_free(0))?
        };
        shared.exhausted = false;
        let at = at(block)?;
        if self.zone.is_none() && at >= self.region {
            return None;
        }
        let bytes = size(&mut shared.sizes, place, at, end, fits)?;
        if !marks || shared.unmarked {
            return Some((at, bytes));
        }
        let units = if bytes == align { 1 } else { bytes.div_ceil(align) };
        let run = map.take_run(block, units);
        // Only a used block cuts; the remainder after the last whole one does not.
        let whole = run >= units || block + run >= map.count();
        Some((at, if whole { bytes } else { bytes.min(run * align) }))
    }

    /// A block below `blocks`, by the job's generator and distribution; a skewed or zoned draw may
    /// be beyond.
    fn draw(&mut self, shared: &mut Shared, way: usize, blocks: u64) -> Option<u64> {
        if let Some(skew) = &mut self.skew {
            return Some(skew.next());
        }
        let (first, count) = match &mut shared.zones {
            Some(zones) => zones.next(way, self.aligns[way], blocks)?,
            None => (0, blocks),
        };
        // In a zone of a distribution, too, an lfsr draws among all blocks.
        let drawn = match &mut self.lfsr {
            Some(lfsr) => lfsr.next()?,
            None => shared.blocks.below(count),
        };
        first.checked_add(drawn)
    }

    /// An I/O between two random ones.
    fn between(&mut self, shared: &mut Shared, direction: Direction) -> Option<(u64, u64)> {
        match (shared.sequencer, self.last[direction as usize]) {
            (Sequencer::Identical, Some((start, _))) => self.sized(shared, direction, start),
            _ => self.behind(shared, direction),
        }
    }

    /// The I/O after the last one of the direction, or a random one at the very end of the region.
    /// A remainder in which no block fits ends the pass.
    fn behind(&mut self, shared: &mut Shared, direction: Direction) -> Option<(u64, u64)> {
        let zone = self.zone.as_ref().map(ZoneCursor::zone);
        let start = zone.map_or(0, |(at, _)| at);
        let at = self.last[direction as usize].map_or(start, |(_, end)| end);
        // A zone that has not had its I/O starts again at its end.
        let leaves = zone.is_some_and(|(at_zone, bytes)| at.saturating_sub(at_zone) >= bytes);
        let at = if leaves { start } else { at };
        if at >= self.end(start) {
            // Within the room beyond the region nothing begins, which ends the pass.
            let room = zone.is_none() && at < self.room && !shared.endless;
            return if room { None } else { self.random(shared, direction, false) };
        }
        self.sized(shared, direction, at)
    }

    /// The next I/O of a sequential job.
    fn sequential(&mut self, shared: &mut Shared, direction: Direction) -> Option<(u64, u64)> {
        let zone = self.zone.as_ref().map(ZoneCursor::zone);
        let start = zone.map_or(0, |(at, _)| at);
        let leaves = |end: u64| zone.is_some_and(|(at, bytes)| end.saturating_sub(at) >= bytes);
        // A zone that has not had its I/O starts again at its end.
        let Some((_, end)) = self.last[direction as usize].filter(|(_, end)| !leaves(*end)) else {
            let first = self.first(shared, start)?;
            return self.sized(shared, direction, first);
        };
        // Where there is room beyond the region a step back goes on from its end.
        let back = shared.pattern.skip < 0 && zone.is_none();
        if end >= if back { self.room } else { self.end(start) } {
            // An I/O up to the very end is the last one, whatever the step would be.
            return if shared.endless { self.sized(shared, direction, start) } else { None };
        }
        let next = match shared.pattern.skip {
            step if step < 0 => {
                let step = step.unsigned_abs();
                let back = end.checked_sub(step).filter(|at| *at >= start);
                let wraps = || Some(start.saturating_add(self.region.checked_sub(step)?));
                // A step longer than the region ends the pass.
                let at = back.or_else(wraps)?;
                if zone.is_none() && at >= self.region {
                    return None;
                }
                return self.sized(shared, direction, at);
            }
            step => end.saturating_add(step.unsigned_abs()),
        };
        // A step beyond the region returns to the file's start; but not in zones, nor where the
        // region begins elsewhere or there is room beyond it.
        let beyond = next >= self.end(start);
        let returns = self.start == 0 && zone.is_none() && self.room <= self.region;
        if beyond && !shared.endless && !returns {
            return None;
        }
        let next = if beyond { start } else { next };
        let found = self.sized(shared, direction, next);
        // A rest that no block fits in ends the pass.
        if shared.endless { found.or_else(|| self.sized(shared, direction, start)) } else { found }
    }

    /// Where a sequential job begins: at the start of its region or zone. But with a step back from
    /// a start that is not the file's own, as many bytes before as many bytes of the file as the
    /// region has; or, where that is before the start, of the region (measured: `read:-8k` of 64k
    /// has 0 56 52 at offset 0, 56 52 48 at 8k or 32k, and 116 112 at 60k).
    fn first(&self, shared: &Shared, start: u64) -> Option<u64> {
        if shared.pattern.skip >= 0 || self.start.saturating_add(start) == 0 {
            return Some(start);
        }
        let place = self.region.checked_sub(shared.pattern.skip.unsigned_abs())?;
        let of_file = place.checked_sub(self.start).filter(|at| *at >= start);
        Some(of_file.unwrap_or(start.saturating_add(place)))
    }

    /// The position after which no I/O begins, in a zone that starts there: each has as much as the
    /// region.
    fn end(&self, zone_start: u64) -> u64 {
        zone_start.saturating_add(self.region).min(self.room)
    }

    /// A sequential I/O at `at`, if one fits there.
    #[inline]
    fn sized(&self, shared: &mut Shared, direction: Direction, at: u64) -> Option<(u64, u64)> {
        let place = place(shared.bs_is_seq_rand, direction, false);
        let fits = self.fits(shared, place, self.room);
        Some((at, size(&mut shared.sizes, place, at, self.room, fits)?))
    }

    /// Where a drawn size has to end, of an I/O that may reach to `end`: sizes that vary have no
    /// room beyond the region.
    fn fits(&self, shared: &Shared, place: usize, end: u64) -> u64 {
        if shared.sizes.varies(place) { self.region } else { end }.saturating_add(self.seeming)
    }
}

/// The size of an I/O at `at` that has to end at `end`, drawn from those that end at `fits`.
#[inline]
fn size(sizes: &mut Sizes, place: usize, at: u64, end: u64, fits: u64) -> Option<u64> {
    let room = end.checked_sub(at)?;
    sizes.next(place, fits.checked_sub(at)?).filter(|bytes| *bytes <= room)
}

/// A free block below `blocks`; none if the draw was beyond the region.
fn free_in_zone(map: &BlockMap, drawn: u64, blocks: u64) -> Option<u64> {
    if drawn >= map.count() {
        return None;
    }
    let within = |block: &u64| *block < blocks;
    map.next_free(drawn).filter(within).or_else(|| map.next_free(0).filter(within))
}

/// The skewed distribution of a file, if the job has one.
fn skew(distribution: &Distribution, places: u64, seed: u64) -> Option<Skew> {
    match *distribution {
        Distribution::Zipf(theta, center) => Some(Skew::zipf(theta, center, places, seed)),
        Distribution::Pareto(power, center) => Some(Skew::pareto(power, center, places, seed)),
        Distribution::Normal(percent, center) => Some(Skew::normal(percent, center, places, seed)),
        Distribution::Uniform | Distribution::Zoned(_) | Distribution::ZonedBytes(_) => None,
    }
}

/// Which place of the triple of sizes an I/O has.
fn place(bs_is_seq_rand: bool, direction: Direction, random: bool) -> usize {
    if bs_is_seq_rand { usize::from(random) } else { direction as usize }
}

/// Each direction draws separately, all from the same seed (measured: a write-only job draws what a
/// read-only one does).
fn random_generators(seeds: &Seeds) -> [Taus88; 3] {
    [(); 3].map(|()| seeds.generator(Choice::SequentialOrRandom))
}
