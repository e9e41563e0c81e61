// SPDX-License-Identifier: MIT OR Apache-2.0
//! Callers: which process a thread belongs to, its ionice, and the weights of its cgroups.
//!
//! Every request of FUSE says which thread made it and for which user, and nothing else. The rest
//! is asked of the system, once a second for each thread, and remembered:
//!
//! ```text
//! thread 4712, uid 1000 ─▶ known, not older than 1 s ─────────────────────────▶ the same caller
//!                            │ no
//!                            ├─ process   /proc/4712/{stat,status}: 4711, since when, "fio"
//!                            ├─ ionice    ioprio_get(4712): best effort 6
//!                            ├─ cgroup    /proc/4711/cgroup: /db.slice/pg.service
//!                            │    └─ weights [200, 50], looked at once a second for each cgroup
//!                            └─ equal to a caller that is known ──────────────▶ that one
//! ```
//!
//! What /proc tells of a process may wait until it has become another program (Linux 6.18: `stat`),
//! and that for its files to be closed: a close is answered from memory alone ([`Callers::known`]).
//!
//! A request comes late when the kernel reads ahead or writes back for a thread that has ended
//! since. Such a thread is answered for from memory, as long as it is among those used last.
//!
//! K1  Within [`TTL`] of a look at a thread, no system call is made for it.
//! K2  Equal callers are one `Arc`, through whichever threads they come: two that differ as
//!     pointers differ in something. What has not changed stays the same `Arc`.
//! K3  At most [`THREADS_MAX`] threads are remembered; the longest unused goes first. There are
//!     never more callers than threads.
//! K4  A thread that has gone stays what it was. One that is seen for the first time when it has
//!     gone is `None`, and so is thread 0 (the kernel itself).
//! K5  A changed ionice, cgroup or name counts after a second at most; a changed weight after two,
//!     and then for all threads of the cgroup at once.
//!
//! A number that another thread has got within the second is mistaken for the one before; numbers
//! go round in no less than 32768 new threads. With `/proc` mounted `hidepid` a server that is not
//! root sees its own user's processes only, and the others are `None`.
//!
//! Cost, on a shared core with ten others running: 33 ns from memory; 190 us for a look, of which a
//! file of `/proc` is 25 to 35 us (they are made when they are read). The test
//! `a_hit_costs_little` prints both.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paternoster_core::Priority;

use crate::config::Fuse;

pub mod cgroup;
mod ionice;
mod process;
mod recent;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use cgroup::Cgroups;
use process::Stat;
use recent::Recent;

/// Cached facts are believed for this long.
pub const TTL: Duration = Duration::from_secs(1);
/// Threads that are remembered.
pub const THREADS_MAX: usize = 4096;

/// A process that does I/O, as the scheduler sees it. Two threads of one process with different
/// ionice are two callers, as they are two queues to the kernel's schedulers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// Its cgroup below the configured root, `/a/b` (the root itself: `/`); empty if cgroups do not
    /// count.
    pub cgroup: String,
    /// Weight of each cgroup on the way to it, from the top, 1 to 10000: of `/a`, of `/a/b`.
    pub weights: Vec<u32>,
}

/// What the system says of a thread, or has said.
#[derive(Debug, Clone)]
struct Facts {
    /// When the thread was started, in ticks since boot.
    started: u64,
    /// Its class and level, whatever is allowed.
    asked: Priority,
    /// Whether it has ended: nothing of it changes any more.
    gone: bool,
    /// The rest; user, priority and weights are as they were last.
    caller: Caller,
}

impl Facts {
    fn ended(self) -> Facts {
        Facts { gone: true, ..self }
    }
}

/// What is remembered of a thread.
#[derive(Debug)]
struct Known {
    started: u64,
    asked: Priority,
    gone: bool,
    caller: Arc<Caller>,
    read_at: Instant,
    /// The state of the cgroups' weights that the caller's are of.
    version: u64,
}

impl Known {
    fn facts(&self) -> Facts {
        let caller = Caller::clone(&self.caller);
        Facts { started: self.started, asked: self.asked, gone: self.gone, caller }
    }

    /// Whether this is still right for the user: a cgroup that has gone keeps its weights.
    fn is(&self, uid: u32, version: u64) -> bool {
        self.caller.uid == uid && (self.gone || self.version == version)
    }
}

/// Finds the caller of each request, from a bounded cache.
#[derive(Debug)]
pub struct Callers {
    settings: Fuse,
    proc_root: PathBuf,
    ask: ionice::Ask,
    cgroups: Option<Cgroups>,
    threads: Recent<u32, Known>,
    /// Every caller that is remembered, and by how many threads (K2).
    callers: HashMap<Arc<Caller>, usize>,
}

impl Callers {
    /// `proc_root` is `/proc`, or what a test has in its place.
    #[must_use]
    pub fn new(settings: Fuse, proc_root: PathBuf) -> Callers {
        Callers::asking(settings, proc_root, ionice::of_thread)
    }

