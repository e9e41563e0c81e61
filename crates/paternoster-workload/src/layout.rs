// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layout: where the files of a run lie on its device.
//!
//! Files follow one another in the order in which the jobs first name them, each at a multiple of 1
//! MiB; or elsewhere, as [`Placement`] says. A name below `/dev/` is the device itself. Jobs that
//! name the same file share it.
//!
//! ```text
//! near          |aaaa|bbbb|cccc|                                … capacity
//! far           |aaaa|            |bbbb|            |cccc|      … equal gaps up to the capacity
//! interleaved   |a|b|c|a|b|c|a|b|c|a|b|c|                       … capacity
//! among         |a|b|a|b|a|b|a|b|a|c|a|c|a|c|a|c|               … capacity
//!
//! job a, offset=16m size=8m:  region [16, 24) MiB of its file
//! ```
//!
//! Source: FIO-48; seed 001, whose authors argue whether files that lie far from each
//! other, or grew together, explain what they measure.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fio::file_sizes::file_sizes;
use crate::fio::job::{Engine, Job, Kind, is_device};
use crate::fio::jobfile::Problem;
use crate::fio::random::{Seeds, Taus88};
use crate::fio::recorded::Recorded;
use crate::fio::value::Amount;
use crate::page_cache::extent::Extent;
use crate::page_cache::journal::FileKind;

/// Files begin at multiples of this.
const ALIGNMENT: u64 = 1 << 20;
/// Sizes of pieces that are drawn are multiples of this.
const GRAIN: u64 = 4096;
/// Keeps that draw apart from others with the same seed.
const PIECES: u64 = 0x7069_6563_6573;

/// How files are placed relative to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// One after the other.
    #[default]
    Near,
    /// With equal gaps over the whole device.
    Far,
    /// In pieces of this many bytes, in turn, like files that grew at the same time.
    Interleaved(u64),
    /// The first file in pieces, and between these the others, one after the other: like the files
    /// of a system that lie among large ones. Pieces average this many bytes; the seed gives their
    /// size, from half to half as many again.
    Among(u64),
}

/// Where one clone of a job works in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRegion {
    /// The file, by its number in the layout.
    pub file: u32,
    /// Where it works in the file, in bytes.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// How far from the start an I/O that begins in these may reach; its end if that is less.
    pub room: u64,
}

/// Where one clone of a job works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// In each of its files, in the job's order.
    pub files: Vec<FileRegion>,
    /// How many bytes it reads and writes in one pass.
    pub io_bytes: u64,
}

/// The files of a run, and which process works where in them.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Where each file lies.
    pub files: Vec<Extent>,
    /// The kind of each file, for the file system.
    pub kinds: Vec<FileKind>,
    /// Regions by job and clone.
    pub regions: Vec<Vec<Region>>,
}

/// The region that a clone uses in one file.
struct Need {
    name: String,
    start: u64,
    bytes: u64,
    room: u64,
    /// The length given by the job.
    own_bytes: u64,
    /// Least size of the file.
    file_bytes: u64,
    /// Whether it has data from the beginning.
    filled: bool,
}

/// All files so far, by name.
#[derive(Default)]
struct Files {
    numbers: BTreeMap<String, usize>,
    names: Vec<String>,
    bytes: Vec<u64>,
    /// Whether a process finds data in it.
    filled: Vec<bool>,
}

impl Files {
    fn kinds(&self) -> Vec<FileKind> {
        let kind = |(name, &filled): (&String, &bool)| match filled {
            _ if is_device(name) => FileKind::Device,
            true => FileKind::Old,
            false => FileKind::New,
        };
        self.names.iter().zip(&self.filled).map(kind).collect()
    }

    fn add(&mut self, need: &Need) -> usize {
        let next = self.names.len();
        let number = *self.numbers.entry(need.name.clone()).or_insert(next);
        if number == next {
            self.names.push(need.name.clone());
            self.bytes.push(0);
            self.filled.push(false);
        }
        // A file is as long as the jobs that share it need it.
        self.bytes[number] = self.bytes[number].max(need.file_bytes);
        self.filled[number] |= need.filled;
        number
    }
}

