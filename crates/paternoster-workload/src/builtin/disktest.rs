// SPDX-License-Identifier: MIT OR Apache-2.0
//! disktest: many threads on one device; in the linear pattern they read one stream together.
//!
//! The next thread to ask gets the next block, whichever thread it is. To the device that is a
//! sequential stream with many reads in flight; to a scheduler that looks at processes it is 32
//! readers, each of which skips what the others read:
//!
//! ```text
//! blocks      0  1  2  3  4  5  6  7  8
//! thread      a  b  c  a  d  b  c  a  d
//! ```
//!
//! Source: LOAD-4; seed 001 (`disktest -B 4k -h 1 -I BD -K 32 -p l -P T -T 300 -r`).

use paternoster_core::{Action, Event, Nanos, Note, Observer, Op};

use super::{job, mebibytes, per_second};
use crate::direction::Direction;
use crate::fio::job::Job;
use crate::fio::value::Amount;

/// disktest's options.
#[derive(Debug, Clone)]
pub struct Disktest {
    /// `-B`: bytes of a call.
    pub block: u64,
    /// `-h`: time between two lines.
    pub heartbeat: Nanos,
    /// `-I`: whether the page cache is bypassed (`D`).
    pub direct: bool,
    /// `-K`: threads.
    pub threads: u32,
    /// `-p`: random (`r`), or one linear stream (`l`).
    pub random: bool,
    /// `-T`: how long.
    pub time: Nanos,
    /// `-w` instead of `-r`.
    pub write: bool,
    /// The device, or a file with its size in bytes.
    pub path: String,
    /// How much of it; all of a device by default.
    pub size: Option<u64>,
}

impl Disktest {
    /// The one job.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        let direction = if self.write { Direction::Write } else { Direction::Read };
        let mut job = job("disktest", direction, self.random, self.block);
        job.files.filenames = vec![self.path.clone()];
        job.region.size = self.size.map(Amount::Bytes);
        job.cache.direct = Some(self.direct);
        job.clones.numjobs = self.threads.max(1);
        job.ours.shared_position = !self.random;
        (job.time.runtime, job.time.time_based) = (Some(self.time), true);
        vec![job]
    }

    /// disktest's lines: one for each heartbeat, and the total.
    #[must_use]
    pub fn lines(&self, beats: &Heartbeats) -> String {
        let mut text = String::new();
        for &bytes in &beats.bytes {
            text.push_str(&self.line("Heartbeat", bytes, self.heartbeat));
        }
        text.push_str(&self.line("Total", beats.total, self.time));
        text
    }

    fn line(&self, what: &str, bytes: u64, time: Nanos) -> String {
        let way = if self.write { "write" } else { "read" };
        let mega = per_second(mebibytes(bytes), time);
        let rate = mega * f64::from(1 << 20);
        #[expect(clippy::cast_precision_loss, reason = "printed figures")]
        let iops = rate / self.block.max(1) as f64;
        format!(
            "STAT  | 1001 | v1.4.2 | {} | {what} {way} throughput: {rate:.1}B/s ({mega:.2}MB/s), \
             IOPS {iops:.1}/s.\n",
            self.path
        )
    }
}

/// Bytes that the device did in each heartbeat.
#[derive(Debug, Clone)]
pub struct Heartbeats {
    every: Nanos,
    until: Nanos,
    bytes: Vec<u64>,
    /// Also of the last part of a heartbeat.
    total: u64,
}

impl Heartbeats {
    /// Heartbeats of a run of `time`.
    #[must_use]
    pub fn new(every: Nanos, time: Nanos) -> Heartbeats {
        let count = time.0 / every.0.max(1);
        let bytes = vec![0; usize::try_from(count).unwrap_or(0).min(1 << 20)];
        Heartbeats { every, until: time, bytes, total: 0 }
    }
}

impl Observer for Heartbeats {
    fn event(&mut self, event: &Event) {
        if event.action == Action::Complete && matches!(event.op, Op::Read | Op::Write) {
            let beat = usize::try_from(event.at.0 / self.every.0.max(1)).unwrap_or(usize::MAX);
            let done = u64::from(event.sectors) * 512;
            if event.at <= self.until {
                self.total += done;
            }
            if let Some(bytes) = self.bytes.get_mut(beat) {
                *bytes += done;
            }
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}
