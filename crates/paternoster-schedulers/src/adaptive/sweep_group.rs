// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweep group: the random clients of one group, which take their turns together and go by sector.
//!
//! Sixteen sessions that read blocks here and there in one file are best served in one sweep over
//! everything that they have waiting; one by one it would be sixteen sweeps:
//!
//! ```text
//! one by one        a 10 ─────────────▶ 90      b 20 ─────────────▶ 80      2 sweeps, 4 requests
//! as a sweep group  a 10 ▶ b 20 ──────────────────▶ b 80 ▶ a 90             1 sweep,  4 requests
//! ```
//!
//! So where there are seats the random clients of a group share one. Accounts decide when the sweep
//! group has its turn, among other groups and streams, and each member pays for its own requests.
//! In its turn requests go in sector order, upwards, and then from the lowest again; but if the
//! next is of a member more than a quantum ahead of the one that has had least, that one goes
//! instead. Where seeks cost nothing the one that has had least always goes.
//!
//! A member that goes out of turn takes the sweep with it, to where its file lies, and the sweep
//! goes on from there. So what lies far up may be passed over each time:
//!
//! ```text
//! x has a low file, and goes 20 times for each request of y      x … x y1 x … x y2 x … x y3
//! upwards from x the lowest of y's comes first, also of what has come since; its highest never
//! ```
//!
//! So a request that is old, and saw [`PASSED_MOST`] times as many go as wait, is the next one of
//! its client, whichever of that the sweep has come to. (A sweep that is not disturbed passes over
//! a request for one lap, in which about twice as many go as wait: those that come meanwhile, too.)
//!
//! # Invariants
//! I1  While there are seats the sweep of a group holds the waiting requests of its random clients;
//!     without seats it is empty.
//! I2  `flying` is the number of requests dispatched in a sweep group's turn that have not ended.
//! I3  No member of a sweep group goes that is more than a quantum ahead of its least.
//! I4  `came` of a request in a sweep is how many had gone from that when it came.
//!
//! Source: own; S2 of `docs/rules/adaptive.md` has one crowd, in which accounts alone decide.

use alloc::vec::Vec;

use crate::adaptive::account::{Accounts, CROWD};
use crate::adaptive::clients::Clients;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;
use paternoster_core::tree::{Nodes, Root};
use paternoster_core::{QueueView, RequestId};

/// A request that was passed over by this many times as many as wait is not passed over again.
const PASSED_MOST: u32 = 4;

/// The sweep group of a group.
#[derive(Debug, Clone, Copy, Default)]
struct SweepGroup {
    /// Waiting requests, by sector.
    sweep: Root,
    /// The sector after the last request that went in its turn.
    head: u64,
    /// How many requests have gone in its turns.
    gone: u32,
    flying: u32,
    /// The last count that counted it.
    counted: Nanos,
}

/// The sweep groups of all groups, by their numbers.
#[derive(Debug)]
pub(super) struct SweepGroups {
    sweep_groups: Vec<SweepGroup>,
    nodes: Nodes<u64>,
    /// For each request slot (I4).
    came: Vec<u32>,
}

impl SweepGroups {
    /// For this many groups and request slots.
    pub(super) fn new(groups: u32, requests: u32) -> SweepGroups {
        let sweep_groups =
            (0..groups).map(|_| SweepGroup { counted: Nanos::MAX, ..SweepGroup::default() });
        SweepGroups {
            sweep_groups: sweep_groups.collect(),
            nodes: Nodes::with_capacity(requests),
            came: (0..requests).map(|_| 0).collect(),
        }
    }

    fn at(&mut self, group: u32) -> &mut SweepGroup {
        &mut self.sweep_groups[group as usize]
    }

    /// A request waits, unless it is in the sweep already.
    pub(super) fn insert(&mut self, group: u32, request: RequestId, sector: u64) {
        if !self.nodes.contains(request.index()) {
            let sweep_group = &mut self.sweep_groups[group as usize];
            sweep_group.sweep.insert(&mut self.nodes, request.index(), sector);
            self.came[request.index() as usize] = sweep_group.gone;
        }
    }

    /// A request is no longer in the sweep, if it was.
    pub(super) fn remove(&mut self, group: u32, request: RequestId) {
        if self.nodes.contains(request.index()) {
            let sweep_group = &mut self.sweep_groups[group as usize];
            sweep_group.sweep.remove(&mut self.nodes, request.index());
        }
    }

    /// The first sector of a client's request has changed.
    pub(super) fn resort(
        &mut self,
        view: &QueueView,
        accounts: &Accounts,
        client: u32,
        request: RequestId,
    ) {
        if self.nodes.contains(request.index()) {
            let sweep_group = &mut self.sweep_groups[accounts.group_of(client) as usize];
            let sector = view.request(request).sector();
            sweep_group.sweep.rekey(&mut self.nodes, request.index(), sector);
        }
    }

