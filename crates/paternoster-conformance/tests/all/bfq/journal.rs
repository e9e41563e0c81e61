// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal: what our BFQ says in a call, and where history is forced on it.
//!
//! Queues have the names that they had when the message was written: their process's, or "shared".

use std::cell::RefCell;
use std::collections::BTreeMap;

use paternoster_core::Nanos;
use paternoster_schedulers::conformance::bfq::{
    self, Decision, Listener, ProbePoint, Reading, Turns,
};
use paternoster_trace::ftrace::QueueName;

use super::account::Cause;
use super::history::{Ended, History};
use super::words::Word;

/// The length of a turn is uncertain if it is this near to a whole millisecond: the log's clock and
/// the kernel's differ by that much over a turn.
const EDGE: Nanos = Nanos::from_micros(20);

thread_local! {
    static JOURNAL: RefCell<Option<Journal>> = const { RefCell::new(None) };
}

/// One call.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// The messages of the call.
    pub(super) words: Vec<Word>,
    /// Why history was forced.
    pub(super) forced: Option<Cause>,
    /// Our queues as the log calls them.
    names: BTreeMap<u32, QueueName>,
    /// The process that calls: a queue made in the call is its own.
    caller: u32,
    history: History,
    /// The turn that ended last.
    ended: Option<Ended>,
    /// The log's time at our time 0.
    origin_ns: u64,
}

impl Journal {
    /// A call begins.
    pub(super) fn begin(
        &mut self,
        caller: u32,
        names: BTreeMap<u32, QueueName>,
        history: History,
        origin_ns: u64,
    ) {
        *self = Journal { caller, names, history, origin_ns, ..Journal::default() };
    }

    fn name(&self, queue: u32) -> QueueName {
        let new = QueueName::Process { pid: self.caller, sync: true };
        self.names.get(&queue).copied().unwrap_or(new)
    }

    fn write(&mut self, queue: Option<u32>, said: ProbePoint) {
        let other = match said {
            ProbePoint::Sought { found, .. } => found,
            ProbePoint::ToMerge { with } | ProbePoint::Merges { with } => Some(with),
            ProbePoint::Woken { by } => Some(by),
            _ => None,
        };
        let name = |queue: Option<u32>| queue.map(|queue| self.name(queue));
        let word = Word::ours(name(queue), name(other), said);
        // Linux prints what follows from an observation before it begins the next one.
        let before = usize::from(matches!(said, ProbePoint::MaxBudget { .. }));
        self.words.insert(self.words.len().saturating_sub(before), word);
        if let (ProbePoint::Merged { .. }, Some(queue)) = (said, queue) {
            self.names.insert(queue, QueueName::Shared { sync: true });
        }
    }

    fn clock(&mut self, reading: Reading, now: Nanos) -> Nanos {
        let at_ns = match reading {
            Reading::Begin => {
                let begun = self.history.begun();
                self.history.pass_begun();
                begun.map(|turn| turn.at_ns)
            }
            Reading::End => {
                self.ended = self.history.next_ended();
                self.ended.map(|turn| turn.at_ns)
            }
        };
        at_ns.map_or(now, |at_ns| Nanos(at_ns - self.origin_ns))
    }

    fn replace(&mut self, decision: Decision, ours: u64) -> u64 {
        let Decision::TimeCharge { lasted } = decision;
        let charge = self.ended.and_then(|turn| turn.charge).unwrap_or(ours);
        if charge != ours {
            let over = lasted.0 % 1_000_000;
            let near = over.min(1_000_000 - over) <= EDGE.0;
            self.forced = Some(if near { Cause::Millisecond } else { Cause::Unexplained });
        }
        charge
    }

    fn replace_turn(&mut self, turns: &mut Turns<'_>) {
        let Some(ours) = turns.next_queue() else { return };
        self.words.push(Word::turn(self.name(ours)));
        let Some(theirs) = self.history.begun().and_then(|turn| turn.queue) else { return };
        if self.name(ours) == theirs {
            return;
        }
        let called = self.names.iter().filter(|(_, name)| **name == theirs);
        let forced = called.map(|(queue, _)| *queue).any(|queue| turns.give_to(queue));
        self.forced = Some(if forced { Cause::Turn } else { Cause::Unexplained });
    }
}

/// The messages of our BFQ go into the journal of its thread.
static LISTENER: Listener = Listener {
    probe: |queue, said| with(|journal| journal.write(queue, said)),
    clock: |reading, now| with(|journal| journal.clock(reading, now)),
    replace: |decision, ours| with(|journal| journal.replace(decision, ours)),
    turn: |turns| with(|journal| journal.replace_turn(turns)),
};

/// Calls `f` with the journal of this thread.
pub(super) fn with<T>(f: impl FnOnce(&mut Journal) -> T) -> T {
    JOURNAL.with_borrow_mut(|journal| f(journal.as_mut().expect("a log is being replayed")))
}

/// From now on this thread's messages are recorded.
pub(super) fn install() {
    JOURNAL.with_borrow_mut(|journal| *journal = Some(Journal::default()));
    bfq::install(Some(&LISTENER));
}

/// Ends that.
pub(super) fn remove() {
    bfq::install(None);
    JOURNAL.with_borrow_mut(|journal| *journal = None);
}
