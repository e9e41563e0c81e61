// SPDX-License-Identifier: MIT OR Apache-2.0
//! Apply: one option with its value, written into a job.
//!
//! The table of `option.rs` says which options exist; here is what the supported ones do. An option
//! given twice counts as given last. Options that exclude each other (`bs`, `bsrange`, `bssplit`;
//! `direct`, `buffered`; `rwmixread`, `rwmixwrite`) undo each other in the same way.
//!
//! Source: spec `fio.md` section 3.

use super::job::{Engine, Generator, Job, Kind, Pattern, Sequencer};
use super::option::{self, FioOption, Status};
use super::value::{self, Amount, MICROSECOND, MILLISECOND, Reader};

/// The largest block. Larger ones make no sense on disks and would overflow sums of them.
const BLOCK_SIZE_MAX: u64 = 1 << 30;
/// The deepest queue.
const DEPTH_MAX: u64 = 1 << 16;
/// Sizes in one list of `bssplit`.
const SPLITS_MAX: usize = 64;
/// Files of one job. Each of 4096 jobs may inherit a list, so it must not be long.
const FILES_MAX: usize = 256;
/// Percentiles in a report, as in fio.
const PERCENTILES_MAX: usize = 20;
/// Largest 32-bit number, for options without a narrower bound.
const U32_MAX: u64 = 0xffff_ffff;

/// Writes `name=value` into `job`; `None` is the bare option.
///
/// # Errors
/// What is wrong with the option or its value, and what would be right.
pub(super) fn apply(
    job: &mut Job,
    kilo: u64,
    name: &str,
    value: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let Some(option) = option::find(name) else {
        return Err(unknown(name));
    };
    let given = value.unwrap_or("1");
    match option.status {
        Status::Supported if value.is_none_or(str::is_empty) && takes_text(option) => {
            Err(format!("`{name}` needs a value: {}", option.help))
        }
        Status::Supported => {
            let mut reader = Reader::new(kilo, notes);
            supported(job, option, given, &mut reader)
        }
        Status::Ignored => {
            notes.push(format!("`{name}` is accepted and ignored ({})", option.help));
            Ok(())
        }
        Status::NotYet { harmless, .. } if harmless.contains(&given) => Ok(()),
        Status::NotYet { hint, .. } => {
            Err(format!("`{name}` is known to fio but not supported yet ({}): {hint}", option.help))
        }
        Status::Refused => Err(format!(
            "`{name}` is for {}, which a simulator of local disks does not have",
            option.help
        )),
    }
}

/// The sentence about an option that nobody knows.
fn unknown(name: &str) -> String {
    match option::nearest(name) {
        Some(near) => format!("unknown option `{name}`; did you mean `{near}`?"),
        None => format!("unknown option `{name}`: fio 3.33 has none like it; leave it out"),
    }
}

/// Options that mean nothing as a bare word; the others are numbers, of which bare is 1.
fn takes_text(option: &FioOption) -> bool {
    matches!(
        option.name,
        "name"
            | "description"
            | "rw"
            | "rw_sequencer"
            | "bs"
            | "bsrange"
            | "bssplit"
            | "random_generator"
            | "filename"
            | "directory"
            | "filename_format"
            | "ioengine"
            | "size"
            | "io_size"
            | "cgroup"
            | "percentile_list"
    )
}

fn supported(
    job: &mut Job,
    option: &FioOption,
    text: &str,
    read: &mut Reader<'_>,
) -> Result<(), String> {
    let name = option.name;
    let known = what(job, name, text, read)?
        || place(job, name, text, read)?
        || how(job, name, text, read)?
        || when(job, name, text, read)?
        || who(job, name, text, read)?;
    if known { Ok(()) } else { Err(format!("`{name}` has no reader")) }
}

