// SPDX-License-Identifier: MIT OR Apache-2.0
//! Surveys: questions about where a volume has holes, and whose question is asked next.
//!
//! The kernel may take milliseconds to answer one, longer than for a hundred reads, and one thread
//! asks it. So each tenant's questions wait in a line, and the thread has one at a time:
//!
//! ```text
//! fragment ──its turn in the queue──▶ a: 1 2 3   due 12 ms ┐
//!                                   b: 4       due  9 ms ┴──the first that is due──▶ thread
//! thread took 4 ms for b, which has half of the weight       b: due 9 + 4 / 0.5 = 17 ms
//! ```
//!
//! A question occupies no device command while it waits or is answered: commands are left to reads
//! and writes. A tenant is charged for the thread's time, divided by its weight; a new tenant has
//! no claim to past time. After a long question the thread rests for as long as it took, since the
//! kernel may have kept the processor from all others meanwhile.
//!
//! Invariants: I1 at most one question is with the thread; I2 a fragment that waits is in one line;
//! I3 a tenant is in `order` while its line is not empty.

use std::collections::{BTreeSet, VecDeque};

use paternoster_core::Nanos;

use super::pool::{Shares, WHOLE};
use crate::nbd::block_status::DESCRIPTORS_MOST;

/// Runs of hole and data, at most, in one answer; its client asks again from where they end.
pub(super) const RUNS: usize = DESCRIPTORS_MOST;
/// As [`RUNS`], if one run is wanted: a hole smaller than a block does not count, so several may be
/// merged.
pub(super) const RUNS_OF_ONE: usize = 8;
/// The least that a question is charged.
const LEAST: Nanos = Nanos::from_micros(1);
/// After a question that took longer, the thread rests.
const LONG: Nanos = Nanos::from_micros(200);

/// The questions of a tenant.
#[derive(Debug, Default)]
struct Line {
    fragments: VecDeque<u32>,
    /// When its next question is due, in nanoseconds of a thread that it would have to itself.
    due: u64,
    /// The tenant's share, of [`WHOLE`].
    share: u64,
}

/// A question that the thread has.
#[derive(Debug, Clone, Copy)]
struct Asked {
    fragment: u32,
    tenant: u32,
    since: Nanos,
}

/// The questions of a loop.
#[derive(Debug, Default)]
pub(super) struct Surveys {
    /// The line of each tenant.
    lines: Vec<Line>,
    /// When the next of each tenant is due.
    order: BTreeSet<(u64, u32)>,
    /// When the one that was asked last was due.
    passed: u64,
    asked: Option<Asked>,
    rests_until: Nanos,
}

impl Surveys {
    /// What is divided among tenants has changed.
    pub(super) fn divide(&mut self, shares: &Shares) {
        for (tenant, share) in (0..).zip(shares.by_weight()) {
            let line = self.line(tenant);
            line.share = share.unwrap_or(0);
            if share.is_none() && line.fragments.is_empty() {
                // Another tenant may have its place now.
                line.due = 0;
            }
        }
    }

    fn line(&mut self, tenant: u32) -> &mut Line {
        let place = tenant as usize;
        if self.lines.len() <= place {
            self.lines.resize_with(place + 1, Line::default);
        }
        &mut self.lines[place]
    }

    /// Puts a fragment into its tenant's line.
    pub(super) fn wait(&mut self, tenant: u32, fragment: u32) {
        let passed = self.passed;
        let line = self.line(tenant);
        line.fragments.push_back(fragment);
        if line.fragments.len() == 1 {
            line.due = line.due.max(passed);
            let due = line.due;
            self.order.insert((due, tenant));
        }
    }

    /// A fragment waits no more; returns whether it is not with the thread, where it ends later.
    pub(super) fn withdraw(&mut self, tenant: u32, fragment: u32) -> bool {
        let waits = !self.has_asked(fragment);
        if waits {
            self.forget(tenant, fragment);
        }
        waits
    }

    fn forget(&mut self, tenant: u32, fragment: u32) {
        let line = self.line(tenant);
        line.fragments.retain(|other| *other != fragment);
        if line.fragments.is_empty() {
            let due = line.due;
            self.order.remove(&(due, tenant));
        }
    }

    /// Begins the question that is due now, if any, and returns its fragment.
    pub(super) fn begin(&mut self, now: Nanos) -> Option<u32> {
        if self.asked.is_some() || now < self.rests_until {
            return None;
        }
        let (due, tenant) = self.order.pop_first()?;
        self.passed = due;
        let line = self.line(tenant);
        let fragment = line.fragments.pop_front()?;
        if !line.fragments.is_empty() {
            self.order.insert((due, tenant));
        }
        self.asked = Some(Asked { fragment, tenant, since: now });
        Some(fragment)
    }

