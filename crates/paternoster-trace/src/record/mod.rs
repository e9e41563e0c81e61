// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records: the events of a run or of a trace, in memory with a stated limit.
//!
//! ```text
//! events of a run ──▶ Recorder ────────────┐         ┌─▶ depth
//!                                          ├─ steps ─┼─▶ access
//! records of a trace ─▶ FromTrace ─────────┘         ├─▶ flow
//!                        (Journeys: which D a C ends)└─▶ latency
//! ```
//!
//! Long runs are kept coarser, not cut: when a record is full, neighbours are joined and sums stay
//! the same. The contents depend on the events alone.

mod access;
mod buckets;
mod clients;
mod depth;
mod flow;
mod journeys;
mod latency;
mod step;
mod trace;
mod turns;

pub use access::{Access, AccessRecord, CELLS_MAX, CLIENTS_KEPT, Shelf};
pub use buckets::{Buckets, Join};
pub use clients::{ByClient, CLIENTS_APART};
pub use depth::{BUCKETS_MAX, Bucket, DepthRecord};
pub use flow::{Amount, Flow, FlowRecord, Stage};
pub use journeys::Journeys;
pub use latency::{LATENCY_BUCKETS_MAX, Latencies, LatencyRecord, Way};
use paternoster_core::{Event, Nanos, Note, Observer};
pub use paternoster_measure::{CELLS, Cell, CoarseHistogram, PARTS};
pub use step::{Step, StepKind};
pub use trace::{DEVICES_MAX, Devices, FromTrace};
pub use turns::{CHARGED, Charges, FoundTurns, IDLE, KEPT, OTHERS, Turn, Turns, slot};

/// The requested records; without any it is one branch for each event.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    /// How many commands the device had.
    pub depth: Option<DepthRecord>,
    /// Which sectors went to the device.
    pub access: Option<AccessRecord>,
    /// How much was read and written.
    pub flow: Option<FlowRecord>,
    /// How long it took.
    pub latency: Option<LatencyRecord>,
    /// What latencies are measured by.
    journeys: Journeys,
}

impl Recorder {
    /// Whether anything was requested.
    #[inline]
    #[must_use]
    pub const fn listens(&self) -> bool {
        self.depth.is_some()
            || self.access.is_some()
            || self.flow.is_some()
            || self.latency.is_some()
    }

    /// Takes a final step: its client and its duration are known as far as they ever will be.
    pub fn step(&mut self, step: &Step) {
        if let Some(depth) = &mut self.depth {
            depth.step(step);
        }
        if let Some(access) = &mut self.access {
            access.step(step);
        }
        if let Some(flow) = &mut self.flow {
            flow.step(step);
        }
        if let Some(latency) = &mut self.latency {
            latency.step(step);
        }
    }

    /// Takes a step of a run. Only latencies need to know what belongs together: in a run every
    /// request that comes back was issued.
    fn run_step(&mut self, step: Step) {
        if self.latency.is_none() {
            return self.step(&step);
        }
        let mut journeys = core::mem::take(&mut self.journeys);
        // The client of an event is the request's own.
        let client = step.client;
        journeys.follow(0, step, |step| match step.kind {
            StepKind::Done => self.step(step),
            _ => self.step(&Step { client, ..*step }),
        });
        self.journeys = journeys;
    }
}

impl Observer for Recorder {
    #[inline]
    fn event(&mut self, event: &Event) {
        if !self.listens() {
            return;
        }
        if let Some(step) = Step::of(event) {
            self.run_step(step);
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}
