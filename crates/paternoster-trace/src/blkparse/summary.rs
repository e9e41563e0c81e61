// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summary: how much each processor, or program, queued, issued, merged and completed.
//!
//! ```text
//! CPU0 (merge):
//!  Reads Queued:           5,       20KiB         Writes Queued:           1,        4KiB
//!  Read Dispatches:        1,       16KiB         Write Dispatches:        1,        4KiB
//! ```
//!
//! Sizes are counted as KiB and a remainder of bytes, each separately, and wrap: a request that is
//! requeued without having been issued leaves 18446744073PiB. The bytes of commands are counted
//! separately, except for the KiB of a queued read, which blkparse adds to the other reads. Numbers
//! above a million are cut to thousands, and again.
//!
//! Source: PARSE-21, PARSE-22; the installed tool.

use super::digits::{blanks, number, word};
use crate::blktrace::{Code, Record};

/// Reads on the left, writes on the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Read,
    Write,
}

impl Side {
    pub(super) const fn of(record: &Record) -> Side {
        if record.is_write() { Side::Write } else { Side::Read }
    }
}

/// How many, and how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    count: u64,
    kib: u64,
    rest: u64,
}

impl Tally {
    fn grow(&mut self, bytes: u32) {
        self.kib = self.kib.wrapping_add(u64::from(bytes >> 10));
        self.grow_rest(bytes);
    }

    fn grow_rest(&mut self, bytes: u32) {
        self.rest = self.rest.wrapping_add(u64::from(bytes & 1023));
    }

    fn shrink(&mut self, bytes: u32) {
        self.kib = self.kib.wrapping_sub(u64::from(bytes >> 10));
        self.rest = self.rest.wrapping_sub(u64::from(bytes & 1023));
    }

    fn add(&mut self, other: Tally) {
        self.count = self.count.wrapping_add(other.count);
        self.kib = self.kib.wrapping_add(other.kib);
        self.rest = self.rest.wrapping_add(other.rest);
    }

    const fn size_kib(&self) -> u64 {
        self.kib.wrapping_add(self.rest >> 10)
    }
}

/// Tallies of reads and of writes.
type Both = [Tally; 2];

/// The counts of one kind of I/O.
#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    queued: Both,
    issued: Both,
    requeued: Both,
    completed: Both,
}

impl Kind {
    fn add(&mut self, other: &Kind) {
        let pairs = [
            (&mut self.queued, &other.queued),
            (&mut self.issued, &other.issued),
            (&mut self.requeued, &other.requeued),
            (&mut self.completed, &other.completed),
        ];
        for (into, from) in pairs {
            into[0].add(from[0]);
            into[1].add(from[1]);
        }
    }

    fn is_empty(&self) -> bool {
        [self.queued, self.issued, self.requeued, self.completed]
            .iter()
            .flatten()
            .all(|tally| tally.count == 0)
    }
}

/// What one processor or program did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    io: Kind,
    commands: Kind,
    merged: Both,
    unplugs: u64,
    timer_unplugs: u64,
}

impl Counts {
    /// Whether this event is counted.
    pub(super) const fn concerns(record: &Record) -> bool {
        match record.code {
            Code::QUEUE | Code::ISSUE | Code::REQUEUE | Code::COMPLETE => true,
            Code::BACK_MERGE | Code::FRONT_MERGE | Code::UNPLUG | Code::UNPLUG_TIMER => {
                !record.is_passthrough()
            }
            _ => false,
        }
    }

    /// Counts an event.
    pub(super) fn count(&mut self, record: &Record) {
        let (side, bytes) = (Side::of(record) as usize, record.bytes);
        let command = record.is_passthrough();
        let kind = if command { &mut self.commands } else { &mut self.io };
        let tally = match record.code {
            Code::QUEUE => &mut kind.queued[side],
            Code::ISSUE => &mut kind.issued[side],
            Code::COMPLETE => &mut kind.completed[side],
            Code::REQUEUE => {
                kind.issued[side].shrink(bytes);
                kind.requeued[side].count += 1;
                return;
            }
            Code::BACK_MERGE | Code::FRONT_MERGE => &mut self.merged[side],
            Code::UNPLUG => return self.unplugs += 1,
            Code::UNPLUG_TIMER => return self.timer_unplugs += 1,
            _ => return,
        };
        tally.count += 1;
        if command && record.code == Code::QUEUE && !record.is_write() {
            tally.grow_rest(bytes);
            let io = &mut self.io.queued[side];
            io.kib = io.kib.wrapping_add(u64::from(bytes >> 10));
        } else {
            tally.grow(bytes);
        }
    }

    pub(super) fn add(&mut self, other: &Counts) {
        self.io.add(&other.io);
        self.commands.add(&other.commands);
        for side in 0..2 {
            self.merged[side].add(other.merged[side]);
        }
        self.unplugs += other.unplugs;
        self.timer_unplugs += other.timer_unplugs;
    }

    /// KiB a second of reads and of writes that were completed in this many milliseconds.
    pub(super) fn throughput(&self, milliseconds: u64) -> [u64; 2] {
        self.io.completed.map(|tally| {
            let thousandths = tally.kib.wrapping_mul(1000).wrapping_add(tally.rest);
            thousandths.checked_div(milliseconds).unwrap_or(0)
        })
    }

