// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reload: a loop takes a new configuration while its clients are at work.
//!
//! ```text
//! reload ──Look──▶ loop   what its queue is like, whether there is room     (nothing changes)
//!        ◀─Seen──┘
//!        ──Take──▶ loop   tree, rules, scheduler, limits: between two of its rounds
//!                   └──▶  clients that now belong elsewhere: reading from them stops, and when
//!                         their requests have ended they move
//! ```
//!
//! A client that moves does so at a request boundary: its memory, places and I/Os belong to its
//! tenant, and at that point it has none.
//!
//! Invariants: I1 what was accepted is answered, whichever tenant's its client is meanwhile; I2 a
//! client that moves holds nothing; I3 what `Look` has checked is enough for `Take`.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use paternoster_core::{DeviceFacts, Limits};

use super::DeviceLoop;
use super::connection::{Blocked, Connection, Receiving};
use super::connections::Standing;
use super::geometry::Line;
#[cfg(test)]
use super::planted::{self, Bug};
use super::processes::Process;
use super::volumes::{Coming, Going};
use crate::config::{self, Config, rules};
use crate::device::NewFile;
use crate::nbd::ExportFacts;

/// What a loop is asked about another configuration.
#[derive(Debug)]
pub struct Reload {
    /// The configuration, and which of its devices this loop is.
    pub config: Arc<Config>,
    /// See there.
    pub device: usize,
    /// What is done.
    pub step: Step,
}

/// What is done.
#[derive(Debug)]
pub enum Step {
    /// Changes nothing: answers what its queue is like, or why the configuration cannot be taken.
    Look {
        /// Files that are to come.
        files: Vec<NewFile>,
        /// Where the answer goes.
        answer: Sender<Result<Seen, String>>,
    },
    /// Takes it. These are all attributes under its scheduler; those that cannot be set now come
    /// back, by name.
    Take(Box<Take>, Sender<Result<Taken, String>>),
}

/// What is to be taken besides the configuration.
#[derive(Debug, Default)]
pub struct Take {
    /// All attributes: names and values.
    pub attributes: Vec<(String, String)>,
    /// Volumes that go, and then those that come.
    pub going: Vec<Going>,
    /// See there.
    pub coming: Vec<Coming>,
    /// Where files are then.
    pub line: Line,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    /// Keys of the device that could not be changed after all.
    pub later: Vec<String>,
    /// Its volumes' facts for clients.
    pub exports: Vec<ExportFacts>,
}

/// What attributes and volumes are checked against.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Where files are.
    pub line: Line,
    /// The queue's device.
    pub facts: DeviceFacts,
    /// Its limits.
    pub limits: Limits,
}

impl DeviceLoop {
    /// Another configuration has come.
    pub(super) fn reload(&mut self, asked: Reload) {
        let Reload { config, device, step } = asked;
        // The sender may have stopped waiting.
        match step {
            Step::Look { files, answer } => {
                #[cfg(test)]
                if planted::has(Bug::KeepsRules) {
                    self.rules.clone_from(&config.rules);
                }
                let room = self.tenants.has_room_for(&config).and_then(|()| self.has_room(&files));
                let (facts, limits) =
                    (*self.recorded_queue.queue().facts(), *self.recorded_queue.limits());
                let _gone =
                    answer.send(room.map(|()| Seen { line: self.volumes.line(), facts, limits }));
            }
            Step::Take(take, answer) => {
                let taken = self.tenants.has_room_for(&config);
                let taken = taken.and_then(|()| self.take_over(&config, device, *take));
                let _gone = answer.send(taken);
            }
        }
    }

    fn has_room(&self, files: &[NewFile]) -> Result<(), String> {
        if files.is_empty() || self.lender.backend().can_add(files) {
            return Ok(());
        }
        let how = self.lender.backend().describe();
        Err(format!(
            "it ({how}) cannot have {} more volumes of this kind until the next start",
            files.len()
        ))
    }

    fn take_over(&mut self, config: &Config, device: usize, take: Take) -> Result<Taken, String> {
        let Take { attributes, going, coming, line } = take;
        self.now = self.clock.now();
        let device = &config.devices[device];
        let ranks: Vec<_> =
            self.tenants.iter().map(|(place, node)| (place, node.priority())).collect();
        self.tenants.read_again(self.now, &mut self.recorded_queue, config)?;
        #[cfg(test)]
        let before = self.capped;
        self.capped = self.tenants.iter().any(|(_, node)| node.cap.limits());
        #[cfg(test)]
        if planted::has(Bug::OverlooksCaps) {
            self.capped = before;
        }
        self.take_limits(&config.server, device);
        let mut later = self.take_attributes(device, &attributes);
        for place in self.volumes.take_out(going, self.now + self.drain_timeout) {
            // Those that have nothing under way go at once.
            let of_it = self.connections.which(|connection| connection.place == place);
            of_it.into_iter().for_each(|index| self.leave_when_idle(index));
        }
        let add = |file| self.lender.add(file);
        let without = self.volumes.add(&device.volumes, coming, &line, add);
        later.extend(without.iter().map(|name| format!("volume.{name}")));
        for (place, rank) in ranks {
            if self.tenants.get_mut(place).is_some_and(|node| node.priority() != rank) {
                self.rank_again(place);
            }
        }
        self.rules.clone_from(&config.rules);
        self.processes.take_rules(&config.rules);
        self.find_movers();
        // Their times are those of the old caps.
        self.wake_all_sleepers();
        self.divide();
        Ok(Taken { later, exports: self.volumes.exports(self.recorded_queue.queue().facts()) })
    }

