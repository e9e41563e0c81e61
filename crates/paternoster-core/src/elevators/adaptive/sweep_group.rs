// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweep group: the random clients of one group, who take their turns together and go by sector.
//!
//! Sixteen sessions that ask one file for blocks here and there are best served in one sweep over
//! all that they have waiting; each for itself would be a sweep of its own, sixteen times as long:
//!
//! ```text
//! one by one        a 10 ─────────────▶ 90      b 20 ─────────────▶ 80      2 sweeps, 4 requests
//! as a sweep group  a 10 ▶ b 20 ──────────────────▶ b 80 ▶ a 90             1 sweep,  4 requests
//! ```
//!
//! So where there are seats the random clients of a group have one between them. Accounts say when
//! the sweep group has its turn, against other groups and streams, and each of it pays for its own.
//! In its turn requests go in the order of sectors, upwards, and from the lowest again; but none
//! goes that is more than a quantum ahead of the one that has had least: that one goes then. Where
//! seeks cost nothing the one that has had least always goes.
//!
//! # Invariants
//! I1  While there are seats the sweep of a group holds what waits of its random clients, and
//!     without seats nothing.
//! I2  `flying` is what went to the device in a sweep group's turn and has not ended.
//! I3  None of a sweep group goes that is more than a quantum ahead of the least of it.
//!
//! Source: own; S2 of `docs/rules/adaptive.md` has one crowd, in which accounts alone decide.

use alloc::vec::Vec;

use crate::elevators::adaptive::Paternoster;
use crate::elevators::adaptive::account::CROWD;
use crate::queue_view::QueueView;
use crate::request::RequestId;
use crate::slab::NIL;
use crate::time::Nanos;
use crate::tree::{Nodes, Root};

/// The sweep group of a group.
#[derive(Debug, Clone, Copy, Default)]
struct SweepGroup {
    /// What waits, by sector.
    sweep: Root,
    /// The sector behind the last request that went in its turn.
    head: u64,
    flying: u32,
    /// The last count that counted it.
    counted: Nanos,
}

/// The sweep groups of all groups, by their numbers.
#[derive(Debug)]
pub(super) struct SweepGroups {
    sweep_groups: Vec<SweepGroup>,
    nodes: Nodes<u64>,
}

impl SweepGroups {
    /// For so many groups and slots of requests.
    pub(super) fn new(groups: u32, requests: u32) -> SweepGroups {
        let sweep_groups =
            (0..groups).map(|_| SweepGroup { counted: Nanos::MAX, ..SweepGroup::default() });
        SweepGroups { sweep_groups: sweep_groups.collect(), nodes: Nodes::with_capacity(requests) }
    }

    fn at(&mut self, group: u32) -> &mut SweepGroup {
        &mut self.sweep_groups[group as usize]
    }

    /// A request waits, if it does not stand there already.
    pub(super) fn insert(&mut self, group: u32, request: RequestId, sector: u64) {
        if !self.nodes.contains(request.index()) {
            let sweep_group = &mut self.sweep_groups[group as usize];
            sweep_group.sweep.insert(&mut self.nodes, request.index(), sector);
        }
    }

    /// A request stands there no more, if it did.
    pub(super) fn remove(&mut self, group: u32, request: RequestId) {
        if self.nodes.contains(request.index()) {
            let sweep_group = &mut self.sweep_groups[group as usize];
            sweep_group.sweep.remove(&mut self.nodes, request.index());
        }
    }

    /// The start of a request is another one.
    pub(super) fn resort(&mut self, group: u32, request: RequestId, sector: u64) {
        if self.nodes.contains(request.index()) {
            let sweep_group = &mut self.sweep_groups[group as usize];
            sweep_group.sweep.rekey(&mut self.nodes, request.index(), sector);
        }
    }

    /// What comes next on the way up, or the lowest.
    pub(super) fn next(&self, group: u32) -> Option<RequestId> {
        let SweepGroup { sweep, head, .. } = &self.sweep_groups[group as usize];
        let onwards = sweep.lower_bound(&self.nodes, head);
        onwards.or_else(|| sweep.first()).map(RequestId::from_index)
    }

    /// A sweep group has been up to there.
    pub(super) fn set_head(&mut self, group: u32, sector: u64) {
        self.at(group).head = sector;
    }

    /// Whether nothing of a sweep group waits.
    pub(super) fn is_empty(&self, group: u32) -> bool {
        self.sweep_groups[group as usize].sweep.is_empty()
    }

    /// Requests in the device that went as a sweep group's.
    pub(super) fn flying(&self, group: u32) -> u32 {
        self.sweep_groups[group as usize].flying
    }

    /// One of a sweep group's goes to the device, or is there no more.
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

