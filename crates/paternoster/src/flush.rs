// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flush and FUA, passed through one at a time: drain, flush, go on.
//!
//! What a bio that orders the device's cache becomes depends on the device (WC: it has a volatile
//! write cache):
//!
//! | bio               | no cache     | WC               | WC + FUA                     |
//! |-------------------|--------------|------------------|------------------------------|
//! | flush, no data    | done at once | flush            | flush                        |
//! | PREFLUSH + data   | plain write  | flush, data      | flush, data                  |
//! | FUA + data        | plain write  | data, flush      | data with FUA                |
//! | PREFLUSH + FUA    | plain write  | flush, data, flush | flush, data with FUA       |
//!
//! The steps of one bio follow each other; each waits until the device is empty and nothing else
//! is issued meanwhile. Waiting bios stand in a line. This is correct and slow: flushes are not
//! shared. It holds the place of the sequencer (spec section 11), which will share them.
//!
//! # Invariants
//! I1  While the line is not empty nothing but its head's steps is issued.
//! I2  A bio in the line ends exactly once, after its last step or with the error of a failed
//!     one.
//!
//! Source: spec `cfq-flush-block.md` 11.1 (the table, FLUSH-1, FLUSH-2).

use crate::allocate::POOL_NONE;
use crate::answer::{Output, Waiting};
use crate::bio_slot::BioRun;
use crate::device::{Outcome, Status};
use crate::event::Observer;
use crate::queue::RequestQueue;
use crate::request::{Bio, Flags, Op, Request, RequestId, Stage};
use crate::slab::NIL;

/// A step on the way of a flushing bio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Preflush,
    Data,
    Postflush,
}

/// The head of the line.
#[derive(Debug, Clone, Copy)]
struct Current {
    bio: u32,
    step: Step,
    /// The command of this step, once it was issued or refused.
    request: Option<RequestId>,
    in_device: bool,
}

/// The flushing bios, first come first served.
#[derive(Debug)]
pub(crate) struct FlushLine {
    line: BioRun,
    current: Option<Current>,
}

impl Default for FlushLine {
    fn default() -> FlushLine {
        FlushLine { line: BioRun::EMPTY, current: None }
    }
}

impl FlushLine {
    pub(crate) const fn is_waiting(&self) -> bool {
        self.current.is_some() || self.line.first != NIL
    }

    pub(crate) fn owns(&self, id: RequestId) -> bool {
        self.current.is_some_and(|current| current.request == Some(id))
    }

    /// The bios that wait here, the one under way first.
    pub(crate) fn bios(&self) -> (Option<u32>, BioRun) {
        (self.current.map(|current| current.bio), self.line)
    }
}

impl<O: Observer> RequestQueue<O> {
    /// What is left of the flushing `bio` for the ordinary way, its flags as the device
    /// understands them; or `None` when the flush machinery has taken it.
    pub(crate) fn order_cache(&mut self, index: u32, bio: &Bio) -> Option<Bio> {
        let facts = self.scene.facts;
        if !facts.write_cache {
            if bio.op == Op::Flush {
                self.bios.at_mut(index).outcome = Outcome::OK;
                self.done.append(&mut self.bios, BioRun::one(index));
                return None;
            }
            // A plain write. It stays sync: removing the flags must not make it async.
            let flags = bio.flags.without(Flags::FUA | Flags::PREFLUSH) | Flags::SYNC;
            self.bios.at_mut(index).flags = flags;
            return Some(Bio { flags, ..*bio });
        }
        if bio.op == Op::Write && facts.fua && !bio.flags.contains(Flags::PREFLUSH) {
            // Only data, durable by itself: the ordinary way, alone.
            return Some(*bio);
        }
        self.flush.line.append(&mut self.bios, BioRun::one(index));
        None
    }