    /// The next request upwards, or the lowest.
    pub(super) fn next(&self, group: u32) -> Option<RequestId> {
        let SweepGroup { sweep, head, .. } = &self.sweep_groups[group as usize];
        let onwards = sweep.lower_bound(&self.nodes, head);
        onwards.or_else(|| sweep.first()).map(RequestId::from_index)
    }

    /// A request of a sweep group has gone, which ends at this sector.
    pub(super) fn set_head(&mut self, group: u32, sector: u64) {
        let sweep_group = self.at(group);
        (sweep_group.head, sweep_group.gone) = (sector, sweep_group.gone.wrapping_add(1));
    }

    /// Whether far more requests have gone since this one of the sweep came than wait in it.
    pub(super) fn is_passed_over(&self, group: u32, request: RequestId) -> bool {
        let SweepGroup { sweep, gone, .. } = &self.sweep_groups[group as usize];
        let passed = gone.wrapping_sub(self.came[request.index() as usize]);
        passed > PASSED_MOST.saturating_mul(sweep.len())
    }

    /// Whether nothing of a sweep group waits.
    pub(super) fn is_empty(&self, group: u32) -> bool {
        self.sweep_groups[group as usize].sweep.is_empty()
    }

    /// Requests in the device that were dispatched for a sweep group.
    pub(super) fn flying(&self, group: u32) -> u32 {
        self.sweep_groups[group as usize].flying
    }

    /// A request of a sweep group goes to the device, or has left it.
    pub(super) fn count(&mut self, group: u32, by: i32) {
        if group != NIL {
            let flying = &mut self.at(group).flying;
            *flying = flying.saturating_add_signed(by);
        }
    }

    /// Whether a sweep group is counted for the first time at `now`.
    pub(super) fn comes_first(&mut self, group: u32, now: Nanos) -> bool {
        core::mem::replace(&mut self.at(group).counted, now) != now
    }

    /// Verifies the orders; returns how many requests they hold. O(n).
    pub(super) fn check(&self) -> Result<u32, &'static str> {
        self.sweep_groups
            .iter()
            .try_for_each(|sweep_group| sweep_group.sweep.check(&self.nodes))?;
        Ok(self.sweep_groups.iter().map(|sweep_group| sweep_group.sweep.len()).sum())
    }

    /// Whether a request is in a sweep, at this sector. O(log n).
    pub(super) fn has(&self, request: RequestId, sector: u64) -> bool {
        self.nodes.key(request.index()) == Some(sector)
    }

    /// All waiting requests of a client of this group join its sweep.
    pub(super) fn join_with_all(&mut self, clients: &Clients, group: u32, client: u32) {
        for (request, sector) in clients.waiting_of(client) {
            self.insert(group, request, sector);
        }
    }

    /// All waiting requests of a client of this group leave its sweep.
    pub(super) fn leave_with_all(&mut self, clients: &Clients, group: u32, client: u32) {
        for (request, _) in clients.waiting_of(client) {
            self.remove(group, request);
        }
    }

    /// The member of a sweep group that goes instead of the one that has had least, and its
    /// request. None if that one goes itself: as an interactive client, on a device without seeks,
    /// or because the next by sector is a quantum ahead of it (I3). If that member's oldest request
    /// was passed over for too long, it goes rather.
    pub(super) fn goes_instead(
        &self,
        view: &QueueView,
        accounts: &Accounts,
        clients: &Clients,
        least: u32,
        quantum: u64,
        now: Nanos,
    ) -> Option<(u32, RequestId)> {
        let own = clients.at(least);
        if own.is_interactive() || own.kind() != CROWD || !view.facts().rotational {
            return None;
        }
        let group = accounts.group_of(least);
        let request = self.next(group)?;
        let client = view.request(request).client().index();
        if !accounts.is_within(client, least, quantum) {
            return None;
        }
        let lane = &clients.at(client).lane;
        let is_late = lane.deadline(view).is_some_and(|deadline| deadline <= now);
        let oldest = lane.oldest().filter(|&oldest| is_late && self.is_passed_over(group, oldest));
        Some((client, oldest.unwrap_or(request)))
    }

    /// I1: sweeps hold what waits as the crowd, if there are seats.
    pub(super) fn audit(
        &self,
        view: &QueueView,
        clients: &Clients,
        has_seats: bool,
    ) -> Result<(), &'static str> {
        let mut wanted = 0;
        let crowd = clients.all().iter().zip(0u32..).filter(|(own, _)| own.kind() == CROWD);
        for (_, client) in crowd.filter(|_| has_seats) {
            for (request, _) in clients.waiting_of(client) {
                if !self.has(request, view.request(request).sector()) {
                    return Err("sweep group I1: what waits is in no sweep");
                }
                wanted += 1;
            }
        }
        if self.check()? != wanted {
            return Err("sweep group I1: what does not wait is in a sweep");
        }
        Ok(())
    }
}
