// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settling: a configuration is checked as a whole, whatever its source.
//!
//! A value that is wrong by itself is refused where it is read; here are checks that take several:
//! names that must exist, groups that must not contain themselves, promises that must fit together,
//! volumes that must not overlap. A complaint names the place by keys (`volume`, `vm1`, `device`),
//! so that a file's line can be found from it.

use std::fmt;

use super::document::numbered;
use super::{Config, check, fuse, overlap, rights, tree};

/// Why a configuration is not sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Keys from the top of the file: `volume`, `vm1`, `device`.
    pub place: Vec<String>,
    /// The value there; empty if the complaint is about the whole section.
    pub text: String,
    /// Why not, and what would be right.
    pub why: String,
}

impl Complaint {
    /// A complaint about the value `text` of a key.
    pub(super) fn new(
        place: &[&str],
        text: impl fmt::Display,
        why: impl Into<String>,
    ) -> Complaint {
        let place = place.iter().map(|key| (*key).to_owned()).collect();
        Complaint { place, text: text.to_string(), why: why.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Those of a list are counted from 1, as where they are read.
        let of_list = |key: &str| ["rule", "listen"].contains(&key);
        let mut path = String::new();
        for (at, part) in self.place.iter().enumerate() {
            let place = (at > 0 && of_list(&self.place[at - 1])).then(|| part.parse().ok());
            match place.flatten().filter(|_| at == 1 || self.place[0] == "server") {
                Some(place) => path = numbered(&path, place),
                None if at == 0 => path.clone_from(part),
                None => path = format!("{path}.{part}"),
            }
        }
        match self.text.as_str() {
            "" => write!(f, "`{path}`: {}", self.why),
            text => write!(f, "`{path}` cannot be `{text}`: {}", self.why),
        }
    }
}

impl Config {
    /// The configuration, checked as a whole; groups come out parents first.
    ///
    /// # Errors
    /// The first [`Complaint`].
    pub fn settle(mut self) -> Result<Config, Complaint> {
        check::server(&self.server)?;
        check::devices(&self.devices)?;
        fuse::check(&self)?;
        overlap::volumes(&self.devices)?;
        rights::check(&self)?;
        check::sharers(&self)?;
        self.groups = tree::parents_first(std::mem::take(&mut self.groups))?;
        tree::floors(&self)?;
        check::rules(&self.rules)?;
        Ok(self)
    }
}
