// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input: what the summary says about one input, or one device of a stream.
//!
//! ```text
//! CPU0 (sda): …          a part for each processor of which there was an event
//! CPU1 (sda): …
//!
//! Total (sda): …         if they are several
//!
//! Throughput (R/W): 2000KiB/s / 0KiB/s
//! Events (sda): 42 entries
//! Skips: 0 forward (0 -   0.0%)
//! ```
//!
//! Depths are those of the whole input: requests issued and not yet completed or put back. The
//! throughput's time ends with the last event that was there, whether or not it was looked at.
//!
//! Invariant: I1 at most [`PARTS_MAX`] processors have a part of their own; others share the last.
//!
//! Source: PARSE-20, PARSE-23, PARSE-24; the installed tool.

use std::io::Write as _;

use paternoster_core::Nanos;

use super::summary::{Counts, Side};
use crate::blktrace::{Code, DeviceNumber, Record};

/// How many processors, and devices of a stream, have a part of their own.
pub const PARTS_MAX: usize = 8192;

/// One processor of an input.
#[derive(Debug, Default)]
struct Processor {
    cpu: u32,
    counts: Counts,
    /// The sequence of the event that was met last; 0 before the first one.
    sequence: u32,
}

/// One input.
#[derive(Debug, Default)]
pub(super) struct Input {
    name: String,
    device: Option<DeviceNumber>,
    /// By processor, in order.
    processors: Vec<Processor>,
    /// The place of the processor that was met last.
    current: usize,
    depth: [u64; 2],
    deepest: [u64; 2],
    events: u64,
    /// How often events are missing in a stream, and how many.
    skips: u64,
    skipped: u64,
    first: Option<Nanos>,
    last: Nanos,
}

impl Input {
    pub(super) fn named(name: &str) -> Input {
        Input { name: name.to_owned(), ..Input::default() }
    }

    pub(super) fn of_device(device: DeviceNumber) -> Input {
        Input { name: device.to_string(), device: Some(device), ..Input::default() }
    }

    pub(super) fn is_of(&self, device: DeviceNumber) -> bool {
        self.device == Some(device)
    }

    /// An event of this processor is there.
    #[inline]
    pub(super) fn meet(&mut self, record: &Record) {
        let cpu = record.cpu;
        if self.processors.get(self.current).is_none_or(|current| current.cpu != cpu) {
            let found = self.processors.binary_search_by_key(&cpu, |processor| processor.cpu);
            self.current = found.unwrap_or_else(|place| {
                if self.processors.len() >= PARTS_MAX {
                    return PARTS_MAX - 1;
                }
                self.processors.insert(place, Processor { cpu, ..Processor::default() });
                place
            });
        }
        if self.device.is_some() && !record.is_note() {
            self.follow(record.sequence);
        }
    }

    /// Counts the events missing between the processor's previous one and this one.
    fn follow(&mut self, sequence: u32) {
        let Some(processor) = self.processors.get_mut(self.current) else { return };
        let missing = sequence.saturating_sub(processor.sequence).saturating_sub(1);
        if missing > 0 && processor.sequence > 0 {
            self.skips += 1;
            self.skipped += u64::from(missing);
        }
        processor.sequence = sequence;
    }

    /// Counts an event in the window.
    pub(super) fn pass(&mut self, at: Nanos) {
        self.last = at;
    }

    /// Counts a selected event.
    pub(super) fn accept(&mut self, at: Nanos) {
        self.first.get_or_insert(at);
        self.events += 1;
    }

    /// Counts it for the processor that was met last.
    pub(super) fn count(&mut self, record: &Record) {
        let side = Side::of(record) as usize;
        match record.code {
            Code::ISSUE => {
                self.depth[side] += 1;
                self.deepest[side] = self.deepest[side].max(self.depth[side]);
            }
            Code::COMPLETE | Code::REQUEUE => {
                self.depth[side] = self.depth[side].saturating_sub(1);
            }
            _ => {}
        }
        if let Some(processor) = self.processors.get_mut(self.current) {
            processor.counts.count(record);
        }
    }

    /// Prints the part of the summary.
    pub(super) fn print(&self, text: &mut Vec<u8>) {
        let mut total = Counts::default();
        for Processor { cpu, counts, .. } in &self.processors {
            append(text, format_args!("CPU{cpu} ({}):\n", self.name));
            counts.print(text, Some(self.deepest));
            total.add(counts);
        }
        if self.processors.len() > 1 {
            append(text, format_args!("\nTotal ({}):\n", self.name));
            total.print(text, None);
        }
        let time = self.last.0.saturating_sub(self.first.unwrap_or(self.last).0);
        let [read, written] = total.throughput(time / 1_000_000);
        append(text, format_args!("\nThroughput (R/W): {read}KiB/s / {written}KiB/s\n"));
        append(text, format_args!("Events ({}): {} entries\n", self.name, self.events));
        let (skips, skipped) = (self.skips, self.skipped);
        let all = (self.events + skipped).max(1);
        // A tenth of a percent is exact enough in integers: halves are rounded up.
        let permille = (2000 * u128::from(skipped) + u128::from(all)) / (2 * u128::from(all));
        let (percent, tenth) = (permille / 10, permille % 10);
        append(text, format_args!("Skips: {skips} forward ({skipped} - {percent:>3}.{tenth}%)\n"));
    }
}

fn append(text: &mut Vec<u8>, arguments: core::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a vector takes any text");
}
