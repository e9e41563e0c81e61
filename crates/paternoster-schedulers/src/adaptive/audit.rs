// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audit: verifies the invariants that span parts.
//!
//! All counters are counted again: requests by client, estimates. That what was charged is what was
//! served (G1) is checked for each client: after its last completion no estimate is left. What a
//! part knows alone, it checks itself.
//!
//! Source: G1, G2, G5 of `docs/rules/adaptive.md`.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::adaptive::account::{Accounts, Node};
use crate::adaptive::clients::Clients;
use crate::adaptive::gate::{BEST_EFFORT, REAL_TIME};
use crate::adaptive::job::{Jobs, Stage};
use crate::adaptive::workload_mix::Present;
use paternoster_core::elevator::Fault;
use paternoster_core::slab::NIL;
use paternoster_core::{AUDITS, QueueView, RequestId};

/// The counts of a client's requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counted {
    waiting: u32,
    flying: u32,
    estimated: i64,
}

/// Verifies that accounts and lanes agree with the requests, and that `served` is what was charged:
/// to clients, and before to `departed` ones. In time that grows with all clients and requests.
pub(super) fn audit_clients(
    view: &QueueView,
    accounts: &Accounts,
    clients: &Clients,
    jobs: &Jobs,
    present: &Present,
    (departed, served): (i64, i64),
) -> Result<(), Fault> {
    let (counted, mut charged) = (count(clients, jobs)?, 0);
    for ((client, number), counted) in clients.all().iter().zip(0u32..).zip(counted) {
        client.lane.check(clients.lanes(), view)?;
        let node = accounts.at(number);
        if node.is_busy() && !present.contains(number) {
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
        if client.is_interactive() && waiting == 0 {
            return Err(format!("paternoster I2: client {number} interrupts, and nothing waits"));
        }
        charged += node.charged - node.estimated;
    }
    if charged + departed != served {
        return Err(format!(
            "paternoster G1: {charged} ns, and {departed} of clients that left, were charged for \
             {served} ns served and kept"
        ));
    }
    Ok(())
}

/// gate I1 to I3, checked at each hold, the `nth`: `client` is held, so at some level a sibling is
/// in the device or about to ask, has nothing waiting, and is of its class and has a lower virtual
/// time, or is of the real-time class where it is of best effort (G10); beside seats only that.
/// Looks at all siblings, not at the remembered ones.
pub(super) fn audit_hold(
    view: &QueueView,
    accounts: &Accounts,
    has_seats: bool,
    client: u32,
    nth: u64,
) {
    let now = view.exact_now();
    let looks = accounts.clients() <= 64 || nth.is_multiple_of(16);
    if !AUDITS || !looks {
        return;
    }
    let is_empty = view.in_device().requests == 0;
    assert!(!is_empty || accounts.totals().1 == 0, "gate I1: {client} is held for no other");
    let is_owed_beside = |own: &Node| {
        accounts.nodes.iter().any(|other| {
            let inside = other.flying > 0 || other.expected > now && !other.asks;
            let is_less = !has_seats && other.class == own.class && other.vt < own.vt;
            let is_owed = is_less || (other.class, own.class) == (REAL_TIME, BEST_EFFORT);
            other.parent == own.parent && other.waiting() == 0 && inside && is_owed
        })
    };
    let mut at = client;
    while at != NIL && !is_owed_beside(accounts.at(at)) {
        at = accounts.at(at).parent;
    }
    assert!(at != NIL, "gate I2: {client} is held for no other");
}

/// Counts the requests of each client.
fn count(clients: &Clients, jobs: &Jobs) -> Result<Vec<Counted>, Fault> {
    let mut all = vec![Counted::default(); clients.all().len()];
    for (job, slot) in jobs.all().iter().zip(0u32..) {
        let Some(own) = all.get_mut(job.client as usize) else { continue };
        match job.stage {
            Stage::Waiting => {
                own.waiting += 1;
                if !clients.lanes().contains(RequestId::from_index(slot)) {
                    return Err(format!("paternoster I1: request {slot} waits nowhere"));
                }
            }
            Stage::Flying => {
                own.flying += 1;
                own.estimated += job.estimate;
            }
            Stage::Bypassing | Stage::Elsewhere => {}
        }
    }
    Ok(all)
}
