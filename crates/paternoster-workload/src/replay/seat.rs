// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seat: a process of the recording as a client of the queue.
//!
//! An I/O that is larger than a request may be is several bios under one plug, and ends with the
//! last of them. When the queue has no room the process sleeps; later I/Os wait behind that one,
//! and are submitted in order when the process is woken:
//!
//! ```text
//! due   a    b    c              a    Busy, sleeps … woken: a b c
//! ```
//!
//! What was recorded under a plug is submitted under one.

use std::collections::{BTreeMap, VecDeque};

use paternoster_core::{Bio, ClientId, Flags, Nanos, Observer, Op, RequestQueue, SubmitError};

/// Linux's EINVAL: the result of an I/O that the block layer does not take.
pub(super) const EINVAL: i32 = 22;

/// An I/O on its way into the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entering {
    pub(super) io: u32,
    pub(super) op: Op,
    pub(super) flags: Flags,
    /// First sector that is still to be submitted.
    pub(super) sector: u64,
    pub(super) left: u32,
    /// The plug stays closed for the next one.
    pub(super) held: bool,
}

/// What became of an attempt to submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The queue has all of it.
    Whole,
    /// The process sleeps.
    Busy,
    /// The queue does not take it, and has nothing of it.
    Refused(i32),
}

/// I/Os with more than one bio in flight, or to come.
#[derive(Debug, Default)]
pub(super) struct Parts(BTreeMap<u32, Part>);

#[derive(Debug, Clone, Copy, Default)]
struct Part {
    under_way: u32,
    /// Whether a part is still to be submitted.
    unfinished: bool,
    error: i32,
}

impl Parts {
    /// A bio of `io` has ended. The errno of the whole if that was its last, 0 if it went well.
    pub(super) fn ended(&mut self, io: u32, error: i32) -> Option<i32> {
        let Some(part) = self.0.get_mut(&io) else { return Some(error) };
        part.under_way -= 1;
        if error != 0 {
            part.error = error;
        }
        if part.under_way > 0 || part.unfinished {
            return None;
        }
        let error = part.error;
        self.0.remove(&io);
        Some(error)
    }
}

/// A process.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) client: ClientId,
    /// I/Os that have not ended.
    pub(super) left: u32,
    /// The I/O with which it sleeps.
    asleep: Option<Entering>,
    /// The I/Os that came since.
    behind: VecDeque<Entering>,
    plugged: bool,
}

impl Seat {
    pub(super) const fn new(client: ClientId, left: u32) -> Seat {
        Seat { client, left, asleep: None, behind: VecDeque::new(), plugged: false }
    }

    /// Submits an I/O, or puts it after those that wait.
    pub(super) fn submit<O: Observer>(
        &mut self,
        now: Nanos,
        entering: Entering,
        parts: &mut Parts,
        queue: &mut RequestQueue<O>,
    ) -> Taken {
        if self.asleep.is_some() {
            self.behind.push_back(entering);
            return Taken::Busy;
        }
        self.push(now, entering, parts, queue)
    }

    /// The I/O that goes on after a wake, and after it those that came since.
    pub(super) fn next_awake(&mut self) -> Option<Entering> {
        self.asleep.take().or_else(|| self.behind.pop_front())
    }

    /// Submits what is left of an I/O, until Busy.
    pub(super) fn push<O: Observer>(
        &mut self,
        now: Nanos,
        mut entering: Entering,
        parts: &mut Parts,
        queue: &mut RequestQueue<O>,
    ) -> Taken {
        let most = queue.max_sectors();
        let several = entering.left > most;
        if several {
            parts.0.entry(entering.io).or_default().unfinished = true;
        }
        if (several || entering.held) && !self.plugged {
            // The client is ours: it cannot be stale.
            let _plugged = queue.plug(now, self.client);
            self.plugged = true;
        }
        let taken = self.push_parts(now, most, &mut entering, parts, queue);
        if self.plugged && !entering.held {
            self.plugged = false;
            let _unplugged = queue.unplug(now, self.client);
        }
        taken
    }

    fn push_parts<O: Observer>(
        &mut self,
        now: Nanos,
        most: u32,
        entering: &mut Entering,
        parts: &mut Parts,
        queue: &mut RequestQueue<O>,
    ) -> Taken {
        loop {
            let Entering { io, op, flags, sector, left, .. } = *entering;
            let sectors = left.min(most);
            let bio = Bio::new(self.client, op, sector, sectors).flags(flags).cookie(io.into());
            match queue.submit(now, bio) {
                Ok(_) => {}
                Err(SubmitError::Busy) => {
                    self.asleep = Some(*entering);
                    return Taken::Busy;
                }
                Err(_) => return refuse(io, parts),
            }
            // Earlier data is flushed once.
            entering.flags = flags.without(Flags::PREFLUSH);
            entering.sector += u64::from(sectors);
            entering.left -= sectors;
            if let Some(part) = parts.0.get_mut(&io) {
                part.under_way += 1;
                part.unfinished = entering.left > 0;
            }
            if entering.left == 0 {
                return Taken::Whole;
            }
        }
    }
}

/// The queue refuses the rest of an I/O: it has failed, with the last of its bios in flight if
/// there are any.
fn refuse(io: u32, parts: &mut Parts) -> Taken {
    match parts.0.get_mut(&io) {
        Some(part) if part.under_way > 0 => {
            (part.unfinished, part.error) = (false, EINVAL);
            Taken::Whole
        }
        _ => {
            parts.0.remove(&io);
            Taken::Refused(EINVAL)
        }
    }
}
