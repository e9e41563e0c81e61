// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes: connections that make calls, through FUSE.
//!
//! ```text
//! Call ── known caller ──────────────▶ its connection ──▶ `calls` ──▶ I/Os, as from a socket
//!      ── new caller ── rule, cgroups ──▶ a connection is made
//!      ── unknown caller, or too many ──▶ the volume's common connection
//! ```
//!
//! A connection belongs to a process *with* its ionice and its cgroup: when one of them changes,
//! another connection takes over, and the first one goes once it has been idle for [`LINGER`].
//! Weights of cgroups change in place.
//!
//! Invariants: I1 an entry of `known` keeps its caller, so that no other has its address; I2 its
//! connection is there and takes calls; I3 there are at most `most` connections besides
//! common ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use paternoster_core::Nanos;

use super::connection::{Connection, Process};
use super::link::Link;
use super::messages::Newcomer;
use super::seats::Seat;
use crate::config::{Config, Identity, Rule, rules};
use crate::fuse::callers::Caller;
use crate::host::peer::{Origin, Peer};
use crate::nbd::{ExportFacts, Negotiated};

/// A process may be idle this long before its connection goes.
const LINGER: Nanos = Nanos::from_secs(10);
/// Numbers of these connections count from here: those of connections from 1.
const FIRST_ID: u32 = 1 << 31;

/// The node whose share a new client uses.
#[derive(Debug)]
pub(super) enum Standing {
    /// The tenant of this name, which is made if necessary.
    Tenant(String),
    /// The node of the caller's cgroup.
    Cgroup(Arc<Caller>),
    /// The root: the process competes with the tenants.
    Root,
}

/// The callers, and the rules for them.
#[derive(Debug)]
pub(super) struct Processes {
    rules: Vec<Rule>,
    exports: Vec<ExportFacts>,
    seats: Arc<AtomicU32>,
    most: u32,
    ids: u32,
    /// The connection of each caller, by volume and the caller's address.
    known: BTreeMap<(u32, usize), (u32, Arc<Caller>)>,
    /// The common connection of each volume.
    common: Vec<Option<u32>>,
}

impl Processes {
    /// Connections by calls that a device may have.
    pub(super) fn most(config: &Config, volumes: usize) -> u32 {
        let Some(fuse) = &config.server.fuse else { return 0 };
        fuse.processes.saturating_add(u32::try_from(volumes).unwrap_or(0))
    }

    /// No process is known yet.
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

/// The connection that a call belongs to.
#[derive(Debug)]
pub(super) enum Lookup {
    /// A known process: this connection.
    Known(u32),
    /// A known process, of whose cgroup the weights have changed.
    Weighs(u32),
    /// A new process: it can have a connection of its own, with this share.
    New(Standing),
    /// There are as many connections as there can be: it uses the common one.
    TooMany,
}

impl Processes {
    /// The connection that a call belongs to, of a volume that is so named.
    pub(super) fn look_up(&mut self, place: u32, name: &str, caller: &Arc<Caller>) -> Lookup {
        let key = (place, Arc::as_ptr(caller).addr());
        if let Some(&(connection, _)) = self.known.get(&key) {
            return Lookup::Known(connection);
        }
        // From an earlier lookup, which this one replaces.
        let same = self.known.iter();
        let mut same = same.filter(|((of, _), (_, known))| *of == place && is_same(known, caller));
        if let Some((&old, &(connection, ref known))) = same.next() {
            let weights_changed = known.weights != caller.weights;
            self.known.remove(&old);
            self.is_of(place, caller, connection);
            let in_cgroup = matches!(self.standing(name, caller), Standing::Cgroup(_));
            return match weights_changed && in_cgroup {
                true => Lookup::Weighs(connection),
                false => Lookup::Known(connection),
            };
        }
        if self.known.len() >= self.most as usize {
            return Lookup::TooMany;
        }
        Lookup::New(self.standing(name, caller))
    }

    /// A connection is this caller's.
    pub(super) fn is_of(&mut self, place: u32, caller: &Arc<Caller>, connection: u32) {
        let key = (place, Arc::as_ptr(caller).addr());
        self.known.insert(key, (connection, Arc::clone(caller)));
    }

