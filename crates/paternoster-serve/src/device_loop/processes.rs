// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes: connections that make calls, through FUSE.
//!
//! ```text
//! Call ── known caller ──────────────▶ its connection ──▶ wire of calls ──▶ read as from a socket
//!      ── new caller ── rule, cgroups ──▶ a connection is made
//!      ── unknown caller, or too many ──▶ the volume's common connection
//! ```
//!
//! A connection belongs to a process *with* its ionice and its cgroup: when one of them changes,
//! another connection takes over, and the first one goes once it has been idle for [`LINGER`].
//! Weights of cgroups change in place.
//!
//! Invariants: I1 an entry of `known` keeps its caller, so that no other has its address; I2 its
//! connection is there and has a wire of calls; I3 there are at most `most` connections besides
//! common ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use paternoster_core::{Nanos, Priority};

use super::connection::Connection;
use super::connections::Standing;
use super::{DeviceLoop, Newcomer, Seat};
use crate::config::{Config, Identity, Rule, rules};
use crate::fuse::call::Call;
use crate::fuse::callers::Caller;
use crate::host::peer::{Origin, Peer};
use crate::nbd::{ExportFacts, Negotiated};
use crate::wire::{Calls, Wire};

/// A process may be idle this long before its connection goes.
const LINGER: Nanos = Nanos::from_secs(10);
/// Numbers of these connections count from here: those of connections from 1.
const FIRST_ID: u32 = 1 << 31;

/// What a connection by calls has in addition to others.
#[derive(Debug)]
pub(super) struct Process {
    /// The caller; `None`: all unknown callers.
    pub caller: Option<Arc<Caller>>,
    /// Its last call.
    used: Nanos,
}

/// The callers, and the rules for them.
#[derive(Debug)]
pub(super) struct Processes {
    rules: Vec<Rule>,
    exports: Vec<ExportFacts>,
    seats: Arc<AtomicU32>,
    most: u32,
    ids: u32,
    /// By volume and the caller's address.
    known: BTreeMap<(u32, usize), (u32, Arc<Caller>)>,
    /// By volume.
    common: Vec<Option<u32>>,
}

impl Process {
    /// Its caller's ionice priority.
    pub(super) fn priority(&self) -> Priority {
        self.caller.as_ref().map_or_else(Priority::default, |caller| caller.priority)
    }
}

impl Processes {
    /// Connections by calls that a device may have.
    pub(super) fn most(config: &Config, volumes: usize) -> u32 {
        let Some(fuse) = &config.server.fuse else { return 0 };
        fuse.processes.saturating_add(u32::try_from(volumes).unwrap_or(0))
    }

    /// No process yet.
    pub(super) fn new(config: &Config, exports: &[ExportFacts]) -> Processes {
        Processes {
            rules: config.rules.clone(),
            exports: exports.to_vec(),
            seats: Arc::new(AtomicU32::new(0)),
            most: config.server.fuse.as_ref().map_or(0, |fuse| fuse.processes),
            ids: FIRST_ID,
            known: BTreeMap::new(),
            common: vec![None; exports.len()],
        }
    }

    /// Sets other rules, which apply to the next call of each process. Older connections go when
    /// they have been idle.
    pub(super) fn take_rules(&mut self, rules: &[Rule]) {
        if self.rules != rules {
            self.rules = rules.to_vec();
            self.known.clear();
        }
    }

    /// A connection goes.
    pub(super) fn forget(&mut self, index: u32) {
        self.known.retain(|_, (connection, _)| *connection != index);
        for common in &mut self.common {
            if *common == Some(index) {
                *common = None;
            }
        }
    }
}

/// Whether two lookups of a caller mean the same client.
fn is_same(one: &Caller, other: &Caller) -> bool {
    (one.pid, one.started, one.uid) == (other.pid, other.started, other.uid)
        && one.priority == other.priority
        && one.cgroup == other.cgroup
}

impl DeviceLoop {
    /// A process makes a call.
    pub(super) fn take_call(&mut self, call: Call) {
        if self.stop.is_on() {
            return call.answer.bad(libc::ESHUTDOWN);
        }
        let Some(index) = self.connection_of(&call) else { return call.answer.bad(libc::ENOMEM) };
        let now = self.time.now;
        let connection = self.connections.at_mut(index);
        if let Some(process) = &mut connection.process {
            process.used = now;
        }
        // A connection that is known has its wire (I2).
        if let Some(calls) = calls_of(connection) {
            calls.push(call);
        }
        connection.readable = true;
        self.connections.make_ready(index);
    }

    /// The connection that a call belongs to.
    fn connection_of(&mut self, call: &Call) -> Option<u32> {
        let place = call.place;
        let Some(caller) = &call.caller else { return self.common_connection(place) };
        let key = (place, Arc::as_ptr(caller).addr());
        if let Some(&(connection, _)) = self.processes.known.get(&key) {
            return Some(connection);
        }
        if let Some(connection) = self.known_otherwise(place, caller) {
            return Some(connection);
        }
        if self.processes.known.len() >= self.processes.most as usize {
            self.send_the_idlest_away();
            return self.common_connection(place);
        }
        let standing = self.standing(place, caller);
        match self.make_process(place, Some(caller), standing, caller.priority) {
            Some(connection) => {
                self.processes.known.insert(key, (connection, Arc::clone(caller)));
                Some(connection)
            }
            None => self.common_connection(place),
        }
    }

