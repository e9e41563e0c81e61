// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workload: which kind of queues a group serves now, and for how long.
//!
//! Readers with slices of their own, readers served in turns, and writers would disturb each other
//! if they were mixed. A group serves one kind at a time, the one whose first queue has the lowest
//! key, for a time in proportion to how many queues of that kind are busy:
//!
//! ```text
//! 300 ms, four queues     2 sync 150 ms │ 1 not idled for 75 ms │ 1 async 75 * 40/100 = 30 ms
//! ```
//!
//! The end of a workload's time never cuts a queue's slice; it is checked when the next queue is
//! chosen.
//!
//! # Invariants
//! I1  No queue of a class is chosen while one of a better class is busy in the group (CFQ-17, 18).
//!
//! Source: CFQ-17 to CFQ-19, CFQ-64, CFQ-71.

use crate::cfq::groups::Saved;
use crate::cfq::kind::{KINDS, Kind, tree_of};
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::schedule::Schedule;
use crate::cfq::slice::jiffy;
use crate::cfq::tunables::Tunables;
use crate::cfq::version::Version;
use paternoster_core::time::{Nanos, scale};
use paternoster_core::{Class, QueueView};

/// The shortest time of a workload, in jiffies.
const LEAST_JIFFIES: u64 = 2;

/// What is being served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Serving {
    pub(super) group: Option<u32>,
    pub(super) class: Class,
    pub(super) kind: Kind,
    /// When it ends; `None` if it is over.
    pub(super) expires: Option<Nanos>,
}

/// The workload being served.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) serving: Serving,
    /// The device idles for the tree of queues not idled for singly, at its end (2.6.34).
    tree_idles: bool,
    /// A change of class begins a new workload.
    restarts: bool,
}

impl Workload {
    pub(super) fn new(version: &Version) -> Workload {
        let (serving, restarts) = (Serving::default(), version.restarts_workloads);
        Workload { serving, tree_idles: false, restarts }
    }

    /// Queues of this kind are served.
    #[inline]
    pub(super) const fn kind(&self) -> Kind {
        self.serving.kind
    }

    /// A request of the tree being served has ended; `goes_on`: others may follow it.
    #[inline]
    pub(super) const fn ended(&mut self, goes_on: bool) {
        self.tree_idles |= goes_on;
    }

    /// Whether the device may idle for the tree as a whole (2.6.34).
    #[inline]
    pub(super) const fn tree_idles(&self) -> bool {
        self.tree_idles
    }

    /// Chooses the group, class and kind to be served. Returns the first queue of them.
    pub(super) fn choose(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        schedule: &mut Schedule,
    ) -> Option<u32> {
        let now = view.now();
        let Some(group) = schedule.groups.next() else {
            self.serving.group = None;
            self.serve_idle_class(view);
            return None;
        };
        self.serving.group = Some(group);
        self.serving.expires = None;
        if let Some(Saved { left, class, kind }) = schedule.groups[group].saved {
            self.serving = Serving { group: Some(group), class, kind, expires: Some(now + left) };
        }
        self.choose_kind(view, tunables, schedule, group);
        let tree = tree_of(self.serving.class, self.serving.kind);
        schedule.groups[group].trees[tree].first()
    }

    fn choose_kind(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        schedule: &Schedule,
        group: u32,
    ) {
        let known = &schedule.groups[group];
        let before = self.serving.class;
        let busy = [Class::Realtime, Class::BestEffort];
        let Some(class) = busy.into_iter().find(|&class| known.busy_of(class) > 0) else {
            self.serve_idle_class(view);
            return;
        };
        self.serving.class = class;
        let restarts = self.restarts && class != before;
        let goes_on = self.serving.expires.is_some_and(|expires| view.now() <= expires);
        let tree = tree_of(class, self.serving.kind);
        let goes_on = goes_on && !restarts && !known.trees[tree].is_empty();
        if !replace(Decision::GoesOn, goes_on) {
            self.serving.kind = replace(Decision::Kind, kind_of_lowest_key(schedule, group, class));
            let time = self.time(view, tunables, schedule, group);
            let time = replace(Decision::WorkloadTime, time);
            self.serving.expires = Some(view.now() + time);
            self.tree_idles = false;
        }
    }

    fn serve_idle_class(&mut self, view: &QueueView) {
        self.serving.class = Class::Idle;
        self.serving.expires = Some(view.now() + jiffy(view));
    }

    /// How long the kind being served lasts (CFQ-19).
    fn time(
        &self,
        view: &QueueView,
        tunables: &Tunables,
        schedule: &Schedule,
        group: u32,
    ) -> Nanos {
        let tick = view.hz().tick().0;
        let Serving { class, kind, .. } = self.serving;
        let known = &schedule.groups[group];
        let busy_here = u64::from(known.trees[tree_of(class, kind)].len());
        let average = known.averages[usize::from(class == Class::Realtime)];
        let busy = u64::from(average.max(known.busy_of(class)).max(1));
        let of_group = schedule.groups.slice(group, tunables.target_latency, view.hz().tick());
        let mut time = scale(of_group.0 / tick, busy_here, busy);
        if kind == Kind::Async {
            let target = tunables.target_latency.0 / tick;
            let of_async = scale(target, known.busy_async().into(), schedule.busy().into());
            let [short, long] = tunables.slice.map(|slice| slice.0 / tick);
            time = scale(time.min(of_async), short, long);
        } else {
            time = time.max(2 * tunables.slice_idle_in(view).0 / tick);
        }
        Nanos(time.saturating_mul(tick)).max(Nanos(LEAST_JIFFIES * jiffy(view).0))
    }

