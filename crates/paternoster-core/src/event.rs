// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: every step of a request, with blktrace's action letters.
//!
//! Figures, plots, live statistics and recorded traces read only this stream. The queue is generic
//! over its [`Observer`]; with [`NoObserver`] the compiler removes the calls.
//!
//! ```text
//! Q ── G ── I ── D ── C          a bio that became a request
//! Q ── M                         a bio that was merged at the end of another
//! Q ── S ─ ─ (Busy, Wake) ── G   a bio whose client slept for a request
//! ```
//!
//! Elevators give their reasons in [`Note`]s: small, typed, copied; other code turns them into
//! words.
//!
//! Source: TRACE-8 (actions); the observer is our own.

use alloc::vec::Vec;

use crate::client::ClientId;
use crate::op::{Flags, Op};
use crate::time::Nanos;

/// What happened, by blktrace's letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// `Q`: a bio was submitted.
    Queue,
    /// `G`: a request was allocated for it.
    Get,
    /// `I`: a request was inserted into the elevator.
    Insert,
    /// `D`: a request went to the device.
    Issue,
    /// `C`: a request was completed.
    Complete,
    /// `M`: a bio was merged at the end of a request.
    BackMerge,
    /// `F`: a bio was merged at the start of a request.
    FrontMerge,
    /// `P`: the queue or a client was plugged.
    Plug,
    /// `U`: unplugged.
    Unplug,
    /// `T`: unplugged by the timer.
    UnplugTimer,
    /// `S`: a client sleeps because no request is free.
    Sleep,
    /// `R`: the device refused; the request waits again.
    Requeue,
    /// `X`: a bio was split.
    Split,
}

impl Action {
    /// The letter that blkparse prints.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Action::Queue => 'Q',
            Action::Get => 'G',
            Action::Insert => 'I',
            Action::Issue => 'D',
            Action::Complete => 'C',
            Action::BackMerge => 'M',
            Action::FrontMerge => 'F',
            Action::Plug => 'P',
            Action::Unplug => 'U',
            Action::UnplugTimer => 'T',
            Action::Sleep => 'S',
            Action::Requeue => 'R',
            Action::Split => 'X',
        }
    }
}

/// One step of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub at: Nanos,
    /// Numbers the events and notes of a queue, from 0.
    pub sequence: u64,
    /// What happened.
    pub action: Action,
    /// The client whose request it is.
    pub client: ClientId,
    /// The operation.
    pub op: Op,
    /// Properties.
    pub flags: Flags,
    /// First sector.
    pub sector: u64,
    /// Number of sectors. For `U` and `T`: the number of requests released.
    pub sectors: u32,
    /// For `C`: the errno, 0 if done.
    pub error: i32,
    /// For `C`: device time.
    pub served: Nanos,
}

/// A kind of note of your own elevator; a static, since notes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoteKind {
    /// Its text: the words before the number.
    pub words: &'static str,
    /// The number's unit; may be empty.
    pub unit: &'static str,
}

