// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants: the tree of groups and tenants, as this loop's queue knows it.
//!
//! ```text
//! root ─┬─ group "gold" 300 ─┬─ tenant "db" 200 ─┬─ connection (a client of the queue)
//!       │                    │                   └─ connection
//!       │                    └─ tenant "web" 100
//!       └─ tenant "disk0@uid1000" 100            (not configured: made when it first comes)
//! ```
//!
//! A tenant is a group of the queue, so that all its connections share one weight. Configured
//! tenants exist from the start. One that a rule makes exists from its first connection to its
//! last, or until the queue has no request of it: a merged request may outlive its client. When
//! there is no room for another, new clients share the root. Cgroups of processes are such nodes,
//! too (`cgroups.rs`).
//!
//! Invariants: I1 every node but the root has a group of the queue; I2 `connections` counts the
//! present ones; I3 the queue's weights are the effective ones (`weights.rs`).

mod again;
mod lines;
mod parts;

use paternoster_core::{Class, GroupId, GroupSpec, Nanos, Observer, Priority, near};

use super::caps::{Cap, Passing};
use super::departed::Departed;
use super::weights::{self, Sibling};
use crate::config::{self, ServiceClass};
use crate::control::snapshot::Figures;
use crate::recorded_queue::RecordedQueue;

/// Index of the root.
pub(super) const ROOT: u32 = 0;
/// Tenants without configuration, at a time.
const STRANGERS: usize = 1024;
/// A new configuration may have at least this many groups and tenants more. Debug builds audit
/// every place after every call.
const SPARE: usize = if cfg!(debug_assertions) { 16 } else { 256 };
/// Buckets of latencies: below 2^i microseconds, up to about nine minutes.
pub(super) const BUCKETS: usize = 30;

/// A group or a tenant.
#[derive(Debug)]
pub(super) struct Node {
    /// The node's name; empty for the root.
    pub name: String,
    /// The node above.
    pub parent: u32,
    /// Whether it is a group of tenants.
    pub is_group: bool,
    /// Whether the configuration does not name it.
    pub is_stranger: bool,
    /// No name refers to it any more: it goes when it is empty.
    pub is_gone: bool,
    /// The queue's group.
    pub group: GroupId,
    /// The weight, as configured or ordered.
    pub weight: u32,
    /// The weight that the elevator uses.
    pub effective: u32,
    /// Class.
    pub class: ServiceClass,
    /// Level within the class.
    pub level: u8,
    /// Least part, in thousandths; 0: none.
    pub floor: u16,
    /// The most it gets.
    pub cap: Cap,
    /// Present connections.
    pub connections: u32,
    /// Bios of it that the queue has.
    pub under_way: u32,
    /// What it got.
    pub figures: Figures,
    /// The volume of its last departed client.
    pub volume: String,
}

impl Node {
    /// Sets what groups and tenants of the configuration have in common.
    fn configure(&mut self, weight: u32, floor: Option<u16>, caps: config::Caps) {
        self.weight = weight;
        self.floor = floor.unwrap_or(0);
        self.cap.limit(caps);
    }

    /// The priority of its connections for the queue.
    pub(super) const fn priority(&self) -> Priority {
        let class = match self.class {
            ServiceClass::Kernel(class) => class,
            ServiceClass::Background { .. } => Class::BestEffort,
        };
        Priority { class, level: self.level }
    }

    /// As [`Node::priority`] for a client that has a priority of its own: that applies unless this
    /// node was given one.
    pub(super) fn priority_of(&self, own: Option<Priority>) -> Priority {
        let everybodys = self.class == ServiceClass::Kernel(Class::BestEffort) && self.level == 4;
        own.filter(|_| everybodys).unwrap_or_else(|| self.priority())
    }

    /// Least part, of its own or of its class.
    const fn least(&self) -> u16 {
        match self.class {
            ServiceClass::Background { minimum } if minimum > self.floor => minimum,
            _ => self.floor,
        }
    }