    /// A queue's turn ended: what its group will go on with later, the rest of its workload.
    pub(super) fn rest(&self, now: Nanos) -> Option<Saved> {
        let Serving { class, kind, expires, .. } = self.serving;
        let left = expires.filter(|&expires| expires > now).map(|expires| expires - now);
        left.map(|left| Saved { left, class, kind })
    }

    /// A group is removed.
    pub(super) fn forget_group(&mut self, group: u32) {
        self.serving.group = self.serving.group.filter(|&served| served != group);
    }
}

/// The kind with the lowest key; among equal keys the first in the order of the trees.
fn kind_of_lowest_key(schedule: &Schedule, group: u32, class: Class) -> Kind {
    let known = &schedule.groups[group];
    let first_key = |kind: Kind| {
        let first = known.trees[tree_of(class, kind)].first();
        first.and_then(|queue| schedule.key_of(queue)).map(|key| (key, kind))
    };
    let lowest = KINDS.into_iter().filter_map(first_key).min_by_key(|&(key, _)| key);
    lowest.map_or(Kind::default(), |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfq::queue::Queue;
    use crate::cfq::schedule::Charging;
    use crate::cfq::version::{LINUX_2_6_34, LINUX_3_6};
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Limits, Priority};

    fn at(ms: u64) -> QueueView {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        view.turn_clock(Nanos::from_millis(ms));
        view
    }

    /// These queues become busy in group 1, of weight 500, a millisecond after each other.
    fn busy<const N: usize>(version: &Version, kinds: [(Class, Kind); N]) -> Schedule {
        let mut schedule = Schedule::new(u32::try_from(N).unwrap_or(0), 2, version);
        schedule.groups[1].new_weight = 500;
        for (queue, (class, kind)) in (0..).zip(kinds) {
            let priority = Priority { class, level: 4 };
            let (is_sync, idle_window) = (kind != Kind::Async, kind == Kind::Sync);
            let mut home = Queue { is_sync, idle_window, priority, group: 1, ..Queue::default() };
            let (view, tunables) = (at(u64::from(queue)), Tunables::default());
            schedule.join_busy(&view, &tunables, Charging::Time, queue, &mut home);
        }
        schedule
    }

    const BEST: Class = Class::BestEffort;

    /// Is the kind of the lowest key served, for 300 ms times its part of the busy queues: of four
    /// 150 ms for the two that are idled for?
    #[test]
    fn cfq_19_the_kind_of_the_lowest_key() {
        let (sync, other) = ((BEST, Kind::Sync), (BEST, Kind::NoIdle));
        let mut schedule = busy(&LINUX_3_6, [sync, sync, other, (BEST, Kind::Async)]);
        let mut workload = Workload::new(&LINUX_3_6);
        assert_eq!(workload.choose(&at(1000), &Tunables::default(), &mut schedule), Some(0));
        let Serving { group, class, kind, expires } = workload.serving;
        assert_eq!((group, class, kind), (Some(1), BEST, Kind::Sync));
        assert_eq!(expires, Some(Nanos::from_millis(1150)));
    }

    /// Does a workload of async queues with the greatest `slice_async` and `target_latency` last as
    /// long as time does, and not for what is left of that beyond 64 bits?
    #[test]
    fn the_longest_workload_does_not_wrap() {
        let longest = Nanos(u64::MAX);
        let slice = [longest, Nanos::from_millis(1)];
        let tunables = Tunables { slice, target_latency: longest, ..Tunables::default() };
        let mut schedule = busy(&LINUX_3_6, [(BEST, Kind::Async)]);
        let mut workload = Workload::new(&LINUX_3_6);
        assert_eq!(workload.choose(&at(0), &tunables, &mut schedule), Some(0));
        assert_eq!(workload.serving.expires, Some(longest));
        assert_eq!(tunables.level_slice(&at(0), false, 0), longest);
    }

    /// Does a group go on with the rest of its workload, but from 2.6.38 on not in another class?
    #[test]
    fn the_rest_is_kept_for_the_same_class() {
        for (version, ms) in [(LINUX_2_6_34, 50), (LINUX_3_6, 300)] {
            let mut schedule = busy(&version, [(Class::Realtime, Kind::Sync)]);
            let mut workload = Workload::new(&version);
            let expires = Some(Nanos::from_millis(50));
            workload.serving = Serving { group: Some(1), class: BEST, kind: Kind::Sync, expires };
            schedule.groups[1].saved = workload.rest(Nanos::ZERO);
            assert_eq!(workload.choose(&at(0), &Tunables::default(), &mut schedule), Some(0));
            assert_eq!(workload.serving.expires, Some(Nanos::from_millis(ms)), "{}", version.name);
            assert_eq!(workload.rest(Nanos::from_millis(ms)), None);
        }
    }

    /// Without work, is no group served, and is that so for a group that is removed?
    #[test]
    fn without_work_no_group_is_served() {
        let mut schedule = busy(&LINUX_3_6, [(BEST, Kind::Sync)]);
        let mut workload = Workload::new(&LINUX_3_6);
        workload.choose(&at(0), &Tunables::default(), &mut schedule);
        workload.forget_group(0);
        assert_eq!(workload.serving.group, Some(1));
        workload.forget_group(1);
        assert_eq!(workload.serving.group, None);
        let mut empty = busy(&LINUX_3_6, []);
        assert_eq!(workload.choose(&at(0), &Tunables::default(), &mut empty), None);
        assert_eq!((workload.serving.group, workload.serving.class), (None, Class::Idle));
    }
}
