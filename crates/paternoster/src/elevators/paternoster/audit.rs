// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audit: the invariants of paternoster, verified.
//!
//! Everything that is counted is counted again: requests by client, what is estimated, what is
//! owed; every order is walked. That what was charged is what was served (G1) is checked for each
//! client: after its last completion nothing is estimated.
//!
//! Source: spec `elevator.md` 3 (G1, G2, G5).

use alloc::format;

use crate::elevator::Fault;
use crate::elevators::paternoster::{Client, Paternoster, Stage};
use crate::request::RequestId;
use crate::scene::Scene;

/// What is counted of a client's requests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    waiting: u32,
    flying: u32,
    estimated: i64,
}

impl Paternoster {
    /// Verifies all invariants; in time that grows with everything there is.
    pub(super) fn audit_all(&self, scene: &Scene) -> Result<(), Fault> {
        let (mut owed, mut bypassing, mut charged) = (0, 0, 0);
        for job in &self.jobs {
            bypassing += u32::from(job.stage == Stage::Bypassing);
        }
        if bypassing != self.bypass.len() {
            return Err(format!("paternoster I1: {bypassing} go past, {} known", self.bypass.len()));
        }
        for (client, number) in self.clients.iter().zip(0u32..) {
            self.audit_client(scene, number, client)?;
            owed += client.habit.owed;
            if self.expected_links.contains(number) != (client.habit.owed > 0) {
                return Err(format!("choose I3: client {number} is owed {}", client.habit.owed));
            }
            charged += self.accounts.at(number).charged - self.accounts.at(number).estimated;
        }
        if owed != self.total_owed {
            return Err(format!("choose I3: {owed} requests are owed, {} known", self.total_owed));
        }
        // Those who have left took their accounts along.
        if charged > self.served {
            let served = self.served;
            return Err(format!("paternoster G1: {charged} ns were charged for {served} ns served"));
        }
        self.bypass.check(&self.bypass_links)?;
        self.expected.check(&self.expected_links)?;
        self.seats.check()?;
        self.accounts.check()
    }

    fn audit_client(&self, scene: &Scene, number: u32, client: &Client) -> Result<(), Fault> {
        client.lane.check(&self.lanes, scene)?;
        let mut counted = Counted { waiting: client.lane.len(), ..Counted::default() };
        let mut stands = 0;
        for (job, slot) in self.jobs.iter().zip(0u32..).filter(|(job, _)| job.client == number) {
            match job.stage {
                Stage::Waiting => {
                    stands += 1;
                    if !self.lanes.contains(RequestId::from_index(slot)) {
                        return Err(format!("paternoster I1: request {slot} waits nowhere"));
                    }
                }
                Stage::Flying => {
                    counted.flying += 1;
                    counted.estimated += job.estimate;
                }
                Stage::Elsewhere | Stage::Bypassing => {}
            }
        }
        let node = self.accounts.at(number);
        let (waiting, flying, estimated) = (node.waiting(), node.flying, node.estimated);
        let known = Counted { waiting, flying, estimated };
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
