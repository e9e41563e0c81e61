// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members: the disks of an array, and what waits in front of each.
//!
//! A member takes as many parts as its queue holds; the others wait here: reads that a command
//! waits for before read-ahead, and read-ahead before write-back:
//!
//! ```text
//! member 3    in the disk: a     waiting: b c (demanded), d (ahead), e f (destage)
//! ```
//!
//! While the write buffer is nearly full, every second part of a member is a write-back; otherwise
//! writers would starve behind readers.

use std::collections::VecDeque;
use std::sync::Arc;

use paternoster_core::{Nanos, Op};

use super::stripe::Piece;
use crate::hdd::{Drive, DriveParameters, Task};

/// What a part of a member's work is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A read of the command in this slot.
    Demand(u32),
    /// A chunk into the cache.
    Chunk(u64),
    /// This many sectors of the write buffer.
    Destage(u32),
}

/// One disk.
#[derive(Debug)]
struct Member {
    drive: Drive<Part>,
    inside: u32,
    depth: u32,
    /// Waiting parts by rank: demanded, read ahead, destage.
    waiting: [VecDeque<(Part, Task)>; RANKS],
    /// Whether the part taken last was a write-back.
    destaged: bool,
}

const RANKS: usize = 3;
const DESTAGE: usize = 2;

const fn rank(part: Part) -> usize {
    match part {
        Part::Demand(_) => 0,
        Part::Chunk(_) => 1,
        Part::Destage(_) => DESTAGE,
    }
}

impl Member {
    fn submit(&mut self, now: Nanos, part: Part, task: Task) {
        if self.inside < self.depth && self.drive.submit(now, part, task).is_ok() {
            self.inside += 1;
            self.destaged = rank(part) == DESTAGE;
            return;
        }
        self.waiting[rank(part)].push_back((part, task));
    }

    fn ended(&mut self, now: Nanos, must_destage: bool) {
        self.inside -= 1;
        let first = if must_destage && !self.destaged { DESTAGE } else { 0 };
        let next = self.waiting[first].pop_front();
        let next = next.or_else(|| self.waiting.iter_mut().find_map(VecDeque::pop_front));
        if let Some((part, task)) = next {
            self.submit(now, part, task);
        }
    }
}

/// All disks.
#[derive(Debug)]
pub(super) struct Members(Vec<Member>);

impl Members {
    pub(super) fn new(count: u32, parameters: &Arc<DriveParameters>) -> Members {
        let member = || Member {
            drive: Drive::new(Arc::clone(parameters)),
            inside: 0,
            depth: parameters.depth,
            waiting: [const { VecDeque::new() }; RANKS],
            destaged: false,
        };
        Members((0..count).map(|_| member()).collect())
    }

    /// Gives a part to its member.
    pub(super) fn submit(&mut self, now: Nanos, part: Part, op: Op, piece: Piece) {
        let Piece { member, sector, sectors, .. } = piece;
        let task = Task { op, sector, sectors, fua: op == Op::Write };
        self.0[member as usize].submit(now, part, task);
    }

    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.0.iter().filter_map(|member| member.drive.next_event()).min()
    }

    /// The next part that has ended by `now`, and when.
    pub(super) fn advance(&mut self, now: Nanos, must_destage: bool) -> Option<(Nanos, Part)> {
        for member in &mut self.0 {
            if member.drive.next_event().is_some_and(|event| event <= now)
                && let Some(ended) = member.drive.advance(now)
            {
                member.ended(ended.at, must_destage);
                return Some((ended.at, ended.id));
            }
        }
        None
    }
}
