// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section `[server.fuse]`: volumes as files, so that every process is a client.
//!
//! ```toml
//! [server.fuse]
//! mount = "/run/paternoster/disks"     # needed: an empty folder that is there
//! cgroups = "/sys/fs/cgroup"           # default: cgroups do not count
//! realtime = ["root", 1000]            # users that may be realtime by ionice; default ["root"]
//! allow-other = true                   # default false: only the server's own user
//! processes = 1024                     # told apart at a time, 0 to 65536
//! ```
//!
//! With it clients have somewhere to come to, and `listen` is not needed. Users are looked up when
//! the file is read. Whether the folders are there is asked separately ([`Fuse::look`]): reading a
//! configuration touches no other file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use toml::de::DeValue;

use super::document::{Section, plain};
use super::file::ConfigError;
use super::settle::Complaint;
use super::{Config, Fuse, limits, words};
use crate::host::privileges::Account;
use crate::locked::locked;

/// Longest file name that Linux allows.
const FILE_NAME_BYTES: usize = 255;
const USERS: &str = "names of users or their numbers, as `[\"root\", 1000]`; `[]` is nobody";

pub(super) fn read(mut section: Section<'_>) -> Result<Fuse, ConfigError> {
    let Some(mount) = section.parsed("mount", words::path)? else {
        let why = "`mount = \"/run/paternoster/disks\"`, an empty folder, says where the files are";
        return Err(section.missing("mount", why));
    };
    let default = Fuse::new(mount);
    let fuse = Fuse {
        cgroups: section.parsed("cgroups", words::path)?,
        realtime: users(&mut section)?.unwrap_or(default.realtime),
        allow_other: section.switch("allow-other")?.unwrap_or(default.allow_other),
        processes: section.number("processes", &limits::PROCESSES)?.unwrap_or(default.processes),
        mount: default.mount,
    };
    section.finish()?;
    Ok(fuse)
}

/// All users in the list, by number.
fn users(section: &mut Section<'_>) -> Result<Option<Vec<u32>>, ConfigError> {
    section.value("realtime", |value| {
        let entries = value.as_array().ok_or_else(|| USERS.to_owned())?;
        if entries.len() > limits::REALTIME_USERS {
            let (found, most) = (entries.len(), limits::REALTIME_USERS);
            return Err(format!("{found} users where {most} are allowed"));
        }
        entries.iter().map(|entry| user(entry.get_ref())).collect()
    })
}

fn user(value: &DeValue<'_>) -> Result<u32, String> {
    if let Some(name) = value.as_str() {
        return named(plain(name)?);
    }
    let digits = value.as_integer().map(|integer| (integer.as_str().replace('_', ""), integer));
    let number = digits.and_then(|(digits, integer)| {
        // The greatest number is no user: system calls use it for "no change".
        u32::from_str_radix(&digits, integer.radix()).ok().filter(|uid| *uid != u32::MAX)
    });
    number.ok_or_else(|| USERS.to_owned())
}

/// The number of a user's name. What was found is remembered: a reload within the sandbox cannot
/// look into the system's files of users.
fn named(name: String) -> Result<u32, String> {
    static KNOWN: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
    match Account::find(&name, None) {
        Ok(account) => {
            locked(&KNOWN).insert(name, account.uid);
            Ok(account.uid)
        }
        Err(why) => locked(&KNOWN).get(&name).copied().ok_or(why),
    }
}

/// What does not go together with files of that folder.
pub(crate) fn check(config: &Config) -> Result<(), Complaint> {
    let Some(fuse) = &config.server.fuse else { return Ok(()) };
    let place = |key| ["server", "fuse", key];
    if let Some(user) = config.server.user.as_ref().filter(|_| !config.server.sandbox) {
        let why = "a server that becomes another user cannot take its files away at the end; the \
                   helper of `sandbox = true` does, or leave out `user`";
        return Err(Complaint::new(&["server", "user"], user, why));
    }
    if !limits::PROCESSES.contains(&fuse.processes) {
        let why = format!("{} to {}", limits::PROCESSES.start(), limits::PROCESSES.end());
        return Err(Complaint::new(&place("processes"), fuse.processes, why));
    }
    for volume in config.devices.iter().flat_map(|device| &device.volumes) {
        if volume.path.starts_with(&fuse.mount) {
            let why = format!(
                "the volume `{}` would be in it, and be hidden by what is mounted; another folder",
                volume.name
            );
            return Err(Complaint::new(&place("mount"), fuse.mount.display(), why));
        }
        if !is_file_name(&volume.name) {
            let why = "with `[server.fuse]` it is the name of a file, and no file is called so";
            return Err(Complaint::new(&["volume", &volume.name], "", why));
        }
    }
    Ok(())
}

/// Whether a file can be called so.
fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains('/') && name.len() <= FILE_NAME_BYTES
}

impl Fuse {
    /// Looks whether the folders are there.
    ///
    /// # Errors
    /// The first [`Complaint`], with what would be right.
    pub fn look(&self) -> Result<(), Complaint> {
        let missing = format!("make it first: `mkdir -p {}`", self.mount.display());
        folder("mount", &self.mount, &missing)?;
        let elsewhere = "cgroups are in `/sys/fs/cgroup` nearly everywhere; `mount -t cgroup2` \
                         says where else";
        self.cgroups.as_ref().map_or(Ok(()), |root| folder("cgroups", root, elsewhere))
    }
}

fn folder(key: &str, path: &Path, remedy: &str) -> Result<(), Complaint> {
    let why = match path.metadata() {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "it is not a folder".to_owned(),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT) => format!("there is no such folder; {remedy}"),
            // A server that was killed leaves its mount behind; the next one unmounts it.
            Some(libc::ENOTCONN) => return Ok(()),
            _ => format!("it cannot be looked at: {error}"),
        },
    };
    Err(Complaint::new(&["server", "fuse", key], path.display(), why))
}
