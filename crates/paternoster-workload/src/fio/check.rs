// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check: what must hold for a job as a whole, after its last option.
//!
//! Depths that were not given are filled in here, so that the public fields need no second look.

use crate::direction::Direction;

use super::job::{Engine, Job};
use super::strides::{Strides, ZoneMode};
use super::value::Amount;

/// Fills in what depends on several options, and finds what cannot be run.
///
/// # Errors
/// What is missing, and what would be right.
pub(super) fn complete(job: &mut Job, notes: &mut Vec<String>) -> Result<(), String> {
    depths(job);
    if job.queue.engine == Engine::Sync && job.queue.iodepth > 1 {
        notes.push(format!(
            "engine `{}` has one I/O in flight whatever iodepth says; use libaio for more",
            job.queue.engine_name
        ));
    }
    if job.time.time_based && job.time.runtime.is_none() {
        job.time.time_based = false;
        notes.push(format!(
            "job `{}` is time_based without a runtime: it ends after its size instead",
            job.name
        ));
    }
    buffered_engine(job, notes);
    job.region.strides.complete()?;
    zones_of_open_files(job, notes);
    job.pacing.latency_goal.check()?;
    job.ours.frames.check(job, notes)?;
    job.ours.changes.check(job, notes)?;
    job.priority.command_priority.check(job.queue.engine)?;
    rates(job)?;
    poisson(job)?;
    if job.queue.engine == Engine::Cpu {
        return cpu_load(job);
    }
    if job.replay.is_used() {
        // The log says where and how much.
        return replay(job, notes);
    }
    if let Some((low, high)) = job.files.filesize_range.filter(|(low, high)| low > high) {
        // fio 3.33 fails to lay the files out, or does not end; null has none.
        if job.queue.engine != Engine::Null {
            return Err(format!(
                "filesize goes from {low} to {high} bytes: write the lesser one first"
            ));
        }
        job.files.filesize_range = Some((high, low));
    }
    whole_sectors(job)?;
    sizes(job)?;
    small_files(job, notes);
    empty_regions(job, notes);
    Ok(())
}

/// Clones whose region begins where their file of given size ends, for which fio makes no I/O.
fn empty_regions(job: &Job, notes: &mut Vec<String>) {
    let (Some(size), Amount::Bytes(offset), Amount::Bytes(step)) =
        (job.files.filesize, job.region.offset, job.region.offset_increment)
    else {
        return;
    };
    let begins = |clone: u32| offset.saturating_add(step.saturating_mul(clone.into()));
    if let Some(clone) = (0..job.clones.numjobs).find(|&clone| begins(clone) == size) {
        notes.push(format!(
            "job `{}`: clone {clone} begins where its file of {size} bytes ends: it does no I/O",
            job.name
        ));
    }
}

/// Several files with less than a block each, for which fio makes no I/O either.
fn small_files(job: &Job, notes: &mut Vec<String>) {
    let files = job.file_names(0).len() as u64;
    let least = job.blocks.block_size.iter().map(|(least, _)| *least).min().unwrap_or(1);
    if let (Some(Amount::Bytes(size)), None, None) =
        (job.region.size, job.files.filesize, job.files.filesize_range)
        && files > 1
        && size / files < least
    {
        notes.push(format!(
            "job `{}` has {files} files of {} bytes, less than its smallest block of {least}: it \
             does no I/O",
            job.name,
            size / files
        ));
    }
}

/// Zones are of one open file: with more of them allowed fio has no zones at all.
fn zones_of_open_files(job: &mut Job, notes: &mut Vec<String>) {
    if job.region.strides.mode == ZoneMode::Strided && job.files.open_files > Some(1) {
        job.region.strides = Strides::default();
        notes.push(format!(
            "job `{}` has openfiles above 1: beside it zonemode=strided has no effect, as in fio",
            job.name
        ));
    }
}

/// mmap and splice go through the page cache whatever the job says.
fn buffered_engine(job: &mut Job, notes: &mut Vec<String>) {
    if !matches!(job.queue.engine_name.as_str(), "mmap" | "splice") {
        return;
    }
    if job.cache.direct == Some(true) {
        notes.push(format!("engine `{}` is buffered; direct=1 is ignored", job.queue.engine_name));
    }
    job.cache.direct = Some(false);
}

