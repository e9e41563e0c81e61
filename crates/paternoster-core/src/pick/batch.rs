// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches: reads and writes alternate, each in sector order for a while.
//!
//! The core of deadline and mq-deadline. A batch goes up the sectors in one direction; after
//! `fifo_batch` requests, or when nothing is ahead, the next direction is chosen: reads, unless
//! writes have been passed over `writes_starved` times. The batch begins with the oldest request if
//! that has expired, and otherwise where the direction last stopped.
//!
//! ```text
//! fifo_batch 16, writes_starved 2, both always waiting        R16 R16 W16 R16 R16 W16 …
//! ```
//!
//! Expiry is checked only when a batch begins: it is a goal, missed by up to the length of a batch.
//!
//! # Invariants
//! I1  `next[d]` is in lane d. Under [`Resume::Next`] at most one of them is set.
//!
//! Source: DL-12.

use crate::event::Note;
use crate::op::Op;
use crate::pick::lane::{Lane, LaneSpace};
use crate::queue_view::QueueView;
use crate::request::RequestId;
use crate::time::Nanos;

/// Index of the lane for reads.
pub const READ: usize = 0;
/// Index of the lane for everything else.
pub const WRITE: usize = 1;

/// The lane for an operation.
#[inline]
#[must_use]
pub const fn direction(op: Op) -> usize {
    if matches!(op, Op::Read) { READ } else { WRITE }
}

/// Where a direction continues when its next batch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Only the running direction remembers its next request; the other begins with its oldest
    /// (until 6.7).
    Next,
    /// Each direction remembers the sector at which it stopped (6.8 on).
    Position,
}

/// The tunable parameters.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// The time after which a request should be served, by direction.
    pub expire: [Nanos; 2],
    /// How often reads may pass over writes.
    pub writes_starved: u32,
    /// Requests in a batch.
    pub fifo_batch: u32,
    /// Whether front merges are looked for.
    pub front_merges: bool,
    /// Whether a request expires at its deadline (blk-mq) or after it (legacy).
    pub expires_at_deadline: bool,
    /// Where a direction continues.
    pub resume: Resume,
}

impl Tuning {
    /// The defaults of both: 500 ms, 5 s, 2, 16, on.
    #[inline]
    #[must_use]
    pub const fn new(expires_at_deadline: bool, resume: Resume) -> Tuning {
        Tuning {
            expire: [Nanos::from_millis(500), Nanos::from_secs(5)],
            writes_starved: 2,
            fifo_batch: 16,
            front_merges: true,
            expires_at_deadline,
            resume,
        }
    }
}

/// The state of the alternation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn {
    /// Requests of the present batch so far.
    pub batching: u32,
    /// How often writes have been passed over.
    pub starved: u32,
    /// The direction of the present batch.
    pub direction: usize,
}

/// The reads and the writes of one class.
#[derive(Debug, Clone, Copy, Default)]
pub struct Directions {
    /// By direction.
    pub lanes: [Lane; 2],
    next: [Option<RequestId>; 2],
    position: [u64; 2],
}

impl Directions {
    /// How many wait in both directions.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.lanes[READ].len() + self.lanes[WRITE].len()
    }

    /// Whether nothing waits.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The direction that remembers a next request, writes first.
    #[inline]
    #[must_use]
    pub fn running(&self) -> usize {
        if self.next[WRITE].is_some() { WRITE } else { READ }
    }

    /// The request with which `direction` would continue.
    #[must_use]
    #[inline]
    pub fn following(
        &self,
        space: &LaneSpace,
        tuning: &Tuning,
        direction: usize,
    ) -> Option<RequestId> {
        match tuning.resume {
            Resume::Next => self.next[direction],
            Resume::Position => self.lanes[direction].from_sector(space, self.position[direction]),
        }
    }

    /// The next request of a new batch, and its direction. `turn` changes only in the parts that a
    /// choice affects.
    #[inline]
    pub fn begin_batch(
        &self,
        space: &LaneSpace,
        view: &mut QueueView,
        tuning: &Tuning,
        turn: &mut Turn,
    ) -> Option<(RequestId, usize)> {
        let direction = self.choose_direction(tuning, turn)?;
        let lane = &self.lanes[direction];
        let expired = lane.deadline(view).is_some_and(|deadline| {
            let now = view.now();
            if tuning.expires_at_deadline { now >= deadline } else { now > deadline }
        });
        let following = self.following(space, tuning, direction);
        let from_fifo = expired || following.is_none();
        let request = if from_fifo { lane.oldest()? } else { following? };
        turn.batching = 0;
        view.note(Note::BatchBegins { writes: direction == WRITE, from_fifo });
        Some((request, direction))
    }

    /// Reads, unless writes have been passed over often enough. Counts only when both wait.
    fn choose_direction(&self, tuning: &Tuning, turn: &mut Turn) -> Option<usize> {
        let (reads, writes) = (!self.lanes[READ].is_empty(), !self.lanes[WRITE].is_empty());
        if reads {
            if !writes {
                return Some(READ);
            }
            let passed_over = turn.starved;
            turn.starved += 1;
            if passed_over < tuning.writes_starved {
                return Some(READ);
            }
        } else if !writes {
            return None;
        }
        turn.starved = 0;
        Some(WRITE)
    }

    /// Removes the chosen request and remembers where its direction continues.
    #[inline]
    pub fn dispatch(
        &mut self,
        space: &mut LaneSpace,
        view: &QueueView,
        request: RequestId,
        direction: usize,
    ) {
        self.next = [None; 2];
        self.next[direction] = space.latter(request);
        self.position[direction] = view.requests[request].sector();
        self.lanes[direction].remove(space, request);
    }

    /// Removes a request for another reason.
    #[inline]
    pub fn remove(&mut self, space: &mut LaneSpace, request: RequestId, direction: usize) {
        self.leave_next(space, request, direction);
        self.lanes[direction].remove(space, request);
    }

    /// `gone` became part of `survivor`.
    #[inline]
    pub fn absorb(
        &mut self,
        space: &mut LaneSpace,
        view: &mut QueueView,
        survivor: RequestId,
        gone: RequestId,
        direction: usize,
    ) {
        self.leave_next(space, gone, direction);
        self.lanes[direction].absorb(space, view, survivor, gone);
    }

    /// If a leaving request is its direction's next, its successor becomes that.
    fn leave_next(&mut self, space: &LaneSpace, request: RequestId, direction: usize) {
        if self.next[direction] == Some(request) {
            self.next[direction] = space.latter(request);
        }
    }

    /// Verifies I1 and the lanes. O(n).
    ///
    /// # Errors
    /// The invariant that is broken.
    #[inline]
    pub fn check(&self, space: &LaneSpace, view: &QueueView) -> Result<(), &'static str> {
        for (lane, next) in self.lanes.iter().zip(self.next) {
            lane.check(space, view)?;
            if next.is_some_and(|next| !space.contains(next)) {
                return Err("batch I1: the next request does not wait");
            }
        }
        Ok(())
    }
}