/// Why an elevator decided as it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The queue has a new elevator; the number counts the changes.
    ElevatorChanged {
        /// Its epoch.
        epoch: u32,
    },
    /// deadline, mq-deadline: a new batch begins.
    BatchBegins {
        /// A batch of writes instead of reads.
        writes: bool,
        /// Because the oldest request was too old, or nothing continues the last batch.
        from_fifo: bool,
    },
    /// mq-deadline: a request of a lower class was picked because it had waited too long.
    Aged {
        /// The request's client.
        client: ClientId,
    },
    /// kyber: requests of a kind wait because all its tokens are taken.
    Throttled {
        /// The kind; a flush means all but read, write and discard.
        op: Op,
    },
    /// kyber: a percentile of latencies, before it is acted on.
    LatencyTold {
        /// The kind of requests.
        op: Op,
        /// 90: from issue. 99: from allocation.
        percent: u32,
        /// Within this many quarters of the target; 8 also means any more.
        quarters: u32,
    },
    /// kyber: from now on this many requests of a kind may be in flight.
    DepthChanged {
        /// The kind.
        op: Op,
        /// The number of requests.
        depth: u32,
    },
    /// A time slice begins for a client's queue.
    SliceBegins {
        /// The client.
        client: ClientId,
        /// The length of the slice.
        slice: Nanos,
    },
    /// A time slice ends.
    SliceEnds {
        /// The client.
        client: ClientId,
        /// Device time received in it.
        served: Nanos,
    },
    /// The device idles on purpose, waiting for a client's next request.
    Idling {
        /// The client waited for.
        client: ClientId,
        /// At the latest until then.
        until: Nanos,
    },
    /// Two clients share one queue from now on.
    QueuesMerged {
        /// The client that moves.
        client: ClientId,
        /// The client whose queue it joins.
        into: ClientId,
    },
    /// A client leaves the queue that it shared.
    QueuesParted {
        /// The client that leaves.
        client: ClientId,
        /// The client whose queue it was.
        from: ClientId,
    },
    /// A turn begins for a client's queue, with the budget it requested.
    BudgetGranted {
        /// The client.
        client: ClientId,
        /// In sectors.
        budget: u64,
    },
    /// A turn ends.
    Expired {
        /// The client.
        client: ClientId,
        /// Sectors received in it.
        served: u64,
        /// The reason.
        why: Expiry,
    },
    /// A queue weighs more from its next turn on, or no longer does.
    WeightRaised {
        /// The client.
        client: ClientId,
        /// The factor; 1 when it is over.
        coefficient: u32,
    },
    /// A request is served while the device is kept for another client.
    Injected {
        /// The request's client.
        client: ClientId,
        /// The client whose turn it is.
        into: ClientId,
    },
    /// paternoster: from now on this many streams are served at a time.
    SeatsChanged {
        /// The number of seats; 0 means no limit.
        seats: u32,
    },
    /// paternoster: its watchdog found a rule broken. Accounts alone decide from now on.
    FellBack {
        /// What it found.
        why: Distrust,
    },
    /// paternoster: after falling back it uses all its rules again.
    TriesAgain,
    /// A note of your own elevator.
    Own {
        /// The kind of note.
        kind: &'static NoteKind,
        /// The client.
        client: ClientId,
        /// The number.
        value: u64,
    },
    /// A turn ends early, because another client need not wait for its end.
    Preempted {
        /// The client whose turn it was.
        client: ClientId,
        /// The client that takes over.
        by: ClientId,
        /// The reason.
        rule: Preemption,
    },
}

/// The rule of its own that paternoster was found to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distrust {
    /// Nothing is in the device, requests wait, and nothing would have come to change that.
    Stuck,
    /// It idled for longer than it may.
    Idle,
    /// A client got less than its weight's part for too long.
    Unfair,
}

/// Why a turn of a queue ended (bfq).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expiry {
    /// The device was kept for its next request, which did not come in time.
    TooIdle,
    /// It took too long.
    BudgetTimeout,
    /// Its next request is larger than the rest of its budget.
    BudgetExhausted,
    /// It is empty, and not waited for.
    NoMoreRequests,
    /// Another queue goes first.
    Preempted,
}

/// Why a request need not wait for the end of the current turn: cfq's rules in their order, then
/// bfq's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preemption {
    /// The slice belongs to the idle class.
    OverIdleClass,
    /// A process waits for it; none waits for the I/O being served.
    SyncOverAsync,
    /// The slice is used up.
    SliceUsed,
    /// Both are served in turns, and the other has had its own.
    NextInTurn,
    /// It carries the flag of urgent requests (metadata, or priority).
    Urgent,
    /// It is of the real-time class.
    Realtime,
    /// The device idles, and not on purpose for a queue.
    NotIdledFor,
    /// The device idles on purpose, and the request is close to its position.
    Close,
    /// Its queue returns in time for the rest of its budget, or is raised.
    Deserves,
    /// Its queue is of a higher class, or weighs more.
    Heavier,
}

/// Reads the stream. Calls come in order of time and sequence number.
pub trait Observer {
    /// Whether it listens; `false` removes the calls.
    const LISTENS: bool = true;

    /// A step of a request.
    fn event(&mut self, event: &Event);

    /// A reason given by the elevator.
    fn note(&mut self, at: Nanos, sequence: u64, note: &Note);
}

/// An observer that ignores everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    const LISTENS: bool = false;
    fn event(&mut self, _: &Event) {}
    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}

/// Two observers for one stream.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const LISTENS: bool = A::LISTENS || B::LISTENS;

    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }

    fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        self.0.note(at, sequence, note);
        self.1.note(at, sequence, note);
    }
}

/// Holds elevators' notes until the queue forwards them: bounded, and counts those it dropped.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    notes: Vec<Note>,
    capacity: usize,
    dropped: u64,
}

impl Notes {
    pub(crate) fn with_capacity(capacity: u32) -> Notes {
        let capacity = capacity as usize;
        Notes { notes: Vec::with_capacity(capacity), capacity, dropped: 0 }
    }

    /// Adds a note, if an observer listens and there is room.
    #[inline]
    pub fn write(&mut self, note: Note) {
        if self.capacity == 0 {
            return;
        }
        if self.notes.len() < self.capacity {
            self.notes.push(note);
        } else {
            self.dropped += 1;
        }
    }

    /// How many notes found no room: one call of the queue wrote more than fit.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Note> + '_ {
        self.notes.drain(..)
    }
}
