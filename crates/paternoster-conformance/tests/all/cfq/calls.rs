// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log cut into calls of the elevator.
//!
//! The kernel's scheduler is entered in few ways, and each leaves its own first line:
//!
//! ```text
//! alloced … G                     a request is made                    Bind
//! I, insert_request, @key, @ins   it waits                             Insert
//!    … @pre, preempt, slice expired
//! @sel …, set_active, dispatch_insert, dispatched a request            Pick
//! activate, D                     it goes to the device                Start
//! R, deactivate                   the device refused it                Requeue
//! C, complete, @slice, arm_idle   it has ended                         Complete
//! idle timer fired                                                     Timer
//! M, F                            a bio joined a request               Merge
//! put_queue                       a process has gone                   Leave
//! ```
//!
//! A call carries the messages that it wrote: what the kernel decided in it. Which request was
//! picked is known from the D line that follows. A pick has no first line of its own: it begins
//! with the first message of its kind and ends with *keep*, *may not* or *dispatched*. A pick that
//! wrote nothing (nothing waited) does not show, and need not.
//!
//! # What holds
//! I1  Every message belongs to exactly one call.
//! I2  The lines of one log balance: what is inserted was made, what is issued was inserted, what
//!     completes was issued. What does not balance is reported in `Calls::oddities`.
//!
//! Source: CFQ-60 to CFQ-67; CFQ-35 (the driver asks for one request more than it can take).

use std::collections::BTreeMap;

use super::log::{Action, Extent, Kind, Line, Name, What};
use super::message::{Exit, Message};

/// A message with its time in microseconds and the queue that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) at: u64,
    pub(super) queue: Option<Name>,
    pub(super) message: Message,
}

/// One request of a log, numbered in the order of allocation.
#[derive(Debug, Clone, Copy)]
struct Recorded {
    pid: u32,
    kind: Kind,
    at: Extent,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Plugged,
    Waiting,
    Issued,
    Refused,
    Done,
}

/// One entry into the elevator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Bind {
        request: usize,
        kind: Kind,
        at: Extent,
        /// When its bio was submitted; the scheduler knows the process from then on.
        since: u64,
    },
    Insert {
        request: usize,
    },
    /// A bio became part of a waiting request (or of one that is still plugged).
    Merge {
        request: usize,
        bio: Extent,
        front: bool,
        waits: bool,
    },
    /// The request that was chosen, if any.
    Pick {
        request: Option<usize>,
    },
    Start {
        request: usize,
    },
    Requeue {
        request: usize,
    },
    Complete {
        request: usize,
    },
    Timer,
    Leave,
}

/// A call with its time and its messages.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Microseconds.
    pub(super) at: u64,
    pub(super) pid: u32,
    pub(super) call: Call,
    pub(super) said: Vec<Said>,
}

/// A log as calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) steps: Vec<Step>,
    /// What could not be cut into calls; empty for every log there is.
    pub(super) oddities: Vec<String>,
    requests: Vec<Recorded>,
    /// Messages before the line that shows which call they belong to.
    before: Vec<Said>,
    /// The pick whose request is not known yet.
    picked: Option<usize>,
    /// When each process submitted its last bio.
    queued: BTreeMap<u32, u64>,
}

impl Calls {
    /// Cuts the lines of one log.
    pub(super) fn cut(lines: impl Iterator<Item = Line>) -> Calls {
        let mut calls = Calls::default();
        for line in lines {
            match line.what {
                What::Block { action, kind, at } => match kind {
                    Kind::Flush => {}
                    Kind::Passthrough => calls.passthrough(action),
                    _ => calls.block(line.at, line.pid, action, kind, at),
                },
                What::Message { queue, message } => {
                    calls.message(line.pid, Said { at: line.at, queue, message });
                }
            }
        }
        calls
    }

    /// The driver's own commands get a queue as others do, and are not scheduled.
    fn passthrough(&mut self, action: Action) {
        if action == Action::Get {
            self.before.clear();
        }
    }

