// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which choice a `D` starts: the choices of one device that wait for theirs.
//!
//! ```text
//! fio      dispatch, served 128       ── waits ──┐  no tag is free: it goes to the driver's list
//! kworker  dispatch, served 128       ── waits ──┤  so does this
//! softirq  C                                     │  one has ended: a tag is free
//! kworker  D 726528 + 128             which one? ┘  either: not sure, nor is the other then
//! ```
//!
//! A choice after which no request has ended cannot have waited for a tag: then the speaker starts
//! its own choices, in order.
//!
//! Source: the recordings, see `calls.rs`.

use std::collections::VecDeque;

use super::cut::Speaker;

/// Requests that the driver gave back, remembered at most.
const REQUEUED_MAX: usize = 1024;

/// A choice whose `D` has not been seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// The slot of its call.
    pub(super) slot: u64,
    /// The speaker that asked.
    pub(super) speaker: Speaker,
    /// How many sectors were charged.
    pub(super) sectors: u64,
    /// How many requests had ended before.
    ended: u64,
    /// Whether a `D` that may be its own was taken for another's.
    doubtful: bool,
}

/// What one device has chosen and not started.
#[derive(Debug, Default)]
pub(super) struct Choices {
    waiting: VecDeque<Choice>,
    /// Sector and sectors of requests that the driver gave back: they are started without being
    /// chosen again.
    requeued: VecDeque<(u64, u32)>,
    /// How many requests have ended.
    ended: u64,
}

impl Choices {
    pub(super) fn chosen(&mut self, slot: u64, speaker: Speaker, sectors: u64) {
        let (ended, doubtful) = (self.ended, false);
        self.waiting.push_back(Choice { slot, speaker, sectors, ended, doubtful });
    }

    pub(super) fn completed(&mut self) {
        self.ended += 1;
    }

    /// It will be started again, and a tag is free.
    pub(super) fn requeued(&mut self, sector: u64, sectors: u32) {
        self.ended += 1;
        self.requeued.push_back((sector, sectors));
        if self.requeued.len() > REQUEUED_MAX {
            self.requeued.pop_front();
        }
    }

    /// The choice that this start belongs to, and whether that is sure.
    pub(super) fn issued(
        &mut self,
        speaker: Speaker,
        sector: u64,
        sectors: u32,
    ) -> Option<(Choice, bool)> {
        if let Some(place) = self.requeued.iter().position(|again| *again == (sector, sectors)) {
            self.requeued.remove(place);
            return None;
        }
        let fits = |choice: &Choice| choice.sectors == u64::from(sectors);
        let own = |choice: &Choice| choice.speaker == speaker && fits(choice);
        let ended = self.ended;
        let at_once = |choice: &Choice| own(choice) && choice.ended == ended;
        if let Some(place) = self.waiting.iter().position(at_once) {
            let sure = !self.waiting.iter().any(|choice| own(choice) && choice.ended != ended);
            return Some((self.waiting.remove(place)?, sure));
        }
        let place = self.waiting.iter().position(fits)?;
        let alone = self.waiting.iter().filter(|choice| fits(choice)).count() == 1;
        let choice = self.waiting.remove(place)?;
        if !alone {
            let others = self.waiting.iter_mut().filter(|choice| fits(choice));
            others.for_each(|choice| choice.doubtful = true);
        }
        Some((choice, alone && !choice.doubtful))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIO: Speaker = Speaker::Task(1);
    const WORKER: Speaker = Speaker::Task(2);

    fn slot(found: Option<(Choice, bool)>) -> Option<(u64, bool)> {
        found.map(|(choice, sure)| (choice.slot, sure))
    }

    /// Does each speaker start its own while no request ends, whichever chose first?
    #[test]
    fn at_once() {
        let mut choices = Choices::default();
        choices.chosen(1, FIO, 8);
        choices.chosen(2, WORKER, 8);
        choices.chosen(3, WORKER, 8);
        assert_eq!(slot(choices.issued(WORKER, 0, 8)), Some((2, true)));
        assert_eq!(slot(choices.issued(FIO, 0, 8)), Some((1, true)));
        assert_eq!(slot(choices.issued(WORKER, 0, 8)), Some((3, true)));
        assert_eq!(slot(choices.issued(WORKER, 0, 8)), None);
    }

    /// Is the only waiting choice found whichever speaker starts it, and none of another size?
    #[test]
    fn one_that_waited() {
        let mut choices = Choices::default();
        choices.chosen(1, FIO, 8);
        choices.chosen(2, FIO, 128);
        choices.completed();
        assert_eq!(slot(choices.issued(WORKER, 0, 16)), None);
        assert_eq!(slot(choices.issued(WORKER, 0, 128)), Some((2, true)));
        assert_eq!(slot(choices.issued(WORKER, 0, 8)), Some((1, true)));
    }

    /// Does neither of two waiting choices count as sure, even when only one is left? A third,
    /// chosen since and started at once by its own speaker, does.
    #[test]
    fn two_that_waited() {
        let mut choices = Choices::default();
        choices.chosen(1, FIO, 8);
        choices.chosen(2, WORKER, 8);
        choices.completed();
        assert_eq!(slot(choices.issued(WORKER, 0, 8)), Some((1, false)));
        choices.chosen(3, FIO, 8);
        assert_eq!(slot(choices.issued(FIO, 0, 8)), Some((3, true)));
        assert_eq!(slot(choices.issued(FIO, 0, 8)), Some((2, false)));
    }

    /// Does what the driver gave back start again without a choice?
    #[test]
    fn given_back() {
        let mut choices = Choices::default();
        choices.chosen(1, FIO, 8);
        assert_eq!(slot(choices.issued(FIO, 64, 8)), Some((1, true)));
        choices.requeued(64, 8);
        choices.chosen(2, FIO, 8);
        assert_eq!(slot(choices.issued(FIO, 64, 8)), None);
        assert_eq!(slot(choices.issued(FIO, 80, 8)), Some((2, true)));
    }
}