    /// Its weight before floors: in the background it is next to none.
    const fn nominal(&self) -> u32 {
        match self.class {
            ServiceClass::Background { .. } => 1,
            ServiceClass::Kernel(_) => self.weight,
        }
    }
}

/// The tree.
#[derive(Debug)]
pub(super) struct Tenants {
    nodes: Vec<Option<Node>>,
    strangers: usize,
    /// Groups in the queue for tenants and groups that are or were configured.
    room: usize,
    /// The queue still had requests of a node that was to go.
    linger: bool,
    /// Places of nodes that have gone, and whose tables by place are not empty yet.
    gone: Vec<u32>,
    /// The figures of tenants that have gone.
    pub departed: Departed,
}

impl Tenants {
    /// Groups that a queue needs for this configuration, strangers included.
    pub(super) fn groups_needed(config: &config::Config) -> u32 {
        let processes = config.server.fuse.as_ref().map_or(0, |fuse| fuse.processes);
        let connections = config.server.connections.saturating_add(processes);
        let strangers = STRANGERS.min(connections as usize);
        u32::try_from(room(config) + strangers + 1).unwrap_or(u32::MAX)
    }

    /// Makes the configured tree, in the queue.
    ///
    /// # Errors
    /// A name that is missing, in words.
    pub(super) fn new<O: Observer>(
        config: &config::Config,
        recorded_queue: &mut RecordedQueue<O>,
    ) -> Result<Tenants, String> {
        let root = node("", ROOT, true, recorded_queue.queue().root(), 1000);
        let nodes = vec![Some(root)];
        let mut tenants = Tenants {
            nodes,
            strangers: 0,
            room: room(config),
            linger: false,
            gone: Vec::new(),
            departed: Departed::default(),
        };
        tenants.take(Nanos::ZERO, recorded_queue, config)?;
        tenants.settle_all(Nanos::ZERO, recorded_queue);
        Ok(tenants)
    }

    fn above(&self, name: Option<&str>) -> Result<u32, String> {
        match name {
            None => Ok(ROOT),
            Some(name) => self
                .find(name)
                .filter(|&place| self.at(place).is_group)
                .ok_or_else(|| format!("there is no group {name}")),
        }
    }

