// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who: options of priorities and cgroups.
//!
//! Source: FIO-67, FIO-68.

use crate::fio::job::Job;
use crate::fio::value::Reader;

/// Options of priorities and groups.
pub(super) fn who(
    job: &mut Job,
    name: &str,
    text: &str,
    read: &mut Reader<'_>,
) -> Result<bool, String> {
    match name {
        "prio" => job.priority.prio = Some(read.small(text, 0, 7)?),
        "prioclass" => job.priority.prioclass = Some(read.small(text, 0, 3)?),
        "nice" => {
            let nice = read.signed(text)?;
            job.priority.nice = i8::try_from(nice)
                .ok()
                .filter(|nice| (-20..=19).contains(nice))
                .ok_or_else(|| format!("{nice} is out of range: it must be from -20 to 19"))?;
        }
        "cgroup" => job.priority.cgroup = Some(text.to_owned()),
        "cgroup_weight" => job.priority.cgroup_weight = Some(read.small(text, 100, 1000)?),
        name if name.starts_with("cmdprio") => {
            return job.priority.command_priority.set(name, text, read);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
