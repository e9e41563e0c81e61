// SPDX-License-Identifier: MIT OR Apache-2.0
//! Status: a loop's state, and what each request waits for.
//!
//! `explain` answers two questions of a user who set a weight and sees no effect: what is the
//! effective weight at every level, and why; and what does each waiting request wait for.

use paternoster_core::Nanos;
use serde_json::{Value, json};

use super::DeviceLoop;
use super::connection::{Blocked, Connection};
use super::io_fragment::Step;
use super::tenants::{Node, ROOT};
use crate::config::ServiceClass;
use crate::control::order::Answer;
use crate::control::snapshot::{ConnectionLine, LastError, Snapshot};

/// Waiting requests, at most, in one answer.
const TOLD: usize = 256;

impl DeviceLoop {
    /// The loop's state.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.now = self.clock.now();
        let queue = self.recorded_queue.queue();
        let stats = queue.observer();
        let mut tenants = self.tenants.lines();
        for line in &mut tenants {
            line.figures.served_ns = self.served(&line.name);
        }
        Snapshot {
            device: self.name.clone(),
            backend: self.lender.backend().describe(),
            scheduler: queue.elevator_name().to_owned(),
            scheduler_failed: self.policy.words(),
            scheduler_failures: self.policy.failures(),
            depth: queue.facts().depth,
            now_ns: self.now.0,
            busy_ns: stats.busy(self.now).0,
            in_device: self.in_device,
            waiting: self.fragments.len().saturating_sub(self.in_device),
            memory: self.arena.length() as u64,
            memory_used: self.arena.used() as u64 + self.rests,
            tracing: stats.is_tracing(),
            volumes: self.volumes.lines(),
            tenants,
            connections: self.connection_lines(),
            departed: self.tenants.departed.lines(),
            earlier: self.tenants.departed.earlier(),
            stopping: self.stopping,
            lost: self.lender.backend().lost().is_some(),
            errors: self.complaints.count.clone(),
            last_error: self
                .complaints
                .last
                .as_ref()
                .map(|(at, what)| LastError { ago_ns: (self.now - *at).0, what: what.clone() }),
            oldest_command_ns: self.oldest_command().0,
        }
    }

    /// The age of the oldest command in the device.
    fn oldest_command(&self) -> Nanos {
        let all = self.tags.iter().zip(&self.given).filter(|(tag, _)| tag.is_some());
        let oldest = all.map(|(_, &given)| given).min();
        oldest.map_or(Nanos::ZERO, |given| self.now - given)
    }

    /// Device time of a tenant: of the connections that have gone and of those that are there. That
    /// of a group is what its tenants got; of a cgroup, what its own processes got.
    fn served(&self, name: &str) -> u64 {
        let Some(place) = self.tenants.find(name) else { return 0 };
        let stats = self.recorded_queue.queue().observer();
        // Of one that is about to move to a tenant of the same name, too.
        let counts = |tenant: u32| {
            let node = self.tenants.at(tenant);
            self.tenants.counts(place, tenant) || (node.is_gone && node.name == name)
        };
        let present = self.connections.iter().filter(|(_, connection)| counts(connection.tenant));
        let served = |connection: &Connection| {
            stats.served(connection.client.index()).0 - connection.served_before
        };
        let present: u64 = present.map(|(_, connection)| served(connection)).sum();
        self.tenants.at(place).figures.served_ns + present
    }

    fn connection_lines(&self) -> Vec<ConnectionLine> {
        let stats = self.recorded_queue.queue().observer();
        self.connections
            .iter()
            .map(|(_, connection)| {
                let mut figures = connection.figures.clone();
                figures.served_ns = stats.served(connection.client.index()).0;
                ConnectionLine {
                    id: connection.id,
                    tenant: self.tenants.at(connection.tenant).name.clone(),
                    volume: self.volumes.at(connection.place).name.clone(),
                    peer: connection.peer.words.clone(),
                    under_way: connection.ios,
                    figures,
                }
            })
            .collect()
    }

    /// What requests wait for, and which weights nodes have, and why.
    pub(super) fn explain(&mut self, tenant: Option<&str>) -> Answer {
        self.now = self.clock.now();
        if let Some(name) = tenant
            && self.tenants.find(name).is_none()
        {
            return Err(format!("device {} knows no tenant or group {name}", self.name));
        }
        let levels: Vec<Value> = self
            .tenants
            .iter()
            .filter(|&(place, node)| place != ROOT && !node.is_gone)
            .filter(|(_, node)| tenant.is_none_or(|name| node.name == name))
            .map(|(place, node)| self.level(place, node))
            .collect();
        Ok(json!({
            "device": self.name,
            "scheduler": self.recorded_queue.queue().elevator_name(),
            "note": self.note(),
            "levels": levels,
            "waiting": self.waiting(tenant),
        }))
    }

    /// What makes weights ineffective, if anything does.
    fn note(&self) -> &'static str {
        match self.recorded_queue.queue().elevator_name() {
            "bfq" | "bfq-4.19" | "cfq" | "paternoster" => "",
            _ => "this scheduler knows no weights: all tenants are served as they come",
        }
    }

    fn level(&self, place: u32, node: &Node) -> Value {
        json!({
            "name": node.name,
            "parent": self.tenants.at(node.parent).name,
            "kind": if node.is_group { "group" } else { "tenant" },
            "weight": node.weight,
            "effective": node.effective,
            "why": why(node),
            "share_of_level_percent": self.tenants.share_of_level(place) as f64 / 10.0,
            "share_of_device_percent": f64::from(self.tenants.share(place)) / 10.0,
            "active": self.tenants.is_active(place),
        })
    }

    /// The queue's words, with connections as everything else names them: `client 3` of the queue
    /// is `vm1#7`, the seventh connection, of the tenant `vm1`.
    fn named(&self, words: &str) -> String {
        let mut pieces = words.split("client ");
        let mut told = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
            let (number, rest) = piece.split_at(end);
            let index = number.parse().ok().and_then(|at: usize| self.by_client.get(at));
            let connection = index.filter(|&&index| self.connections.is_live(index));
            let connection = connection.map(|&index| self.connections.at(index));
            match connection.filter(|connection| connection.client.index().to_string() == number) {
                Some(connection) => {
                    told +=
                        &format!("{}#{}", self.tenants.at(connection.tenant).name, connection.id);
                }
                // One that has gone.
                None => told += &format!("a client{}", if number.is_empty() { " " } else { "" }),
            }
            told += rest;
        }
        told
    }

    fn waiting(&self, tenant: Option<&str>) -> Vec<Value> {
        let mut told = Vec::new();
        for (_, fragment) in self.fragments.iter() {
            let io = self.ios.at(fragment.io);
            let connection = self.connections.at(io.connection);
            let name = &self.tenants.at(connection.tenant).name;
            if tenant.is_some_and(|only| only != name) {
                continue;
            }
            let why = match (fragment.step, fragment.ticket) {
                (Step::Filling, _) => "its payload is still coming".to_owned(),
                (Step::Refused, _) => "the queue takes no more requests now".to_owned(),
                (Step::Excluded, _) => "it waits for others that change the same block".to_owned(),
                (Step::Queued, Some(ticket)) => {
                    self.named(&self.recorded_queue.queue().explain(ticket).to_string())
                }
                (Step::Asking, _) => {
                    "it is asked where there are holes, or waits for that".to_owned()
                }
                (Step::Queued, None) => "it has ended".to_owned(),
            };
            let for_ms = (self.now - io.arrived).0 as f64 / 1e6;
            told.push(json!({
                "tenant": name, "connection": connection.id, "why": why, "for_ms": for_ms,
            }));
            if told.len() == TOLD {
                break;
            }
        }
        for (_, connection) in self.connections.iter().take(TOLD) {
            let name = &self.tenants.at(connection.tenant).name;
            let why = match connection.blocked {
                Blocked::Cap(until) => {
                    format!(
                        "its tenant is above its cap for another {}",
                        until.0.saturating_sub(self.now.0) / 1_000_000
                    ) + " ms"
                }
                Blocked::Room => "it is not read from: no memory or no place is free".to_owned(),
                Blocked::Share => {
                    "it is not read from: its share of the memory is used up".to_owned()
                }
                Blocked::Tenant => {
                    "it is not read from: its tenant's share of memory or places is used up"
                        .to_owned()
                }
                Blocked::Client => {
                    "it is not read from: its tenant has little memory left, and it does not bring \
                     its payload or take its answers"
                        .to_owned()
                }
                Blocked::Changes => {
                    "it is not read from: many of its changes wait for others of the same blocks"
                        .to_owned()
                }
                Blocked::Unsent => "it is not read from: it does not take its answers".to_owned(),
                Blocked::Moving => "it is not read from: it moves to another tenant".to_owned(),
                _ => continue,
            };
            if tenant.is_none_or(|only| only == name) {
                told.push(
                    json!({ "tenant": name, "connection": connection.id, "why": why, "for_ms": 0 }),
                );
            }
        }
        told
    }
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
