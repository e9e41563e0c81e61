// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors: how many files may be open, and for how many connections that suffices.
//!
//! ```text
//! limit 1024    | open at the start: 40 | connections: 936 | 48: control, metrics, in passing |
//! ```
//!
//! The soft limit is often 1024, and one that a process may raise by itself: it is raised as far as
//! the configuration needs. A descriptor that is missing for `ctl list` or `/healthz` is missing
//! when it is needed most: 16 of each may come at a time, and 16 more are for what is open for a
//! moment (a process's cgroup, a trace, a pause file).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept from connections.
pub(crate) const RESERVE: u32 = 32 + 16;

/// Raises the soft limit to what this many connections need, as far as allowed; returns how many of
/// them fit, and the limit as it is then.
pub(crate) fn make_room(connections: u32) -> (u32, u64) {
    let (open, limit) = (open_now(), getrlimit(Resource::Nofile));
    let needed = u64::from(open) + u64::from(RESERVE) + u64::from(connections);
    if limit.current.is_some_and(|current| current < needed) {
        let current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        let _as_it_was = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (fit(limit, open, connections), limit)
}

/// Connections that fit, at least one.
fn fit(limit: u64, open: u32, connections: u32) -> u32 {
    let room = limit.saturating_sub(u64::from(open) + u64::from(RESERVE));
    u32::try_from(room).unwrap_or(u32::MAX).clamp(1, connections.max(1))
}

/// Files that are open now; where the system does not say, a guess.
fn open_now() -> u32 {
    const GUESS: u32 = 64;
    let listed = std::fs::read_dir("/proc/self/fd").map(Iterator::count);
    listed.ok().and_then(|count| u32::try_from(count).ok()).unwrap_or(GUESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the example of the essay hold, and is one connection always let in?
    #[test]
    fn what_fits() {
        assert_eq!(fit(1024, 40, 4096), 936);
        assert_eq!(fit(1024, 40, 100), 100);
        assert_eq!(fit(u64::MAX, 40, 4096), 4096);
        assert_eq!(fit(64, 60, 4096), 1);
    }
}
