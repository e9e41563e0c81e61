// SPDX-License-Identifier: MIT OR Apache-2.0
//! Again: the tree of tenants changes to that of a new configuration while its clients are there.
//!
//! ```text
//! of that name, below the same group     stays, with another weight, class, floor, cap
//! of that name, below another group      a new node; the old one goes when it is empty
//! configured no more, below the root     as one never configured: weight 100
//! configured no more, within a group     goes when it is empty
//! ```
//!
//! A node that is to go is not found by name and not listed; its clients leave it when their
//! requests have ended (`reload.rs`). Figures go with the name.
//!
//! Invariant: a tree for which there [is room](Tenants::has_room_for) is made as a whole.

use std::collections::BTreeSet;

use paternoster_core::{Class, Nanos, Observer};

use super::{ROOT, Tenants, place_of};
use crate::config::{self, ServiceClass};
use crate::recorded_queue::RecordedQueue;

/// One of a configuration, as far as it matters where its node is.
struct Wanted<'a> {
    name: &'a str,
    above: Option<&'a str>,
    is_group: bool,
}

fn wanted(config: &config::Config) -> impl Iterator<Item = Wanted<'_>> {
    let groups = config.groups.iter().map(|group| Wanted {
        name: &group.name,
        above: group.parent.as_deref(),
        is_group: true,
    });
    let tenants = config.tenants.iter().map(|tenant| Wanted {
        name: &tenant.name,
        above: tenant.group.as_deref(),
        is_group: false,
    });
    groups.chain(tenants)
}

impl Tenants {
    /// Whether the queue has places for another tree beside what is going.
    ///
    /// # Errors
    /// How many there would be, and how many can be.
    pub(in crate::device_loop) fn has_room_for(
        &self,
        config: &config::Config,
    ) -> Result<(), String> {
        let goes = |place: u32| {
            let node = self.at(place);
            node.is_gone
                || (!node.is_stranger
                    && !wanted(config).any(|one| self.place_of(&one) == Some(place)))
        };
        let going = self.iter().filter(|&(place, _)| place != ROOT && goes(place)).count();
        let coming = config.groups.len() + config.tenants.len();
        if coming + going <= self.room {
            return Ok(());
        }
        Err(format!(
            "{coming} groups and tenants, and {going} that go and still have clients, are more \
             than the {} that this server has places for until it is started again",
            self.room
        ))
    }

    /// The place of a node that exists already.
    fn place_of(&self, one: &Wanted<'_>) -> Option<u32> {
        let place = self.find(one.name)?;
        let node = self.at(place);
        let above = &self.at(node.parent);
        let is_there = match one.above {
            None => node.parent == ROOT,
            Some(name) => above.name == name && !above.is_gone,
        };
        (is_there && node.is_group == one.is_group).then_some(place)
    }

    /// Becomes the tree of this configuration.
    ///
    /// # Errors
    /// A place was missing after all: then some nodes are the old ones still.
    pub(in crate::device_loop) fn read_again<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        config: &config::Config,
    ) -> Result<(), String> {
        let kept = self.take(now, recorded_queue, config)?;
        for place in (0..self.nodes.len()).map(place_of) {
            let configured = |node: &super::Node| !node.is_stranger && !kept.contains(&place);
            if self.nodes[place as usize].as_ref().is_some_and(configured) {
                self.configure_no_more(place);
            }
        }
        self.settle_all(now, recorded_queue);
        self.linger = true;
        self.remove_late(now, recorded_queue);
        Ok(())
    }

    /// Makes a node for each group and tenant of the configuration that has none; returns all of
    /// them, and the root.
    pub(super) fn take<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        config: &config::Config,
    ) -> Result<BTreeSet<u32>, String> {
        let mut kept = BTreeSet::from([ROOT]);
        for group in &config.groups {
            let above = self.above(group.parent.as_deref())?;
            let place =
                self.keep_or_add(now, recorded_queue, &group.name, above, true, group.weight)?;
            kept.insert(place);
            self.at_mut(place).configure(group.weight, group.floor, group.caps);
        }
        for tenant in &config.tenants {
            let above = self.above(tenant.group.as_deref())?;
            let place =
                self.keep_or_add(now, recorded_queue, &tenant.name, above, false, tenant.weight)?;
            kept.insert(place);
            let node = self.at_mut(place);
            node.configure(tenant.weight, tenant.floor, tenant.caps);
            (node.class, node.level) = (tenant.class, tenant.level);
        }
        Ok(kept)
    }

    /// Tells the queue the weights of all.
    pub(super) fn settle_all<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
    ) {
        let places: Vec<u32> = self.iter().map(|(place, _)| place).collect();
        places.into_iter().for_each(|place| self.settle(now, recorded_queue, place));
    }

    fn keep_or_add<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        name: &str,
        above: u32,
        is_group: bool,
        weight: u32,
    ) -> Result<u32, String> {
        let found = self.find(name);
        if let Some(place) = found {
            let node = self.at_mut(place);
            if node.parent == above && node.is_group == is_group {
                if std::mem::replace(&mut node.is_stranger, false) {
                    self.strangers -= 1;
                }
                return Ok(place);
            }
        }
        let place = self.add(now, recorded_queue, name, above, is_group, weight)?;
        if let Some(old) = found {
            self.at_mut(place).figures = self.at(old).figures.clone();
            self.lets_go(old);
        }
        Ok(place)
    }

    /// A node that the configuration has no more.
    fn configure_no_more(&mut self, place: u32) {
        let node = self.at_mut(place);
        if node.is_group || node.parent != ROOT {
            return self.lets_go(place);
        }
        node.is_stranger = true;
        node.configure(100, None, config::Caps::default());
        (node.class, node.level) = (ServiceClass::Kernel(Class::BestEffort), 4);
        self.strangers += 1;
    }

    /// A node goes as soon as it is empty.
    fn lets_go(&mut self, place: u32) {
        let node = self.at_mut(place);
        node.is_gone = true;
        if !std::mem::replace(&mut node.is_stranger, true) {
            self.strangers += 1;
        }
    }
}
