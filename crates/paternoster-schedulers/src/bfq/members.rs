// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members: processes and groups come, change and go, and their queues are merged and split.
//!
//! ```text
//! process ── slot ──▶ queue ── merge ──▶ shared queue ── split ──▶ a queue of its own again
//!              │                             │
//!              └ released when it ends,      └ given up when the last one has left it
//!                or changes its group
//! ```
//!
//! This is wiring: which queues may be merged, and what is saved of them, is asked of the parts
//! (`cooperate`, `stable_merge`, `saved_state`), and what follows is done here.
//!
//! # Invariants
//! I1  A process's slot and the queue's reference for it come and go together.
//! I2  A queue without a reference left is gone from all parts that name queues.
//!
//! Source: BFQ-122 to BFQ-130, BFQ-133 to BFQ-147, BFQ-181 to BFQ-185, BFQ-192.

use crate::bfq::Bfq;
use crate::bfq::context::{self, Context, weight_of};
use crate::bfq::cooperate;
use crate::bfq::entity::Standing;
use crate::bfq::inject::Limit;
use crate::bfq::pattern::Pattern;
use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::queue::Queue;
use crate::bfq::saved_state::SavedState;
use crate::bfq::stable_merge;
use crate::bfq::weight_raising::{Kind, Raising};
use paternoster_core::ClientId;
use paternoster_core::QueueView;
use paternoster_core::event::{Expiry, Note};
use paternoster_core::pick::shared::{SHARED, effective_priority, place_of};

impl Bfq {
    /// The queue that a request of `client` belongs to.
    pub(super) fn queue_for(&mut self, view: &mut QueueView, client: ClientId, sync: bool) -> u32 {
        let Some(queue) = self.contexts.slot(client, sync) else {
            return self.take_queue(view, client, sync);
        };
        let home = self.queues.at_mut(queue);
        if home.is_sync
            && home.is_shared
            && home.is_to_split
            && !self.contexts.at(client).is_stably_merged
        {
            return self.split(view, client, queue);
        }
        if home.is_sync && home.merge_into.is_none() && home.processes() == 1 {
            home.owner = Some(client);
        }
        queue
    }

    /// Fills an empty slot.
    fn take_queue(&mut self, view: &mut QueueView, client: ClientId, sync: bool) -> u32 {
        let made =
            if sync { self.new_queue(view, client, true) } else { self.shared_queue(view, client) };
        let (queues, schedule) = (&self.queues, &self.schedule);
        let queue = made.unwrap_or_else(|| context::fallback(view, queues, schedule, client, sync));
        self.queues.at_mut(queue).refs += 1;
        self.contexts.at_mut(client).slots[usize::from(sync)] = Some(queue);
        if sync && made.is_some() { self.stable_merge(view, client, queue) } else { queue }
    }

    /// A sync queue for a process that has none or leaves the one it shared, or an async one for
    /// its group, class and level.
    pub(super) fn new_queue(
        &mut self,
        view: &QueueView,
        client: ClientId,
        sync: bool,
    ) -> Option<u32> {
        let (priority, entity) = context::entity_for(view, client, sync);
        let (now, owner) = (view.now(), sync.then_some(client));
        let queue = Queue {
            owner,
            made_for: owner,
            is_sync: sync,
            priority,
            is_new: true,
            created: now,
            max_budget: self.budgets.usual() * 2 / 3,
            pattern: Pattern::new(view.exact_now(), sync),
            raising: Raising::new(now),
            ..Queue::default()
        };
        let queue = self.queues.add(&mut self.schedule, queue)?;
        *self.injection.limit_mut(queue) = Limit::new(now);
        self.schedule.entities[queue as usize] = entity;
        Some(queue)
    }

    /// The async queue of a client's group, class and level, made on first use.
    fn shared_queue(&mut self, view: &QueueView, client: ClientId) -> Option<u32> {
        let group = view.group_of(client).index();
        let place = place_of(effective_priority(view, client));
        if self.groups.shared(group, place).is_none() {
            let made = self.new_queue(view, client, false);
            if let Some(queue) = made {
                // The group's own reference keeps it.
                self.queues.at_mut(queue).refs = 1;
            }
            *self.groups.shared_mut(group, place) = made;
        }
        self.groups.shared(group, place)
    }

