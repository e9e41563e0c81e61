// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs: each request on its way through the device, and those that go ahead of all others.
//!
//! ```text
//! bind ─▶ lane ─▶ begins: its sort's estimate is charged ─▶ ends: what it took, or nothing
//!          └─▶ ahead of all others, refused or let in ┘
//! ```
//!
//! # Invariants
//! I1  A request dispatched in a turn, or as one of a sweep group, is counted there until it ends.
//! I2  The requests that go ahead of all others are listed, the last inserted first.
//!
//! Source: C1, C2 of `docs/rules/adaptive.md`.

use alloc::vec::Vec;
use core::mem::{replace, take};

use crate::adaptive::account::STREAM;
use paternoster_core::RequestId;
use paternoster_core::list::{Links, List};
use paternoster_core::slab::NIL;

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
    is_bound: bool,
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

/// All requests, by their slots.
#[derive(Debug)]
pub(super) struct Jobs {
    all: Vec<Job>,
    /// Requests that the device refused, or that were let in ahead of all others.
    bypass: List,
    bypass_links: Links,
}

impl Jobs {
    /// Room for this many requests.
    pub(super) fn with_capacity(requests: u32) -> Jobs {
        Jobs {
            all: (0..requests).map(|_| Job::default()).collect(),
            bypass: List::new(),
            bypass_links: Links::with_capacity(requests),
        }
    }

    #[inline(always)]
    pub(super) fn at(&self, request: RequestId) -> &Job {
        &self.all[request.index() as usize]
    }

    #[inline(always)]
    fn at_mut(&mut self, request: RequestId) -> &mut Job {
        &mut self.all[request.index() as usize]
    }

    pub(super) fn all(&self) -> &[Job] {
        &self.all
    }

    #[inline(always)]
    pub(super) fn client_of(&self, request: RequestId) -> u32 {
        self.at(request).client
    }

    #[inline(always)]
    pub(super) fn waits(&self, request: RequestId) -> bool {
        self.at(request).stage == Stage::Waiting
    }

    /// A request is this client's from now on. Its other data are set when it goes to the device.
    #[inline(always)]
    pub(super) fn bind(&mut self, request: RequestId, client: u32) {
        let job = self.at_mut(request);
        (job.stage, job.client, job.is_bound) = (Stage::Elsewhere, client, true);
    }

    /// A request is in its client's lane.
    #[inline(always)]
    pub(super) fn wait(&mut self, request: RequestId) {
        self.at_mut(request).stage = Stage::Waiting;
    }

    /// A request goes next, ahead of all others.
    pub(super) fn push_first(&mut self, request: RequestId) {
        self.at_mut(request).stage = Stage::Bypassing;
        self.bypass.push_front(&mut self.bypass_links, request.index());
    }

    /// The request that goes ahead of all others; it is here no more.
    #[inline(always)]
    pub(super) fn pop_first(&mut self) -> Option<RequestId> {
        if self.bypass.is_empty() {
            return None;
        }
        let request = RequestId::from_index(self.bypass.pop_front(&mut self.bypass_links)?);
        self.at_mut(request).stage = Stage::Elsewhere;
        Some(request)
    }

    /// How many go ahead of all others.
    pub(super) const fn bypassing(&self) -> u32 {
        self.bypass.len()
    }

    /// A request leaves without being dispatched. Returns where it was.
    pub(super) fn leave(&mut self, request: RequestId) -> Stage {
        let stage = replace(&mut self.at_mut(request).stage, Stage::Elsewhere);
        if stage == Stage::Bypassing {
            self.bypass.remove(&mut self.bypass_links, request.index());
        }
        stage
    }

    /// A request goes to the device, charged `charge`, which may be final; not yet as part of a
    /// turn.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        request: RequestId,
        (sort, kind): (u8, usize),
        (charge, is_priced): (i64, bool),
        epoch: u32,
    ) {
        let job = self.at_mut(request);
        (job.stage, job.first, job.is_priced) = (Stage::Flying, false, is_priced);
        (job.sort, job.kind, job.sweep_group) = (sort, u8::from(kind == STREAM), NIL);
        (job.epoch, job.estimate) = (epoch, charge);
    }

    /// It goes as part of a turn, or of a sweep group (I1).
    pub(super) fn take_turn(&mut self, request: RequestId, first: bool, sweep_group: u32) {
        let job = self.at_mut(request);
        (job.first, job.sweep_group) = (first, sweep_group);
    }

    /// The throttle has charged for it.
    pub(super) fn is_paid(&mut self, request: RequestId) {
        let job = self.at_mut(request);
        (job.estimate, job.is_priced) = (0, true);
    }

    /// A request leaves the device, if it is there.
    #[inline(always)]
    pub(super) fn end(&mut self, request: RequestId) -> Option<Job> {
        let job = self.at_mut(request);
        if job.stage != Stage::Flying {
            return None;
        }
        job.stage = Stage::Elsewhere;
        Some(*job)
    }

    /// A request is no client's from now on. Returns the client that held it.
    #[inline(always)]
    pub(super) fn release(&mut self, request: RequestId) -> Option<u32> {
        let job = self.at_mut(request);
        job.stage = Stage::Elsewhere;
        take(&mut job.is_bound).then_some(job.client)
    }

    /// Verifies I2.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let bypassing = self.all.iter().filter(|job| job.stage == Stage::Bypassing).count();
        if bypassing != self.bypass.len() as usize {
            return Err("jobs I2: more or fewer go ahead of all others than are known");
        }
        self.bypass.check(&self.bypass_links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::account::CROWD;

    const REQUESTS: [RequestId; 3] =
        [RequestId::from_index(0), RequestId::from_index(1), RequestId::from_index(2)];

    /// I2: does the last that was let in go first, and none that has left?
    #[test]
    fn i2_the_last_let_in_goes_first() {
        let mut jobs = Jobs::with_capacity(3);
        for request in REQUESTS {
            jobs.bind(request, 7);
            jobs.push_first(request);
        }
        assert_eq!((jobs.leave(REQUESTS[1]), jobs.bypassing()), (Stage::Bypassing, 2));
        assert_eq!(jobs.check(), Ok(()));
        assert_eq!(
            [(); 3].map(|()| jobs.pop_first()),
            [Some(REQUESTS[2]), Some(REQUESTS[0]), None]
        );
        assert_eq!(jobs.leave(REQUESTS[1]), Stage::Elsewhere);
    }

    /// Is a request in the device from its dispatch to its end, with what it was charged, and held
    /// until it is released, once?
    #[test]
    fn a_request_is_held_until_it_is_released() {
        let mut jobs = Jobs::with_capacity(1);
        let request = REQUESTS[0];
        jobs.bind(request, 7);
        jobs.wait(request);
        assert!(jobs.waits(request) && jobs.client_of(request) == 7);
        jobs.begin(request, (3, CROWD), (500, false), 9);
        jobs.take_turn(request, true, 2);
        let job = jobs.end(request).expect("it is in the device");
        assert_eq!((job.sort, job.estimate, job.epoch, job.first), (3, 500, 9, true));
        assert_eq!(job.sweep_group, 2);
        assert!(jobs.end(request).is_none());
        assert_eq!([jobs.release(request), jobs.release(request)], [Some(7), None]);
        jobs.bind(request, 8);
        jobs.begin(request, (3, STREAM), (500, false), 9);
        jobs.is_paid(request);
        assert!(jobs.at(request).is_priced && jobs.at(request).estimate == 0);
        assert_eq!(jobs.end(request).map(|job| job.client), Some(8));
        assert_eq!(jobs.release(request), Some(8));
    }
}