/// Lays out the files of all jobs on a device of `capacity` bytes. `entropy` counts only for jobs
/// with `randrepeat=0`.
///
/// # Errors
/// A [`Problem`] at the job whose file does not fit.
pub fn plan(
    jobs: &[Job],
    capacity: u64,
    placement: Placement,
    entropy: u64,
) -> Result<Layout, Problem> {
    let mut files = Files::default();
    let mut needed = Vec::new();
    // fio counts its threads from 1 over all jobs.
    let mut first = 1;
    for (place, job) in jobs.iter().enumerate() {
        for clone in 0..job.clones.numjobs {
            let thread = job.thread_of(first, clone);
            let needs = needs(job, clone, capacity, &Seeds::of(job, thread, entropy));
            let numbers: Vec<usize> = needs.iter().map(|need| files.add(need)).collect();
            needed.push((place, needs, numbers));
        }
        first += job.clones.numjobs;
    }
    let extents = place(&files, capacity, drawn(placement, entropy));
    let mut regions: Vec<Vec<Region>> = jobs.iter().map(|_| Vec::new()).collect();
    for (place, needs, numbers) in needed {
        regions[place].push(region(&jobs[place], &needs, &numbers, &extents, capacity)?);
    }
    Ok(Layout { files: extents, kinds: files.kinds(), regions })
}

impl Layout {
    /// A place of this many bytes after the last file, in one piece; `None` for no bytes.
    ///
    /// # Errors
    /// What does not fit, and the remedy.
    pub fn reserve(&self, bytes: u64, capacity: u64) -> Result<Option<Extent>, String> {
        if bytes == 0 {
            return Ok(None);
        }
        let files = self.files.iter().zip(&self.kinds);
        let files = files.filter(|(_, kind)| **kind != FileKind::Device);
        let last = files.map(|(file, _)| file.end()).max().unwrap_or(0);
        let at = last.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
        if at.saturating_add(bytes) > capacity {
            return Err(format!(
                "a journal of {bytes} bytes behind the last file, from byte {at} on, does not fit \
                 on a device of {capacity}; make `journal_blocks` or the files smaller"
            ));
        }
        Ok(Some(Extent::whole(at, bytes)))
    }
}

/// The placement with the size of its pieces drawn, if the seed decides it.
fn drawn(placement: Placement, entropy: u64) -> Placement {
    match placement {
        Placement::Among(mean) => {
            let draw = Taus88::new(entropy ^ PIECES).below(mean / GRAIN + 1) * GRAIN;
            Placement::Among((mean / 2 / GRAIN * GRAIN + draw).max(GRAIN))
        }
        as_said => as_said,
    }
}

/// Where each file lies, whether or not it fits.
fn place(files: &Files, capacity: u64, placement: Placement) -> Vec<Extent> {
    let aligned = |bytes: u64| bytes.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
    let count = files.names.iter().filter(|name| !is_device(name)).count() as u64;
    let files_bytes = files.names.iter().zip(&files.bytes).filter(|(name, _)| !is_device(name));
    let all = files_bytes.fold(0u64, |sum, (_, &bytes)| sum.saturating_add(aligned(bytes)));
    let gap = capacity.saturating_sub(all) / count.max(1) / ALIGNMENT * ALIGNMENT;
    let (mut number, mut near, mut others) = (0, 0u64, 0u64);
    let mut extents = Vec::with_capacity(files.names.len());
    for (name, &bytes) in files.names.iter().zip(&files.bytes) {
        if is_device(name) {
            extents.push(Extent::whole(0, bytes));
            continue;
        }
        extents.push(match placement {
            Placement::Near => Extent::whole(near, bytes),
            Placement::Far => Extent::whole(near.saturating_add(gap * number), bytes),
            Placement::Interleaved(piece) => Extent {
                at: number.saturating_mul(piece),
                bytes,
                piece,
                stride: count.saturating_mul(piece),
            },
            Placement::Among(piece) => {
                // The first has the even places, the others follow each other in the odd ones.
                let stride = piece.saturating_mul(2);
                let behind = others.div_ceil(piece).saturating_mul(stride).saturating_add(piece);
                Extent { at: if number == 0 { 0 } else { behind }, bytes, piece, stride }
            }
        });
        if number > 0 {
            others = others.saturating_add(aligned(bytes));
        }
        number += 1;
        near = aligned(near.saturating_add(bytes));
    }
    extents
}

