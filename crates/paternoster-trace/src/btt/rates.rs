// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates: I/Os and megabytes per second of completions, and seeks per second.
//!
//! Completions are counted by whole seconds of the clock; a second without any has no line. Seeks
//! are counted by buckets that begin with a seek and end with the first one a second later:
//!
//! ```text
//! seeks   |  |   |            |           bucket of 3, rate 3 / (last - first); 1 if they are one
//! bucket  ├──────┘ ≥ 1 s      ├─ …
//! ```
//!
//! Source: BTT-30 (`-m`), BTT-34.

use super::files::{Files, Output, Outputs, Overlaid};
use super::times::seconds;

/// Completions by second.
#[derive(Debug)]
pub(super) struct PerSecond {
    ios: Output,
    megabytes: Output,
    second: Option<u64>,
    count: u64,
    sectors: u64,
}

impl PerSecond {
    /// The files of a device, or of the system.
    pub(super) fn new(label: &str, outputs: &mut Outputs<impl Files>) -> PerSecond {
        let ios = outputs.open(format!("{label}_iops_fp.dat"));
        let megabytes = outputs.open(format!("{label}_mbps_fp.dat"));
        PerSecond { ios, megabytes, second: None, count: 0, sectors: 0 }
    }

    /// A completion.
    #[inline]
    pub(super) fn add(&mut self, at: u64, sectors: u64, outputs: &mut Outputs<impl Files>) {
        let second = at / 1_000_000_000;
        if self.second != Some(second) {
            if self.second.is_some() {
                self.close(outputs);
            }
            (self.second, self.count, self.sectors) = (Some(second), 0, 0);
        }
        self.count += 1;
        self.sectors = self.sectors.saturating_add(sectors);
    }

    /// Prints the open second; for a device that completed nothing, second -1.
    #[expect(clippy::cast_precision_loss, reason = "megabytes, as btt has them")]
    pub(super) fn close(&self, outputs: &mut Outputs<impl Files>) {
        let second = self.second.map_or("-1".to_owned(), |second| second.to_string());
        let megabytes = self.sectors as f64 * 512.0 / f64::from(1 << 20);
        outputs.write(self.ios, format_args!("{second} {}\n", self.count));
        outputs.write(self.megabytes, format_args!("{second} {megabytes:.6}\n"));
    }
}

/// Seeks by buckets of a second.
#[derive(Debug, Default)]
pub(super) struct SeeksPerSecond {
    bucket: Option<(f64, f64)>,
    count: u32,
}

impl SeeksPerSecond {
    /// A seek; from one of the two writers of the file.
    pub(super) fn add(&mut self, at: u64, writer: usize, file: &mut Overlaid) {
        let at = seconds(at);
        match &mut self.bucket {
            Some((first, last)) if at - *first < 1.0 => *last = at,
            _ => {
                self.close(writer, file);
                (self.bucket, self.count) = (Some((at, at)), 0);
            }
        }
        self.count += 1;
    }

    /// Prints the open bucket.
    pub(super) fn close(&self, writer: usize, file: &mut Overlaid) {
        let Some((first, last)) = self.bucket else { return };
        let count = f64::from(self.count);
        let rate = if last > first { count / (last - first) } else { count };
        file.write(writer, format_args!("{first:15.9} {rate:.2}\n"));
    }
}
