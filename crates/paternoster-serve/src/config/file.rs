// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration file: sections and names, read into a [`Config`].
//!
//! ```toml
//! [server]
//! listen = "unix:/run/paternoster/nbd.sock"
//!
//! [server.fuse]                     # volumes as files, for any process (fuse.rs)
//! mount = "/run/paternoster/disks"
//!
//! [device.disk]                     # a queue, a thread, a scheduler
//! scheduler = "bfq"
//!
//! [volume.vm1]                      # what clients see
//! path = "/srv/vm1.img"
//!
//! [tenant.gold]                     # clients that share a weight
//! weight = 300
//!
//! [[rule]]                          # whose a client is
//! export = "vm*"
//! tenant = "gold"
//! ```
//!
//! Every key, with default and unit: `docs/serve/configuration.md`. Everything that is refused is
//! refused with the line, the text that is wrong there, and what would be right. Paths are taken as
//! they are written: relative ones start at the folder in which the server was started.

use std::fmt;
use std::io::Read;
use std::path::Path;

use toml::de::DeTable;

use super::document::{Section, Source};
use super::limits::FILE_BYTES;
use super::{Config, devices, server, sharing};

const SECTIONS: &[&str] = &["server", "device", "volume", "group", "tenant", "rule"];

/// A configuration cannot be used: where, what, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, as it was named.
    pub file: String,
    /// Counted from 1; 0 if it concerns the whole file.
    pub line: usize,
    /// The message: what is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`] if it cannot be read, or as [`Config::parse`].
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let file = path.display().to_string();
        let refused = |message: String| ConfigError { file: file.clone(), line: 0, message };
        let mut text = Vec::new();
        let most = u64::try_from(FILE_BYTES).unwrap_or(u64::MAX);
        std::fs::File::open(path)
            .and_then(|open| open.take(most + 1).read_to_end(&mut text))
            .map_err(|error| refused(format!("it cannot be read: {error}")))?;
        let text = String::from_utf8(text).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            refused(format!("byte {at} is not UTF-8 text"))
        })?;
        Config::parse(&file, &text)
    }

    /// Reads a configuration's text; `file` is named in messages. Touches no other file.
    ///
    /// # Errors
    /// [`ConfigError`] with the line and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
        let source = Source { file, text };
        if text.len() > FILE_BYTES {
            let message = format!("more than the {FILE_BYTES} bytes that are allowed");
            return Err(source.error(None, message));
        }
        let table = DeTable::parse(text).map_err(|error| source.syntax(&error))?;
        let mut root = Section::root(source, table.get_ref());
        // First, so that a slip in a section's name is not reported as one in a reference to it.
        root.only(SECTIONS)?;
        let config = read(&mut root)?;
        config.settle().map_err(|complaint| source.complaint(table.get_ref(), &complaint))
    }
}

fn read(root: &mut Section<'_>) -> Result<Config, ConfigError> {
    let Some(server) = root.child("server")? else {
        let why = "`[server]` with `listen = \"unix:/run/paternoster/nbd.sock\"` says where \
                   clients come to (or `[server.fuse]` with `mount`)";
        return Err(root.missing("server", why));
    };
    Ok(Config {
        server: server::read(server)?,
        devices: devices::read(root)?,
        groups: sharing::groups(root)?,
        tenants: sharing::tenants(root)?,
        rules: sharing::rules(root)?,
    })
}

#[cfg(test)]
mod tests;
