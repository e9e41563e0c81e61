// SPDX-License-Identifier: MIT OR Apache-2.0
//! FUSE: volumes as files, so that any process is a client.
//!
//! ```text
//! process ─read, write, fsync─▶ kernel ──▶ front (a thread) ──Call──▶ loop: a connection a process
//!    ▲                                         └ callers: whose thread,      │
//!    └────────────────────── kernel ◀── answer ── its ionice, its cgroups ◀──┘
//! ```
//!
//! To a loop a process is a connection: its calls (`device_loop/calls.rs`) become I/Os, which are
//! scheduled as those of any connection. Its share comes from its cgroups, its class and level from
//! its ionice; the configuration's rules take precedence over both.
//!
//! * [`callers`]: which process a thread is of. [`call`]: what it asks, and the answer. `front`:
//!   the files. `mounted`: the folder, from start to end; `mount`: what a mount needs, in words;
//!   `helper`: what mounts for a server in its sandbox, and `place`: on what folder, whatever its
//!   path means later; `kernel`: what the kernel is told.

pub mod call;
pub mod callers;
pub(crate) mod front;
pub(crate) mod helper;
pub mod kernel;
pub(crate) mod mount;
pub(crate) mod mounted;
pub(crate) mod place;

use crate::config::{self, Config, Fuse};
use front::{File, Front};
use helper::Helper;
use mounted::Mounted;

/// Shows these volumes as files where the configuration wants them.
///
/// # Errors
/// What cannot be, in words.
pub(crate) fn show(
    config: &Config,
    settings: &Fuse,
    files: Vec<File>,
    helper: Option<Helper>,
) -> Result<Mounted, String> {
    config::fuse::check(config).map_err(|complaint| complaint.to_string())?;
    for (place, file) in files.iter().enumerate() {
        let name = &file.name;
        if files[..place].iter().any(|other| other.name == *name) {
            return Err(format!("two volumes are called {name}: they cannot be files of a folder"));
        }
    }
    crate::vital::watch_fuse();
    let front = Front::new(files, settings);
    Mounted::start(front, &settings.mount, settings.allow_other, helper)
}