    /// A client's class, level, weight or group changed. The async slot follows at once; the sync
    /// queue with its next turn, or at once if the group changed.
    pub(super) fn client_has_changed(&mut self, view: &mut QueueView, client: ClientId) {
        let [of_async, of_sync] = self.contexts.at(client).slots;
        if let Some(queue) = of_async {
            self.contexts.at_mut(client).slots[0] = None;
            self.put_queue(view, queue);
        }
        let Some(queue) = of_sync else { return };
        let group = view.group_of(client).index();
        if self.schedule.entities[queue as usize].group != group {
            self.forget_stable_merge(view, client);
            if self.queues.at(queue).processes() > 1 || self.queues.at(queue).merge_into.is_some() {
                // What it shared in the old group does not count in the new one.
                self.contexts.at_mut(client).is_stably_merged = false;
                *self.saved.of_mut(client) = None;
                return self.leave_queue(view, client, queue);
            }
            self.move_queue(view, queue, group);
        }
        let home = self.queues.at_mut(queue);
        if home.processes() == 1 {
            context::adopt_priority(view, &mut self.schedule, client, queue, home);
        } else if let Some(saved) = self.saved.of_mut(client) {
            // A shared queue keeps its weight; the process gets its own when it leaves.
            saved.weight = weight_of(view, client);
        }
    }

    /// A client ends (BFQ-192).
    pub(super) fn client_goes(&mut self, view: &mut QueueView, client: ClientId) {
        self.forget_stable_merge(view, client);
        let [of_async, of_sync] = self.contexts.at(client).slots;
        if let Some(queue) = of_async {
            self.put_queue(view, queue);
        }
        if let Some(queue) = of_sync {
            if self.service.is(queue) {
                self.end_turn(view, queue, Expiry::BudgetTimeout);
            }
            self.leave_queue(view, client, queue);
        }
        *self.contexts.at_mut(client) = Context::default();
        *self.saved.of_mut(client) = None;
    }

    /// A process leaves its sync queue, and the queues that it was to move to.
    fn leave_queue(&mut self, view: &mut QueueView, client: ClientId, queue: u32) {
        self.contexts.at_mut(client).slots[1] = None;
        let mut next = self.queues.at(queue).merge_into;
        while let Some(target) = next {
            next = self.queues.at(target).merge_into;
            self.release_process(view, target);
        }
        let home = self.queues.at_mut(queue);
        home.owner = home.owner.filter(|&owner| owner != client);
        self.release_process(view, queue);
    }

    /// `queue` has one process fewer. If it was kept busy though empty, for processes that might
    /// come back, it is dropped once none can (BFQ-192).
    fn release_process(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at_mut(queue);
        let kept = home.is_busy && home.is_empty() && !self.service.is(queue);
        if kept && home.is_sync && home.processes() == 1 {
            self.schedule.leave_busy(queue, home, false, view.now());
        }
        self.put_queue(view, queue);
    }

    /// Drops a reference to `queue`. If it was the last, only how far the queue is ahead is
    /// remembered.
    pub(super) fn put_queue(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at_mut(queue);
        home.refs -= 1;
        if home.refs > 0 {
            return;
        }
        debug_assert!(home.is_empty() && home.in_flight == 0, "bfq: {home:?} is given up");
        if self.service.is(queue) {
            self.end_turn(view, queue, Expiry::BudgetTimeout);
        }
        let home = self.queues.at_mut(queue);
        if home.is_busy {
            self.schedule.leave_busy(queue, home, false, view.now());
        }
        self.schedule.symmetry.forget_weight(queue);
        self.cooperation.remove(queue);
        self.bursts.leave(queue, true);
        self.wakers.leave(queue);
        let group = self.schedule.entities[queue as usize].group;
        self.groups.replace_last_created(group, queue, None);
        if !self.schedule.abandon(queue) {
            self.queues.free(queue);
        }
    }

    /// The queue that `queue`, about to get a request at `sector`, is to be merged into
    /// (BFQ-122 to BFQ-125).
    pub(super) fn cooperator(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        queue: u32,
        sector: u64,
    ) -> Option<u32> {
        if let Some(target) = self.queues.at(queue).merge_into {
            return Some(target);
        }
        if let Some(decided) = self.decide_stable_merge(view, client, queue) {
            return decided;
        }
        let Bfq { queues, schedule, tunables, cooperation, .. } = self;
        if !cooperation.is_looked_for(view, tunables.queue_merging, &self.device)
            || !cooperate::looks(view, queues.at(queue), schedule, tunables)
        {
            return None;
        }
        if let Some(served) = cooperate::served_close_to(schedule, &self.service, queue, sector)
            && cooperate::may_cooperate(view, queues, schedule, tunables, queue, served)
        {
            let target = cooperate::schedule_merge(view, queues, schedule, queue, served);
            if target.is_some() {
                return target;
            }
        }
        let group = schedule.entities[queue as usize].group;
        let found = cooperation.close_to(group, sector).filter(|&found| found != queue)?;
        if !cooperate::may_cooperate(view, queues, schedule, tunables, queue, found) {
            return None;
        }
        cooperate::schedule_merge(view, queues, schedule, queue, found)
    }