/// With `rate_process=poisson` and a rate of any direction fio 3.33 divides by the rate of each
/// I/O's own one: where that has none it is killed (signal 8). Without any rate there is no
/// process.
fn poisson(job: &Job) -> Result<(), String> {
    let rated = |way: Direction| {
        let rates = [job.pacing.rate[way as usize], job.pacing.rate_iops[way as usize]];
        rates.into_iter().flatten().any(|rate| rate > 0)
    };
    if !job.pacing.rates.poisson || !Direction::ALL.into_iter().any(rated) {
        return Ok(());
    }
    let uses = job.order.rw.kind.uses();
    match Direction::ALL.into_iter().find(|&way| uses[way as usize] && !rated(way)) {
        Some(way) => Err(format!(
            "job `{}` has rate_process=poisson, and a rate, but none for its {}s, with which \
             fio is killed: give them one",
            job.name,
            way.name()
        )),
        None => Ok(()),
    }
}

fn rates(job: &Job) -> Result<(), String> {
    let pairs = [
        ("rate_min", &job.pacing.rates.min, "rate", &job.pacing.rate),
        ("rate_iops_min", &job.pacing.rates.iops_min, "rate_iops", &job.pacing.rate_iops),
    ];
    for (least_name, least, most_name, most) in pairs {
        for (least, most) in least.iter().zip(most) {
            if let (Some(least), Some(most)) = (least, most)
                && least > most
            {
                return Err(format!(
                    "job `{}` has {least_name}={least} above {most_name}={most}",
                    job.name
                ));
            }
        }
    }
    Ok(())
}

fn cpu_load(job: &Job) -> Result<(), String> {
    if job.queue.cpu_load.percent == 0 {
        return Err(format!("job `{}` burns CPU and needs a cpuload, in percent", job.name));
    }
    if job.time.runtime.is_none() && !job.queue.cpu_load.ends_with_io {
        return Err(format!(
            "job `{}` burns CPU without end: give it a runtime, or exit_on_io_done",
            job.name
        ));
    }
    Ok(())
}

fn replay(job: &mut Job, notes: &mut Vec<String>) -> Result<(), String> {
    if job.replay.record.take().is_some() {
        notes.push("read_iolog overrides write_iolog, as in fio".to_owned());
    }
    Ok(())
}

/// Direct I/O is made of whole sectors.
fn whole_sectors(job: &Job) -> Result<(), String> {
    const SECTOR: u64 = 512;
    let ranges = job.blocks.block_size.iter().flat_map(|&(least, greatest)| [least, greatest]);
    let splits = job.blocks.bssplit.iter().flatten().map(|&(size, _)| size);
    let own = [job.region.offset.of(0), job.region.offset_increment.of(0)];
    let aligns = job.blocks.block_align.iter().flatten().copied();
    let mut all = ranges.chain(splits).chain(aligns).chain(own);
    match all.find(|bytes| !bytes.is_multiple_of(SECTOR)) {
        Some(bytes) if job.queue.engine != Engine::Null && job.cache.direct == Some(true) => {
            Err(format!(
                "job `{}` has a block size, alignment or offset of {bytes} bytes, which is no \
                 multiple of {SECTOR}: direct I/O is made of whole sectors",
                job.name
            ))
        }
        _ => Ok(()),
    }
}

fn depths(job: &mut Job) {
    let depth = job.queue.iodepth;
    let or_depth = |given: u32| if given == 0 { depth } else { given.min(depth) };
    job.queue.iodepth_low = or_depth(job.queue.iodepth_low);
    job.queue.iodepth_batch_submit = or_depth(job.queue.iodepth_batch_submit);
    job.queue.iodepth_batch_complete_min = job.queue.iodepth_batch_complete_min.min(depth);
    let least = job.queue.iodepth_batch_complete_min.max(1);
    job.queue.iodepth_batch_complete_max = job.queue.iodepth_batch_complete_max.clamp(least, depth);
}

