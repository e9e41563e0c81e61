// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audit of admission: whether its counts are right, and every sleeping client will be woken.

use alloc::format;

use super::Allocator;
use crate::client::Sleep;
use crate::elevator::Fault;
use crate::positions::NOWHERE;
use crate::queue_view::QueueView;
use crate::request::Request;

impl Allocator {
    /// Verifies I1 to I4.
    pub(crate) fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        self.audit_pools(view)?;
        for (key, client) in view.clients.iter() {
            let index = key.index();
            for (number, sleep) in client.sleep.iter().enumerate() {
                let listed = self.sleeper_links[number].contains(index);
                if listed != (*sleep == Sleep::Asleep) {
                    return Err(format!(
                        "admission I2: client {index} is {sleep:?}, list: {listed}"
                    ));
                }
            }
        }
        for list in self.sleepers.iter().zip(&self.sleeper_links) {
            list.0.check(list.1)?;
        }
        Ok(())
    }

    /// The pools' counts are right, and every sleeping client will be woken (admission I1, I3).
    fn audit_pools(&self, view: &QueueView) -> Result<(), Fault> {
        for (number, pool) in self.pools.iter().enumerate() {
            let holds = |request: &Request| usize::from(request.pool) == number;
            let live = view.requests.0.iter().filter(|(_, request)| holds(request)).count();
            if live != pool.allocated as usize {
                return Err(format!("admission I1: pool {number} has {live}, counts {pool:?}"));
            }
        }
        let positions = &self.positions;
        let placed = view.requests.0.iter().map(|(_, request)| request).filter(|request| {
            usize::from(request.pool) < self.pools.len() && request.position != NOWHERE
        });
        let (mut taken, mut free) = (0, 0);
        for request in placed {
            (taken, free) = (taken + 1, free + u32::from(positions.is_free(request.position)));
        }
        if free != 0 || taken != positions.taken() {
            let marked = positions.taken();
            return Err(format!(
                "admission I1: {taken} requests have positions, {free} free ones; marked {marked}"
            ));
        }
        let clients = || view.clients.iter().map(|(_, client)| client);
        let expected = clients().filter(|client| client.expected).count();
        let kept = clients().filter(|client| client.kept).count();
        let counted = self.expected();
        if (expected, kept) != (counted.0 as usize, counted.1 as usize) {
            return Err(format!(
                "admission I4: {expected} expected, {kept} kept; counted {counted:?}"
            ));
        }
        let in_all: u32 = self.pools.iter().map(|pool| pool.allocated).sum();
        let asleep: u32 = self.sleepers.iter().take(2).map(|list| list.len()).sum();
        if in_all == 0 && asleep != 0 {
            return Err(format!("admission I3: {asleep} clients sleep and nothing is allocated"));
        }
        Ok(())
    }
}
