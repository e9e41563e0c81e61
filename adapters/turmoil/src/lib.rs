// SPDX-License-Identifier: MIT OR Apache-2.0
//! paternoster-disk under turmoil: a disk of a simulated host, on which reads, writes and flushes
//! take a device's time, and which loses what a device loses when the host crashes.
//!
//! A [`SimDisk`] is a handle: the test keeps one, the host's software has a clone. When the test
//! crashes the host it crashes the disk as well, and the restarted software finds what was left:
//!
//! ```text
//! sim.host("db", || serve(disk.clone()))      sim.crash("db"); disk.crash(seed); sim.bounce("db")
//! ```
//!
//! # Time
//! The disk's time is that of the simulation ([`turmoil::sim_elapsed`]), in nanoseconds; tokio's
//! timers have steps of a millisecond, so a host learns of an end up to a millisecond late;
//! `Done::at` says when it really was. Operations it submits meanwhile are not delayed. A test that
//! must see microseconds should drive a `Disk` itself.

#[path = "../../sim_disk.rs"]
mod sim_disk;

use std::future::Future;
use std::time::Duration;

use paternoster_disk::Nanos;

pub use sim_disk::Clock;

/// The time of the simulation; `None` while the test acts, between its steps.
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