    /// The next command of the line, when the device is empty.
    pub(crate) fn flush_step(&mut self) -> Output {
        if !self.tags.is_empty() {
            return self.wait(Waiting::Flush);
        }
        let current = match self.flush.current {
            Some(current) => current,
            None => {
                let Some(bio) = self.flush.line.pop(&mut self.bios) else {
                    return self.wait(Waiting::Empty);
                };
                Current { bio, step: self.first_step(bio), request: None, in_device: false }
            }
        };
        let Some(id) = current.request.or_else(|| self.step_request(&current)) else {
            self.flush.current = Some(current);
            return self.wait(Waiting::Flush);
        };
        self.flush.current = Some(Current { request: Some(id), in_device: true, ..current });
        self.issue(id)
    }

    /// The request of a step, outside all pools.
    fn step_request(&mut self, current: &Current) -> Option<RequestId> {
        let bio = self.bios.at(current.bio).bio()?;
        let ordering = Flags::FUA | Flags::PREFLUSH;
        let (op, sector, sectors, flags) = match current.step {
            Step::Preflush | Step::Postflush => (Op::Flush, 0, 0, Flags::NONE),
            Step::Data => {
                let fua = self.scene.facts.fua && bio.flags.contains(Flags::FUA);
                let flags = bio.flags.without(ordering) | Flags::SYNC;
                (bio.op, bio.sector, bio.sectors, if fua { flags | Flags::FUA } else { flags })
            }
        };
        let data = if current.step == Step::Data { current.bio } else { NIL };
        let request = Request {
            sector,
            client: Some(bio.client),
            sectors,
            segments: bio.segments,
            flags,
            bios_first: data,
            bios_last: data,
            op,
            stage: Stage::Dispatched,
            priority: self.priority_of(&bio),
            start: self.scene.exact,
            // No elevator has seen it, none will.
            epoch: u32::MAX,
            pool: POOL_NONE,
            ..Request::default()
        };
        self.scene.requests.0.insert(request).ok().map(|key| RequestId(key.index()))
    }

    fn first_step(&self, bio: u32) -> Step {
        let preflush = |bio: Bio| bio.op == Op::Flush || bio.flags.contains(Flags::PREFLUSH);
        if self.bios.at(bio).bio().is_some_and(preflush) { Step::Preflush } else { Step::Data }
    }

    /// The step behind `step` for this bio, by the table above.
    fn step_behind(&self, current: &Current) -> Option<Step> {
        let bio = self.bios.at(current.bio).bio()?;
        match current.step {
            Step::Preflush if bio.sectors > 0 => Some(Step::Data),
            Step::Data if bio.flags.contains(Flags::FUA) && !self.scene.facts.fua => {
                Some(Step::Postflush)
            }
            _ => None,
        }
    }

    /// The device has finished the present step.
    pub(crate) fn flush_step_ended(&mut self, id: RequestId, outcome: Outcome) {
        let Some(current) = self.flush.current.take() else { return };
        self.free_unbound(id);
        let failed = outcome.status != Status::Ok;
        match self.step_behind(&current) {
            Some(step) if !failed => {
                self.flush.current =
                    Some(Current { step, request: None, in_device: false, ..current });
            }
            _ => {
                self.bios.at_mut(current.bio).outcome = outcome;
                self.done.append(&mut self.bios, BioRun::one(current.bio));
            }
        }
    }

    /// The device refused the present step: the same command again.
    pub(crate) fn flush_step_refused(&mut self, id: RequestId) {
        self.scene.requests[id].stage = Stage::Dispatched;
        if let Some(current) = &mut self.flush.current {
            current.in_device = false;
        }
    }

    /// Takes a bio whose first step has not been issued out of the line. Whether it did.
    pub(crate) fn leave_flush_line(&mut self, index: u32) -> bool {
        let mut kept = BioRun::EMPTY;
        let mut found = false;
        while let Some(other) = self.flush.line.pop(&mut self.bios) {
            if other == index {
                found = true;
            } else {
                kept.append(&mut self.bios, BioRun::one(other));
            }
        }
        self.flush.line = kept;
        found
    }

    /// The request of the step under way, for the audit.
    pub(crate) fn flush_request(&self) -> Option<RequestId> {
        self.flush.current.and_then(|current| current.request)
    }
}
