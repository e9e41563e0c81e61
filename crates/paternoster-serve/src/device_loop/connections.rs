// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: how connections come and how they go.
//!
//! A connection goes in two steps. When its socket is closed, its requests that are not yet in the
//! device are withdrawn; those in the device end by themselves, unanswered. When the last has
//! ended, its client leaves the queue, and its place is free.
//!
//! Invariant: no connection ever waits for anything that another does or leaves behind.

use paternoster_core::{ClientSpec, Priority};

use super::connection::{Blocked, Connection, Process, Receiving};
use super::handover::{tell_of_no_place, tell_of_other_bytes};
use super::io_fragment::Step;
use super::journal::Names;
#[cfg(test)]
use super::planted::{self, Bug};
use super::processes::Standing;
use super::{DeviceLoop, Newcomer};
use crate::config::Level;
use crate::wire::Wire;

const EIO: i32 = 5;

impl DeviceLoop {
    /// A client has come.
    pub(super) fn welcome(&mut self, mut newcomer: Newcomer) {
        let tenant = match &newcomer.identity {
            // By the present rules: the negotiation may have used older ones.
            Some(identity) => self.settings.tenant_of(identity),
            None => std::mem::take(&mut newcomer.tenant),
        };
        let handed = newcomer.handed.take().map(|handed| (handed, newcomer.peer.clone()));
        // Whatever its name says, a client must not go on with bytes that it did not open.
        if let Some((handed, peer)) = &handed
            && let Some(there) = &handed.bytes
            && let Ok(place) = self.volumes.find(&newcomer.negotiated.export)
            && there.are_others(&self.volumes.at(place).bytes())
        {
            return tell_of_other_bytes(&self.name, peer);
        }
        // A client for which there is no place has its connection closed.
        let seated = self.take_in(newcomer, Standing::Tenant(tenant), None, None);
        match (handed, seated) {
            (Some((handed, _)), Some(index)) => self.resume(index, *handed),
            (Some((_, peer)), None) => tell_of_no_place(&self.name, &peer),
            (None, _) => {}
        }
    }

    /// Makes a new client a connection, if there is a place for it. Without a priority of its own
    /// it has its tenant's.
    pub(super) fn take_in(
        &mut self,
        newcomer: Newcomer,
        standing: Standing,
        priority: Option<Priority>,
        process: Option<Process>,
    ) -> Option<u32> {
        let place = self.volumes.find(&newcomer.negotiated.export).ok()?;
        if self.stop.is_on()
            || self.connections.is_full()
            || !self.volumes.is_told_right(place, &newcomer.negotiated.facts)
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
        let Ok(client) = self.recorded_queue.attach(self.time.now, spec) else {
            self.tenants.leave(self.time.now, &mut self.recorded_queue, tenant);
            self.forget_the_gone();
            return None;
        };
        self.recorded_queue.observer_mut().name(client.index(), newcomer.pid, &name);
        self.divide();
        let who = (newcomer.id, newcomer.peer, newcomer.negotiated);
        let link = (newcomer.link, newcomer.input, newcomer.seat);
        let connection = Connection {
            place,
            tenant,
            identity: newcomer.identity,
            process,
            ..Connection::new(who, link, client, self.time.now)
        };
        let (id, output) = (connection.id, newcomer.output);
        let index = self.connections.add(connection)?;
        self.shared.keeps(&self.connections.at(index).rest);
        let connection = self.connections.at_mut(index);
        if let Some(socket) = connection.wire().map(Wire::socket)
            && let Err(error) = self.poller.add_socket(socket, id << 32 | u64::from(index))
        {
            self.close(index, &error.to_string());
            return None;
        }
        if !output.is_empty() {
            connection.out.whole(&output, None);
        }
        self.names().tell_of_arrival(self.connections.at(index));
        // A TLS wire may still have to send data of the negotiation.
        self.connections.make_sending(index);
        self.connections.make_ready(index);
        Some(index)
    }