    fn open(&mut self, at: u64, pid: u32, call: Call) {
        let mut said = Vec::new();
        if matches!(call, Call::Bind { .. } | Call::Start { .. }) {
            said.append(&mut self.before);
        }
        self.steps.push(Step { at, pid, call, said });
    }

    fn odd(&mut self, at: u64, what: &str) {
        self.oddities.push(format!("{}.{:06}: {what}", at / 1_000_000, at % 1_000_000));
    }

    /// The latest request in `stage` for which `fits` holds.
    fn find(&self, stage: Stage, fits: impl Fn(&Recorded) -> bool) -> Option<usize> {
        self.requests.iter().rposition(|request| request.stage == stage && fits(request))
    }

    fn block(&mut self, at: u64, pid: u32, action: Action, kind: Kind, extent: Extent) {
        let same = |request: &Recorded| request.kind == kind && request.at == extent;
        match action {
            Action::Get => {
                let request = self.requests.len();
                self.requests.push(Recorded { pid, kind, at: extent, stage: Stage::Plugged });
                let since = self.queued.get(&pid).copied().unwrap_or(at);
                self.open(at, pid, Call::Bind { request, kind, at: extent, since });
            }
            Action::Insert => {
                if let Some(request) = self.find(Stage::Plugged, same) {
                    self.requests[request].stage = Stage::Waiting;
                    self.open(at, pid, Call::Insert { request });
                } else if self.find(Stage::Refused, same).is_none() {
                    self.odd(at, "inserted, but never made");
                }
            }
            Action::Issue => self.issue(at, pid, same),
            Action::Requeue => match self.find(Stage::Issued, same) {
                Some(request) => {
                    self.requests[request].stage = Stage::Refused;
                    self.open(at, pid, Call::Requeue { request });
                }
                None => self.odd(at, "requeued, but not issued"),
            },
            Action::Complete => match self.find(Stage::Issued, same) {
                Some(request) => {
                    self.requests[request].stage = Stage::Done;
                    self.open(at, pid, Call::Complete { request });
                }
                None => self.odd(at, "completed, but not issued"),
            },
            Action::BackMerge => self.merge(at, pid, kind, extent, false),
            Action::FrontMerge => self.merge(at, pid, kind, extent, true),
            Action::Queue => {
                self.queued.insert(pid, at);
            }
            Action::Sleep | Action::Plug | Action::Unplug => {}
        }
    }

    fn issue(&mut self, at: u64, pid: u32, same: impl Fn(&Recorded) -> bool) {
        let refused = self.find(Stage::Refused, &same);
        let Some(request) = refused.or_else(|| self.find(Stage::Waiting, &same)) else {
            return self.odd(at, "issued, but not inserted");
        };
        self.requests[request].stage = Stage::Issued;
        if refused.is_none() {
            match self.picked.take() {
                Some(step) => self.steps[step].call = Call::Pick { request: Some(request) },
                None => self.odd(at, "issued, but not picked"),
            }
        }
        self.open(at, pid, Call::Start { request });
    }

    /// A bio joins the request that ends where the bio begins, or begins where it ends: first one
    /// that its process has plugged, then a waiting one.
    fn merge(&mut self, at: u64, pid: u32, kind: Kind, bio: Extent, front: bool) {
        let adjoins = |request: &Recorded| {
            let touches =
                if front { request.at.sector == bio.end() } else { request.at.end() == bio.sector };
            request.kind == kind && touches
        };
        let plugged = self.find(Stage::Plugged, |request| request.pid == pid && adjoins(request));
        let Some(request) = plugged.or_else(|| self.find(Stage::Waiting, adjoins)) else {
            return self.odd(at, "merged with a request that is not there");
        };
        let extent = &mut self.requests[request].at;
        extent.sectors += bio.sectors;
        if front {
            extent.sector = bio.sector;
        }
        let waits = plugged.is_none();
        self.open(at, pid, Call::Merge { request, bio, front, waits });
    }