    /// The question that was asked has ended: charges its tenant, and returns its fragment.
    pub(super) fn end(&mut self, now: Nanos) -> Option<u32> {
        let Asked { fragment, tenant, since } = self.asked.take()?;
        let took = now - since;
        if took > LONG {
            self.rests_until = now + took;
        }
        let line = self.line(tenant);
        let before = line.due;
        // A tenant without a share has gone.
        let cost = u128::from(took.max(LEAST).0) * u128::from(WHOLE);
        let cost = cost.checked_div(line.share.into()).unwrap_or(0);
        line.due = before.saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        let due = line.due;
        if self.order.remove(&(before, tenant)) {
            self.order.insert((due, tenant));
        }
        Some(fragment)
    }

    /// Whether the thread has this fragment's question.
    fn has_asked(&self, fragment: u32) -> bool {
        self.asked.is_some_and(|asked| asked.fragment == fragment)
    }

    /// Whether the thread has a question.
    pub(super) const fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// When the next question may be asked, if one waits and the thread has none.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        (self.asked.is_none() && !self.order.is_empty()).then_some(self.rests_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In what order questions of two tenants, with shares of a quarter and three quarters, are
    /// asked, if each takes `took`. The first tenant has 100 that wait; the other comes later with
    /// as many.
    fn order(took: impl Fn(u32) -> Nanos) -> Vec<u32> {
        let mut surveys = Surveys::default();
        surveys.line(0).share = WHOLE / 4;
        surveys.line(1).share = WHOLE / 4 * 3;
        let mut now = Nanos::ZERO;
        let mut asked = Vec::new();
        (0..100).for_each(|fragment| surveys.wait(0, fragment));
        for round in 0..60 {
            if round == 20 {
                (100..200).for_each(|fragment| surveys.wait(1, fragment));
            }
            now = now.max(surveys.next_at().expect("some wait"));
            let fragment = surveys.begin(now).expect("it is due");
            assert!(surveys.has_asked(fragment) && surveys.begin(now).is_none());
            now += took(fragment / 100);
            assert_eq!(surveys.end(now), Some(fragment));
            asked.push(fragment / 100);
        }
        asked
    }

    /// Does a tenant that comes later have its share from then on, but nothing for the past? Of 40
    /// questions of equal length the heavier tenant has 30, plus the one with which it begins.
    #[test]
    fn time_is_shared_by_weight() {
        let asked = order(|_| Nanos::from_millis(5));
        assert_eq!(asked[..20], [0; 20]);
        assert_eq!(asked[20..].iter().filter(|tenant| **tenant == 1).count(), 31);
    }

    /// Is it time that is shared, not questions? The light tenant's take nine times as long: with
    /// three quarters of the time in pieces of 1 against one quarter in pieces of 9, the heavier
    /// tenant has 27 of each 28.
    #[test]
    fn long_questions_are_fewer() {
        let asked = order(|tenant| Nanos::from_millis(if tenant == 0 { 9 } else { 1 }));
        let of_the_heavier = asked[20..].iter().filter(|tenant| **tenant == 1).count();
        assert!((38..=39).contains(&of_the_heavier), "{of_the_heavier}");
    }

    /// Does the thread rest after a long question for as long as that took, and not after a short
    /// one?
    #[test]
    fn the_thread_rests() {
        let mut surveys = Surveys::default();
        (0..3).for_each(|fragment| surveys.wait(0, fragment));
        surveys.begin(Nanos::ZERO);
        surveys.end(Nanos::from_millis(5));
        assert_eq!(surveys.next_at(), Some(Nanos::from_millis(10)));
        assert_eq!(surveys.begin(Nanos::from_millis(9)), None);
        surveys.begin(Nanos::from_millis(10)).expect("it has rested");
        surveys.end(Nanos::from_micros(10_100));
        assert!(surveys.begin(Nanos::from_micros(10_100)).is_some());
    }

    /// Is a tenant forgotten once all its questions are withdrawn?
    #[test]
    fn what_is_withdrawn_is_not_asked() {
        let mut surveys = Surveys::default();
        [4, 5].into_iter().for_each(|fragment| surveys.wait(7, fragment));
        surveys.forget(7, 4);
        surveys.forget(7, 5);
        assert_eq!((surveys.next_at(), surveys.begin(Nanos::ZERO)), (None, None));
    }
}