    /// The volumes and tenants by which connections are named.
    pub(super) fn names(&self) -> Names<'_> {
        Names { device: &self.name, volumes: &self.volumes, tenants: &self.tenants }
    }

    /// Adds a new client to its tenant; returns the tenant's node.
    pub(super) fn enter(&mut self, standing: &Standing) -> u32 {
        let (now, recorded_queue) = (self.time.now, &mut self.recorded_queue);
        match standing {
            Standing::Tenant(name) => self.tenants.enter(now, recorded_queue, name),
            Standing::Cgroup(caller) => {
                self.tenants.enter_cgroup(now, recorded_queue, &caller.cgroup, &caller.weights)
            }
            Standing::Root => self.tenants.enter_root(),
        }
    }

    /// A connection has left its tenant, which may go.
    pub(super) fn leave_tenant(&mut self, tenant: u32) {
        self.tenants.leave(self.time.now, &mut self.recorded_queue, tenant);
        self.forget_the_gone();
        self.divide();
    }

    /// Tenants that have gone leave their places to others.
    pub(super) fn forget_the_gone(&mut self) {
        for tenant in self.tenants.take_gone() {
            self.connections.forget_tenant(tenant);
            self.naps.forget_tenant(tenant);
        }
    }

    /// Divides everything among tenants again, after one has come or gone, or a weight has changed.
    pub(super) fn divide(&mut self) {
        self.shared.queue_limit.divide(&self.tenants);
        let shares = self.tenants.shares();
        self.surveys.divide(&shares);
        self.connections.turns.divide(&shares);
        self.shared.divide(&shares);
    }

    /// Closes a connection's socket and withdraws what can be withdrawn. An empty reason: the
    /// client hung up.
    pub(super) fn close(&mut self, index: u32, reason: &str) {
        let connection = self.connections.at_mut(index);
        if !connection.is_open() {
            return;
        }
        let (reason, level) = match reason {
            "" => ("it hung up", Level::Info),
            reason => (reason, Level::Warning),
        };
        self.names().tell_of_departure(self.time.now, self.connections.at(index), reason, level);
        self.hang_up(index);
    }

    /// Closes a connection's socket without a log line.
    pub(super) fn hang_up(&mut self, index: u32) {
        let connection = self.connections.at_mut(index);
        self.shared.drops(&connection.rest);
        connection.hang_up(self.shared.arena());
        connection.refused.clear();
        self.shared.count(&mut self.connections, index);
        let connection = self.connections.at_mut(index);
        if connection.process.is_some() {
            self.processes.forget(index);
        }
        let connection = self.connections.at_mut(index);
        connection.blocked = Blocked::No;
        self.naps.forget(self.connections.at_mut(index));
        self.connections.freed(1);
        self.withdraw(index);
        self.leave_when_idle(index);
    }

    /// Withdraws the fragments of a connection that the device does not have.
    fn withdraw(&mut self, index: u32) {
        if self.connections.at(index).ios == 0 {
            return;
        }
        for fragment in self.requests.fragments_of(index) {
            // Its I/O may have ended with another fragment.
            if !self.requests.fragments().is_live(fragment) {
                continue;
            }
            match self.requests.fragment(fragment).step {
                Step::Queued => {
                    if let Some(ticket) = self.requests.fragment(fragment).ticket {
                        // A fragment that is in the device or shares a command ends by itself.
                        let _ends_later = self.recorded_queue.cancel(self.time.now, ticket);
                    }
                }
                Step::Asking => {
                    let tenant = self.connections.at(index).tenant;
                    if self.surveys.withdraw(tenant, fragment) {
                        self.end_fragment(fragment, EIO);
                    }
                }
                _ => self.end_fragment(fragment, EIO),
            }
        }
        for io in self.requests.empty_of(index) {
            if self.requests.ios().is_live(io) {
                self.end_io(io);
            }
        }
    }

    /// Lets all that wait for caps go, whatever these say: connections whose volume ends pass them.
    pub(super) fn pass_all_caps(&mut self) {
        for index in self.connections.all() {
            self.naps.forget(self.connections.at_mut(index));
            self.connections.unblock_if(index, |why| matches!(why, Blocked::Cap(_)));
        }
    }

    /// Schedules the removal of a connection that is over and has no request under way.
    pub(super) fn leave_when_idle(&mut self, index: u32) {
        if self.is_leaving(index) {
            self.connections.leaves(index);
        }
    }

    fn is_leaving(&self, index: u32) -> bool {
        let connection = self.connections.at(index);
        let ends = self.stop.is_on() || self.volumes.ends(connection.place);
        let is_over = connection.receiving == Receiving::Over || ends;
        is_over && connection.is_idle()
    }

    /// Removes connections that are over: between two rounds, so that none goes while it is being
    /// used.
    pub(super) fn close_finished(&mut self) {
        let leaving = self.connections.next_leaving();
        for &index in &leaving {
            if self.connections.is_live(index) && self.is_leaving(index) {
                self.close_one(index);
            }
        }
        self.connections.left(leaving);
    }

    /// Removes a connection.
    fn close_one(&mut self, index: u32) {
        self.naps.forget(self.connections.at_mut(index));
        let mut connection = self.connections.release(index);
        // Bytes after its last request are no longer parsed.
        #[cfg(test)]
        if planted::has(Bug::ForgetsRests) {
            connection.rest.clear();
        }
        self.shared.drops(&connection.rest);
        if connection.is_open() {
            let reason = match connection.receiving {
                Receiving::Over => "it said good-bye",
                _ if self.stop.is_on() => "the server stops",
                _ => "its volume was taken out",
            };
            self.names().tell_of_departure(self.time.now, &connection, reason, Level::Info);
        }
        if let Some(wire) = connection.wire_mut() {
            wire.say_goodbye();
        }
        if connection.process.is_some() {
            self.processes.forget(index);
        }
        debug_assert_eq!(connection.memory, 0, "a connection leaves memory behind");
        // Its client was made by this loop and is present.
        let _known = self.recorded_queue.detach(self.time.now, connection.client);
        let served = self.recorded_queue.queue().observer().served(connection.client.index());
        self.recorded_queue.observer_mut().forget(connection.client.index());
        self.tenants.count_served(connection.tenant, served.0 - connection.served_before);
        let volume = &self.volumes.at(connection.place).name;
        self.tenants.at_mut(connection.tenant).volume.clone_from(volume);
        self.leave_tenant(connection.tenant);
    }
}
