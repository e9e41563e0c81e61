// SPDX-License-Identifier: MIT OR Apache-2.0
//! The oracle: what the kernel decided in the current call, and how our choice compares.
//!
//! While a log is replayed, the oracle holds the messages of the current call. Each decision takes
//! the message that reports it (`decisions.rs`), compares, and returns the recorded choice. A
//! message that is left at the end of the call is a decision that our scheduler never reached.
//!
//! # Time
//! A message gives a time or a span that was read from the clock some microseconds before it was
//! written, and before or after others of the same call. Clock values agree if they are within
//! [`CLOCK`]; then the recorded one is taken, so that what is computed from them (keys, lengths,
//! virtual times) can be compared exactly. A yes or no that compares times (is the slice used up?)
//! may differ where the two were that close.

use std::cell::RefCell;
use std::collections::BTreeMap;

use paternoster_schedulers::conformance::cfq::{self, Choice};

use super::calls::Said;
use super::log::Name;
use super::message::Message;
use super::tally::Tally;

/// How far clock readings of one call may lie apart, in nanoseconds: calls of the recorded kernel
/// take up to 150 us, because it runs under emulation and logs what it does.
pub(super) const CLOCK: i64 = 150_000;
/// A pause of the emulation between two messages of a call, at most.
pub(super) const PAUSE: i64 = 600_000;
/// The same for a workload's end, which is saved and restored with each turn of its group, at two
/// readings of the clock: 150 ms are some 500 turns of 5 us each.
pub(super) const DRIFT: i64 = 2_000_000;

/// Why decisions differ.
pub(super) const UNEXPLAINED: &str = "unexplained";
pub(super) const EDGE: &str = "a time compared within what our clock is exact to";
pub(super) const PAUSED: &str = "the emulation paused between two readings of the clock";
pub(super) const BEFORE: &str = "goes on from a run before it that is not recorded";
pub(super) const FIRST_THOUGHT: &str = "since when the process is known is not told";
pub(super) const CHOSEN: &str = "since when the scheduler is chosen is not told";
pub(super) const WITHIN: &str = "a decision on its way";

/// Classes that compare a value, not a choice: which queue is served does not depend on them,
/// because the recorded value is taken.
const VALUES: [&str; 10] = [
    "average of busy queues",
    "expiry: residual",
    "expiry: time used",
    "expiry: virtual time",
    "key",
    "left of a slice",
    "seek history",
    "slice length",
    "think time",
    "workload: time",
];

thread_local! {
    static ORACLE: RefCell<Option<Oracle>> = const { RefCell::new(None) };
}

/// Calls `f` with the oracle of this thread.
pub(super) fn with<T>(f: impl FnOnce(&mut Oracle) -> T) -> T {
    ORACLE.with_borrow_mut(|oracle| f(oracle.as_mut().expect("a log is being replayed")))
}

/// From now on decisions of this thread are compared.
pub(super) fn install(log: &str, goes_on_from_before: bool) {
    let oracle = Oracle { log: log.into(), goes_on_from_before, ..Oracle::default() };
    ORACLE.with_borrow_mut(|place| *place = Some(oracle));
    cfq::install(Some(|decision, ours| with(|oracle| oracle.decide(decision, ours))));
}

/// Stops comparing; returns what was found.
pub(super) fn remove() -> Tally {
    cfq::install(None);
    ORACLE.with_borrow_mut(Option::take).map_or_else(Tally::default, |oracle| oracle.tally)
}

/// Our state before a call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    /// The request that the kernel picked in this call, by our number.
    pub(super) picked: Option<u32>,
    /// Busy queues.
    pub(super) busy: u32,
    /// What is left of the workload that would go on, in nanoseconds.
    pub(super) workload_left: i64,
}

/// What the kernel decided in the present call.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    log: String,
    at: u64,
    said: Vec<Option<Said>>,
    /// The recorded names of our queues.
    names: BTreeMap<u32, Name>,
    pub(super) before: Before,
    /// The log continues another run, whose virtual time is not known.
    pub(super) goes_on_from_before: bool,
    /// A choice differed in this call.
    pub(super) differed: bool,
    /// A way out of the selection of a queue was taken, or should have been.
    pub(super) exit_taken: bool,
    pub(super) exit_differed: bool,
    /// The workload went on, against our choice.
    pub(super) workload_went_on: bool,
    tally: Tally,
}

