// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry: one ask on its way: waiting, granted, given back. What an ask says, and the answers.

use core::fmt;

use paternoster_core::{Nanos, Op as QueueOp, Tag, Ticket as BioTicket, slab::Key};

use super::class::ClassId;
use super::eta::Eta;

/// Names an ask from [`super::Core::ask`] until its permit is given back. A stale one is
/// recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) Key);

impl Ticket {
    /// A small number, unique among the present tickets: an index for tables.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0.index()
    }

    /// The ticket as a number that is not 0, for other languages.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0.bits()
    }

    /// The ticket of such a number. Any other number gives a ticket that is no longer out.
    #[must_use]
    pub fn from_bits(bits: u64) -> Ticket {
        Ticket(Key::from_bits(bits))
    }
}

/// What will be done with a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Op {
    /// Data come from the device.
    #[default]
    Read = 0,
    /// Data go to the device: direct, or with the flush that makes the device see them. A write
    /// that only reaches the page cache takes no time of the device and needs no permit.
    Write = 1,
    /// `fsync` and its like.
    Flush = 2,
    /// The device may forget the data.
    Discard = 3,
}

impl Op {
    /// Its operation in the queue: a flush is a write, which is charged device time.
    pub(super) const fn in_queue(self) -> QueueOp {
        match self {
            Op::Read => QueueOp::Read,
            Op::Discard => QueueOp::Discard,
            Op::Write | Op::Flush => QueueOp::Write,
        }
    }
}

/// What an ask asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    pub(super) op: Op,
    pub(super) offset: Option<u64>,
    pub(super) len: u64,
    pub(super) holder: u64,
    pub(super) deadline: Nanos,
    pub(super) gives_up: Nanos,
}

impl Ask {
    /// A permit for one I/O of `len` bytes, anywhere.
    #[must_use]
    pub const fn new(op: Op, len: u64) -> Ask {
        let (deadline, gives_up) = (Nanos::MAX, Nanos::MAX);
        Ask { op, offset: None, len, holder: 0, deadline, gives_up }
    }

    /// The byte at which it begins. Where seeks cost time a class's permits then go by place, and
    /// streams take turns. Without it they go in the order of the asks.
    #[must_use]
    pub const fn at(mut self, offset: u64) -> Ask {
        self.offset = Some(offset);
        self
    }

    /// The thread or task that asks; 0 is none in particular. A holder that asks while it holds a
    /// permit is reported, since that can deadlock: see [`super::Report`].
    #[must_use]
    pub const fn holder(mut self, holder: u64) -> Ask {
        self.holder = holder;
        self
    }

    /// The I/O is useless unless it has ended by then: the ask is refused at once if that cannot be
    /// met, and is too late if it was not granted by then.
    #[must_use]
    pub const fn by(mut self, deadline: Nanos) -> Ask {
        self.deadline = deadline;
        self
    }

    /// The ask is too late if it was not granted by then. It is never refused at once.
    #[must_use]
    pub const fn until(mut self, time: Nanos) -> Ask {
        self.gives_up = time;
        self
    }

    /// When it stops waiting.
    pub(super) fn ends_waiting(&self) -> Nanos {
        self.deadline.min(self.gives_up)
    }
}

/// An ask was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// The class was closed.
    NoClass,
    /// All the gate's places are taken by asks and permits.
    Full,
    /// The deadline cannot be met: this is when it would be done.
    TooLate(Eta),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoClass => f.write_str("the class was closed"),
            AskError::Full => f.write_str("as many ask as the gate has places for"),
            AskError::TooLate(eta) => {
                write!(f, "it would be done at {}, behind its deadline", eta.done)
            }
        }
    }
}

impl core::error::Error for AskError {}

/// The gate's next report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This one has its permit: do the I/O, then [`super::Core::give_back`].
    Granted(Ticket),
    /// This one was not granted in time, and waits no more.
    TooLate(Ticket),
    /// Nothing now: call again at this time, or after an ask or a give-back.
    Wait(Nanos),
    /// Nothing now, and nothing that depends on time.
    Idle,
}

/// The stage of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// In the queue.
    #[default]
    Waiting,
    /// Its permit is given out.
    Granted,
    /// It no longer waits, which is still to be reported.
    TooLate,
}

/// The line in which an ask waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Lane {
    /// In the queue, in its class's order.
    #[default]
    Usual,
    /// In the queue, ahead of all usual asks, as its class is behind its floor.
    Urgent,
    /// In its class's line, as a cap is closed.
    Kept,
}

/// One ask.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) class: Option<ClassId>,
    pub(super) stage: Stage,
    pub(super) lane: Lane,
    pub(super) op: Op,
    /// The sector of its request in the queue.
    pub(super) sector: u64,
    /// Nothing of its class waited when it came, but others did, or held all permits.
    pub(super) was_first: bool,
    /// Another ask of its class waited when it came.
    pub(super) was_behind: bool,
    /// The uncorrected estimate it was given; 0: its estimate is not checked.
    pub(super) told: u64,
    pub(super) len: u64,
    pub(super) holder: u64,
    pub(super) asked: Nanos,
    pub(super) granted: Nanos,
    pub(super) gives_up: Option<Nanos>,
    pub(super) bio: Option<BioTicket>,
    pub(super) tag: Option<Tag>,
    /// The clock of device time when it was granted.
    pub(super) clock: Nanos,
}
