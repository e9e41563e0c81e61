// SPDX-License-Identifier: MIT OR Apache-2.0
//! paternoster-disk under madsim: a disk of a simulated node, on which reads, writes and flushes
//! take a device's time, and which loses what a device loses when the node's power fails.
//!
//! A [`SimDisk`] is a handle; clones are the same disk: the test keeps one, the node another. After
//! `Handle::kill` the test calls [`SimDisk::crash`], then `Handle::restart`.
//!
//! # Time
//! The disk's time is that of madsim's runtime, in nanoseconds. madsim sleeps at least a
//! millisecond, like tokio, so a node learns of an end up to a millisecond late; `Done::at` says
//! when it really was.
//!
//! Needs `--cfg madsim`, as madsim does (`.cargo/config.toml` says so here); without it there is
//! no simulated time, and this does not compile.
#[cfg(not(madsim))]
compile_error!("paternoster-disk-madsim needs RUSTFLAGS='--cfg madsim', as madsim does");

#[path = "../../sim_disk.rs"]
mod sim_disk;

use std::future::Future;
use std::time::Duration;

use paternoster_disk::Nanos;

pub use sim_disk::Clock;

/// The runtime's time; `None` outside of a runtime.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimTime;

/// A disk of a simulated node. Clones are the same disk.
pub type SimDisk = sim_disk::SimDisk<SimTime>;

impl Clock for SimTime {
    fn elapsed(&self) -> Option<Nanos> {
        let elapsed = madsim::time::TimeHandle::try_current()?.elapsed();
        Some(Nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)))
    }

    async fn at_most(&self, wait: Nanos, event: impl Future<Output = ()> + Send) {
        // madsim's clock overflows before the number does.
        let wait = wait.min(Nanos::from_secs(3600 * 24 * 365));
        let _elapsed = madsim::time::timeout(Duration::from_nanos(wait.0), event).await;
    }
}
