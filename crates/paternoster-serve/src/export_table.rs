// SPDX-License-Identifier: MIT OR Apache-2.0
//! Export table: what a client may choose, and at which loop it is served.
//!
//! ```text
//! export table   vm1, vm2, vm3, vm4          all volumes of all loops
//! view      vm1, vm3 (read-only)        those that one client may open: it knows of no others
//! ```
//!
//! The first volume of the configuration is the default export, the one of the empty name. A client
//! that may not open that one has none: another disk in its place would be a trap for a client
//! that comes back.
//!
//! Invariants: I1 a client that may not open everything gets the same answer for another's volume
//! and for one that does not exist. I2 The exports open to a client are computed once for a
//! configuration and a name in a certificate, not at each option.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::rights::Right;
use crate::config::{Config, Identity, Rights};
use crate::device_loop::inbox::Slot;
use crate::device_loop::{Message, Seat};
use crate::nbd::{Absent, ExportFacts, Exports};

/// The volumes of all loops.
#[derive(Debug, Default)]
pub(crate) struct ExportTable {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    facts: ExportFacts,
    device_loop: Slot<Message>,
    /// Connections that have opened it.
    clients: Arc<AtomicU32>,
}

/// What is open to a client, by place in the export table.
#[derive(Debug)]
pub(crate) struct Open {
    /// The configuration whose rights apply.
    config: Arc<Config>,
    volumes: Vec<(usize, Right)>,
}

impl Open {
    /// Whether it was found out by the rights of this configuration.
    pub(crate) fn is_by(&self, config: &Arc<Config>) -> bool {
        Arc::ptr_eq(&self.config, config)
    }
}

impl ExportTable {
    /// Adds the volumes of a loop.
    pub(crate) fn add(&mut self, exports: Vec<ExportFacts>, device_loop: &Slot<Message>) {
        self.entries.extend(exports.into_iter().map(|facts| Entry {
            facts,
            device_loop: device_loop.clone(),
            clients: Arc::default(),
        }));
    }

    /// Counts on, with the clients that have opened a volume of the same name in `old`.
    pub(crate) fn goes_on_from(&mut self, old: &ExportTable) {
        let of: HashMap<&str, &Arc<AtomicU32>> =
            old.entries.iter().map(|entry| (entry.facts.name.as_str(), &entry.clients)).collect();
        for entry in &mut self.entries {
            if let Some(&clients) = of.get(entry.facts.name.as_str()) {
                entry.clients = Arc::clone(clients);
            }
        }
    }

    /// The loop of a volume, and a seat among its clients.
    pub(crate) fn enter(&self, export: &str) -> Option<(&Slot<Message>, Seat)> {
        let entry = self.entries.iter().find(|entry| entry.facts.name == export)?;
        // Whether there is room was asked when it was chosen, by the thread that asks here.
        Some((&entry.device_loop, Seat::take(&entry.clients, u32::MAX)?))
    }

    /// Clients that are counted.
    #[cfg(test)]
    pub(crate) fn clients(&self) -> u32 {
        self.entries.iter().map(|entry| entry.clients.load(Ordering::SeqCst)).sum()
    }

    fn open_to(&self, config: &Arc<Config>, who: &Identity) -> Open {
        let rights = rights_of(config);
        let right = |entry: &Entry| {
            let name = entry.facts.name.as_str();
            // A volume that the configuration does not have is open to no client.
            rights.get(name)?.of(name, who)
        };
        let entries = self.entries.iter().enumerate();
        let volumes = entries.filter_map(|(place, entry)| Some((place, right(entry)?))).collect();
        Open { config: Arc::clone(config), volumes }
    }
}

fn rights_of(config: &Config) -> HashMap<&str, &Rights> {
    let volumes = config.devices.iter().flat_map(|device| &device.volumes);
    volumes.map(|volume| (volume.name.as_str(), &volume.rights)).collect()
}

/// The export table as one client sees it.
pub(crate) struct View<'a, Who> {
    export_table: &'a ExportTable,
    config: &'a Arc<Config>,
    /// Filled when it is first needed.
    open: &'a OnceCell<Open>,
    who: Who,
    /// Notes that it asked for a name that is not open to it.
    refused: Cell<bool>,
}

impl<'a, Who: Fn() -> Identity> View<'a, Who> {
    /// What is open to the client that `who` describes.
    pub(crate) fn new(
        export_table: &'a ExportTable,
        config: &'a Arc<Config>,
        open: &'a OnceCell<Open>,
        who: Who,
    ) -> View<'a, Who> {
        View { export_table, config, open, who, refused: Cell::new(false) }
    }

    /// Whether it asked for a name that is not open to it.
    pub(crate) fn was_refused(&self) -> bool {
        self.refused.get()
    }

    fn volumes(&self) -> &[(usize, Right)] {
        &self.open.get_or_init(|| self.export_table.open_to(self.config, &(self.who)())).volumes
    }

    fn entries(&self) -> impl Iterator<Item = (usize, &Entry, Right)> {
        let told = |&(place, right)| (place, &self.export_table.entries[place], right);
        self.volumes().iter().map(told)
    }
}

impl<Who: Fn() -> Identity> Exports for View<'_, Who> {
    fn list(&self) -> Vec<(String, String)> {
        let told = |facts: &ExportFacts| (facts.name.clone(), facts.description.clone());
        self.entries().map(|(_, entry, _)| told(&entry.facts)).collect()
    }

    fn find(&self, name: &str) -> Result<ExportFacts, Absent> {
        let is_asked = |place: usize, entry: &Entry| match name {
            "" => place == 0,
            name => entry.facts.name == name,
        };
        let found = self.entries().find(|&(place, entry, _)| is_asked(place, entry));
        if let Some((_, entry, right)) = found {
            let readonly = entry.facts.readonly || right == Right::Read;
            return Ok(ExportFacts { readonly, ..entry.facts.clone() });
        }
        if self.volumes().len() == self.export_table.entries.len() {
            return Err(Absent::Unknown);
        }
        self.refused.set(true);
        Err(Absent::Closed)
    }

    fn is_full(&self, export: &ExportFacts) -> Option<String> {
        let (_, entry, _) = self.entries().find(|(_, entry, _)| entry.facts.name == export.name)?;
        let most = rights_of(self.config).get(export.name.as_str())?.most_clients?;
        let there = entry.clients.load(Ordering::SeqCst);
        (there >= most).then(|| {
            format!("{there} clients have opened it, and `most-clients` is {most}: try again later")
        })
    }
}

#[cfg(test)]
mod tests;
