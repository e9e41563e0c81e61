// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doors: how guests come and how they go.
//!
//! A guest goes in two steps. When its socket is closed, whatever of its requests does not yet
//! belong to the device is withdrawn; what is in the device ends by itself, into nobody's hands.
//! When the last has ended, its client leaves the queue, and its place is another's.
//!
//! Invariant: nothing that a guest does or leaves behind is ever waited for by another.

use std::sync::Arc;

use paternoster_core::{ClientSpec, Priority};

use super::errand::Step;
use super::guest::{Blocked, Guest, Intake, PIECE, Pace};
use super::outbox::Outbox;
use super::processes::Process;
use super::tenants::{BUCKETS, ROOT};
use super::{Desk, Newcomer, guest_events, intake, watch};
use crate::config::{Level, rules};
use crate::control::snapshot::Figures;
use crate::fuse::callers::Caller;
use crate::wire::Wire;

const EIO: i32 = 5;

/// Whose share a newcomer has part of.
#[derive(Debug)]
pub(super) enum Standing {
    /// That of the tenant of this name, which is made if need be.
    Tenant(String),
    /// That of its caller's cgroup.
    Cgroup(Arc<Caller>),
    /// Nobody's: it is beside the tenants.
    Root,
}

impl Desk {
    /// A client has come.
    pub(super) fn welcome(&mut self, mut newcomer: Newcomer) {
        let tenant = match &newcomer.identity {
            // By the rules that hold now: the lobby may not have heard of them yet.
            Some(identity) => rules::tenant_of(&self.rules, identity),
            None => std::mem::take(&mut newcomer.tenant),
        };
        let handed = newcomer.handed.take().map(|handed| (handed, newcomer.peer.clone()));
        // Who finds no place finds its connection closed.
        let seated = self.take_in(newcomer, Standing::Tenant(tenant), None, None);
        match (handed, seated) {
            (Some((handed, _)), Some(index)) => self.resume(index, *handed),
            (Some((_, peer)), None) => self.tell_of_no_place(&peer),
            (None, _) => {}
        }
    }

    /// Makes a guest of a newcomer, if there is a place for it. Without a priority of its own it
    /// has its tenant's.
    pub(super) fn take_in(
        &mut self,
        newcomer: Newcomer,
        standing: Standing,
        priority: Option<Priority>,
        process: Option<Process>,
    ) -> Option<u32> {
        let place = self.volume(&newcomer.negotiated.export).ok()?;
        let place = u32::try_from(place).ok()?;
        if self.stopping
            || self.guests.is_full()
            || !self.is_told_right(place, &newcomer.negotiated.facts)
        {
            return None;
        }
        let tenant = self.enter(&standing);
        let node = self.tenants.at(tenant);
        let priority = node.priority_of(priority);
        let spec = ClientSpec::new()
            .group(node.group)
            .priority(priority.class, priority.level)
            .pid(newcomer.pid);
        let name = match &process {
            Some(_) => newcomer.peer.words.clone(),
            None => format!("{}#{}", node.name, newcomer.id),
        };
        let Ok(client) = self.ledger.attach(self.now, spec) else {
            self.tenants.leave(self.now, &mut self.ledger, tenant);
            return None;
        };
        self.ledger.observer_mut().name(client.index(), newcomer.pid, &name);
        self.divide();
        let guest = Guest {
            id: newcomer.id,
            peer: newcomer.peer,
            negotiated: newcomer.negotiated,
            place,
            tenant,
            moves_to: None,
            identity: newcomer.identity,
            served_before: 0,
            client,
            process,
            wire: Some(newcomer.wire),
            intake: Intake::Header,
            blocked: Blocked::No,
            nap: None,
            readable: true,
            writable: true,
            is_ready: false,
            is_sending: false,
            rest: newcomer.input,
            ahead: intake::AHEAD,
            refusal: None,
            sends_much: false,
            errands: 0,
            reads: 0,
            piece: PIECE,
            sure: u64::MAX,
            memory: 0,
            counted: 0,
            is_listed: false,
            changes_waiting: 0,
            refused: std::collections::VecDeque::new(),
            out: Outbox::default(),
            takes: Pace::default(),
            brings: Pace::default(),
            hunger: 0,
            came: self.now,
            figures: Figures { latency_log2_us: vec![0; BUCKETS], ..Figures::default() },
            _seat: newcomer.seat,
        };
        let (id, output) = (guest.id, newcomer.output);
        let rest = guest.rest.len() as u64;
        let index = self.guests.insert(guest).ok()?;
        self.rests += rest;
        self.by_client[client.index() as usize] = index;
        let flags = guest_events(true);
        let guest = self.guests.at_mut(index);
        if let Some(socket) = guest.wire.as_ref().and_then(Wire::socket)
            && let Err(error) = watch(&self.poll, socket, id << 32 | u64::from(index), flags)
        {
            self.close(index, &error.to_string());
            return None;
        }
        if !output.is_empty() {
            guest.out.whole(&output, None);
        }
        self.tell_of_arrival(index);
        // A wire under TLS may have something to send that was said in the lobby.
        self.make_sending(index);
        self.make_ready(index);
        Some(index)
    }