/// What a clone needs of each of its files.
fn needs(job: &Job, clone: u32, capacity: u64, seeds: &Seeds) -> Vec<Need> {
    if let Some(log) = recorded(job, clone) {
        let need = |(name, &bytes): (&String, &u64)| {
            let bytes = if is_device(name) { capacity } else { bytes };
            let (start, room, own_bytes, file_bytes) = (0, bytes, bytes, bytes);
            Need { name: name.clone(), start, bytes, room, own_bytes, file_bytes, filled: true }
        };
        return log.files.iter().zip(&log.sizes).map(need).collect();
    }
    if job.queue.engine == Engine::Cpu {
        return Vec::new();
    }
    let names = job.file_names(clone);
    let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let several = count > 1 || job.files.filesize_range.is_some();
    let sizes = file_sizes(job, count, capacity, seeds);
    let need = |(name, size): (String, Option<u64>)| {
        let start = start(job, clone, whole_of(job, &name, count, capacity));
        let bytes = match (job.region.size, size) {
            // Everything after the start of a file of given size, and not all of it.
            (_, Some(size)) if job.files.filesize.is_some() && !is_device(&name) => {
                size.saturating_sub(start)
            }
            (_, Some(size)) if several => size,
            (Some(size), _) => size.of(capacity),
            (None, _) => capacity.saturating_sub(start),
        };
        let own_bytes = if is_device(&name) { 0 } else { size.unwrap_or(0) };
        let room = if is_device(&name) { bytes } else { room(job, start, bytes, count) };
        let file_bytes = start.saturating_add(room).max(own_bytes);
        let filled =
            job.cache.overwrite || matches!(job.order.rw.kind, Kind::ReadOnly | Kind::ReadWrite);
        Need { name, start, bytes, room, own_bytes, file_bytes, filled }
    };
    names.into_iter().zip(sizes).map(need).collect()
}

/// How far from its start an I/O of a region may reach: to its end. fio's engine null has no file
/// that ends, so there an I/O that begins within filesize goes on beyond it, up to the size.
fn room(job: &Job, start: u64, bytes: u64, files: u32) -> u64 {
    if job.queue.engine != Engine::Null
        || (job.files.filesize.is_none() && job.files.filesize_range.is_none())
    {
        return bytes;
    }
    let largest = job.blocks.block_size.iter().map(|&(_, most)| most).max().unwrap_or(0);
    match job.region.size {
        Some(Amount::Bytes(size)) => {
            bytes.max((size / u64::from(files.max(1))).saturating_sub(start))
        }
        _ => bytes.saturating_add(largest),
    }
}

/// The log that a clone replays.
#[must_use]
pub fn recorded(job: &Job, clone: u32) -> Option<&Arc<Recorded>> {
    let count = job.recorded.len().max(1);
    job.recorded.get(usize::try_from(clone).unwrap_or(0) % count)
}

fn region(
    job: &Job,
    needs: &[Need],
    numbers: &[usize],
    extents: &[Extent],
    capacity: u64,
) -> Result<Region, Problem> {
    let block = job.blocks.block_size.iter().map(|&(least, _)| least).min().unwrap_or(0);
    let mut files = Vec::with_capacity(needs.len());
    for (need, &number) in needs.iter().zip(numbers) {
        let Need { name, start, bytes, room, .. } = need;
        let extent = &extents[number];
        let end = extent.end().max(extent.at.saturating_add(*bytes));
        if end > capacity || start.saturating_add(*bytes) > capacity {
            return Err(too_large(job, name, end, capacity));
        }
        // On several files that are too small fio runs and does nothing; a note says so.
        let divided =
            needs.len() > 1 && job.files.filesize.is_none() && job.files.filesize_range.is_none();
        // A region that begins where a file of given size ends is empty, there as here.
        let empty = job.files.filesize.is_some() && *bytes == 0 && *start == need.own_bytes;
        if *bytes < block && job.recorded.is_empty() && !divided && !empty {
            return Err(too_small(job, *bytes, block));
        }
        let file = u32::try_from(number).unwrap_or(u32::MAX);
        files.push(FileRegion { file, start: *start, bytes: *bytes, room: *room });
    }
    let all = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.bytes));
    let amount = match (job.region.io_size, job.region.size) {
        // Of given sizes of files a percentage is at most the size.
        (Some(io_size @ Amount::Percent(_)), Some(size)) if job.files.filesize.is_some() => {
            io_size.of(all).min(size.of(all))
        }
        (Some(io_size), _) => io_size.of(all),
        // With sizes of files given, `size` is the amount of I/O alone.
        (None, Some(size)) if job.files.filesize.is_some() => {
            let sizes = needs.iter().fold(0, |sum: u64, need| sum.saturating_add(need.own_bytes));
            size.of(sizes).min(all)
        }
        _ => all,
    };
    Ok(Region { files, io_bytes: amount })
}

