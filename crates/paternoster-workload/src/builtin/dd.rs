// SPDX-License-Identifier: MIT OR Apache-2.0
//! dd: files read or written as a whole, after caches were dropped.
//!
//! One dd after the other, or all at the same time; whether the files lie near each other, far
//! apart or interleaved is a matter of the run's placement. Seed 001 settles with it that the
//! layout of files does not explain what tiobench shows.
//!
//! Source: seed 001; the lines are those of coreutils' dd.

use std::fmt::Write as _;

use super::{job, per_second, seconds};
use crate::direction::Direction;
use crate::fio::job::Job;
use crate::fio::value::Amount;
use crate::run::{ProcessResult, RunResult};

/// dd's options.
#[derive(Debug, Clone)]
pub struct Dd {
    /// Files.
    pub files: u32,
    /// Bytes of each.
    pub size: u64,
    /// `bs`.
    pub block: u64,
    /// Write instead of read, with `conv=fsync`.
    pub write: bool,
    /// `iflag=direct`, `oflag=direct`.
    pub direct: bool,
    /// Whether all run at the same time.
    pub together: bool,
}

impl Dd {
    /// One job for all files, or one job after the other.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        let direction = if self.write { Direction::Write } else { Direction::Read };
        let one = |number: u32, clones: u32| {
            let mut job = job("dd", direction, false, self.block);
            job.region.size = Some(Amount::Bytes(self.size));
            job.cache.direct = Some(self.direct);
            job.syncs.at_end = self.write;
            (job.clones.numjobs, job.clones.stonewall) = (clones, true);
            if clones == 1 {
                job.files.filenames = vec![format!("dd.{number}")];
            }
            job
        };
        if self.together && self.files > 1 {
            vec![one(0, self.files)]
        } else {
            (0..self.files).map(|number| one(number, 1)).collect()
        }
    }

    /// dd's three lines for each file.
    #[must_use]
    pub fn lines(&self, result: &RunResult) -> String {
        let mut text = String::new();
        for (number, process) in result.processes.iter().enumerate() {
            if self.files > 1 {
                let _infallible = writeln!(text, "dd.{number}");
            }
            text.push_str(&self.line(process));
        }
        text
    }

    fn line(&self, process: &ProcessResult) -> String {
        let direction = if self.write { Direction::Write } else { Direction::Read };
        let bytes = process.statistics.direction(direction).bytes();
        let time = process.statistics.runtime();
        let (whole, part) = (bytes / self.block, u64::from(!bytes.is_multiple_of(self.block)));
        #[expect(clippy::cast_precision_loss, reason = "printed figures")]
        let amount = bytes as f64;
        let sizes = if bytes < 1000 {
            String::new()
        } else {
            format!(" ({}, {})", human(amount, 1000.0, ""), human(amount, 1024.0, "i"))
        };
        format!(
            "{whole}+{part} records in\n{whole}+{part} records out\n\
             {bytes} bytes{sizes} copied, {} s, {}/s\n",
            significant(seconds(time), 6),
            human(per_second(amount, time), 1000.0, "")
        )
    }
}

/// `5.4 GB`, `436 MB`, `5.0 GiB`: one decimal below 10, in units of powers of `base`.
fn human(amount: f64, base: f64, infix: &str) -> String {
    let units = if infix.is_empty() {
        ["B", "kB", "MB", "GB", "TB"]
    } else {
        ["B", "KiB", "MiB", "GiB", "TiB"]
    };
    let (mut value, mut place) = (amount, 0);
    while value >= base && place + 1 < units.len() {
        value /= base;
        place += 1;
    }
    let decimals = usize::from(value < 9.95 && place > 0);
    format!("{value:.decimals$} {}", units[place])
}

/// A number with this many significant digits and no trailing zeros, as `%g` writes it.
fn significant(value: f64, digits: usize) -> String {
    let before = format!("{:.0}", value.trunc()).len();
    let leading = if value >= 1.0 { before } else { 0 };
    let text = format!("{value:.*}", digits.saturating_sub(leading));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are sizes and times written as coreutils writes them?
    #[test]
    fn numbers_are_those_of_dd() {
        assert_eq!(human(5_368_709_120.0, 1000.0, ""), "5.4 GB");
        assert_eq!(human(5_368_709_120.0, 1024.0, "i"), "5.0 GiB");
        assert_eq!(human(436_000_000.0, 1000.0, ""), "436 MB");
        assert_eq!(significant(12.3, 6), "12.3");
        assert_eq!(significant(0.012_345_678, 6), "0.012346");
        assert_eq!(significant(44.0, 6), "44");
    }
}
