// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audit: what a loop has counted is counted again, from what is there.
//!
//! A wrong count is seldom noticed where it goes wrong: a connection, or a tenant, is held back a
//! little sooner each time, and stops when a server has run for long. So each count is an invariant
//! here, and holds between any two rounds.
//!
//! | counts | are of |
//! |---|---|
//! | a connection's I/Os, reads, waiting changes, memory, unsent and promised words | what it has |
//! | a tenant's connections, fragments in the queue, parts of three pools | its connections |
//! | a volume's requests | I/Os of its connections |
//! | memory, bytes that were read ahead, commands of the device | all connections |
//!
//! Laws: L3 these are right; L4 no request holds a lock that an earlier one waits for; T3 each
//! group of the queue weighs what tenant, siblings and orders say, and a connection is its tenant's
//! by the rules that hold, or on its way there.

use std::collections::BTreeMap;

use super::super::io_fragment::Step;
use super::super::tenants::ROOT;
use super::super::weights::{self, Sibling};
use crate::config::ServiceClass;
use crate::device_loop::DeviceLoop;
use crate::nbd::transmission::Kind;

/// The counts of a connection, a tenant or a volume.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct There {
    connections: u64,
    ios: u64,
    reads: u64,
    fragments: u64,
    in_queue: u64,
    changes_waiting: u64,
    promised: u64,
    memory: u64,
}

/// L3, L4 and T3, between two rounds. `kept`: bytes of the arena that are not the loop's.
pub(super) fn is_sound(it: &DeviceLoop, kept: u64) -> Result<(), String> {
    let mut connections: BTreeMap<u32, There> = BTreeMap::new();
    for (_, io) in it.requests.ios().iter() {
        let there = connections.entry(io.connection).or_default();
        there.ios += 1;
        there.reads += u64::from(io.request.kind == Kind::Read);
        there.promised += io.promises() as u64;
    }
    for (_, fragment) in it.requests.fragments().iter() {
        let there = connections.entry(it.requests.io(fragment.io).connection).or_default();
        there.fragments += 1;
        there.in_queue += u64::from(fragment.step == Step::Queued);
        there.changes_waiting += u64::from(fragment.step == Step::Excluded);
    }
    let (mut tenants, mut volumes) = (BTreeMap::<u32, There>::new(), BTreeMap::<u32, u64>::new());
    let (mut memory, mut rests) = (kept, 0);
    for (index, connection) in it.connections.iter() {
        let there = connections.get(&index).copied().unwrap_or_default();
        let counted = There {
            connections: 0,
            ios: connection.ios.into(),
            reads: connection.reads.into(),
            fragments: there.fragments,
            in_queue: there.in_queue,
            changes_waiting: connection.changes_waiting.into(),
            promised: connection.promised as u64,
            memory: 0,
        };
        is_same(&format!("connection {index}"), counted, there)?;
        let is_still = there.ios == 0 && connection.out.is_empty();
        let left = (connection.out.said(), connection.memory);
        if (is_still && left != (0, 0)) || connection.memory != connection.counted {
            let counted = connection.counted;
            return Err(format!("L3: connection {index}: {left:?} ({counted}) of nothing"));
        }
        let tenant = tenants.entry(connection.tenant).or_default();
        tenant.connections += 1;
        tenant.ios += there.ios;
        tenant.fragments += there.fragments;
        tenant.in_queue += there.in_queue;
        tenant.memory += connection.memory;
        *volumes.entry(connection.place).or_default() += there.ios;
        memory += connection.memory;
        rests += connection.rest.len() as u64;
    }
    for (place, node) in it.tenants.iter() {
        let [held, ios, fragments] = it.shared.held(place);
        let counted = There {
            connections: node.connections.into(),
            ios,
            reads: 0,
            fragments,
            in_queue: node.under_way.into(),
            changes_waiting: 0,
            promised: 0,
            memory: held,
        };
        let there = tenants.get(&place).copied().unwrap_or_default();
        is_same(&format!("tenant {}", node.name), counted, there)?;
    }
    for (place, under_way) in it.volumes.under_way() {
        let there = volumes.get(&place).copied().unwrap_or(0);
        is_same(&format!("requests of volume {place}"), under_way.into(), there)?;
    }
    let is_capped = it.tenants.iter().any(|(_, node)| node.cap.limits());
    is_same("whether there are caps", it.naps.is_capped(), is_capped)?;
    is_same("bytes of memory", it.shared.used().0 as u64, memory)?;
    is_same("bytes read ahead", it.shared.used().1, rests)?;
    is_same("commands", it.commands.len() as usize, it.commands.tags())?;
    it.requests.changes().is_in_turn().map_err(|why| format!("L4: {why}"))?;
    weigh_as_told(it)
}

fn is_same<T: PartialEq + std::fmt::Debug>(of: &str, counted: T, there: T) -> Result<(), String> {
    if counted == there {
        return Ok(());
    }
    Err(format!("L3: {of}: counted {counted:?}, there {there:?}"))
}

/// The state of everything that makes no progress.
pub(super) fn standing(it: &DeviceLoop) -> String {
    let connections: Vec<_> = it
        .connections
        .iter()
        .map(|(_, it)| (it.tenant, it.blocked, it.receiving, it.ios, it.memory, it.rest.len()))
        .collect();
    let fragments: Vec<_> =
        it.requests.fragments().iter().map(|(_, it)| (it.work, it.step)).collect();
    let (in_device, now) = (it.commands.len(), it.time.now);
    format!(
        "connections {connections:?}, fragments {fragments:?}, {in_device} in the device, {now:?}"
    )
}

/// T3.
fn weigh_as_told(it: &DeviceLoop) -> Result<(), String> {
    let queue = it.recorded_queue.queue();
    for (above, _) in it.tenants.iter() {
        let below: Vec<_> = it
            .tenants
            .iter()
            .filter(|&(place, node)| place != ROOT && node.parent == above)
            .map(|(_, node)| node)
            .collect();
        let siblings: Vec<Sibling> = below
            .iter()
            .map(|node| match node.class {
                ServiceClass::Background { minimum } => {
                    Sibling { weight: 1, floor: minimum.max(node.floor) }
                }
                ServiceClass::Kernel(_) => Sibling { weight: node.weight, floor: node.floor },
            })
            .collect();
        for (node, weight) in below.iter().zip(weights::effective(&siblings)) {
            let of_queue = queue.group(node.group).map(paternoster_core::Group::weight);
            if of_queue != Some(weight) {
                let name = &node.name;
                return Err(format!("T3: {name} weighs {of_queue:?} in the queue, not {weight}"));
            }
        }
    }
    for (_, connection) in it.connections.iter() {
        let Some(identity) = connection.identity.as_ref().filter(|_| connection.is_open()) else {
            continue;
        };
        let (due, node) = (it.settings.tenant_of(identity), it.tenants.at(connection.tenant));
        let is_there = !node.is_gone && node.name == due;
        // Where there is no place for another tenant, clients are the root's.
        if !is_there && connection.tenant != ROOT && connection.moves_to.as_ref() != Some(&due) {
            return Err(format!("T3: a client of {due} is one of {}", node.name));
        }
    }
    Ok(())
}