    /// Whether a request stands in a sweep, and under its sector. O(log n).
    pub(super) fn has(&self, request: RequestId, sector: u64) -> bool {
        self.nodes.key(request.index()) == Some(sector)
    }
}

impl Paternoster {
    /// The number of the group that a client is in.
    pub(super) fn group_of(&self, client: u32) -> u32 {
        self.accounts.at(client).parent - self.accounts.of_group(0)
    }

    /// A request that waits as one of a sweep group's takes its place there, if there are seats.
    pub(super) fn join_sweep(&mut self, client: u32, request: RequestId, sector: u64) {
        let is_random = self.clients[client as usize].kind() == CROWD;
        if is_random && self.seats.most.is_some() {
            self.sweep_groups.insert(self.group_of(client), request, sector);
        }
    }

    /// The same for all that a client has waiting: it, or what has turns, is another now.
    pub(super) fn join_sweep_with_all(&mut self, client: u32) {
        let mut next = self.clients[client as usize].lane.from_sector(&self.lanes, 0);
        while let Some(request) = next {
            next = self.lanes.latter(request);
            let sector = self.lanes.sector(request);
            self.join_sweep(client, request, sector);
        }
    }

    /// A request waits no more.
    #[inline]
    pub(super) fn leave_sweep_with(&mut self, client: u32, request: RequestId) {
        if self.seats.most.is_some() {
            self.sweep_groups.remove(self.group_of(client), request);
        }
    }

    /// All that a client has waiting stands in no sweep any more.
    pub(super) fn leave_sweep(&mut self, client: u32) {
        let lane = self.clients[client as usize].lane;
        if lane.is_empty() {
            return;
        }
        let group = self.group_of(client);
        let mut next = lane.from_sector(&self.lanes, 0);
        while let Some(request) = next {
            next = self.lanes.latter(request);
            self.sweep_groups.remove(group, request);
        }
    }

    /// Which of a sweep group goes instead of the one that has had least of it, and with what;
    /// none, if that one goes itself: as an interactive client, on a device without seeks, or
    /// because the next by sector is a quantum ahead of it (I3).
    pub(super) fn next_of_sweep_group(
        &self,
        view: &QueueView,
        least: u32,
    ) -> Option<(u32, RequestId)> {
        let own = &self.clients[least as usize];
        let goes_alone = own.is_interactive || own.kind() != CROWD || !view.facts().rotational;
        if goes_alone || self.seats.most.is_none() || self.watchdog.has_fallen() {
            return None;
        }
        let request = self.sweep_groups.next(self.group_of(least))?;
        let client = self.client_of(request);
        let near = self.accounts.is_within(client, least, self.seats.quantum());
        near.then_some((client, request))
    }

    /// A request of a sweep group has gone.
    pub(super) fn sweep_on(&mut self, client: u32, end: u64) {
        let own = &self.clients[client as usize];
        if own.kind() == CROWD && !own.is_interactive && self.seats.most.is_some() {
            let group = self.group_of(client);
            self.sweep_groups.set_head(group, end);
        }
    }

    /// Whether two are of one sweep group, whose members do not wait for each other.
    pub(super) fn are_of_one_sweep_group(&self, one: u32, other: u32) -> bool {
        let crowd = |client: u32| self.clients[client as usize].kind() == CROWD;
        let parent = |client: u32| self.accounts.at(client).parent;
        self.seats.most.is_some() && crowd(one) && crowd(other) && parent(one) == parent(other)
    }

    /// Until when a client of a sweep group is expected, the latest, and which.
    pub(super) fn sweep_group_comes(&self, group: u32, now: Nanos) -> Option<(Nanos, u32)> {
        let all = self.expected.iter(&self.expected_links).take(super::choose::LOOKS_MOST);
        let theirs = all.filter(|&client| self.group_of(client) == group);
        let windows = theirs.filter_map(|number| {
            let client = &self.clients[number as usize];
            let comes = client.kind() == CROWD && client.pattern.is_expected(now);
            comes.then_some((client.pattern.window, number))
        });
        windows.max()
    }

    /// I1: what stands in sweeps is what waits in crowds, if there are seats.
    pub(super) fn audit_sweep_groups(&self, view: &QueueView) -> Result<(), &'static str> {
        let mut wanted = 0;
        for client in self.clients.iter().filter(|client| client.kind() == CROWD) {
            let mut next = client.lane.from_sector(&self.lanes, 0);
            while let Some(request) = next.filter(|_| self.seats.most.is_some()) {
                if !self.sweep_groups.has(request, view.requests[request].sector()) {
                    return Err("sweep group I1: what waits is in no sweep");
                }
                wanted += 1;
                next = self.lanes.latter(request);
            }
        }
        if self.sweep_groups.check()? != wanted {
            return Err("sweep group I1: what does not wait is in a sweep");
        }
        Ok(())
    }
}
