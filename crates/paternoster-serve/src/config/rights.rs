// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights: which clients may open a volume, and how.
//!
//! ```text
//! allow = ["uid=1000", "certificate=vm1"]      readonly-for = ["gid=34"]
//!
//! readonly-for matches    allow matches
//!        yes              either           ──▶ it reads
//!        no               yes              ──▶ it reads and writes
//!        no               no               ──▶ for this client there is no such volume
//!
//! without allow: where clients show certificates, the one whose name is the volume's; else anyone
//! ```
//!
//! An entry is what a rule asks of a client, without `export` and `pid`; all of it must be so.
//!
//! Invariants: I1 [`Rights::of`] is the one place that decides, for every way to open a volume.
//! I2 What could not be found out of a client (its cgroup, its groups) gives no right, and takes
//! none back: it matches no entry of `allow` and every one of `readonly-for`.

use super::document::{Section, TextOrSection};
use super::file::ConfigError;
use super::limits::{CLIENTS, RIGHTS};
use super::settle::Complaint;
use super::{Config, Identity, Who, rules, sharing};

/// Which clients may open a volume, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rights {
    /// May read and write. `None`: the client whose certificate has the volume's name, where
    /// clients show certificates; else every client.
    pub allow: Option<Vec<Who>>,
    /// May read and not write, whatever `allow` says.
    pub readonly_for: Vec<Who>,
    /// Connections at a time.
    pub most_clients: Option<u32>,
}

/// What a client may do with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read.
    Read,
    /// Read and write.
    Write,
}

impl Rights {
    /// What this client may do with the volume of this name; `None`: it may not even learn that the
    /// volume exists.
    #[must_use]
    pub fn of(&self, volume: &str, who: &Identity) -> Option<Right> {
        if self.readonly_for.iter().any(|entry| rules::matches(entry, who, true)) {
            return Some(Right::Read);
        }
        let is_allowed = match &self.allow {
            Some(entries) => is_among(entries, who),
            None => !who.is_asked_for_name || rules::certificate(who) == Some(volume),
        };
        is_allowed.then_some(Right::Write)
    }

    /// Every entry of both lists.
    pub fn entries(&self) -> impl Iterator<Item = &Who> {
        self.allow.iter().flatten().chain(&self.readonly_for)
    }
}

/// Whether one of the entries is this client.
pub(crate) fn is_among(entries: &[Who], who: &Identity) -> bool {
    entries.iter().any(|entry| rules::matches(entry, who, false))
}

/// Complains of rights that no client can have.
pub(super) fn check(config: &Config) -> Result<(), Complaint> {
    if config.server.shows_certificates() {
        return Ok(());
    }
    let volumes = config.devices.iter().flat_map(|device| &device.volumes);
    for volume in volumes {
        for (key, entries) in [
            ("allow", volume.rights.allow.as_deref().unwrap_or_default()),
            ("readonly-for", &volume.rights.readonly_for[..]),
        ] {
            if let Some(entry) = entries.iter().find(|entry| entry.certificate.is_some()) {
                let why = "no client shows a certificate: `[server.tls]` has no \
                           `client-authority`";
                return Err(Complaint::new(&["volume", &volume.name, key], entry, why));
            }
        }
    }
    Ok(())
}

/// The keys of a volume that are about rights.
pub(super) fn read(section: &mut Section<'_>) -> Result<Rights, ConfigError> {
    Ok(Rights {
        allow: entries(section, "allow")?,
        readonly_for: entries(section, "readonly-for")?.unwrap_or_default(),
        most_clients: section.number("most-clients", &CLIENTS)?,
    })
}

/// A list of clients, if the key is there.
pub(super) fn entries(
    section: &mut Section<'_>,
    key: &'static str,
) -> Result<Option<Vec<Who>>, ConfigError> {
    let is_there = section.has(key);
    let remedy = "`\"uid=1000\"`, `\"certificate=vm1\"`, `\"address=10.0.0.0/8\"`, \
                  `{ gid = 34, cgroup = \"/a b/*\" }` or `\"anyone\"`";
    let entries = section.texts_or_sections(key, RIGHTS, remedy)?;
    let each = |entry| match entry {
        TextOrSection::Text(text, span) => {
            text.parse().map_err(|why: String| section.wrong_at(key, span, &why))
        }
        TextOrSection::Section(mut inner) => {
            let who = sharing::who(&mut inner)?;
            if who == Who::default() {
                let why = "it says nothing of a client; `\"anyone\"` is every client";
                return Err(section.wrong(key, why));
            }
            inner.finish().map(|()| who)
        }
    };
    let all = entries.into_iter().map(each).collect::<Result<_, _>>()?;
    Ok(is_there.then_some(all))
}