    /// A newcomer is counted where it belongs.
    pub(super) fn enter(&mut self, standing: &Standing) -> u32 {
        let (now, ledger) = (self.now, &mut self.ledger);
        match standing {
            Standing::Tenant(name) => self.tenants.enter(now, ledger, name),
            Standing::Cgroup(caller) => {
                self.tenants.enter_cgroup(now, ledger, &caller.cgroup, &caller.weights)
            }
            Standing::Root => self.tenants.enter_root(),
        }
    }

    /// Closes a guest's socket and withdraws what can be withdrawn. An empty reason: it hung up.
    pub(super) fn close(&mut self, index: u32, reason: &str) {
        let guest = self.guests.at_mut(index);
        if guest.wire.is_none() {
            return;
        }
        let guest = self.guests.at(index);
        match reason {
            "" => self.tell_of_departure(guest, "it hung up", Level::Info),
            reason => self.tell_of_departure(guest, reason, Level::Warning),
        }
        self.hang_up(index);
    }

    /// Closes a guest's socket, and says nothing.
    pub(super) fn hang_up(&mut self, index: u32) {
        let guest = self.guests.at_mut(index);
        self.rests -= guest.rest.len() as u64;
        guest.hang_up(&mut self.arena);
        guest.refused.clear();
        self.count_memory(index);
        let guest = self.guests.at_mut(index);
        if guest.process.is_some() {
            self.processes.forget(index);
        }
        let guest = self.guests.at_mut(index);
        guest.blocked = Blocked::No;
        self.forget_nap(index);
        self.freed += 1;
        self.withdraw(index);
        self.leave_when_idle(index);
    }

    /// Withdraws the parts of a guest that the device does not have.
    fn withdraw(&mut self, index: u32) {
        if self.guests.at(index).errands == 0 {
            return;
        }
        let parts: Vec<u32> = self
            .parts
            .iter()
            .filter(|(_, part)| self.errands.at(part.errand).guest == index)
            .map(|(key, _)| key)
            .collect();
        for part in parts {
            // Others of its errand may have been the last.
            if !self.parts.is_live(part) {
                continue;
            }
            match self.parts.at(part).step {
                Step::Queued => {
                    if let Some(ticket) = self.parts.at(part).ticket {
                        // What is in the device or shares a command ends by itself.
                        let _ends_later = self.ledger.cancel(self.now, ticket);
                    }
                }
                Step::Asking => self.withdraw_question(part),
                _ => self.end_part(part, EIO),
            }
        }
        let empty: Vec<u32> = self
            .errands
            .iter()
            .filter(|(_, errand)| errand.guest == index && errand.left == 0)
            .map(|(key, _)| key)
            .collect();
        for errand in empty {
            if self.errands.is_live(errand) {
                self.end_errand(errand);
            }
        }
    }

    /// A guest that is over, and of which nothing is under way, will be seen off.
    pub(super) fn leave_when_idle(&mut self, index: u32) {
        if self.is_leaving(index) {
            self.leaving.push(index);
        }
    }

    fn is_leaving(&self, index: u32) -> bool {
        let guest = self.guests.at(index);
        let ends = self.stopping || self.drained[guest.place as usize].ends.is_some();
        let is_over = guest.intake == Intake::Over || ends;
        is_over && guest.is_idle()
    }

    /// Those who leave go: between two rounds, so that nobody loses its guest in mid-sentence.
    pub(super) fn see_off(&mut self) {
        let mut leaving = std::mem::take(&mut self.leaving);
        for index in leaving.drain(..) {
            if self.guests.is_live(index) && self.is_leaving(index) {
                self.see_off_one(index);
            }
        }
        self.leaving = leaving;
    }

    fn see_off_one(&mut self, index: u32) {
        self.forget_nap(index);
        let mut guest = self.guests.release(index);
        if guest.wire.is_some() {
            self.tell_of_leave(&guest);
        }
        if let Some(wire) = &mut guest.wire {
            wire.say_goodbye();
        }
        if guest.process.is_some() {
            self.processes.forget(index);
        }
        debug_assert_eq!(guest.memory, 0, "a guest leaves memory behind");
        // Its client is the desk's own and there.
        let _known = self.ledger.detach(self.now, guest.client);
        let served = self.ledger.queue().observer().served(guest.client.index());
        self.ledger.observer_mut().forget(guest.client.index());
        self.count_served(guest.tenant, served.0 - guest.served_before);
        let volume = &self.places[guest.place as usize].name;
        self.tenants.at_mut(guest.tenant).volume.clone_from(volume);
        self.tenants.leave(self.now, &mut self.ledger, guest.tenant);
        self.divide();
    }

    /// One of a tenant's has had so much of the device, in nanoseconds, and has it no more.
    pub(super) fn count_served(&mut self, tenant: u32, served: u64) {
        let mut above = tenant;
        loop {
            if self.tenants.counts(above, tenant) {
                self.tenants.at_mut(above).figures.served_ns += served;
            }
            if above == ROOT {
                break;
            }
            above = self.tenants.at(above).parent;
        }
    }
}