    /// For tests: reads ionice from another source.
    fn asking(settings: Fuse, proc_root: PathBuf, ask: ionice::Ask) -> Callers {
        let cgroups = settings.cgroups.as_deref().map(Cgroups::new);
        let (threads, callers) = (Recent::new(THREADS_MAX), HashMap::new());
        Callers { settings, proc_root, ask, cgroups, threads, callers }
    }

    /// The identity of a thread that acts for this user. The same `Arc` as long as nothing has
    /// changed.
    ///
    /// What is known of a thread counts for a second. A thread that has gone is answered from
    /// memory, and with `None` if it is not remembered.
    pub fn of(&mut self, thread: u32, uid: u32, now: Instant) -> Option<Arc<Caller>> {
        let version = self.version();
        let known = self.threads.get(&thread).map(|known| &*known);
        let fresh = known.filter(|known| now.duration_since(known.read_at) < TTL);
        if let Some(known) = fresh.filter(|known| known.is(uid, version)) {
            return Some(Arc::clone(&known.caller));
        }
        let (facts, read_at) = match (fresh, known.map(Known::facts)) {
            // Another user, or other weights; the thread is believed still.
            (Some(fresh), _) => (fresh.facts(), fresh.read_at),
            (None, known) => (self.look(thread, known)?, now),
        };
        Some(self.remember(thread, uid, facts, read_at, now))
    }

    /// The remembered identity of a thread that acts for this user; `/proc` is not read.
    pub fn known(&mut self, thread: u32, uid: u32) -> Option<Arc<Caller>> {
        let known = self.threads.get(&thread).map(|known| Arc::clone(&known.caller));
        known.filter(|caller| caller.uid == uid)
    }

    fn version(&self) -> u64 {
        self.cgroups.as_ref().map_or(0, Cgroups::version)
    }

    /// Asks the system; what it no longer knows is answered for by what was known.
    fn look(&self, thread: u32, known: Option<Facts>) -> Option<Facts> {
        if thread == 0 {
            return None;
        }
        let seen = Stat::read(&self.proc_root, thread);
        // The number may be another thread's by now.
        let same = |known: &Facts, seen: &Stat| known.started == seen.started;
        match (seen, known) {
            // The system forgets a thread that has ended piece by piece.
            (Some(seen), Some(known)) if same(&known, &seen) && seen.ended => Some(known.ended()),
            (Some(seen), Some(known)) if same(&known, &seen) => {
                let pid = known.caller.pid;
                self.read(thread, pid, &seen, Some(&known)).or_else(|| Some(known.ended()))
            }
            (Some(seen), known) => {
                let pid = process::process_of(&self.proc_root, thread);
                let read = pid.and_then(|pid| self.read(thread, pid, &seen, None));
                read.or_else(|| known.map(Facts::ended))
            }
            (None, known) => known.map(Facts::ended),
        }
    }

    /// The identity of a process's thread; `None` if it has gone meanwhile.
    fn read(&self, thread: u32, pid: u32, seen: &Stat, known: Option<&Facts>) -> Option<Facts> {
        let process = if pid == thread { seen.clone() } else { Stat::read(&self.proc_root, pid)? };
        let asked = ionice::priority((self.ask)(thread), seen);
        let path = |cgroups: &Cgroups| {
            let path = cgroups.path_of(&self.proc_root, thread, pid);
            let before =
                || known.map_or_else(|| "/".to_owned(), |known| known.caller.cgroup.clone());
            path.unwrap_or_else(before)
        };
        let caller = Caller {
            pid,
            started: process.started,
            uid: 0,
            name: process.name,
            priority: asked,
            cgroup: self.cgroups.as_ref().map_or_else(String::new, path),
            weights: Vec::new(),
        };
        Some(Facts { started: seen.started, asked, gone: false, caller })
    }

    /// Completes the caller, and remembers the thread.
    fn remember(
        &mut self,
        thread: u32,
        uid: u32,
        facts: Facts,
        read_at: Instant,
        now: Instant,
    ) -> Arc<Caller> {
        let Facts { started, asked, gone, mut caller } = facts;
        caller.uid = uid;
        caller.priority = ionice::allowed(asked, uid, &self.settings.realtime);
        if let Some(cgroups) = self.cgroups.as_mut().filter(|_| !gone) {
            caller.weights = cgroups.weights_of(&caller.cgroup, now);
        }
        let caller = self.one_of(caller);
        let known = Known {
            started,
            asked,
            gone,
            caller: Arc::clone(&caller),
            read_at,
            version: self.version(),
        };
        if let Some(before) = self.threads.put(thread, known) {
            self.release(&before.caller);
        }
        caller
    }

    /// The caller that is known already and equal, or this one; one thread more has it.
    fn one_of(&mut self, caller: Caller) -> Arc<Caller> {
        let known = self.callers.get_key_value(&caller).map(|(known, _)| Arc::clone(known));
        let caller = known.unwrap_or_else(|| Arc::new(caller));
        *self.callers.entry(Arc::clone(&caller)).or_insert(0) += 1;
        caller
    }

    /// A thread has let this caller go.
    fn release(&mut self, caller: &Arc<Caller>) {
        let Some(threads) = self.callers.get_mut(caller) else { return };
        *threads -= 1;
        if *threads == 0 {
            self.callers.remove(caller);
        }
    }
}
