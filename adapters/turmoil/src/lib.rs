// SPDX-License-Identifier: MIT OR Apache-2.0
//! paternoster-disk under turmoil: a disk of a simulated host, on which reads, writes and flushes
//! take a device's time, and which forgets what a device forgets when the host crashes.
//!
//! A [`SimDisk`] is a handle: the test keeps one, the host's software has a clone. When the test
//! crashes the host it crashes the disk as well, and the software that comes back finds what
//! was left:
//!
//! ```text
//! sim.host("db", || serve(disk.clone()))      sim.crash("db"); disk.crash(seed); sim.bounce("db")
//! ```
//!
//! # Time
//! The disk's time is that of the simulation ([`turmoil::sim_elapsed`]), in nanoseconds; tokio's
//! timers have steps of a millisecond, so that a host learns of an end up to one later. What
//! it submits meanwhile is not late: `Done::at` says when it really ended. A test that
//! must see microseconds drives a `Disk` itself.

#[path = "../../sim_disk.rs"]
mod sim_disk;

use std::future::Future;
use std::time::Duration;

use paternoster_disk::Nanos;

pub use sim_disk::Clock;

/// The time of the simulation; none while the test acts, between its steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimTime;

/// A disk of a simulated host. Clones are the same disk.
pub type SimDisk = sim_disk::SimDisk<SimTime>;

impl Clock for SimTime {
    fn elapsed(&self) -> Option<Nanos> {
        let elapsed = turmoil::sim_elapsed()?;
        Some(Nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)))
    }

    async fn at_most(&self, wait: Nanos, event: impl Future<Output = ()> + Send) {
        let _elapsed = tokio::time::timeout(Duration::from_nanos(wait.0), event).await;
    }
}
