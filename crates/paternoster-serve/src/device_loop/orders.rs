// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders: what a running loop can be asked to do.
//!
//! Orders come as messages between two rounds of the loop: they see a consistent state, and their
//! changes apply from the next request on. A weight or a class changes what the scheduler does with
//! requests that already wait. A new configuration (`reload`) comes in the same way; in which words
//! the state is told, `status` says.

use serde_json::{Value, json};

use super::connection::{Connection, Process};
#[cfg(test)]
use super::planted::{self, Bug};
use super::processes::Standing;
use super::reload::{Reload, Seen, Step, Take, Taken, has_room};
use super::settings::Settings as LoopSettings;
use super::{DeviceLoop, policy, status};
use crate::config::{Config, ServiceClass};
use crate::control::order::{Answer, Asked, Order, Settings};
use crate::control::snapshot::{LastError, Snapshot};
use crate::stats::{DeviceNumber, Stats, TraceEnding};

/// The device number in traces: from the range for local use.
const DEVICE: DeviceNumber = DeviceNumber::new(240, 0);

impl DeviceLoop {
    /// Executes an order and answers; a drain and a stop are answered when they are done.
    pub(super) fn execute(&mut self, asked: Asked) {
        let answer = match &asked.order {
            Order::Snapshot => {
                let snapshot = self.snapshot();
                serde_json::to_value(snapshot).map_err(|error| error.to_string())
            }
            Order::Weight { name, weight } => self.order_weight(name, *weight),
            Order::Class { name, class, level } => self.order_class(name, *class, *level),
            Order::Scheduler { name } => {
                self.time.look();
                self.policy.order_scheduler(self.time.now, &mut self.recorded_queue, name)
            }
            Order::Attribute { name, value } => {
                self.time.look();
                let (order, is_idle) =
                    ((&**name, value.as_deref()), self.requests.fragments().is_empty());
                self.policy.order_attribute(self.time.now, &mut self.recorded_queue, order, is_idle)
            }
            Order::Attributes => Ok(policy::attributes(&self.recorded_queue)),
            Order::Settings => {
                let elevator = self.recorded_queue.queue().elevator_name();
                let (attributes, of_the_start) = self.policy.settings(&self.recorded_queue);
                let settings = Settings {
                    scheduler: self.policy.ordered(elevator).to_owned(),
                    attributes,
                    of_the_start,
                    tenants: self.tenants.settings(),
                };
                serde_json::to_value(settings).map_err(|error| error.to_string())
            }
            Order::Explain { tenant } => self.explain(tenant.as_deref()),
            Order::Trace { prefix } => match prefix {
                Some(prefix) => {
                    let names = self.connections.iter().map(|(_, connection)| {
                        let tenant = &self.tenants.at(connection.tenant).name;
                        (connection.client.index(), format!("{tenant}#{}", connection.id))
                    });
                    let names: Vec<(u32, String)> = names.collect();
                    let elevator = self.recorded_queue.queue().elevator_name();
                    let now = self.time.look();
                    self.recorded_queue
                        .observer_mut()
                        .start_trace(prefix, now, wall_clock(), DEVICE, elevator, &names)
                        .map(|()| json!({ "trace": prefix.display().to_string() }))
                        .map_err(|error| format!("{}: {error}", prefix.display()))
                }
                None => return end_trace(self.recorded_queue.observer_mut(), asked),
            },
            Order::Resume { volume } => self.volumes.find(volume).map(|place| {
                self.volumes.resume(place);
                json!({ "ok": true })
            }),
            Order::Drain { volume } => match self.volumes.find(volume) {
                Err(error) => Err(error),
                Ok(place) => {
                    self.volumes.drain(place, asked);
                    return self.pass_all_caps();
                }
            },
            Order::Stop => {
                self.stop.asks(asked);
                return self.stop_soon();
            }
        };
        // The sender of the order may have gone.
        let _gone = asked.answer.send(answer);
    }

    fn order_weight(&mut self, name: &str, weight: u32) -> Answer {
        let place = self.tenants.find_or_say(name, &self.name)?;
        if !(1..=10_000).contains(&weight) {
            return Err(format!("{weight} is no weight; 1 to 10000 is"));
        }
        self.time.look();
        let before = self.tenants.at(place).weight;
        self.tenants.set_weight(self.time.now, &mut self.recorded_queue, place, weight);
        self.divide();
        let node = self.tenants.at(place);
        Ok(json!({
            "name": name,
            "before": before,
            "weight": weight,
            "effective_weight": node.effective,
            "share_of_level_percent": self.tenants.share_of_level(place) as f64 / 10.0,
            "share_of_device_percent": f64::from(self.tenants.share(place)) / 10.0,
        }))
    }

    fn order_class(&mut self, name: &str, class: ServiceClass, level: u8) -> Answer {
        let place = self.tenants.find_or_say(name, &self.name)?;
        let node = self.tenants.at_mut(place);
        if node.is_group {
            return Err(format!("{name} is a group; classes are of tenants"));
        }
        (node.class, node.level) = (class, level.min(7));
        self.time.look();
        self.tenants.settle(self.time.now, &mut self.recorded_queue, place);
        self.divide();
        self.rank_again(place);
        Ok(json!({ "ok": true }))
    }

