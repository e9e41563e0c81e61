// SPDX-License-Identifier: MIT OR Apache-2.0
//! When: options of clones, order, time and rates.
//!
//! Source: FIO-18, FIO-19, FIO-46, FIO-47, FIO-60 to FIO-66.

use crate::fio::job::Job;
use crate::fio::pace::rates;
use crate::fio::value::{self, MICROSECOND, Reader};

/// Largest 32-bit number, for options without a narrower bound.
const U32_MAX: u64 = 0xffff_ffff;

/// Options of clones, order and time.
pub(super) fn when(
    job: &mut Job,
    name: &str,
    text: &str,
    read: &mut Reader<'_>,
) -> Result<bool, String> {
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
        "thinktime_blocks" => job.thinktime_blocks = Some(read.small(text, 1, U32_MAX)?),
        "thinktime_blocks_type" => {
            job.think_at_issue = match text {
                "complete" => false,
                "issue" => true,
                _ => return Err(format!("`{text}` is neither complete nor issue")),
            }
        }
        "thinktime_iotime" => job.think_io_time = read.seconds(text)?,
        "rate" => rates(&mut job.rate, text, read)?,
        "rate_iops" => rates(&mut job.rate_iops, text, read)?,
        "change" => job.changes.add(text, read)?,
        "max_latency" => {
            for (place, text) in job.max_latency.iter_mut().zip(value::triple(text)?) {
                if let Some(text) = text {
                    *place = Some(read.time(text, MICROSECOND)?).filter(|time| time.0 > 0);
                }
            }
        }
        _ => {
            return Ok(job.ending.set(name, text)?
                || job.rates.set(name, text, read)?
                || job.flow.set(name, text, read)?
                || job.frames.set(name, text, read)?
                || job.latency_goal.set(name, text, read)?);
        }
    }
    Ok(true)
}