    fn message(&mut self, pid: u32, said: Said) {
        let at = said.at;
        match said.message {
            Message::Alloced
            | Message::MergingWith
            | Message::Merging { .. }
            | Message::BreakingApart
            | Message::Activate { .. } => return self.before.push(said),
            Message::PutQueue if !self.before.is_empty() => return self.before.push(said),
            Message::PutQueue if !self.is_leaving() => self.open(at, pid, Call::Leave),
            Message::TimerFired => self.open(at, pid, Call::Timer),
            Message::DispatchInsert if self.picked.is_some() => {
                self.odd(at, "two picked before one is issued");
            }
            _ => {}
        }
        if self.begins_pick(&said.message) {
            self.open(at, pid, Call::Pick { request: None });
        } else if self.is_of_an_exit(&said.message) {
            self.open(at, pid, Call::Leave);
        }
        if said.message == Message::DispatchInsert {
            self.picked = self.steps.len().checked_sub(1);
        }
        match self.steps.last_mut() {
            Some(step) => step.said.push(said),
            None => self.odd(at, "a message before every call"),
        }
    }

    /// Whether the last call is a process's end that is not logged in full.
    fn is_leaving(&self) -> bool {
        let last = self.steps.last();
        last.is_some_and(|step| {
            step.call == Call::Leave
                && step.said.iter().all(|said| said.message != Message::PutQueue)
        })
    }

    /// Whether a slice ends here that nothing in this call has ended: its process has gone.
    fn is_of_an_exit(&self, message: &Message) -> bool {
        let Some(step) = self.steps.last() else { return false };
        let has = |wanted: Message| step.said.iter().any(|said| said.message == wanted);
        let ended = step.said.iter().any(|said| matches!(said.message, Message::Expired { .. }));
        let reason = match step.call {
            Call::Insert { .. } => has(Message::Preempt),
            Call::Complete { .. } => has(Message::CompletionExpires),
            Call::Pick { .. } => !self.pick_has_ended(),
            Call::Timer => true,
            _ => false,
        };
        matches!(message, Message::Expired { .. }) && (ended || !reason)
    }

    /// Whether the last pick has ended.
    fn pick_has_ended(&self) -> bool {
        let last = self.steps.last().and_then(|step| step.said.last());
        matches!(
            last.map(|said| &said.message),
            Some(
                Message::Dispatched
                    | Message::Refused(_)
                    | Message::Select(Exit::KeepTimer | Exit::KeepDispatched | Exit::KeepGroup)
            )
        )
    }

    /// Whether this message is the first of a pick.
    fn begins_pick(&self, message: &Message) -> bool {
        let Some(step) = self.steps.last() else { return true };
        let belongs = matches!(
            message,
            Message::WorkloadSlice(_)
                | Message::Workload { .. }
                | Message::SetActive { .. }
                | Message::Fifo
                | Message::Select(_)
                | Message::DeepSeeky
                | Message::Refused(_)
                | Message::MayDispatch { .. }
                | Message::DispatchInsert
        );
        if !matches!(step.call, Call::Pick { .. }) {
            // `should_idle` speaks in insertions and completions too; after any other call it can
            // only be a pick.
            let asks = *message == Message::NotIdling
                && !matches!(step.call, Call::Insert { .. } | Call::Complete { .. });
            return belongs || asks;
        }
        let refused =
            matches!(step.said.last(), Some(Said { message: Message::MayDispatch { .. }, .. }))
                && !matches!(message, Message::DispatchInsert | Message::Fifo);
        let ended = refused || self.pick_has_ended();
        let selects_again = matches!(message, Message::Select(_))
            && step.said.iter().any(|said| matches!(said.message, Message::Expired { .. }));
        (belongs || *message == Message::NotIdling) && (ended || selects_again)
    }
}
