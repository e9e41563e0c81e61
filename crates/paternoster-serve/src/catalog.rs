// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalog: what a client may choose, and at which desk it is served.
//!
//! The first volume of the configuration is the default export, the one of the empty name.

use crate::desk::Letter;
use crate::desk::inbox::Slot;
use crate::nbd::{ExportFacts, Exports};

/// All volumes of all desks.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    entries: Vec<(ExportFacts, Slot<Letter>)>,
}

impl Catalog {
    /// Adds the volumes of a desk.
    pub(crate) fn add(&mut self, exports: Vec<ExportFacts>, desk: &Slot<Letter>) {
        self.entries.extend(exports.into_iter().map(|facts| (facts, desk.clone())));
    }

    /// The desk of a volume.
    pub(crate) fn desk_of(&self, export: &str) -> Option<&Slot<Letter>> {
        self.entries.iter().find(|(facts, _)| facts.name == export).map(|(_, desk)| desk)
    }
}

impl Exports for Catalog {
    fn list(&self) -> Vec<(String, String)> {
        let told = |(facts, _): &(ExportFacts, _)| (facts.name.clone(), facts.description.clone());
        self.entries.iter().map(told).collect()
    }

    fn find(&self, name: &str) -> Option<ExportFacts> {
        let mut entries = self.entries.iter();
        let found =
            if name.is_empty() { entries.next() } else { entries.find(|(f, _)| f.name == name) };
        found.map(|(facts, _)| facts.clone())
    }
}
