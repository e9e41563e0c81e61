// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verify plan: what a job with `verify` reads back, and when.
//!
//! There is no data in a simulation, so every checksum method is the same: only the reads of
//! verification remain. They come when everything was written, or with `verify_backlog=N` each time
//! N blocks wait to be verified, `verify_backlog_batch` at a time (default N):
//!
//! ```text
//! verify=md5                                  w0 w5 w6 w3 | r0 r5 r6 r3
//! verify_backlog=4                            w0 w8 w10 w5 r0 r8 r10 r5 w4 w11 w6 w7 r4 r11 ...
//! verify_backlog=4 verify_backlog_batch=2     w0 w8 w10 w5 r0 r8 w4 w11 r10 r5 w6 w7 r4 r11 ...
//! verify_backlog=4 verify_backlog_batch=6     w0 w8 w10 w5 r0 r8 r10 r5 w4 r4 w11 r11 w6 ...
//! ```
//!
//! In the last line the batch has two left when nothing waits any more: the next two writes are
//! verified at once.
//!
//! Blocks are read in the order in which they were written if no block can have been written twice:
//! in sequential jobs without a step and in random ones with a map. Otherwise they are read by
//! rising offset, each once, and a write that touches an older block takes it out. A job that its
//! runtime ends verifies nothing more; so one whose pass goes on until then has no plan without a
//! backlog.
//!
//! Invariant: with a map each block that was written is read once.
//!
//! Source: FIO-70; every line was measured on fio 3.33 with strace.

use std::collections::{BTreeMap, VecDeque};

use crate::direction::Direction;

use super::job::Job;
use super::offsets::Piece;
use super::value::{self, Reader};

/// The methods of fio 3.33; they differ in what they compute, not in what they read.
const METHODS: [&str; 19] = [
    "md5",
    "crc64",
    "crc32",
    "crc32c",
    "crc32c-intel",
    "crc16",
    "crc7",
    "sha1",
    "sha256",
    "sha512",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "xxhash",
    "meta",
    "pattern",
    "null",
    "none",
];

/// The options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyRules {
    /// `verify` is not none.
    pub enabled: bool,
    /// `do_verify`: the reads are made.
    pub reads: bool,
    /// `verify_only`: nothing is written, only read.
    pub only: bool,
    /// `verify_backlog`: verify when this many blocks wait; 0 at the end.
    pub backlog: u64,
    /// `verify_backlog_batch`: this many at a time; 0 is the backlog.
    pub batch: u64,
    /// `trim_percentage` of the verified blocks are trimmed.
    pub trim_percentage: u8,
}

impl Default for VerifyRules {
    fn default() -> VerifyRules {
        VerifyRules {
            enabled: false,
            reads: true,
            only: false,
            backlog: 0,
            batch: 0,
            trim_percentage: 0,
        }
    }
}