    /// Prints it, with the greatest depths of reads and writes if they are known.
    pub(super) fn print(&self, line: &mut Vec<u8>, depth: Option<[u64; 2]>) {
        sizes(line, ["Reads Queued:", "Writes Queued:"], &self.io.queued);
        sizes(line, ["Read Dispatches:", "Write Dispatches:"], &self.io.issued);
        counts(line, ["Reads Requeued:", "Writes Requeued:"], &self.io.requeued);
        sizes(line, ["Reads Completed:", "Writes Completed:"], &self.io.completed);
        sizes(line, ["Read Merges:", "Write Merges:"], &self.merged);
        if let Some(depth) = depth {
            plain(line, ["Read depth:", "Write depth:"], depth);
        }
        if !self.commands.is_empty() {
            sizes(line, ["PC Reads Queued:", "PC Writes Queued:"], &self.commands.queued);
            sizes(line, ["PC Read Disp.:", "PC Write Disp.:"], &self.commands.issued);
            counts(line, ["PC Reads Req.:", "PC Writes Req.:"], &self.commands.requeued);
            counts(line, ["PC Reads Compl.:", "PC Writes Compl.:"], &self.commands.completed);
        }
        plain(line, ["IO unplugs:", "Timer unplugs:"], [self.unplugs, self.timer_unplugs]);
    }
}

/// Where the numbers of the left and the right column begin, after the blank before the words.
const COLUMN: [usize; 2] = [17, 18];

fn label(line: &mut Vec<u8>, labels: [&str; 2], side: usize) {
    line.push(b' ');
    line.extend_from_slice(labels[side].as_bytes());
    blanks(line, COLUMN[side] - labels[side].len());
}

/// `5,       20KiB`, twice.
fn sizes(line: &mut Vec<u8>, labels: [&str; 2], tallies: &Both) {
    for (side, tally) in tallies.iter().enumerate() {
        label(line, labels, side);
        short(line, tally.count, 0);
        line.extend_from_slice(b", ");
        short(line, tally.size_kib(), 1);
        line.extend_from_slice(if side == 0 { b"iB\t" } else { b"iB\n" });
    }
}

/// Counts without sizes.
fn counts(line: &mut Vec<u8>, labels: [&str; 2], tallies: &Both) {
    for (side, tally) in tallies.iter().enumerate() {
        label(line, labels, side);
        short(line, tally.count, 0);
        line.extend_from_slice(if side == 0 { b"\t\t" } else { b"\n" });
    }
}

/// Numbers as they are.
pub(super) fn plain(line: &mut Vec<u8>, labels: [&str; 2], values: [u64; 2]) {
    for (side, value) in values.into_iter().enumerate() {
        label(line, labels, side);
        number(line, value, 8);
        line.extend_from_slice(if side == 0 { b"        \t" } else { b"\n" });
    }
}

/// A number of at most a million, with its power of thousand; the first suffix is that of the
/// number itself.
fn short(line: &mut Vec<u8>, mut value: u64, mut suffix: usize) {
    const SUFFIXES: [&str; 5] = ["", "K", "M", "G", "P"];
    while value > 1_000_000 && suffix + 1 < SUFFIXES.len() {
        value /= 1000;
        suffix += 1;
    }
    number(line, value, 8);
    word(line, SUFFIXES[suffix].as_bytes(), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blktrace::Categories;

    fn short_of(value: u64, suffix: usize) -> String {
        let mut line = Vec::new();
        short(&mut line, value, suffix);
        String::from_utf8(line).unwrap()
    }

    /// Are numbers cut as the tool cuts them?
    #[test]
    fn numbers_are_cut() {
        assert_eq!(short_of(1_000_000, 1), " 1000000K");
        // 600 requests of 2 097 151 KiB: two steps up from K.
        assert_eq!(short_of(1_258_290_600, 1), "    1258G");
        assert_eq!(short_of(u64::MAX - 3, 1), "18446744073P");
        assert_eq!(short_of(2_000_000, 0), "    2000K");
    }

    /// Does a requeue take back what an issue counted, and wrap where there was none?
    #[test]
    fn a_requeue_takes_back() {
        let event = |code| Record { code, bytes: 4096 + 512, ..Record::default() };
        let mut counts = Counts::default();
        counts.count(&event(Code::ISSUE));
        counts.count(&event(Code::REQUEUE));
        assert_eq!(counts.io.issued[0], Tally { count: 1, kib: 0, rest: 0 });
        counts.count(&event(Code::REQUEUE));
        // 2^64 - 512 is 2^54 - 1 KiB, and 4 KiB less of the others: 2^54 - 5.
        assert_eq!(counts.io.issued[0].size_kib(), (1 << 54) - 5);
    }

    /// Where are the bytes of commands counted?
    #[test]
    fn bytes_of_commands() {
        let mut counts = Counts::default();
        for categories in [Categories::READ, Categories::WRITE] {
            let categories = categories | Categories::PASSTHROUGH;
            counts.count(&Record { bytes: 9000, categories, ..Record::default() });
        }
        assert_eq!(counts.io.queued[0].size_kib(), 8);
        assert_eq!(counts.commands.queued.map(|tally| tally.count), [1, 1]);
        assert_eq!(counts.commands.queued.map(|tally| tally.size_kib()), [0, 8]);
    }
}