    fn take_limits(&mut self, server: &config::Server, device: &config::Device) {
        self.verbose = server.tells_requests();
        self.connection_memory = super::open::share_of_one(server, device);
        self.stall_timeout = server.stall_timeout;
        self.drain_timeout = server.drain_timeout;
        self.device_timeout = server.device_timeout;
        self.queue_limit.limit(device.delay_bound);
    }

    /// Sets scheduler and attributes; returns those that cannot be changed now. What a scheduler
    /// tunes by itself is left alone: only what was set is set again, and a scheduler that loses a
    /// setting is made anew.
    fn take_attributes(
        &mut self,
        device: &config::Device,
        attributes: &[(String, String)],
    ) -> Vec<String> {
        let wanted = super::open::names_of(device);
        let set = std::mem::replace(&mut self.attributes_set, wanted.clone());
        let differs = self.recorded_queue.queue().elevator_name() != device.scheduler;
        let is_new = differs || !set.is_subset(&wanted);
        self.policy.forgive();
        if is_new && self.recorded_queue.change_elevator(self.now, &device.scheduler).is_err() {
            return vec!["scheduler".to_owned()];
        }
        let mut later = Vec::new();
        for (name, value) in attributes {
            let mut shown = String::new();
            let is_set = is_new || wanted.contains(name);
            let is_known = self.recorded_queue.show_attribute(name, &mut shown).is_ok();
            if !is_set || !is_known || shown == *value {
                continue;
            }
            // Fragments that are cut already must still fit.
            let fits = !name.ends_with("max_sectors_kb") || self.fragments.is_empty();
            if !fits || self.recorded_queue.set_attribute(self.now, name, value).is_err() {
                later.push(format!("attributes.{name}"));
            }
        }
        later
    }

    /// Tells the queue a tenant's class and level, of each of its connections.
    pub(super) fn rank_again(&mut self, place: u32) {
        let node = self.tenants.at(place);
        let connections =
            self.connections.iter().filter(|(_, connection)| connection.tenant == place);
        let rank = |(_, connection): (u32, &Connection)| {
            let own = connection.process.as_ref().map(Process::priority);
            (connection.client, node.priority_of(own))
        };
        let ranks: Vec<_> = connections.map(rank).collect();
        for (client, priority) in ranks {
            // A connection's client is there as long as the connection.
            let _known = self.recorded_queue.set_priority(self.now, client, priority, 100);
        }
    }

    /// Finds clients that belong to another tenant under the present rules.
    fn find_movers(&mut self) {
        let all: Vec<u32> = self.connections.iter().map(|(index, _)| index).collect();
        for index in all {
            let connection = self.connections.at(index);
            let Some(identity) = &connection.identity else { continue };
            let name = rules::tenant_of(&self.rules, identity);
            let node = self.tenants.at(connection.tenant);
            let moves = node.is_gone || node.name != name;
            self.connections.at_mut(index).moves_to = moves.then_some(name);
            if moves && !self.movers.contains(&index) {
                self.movers.push(index);
            }
            if self.connections.at(index).blocked == Blocked::Moving {
                // It looks again: it may have to wait no more.
                self.unblock(index);
            }
        }
    }

    /// Whether a client is to move before another request of it is read.
    pub(super) fn holds_for_move(&mut self, index: u32) -> bool {
        let moves = self.connections.at(index).moves_to.is_some();
        if moves {
            self.block(index, Blocked::Moving);
        }
        moves
    }

    /// Moves the clients that are to move and have nothing under way.
    pub(super) fn move_the_idle(&mut self) {
        if self.movers.is_empty() {
            return;
        }
        let mut movers = std::mem::take(&mut self.movers);
        movers.retain(|&index| self.connections.is_live(index) && !self.has_moved(index));
        self.movers = movers;
    }

    /// Moves a client if possible; returns whether it no longer waits for that.
    fn has_moved(&mut self, index: u32) -> bool {
        let connection = self.connections.at(index);
        let Some(name) = connection.moves_to.clone().filter(|_| connection.wire.is_some()) else {
            return true;
        };
        if connection.receiving == Receiving::Over {
            return true;
        }
        if connection.receiving != Receiving::Header
            || connection.ios != 0
            || connection.memory != 0
        {
            return false;
        }
        self.move_to(index, name);
        true
    }

    fn move_to(&mut self, index: u32, name: String) {
        let (now, old, client) =
            (self.now, self.connections.at(index).tenant, self.connections.at(index).client);
        self.forget_nap(index);
        let from = self.tenants.at_mut(old);
        from.waiting.retain(|other| *other != index);
        from.ready.retain(|other| *other != index);
        let keeps_name = from.name == name;
        let new = self.enter(&Standing::Tenant(name));
        let served = self.recorded_queue.queue().observer().served(client.index()).0;
        let connection = self.connections.at_mut(index);
        let before = std::mem::replace(&mut connection.served_before, served);
        (connection.tenant, connection.moves_to) = (new, None);
        (connection.is_listed, connection.is_ready) = (false, false);
        let id = connection.id;
        self.count_served(old, served - before);
        let node = self.tenants.at_mut(new);
        if keeps_name {
            node.figures.served_ns += served - before;
        }
        let (group, priority) = (node.group, node.priority());
        let words = format!("{}#{id}", node.name);
        // Client and group were made by this loop and are present.
        let _there = self.recorded_queue.move_client(now, client, group);
        let _known = self.recorded_queue.set_priority(now, client, priority, 100);
        self.recorded_queue.observer_mut().rename(client.index(), &words);
        self.tenants.leave(now, &mut self.recorded_queue, old);
        self.divide();
        self.unblock(index);
    }
}
