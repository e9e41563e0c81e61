// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: every step of a request's journey, with blktrace's action letters.
//!
//! Figures, plots, live statistics and recorded traces read this stream and nothing else. The
//! queue is generic over its [`Observer`]; with [`NoObserver`] the compiler removes the calls.
//!
//! ```text
//! Q ── G ── I ── D ── C          a bio that became a request
//! Q ── M                         a bio that was merged behind another
//! Q ── S ─ ─ (Busy, Wake) ── G   a bio whose client slept for a request
//! ```
//!
//! Elevators tell their reasons in [`Note`]s: small, typed, copied; words are made of them
//! elsewhere.
//!
//! Source: TRACE-8 (actions); the observer is our own.

use alloc::vec::Vec;

use crate::client::ClientId;
use crate::request::{Flags, Op};
use crate::time::Nanos;

/// What happened, by blktrace's letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// `Q`: a bio was submitted.
    Queue,
    /// `G`: a request was allocated for it.
    Get,
    /// `I`: a request went to the elevator.
    Insert,
    /// `D`: a request went to the device.
    Issue,
    /// `C`: a request came back.
    Complete,
    /// `M`: a bio was merged behind a request.
    BackMerge,
    /// `F`: a bio was merged before a request.
    FrontMerge,
    /// `P`: the queue or a client was plugged.
    Plug,
    /// `U`: unplugged.
    Unplug,
    /// `T`: unplugged by the timer.
    UnplugTimer,
    /// `S`: a client sleeps for want of a request.
    Sleep,
    /// `R`: the device refused, the request waits again.
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

/// One step of a request's journey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Nanos,
    /// Numbers the events and notes of a queue, from 0.
    pub sequence: u64,
    /// What.
    pub action: Action,
    /// Whose.
    pub client: ClientId,
    /// What is done to the sectors.
    pub op: Op,
    /// Properties.
    pub flags: Flags,
    /// First sector.
    pub sector: u64,
    /// How many sectors. For `U` and `T`: how many requests were released.
    pub sectors: u32,
    /// For `C`: the errno, 0 if done.
    pub error: i32,
    /// For `C`: device time.
    pub served: Nanos,
}

/// A kind of note of an elevator of one's own; a static, since notes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoteKind {
    /// What it says: the words before its number.
    pub words: &'static str,
    /// The number's unit; may be empty.
    pub unit: &'static str,
}

