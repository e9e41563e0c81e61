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
use super::connection::{Blocked, Connection};
use super::connections::Standing;
use super::geometry::Line;
#[cfg(test)]
use super::planted::{self, Bug};
use super::processes::Process;
use super::settings::Settings;
use super::volumes::{Coming, Going};
use crate::config::Config;
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
                    self.settings.take_rules(&config.rules);
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
        if files.is_empty() || self.commands.backend().can_add(files) {
            return Ok(());
        }
        let how = self.commands.backend().describe();
        Err(format!(
            "it ({how}) cannot have {} more volumes of this kind until the next start",
            files.len()
        ))
    }

    fn take_over(&mut self, config: &Config, device: usize, take: Take) -> Result<Taken, String> {
        let Take { attributes, going, coming, line } = take;
        self.time.look();
        let device = &config.devices[device];
        let ranks: Vec<_> =
            self.tenants.iter().map(|(place, node)| (place, node.priority())).collect();
        self.tenants.read_again(self.time.now, &mut self.recorded_queue, config)?;
        self.forget_the_gone();
        #[cfg(test)]
        let before = self.naps.is_capped();
        self.naps.caps_changed(&self.tenants);
        #[cfg(test)]
        if planted::has(Bug::OverlooksCaps) {
            self.naps.overlook(before);
        }
        self.settings = Settings::of(config);
        self.shared.limit(super::open::share_of_one(&config.server, device));
        self.shared.queue_limit.limit(device.delay_bound);
        let mut later = self.policy.take(
            self.time.now,
            &mut self.recorded_queue,
            (&device.scheduler, super::open::names_of(device)),
            &attributes,
            self.requests.fragments().is_empty(),
        );
        for place in self.volumes.take_out(going, self.time.now + self.settings.drain_timeout) {
            // Those that have nothing under way go at once.
            let of_it = self.connections.which(|connection| connection.place == place);
            of_it.into_iter().for_each(|index| self.leave_when_idle(index));
        }
        let add = |file| self.commands.lender().add(file);
        let without = self.volumes.add(&device.volumes, coming, &line, add);
        later.extend(without.iter().map(|name| format!("volume.{name}")));
        for (place, rank) in ranks {
            if self.tenants.get_mut(place).is_some_and(|node| node.priority() != rank) {
                self.rank_again(place);
            }
        }
        self.processes.take_rules(&config.rules);
        self.find_movers();
        // Their times are those of the old caps.
        self.pass_all_caps();
        self.divide();
        Ok(Taken { later, exports: self.volumes.exports(self.recorded_queue.queue().facts()) })
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
            let _known = self.recorded_queue.set_priority(self.time.now, client, priority, 100);
        }
    }

    /// Finds clients that belong to another tenant under the present rules.
    fn find_movers(&mut self) {
        for index in self.connections.all() {
            let connection = self.connections.at(index);
            let Some(identity) = &connection.identity else { continue };
            let name = self.settings.tenant_of(identity);
            let node = self.tenants.at(connection.tenant);
            let moves = node.is_gone || node.name != name;
            self.connections.is_to_move(index, moves.then_some(name));
        }
    }

    /// Whether a client is to move before another request of it is read.
    pub(super) fn holds_for_move(&mut self, index: u32) -> bool {
        let moves = self.connections.at(index).moves_to.is_some();
        if moves {
            self.connections.block(index, Blocked::Moving);
        }
        moves
    }

    /// Moves a client that has nothing under way.
    pub(super) fn move_to(&mut self, index: u32, name: String) {
        let (now, old, client) =
            (self.time.now, self.connections.at(index).tenant, self.connections.at(index).client);
        self.naps.forget(self.connections.at_mut(index));
        let keeps_name = self.tenants.at(old).name == name;
        let new = self.enter(&Standing::Tenant(name));
        let served = self.recorded_queue.queue().observer().served(client.index()).0;
        let connection = self.connections.at_mut(index);
        let before = std::mem::replace(&mut connection.served_before, served);
        let id = connection.id;
        self.connections.moves(index, new);
        self.tenants.count_served(old, served - before);
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
        self.leave_tenant(old);
        self.connections.unblock(index);
    }
}
