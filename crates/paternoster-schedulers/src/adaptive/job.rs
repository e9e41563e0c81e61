// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job: a request on its way through the device, and what its client pays for it (C1, C2).
//!
//! ```text
//! bind ─▶ lane ─▶ begins: its sort's estimate is charged ─▶ ends: what it took, or nothing
//!          └─▶ ahead of all others, refused or let in ┘
//! ```
//!
//! Each sort of request has a price, the mean time of those that have ended. It is charged when a
//! request goes to the device, and corrected when it ends.
//!
//! # Invariants
//! I1  A request dispatched in a turn, or as one of a sweep group, is counted there until it ends.
//!
//! Source: C1, C2 of `docs/rules/adaptive.md`.

use crate::adaptive::Paternoster;
use crate::adaptive::account::{CROWD, Ended, STREAM};
use crate::adaptive::throughput_gain::{Access, sort_of};
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, Request, RequestId};

/// C1: the assumed cost of a request of whose sort none has ended yet, in ns.
const UNKNOWN_PRICE: u64 = 1000;

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// Not here.
    #[default]
    Elsewhere,
    /// In its client's lane.
    Waiting,
    /// Ahead of all others.
    Bypassing,
    /// In the device.
    Flying,
}

/// The data of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Job {
    pub(super) stage: Stage,
    /// It is the first of a stream's turn.
    pub(super) first: bool,
    /// What its client was charged is final: a cost (C5), or nothing, as the throttle has charged
    /// for it.
    pub(super) is_priced: bool,
    /// It counts as held by its client.
    pub(super) is_bound: bool,
    pub(super) sort: u8,
    pub(super) kind: u8,
    pub(super) client: u32,
    /// The group with whose sweep group it was dispatched, or `NIL`.
    pub(super) sweep_group: u32,
    /// The epoch in which it was dispatched.
    pub(super) epoch: u32,
    /// What its client has been charged for it so far, in ns.
    pub(super) estimate: i64,
}

impl Paternoster {
    /// The assumed cost of a request, in ns.
    pub(super) fn price_of(&self, request: &Request, access: Access) -> u64 {
        self.price_of_sort(sort_of(request, access))
    }

    fn price_of_sort(&self, sort: u8) -> u64 {
        match self.prices[usize::from(sort)] {
            0 => UNKNOWN_PRICE,
            price => price,
        }
    }

    /// A request goes, not yet as part of a turn. Returns what its client is charged for now.
    #[inline(always)]
    pub(super) fn begin_job(
        &mut self,
        request: RequestId,
        gone: &Request,
        sort: u8,
        kind: usize,
    ) -> i64 {
        let estimate = i64::try_from(self.price_of_sort(sort)).unwrap_or(i64::MAX);
        let job = &mut self.jobs[request.index() as usize];
        (job.stage, job.first, job.is_priced) = (Stage::Flying, false, false);
        (job.sort, job.kind, job.sweep_group) = (sort, u8::from(kind == STREAM), NIL);
        (job.epoch, job.estimate) = (self.learn.epoch, estimate);
        if self.charges_costs() { self.charge_cost(request, gone, sort) } else { estimate }
    }

    /// Where there are seats a request counts as part of a turn, or of a sweep group.
    #[inline(never)]
    pub(super) fn go_in_turn(&mut self, client: u32, request: RequestId) {
        let job = self.jobs[request.index() as usize];
        let kind = usize::from(job.kind);
        let first = self.seats.dispatched(self.holder_of(client, kind), job.estimate);
        let sweep_group = if kind == CROWD { self.group_of(client) } else { NIL };
        self.sweep_groups.count(sweep_group, 1);
        let job = &mut self.jobs[request.index() as usize];
        (job.first, job.sweep_group) = (first, sweep_group);
    }

    /// A request goes to the device ahead of all others.
    pub(super) fn fly_past(&mut self, view: &mut QueueView, request: RequestId) {
        let now = view.exact_now();
        let client = self.jobs[request.index() as usize].client;
        self.present.add(client);
        let gone = view.request(request);
        let sort = sort_of(gone, self.clients[client as usize].access());
        let estimate = self.begin_job(request, gone, sort, CROWD);
        if self.seats.most.is_some() {
            let sweep_group = self.group_of(client);
            self.sweep_groups.count(sweep_group, 1);
            self.jobs[request.index() as usize].sweep_group = sweep_group;
        }
        // What the throttle has released was charged there.
        let estimate = if view.request(request).is_past_throttle() { 0 } else { estimate };
        self.accounts.bypass(client, estimate, now);
        self.count_busy(now);
        let job = &mut self.jobs[request.index() as usize];
        job.estimate = estimate;
        job.is_priced |= view.request(request).is_past_throttle();
    }

    /// A request has left the device without a measurement.
    #[inline(never)]
    pub(super) fn drop_job(&mut self, request: RequestId, now: Nanos) {
        self.end_job(request, 0, now);
    }

    /// A request has left the device: its charge becomes what it took.
    #[inline(always)]
    pub(super) fn end_job(&mut self, request: RequestId, took: i64, now: Nanos) -> (Job, Ended) {
        let job = &mut self.jobs[request.index() as usize];
        job.stage = Stage::Elsewhere;
        let job = *job;
        self.sweep_groups.count(job.sweep_group, -1);
        let ended = self.accounts.end(job.client, job.estimate, took);
        self.served += took;
        if ended.flying == 0 {
            self.busy = self.busy_until(now);
            self.busy_since = None;
        }
        (job, ended)
    }
}
