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
        "numjobs" => job.clones.numjobs = read.small(text, 1, U32_MAX)?,
        "stonewall" => job.clones.stonewall = value::boolean(text)?,
        "new_group" => job.clones.new_group = value::boolean(text)?,
        "group_reporting" => job.clones.group_reporting = value::boolean(text)?,
        "startdelay" => job.time.start_delay = read.time_range(text)?,
        "runtime" => job.time.runtime = Some(read.seconds(text)?).filter(|time| time.0 > 0),
        "time_based" => job.time.time_based = value::boolean(text)?,
        "ramp_time" => job.time.ramp_time = read.seconds(text)?,
        "loops" => job.region.loops = read.integer(text, 1, U32_MAX)?,
        "number_ios" => job.region.number_ios = Some(read.size(text)?).filter(|count| *count > 0),
        "thinktime" => job.think.thinktime = read.time(text, MICROSECOND)?,
        "thinktime_spin" => job.think.thinktime_spin = read.time(text, MICROSECOND)?,
        "thinktime_blocks" => job.think.thinktime_blocks = Some(read.small(text, 1, U32_MAX)?),
        "thinktime_blocks_type" => {
            job.think.think_at_issue = match text {
                "complete" => false,
                "issue" => true,
                _ => return Err(format!("`{text}` is neither complete nor issue")),
            }
        }
        "thinktime_iotime" => job.think.think_io_time = read.seconds(text)?,
        "rate" => rates(&mut job.pacing.rate, text, read)?,
        "rate_iops" => rates(&mut job.pacing.rate_iops, text, read)?,
        "change" => job.ours.changes.add(text, read)?,
        "max_latency" => {
            for (place, text) in job.pacing.max_latency.iter_mut().zip(value::triple(text)?) {
                if let Some(text) = text {
                    *place = Some(read.time(text, MICROSECOND)?).filter(|time| time.0 > 0);
                }
            }
        }
        _ => {
            return Ok(job.clones.ending.set(name, text)?
                || job.pacing.rates.set(name, text, read)?
                || job.pacing.flow.set(name, text, read)?
                || job.ours.frames.set(name, text, read)?
                || job.pacing.latency_goal.set(name, text, read)?);
        }
    }
    Ok(true)
}
