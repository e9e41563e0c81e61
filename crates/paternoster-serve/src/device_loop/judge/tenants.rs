// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants: those of a case, and what must be true of each of them.
//!
//! Laws: T1 a tenant's counts are those of its clients' requests: at least what was answered, at
//! most what they sent; T2 it gets at most what its caps allow in the time passed plus a tenth of a
//! second, one request more, and for each client without structured replies the rest of a read
//! whose first data were sent; L2 a tenant whose clients have gone has nothing under way, and one
//! that is not configured has gone with them.
//!
//! ```text
//! cap 200 requests a second, 0.3 s have passed:   at most 200 * (0.3 + 0.1) + 1 = 81
//! ```

use paternoster_core::Nanos;

use super::client::Client;
use super::house::FIRST_USER;
use super::plan::{Ask, CACHE, ClientPlan, FLUSH, Plan, READ, TRIM, WRITE, ZEROES};
use super::renewal::{name_now, now_of};
use crate::config::{Caps, Group, Rule, Tenant, Who};
use crate::device_loop::tenants::Tenants;

/// The counts that a tenant may have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    pub(super) writes: u64,
    pub(super) write_bytes: u64,
    pub(super) flushes: u64,
    pub(super) errors: u64,
}

impl Count {
    pub(super) fn add(&mut self, ask: Ask) {
        match ask.kind {
            READ | CACHE => {
                self.reads += 1;
                self.read_bytes += u64::from(ask.length);
            }
            WRITE | TRIM | ZEROES => {
                self.writes += 1;
                self.write_bytes += u64::from(ask.length);
            }
            FLUSH => self.flushes += 1,
            _ => {}
        }
    }
}

pub(super) fn name(number: usize) -> String {
    format!("t{number}")
}

/// Rules that give each client its tenant by its user.
pub(super) fn rules(plan: &Plan) -> Vec<Rule> {
    let numbers = (FIRST_USER..).zip(0..plan.tenants.len());
    let rules = numbers.map(|(uid, number)| Rule {
        who: Who { uid: Some(uid), ..Who::default() },
        tenant: name_now(plan, number),
    });
    rules.collect()
}

fn group_name(number: usize) -> String {
    format!("g{number}")
}

pub(super) fn groups(plan: &Plan) -> Vec<Group> {
    let groups = plan.groups.iter().enumerate().map(|(number, &weight)| Group {
        name: group_name(number),
        parent: number.checked_sub(1).map(group_name),
        weight,
        caps: Caps::default(),
        floor: None,
    });
    groups.collect()
}

pub(super) fn configured(plan: &Plan) -> Vec<Tenant> {
    let all = plan.tenants.iter().enumerate();
    let tenants = all.filter(|(_, tenant)| !tenant.is_stranger).map(|(number, tenant)| Tenant {
        name: name(number),
        group: tenant.group.map(group_name),
        weight: tenant.weight,
        class: tenant.class,
        level: 4,
        caps: tenant.caps,
        floor: tenant.floor,
    });
    tenants.collect()
}

pub(super) fn are_capped(plan: &Plan) -> bool {
    let is_capped = plan.reloads.iter().any(|reload| reload.what.is_capped());
    is_capped || configured(plan).iter().any(|tenant| tenant.caps != Caps::default())
}

/// The clients of a tenant.
fn clients_of<'a>(
    plan: &'a Plan,
    clients: &'a [Client],
    tenant: usize,
) -> impl Iterator<Item = &'a Client> {
    let all = plan.clients.iter().zip(clients);
    all.filter(move |(planned, _)| now_of(plan, planned.tenant) == tenant).map(|(_, client)| client)
}

/// From when on a cap is looked at, and what each client had by then.
#[derive(Debug, Clone, Default)]
pub(super) struct Since {
    at: Nanos,
    /// Bytes that were moved and requests that were answered, and what it waited for of both.
    clients: Vec<[[u64; 2]; 2]>,
}

impl Since {
    pub(super) fn now(clients: &[Client], at: Nanos) -> Since {
        let clients = clients.iter().map(|client| [got(client), client.waits_for()]).collect();
        Since { at, clients }
    }

    fn of(&self, which: usize) -> [[u64; 2]; 2] {
        self.clients.get(which).copied().unwrap_or_default()
    }
}