    /// No new requests; connections finish, then the loop ends.
    pub(super) fn stop_soon(&mut self) {
        let now = self.time.clock.now();
        if !self.stop.begin(now + self.settings.drain_timeout) {
            return;
        }
        self.time.now = now;
        self.pass_all_caps();
        for index in self.connections.all() {
            #[cfg(test)]
            if planted::has(Bug::ClosesAtOnce) {
                self.close(index, "");
                continue;
            }
            self.leave_when_idle(index);
        }
    }

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
                let room = self
                    .tenants
                    .has_room_for(&config)
                    .and_then(|()| has_room(self.commands.backend(), &files));
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
        self.settings = LoopSettings::of(config);
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
            // Connections with nothing under way close at once.
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
        for index in self.connections.all() {
            let connection = self.connections.at(index);
            let Some(identity) = &connection.identity else { continue };
            // It may belong to another tenant by these rules.
            let name = self.settings.tenant_of(identity);
            let node = self.tenants.at(connection.tenant);
            let moves = node.is_gone || node.name != name;
            self.connections.is_to_move(index, moves.then_some(name));
        }
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

    /// The loop's state.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.time.look();
        let queue = self.recorded_queue.queue();
        let stats = queue.observer();
        let (memory, memory_used) = self.shared.bytes();
        let last = self.complaints.last.as_ref();
        let mut tenants = self.tenants.lines();
        for line in &mut tenants {
            line.figures.served_ns =
                status::served(&self.tenants, &self.connections, stats, &line.name);
        }
        Snapshot {
            device: self.name.clone(),
            backend: self.commands.backend().describe(),
            scheduler: queue.elevator_name().to_owned(),
            scheduler_failed: self.policy.words(),
            scheduler_failures: self.policy.failures(),
            depth: queue.facts().depth,
            now_ns: self.time.now.0,
            busy_ns: stats.busy(self.time.now).0,
            in_device: self.commands.len(),
            waiting: self.requests.fragments().len().saturating_sub(self.commands.len()),
            memory,
            memory_used,
            tracing: stats.is_tracing(),
            volumes: self.volumes.lines(),
            tenants,
            connections: status::connection_lines(&self.names(), &self.connections, stats),
            departed: self.tenants.departed.lines(),
            earlier: self.tenants.departed.earlier(),
            stopping: self.stop.is_on(),
            lost: self.commands.backend().lost().is_some(),
            errors: self.complaints.count.clone(),
            last_error: last.map(|(at, what)| LastError {
                ago_ns: (self.time.now - *at).0,
                what: what.clone(),
            }),
            oldest_command_ns: self.commands.oldest(self.time.now).0,
        }
    }

    /// What requests wait for, and which weights nodes have, and why.
    pub(super) fn explain(&mut self, tenant: Option<&str>) -> Answer {
        self.time.look();
        if let Some(name) = tenant
            && self.tenants.find(name).is_none()
        {
            return Err(format!("device {} knows no tenant or group {name}", self.name));
        }
        let elevator = self.recorded_queue.queue().elevator_name();
        let levels: Vec<Value> = self
            .tenants
            .present()
            .filter(|(_, node)| tenant.is_none_or(|name| node.name == name))
            .map(|(place, node)| status::level(&self.tenants, place, node))
            .collect();
        let named = |connection: &Connection| self.tenants.at(connection.tenant).name.as_str();
        let is_asked = |name: &str| tenant.is_none_or(|only| only == name);
        let mut waiting = Vec::new();
        for (_, fragment) in self.requests.fragments().iter() {
            let io = self.requests.io(fragment.io);
            let connection = self.connections.at(io.connection);
            if is_asked(named(connection)) {
                let why = status::why_it_waits(fragment, |ticket| {
                    let words = self.recorded_queue.queue().explain(ticket).to_string();
                    status::with_names(&self.tenants, &self.connections, &words)
                });
                let for_ms = (self.time.now - io.arrived).0 as f64 / 1e6;
                waiting.push(json!({
                    "tenant": named(connection),
                    "connection": connection.id,
                    "why": why,
                    "for_ms": for_ms,
                }));
                if waiting.len() == status::TOLD {
                    break;
                }
            }
        }
        for (_, connection) in self.connections.iter().take(status::TOLD) {
            let why = status::why_it_is_blocked(connection.blocked, self.time.now);
            if let Some(why) = why.filter(|_| is_asked(named(connection))) {
                waiting.push(json!({
                    "tenant": named(connection),
                    "connection": connection.id,
                    "why": why,
                    "for_ms": 0,
                }));
            }
        }
        Ok(json!({
            "device": self.name,
            "scheduler": elevator,
            "note": status::note(elevator),
            "levels": levels,
            "waiting": waiting,
        }))
    }
}

/// Ends a trace, if one is written. Another thread waits for the disk.
fn end_trace(stats: &mut Stats, asked: Asked) {
    let ending = stats.end_trace();
    std::thread::spawn(move || {
        let answer = match ending.map(TraceEnding::wait) {
            None => Err("no trace is being written".to_owned()),
            Some(Err(error)) => Err(format!("the trace could not be written: {error}")),
            Some(Ok(told)) => Ok(json!({
                "events": told.events, "bytes": told.bytes, "dropped": told.dropped,
            })),
        };
        // The sender of the order may have gone.
        let _gone = asked.answer.send(answer);
    });
}

/// Seconds and nanoseconds since the epoch: where a trace begins.
fn wall_clock() -> (u64, u32) {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or((0, 0), |since| (since.as_secs(), since.subsec_nanos()))
}
