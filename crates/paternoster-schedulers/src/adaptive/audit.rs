// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audit: verifies the invariants of paternoster.
//!
//! All counters are counted again: requests by client, estimates, what is owed; every order is
//! walked. That what was charged is what was served (G1) is checked for each client: after its last
//! completion no estimate is left.
//!
//! Source: G1, G2, G5 of `docs/rules/adaptive.md`.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::adaptive::account::Node;
use crate::adaptive::{Client, Paternoster, Stage};
use paternoster_core::elevator::Fault;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;
use paternoster_core::{AUDITS, QueueView, RequestId};

/// The counts of a client's requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counted {
    waiting: u32,
    flying: u32,
    estimated: i64,
}

impl Paternoster {
    /// Verifies all invariants; in time that grows with all clients and requests.
    pub(super) fn audit_all(&self, view: &QueueView) -> Result<(), Fault> {
        let (mut owed, mut charged) = (0, 0);
        let counted = self.count_jobs()?;
        for (client, number) in self.clients.iter().zip(0u32..) {
            self.audit_client(view, number, client, counted[number as usize])?;
            let comes = client.pattern.expected > 0 && self.accounts.at(number).waiting() == 0;
            owed += if comes { client.pattern.expected_soon() } else { 0 };
            if self.expected_links.contains(number) != comes {
                return Err(format!(
                    "choose I3: client {number} is owed {}",
                    client.pattern.expected
                ));
            }
            charged += self.accounts.at(number).charged - self.accounts.at(number).estimated;
        }
        if owed != self.total_expected {
            return Err(format!(
                "choose I3: {owed} requests are owed, {} known",
                self.total_expected
            ));
        }
        if charged + self.departed != self.served + self.seat_time.time {
            let (gone, served) = (self.departed, self.served + self.seat_time.time);
            return Err(format!(
                "paternoster G1: {charged} ns, and {gone} of those who left, were charged for \
                 {served} ns served and kept"
            ));
        }
        self.audit_fallback()?;
        self.bypass.check(&self.bypass_links)?;
        self.expected.check(&self.expected_links)?;
        self.seats.check()?;
        self.positions.check()?;
        self.audit_shared_streams()?;
        self.audit_sweep_groups(view)?;
        self.accounts.check()
    }

    /// cooperate I1: members of a shared stream are of one group and class, and are streams.
    fn audit_shared_streams(&self) -> Result<(), Fault> {
        self.shared_streams.check()?;
        for (client, number) in self.clients.iter().zip(0u32..) {
            let leader = self.shared_streams.leader_of(number);
            let (own, other) = (self.accounts.at(number), self.accounts.at(leader));
            if (own.parent, own.class) != (other.parent, other.class) {
                return Err(format!(
                    "cooperate I1: client {number} is of another group than {leader}"
                ));
            }
            let together = self.shared_streams.is_in_one(number);
            if client.is_together != together || together && !client.is_stream {
                return Err(format!(
                    "cooperate I1: client {number} is in a shared stream, and no stream"
                ));
            }
        }
        Ok(())
    }

    /// While accounts alone decide nothing is kept, and no client has a seat (I2 of the watchdog).
    fn audit_fallback(&self) -> Result<(), Fault> {
        if self.watchdog.has_fallen() && (self.seats.most.is_some() || self.keeping.is_some()) {
            return Err("watchdog I2: a rule is in force although it fell back".into());
        }
        Ok(())
    }

    /// G2, checked at each choice: of all clients that wait and may go, none has had less than
    /// `client`, which goes. A client held back by its shared stream is not passed over; for a
    /// shared stream its least member counts, whichever member goes. Not checked while the idle
    /// class has waited long enough to go before all others.
    pub(super) fn audit_choice(
        &self,
        view: &QueueView,
        client: u32,
        request: RequestId,
        now: Nanos,
    ) {
        // O(n) for each request: with many clients a sixteenth of the requests is enough.
        let looks = self.clients.len() <= 64 || request.index().is_multiple_of(16);
        if !AUDITS || !looks {
            return;
        }
        #[cfg(test)]
        if self.sabotage != crate::adaptive::watchdog::Sabotage::None {
            return;
        }
        for (other, _) in (0u32..).zip(&self.clients) {
            let waits = self.accounts.at(other).waiting() > 0 && self.is_admitted(other);
            if waits && self.accounts.precedes(other, client) {
                let excused = self.clients[client as usize].is_interactive
                    || self.accounts.idlers_turn(client, other, now)
                    || self.is_held_back(view, other, now);
                assert!(excused, "choose G2: {other} had had less than {client} at {}", now.0);
            }
        }
    }

    /// gate I1 to I3, checked at each hold: `client` is held, so at some level a sibling of its
    /// class is in the device or about to ask, has nothing waiting, and has a lower virtual time.
    /// Looks at all siblings, not at the remembered ones.
    pub(super) fn audit_hold(&self, view: &QueueView, client: u32, now: Nanos) {
        let looks = self.clients.len() <= 64 || self.gate.holds.is_multiple_of(16);
        if !AUDITS || !looks {
            return;
        }
        assert!(view.in_device().requests > 0, "gate I1: {client} is held for nobody");
        assert!(self.seats.most.is_none(), "gate I1: {client} is held beside seats");
        let is_owed_beside = |own: &Node| {
            self.accounts.nodes.iter().any(|other| {
                let is_sibling = (other.parent, other.class) == (own.parent, own.class);
                let inside = other.flying > 0 || other.expected > now;
                is_sibling && other.waiting() == 0 && inside && other.vt < own.vt
            })
        };
        let mut at = client;
        while at != NIL && !is_owed_beside(self.accounts.at(at)) {
            at = self.accounts.at(at).parent;
        }
        assert!(at != NIL, "gate I2: {client} is held for nobody");
    }

    /// Counts the requests of each client, and those that go ahead of all others.
    fn count_jobs(&self) -> Result<Vec<Counted>, Fault> {
        let mut all = vec![Counted::default(); self.clients.len()];
        let mut bypassing = 0;
        for (job, slot) in self.jobs.iter().zip(0u32..) {
            let Some(own) = all.get_mut(job.client as usize) else { continue };
            match job.stage {
                Stage::Waiting => {
                    own.waiting += 1;
                    if !self.lanes.contains(RequestId::from_index(slot)) {
                        return Err(format!("paternoster I1: request {slot} waits nowhere"));
                    }
                }
                Stage::Flying => {
                    own.flying += 1;
                    own.estimated += job.estimate;
                }
                Stage::Bypassing => bypassing += 1,
                Stage::Elsewhere => {}
            }
        }
        if bypassing != self.bypass.len() {
            return Err(format!(
                "paternoster I1: {bypassing} go past, {} known",
                self.bypass.len()
            ));
        }
        Ok(all)
    }

    fn audit_client(
        &self,
        view: &QueueView,
        number: u32,
        client: &Client,
        counted: Counted,
    ) -> Result<(), Fault> {
        client.lane.check(&self.lanes, view)?;
        let node = self.accounts.at(number);
        if node.is_busy() && !self.present.contains(number) {
            return Err(format!("paternoster I2: client {number} is missed by the count"));
        }
        let (waiting, flying, estimated) = (node.waiting(), node.flying, node.estimated);
        let known = Counted { waiting, flying, estimated };
        let stands = client.lane.len();
        if counted != known || stands != waiting {
            return Err(format!(
                "paternoster I2: of client {number} {counted:?} and {stands}, known {known:?}"
            ));
        }
        if waiting != node.queued[client.kind()] {
            return Err(format!("paternoster I2: client {number} waits as what it is not"));
        }
        Ok(())
    }
}