    /// `queue` was just made for `client`. Returns the queue that the client is to use (BFQ-145).
    fn stable_merge(&mut self, view: &mut QueueView, client: ClientId, queue: u32) -> u32 {
        if !self.tunables.stable_merging {
            return queue;
        }
        let Bfq { queues, schedule, groups, contexts, .. } = self;
        let Some(last) = stable_merge::partner(view, queues, schedule, groups, queue) else {
            return queue;
        };
        if !self.device.is_queueing_flash(view) {
            let partner = queues.at_mut(last);
            partner.refs += 1;
            partner.stable_refs += 1;
            contexts.at_mut(client).stable_with = Some(last);
            return queue;
        }
        let target = cooperate::schedule_merge(view, queues, schedule, queue, last);
        let Some(target) = target else { return queue };
        stable_merge::mark(contexts, queues, client, target);
        self.merge(view, client, queue, target);
        target
    }

    /// Whether the remembered partner is decided on now, and the queue to merge into, if any
    /// (BFQ-146).
    fn decide_stable_merge(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        queue: u32,
    ) -> Option<Option<u32>> {
        if self.device.is_queueing_flash(view) {
            return None;
        }
        let partner = self.contexts.at(client).stable_with?;
        let home = self.queues.at(queue);
        if !stable_merge::is_time_to_decide(view, home) {
            return None;
        }
        let present = home.processes().min(self.queues.at(partner).processes()) > 0;
        let mut target = None;
        if present && partner != queue && !self.idles_for_throughput(view, queue) {
            let (queues, schedule) = (&mut self.queues, &self.schedule);
            target = cooperate::schedule_merge(view, queues, schedule, queue, partner);
        }
        if let Some(target) = target {
            stable_merge::mark(&mut self.contexts, &self.queues, client, target);
        }
        self.forget_stable_merge(view, client);
        Some(target)
    }

    /// A process forgets its remembered partner.
    fn forget_stable_merge(&mut self, view: &mut QueueView, client: ClientId) {
        if let Some(partner) = self.contexts.at_mut(client).stable_with.take() {
            self.queues.at_mut(partner).stable_refs -= 1;
            self.put_queue(view, partner);
        }
    }

    /// A process moves from its queue to `target` (BFQ-130).
    pub(super) fn merge(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        queue: u32,
        target: u32,
    ) {
        probe(Some(queue), ProbePoint::Merges { with: target });
        self.save_state(view, queue);
        self.save_state(view, target);
        let left = self.queues.at_mut(queue);
        let bound = core::mem::replace(&mut left.pattern.is_io_bound, false);
        let raising = left.raising;
        let heir = self.queues.at_mut(target);
        heir.pattern.is_io_bound |= bound;
        if raising.is_raised() {
            if !heir.raising.is_raised() {
                let kind = heir.raising.inherit(&raising);
                self.schedule.set_raised(view, target, heir, kind);
            }
            self.schedule.set_raised(view, queue, self.queues.at_mut(queue), Kind::No);
        }
        self.wakers.inherit(queue, target);
        let raised = self.schedule.symmetry.raised();
        probe(Some(target), ProbePoint::Merged { raised });
        self.contexts.at_mut(client).slots[1] = Some(target);
        self.queues.at_mut(queue).owner = None;
        let shared = self.queues.at_mut(target);
        (shared.is_shared, shared.owner) = (true, None);
        let group = self.schedule.entities[queue as usize].group;
        self.groups.replace_last_created(group, queue, Some(target));
        self.release_process(view, queue);
    }

    /// Saves the state of `queue` for its owner. A queue without an owner is shared already.
    pub(super) fn save_state(&mut self, view: &QueueView, queue: u32) {
        let home = self.queues.at(queue);
        let Some(owner) = home.owner else { return };
        let weight = self.schedule.entities[queue as usize].new_weight;
        let (listed, limit) = (self.bursts.lists(queue), self.injection.limit(queue));
        let mut saved = SavedState::of(home, listed, limit, weight);
        let wanted = self.tunables.low_latency || !self.tunables.early_merge_check;
        if home.is_new && !home.in_large_burst && wanted {
            saved.is_to_be_raised(view.now(), self.device.raise_duration(view));
        }
        *self.saved.of_mut(owner) = Some(saved);
    }

