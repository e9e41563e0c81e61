// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records: what is kept of a run's events, in memory that a stated limit bounds.
//!
//! Long runs are kept coarser, not cut: when a record is full, neighbours are put together and
//! sums stay what they were. What was kept depends on the events alone.

mod access;
mod depth;

pub use access::{Access, AccessRecord, CELLS_MAX, CLIENTS_KEPT};
pub use depth::{BUCKETS_MAX, Bucket, DepthRecord};
use paternoster::{Event, Nanos, Note, Observer};

/// The records that somebody asked for; without any it is two branches for each event.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    /// How many commands the device had.
    pub depth: Option<DepthRecord>,
    /// Which sectors went to the device.
    pub access: Option<AccessRecord>,
}

impl Observer for Recorder {
    #[inline]
    fn event(&mut self, event: &Event) {
        if let Some(depth) = &mut self.depth {
            depth.event(event);
        }
        if let Some(access) = &mut self.access {
            access.event(event);
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}
