// SPDX-License-Identifier: MIT OR Apache-2.0
//! Callers: which process a thread belongs to, its ionice, and the weights of its cgroups.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use paternoster::Priority;

use crate::config::Fuse;

/// A process that does I/O, as the scheduler sees it. Two threads of one process with different
/// ionice are two callers, as they are two queues to the kernel's schedulers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Process number; 0: the kernel, or a process that is not seen from here.
    pub pid: u32,
    /// When it was started, in ticks since boot (tells it from another of the same number).
    pub started: u64,
    /// The user it acts for.
    pub uid: u32,
    /// What `ps` calls it; may be empty.
    pub name: String,
    /// Class and level that count, after what is allowed.
    pub priority: Priority,
    /// Its cgroup below the configured root, `/a/b`; empty if cgroups do not count.
    pub cgroup: String,
    /// Weight of each cgroup on the way to it, from the top, 1 to 10000: of `/a`, of `/a/b`.
    pub weights: Vec<u32>,
}

/// Who calls: asked for each request, answered from a bounded memory.
#[derive(Debug)]
pub struct Callers {
    _settings: Fuse,
}

impl Callers {
    /// `proc_root` is `/proc`, or what a test has in its place.
    #[must_use]
    pub fn new(settings: Fuse, _proc_root: PathBuf) -> Callers {
        Callers { _settings: settings }
    }

    /// Who the thread is, which acts for this user. The same `Arc` as long as nothing has changed.
    ///
    /// A thread that is known is believed to be what it was for a second; one that has gone is
    /// still answered for from memory, and else with `None`.
    pub fn of(&mut self, _thread: u32, _uid: u32, _now: Instant) -> Option<Arc<Caller>> {
        None
    }
}