/// A device has its own size; a file that the simulator lays out does not.
fn sizes(job: &Job) -> Result<(), String> {
    let least = job.blocks.block_size.iter().map(|(least, _)| *least).min().unwrap_or(1);
    if let Some(Amount::Bytes(size)) = job.region.size
        && size < least
    {
        return Err(format!(
            "job `{}` has a size of {size} bytes, less than its smallest block of {least}",
            job.name
        ));
    }
    // A percentage of files of given size is one of all of them, whatever the size of the job.
    let files = u64::try_from(job.file_names(0).len()).unwrap_or(u64::MAX);
    let whole = match (job.files.filesize, job.region.size) {
        (Some(each), _) => Some(each.saturating_mul(files)),
        (None, Some(Amount::Bytes(size))) => Some(size),
        _ => None,
    };
    if let (Some(whole), Some(io_size @ Amount::Percent(_))) = (whole, job.region.io_size)
        && io_size.of(whole) < least
        && !job.on_devices()
    {
        return Err(format!(
            "job `{}` has an io_size of {} bytes, less than its smallest block of {least}",
            job.name,
            io_size.of(whole)
        ));
    }
    let of_size = match job.region.size {
        Some(Amount::Bytes(size)) if size > 0 => Some(size / files.max(1)),
        _ => None,
    };
    if let Some(each) = job.files.filesize.or(of_size)
        && job.files.filesize_range.is_none()
        && each.saturating_mul(files) < least
        && !job.on_devices()
    {
        return Err(format!(
            "job `{}` has {files} files of {each} bytes, together less than its smallest block of \
             {least}",
            job.name
        ));
    }
    if job.on_devices() || job.files.filesize.is_some() {
        return Ok(());
    }
    match job.region.size {
        Some(Amount::Bytes(bytes)) if bytes > 0 => Ok(()),
        Some(Amount::Percent(_)) => Err(format!(
            "job `{}` has a size in percent of a file whose size is unknown: \
             give filesize, or size in bytes",
            job.name
        )),
        _ => Err(format!(
            "job `{}` works on a file and needs a size: write `size=64m`, \
             or name a device as in `filename=/dev/sda`",
            job.name
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::job::Kind;

    /// Are depths that were not given those of FIO-53? Saw-tooth 16 -> 4 is kept.
    #[test]
    fn depths_are_filled_in() {
        let mut job = Job::default();
        job.region.size = Some(Amount::Bytes(4096));
        (job.queue.iodepth, job.queue.engine) = (16, Engine::Async);
        let mut saw = job.clone();
        (saw.queue.iodepth_low, saw.queue.iodepth_batch_submit) = (4, 0);
        complete(&mut job, &mut Vec::new()).unwrap();
        let found = (
            job.queue.iodepth_low,
            job.queue.iodepth_batch_submit,
            job.queue.iodepth_batch_complete_max,
        );
        assert_eq!(found, (16, 1, 1));
        complete(&mut saw, &mut Vec::new()).unwrap();
        assert_eq!((saw.queue.iodepth_low, saw.queue.iodepth_batch_submit), (4, 16));
    }

    /// Is a Poisson process refused where fio 3.33 is killed by it, and nowhere else? (Seven jobs
    /// were run with fio: those without a rate for a direction that they use were killed.)
    #[test]
    fn a_poisson_process_needs_a_rate_for_each_direction() {
        let refused = |kind: Kind, rate_iops: [Option<u64>; 3]| {
            let mut job = Job::default();
            job.order.rw.kind = kind;
            (job.pacing.rate_iops, job.pacing.rates.poisson) = (rate_iops, true);
            poisson(&job).err()
        };
        let (reads, writes) = ([Some(100), None, None], [None, Some(100), None]);
        assert_eq!(refused(Kind::ReadOnly, reads), None);
        assert_eq!(refused(Kind::ReadWrite, [Some(100); 3]), None);
        assert_eq!(refused(Kind::ReadWrite, [None; 3]), None);
        let message = refused(Kind::ReadWrite, reads).unwrap();
        assert!(message.contains("none for its writes"), "{message}");
        for (kind, rates) in [
            (Kind::ReadOnly, writes),
            (Kind::ReadWrite, writes),
            (Kind::TrimOnly, writes),
            (Kind::TrimWrite, writes),
            (Kind::TrimWrite, [None, None, Some(100)]),
        ] {
            assert!(refused(kind, rates).is_some(), "{kind:?} {rates:?}");
        }
    }
}
