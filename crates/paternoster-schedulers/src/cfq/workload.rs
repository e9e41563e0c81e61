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

use crate::cfq::Cfq;
use crate::cfq::groups::Saved;
use crate::cfq::kind::{KINDS, Kind, tree_of};
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::slice::jiffy;
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

impl Cfq {
    /// Chooses the group, class and kind to be served.
    pub(super) fn choose_workload(&mut self, view: &QueueView) {
        let now = view.now();
        let Some(group) = self.groups.next() else {
            self.serving.group = None;
            self.serve_idle_class(view);
            return;
        };
        self.serving.group = Some(group);
        self.serving.expires = None;
        if let Some(Saved { left, class, kind }) = self.groups[group].saved {
            self.serving = Serving { group: Some(group), class, kind, expires: Some(now + left) };
        }
        self.choose_kind(view, group);
    }

    fn choose_kind(&mut self, view: &QueueView, group: u32) {
        let known = &self.groups[group];
        let before = self.serving.class;
        let busy = [Class::Realtime, Class::BestEffort];
        let Some(class) = busy.into_iter().find(|&class| known.busy_of(class) > 0) else {
            self.serve_idle_class(view);
            return;
        };
        self.serving.class = class;
        let restarts = self.version.restarts_workloads && class != before;
        let goes_on = self.serving.expires.is_some_and(|expires| view.now() <= expires);
        let tree = tree_of(class, self.serving.kind);
        let goes_on = goes_on && !restarts && !known.trees[tree].is_empty();
        if !replace(Decision::GoesOn, goes_on) {
            self.begin_workload(view, group, class);
        }
    }

    fn serve_idle_class(&mut self, view: &QueueView) {
        self.serving.class = Class::Idle;
        self.serving.expires = Some(view.now() + jiffy(view));
    }

    fn begin_workload(&mut self, view: &QueueView, group: u32, class: Class) {
        self.serving.kind = replace(Decision::Kind, self.kind_of_lowest_key(group, class));
        let time = replace(Decision::WorkloadTime, self.workload_time(view, group));
        self.serving.expires = Some(view.now() + time);
        self.tree_idles = false;
    }

    /// Of equal keys, the first kind in the order of the trees.
    fn kind_of_lowest_key(&self, group: u32, class: Class) -> Kind {
        let known = &self.groups[group];
        let first_key = |kind: Kind| {
            let first = known.trees[tree_of(class, kind)].first();
            first.and_then(|queue| self.service.key(queue)).map(|key| (key, kind))
        };
        let lowest = KINDS.into_iter().filter_map(first_key).min_by_key(|&(key, _)| key);
        lowest.map_or(Kind::default(), |(_, kind)| kind)
    }

    /// How long the kind being served lasts (CFQ-19).
    fn workload_time(&self, view: &QueueView, group: u32) -> Nanos {
        let tick = view.hz().tick().0;
        let Serving { class, kind, .. } = self.serving;
        let known = &self.groups[group];
        let busy_here = u64::from(known.trees[tree_of(class, kind)].len());
        let average = known.averages[usize::from(class == Class::Realtime)];
        let busy = u64::from(average.max(known.busy_of(class)).max(1));
        let mut time = scale(
            self.groups.slice(group, self.tunables.target_latency, view.hz().tick()).0 / tick,
            busy_here,
            busy,
        );
        if kind == Kind::Async {
            let target = self.tunables.target_latency.0 / tick;
            let of_async = scale(target, known.busy_async().into(), self.busy.into());
            let [short, long] = self.tunables.slice.map(|slice| slice.0 / tick);
            time = scale(time.min(of_async), short, long);
        } else {
            time = time.max(2 * self.tunables.slice_idle_in(view).0 / tick);
        }
        Nanos(time * tick).max(Nanos(LEAST_JIFFIES * jiffy(view).0))
    }

    /// The first queue of the tree that is being served.
    pub(super) fn first_of_workload(&self) -> Option<u32> {
        let group = self.serving.group?;
        let tree = tree_of(self.serving.class, self.serving.kind);
        self.groups[group].trees[tree].first()
    }

    /// A queue's turn ended: the group will go on later with the rest of its workload.
    pub(super) fn save_workload(&mut self, view: &QueueView, group: u32) {
        let now = view.now();
        let Serving { class, kind, expires, .. } = self.serving;
        let left = expires.filter(|&expires| expires > now).map(|expires| expires - now);
        self.groups[group].saved = left.map(|left| Saved { left, class, kind });
    }
}