/// Options of directions, sizes and order. False if `name` is none of them, as in all of these.
fn what(job: &mut Job, name: &str, text: &str, read: &mut Reader<'_>) -> Result<bool, String> {
    match name {
        "name" => text.clone_into(&mut job.name),
        "description" => job.description = Some(text.to_owned()),
        "rw" => (job.rw, job.rw_text) = pattern(text, read)?,
        "rwmixread" => job.rwmixread = read.small(text, 0, 100)?,
        "rwmixwrite" => job.rwmixread = 100 - read.small::<u8>(text, 0, 100)?,
        "rw_sequencer" => job.rw_sequencer = sequencer(text)?,
        "percentage_random" => {
            for (place, text) in job.percentage_random.iter_mut().zip(value::triple(text)?) {
                if let Some(text) = text {
                    *place = read.small(text, 0, 100)?;
                }
            }
        }
        "bs" => block_sizes(job, text, |text| {
            let size = read.integer(text, 1, BLOCK_SIZE_MAX)?;
            Ok((size, size))
        })?,
        "bsrange" => block_sizes(job, text, |text| {
            let (low, high) = read.range(text)?;
            if low == 0 || high > BLOCK_SIZE_MAX {
                return Err(format!("`{text}` is out of range: blocks have 1 byte to 1g"));
            }
            Ok((low, high))
        })?,
        "bssplit" => splits(job, text, read)?,
        "bs_unaligned" => job.bs_unaligned = value::boolean(text)?,
        "bs_is_seq_rand" => job.bs_is_seq_rand = value::boolean(text)?,
        "ba" => job.block_align = Some(read.integer(text, 0, BLOCK_SIZE_MAX)?).filter(|a| *a > 0),
        "norandommap" => job.norandommap = value::boolean(text)?,
        "random_generator" => job.random_generator = generator(text)?,
        "randseed" => job.randseed = Some(read.size(text)?),
        "randrepeat" => job.randrepeat = value::boolean(text)?,
        "allrandrepeat" => job.allrandrepeat = value::boolean(text)?,
        // The section's reader was made with it, before any other option.
        "kb_base" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

/// Options of files and regions.
fn place(job: &mut Job, name: &str, text: &str, read: &mut Reader<'_>) -> Result<bool, String> {
    match name {
        "filename" => job.filenames = filenames(text)?,
        "directory" => job.directory = Some(text.to_owned()),
        "filename_format" => job.filename_format = Some(text.to_owned()),
        // Zero is fio's way to say "not given".
        "size" => job.size = Some(read.amount(text)?).filter(|size| *size != Amount::Bytes(0)),
        "io_size" => {
            job.io_size = Some(read.amount(text)?).filter(|size| *size != Amount::Bytes(0));
        }
        "offset" => job.offset = read.amount(text)?,
        "offset_increment" => job.offset_increment = read.amount(text)?,
        "filesize" => {
            let (low, high) = read.range(text)?;
            if low != high {
                return Err(format!("`{text}`: files of random size are not supported yet"));
            }
            job.filesize = Some(low).filter(|size| *size > 0);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Options of the cache, the engine and the depth.
fn how(job: &mut Job, name: &str, text: &str, read: &mut Reader<'_>) -> Result<bool, String> {
    match name {
        "direct" => job.direct = Some(value::boolean(text)?),
        "buffered" => job.direct = Some(!value::boolean(text)?),
        "ioengine" => {
            job.engine = engine(text)?;
            text.clone_into(&mut job.engine_name);
        }
        "invalidate" => job.invalidate = value::boolean(text)?,
        _ if job.syncs.set(name, text, read)? => {}
        "iodepth" => job.iodepth = read.small(text, 1, DEPTH_MAX)?,
        "iodepth_low" => job.iodepth_low = read.small(text, 0, DEPTH_MAX)?,
        "iodepth_batch_submit" => job.iodepth_batch_submit = read.small(text, 0, DEPTH_MAX)?,
        "iodepth_batch_complete_min" => {
            job.iodepth_batch_complete_min = read.small(text, 0, DEPTH_MAX)?;
        }
        "iodepth_batch_complete_max" => {
            job.iodepth_batch_complete_max = read.small(text, 0, DEPTH_MAX)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Options of clones, order and time.
fn when(job: &mut Job, name: &str, text: &str, read: &mut Reader<'_>) -> Result<bool, String> {
    match name {
        "numjobs" => job.numjobs = read.small(text, 1, U32_MAX)?,
        "stonewall" => job.stonewall = value::boolean(text)?,
        "new_group" => job.new_group = value::boolean(text)?,
        "group_reporting" => job.group_reporting = value::boolean(text)?,
        "startdelay" => job.start_delay = read.time_range(text)?,
        "runtime" => job.runtime = Some(read.seconds(text)?).filter(|time| time.0 > 0),
        "time_based" => job.time_based = value::boolean(text)?,
        "ramp_time" => job.ramp_time = read.seconds(text)?,
        "loops" => job.loops = read.integer(text, 1, U32_MAX)?,
        "number_ios" => job.number_ios = Some(read.size(text)?).filter(|count| *count > 0),
        "thinktime" => job.thinktime = read.time(text, MICROSECOND)?,
        "thinktime_spin" => job.thinktime_spin = read.time(text, MICROSECOND)?,
        "thinktime_blocks" => job.thinktime_blocks = read.small(text, 1, U32_MAX)?,
        "rate" => rates(&mut job.rate, text, read)?,
        "rate_iops" => rates(&mut job.rate_iops, text, read)?,
        "bwavgtime" => {
            job.bwavgtime = read.time(text, MILLISECOND)?;
            if job.bwavgtime.0 == 0 {
                return Err("a window of samples cannot be empty".to_owned());
            }
        }
        "percentile_list" => job.percentile_list = value::percentages(text, PERCENTILES_MAX)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Options of priorities and groups.
fn who(job: &mut Job, name: &str, text: &str, read: &mut Reader<'_>) -> Result<bool, String> {
    match name {
        "prio" => job.prio = Some(read.small(text, 0, 7)?),
        "prioclass" => job.prioclass = Some(read.small(text, 0, 3)?),
        "nice" => {
            let nice = read.signed(text)?;
            job.nice = i8::try_from(nice)
                .ok()
                .filter(|nice| (-20..=19).contains(nice))
                .ok_or_else(|| format!("{nice} is out of range: it must be from -20 to 19"))?;
        }
        "cgroup" => job.cgroup = Some(text.to_owned()),
        "cgroup_weight" => job.cgroup_weight = Some(read.small(text, 100, 1000)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// `randread:8` as a pattern and its name in reports.
fn pattern(text: &str, read: &mut Reader<'_>) -> Result<(Pattern, &'static str), String> {
    let (word, suffix) = match text.split_once(':') {
        Some((word, suffix)) => (word, Some(suffix)),
        None => (text, None),
    };
    let (random, kind, name) = match word {
        "read" => (false, Kind::ReadOnly, "read"),
        "write" => (false, Kind::WriteOnly, "write"),
        "trim" => (false, Kind::TrimOnly, "trim"),
        "randread" => (true, Kind::ReadOnly, "randread"),
        "randwrite" => (true, Kind::WriteOnly, "randwrite"),
        "randtrim" => (true, Kind::TrimOnly, "randtrim"),
        "rw" | "readwrite" => (false, Kind::ReadWrite, "rw"),
        "randrw" => (true, Kind::ReadWrite, "randrw"),
        "trimwrite" => (false, Kind::TrimWrite, "trimwrite"),
        "randtrimwrite" => (true, Kind::TrimWrite, "randtrimwrite"),
        _ => {
            return Err(format!(
                "`{word}` is no pattern: use read, write, trim, rw, trimwrite, \
                 or one of them with rand in front"
            ));
        }
    };
    let skip = match suffix {
        None => i64::from(random),
        Some(suffix) => read.signed(suffix)?,
    };
    if random && skip < 1 {
        return Err(format!("`{text}`: a random pattern's suffix counts I/Os, from 1"));
    }
    Ok((Pattern { random, kind, skip }, name))
}

fn filenames(text: &str) -> Result<Vec<String>, String> {
    let names = value::names(text);
    if names.len() > FILES_MAX {
        return Err(format!("there are {} files, at most {FILES_MAX} fit", names.len()));
    }
    Ok(names)
}

fn sequencer(text: &str) -> Result<Sequencer, String> {
    match text {
        "sequential" => Ok(Sequencer::Sequential),
        "identical" => Ok(Sequencer::Identical),
        _ => Err(format!("`{text}` is neither sequential nor identical")),
    }
}

fn generator(text: &str) -> Result<Generator, String> {
    match text {
        "tausworthe" => Ok(Generator::Tausworthe),
        "tausworthe64" | "lfsr" => {
            Err(format!("`{text}` is not supported yet: use random_generator=tausworthe"))
        }
        _ => Err(format!("`{text}` is no generator: use tausworthe")),
    }
}

fn engine(text: &str) -> Result<Engine, String> {
    match text {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Ok(Engine::Sync),
        "libaio" | "io_uring" | "posixaio" => Ok(Engine::Async),
        "null" => Ok(Engine::Null),
        "mmap" | "splice" | "cpuio" | "sg" | "io_uring_cmd" | "windowsaio" | "solarisaio" => {
            Err(format!("engine `{text}` is not supported yet: use psync or libaio"))
        }
        "external" | "net" | "netsplice" | "rdma" | "rbd" | "rados" | "http" | "nfs"
        | "libhdfs" | "gfapi" | "gfapi_async" | "libiscsi" | "nbd" | "mtd" | "dev-dax"
        | "libpmem" => {
            Err(format!("engine `{text}` does not drive a local disk: use psync or libaio"))
        }
        _ => Err(format!(
            "unknown engine `{text}`: use sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, \
             posixaio or null"
        )),
    }
}

/// Sets the ranges that `text` gives, each read by `read`; a split of that direction is undone.
fn block_sizes(
    job: &mut Job,
    text: &str,
    mut read: impl FnMut(&str) -> Result<(u64, u64), String>,
) -> Result<(), String> {
    for (direction, text) in value::triple(text)?.into_iter().enumerate() {
        if let Some(text) = text {
            job.block_size[direction] = read(text)?;
            job.bssplit[direction].clear();
        }
    }
    Ok(())
}

fn splits(job: &mut Job, text: &str, read: &mut Reader<'_>) -> Result<(), String> {
    for (direction, text) in value::triple(text)?.into_iter().enumerate() {
        let Some(text) = text else { continue };
        let split = split(text, read)?;
        let sizes = || split.iter().map(|(size, _)| *size);
        if let (Some(low), Some(high)) = (sizes().min(), sizes().max()) {
            job.block_size[direction] = (low, high);
        }
        job.bssplit[direction] = split;
    }
    Ok(())
}

/// `size/percent:size/percent`; sizes without a percent share what is left evenly.
fn split(text: &str, read: &mut Reader<'_>) -> Result<Vec<(u64, u8)>, String> {
    let mut entries = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let size = read.integer(size, 1, BLOCK_SIZE_MAX)?;
        let percent = match percent {
            "" => None,
            percent => Some(read.small::<u8>(percent, 0, 100)?),
        };
        entries.push((size, percent));
    }
    if entries.len() > SPLITS_MAX {
        return Err(format!("`{text}` has {} sizes, at most {SPLITS_MAX} fit", entries.len()));
    }
    let sum: u64 = entries.iter().filter_map(|(_, percent)| percent.map(u64::from)).sum();
    let Some(left) = 100_u64.checked_sub(sum) else {
        return Err(format!("`{text}` adds up to {sum} %, which is more than 100 %"));
    };
    let blank = u64::try_from(entries.iter().filter(|(_, p)| p.is_none()).count()).unwrap_or(1);
    // At most 100, so it fits.
    let share = u8::try_from(left / blank.max(1)).unwrap_or(100);
    let mut split: Vec<(u64, u8)> =
        entries.into_iter().map(|(size, percent)| (size, percent.unwrap_or(share))).collect();
    split.sort_by_key(|(_, percent)| *percent);
    Ok(split)
}

fn rates(rates: &mut [Option<u64>; 3], text: &str, read: &mut Reader<'_>) -> Result<(), String> {
    for (rate, text) in rates.iter_mut().zip(value::triple(text)?) {
        if let Some(text) = text {
            *rate = Some(read.size(text)?).filter(|rate| *rate > 0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::option::OPTIONS;
    use super::*;

    fn job(options: &[(&str, &str)]) -> Job {
        let mut job = Job::default();
        for (name, value) in options {
            apply(&mut job, 1024, name, Some(value), &mut Vec::new()).unwrap();
        }
        job
    }

    fn error(name: &str, value: &str) -> String {
        apply(&mut Job::default(), 1024, name, Some(value), &mut Vec::new()).unwrap_err()
    }

    /// Has every supported option a reader?
    #[test]
    fn supported_options_are_read() {
        for option in OPTIONS.iter().filter(|option| option.status == Status::Supported) {
            let result = apply(&mut Job::default(), 1024, option.name, Some("1"), &mut Vec::new());
            assert!(!result.is_err_and(|message| message.contains("no reader")), "{}", option.name);
        }
    }

    /// Do patterns and their suffixes read as spec 3.1 says?
    #[test]
    fn patterns() {
        let rw = job(&[("rw", "randread:8")]).rw;
        assert_eq!(rw, Pattern { random: true, kind: Kind::ReadOnly, skip: 8 });
        assert_eq!(job(&[("rw", "read:-8k")]).rw.skip, -8192);
        assert_eq!(job(&[("rw", "readwrite")]).rw_text, "rw");
        assert_eq!(job(&[("rw", "randrw")]).rw.skip, 1);
        assert!(error("rw", "randread:0").contains("from 1"));
    }

    /// Are splits shared out, sorted and checked? 4k/60:16k/40 for reads, 8k alone is 100 %.
    #[test]
    fn splits_are_sorted_by_share() {
        let split = job(&[("bssplit", "4k/60:16k/40,8k")]);
        assert_eq!(split.bssplit[0], [(16_384, 40), (4096, 60)]);
        assert_eq!(split.bssplit[1], [(8192, 100)]);
        assert_eq!(split.block_size, [(4096, 16_384), (8192, 8192), (8192, 8192)]);
        // 70 % are left for two sizes: 35 each.
        let blank = job(&[("bssplit", "4k/30:8k:16k/")]);
        assert_eq!(blank.bssplit[0], [(4096, 30), (8192, 35), (16_384, 35)]);
        assert!(error("bssplit", "4k/60:8k/41").contains("101 %"));
        assert!(job(&[("bssplit", "4k/30:8k"), ("bs", "2k")]).bssplit[0].is_empty());
    }

    /// Does the option given last win where two say the same thing?
    #[test]
    fn last_option_wins() {
        assert_eq!(job(&[("rwmixread", "70"), ("rwmixwrite", "20")]).rwmixread, 80);
        assert_eq!(job(&[("direct", "1"), ("buffered", "1")]).direct, Some(false));
        assert_eq!(job(&[]).direct, None);
        assert_eq!(job(&[("rate", "1k,")]).rate, [Some(1024), None, None]);
        assert_eq!(job(&[("rate", "1k,2k")]).rate, [Some(1024), Some(2048), Some(2048)]);
    }

    /// Do unsupported options say what they are and what to do instead?
    #[test]
    fn refusals_are_helpful() {
        assert_eq!(
            error("fsync", "16"),
            "`fsync` is known to fio but not supported yet (fsync after so many writes): \
             syncs come with the page cache; leave the option out"
        );
        assert!(error("ioengine", "rbd").contains("local disk"));
        assert!(error("hostname", "x").contains("network"));
        assert_eq!(error("prio", "8"), "8 is out of range: it must be from 0 to 7");
        let mut notes = Vec::new();
        apply(&mut Job::default(), 1024, "fsync", Some("0"), &mut notes).unwrap();
        assert!(notes.is_empty());
        apply(&mut Job::default(), 1024, "thread", None, &mut notes).unwrap();
        assert_eq!(notes, ["`thread` is accepted and ignored (threads instead of processes)"]);
    }
}