/// Bytes and requests.
fn got(client: &Client) -> [u64; 2] {
    let Count { reads, writes, flushes, .. } = client.answered;
    [client.moved, reads + writes + flushes]
}

/// T2.
pub(super) fn are_kept_to_their_caps(
    plan: &Plan,
    clients: &[Client],
    since: &Since,
    now: Nanos,
) -> Result<(), String> {
    for (number, tenant) in plan.tenants.iter().enumerate() {
        if tenant.is_stranger {
            continue;
        }
        let most = |rate: u64| rate * ((now.0 - since.at.0) / 1_000_000 + 101) / 1000;
        let longest = |client: &ClientPlan, kinds: &[u16]| {
            let data = client.asks.iter();
            let data = data.filter(|ask| kinds.contains(&ask.kind) && ask.due == 0);
            data.map(|ask| u64::from(ask.length)).max().unwrap_or(0)
        };
        let of = || plan.clients.iter().filter(|client| now_of(plan, client.tenant) == number);
        let one = of().map(|client| longest(client, &[READ, WRITE])).max().unwrap_or(0);
        // A read that is half sent in one piece is not held up.
        let begun = of().filter(|client| !client.structured);
        let longest = one + begun.map(|client| longest(client, &[READ])).sum::<u64>();
        // Earlier requests may have passed earlier.
        let mut got_since = [0; 2];
        for (which, (client, planned)) in clients.iter().zip(&plan.clients).enumerate() {
            if now_of(plan, planned.tenant) != number {
                continue;
            }
            let [before, waited] = since.of(which);
            for (sum, (now, (before, waited))) in got_since
                .iter_mut()
                .zip(got(client).into_iter().zip(before.into_iter().zip(waited)))
            {
                *sum += now.saturating_sub(before + waited);
            }
        }
        let [bytes, count] = got_since;
        let Caps { bytes: rate, requests } = tenant.caps;
        if rate != 0 && bytes > most(rate) + longest {
            return Err(format!("T2: {} got {bytes} bytes by {} ns", name(number), now.0));
        }
        if requests != 0 && count > most(requests) + 1 {
            return Err(format!("T2: {} got {count} requests by {} ns", name(number), now.0));
        }
    }
    Ok(())
}

/// T1, L2.
pub(super) fn are_counted(
    plan: &Plan,
    clients: &[Client],
    tenants: &Tenants,
) -> Result<(), String> {
    for (number, tenant) in plan.tenants.iter().enumerate() {
        let Some(place) = tenants.find(&name(number)) else {
            if tenant.is_stranger {
                continue;
            }
            return Err(format!("L2: {} is gone", name(number)));
        };
        if tenant.is_stranger {
            return Err(format!("L2: {} is there without a client", name(number)));
        }
        let node = tenants.at(place);
        if (node.connections, node.under_way) != (0, 0) {
            let (connections, under_way) = (node.connections, node.under_way);
            return Err(format!("L2: {}: {connections} and {under_way} are left", node.name));
        }
        if plan.reloads.iter().any(|reload| reload.what.moves_clients()) {
            // Its clients may have been another's for a while.
            continue;
        }
        let (mut least, mut most) = ([0; 6], [0; 6]);
        for client in clients_of(plan, clients, number) {
            add(&mut least, &client.answered);
            add(&mut most, &client.asked);
        }
        let told = &node.figures;
        let counted =
            [told.reads, told.read_bytes, told.writes, told.write_bytes, told.flushes, told.errors];
        // What was wrong, and what failed unheard, is an error too: there is no most of these.
        most[5] = u64::MAX;
        if (0..6).any(|which| counted[which] < least[which] || counted[which] > most[which]) {
            let name = &node.name;
            return Err(format!("T1: {name} is counted {counted:?}, not {least:?} to {most:?}"));
        }
    }
    Ok(())
}

fn add(sum: &mut [u64; 6], count: &Count) {
    let Count { reads, read_bytes, writes, write_bytes, flushes, errors } = *count;
    let all = [reads, read_bytes, writes, write_bytes, flushes, errors];
    sum.iter_mut().zip(all).for_each(|(sum, one)| *sum += one);
}
