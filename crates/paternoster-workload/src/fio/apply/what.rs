// SPDX-License-Identifier: MIT OR Apache-2.0
//! What: options of directions, block sizes and order.
//!
//! Source: FIO-30 to FIO-36, FIO-45, FIO-50, FIO-51.

use crate::fio::distribution::Distribution;
use crate::fio::job::{Generator, Job, Kind, Pattern, Sequencer};
use crate::fio::value::{self, Reader};

/// The largest block. Larger ones make no sense on disks and would overflow sums of them.
const BLOCK_SIZE_MAX: u64 = 1 << 30;
/// Sizes in one list of `bssplit`.
const SPLITS_MAX: usize = 64;

/// Options of directions, sizes and order. Like its siblings, returns false if `name` is none of
/// them.
pub(super) fn what(
    job: &mut Job,
    name: &str,
    text: &str,
    read: &mut Reader<'_>,
) -> Result<bool, String> {
    match name {
        "name" => text.clone_into(&mut job.name),
        "description" => job.section.description = Some(text.to_owned()),
        "rw" => (job.order.rw, job.order.rw_text) = pattern(text, read)?,
        "rwmixread" => job.order.rwmixread = read.small(text, 0, 100)?,
        "rwmixwrite" => job.order.rwmixread = 100 - read.small::<u8>(text, 0, 100)?,
        "rw_sequencer" => job.order.rw_sequencer = sequencer(text)?,
        "percentage_random" => {
            for (place, text) in job.order.percentage_random.iter_mut().zip(value::triple(text)?) {
                if let Some(text) = text {
                    *place = read.small(text, 0, 100)?;
                }
            }
        }
        "bs" => {
            for (place, text) in value::triple(text)?.into_iter().enumerate() {
                let Some(text) = text else { continue };
                let size = read.integer(text, 1, BLOCK_SIZE_MAX)?;
                if !job.blocks.ranged[place] {
                    job.blocks.block_size[place] = (size, size);
                }
            }
        }
        "bsrange" => {
            for (place, text) in value::triple(text)?.into_iter().enumerate() {
                let Some(text) = text else { continue };
                let (low, high) = read.range(text)?;
                if low == 0 || high > BLOCK_SIZE_MAX {
                    return Err(format!("`{text}` is out of range: blocks have 1 byte to 1g"));
                }
                job.blocks.ranged[place] = true;
                job.blocks.block_size[place] = (low, high);
            }
        }
        "bssplit" => splits(job, text, read)?,
        "bs_unaligned" => job.blocks.bs_unaligned = value::boolean(text)?,
        "bs_is_seq_rand" => job.blocks.bs_is_seq_rand = value::boolean(text)?,
        "ba" => {
            for (place, text) in job.blocks.block_align.iter_mut().zip(value::triple(text)?) {
                if let Some(text) = text {
                    *place = Some(read.integer(text, 0, BLOCK_SIZE_MAX)?).filter(|a| *a > 0);
                }
            }
        }
        "norandommap" => job.random.norandommap = value::boolean(text)?,
        "random_generator" => job.random.random_generator = generator(text)?,
        "random_distribution" => job.random.random_distribution = Distribution::read(text, read)?,
        "randseed" => job.random.randseed = Some(read.size(text)?),
        "randrepeat" => job.random.randrepeat = value::boolean(text)?,
        "allrandrepeat" => job.random.allrandrepeat = value::boolean(text)?,
        // Already used when the section's reader was made, before any other option.
        "kb_base" => {}
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
        "tausworthe64" => Ok(Generator::Tausworthe64),
        "lfsr" => Ok(Generator::Lfsr),
        _ => Err(format!("`{text}` is no generator: use tausworthe, tausworthe64 or lfsr")),
    }
}

fn splits(job: &mut Job, text: &str, read: &mut Reader<'_>) -> Result<(), String> {
    for (direction, text) in value::triple(text)?.into_iter().enumerate() {
        let Some(text) = text else { continue };
        let split = split(text, read)?;
        let sizes = || split.iter().map(|(size, _)| *size);
        if let (Some(low), Some(high)) = (sizes().min(), sizes().max()) {
            job.blocks.block_size[direction] = (low, high);
            job.blocks.ranged[direction] = true;
        }
        job.blocks.bssplit[direction] = split;
    }
    Ok(())
}

/// `size/percent:size/percent`; sizes without a percent, and with one of 0, share what is left
/// evenly. A size alone needs none, and without one has no share at all: see `Sizes`.
fn split(text: &str, read: &mut Reader<'_>) -> Result<Vec<(u64, u8)>, String> {
    let mut entries = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let size = read.integer(size, 1, BLOCK_SIZE_MAX)?;
        let percent = match percent {
            "" => None,
            percent => Some(read.small::<u8>(percent, 0, 100)?).filter(|percent| *percent > 0),
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
    let share = if entries.len() > 1 { share } else { 0 };
    let mut split: Vec<(u64, u8)> =
        entries.into_iter().map(|(size, percent)| (size, percent.unwrap_or(share))).collect();
    split.sort_by_key(|(_, percent)| *percent);
    Ok(split)
}