    /// Adds a node that is not configured, if there is room.
    pub(super) fn add_stranger<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        name: &str,
        parent: u32,
        weight: u32,
    ) -> Option<u32> {
        if self.strangers >= STRANGERS {
            return None;
        }
        let place = self.add(now, recorded_queue, name, parent, false, weight).ok()?;
        self.strangers += 1;
        self.at_mut(place).is_stranger = true;
        Some(place)
    }

    fn add<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        name: &str,
        parent: u32,
        is_group: bool,
        weight: u32,
    ) -> Result<u32, String> {
        let spec = GroupSpec::new().weight(weight).parent(self.at(parent).group);
        let group = recorded_queue
            .add_group(now, spec)
            .map_err(|error| format!("tenant {name}: {error}"))?;
        let mut made = node(name, parent, is_group, group, weight);
        if !is_group && let Some(before) = self.departed.take(name) {
            made.figures = before;
        }
        let place = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
        if place == self.nodes.len() {
            self.nodes.push(Some(made));
        } else {
            self.nodes[place] = Some(made);
        }
        Ok(place_of(place))
    }

    /// A node.
    pub(super) fn at(&self, place: u32) -> &Node {
        self.nodes[place as usize].as_ref().expect("a tenant that is named is there")
    }

    /// A node, to be changed.
    pub(super) fn at_mut(&mut self, place: u32) -> &mut Node {
        self.nodes[place as usize].as_mut().expect("a tenant that is named is there")
    }

    /// A node, to be changed, if it is there.
    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut Node> {
        self.nodes.get_mut(place as usize)?.as_mut()
    }

    /// Finds a node by its name.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.iter()
            .find(|(place, node)| *place != ROOT && node.name == name && !node.is_gone)
            .map(|(place, _)| place)
    }

    /// By name, of this device.
    ///
    /// # Errors
    /// The message that there is no such tenant.
    pub(super) fn find_or_say(&self, name: &str, device: &str) -> Result<u32, String> {
        self.find(name).ok_or_else(|| {
            let names: Vec<&str> = self.present().map(|(_, node)| node.name.as_str()).collect();
            let hint = near::hint(name, names.iter().copied());
            format!("device {device} knows no tenant or group {name}{hint}")
        })
    }

    /// The nodes that have a name, with their numbers.
    pub(super) fn present(&self) -> impl Iterator<Item = (u32, &Node)> {
        self.iter().skip(1).filter(|(_, node)| !node.is_gone)
    }

    /// All nodes, the root first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Node)> {
        (0..).zip(&self.nodes).filter_map(|(place, node)| Some((place, node.as_ref()?)))
    }

    /// A connection of the tenant of this name has come; the tenant is made if need be.
    pub(super) fn enter<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        name: &str,
    ) -> u32 {
        let found = self.find(name).filter(|&place| !self.at(place).is_group);
        let place = match found {
            Some(place) => place,
            None => self.add_stranger(now, recorded_queue, name, ROOT, 100).unwrap_or(ROOT),
        };
        self.at_mut(place).connections += 1;
        self.settle(now, recorded_queue, place);
        place
    }

    /// A process without tenant has come.
    pub(super) fn enter_root(&mut self) -> u32 {
        self.at_mut(ROOT).connections += 1;
        ROOT
    }

    /// One of its connections has closed, with all its requests ended.
    pub(super) fn leave<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        place: u32,
    ) {
        self.at_mut(place).connections -= 1;
        self.remove_forlorn(now, recorded_queue, place);
        self.settle(now, recorded_queue, ROOT);
    }

    /// Removes a node that is not needed, and each one above that is not needed then.
    fn remove_forlorn<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        mut place: u32,
    ) {
        while self.is_forlorn(place) {
            if recorded_queue.remove_group(now, self.at(place).group).is_err() {
                self.linger = true;
                return;
            }
            let above = self.at(place).parent;
            self.strangers -= 1;
            let gone = self.nodes[place as usize].take();
            self.gone.push(place);
            self.keep(gone);
            self.settle_below(now, recorded_queue, above);
            place = above;
        }
    }

    /// Removes nodes of which the queue still had requests when they were to go; returns whether
    /// there were any.
    pub(super) fn remove_late<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
    ) -> bool {
        if !std::mem::take(&mut self.linger) {
            return false;
        }
        for place in (0..self.nodes.len()).map(place_of) {
            if self.nodes[place as usize].is_some() {
                self.remove_forlorn(now, recorded_queue, place);
            }
        }
        true
    }

    /// Places of nodes that have gone since this was asked: other nodes may have them.
    pub(super) fn take_gone(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.gone)
    }

    /// Whether it is not configured, has no connection and nothing below it.
    fn is_forlorn(&self, place: u32) -> bool {
        let node = self.at(place);
        let mut others = self.iter().filter(|(other, _)| *other != ROOT);
        node.is_stranger && node.connections == 0 && !others.any(|(_, node)| node.parent == place)
    }

    /// Settles the weights of a node's children after one of them has gone.
    fn settle_below<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        above: u32,
    ) {
        let below = self.iter().find(|(place, node)| *place != ROOT && node.parent == above);
        if let Some((place, _)) = below {
            self.settle(now, recorded_queue, place);
        }
    }

    /// Sets a weight by order.
    pub(super) fn set_weight<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        place: u32,
        weight: u32,
    ) {
        self.at_mut(place).weight = weight;
        self.settle(now, recorded_queue, place);
    }

    /// Gives the queue the weights of `place` and its siblings.
    pub(super) fn settle<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        place: u32,
    ) {
        let parent = self.at(place).parent;
        let places: Vec<u32> = self
            .iter()
            .filter(|(place, node)| *place != ROOT && node.parent == parent)
            .map(|(place, _)| place)
            .collect();
        let siblings: Vec<Sibling> = places
            .iter()
            .map(|&place| self.at(place))
            .map(|node| Sibling { weight: node.nominal(), floor: node.least() })
            .collect();
        for (&place, weight) in places.iter().zip(weights::effective(&siblings)) {
            let node = self.at_mut(place);
            if node.effective != weight {
                node.effective = weight;
                // The group is the node's own and there.
                let _known = recorded_queue.set_group_weight(now, node.group, weight);
            }
        }
    }

    /// A departed connection of a tenant has had this much device time, in nanoseconds.
    pub(super) fn count_served(&mut self, tenant: u32, served: u64) {
        let mut above = tenant;
        loop {
            if self.counts(above, tenant) {
                self.at_mut(above).figures.served_ns += served;
            }
            if above == ROOT {
                break;
            }
            above = self.at(above).parent;
        }
    }

    /// When the caps of a tenant and of the groups above let its next request, or data, pass.
    pub(super) fn open_at(&self, place: u32, what: Passing) -> Nanos {
        self.chain(place).map(|node| node.cap.open_at(what)).max().unwrap_or(Nanos::ZERO)
    }

    /// Something passes the caps of a tenant and of the groups above.
    pub(super) fn charge(&mut self, place: u32, now: Nanos, what: Passing) {
        let mut place = place;
        loop {
            let node = self.at_mut(place);
            node.cap.charge(now, what);
            if place == ROOT {
                return;
            }
            place = node.parent;
        }
    }

    /// A node and those above it.
    pub(super) fn chain(&self, place: u32) -> impl Iterator<Item = &Node> {
        let mut next = Some(place);
        std::iter::from_fn(move || {
            let place = next?;
            let node = self.at(place);
            next = (place != ROOT).then_some(node.parent);
            Some(node)
        })
    }

    /// Whether it, or a node below it, has a connection.
    pub(super) fn is_active(&self, place: u32) -> bool {
        let node = self.at(place);
        node.connections != 0
            || ((node.is_group || node.is_stranger)
                && self.iter().any(|(below, node)| {
                    below != ROOT && node.parent == place && self.is_active(below)
                }))
    }

    /// Whether what a tenant gets is counted for this node: itself, or a group above.
    pub(super) fn counts(&self, place: u32, tenant: u32) -> bool {
        let mut above = tenant;
        while above != place && above != ROOT {
            above = self.at(above).parent;
        }
        above == place && (place == tenant || self.at(place).is_group)
    }
}