    /// A process has a queue to itself again, which continues where its own had stopped (BFQ-136,
    /// BFQ-137).
    fn resume_state(&mut self, view: &mut QueueView, client: ClientId, queue: u32) {
        let Some(saved) = self.saved.of(client).copied() else { return };
        let with_all = self.version.measures_idleness;
        let home = self.queues.at_mut(queue);
        home.pattern.resume(&saved.pattern, with_all);
        home.raising.resume(&saved.raising, with_all);
        if with_all {
            *self.injection.limit_mut(queue) = saved.limit;
            self.schedule.set_weight(queue, saved.weight);
        }
        if self.tunables.low_latency || !self.version.resumes_raise_if_wanted {
            self.schedule.set_raised(view, queue, home, saved.raising.kind);
            let (now, burst) = (view.now(), home.in_large_burst);
            let duration = || self.device.raise_duration(view);
            let ends = home.raising.end_resumed(now, &saved.raising, burst, duration);
            if let Some(kind) = ends {
                self.schedule.set_raised(view, queue, home, kind);
            }
        }
        self.schedule.entities[queue as usize].changed = true;
    }

    /// A process shares a queue that is to be split: it keeps the queue if it is the last process,
    /// and gets one of its own otherwise (BFQ-142).
    fn split(&mut self, view: &mut QueueView, client: ClientId, queue: u32) -> u32 {
        let home = self.queues.at_mut(queue);
        if let (true, Some(saved)) = (home.in_large_burst, self.saved.of_mut(client)) {
            saved.in_large_burst = true;
        }
        if home.processes() == 1 {
            (home.is_shared, home.is_to_split) = (false, false);
            home.owner = Some(client);
            self.resume_state(view, client, queue);
            let home = self.queues.at_mut(queue);
            context::adopt_priority(view, &mut self.schedule, client, queue, home);
            return queue;
        }
        let Some(own) = self.new_queue(view, client, true) else { return queue };
        if let Some(from) = self.queues.at(queue).made_for {
            view.note(Note::QueuesParted { client, from });
        }
        self.leave_queue(view, client, queue);
        self.contexts.at_mut(client).slots[1] = Some(own);
        let saved = self.saved.of(client);
        let (listed, marked) =
            saved.map_or((false, false), |saved| (saved.was_listed, saved.in_large_burst));
        let home = self.queues.at_mut(own);
        home.refs += 1;
        home.in_large_burst |= self.bursts.resume(own, listed, marked);
        home.split_at = Some(view.now());
        self.resume_state(view, client, own);
        own
    }

    /// A group came, or its weight changed; the weight applies from its next turn on (BFQ-181).
    pub(super) fn weigh_group(&mut self, view: &QueueView, group: u32) {
        let own = view.group_at(group);
        let (parent, weight) = (own.parent().map(|parent| parent.index()), own.weight());
        if self.groups.comes(group) {
            self.schedule.add_group(group, parent, weight);
        } else if let Some(entity) = self.schedule.groups[group as usize].entity {
            self.schedule.set_weight(entity, weight);
        }
    }

    /// A group is removed: its async queues are given up, and what is left in it moves to the root
    /// (BFQ-183).
    pub(super) fn dissolve_group(&mut self, view: &mut QueueView, group: u32) {
        for place in 0..SHARED {
            if let Some(queue) = self.groups.shared_mut(group, place).take() {
                self.put_queue(view, queue);
            }
        }
        let root = view.root().index();
        for queue in 0..self.queues.capacity() {
            if self.queues.is_live(queue) && self.schedule.entities[queue as usize].group == group {
                self.move_queue(view, queue, root);
            }
        }
        self.schedule.remove_group(group, view.now());
        self.groups.goes(group);
    }

    /// A queue moves to another group, with its work, but nothing that it was owed (BFQ-182).
    fn move_queue(&mut self, view: &mut QueueView, queue: u32, group: u32) {
        if self.service.is(queue) {
            self.expire(view, queue, false, Expiry::Preempted);
        }
        let Bfq { queues, schedule, groups, .. } = self;
        let home = queues.at_mut(queue);
        let requests = home.allocated.cast_signed();
        let entity = schedule.entities[queue as usize];
        groups.replace_last_created(entity.group, queue, None);
        self.cooperation.remove(queue);
        let is_pending = schedule.symmetry.is_pending(queue);
        groups.count_allocated(schedule, queue, -requests);
        schedule.uncount_pending(queue);
        schedule.deactivate(queue, false, false, view.now());
        schedule.entities[queue as usize].group = group;
        groups.count_allocated(schedule, queue, requests);
        if is_pending {
            schedule.count_pending(queue);
        }
        if entity.standing == Standing::Active {
            schedule.activate(queue, false, view.now());
            schedule.recount_class(queue, home);
            self.update_position(view, queue);
        }
    }
}