impl VerifyRules {
    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        match name {
            "verify" => {
                if text != "0" && !METHODS.contains(&text) {
                    return Err(format!("`{text}` is none of fio's methods, as md5, crc32c, null"));
                }
                self.enabled = text != "0" && text != "none";
            }
            "do_verify" => self.reads = value::boolean(text)?,
            "verify_only" => self.only = value::boolean(text)?,
            "verify_backlog" => self.backlog = read.size(text)?,
            "verify_backlog_batch" => self.batch = read.size(text)?,
            // fio sorts where it must, see the module docs; it takes the option and does nothing.
            "verifysort" => value::boolean(text).map(|_| ())?,
            "trim_percentage" => self.trim_percentage = read.small(text, 0, 100)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// What was written and not yet verified.
#[derive(Debug, Clone)]
enum Waiting {
    AsWritten(VecDeque<Piece>),
    /// By file and offset.
    Sorted(BTreeMap<(usize, u64), Piece>),
}

/// The reads of one clone.
#[derive(Debug, Clone)]
pub struct VerifyPlan {
    backlog: usize,
    batch: usize,
    /// Reads left of the batch that has begun.
    left: usize,
    waiting: Waiting,
}

impl VerifyPlan {
    /// The plan of a clone; `None` if its job reads nothing back.
    #[must_use]
    pub fn new(job: &Job) -> Option<VerifyPlan> {
        let rules = &job.verify;
        if !rules.enabled || !rules.reads {
            return None;
        }
        let once = if job.order.rw.random { job.has_random_map() } else { job.order.rw.skip == 0 };
        let waiting = if once {
            Waiting::AsWritten(VecDeque::new())
        } else {
            Waiting::Sorted(BTreeMap::new())
        };
        let backlog = usize::try_from(rules.backlog).unwrap_or(usize::MAX);
        let batch = usize::try_from(rules.batch).unwrap_or(usize::MAX);
        let batch = if batch == 0 { backlog } else { batch };
        Some(VerifyPlan { backlog, batch, left: 0, waiting })
    }

    /// A write was issued; reads and trims are not verified.
    pub fn issued(&mut self, piece: Piece) {
        if piece.direction != Direction::Write {
            return;
        }
        match &mut self.waiting {
            Waiting::AsWritten(pieces) => pieces.push_back(piece),
            Waiting::Sorted(pieces) => {
                take_out(pieces, piece);
                pieces.insert((piece.file, piece.offset), piece);
            }
        }
    }

    /// Call it before each I/O of the pattern: returns a read that comes first, if any.
    pub fn due(&mut self) -> Option<Piece> {
        if self.backlog == 0 {
            return None;
        }
        if self.left == 0 && self.len() >= self.backlog {
            self.left = self.batch;
        }
        if self.left == 0 {
            return None;
        }
        let read = self.take();
        self.left -= usize::from(read.is_some());
        read
    }

    /// Call it at the end of a pass until it is `None`: the reads of everything that still waits.
    pub fn rest(&mut self) -> Option<Piece> {
        self.left = 0;
        self.take()
    }

    /// Whether it reads at the end of a pass and at no other time.
    #[must_use]
    pub fn waits_for_the_end(&self) -> bool {
        self.backlog == 0
    }

    /// How many blocks wait to be verified.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.waiting {
            Waiting::AsWritten(pieces) => pieces.len(),
            Waiting::Sorted(pieces) => pieces.len(),
        }
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take(&mut self) -> Option<Piece> {
        let written = match &mut self.waiting {
            Waiting::AsWritten(pieces) => pieces.pop_front()?,
            Waiting::Sorted(pieces) => pieces.pop_first()?.1,
        };
        Some(Piece { direction: Direction::Read, ..written })
    }
}

/// Takes out the pieces that `new` touches.
fn take_out(pieces: &mut BTreeMap<(usize, u64), Piece>, new: Piece) {
    let end = new.offset.saturating_add(new.bytes);
    // Those that begin inside, and the one before if it reaches in: no two of the map overlap.
    let inside = pieces.range((new.file, new.offset)..(new.file, end));
    let before = pieces.range((new.file, 0)..(new.file, new.offset)).next_back();
    let before = before.filter(|(_, old)| old.offset.saturating_add(old.bytes) > new.offset);
    let touched: Vec<(usize, u64)> = inside.chain(before).map(|(place, _)| *place).collect();
    for place in touched {
        pieces.remove(&place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    fn plan(change: impl Fn(&mut Job)) -> VerifyPlan {
        let mut job = Job::default();
        job.verify.enabled = true;
        job.order.rw.random = true;
        change(&mut job);
        VerifyPlan::new(&job).unwrap()
    }

    /// The I/Os of a job that writes these blocks of 4k: `w8` is a write of block 8.
    fn ios(mut plan: VerifyPlan, writes: &[u64]) -> String {
        let mut all = Vec::new();
        let name = |piece: Piece| format!("r{}", piece.offset / BLOCK);
        for block in writes {
            while let Some(read) = plan.due() {
                all.push(name(read));
            }
            let direction = Direction::Write;
            let offset = block * BLOCK;
            plan.issued(Piece { file: 0, direction, offset, bytes: BLOCK });
            all.push(format!("w{block}"));
        }
        while let Some(read) = plan.rest() {
            all.push(name(read));
        }
        all.join(" ")
    }

    const WRITES: [u64; 12] = [0, 8, 10, 5, 4, 11, 6, 7, 1, 2, 3, 9];

    /// Are reads where fio makes them? The four lines were measured, to their ends.
    #[test]
    fn reads_are_where_fio_makes_them() {
        assert_eq!(ios(plan(|_| ()), &[0, 5, 6, 3]), "w0 w5 w6 w3 r0 r5 r6 r3");
        assert_eq!(
            ios(plan(|job| job.verify.backlog = 4), &WRITES),
            "w0 w8 w10 w5 r0 r8 r10 r5 w4 w11 w6 w7 r4 r11 r6 r7 w1 w2 w3 w9 r1 r2 r3 r9"
        );
        let batch = |batch| {
            move |job: &mut Job| {
                job.verify.backlog = 4;
                job.verify.batch = batch;
            }
        };
        assert_eq!(
            ios(plan(batch(2)), &WRITES),
            "w0 w8 w10 w5 r0 r8 w4 w11 r10 r5 w6 w7 r4 r11 w1 w2 r6 r7 w3 w9 r1 r2 r3 r9"
        );
        assert_eq!(
            ios(plan(batch(6)), &WRITES),
            "w0 w8 w10 w5 r0 r8 r10 r5 w4 r4 w11 r11 w6 w7 w1 w2 r6 r7 r1 r2 w3 r3 w9 r9"
        );
    }

    /// Are blocks that may repeat read once, by offset, also within a backlog?
    #[test]
    fn repeated_blocks_are_read_once() {
        let without_map = |job: &mut Job| job.random.norandommap = true;
        assert_eq!(
            ios(plan(without_map), &[0, 5, 6, 3, 3, 6, 3, 2]),
            "w0 w5 w6 w3 w3 w6 w3 w2 r0 r2 r3 r5 r6"
        );
        let backlog = |job: &mut Job| {
            job.random.norandommap = true;
            job.verify.backlog = 3;
        };
        assert_eq!(
            ios(plan(backlog), &[0, 5, 6, 3, 3, 6, 3, 2]),
            "w0 w5 w6 r0 r5 r6 w3 w3 w6 w3 w2 r2 r3 r6"
        );
    }

    /// Does a write take out what it touches? Blocks of 8k at 0, 8, 9, 5, 4, 9 (in 4k) left
    /// fio 0, 4 and 9 to read.
    #[test]
    fn overlaps_are_taken_out() {
        let mut plan = plan(|job| {
            job.blocks.block_size = [(2 * BLOCK, 2 * BLOCK); 3];
            job.blocks.block_align = [Some(BLOCK); 3];
        });
        for block in [0, 8, 9, 5, 4, 9] {
            let piece = Piece {
                file: 0,
                direction: Direction::Write,
                offset: block * BLOCK,
                bytes: 2 * BLOCK,
            };
            plan.issued(piece);
            plan.issued(Piece { direction: Direction::Read, ..piece });
        }
        let read: Vec<u64> =
            core::iter::from_fn(|| plan.rest()).map(|piece| piece.offset / BLOCK).collect();
        assert_eq!(read, [0, 4, 9]);
        assert!(plan.is_empty());
    }

    /// Is there no plan without verification, and are methods checked?
    #[test]
    fn options() {
        assert!(VerifyPlan::new(&Job::default()).is_none());
        let mut rules = VerifyRules::default();
        let mut notes = Vec::new();
        let mut read = Reader::new(1024, &mut notes);
        assert!(rules.set("verify", "crc32c", &mut read).unwrap() && rules.enabled);
        assert!(rules.set("verify", "none", &mut read).unwrap() && !rules.enabled);
        assert!(rules.set("verify", "md6", &mut read).is_err());
    }
}