fn too_large(job: &Job, name: &str, end: u64, capacity: u64) -> Problem {
    job.problem(format!(
        "file `{name}` would end at byte {end} of a device of {capacity}; make `size` smaller or \
         let jobs share a `filename`"
    ))
}

fn too_small(job: &Job, bytes: u64, block: u64) -> Problem {
    job.problem(format!(
        "job `{}` has {bytes} bytes to work on, less than one block of {block}; make `size` \
         larger or `bs` smaller",
        job.name
    ))
}

/// What offsets in percent are relative to: the device, or a file's part of the size, which a file
/// that does not exist yet has.
fn whole_of(job: &Job, name: &str, files: u32, capacity: u64) -> u64 {
    match job.region.size {
        _ if is_device(name) => capacity,
        Some(Amount::Bytes(size)) => size / u64::from(files.max(1)),
        _ => job.files.filesize.unwrap_or(capacity),
    }
}

/// Where a clone begins in its further passes. Under engine null a percentage is then of the bytes
/// that the first pass has reached (measured: 25 % of 64k are 16k, and then 20k of 80k).
pub(crate) fn later_start(job: &Job, clone: u32, file: &FileRegion) -> u64 {
    let percent = |amount| matches!(amount, Amount::Percent(_));
    let changes = job.queue.engine == Engine::Null && !is_device(&job.file_names(clone)[0]);
    if changes && (percent(job.region.offset) || percent(job.region.offset_increment)) {
        start(job, clone, file.start.saturating_add(file.bytes)).max(file.start)
    } else {
        file.start
    }
}

