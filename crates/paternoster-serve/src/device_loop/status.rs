// SPDX-License-Identifier: MIT OR Apache-2.0
//! Status: a loop's state, and what each request waits for.
//!
//! `explain` answers two questions of a user who set a weight and sees no effect: what is the
//! effective weight at every level, and why; and what does each waiting request wait for.

use paternoster_core::{Nanos, Ticket};
use serde_json::{Value, json};

use super::connection::{Blocked, Connection};
use super::connection_table::Connections;
use super::io_fragment::{Fragment, Step};
use super::journal::Names;
use super::tenants::{Node, Tenants};
use crate::config::ServiceClass;
use crate::control::snapshot::ConnectionLine;
use crate::stats::Stats;

/// Waiting requests, at most, in one answer.
pub(super) const TOLD: usize = 256;

/// Device time of a tenant: of the connections that have gone and of those that are there. That of
/// a group is what its tenants got; of a cgroup, what its own processes got.
pub(super) fn served(
    tenants: &Tenants,
    connections: &Connections,
    stats: &Stats,
    name: &str,
) -> u64 {
    let Some(place) = tenants.find(name) else { return 0 };
    // Of one that is about to move to a tenant of the same name, too.
    let counts = |tenant: u32| {
        let node = tenants.at(tenant);
        tenants.counts(place, tenant) || (node.is_gone && node.name == name)
    };
    let present = connections.iter().filter(|(_, connection)| counts(connection.tenant));
    let served = |connection: &Connection| {
        stats.served(connection.client.index()).0 - connection.served_before
    };
    let present: u64 = present.map(|(_, connection)| served(connection)).sum();
    tenants.at(place).figures.served_ns + present
}

pub(super) fn connection_lines(
    names: &Names<'_>,
    connections: &Connections,
    stats: &Stats,
) -> Vec<ConnectionLine> {
    connections
        .iter()
        .map(|(_, connection)| {
            let mut figures = connection.figures.clone();
            figures.served_ns = stats.served(connection.client.index()).0;
            ConnectionLine {
                id: connection.id,
                tenant: names.tenants.at(connection.tenant).name.clone(),
                volume: names.volumes.at(connection.place).name.clone(),
                peer: connection.peer.words.clone(),
                under_way: connection.ios,
                figures,
            }
        })
        .collect()
}

/// What makes weights ineffective, if anything does.
pub(super) fn note(elevator: &str) -> &'static str {
    match elevator {
        "bfq" | "bfq-4.19" | "cfq" | "paternoster" => "",
        _ => "this scheduler knows no weights: all tenants are served as they come",
    }
}

pub(super) fn level(tenants: &Tenants, place: u32, node: &Node) -> Value {
    json!({
        "name": node.name,
        "parent": tenants.at(node.parent).name,
        "kind": if node.is_group { "group" } else { "tenant" },
        "weight": node.weight,
        "effective": node.effective,
        "why": why(node),
        "share_of_level_percent": tenants.share_of_level(place) as f64 / 10.0,
        "share_of_device_percent": f64::from(tenants.share(place)) / 10.0,
        "active": tenants.is_active(place),
    })
}

/// The queue's words, with connections as everything else names them: `client 3` of the queue is
/// `vm1#7`, the seventh connection, of the tenant `vm1`.
pub(super) fn with_names(tenants: &Tenants, connections: &Connections, words: &str) -> String {
    let mut pieces = words.split("client ");
    let mut told = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        let (number, rest) = piece.split_at(end);
        match number.parse().ok().and_then(|client| connections.numbered(client)) {
            Some(connection) => {
                told += &format!("{}#{}", tenants.at(connection.tenant).name, connection.id);
            }
            // A tenant that has gone.
            None => told += &format!("a client{}", if number.is_empty() { " " } else { "" }),
        }
        told += rest;
    }
    told
}

/// What a fragment waits for; the queue explains its own.
pub(super) fn why_it_waits(fragment: &Fragment, explain: impl Fn(Ticket) -> String) -> String {
    let why = match (fragment.step, fragment.ticket) {
        (Step::Queued, Some(ticket)) => return explain(ticket),
        (Step::Filling, _) => "its payload is still coming",
        (Step::Refused, _) => "the queue takes no more requests now",
        (Step::Excluded, _) => "it waits for others that change the same block",
        (Step::Asking, _) => "it is asked where there are holes, or waits for that",
        (Step::Queued, None) => "it has ended",
    };
    why.to_owned()
}

/// Why a connection is not read from, if that is worth telling.
pub(super) fn why_it_is_blocked(blocked: Blocked, now: Nanos) -> Option<String> {
    let why = match blocked {
        Blocked::Cap(until) => {
            let left = until.0.saturating_sub(now.0) / 1_000_000;
            return Some(format!("its tenant is above its cap for another {left} ms"));
        }
        Blocked::Room => "no memory or no place is free",
        Blocked::Share => "its share of the memory is used up",
        Blocked::Tenant => "its tenant's share of memory or places is used up",
        Blocked::Client => {
            "its tenant has little memory left, and it does not bring its payload or take its \
             answers"
        }
        Blocked::Changes => "many of its changes wait for others of the same blocks",
        Blocked::Unsent => "it has many answers to take, or questions about holes under way",
        Blocked::Moving => "it moves to another tenant",
        Blocked::No | Blocked::Queue | Blocked::Own => return None,
    };
    Some(format!("it is not read from: {why}"))
}

/// Why a node's effective weight is what it is.
fn why(node: &Node) -> String {
    match node.class {
        ServiceClass::Background { minimum } => {
            format!("background: its minimum of {} % and what others leave", percent(minimum))
        }
        ServiceClass::Kernel(paternoster_core::Class::Idle) => "idle: what others leave".to_owned(),
        ServiceClass::Kernel(paternoster_core::Class::Realtime) => {
            "realtime: before others".to_owned()
        }
        ServiceClass::Kernel(_) if node.floor != 0 => {
            format!("its weight, and a floor of {} % of its level", percent(node.floor))
        }
        ServiceClass::Kernel(_) if node.effective != node.weight => {
            "its weight, on the scale that a sibling's floor needs".to_owned()
        }
        ServiceClass::Kernel(_) if node.is_stranger => "nobody configured it".to_owned(),
        ServiceClass::Kernel(_) => "its weight".to_owned(),
    }
}

fn percent(thousandths: u16) -> f64 {
    f64::from(thousandths) / 10.0
}