fn node(name: &str, parent: u32, is_group: bool, group: GroupId, weight: u32) -> Node {
    Node {
        name: name.to_owned(),
        parent,
        is_group,
        is_stranger: false,
        is_gone: false,
        group,
        weight,
        effective: weight,
        class: ServiceClass::Kernel(Class::BestEffort),
        level: 4,
        floor: 0,
        cap: Cap::new(config::Caps::default()),
        connections: 0,
        under_way: 0,
        figures: Figures { latency_log2_us: vec![0; BUCKETS], ..Figures::default() },
        volume: String::new(),
    }
}

/// Places for configured groups and tenants: a new configuration may have others, and the old ones
/// go only afterwards.
fn room(config: &config::Config) -> usize {
    let configured = config.groups.len() + config.tenants.len();
    configured + configured.max(SPARE)
}

fn place_of(place: usize) -> u32 {
    u32::try_from(place).expect("fewer tenants than 2^32")
}

#[cfg(test)]
mod tests {
    use paternoster_core::{Bio, ClientSpec, DeviceFacts, Limits, NoObserver, Op, Outcome, Output};

    use super::*;
    use crate::config::{Caps, Config, Group, Tenant};

    /// Does a cap hold for all below it? A megabyte a second with a burst of 100 ms; after 200 kB
    /// of one tenant all of the group wait 100 ms, and no other tenant does.
    #[test]
    fn caps_of_groups_are_their_tenants() {
        let group = |name: &str, parent: Option<&str>, bytes| Group {
            parent: parent.map(str::to_owned),
            caps: Caps { bytes, requests: 0 },
            ..Group::new(name)
        };
        let tenant = |name: &str, group: Option<&str>| Tenant {
            group: group.map(str::to_owned),
            ..Tenant::new(name)
        };
        let config = Config {
            groups: vec![group("outer", None, 1_000_000), group("inner", Some("outer"), 0)],
            tenants: vec![
                tenant("one", Some("inner")),
                tenant("two", Some("outer")),
                tenant("other", None),
            ],
            ..Config::default()
        };
        let elevator = paternoster_schedulers::by_name("bfq").unwrap();
        let limits = Limits { groups: 64, ..Limits::default() };
        let mut recorded_queue =
            RecordedQueue::new(DeviceFacts::default(), limits, elevator, NoObserver).unwrap();
        let mut tenants = Tenants::new(&config, &mut recorded_queue).unwrap();
        let [one, two, other] = ["one", "two", "other"].map(|name| {
            let found = tenants.iter().find(|(_, node)| node.name == name);
            found.map(|(place, _)| place).unwrap()
        });
        tenants.charge(one, Nanos::ZERO, Passing::Data(200_000));
        let opens = [one, two, other].map(|place| tenants.open_at(place, Passing::Data(1)));
        assert_eq!(opens, [Nanos::from_millis(100), Nanos::from_millis(100), Nanos::ZERO]);
    }
    /// Does a tenant without configuration go though a request of its client outlives the client?
    /// Two writes are one command, and the first is withdrawn.
    #[test]
    fn a_stranger_goes_when_its_last_request_has() {
        let noop = paternoster_schedulers::by_name("noop").unwrap();
        let limits = Limits { groups: 64, ..Limits::default() };
        let mut recorded_queue =
            RecordedQueue::new(DeviceFacts::default(), limits, noop, NoObserver).unwrap();
        let mut tenants = Tenants::new(&Config::default(), &mut recorded_queue).unwrap();
        let now = Nanos::ZERO;
        let stranger = tenants.enter(now, &mut recorded_queue, "stranger");
        let group = tenants.at(stranger).group;
        let leaving = recorded_queue.attach(Nanos::ZERO, ClientSpec::new().group(group)).unwrap();
        let staying = recorded_queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
        let first = recorded_queue.submit(now, Bio::new(leaving, Op::Write, 0, 8)).unwrap();
        recorded_queue.submit(now, Bio::new(staying, Op::Write, 8, 8)).unwrap();
        recorded_queue.cancel(now, first).unwrap();
        let (mut told, mut tag) = (0, None);
        loop {
            match recorded_queue.next(now) {
                Output::Done(..) => told += 1,
                Output::Issue(command) => tag = Some(command.tag),
                _ => break,
            }
        }
        assert_eq!(told, 1, "the one that was withdrawn");
        recorded_queue.detach(now, leaving).unwrap();
        tenants.leave(now, &mut recorded_queue, stranger);
        assert!(tenants.find("stranger").is_some(), "the queue has a command of it");
        recorded_queue.complete(now, tag.expect("a command"), Outcome::OK).unwrap();
        while matches!(recorded_queue.next(now), Output::Done(..)) {}
        assert!(tenants.remove_late(now, &mut recorded_queue));
        assert!(tenants.find("stranger").is_none());
        assert!(!tenants.remove_late(now, &mut recorded_queue), "once");
    }
}