    /// The common connection of a volume, of callers that are not told apart.
    pub(super) fn common(&self, place: u32) -> Option<u32> {
        self.common.get(place as usize).copied().flatten()
    }

    /// A connection is the common one of a volume.
    pub(super) fn is_common(&mut self, place: u32, connection: u32) {
        self.common[place as usize] = Some(connection);
    }

    /// Which share it gets part of: that of a rule's tenant, its cgroup, or the root.
    fn standing(&self, name: &str, caller: &Arc<Caller>) -> Standing {
        let identity = Identity {
            export: name.to_owned(),
            uid: Some(caller.uid),
            pid: Some(caller.pid),
            cgroup: (!caller.cgroup.is_empty()).then(|| caller.cgroup.clone()),
            ..Identity::default()
        };
        match rules::ruled(&self.rules, &identity) {
            Some(tenant) => Standing::Tenant(tenant),
            None if caller.cgroup.is_empty() => Standing::Root,
            None => Standing::Cgroup(Arc::clone(caller)),
        }
    }

    /// A client that makes calls on a volume: a caller, or all that are not told apart.
    pub(super) fn newcomer(
        &mut self,
        now: Nanos,
        place: u32,
        caller: Option<&Arc<Caller>>,
    ) -> Option<(Newcomer, Process)> {
        let facts = self.exports.get(place as usize)?.clone();
        let seat = Seat::take(&self.seats, u32::MAX)?;
        let id = self.ids;
        self.ids = id.checked_add(1).unwrap_or(FIRST_ID);
        let peer = match caller {
            Some(caller) => Peer {
                words: format!("{}[{}]", caller.name, caller.pid),
                origin: Origin::User(caller.uid),
            },
            None => "processes".to_owned().into(),
        };
        let newcomer = Newcomer {
            handed: None,
            link: Link::of_calls(),
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
        Some((newcomer, Process { caller: caller.cloned(), used: now }))
    }
}

/// Whether a connection is a known process that has nothing under way, and since when.
pub(super) fn idle_since(connection: &Connection) -> Option<Nanos> {
    let process = connection.process.as_ref().filter(|process| process.caller.is_some())?;
    connection.is_idle().then_some(process.used)
}

/// Whether the connection is a process's and has been idle for so long that it is removed.
pub(super) fn is_idle_for_long(connection: &Connection, now: Nanos) -> bool {
    let since = now.0.checked_sub(LINGER.0);
    since.is_some_and(|since| idle_since(connection).is_some_and(|used| used.0 < since))
}

#[cfg(test)]
mod tests {
    use paternoster_core::Priority;

    use super::*;

    fn caller(pid: u32, cgroup: &str, weights: &[u32]) -> Arc<Caller> {
        Arc::new(Caller {
            pid,
            started: 1,
            uid: 0,
            name: "cp".to_owned(),
            priority: Priority::default(),
            cgroup: cgroup.to_owned(),
            weights: weights.to_vec(),
        })
    }

    fn of_one() -> Processes {
        let mut processes = Processes::new(&Config::default(), &[]);
        processes.most = 1;
        processes
    }

    /// Is a caller known by its address, found again after another lookup, and no more found once
    /// its connection goes?
    #[test]
    fn a_caller_is_known() {
        let mut processes = of_one();
        let (first, again) = (caller(7, "/a", &[100]), caller(7, "/a", &[100]));
        assert!(matches!(processes.look_up(0, "v", &first), Lookup::New(Standing::Cgroup(_))));
        processes.is_of(0, &first, 3);
        assert!(matches!(processes.look_up(0, "v", &first), Lookup::Known(3)));
        assert!(matches!(processes.look_up(0, "v", &again), Lookup::Known(3)));
        let heavier = caller(7, "/a", &[300]);
        assert!(matches!(processes.look_up(0, "v", &heavier), Lookup::Weighs(3)));
        assert!(matches!(processes.look_up(0, "v", &caller(8, "", &[])), Lookup::TooMany));
        processes.forget(3);
        assert!(matches!(
            processes.look_up(0, "v", &caller(8, "", &[])),
            Lookup::New(Standing::Root)
        ));
    }
}