impl Oracle {
    /// A call begins.
    pub(super) fn begin(&mut self, at: u64, said: &[Said], before: Before) {
        self.at = at;
        self.said.clear();
        self.said.extend(said.iter().cloned().map(Some));
        self.before = before;
        self.differed = false;
        (self.exit_taken, self.exit_differed) = (false, false);
        self.workload_went_on = false;
    }

    /// The call has ended: a message left is a decision that we did not come to.
    pub(super) fn end(&mut self, call: &str) {
        if self.exit_taken && !self.exit_differed {
            self.tally.same("selection: keep, wait, leave");
        }
        for place in 0..self.said.len() {
            let Some(Said { queue, message, .. }) = self.said[place].take() else { continue };
            if !is_telling(&message) {
                let text = format!("in {call}: {queue:?} {message:?}");
                self.differ("not come to", UNEXPLAINED, &text);
            }
        }
    }

    /// Takes the first message that fits.
    pub(super) fn take<T>(
        &mut self,
        fits: impl Fn(Option<Name>, &Message) -> Option<T>,
    ) -> Option<T> {
        for place in &mut self.said {
            let found = place.as_ref().and_then(|said| fits(said.queue, &said.message));
            if found.is_some() {
                *place = None;
                return found;
            }
        }
        None
    }

    /// Takes a message; returns whether there is one.
    pub(super) fn has(&mut self, wanted: &Message) -> bool {
        self.take(|_, message| (message == wanted).then_some(())).is_some()
    }

    /// The content of the first message that fits, which stays.
    pub(super) fn see<T>(&self, fits: impl Fn(&Message) -> Option<T>) -> Option<T> {
        self.said.iter().flatten().find_map(|said| fits(&said.message))
    }

    /// Counts a decision.
    pub(super) fn compare(
        &mut self,
        class: &'static str,
        same: bool,
        cause: &'static str,
        text: &str,
    ) {
        if same {
            self.tally.same(class);
        } else {
            self.differ(class, cause, text);
        }
    }

    /// Counts a decision that is not the recorded one.
    pub(super) fn differ(&mut self, class: &'static str, cause: &'static str, text: &str) {
        self.differed |= !VALUES.contains(&class);
        let at = format!("{} {}.{:06}", self.log, self.at / 1_000_000, self.at % 1_000_000);
        self.tally.different(class, cause, format!("{at}: {text}"));
    }

    /// A queue of ours has this name in the log.
    pub(super) fn rename(&mut self, queue: u32, name: Name, is_live: impl Fn(u32) -> bool) {
        self.names.retain(|&known, _| is_live(known));
        self.names.insert(queue, name);
    }

    pub(super) fn name(&self, queue: u32) -> Option<Name> {
        self.names.get(&queue).copied()
    }

    /// Our queue of that name; if several have it, `ours` if it is among them. (After a split two
    /// queues have one name, until the process that stays with the old one has it renamed.)
    pub(super) fn queue(&self, name: Name, ours: Option<i64>) -> Option<u32> {
        let mut called = self.names.iter().filter(|entry| *entry.1 == name).map(|entry| *entry.0);
        let is_ours = |queue: &u32| queue.number() == ours;
        called.clone().find(is_ours).or_else(|| called.next())
    }
}

/// Messages that report an event and decide nothing, or whose decision is compared elsewhere.
const fn is_telling(message: &Message) -> bool {
    matches!(
        message,
        Message::Alloced
            | Message::PutQueue
            | Message::MergingWith
            | Message::Merging { .. }
            | Message::BreakingApart
            | Message::InsertRequest
            | Message::AddToTree
            | Message::DelFromTree
            | Message::DelGroup
            | Message::Inserted { .. }
            | Message::Preempt
            | Message::SetSlice(_)
            | Message::Dispatched
            | Message::Activate { .. }
            | Message::Deactivate
            | Message::Complete
            | Message::HardwareTag { .. }
            | Message::NotArmed
            | Message::NotIdling
            | Message::ThinksTooLong
            | Message::ScheduleDispatch
            | Message::TimerFired
            | Message::MergeScheduled { .. }
    )
}