/// Where a clone begins in a file of `whole` bytes. Percentages, partial or whole, are rounded up.
fn start(job: &Job, clone: u32, whole: u64) -> u64 {
    let step = job.region.offset_increment.of(whole).saturating_mul(clone.into());
    let offset = job.region.offset.of(whole);
    let least = job.blocks.block_size.iter().map(|(least, _)| *least).min().unwrap_or(1).max(1);
    let align = if job.region.offset_align > 0 { job.region.offset_align } else { least };
    let start = offset.saturating_add(step);
    match (job.region.offset, job.region.offset_increment) {
        (Amount::Bytes(_), Amount::Bytes(_)) => start,
        _ => start.div_ceil(align).saturating_mul(align),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::jobfile::{Source, parse};

    fn jobs(text: &str) -> Vec<Job> {
        let none = |_: &str| None;
        let include = |_: &str, _: &str| Err(String::new());
        parse(&[Source { name: "t.fio", text }], &[], &[], &none, &include).unwrap().jobs
    }

    const MIB: u64 = 1 << 20;

    /// Do files follow one another, and do jobs that name the same one share it?
    #[test]
    fn files_follow_one_another() {
        let jobs = jobs(
            "[a]\nfilename=x\nsize=3m\noffset=1m\n[b]\nfilename=y\nsize=1m\n\
             [c]\nfilename=x\nsize=1m\n\
             [d]\nfilename=/dev/sda\noffset=2m\n",
        );
        let plan = plan(&jobs, 10 * MIB, Placement::Near, 0).unwrap();
        let mib = |region: &Region| {
            let FileRegion { file, start, bytes, .. } = region.files[0];
            (plan.files[file as usize].at / MIB, start / MIB, bytes / MIB)
        };
        let all: Vec<_> = plan.regions.iter().map(|regions| mib(&regions[0])).collect();
        // x is 4 MiB long, because a reaches that far; y is after it; the device is itself.
        assert_eq!(all, [(0, 1, 3), (4, 0, 1), (0, 0, 1), (0, 2, 8)]);
    }

    /// Does each clone get its own file, or its own place in a shared one?
    #[test]
    fn clones_get_their_own_place() {
        let jobs = jobs(
            "[a]\nsize=2m\nnumjobs=2\n\
             [b]\nfilename=z\nsize=1m\nnumjobs=2\noffset_increment=4m\n",
        );
        let plan = plan(&jobs, 64 * MIB, Placement::Near, 0).unwrap();
        assert_eq!(plan.files.iter().map(|file| file.at / MIB).collect::<Vec<_>>(), [0, 2, 4]);
        let starts: Vec<_> =
            plan.regions[1].iter().map(|region| region.files[0].start / MIB).collect();
        assert_eq!(starts, [0, 4]);
    }

    /// Two files of 2 MiB on 64 MiB: far apart at 0 and 2 + (64 - 4) / 2 = 32; in pieces of 1 MiB
    /// at 0 2 and 1 3.
    #[test]
    fn files_lie_as_they_are_placed() {
        let jobs = jobs("[a]\nsize=2m\nnumjobs=2\n");
        let at = |placement, offset: u64| {
            let plan = plan(&jobs, 64 * MIB, placement, 0).unwrap();
            plan.files.iter().map(|file| file.locate(offset).0 / MIB).collect::<Vec<_>>()
        };
        assert_eq!(at(Placement::Far, MIB), [1, 33]);
        assert_eq!(at(Placement::Interleaved(MIB), 0), [0, 1]);
        assert_eq!(at(Placement::Interleaved(MIB), MIB), [2, 3]);
    }

    /// Three files of one job share its size; with a filesize each has that, and `size` is the
    /// amount of I/O.
    #[test]
    fn several_files_share_the_size() {
        let of = |text: &str| {
            let region =
                plan(&jobs(text), 64 * MIB, Placement::Near, 0).unwrap().regions[0][0].clone();
            (region.files.iter().map(|file| file.bytes).collect::<Vec<_>>(), region.io_bytes)
        };
        assert_eq!(of("[a]\nsize=3m\nnrfiles=3\n"), (vec![MIB; 3], 3 * MIB));
        assert_eq!(of("[a]\nsize=3m\nfilesize=2m\nnrfiles=3\n"), (vec![2 * MIB; 3], 3 * MIB));
        assert_eq!(of("[a]\nsize=4m\nfilename=x:y\n"), (vec![2 * MIB; 2], 4 * MIB));
    }

    /// Does the first file lie among the others, in pieces whose size the seed gives, 4 to 12 KiB
    /// for 8? With pieces of P the first one's begin at 0, 2P, 4P, and those of the second at P,
    /// 3P; the third begins after the MiB of the second, in the next odd place.
    #[test]
    fn the_first_lies_among_the_others() {
        let text = "[a]\nfilename=a\nsize=1m\n[b]\nfilename=b\nsize=1m\n[c]\nfilename=c\nsize=1m\n";
        let of = |seed| plan(&jobs(text), 64 * MIB, Placement::Among(8192), seed).unwrap().files;
        let mut pieces = Vec::new();
        for seed in 0..50 {
            let [a, b, c] = of(seed)[..] else { panic!("three files") };
            let piece = a.piece;
            assert!((4096..=12_288).contains(&piece) && piece.is_multiple_of(4096), "{piece}");
            let begins = |file: &Extent, nth: u64| file.locate(nth * piece).0;
            assert_eq!([0, 1, 2].map(|nth| begins(&a, nth)), [0, 2 * piece, 4 * piece]);
            assert_eq!([0, 1].map(|nth| begins(&b, nth)), [piece, 3 * piece]);
            assert_eq!(begins(&c, 0), (2 * MIB.div_ceil(piece) + 1) * piece);
            pieces.push(piece);
        }
        pieces.sort_unstable();
        pieces.dedup();
        assert_eq!(pieces, [4096, 8192, 12_288], "all sizes are drawn");
        assert_eq!(of(7), of(7));
    }

    /// Is a file that does not fit refused, with the job and the remedy?
    #[test]
    fn a_file_that_does_not_fit_is_refused() {
        let problem =
            plan(&jobs("[big]\nfilename=x\nsize=2m\n"), MIB, Placement::Near, 0).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "t.fio:1: file `x` would end at byte 2097152 of a device of 1048576; make \
             `size` smaller or \
             let jobs share a `filename`: `[big]`"
        );
    }
}