/// Why an elevator decided as it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The queue got this elevator; the number counts the changes.
    ElevatorChanged {
        /// Its epoch.
        epoch: u32,
    },
    /// deadline, mq-deadline: a new batch begins.
    BatchBegins {
        /// Of writes instead of reads.
        writes: bool,
        /// Because the oldest request was too old, or because nothing continues the last batch.
        from_fifo: bool,
    },
    /// mq-deadline: a request of a lower class was picked because it waited too long.
    Aged {
        /// Whose.
        client: ClientId,
    },
    /// kyber: requests of a kind wait because all their tokens are taken.
    Throttled {
        /// Of which kind; a flush stands for all that is no read, write or discard.
        op: Op,
    },
    /// kyber: what a percentile of latencies was, before it is acted on.
    LatencyTold {
        /// Of which kind of requests.
        op: Op,
        /// 90: from issue. 99: from allocation.
        percent: u32,
        /// Within so many quarters of the target; 8 also stands for all that is more.
        quarters: u32,
    },
    /// kyber: from now on so many requests of a kind may be in flight.
    DepthChanged {
        /// Of which kind.
        op: Op,
        /// How many.
        depth: u32,
    },
    /// A time slice begins for a client's queue.
    SliceBegins {
        /// Whose.
        client: ClientId,
        /// How long.
        slice: Nanos,
    },
    /// A time slice ends.
    SliceEnds {
        /// Whose.
        client: ClientId,
        /// Device time received in it.
        served: Nanos,
    },
    /// The device idles on purpose, for a client's next request.
    Idling {
        /// For whom.
        client: ClientId,
        /// At most until then.
        until: Nanos,
    },
    /// Two clients share one queue from now on.
    QueuesMerged {
        /// The one who moves.
        client: ClientId,
        /// The one whose queue it joins.
        into: ClientId,
    },
    /// A client leaves the queue that it shared.
    QueuesParted {
        /// The one who leaves.
        client: ClientId,
        /// The one whose queue it was.
        from: ClientId,
    },
    /// A turn begins for a client's queue, which asked for so much.
    BudgetGranted {
        /// Whose.
        client: ClientId,
        /// In sectors.
        budget: u64,
    },
    /// A turn ends.
    Expired {
        /// Whose.
        client: ClientId,
        /// Sectors received in it.
        served: u64,
        /// Why.
        why: Expiry,
    },
    /// A queue weighs more from its next turn on, or no more.
    WeightRaised {
        /// Whose.
        client: ClientId,
        /// So many times; 1 when it is over.
        coefficient: u32,
    },
    /// A request is served while the device is kept for another client.
    Injected {
        /// Whose it is.
        client: ClientId,
        /// In whose turn.
        into: ClientId,
    },
    /// paternoster: from now on so many streams are served at a time.
    SeatsChanged {
        /// How many; 0 is without a limit.
        seats: u32,
    },
    /// paternoster: its watchdog found that a rule is not kept. Accounts alone decide from now on.
    FellBack {
        /// What it found.
        why: Distrust,
    },
    /// paternoster: it goes by all its rules again, having fallen back.
    TriesAgain,
    /// What an elevator of one's own has to say.
    Own {
        /// Which words.
        kind: &'static NoteKind,
        /// Of whom.
        client: ClientId,
        /// How much.
        value: u64,
    },
    /// A turn ends early, because somebody else need not wait.
    Preempted {
        /// Whose turn it was.
        client: ClientId,
        /// For whom.
        by: ClientId,
        /// Why.
        rule: Preemption,
    },
}

/// Which of its own rules paternoster was found to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distrust {
    /// Nothing is in the device, somebody waits, and nothing would have come to change that.
    Stuck,
    /// It idled for longer than it may.
    Idle,
    /// Somebody had less than his weight's part for too long.
    Unfair,
}

/// Why a turn of a queue ended (bfq).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expiry {
    /// The device was kept for its next request, which did not come in time.
    TooIdle,
    /// It took too long.
    BudgetTimeout,
    /// Its next request is more than what is left of its budget.
    BudgetExhausted,
    /// It is empty, and not waited for.
    NoMoreRequests,
    /// Somebody else goes first.
    Preempted,
}

/// Why a request need not wait for the end of somebody's turn: cfq's rules in their order, then
/// bfq's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preemption {
    /// The slice belongs to the idle class.
    OverIdleClass,
    /// Somebody waits for it; nobody does for what has the device.
    SyncOverAsync,
    /// The slice is used up.
    SliceUsed,
    /// Both are served in turns, and the other has had its turn.
    NextInTurn,
    /// It carries the flag of urgent requests (metadata, or priority).
    Urgent,
    /// It is of the real-time class.
    Realtime,
    /// The device idles, and not even on purpose.
    NotIdledFor,
    /// The device idles on purpose, and the request is close to where it stands.
    Close,
    /// It comes back in time to what is left of its budget, or is raised.
    Deserves,
    /// It is of a higher class, or weighs more.
    Heavier,
}

/// Reads the stream. Calls come in order of time and sequence.
pub trait Observer {
    /// Whether anybody listens; `false` removes the calls.
    const LISTENS: bool = true;

    /// A step of a request's journey.
    fn event(&mut self, event: &Event);

    /// A reason of the elevator.
    fn note(&mut self, at: Nanos, sequence: u64, note: &Note);
}

/// Nobody listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    const LISTENS: bool = false;
    fn event(&mut self, _: &Event) {}
    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}

/// Two observers of one stream.
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

/// Where elevators put their notes until the queue forwards them: bounded, and counting what it
/// dropped.
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

    /// Writes a note down, if somebody listens and there is room.
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

    /// How many notes found no room: one call of the queue wrote more than the ring holds.
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
