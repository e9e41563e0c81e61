// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal: what our BFQ says in a call, and where history is forced on it.
//!
//! Queues are called as they were when it was said: by their process, or as shared.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::vec::Vec;

use paternoster_trace::ftrace::QueueName;

use super::account::Cause;
use super::history::{Ended, History};
use super::words::Word;
use crate::elevators::bfq::entity::{Entity, Standing, is_after};
use crate::elevators::bfq::recall::{Decision, Reading, Said};
use crate::elevators::bfq::schedule::Schedule;
use crate::time::Nanos;

/// How near to a whole millisecond the length of a turn is not known: the log's clock and the
/// kernel's differ by that much over a turn.
const EDGE: Nanos = Nanos::from_micros(20);

std::thread_local! {
    static JOURNAL: RefCell<Option<Journal>> = const { RefCell::new(None) };
}

/// One call.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// What was said.
    pub(super) words: Vec<Word>,
    /// Why history was forced.
    pub(super) forced: Option<Cause>,
    /// Our queues as the log calls them.
    names: BTreeMap<u32, QueueName>,
    /// Who calls: a queue that is made in the call is his.
    caller: u32,
    history: History,
    /// The turn that ended last.
    ended: Option<Ended>,
    /// The log's time at ours, 0.
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

    fn write(&mut self, queue: Option<u32>, said: Said) {
        let other = match said {
            Said::Sought { found, .. } => found,
            Said::ToMerge { with } | Said::Merges { with } => Some(with),
            Said::Woken { by } => Some(by),
            _ => None,
        };
        let name = |queue: Option<u32>| queue.map(|queue| self.name(queue));
        let word = Word::ours(name(queue), name(other), said);
        // Linux says what follows from an observation before it begins the next.
        let before = usize::from(matches!(said, Said::MaxBudget { .. }));
        self.words.insert(self.words.len().saturating_sub(before), word);
        if let (Said::Merged { .. }, Some(queue)) = (said, queue) {
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

    fn recall(&mut self, decision: Decision, ours: u64) -> u64 {
        let Decision::TimeCharge { lasted } = decision;
        let charge = self.ended.and_then(|turn| turn.charge).unwrap_or(ours);
        if charge != ours {
            let over = lasted.0 % 1_000_000;
            let near = over.min(1_000_000 - over) <= EDGE.0;
            self.forced = Some(if near { Cause::Millisecond } else { Cause::Unexplained });
        }
        charge
    }

    fn recall_turn(&mut self, schedule: &mut Schedule, root: u32) {
        let Some(ours) = next_queue(schedule, root) else { return };
        self.words.push(Word::turn(self.name(ours)));
        let Some(theirs) = self.history.begun().and_then(|turn| turn.queue) else { return };
        if self.name(ours) == theirs {
            return;
        }
        let called = self.names.iter().filter(|(_, name)| **name == theirs);
        let forced = called.map(|(queue, _)| *queue).any(|queue| force_turn(schedule, queue));
        self.forced = Some(if forced { Cause::Turn } else { Cause::Unexplained });
    }
}

/// Whose turn would be next.
fn next_queue(schedule: &Schedule, root: u32) -> Option<u32> {
    let mut entity = schedule.groups[root as usize].next?;
    while let Some(group) = schedule.group_of_entity(entity) {
        entity = schedule.groups[group as usize].next?;
    }
    Some(entity)
}

/// Makes the next turn that of `queue`. Whether it could be: it and its groups have work, and their
/// starts have come unless they are alone.
fn force_turn(schedule: &mut Schedule, queue: u32) -> bool {
    let mut at = Some(queue);
    while let Some(entity) = at {
        let Entity { standing, start, group, .. } = schedule.entities[entity as usize];
        let alone = schedule.groups[group as usize].active == 1;
        let too_early = !alone && is_after(start, schedule.vtime_of(entity));
        if standing != Standing::Active || too_early {
            return false;
        }
        at = schedule.parent_of(entity);
    }
    at = Some(queue);
    while let Some(entity) = at {
        let group = schedule.entities[entity as usize].group;
        schedule.groups[group as usize].next = Some(entity);
        at = schedule.groups[group as usize].entity;
    }
    true
}

fn with_journal<T>(without: T, f: impl FnOnce(&mut Journal) -> T) -> T {
    JOURNAL.with_borrow_mut(|journal| match journal {
        Some(journal) => f(journal),
        None => without,
    })
}

/// Writes down what our BFQ says while a log is replayed.
pub(in crate::elevators::bfq) fn say(queue: Option<u32>, said: Said) {
    with_journal((), |journal| journal.write(queue, said));
}

/// The same, for what takes a while to find out.
pub(in crate::elevators::bfq) fn say_of(what: impl FnOnce() -> (Option<u32>, Said)) {
    with_journal((), |journal| {
        let (queue, said) = what();
        journal.write(queue, said);
    });
}

/// The clock as Linux read it at this point.
pub(in crate::elevators::bfq) fn clock(reading: Reading, now: Nanos) -> Nanos {
    with_journal(now, |journal| journal.clock(reading, now))
}

/// The recorded choice.
pub(in crate::elevators::bfq) fn recall(decision: Decision, ours: u64) -> u64 {
    with_journal(ours, |journal| journal.recall(decision, ours))
}

/// The turn that begins is that of the recorded queue.
pub(in crate::elevators::bfq) fn recall_turn(schedule: &mut Schedule, root: u32) {
    with_journal((), |journal| journal.recall_turn(schedule, root));
}

/// Calls `f` with the journal of this thread.
pub(super) fn with<T>(f: impl FnOnce(&mut Journal) -> T) -> T {
    JOURNAL.with_borrow_mut(|journal| f(journal.as_mut().expect("a log is being replayed")))
}

/// From now on what is said on this thread is written down.
pub(super) fn install() {
    JOURNAL.with_borrow_mut(|journal| *journal = Some(Journal::default()));
}

/// Ends that.
pub(super) fn remove() {
    JOURNAL.with_borrow_mut(|journal| *journal = None);
}