    /// The connection of this caller from an earlier lookup, which this one replaces.
    fn known_otherwise(&mut self, place: u32, caller: &Arc<Caller>) -> Option<u32> {
        let same = self
            .processes
            .known
            .iter()
            .find(|((of, _), (_, known))| *of == place && is_same(known, caller));
        let (&old, &(connection, ref known)) = same?;
        let weights_changed = known.weights != caller.weights;
        self.processes.known.remove(&old);
        let key = (place, Arc::as_ptr(caller).addr());
        self.processes.known.insert(key, (connection, Arc::clone(caller)));
        if weights_changed && matches!(self.standing(place, caller), Standing::Cgroup(_)) {
            self.tenants.weigh(
                self.time.now,
                &mut self.recorded_queue,
                &caller.cgroup,
                &caller.weights,
            );
            self.divide();
        }
        Some(connection)
    }

    /// Which share it gets part of: that of a rule's tenant, its cgroup, or the root.
    fn standing(&self, place: u32, caller: &Arc<Caller>) -> Standing {
        let identity = Identity {
            export: self.volumes.at(place).name.clone(),
            uid: Some(caller.uid),
            pid: Some(caller.pid),
            cgroup: (!caller.cgroup.is_empty()).then(|| caller.cgroup.clone()),
            ..Identity::default()
        };
        match rules::ruled(&self.processes.rules, &identity) {
            Some(tenant) => Standing::Tenant(tenant),
            None if caller.cgroup.is_empty() => Standing::Root,
            None => Standing::Cgroup(Arc::clone(caller)),
        }
    }

    /// The common connection, of callers that are not told apart.
    fn common_connection(&mut self, place: u32) -> Option<u32> {
        if let Some(connection) = self.processes.common.get(place as usize).copied().flatten() {
            return Some(connection);
        }
        let connection = self.make_process(place, None, Standing::Root, Priority::default())?;
        self.processes.common[place as usize] = Some(connection);
        Some(connection)
    }

    fn make_process(
        &mut self,
        place: u32,
        caller: Option<&Arc<Caller>>,
        standing: Standing,
        priority: Priority,
    ) -> Option<u32> {
        let facts = self.processes.exports.get(place as usize)?.clone();
        let seat = Seat::take(&self.processes.seats, u32::MAX)?;
        let id = self.processes.ids;
        self.processes.ids = id.checked_add(1).unwrap_or(FIRST_ID);
        let peer = match caller {
            Some(caller) => Peer {
                words: format!("{}[{}]", caller.name, caller.pid),
                origin: Origin::User(caller.uid),
            },
            None => "processes".to_owned().into(),
        };
        let newcomer = Newcomer {
            handed: None,
            wire: Wire::of_calls(),
            negotiated: Negotiated {
                export: facts.name.clone(),
                facts,
                structured: true,
                allocation: false,
                block_sizes_known: false,
            },
            id: id.into(),
            peer,
            pid: caller.map_or(0, |caller| caller.pid),
            tenant: String::new(),
            identity: None,
            input: Vec::new(),
            output: Vec::new(),
            seat,
        };
        let process = Process { caller: caller.cloned(), used: self.time.now };
        self.take_in(newcomer, standing, Some(priority), Some(process))
    }

    /// Removes the process that has been idle longest, to make room.
    fn send_the_idlest_away(&mut self) {
        let idle = self.connections.iter().filter(|(_, connection)| is_idle(connection));
        let idlest =
            idle.min_by_key(|(_, connection)| connection.process.as_ref().map(|it| it.used));
        if let Some((index, _)) = idlest {
            self.send_away(index);
        }
    }

    /// Removes processes that have been idle for long.
    pub(super) fn send_the_idle_away(&mut self) {
        let Some(since) = self.time.now.0.checked_sub(LINGER.0) else { return };
        let is_long = |connection: &Connection| {
            connection.process.as_ref().is_some_and(|it| it.used.0 < since)
        };
        let idle: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| is_idle(connection) && is_long(connection))
            .map(|(index, _)| index)
            .collect();
        for index in idle {
            self.send_away(index);
        }
    }

    fn send_away(&mut self, index: u32) {
        self.processes.forget(index);
        let connection = self.connections.at_mut(index);
        if let Some(calls) = calls_of(connection) {
            calls.leave();
        }
        connection.readable = true;
        self.connections.make_ready(index);
    }
}

/// A known process that has nothing under way.
fn is_idle(connection: &Connection) -> bool {
    let is_known = connection.process.as_ref().is_some_and(|process| process.caller.is_some());
    is_known && connection.is_idle()
}

/// The calls of a connection, if it comes by them.
const fn calls_of(connection: &mut Connection) -> Option<&mut Calls> {
    match &mut connection.wire {
        Some(wire) => wire.calls(),
        None => None,
    }
}
