// SPDX-License-Identifier: MIT OR Apache-2.0
//! Step: what records read, whether it was a run here or a trace of elsewhere.
//!
//! ```text
//! paternoster_core::Event ──▶ Recorder ──┐
//!                                   ├──▶ Step ──▶ DepthRecord, AccessRecord, FlowRecord …
//! blktrace records ────▶ FromTrace ─┘
//! ```
//!
//! Most letters of a journey add nothing to a record; those left are a bio's `Q`, a request's `D`,
//! `C` and `R`, and what follows from them: that a bio is done, and that something came back of
//! which nothing else is known.

use paternoster_core::{Action, Event, Nanos, Op};

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepKind {
    /// `Q`: a bio was submitted.
    Queue,
    /// `D`: a request went to the device.
    Issue,
    /// `C`: it came back; the latency is from its issue on.
    Complete,
    /// `C`: a part of one came back; the rest is still in the device.
    Part,
    /// `C`: one came back whose issue is not known, as when a trace begins in the middle.
    Stray,
    /// `R`: the device refused it; or it is no longer waited for.
    Requeue,
    /// A bio ended with the request that it was in; the latency is from its submission on.
    Done,
}

/// One step of a journey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The time.
    pub at: Nanos,
    /// The kind.
    pub kind: StepKind,
    /// Index of the client, from 0.
    pub client: u32,
    /// Everything but reads.
    pub write: bool,
    /// First sector.
    pub sector: u64,
    /// How many sectors; 0 for a flush.
    pub sectors: u32,
    /// How long it took, where that is known.
    pub latency: Option<Nanos>,
}

impl Step {
    /// The step that an event of the queue is, if it is one; latencies are not known yet.
    #[must_use]
    pub fn of(event: &Event) -> Option<Step> {
        let kind = match event.action {
            Action::Queue => StepKind::Queue,
            Action::Issue => StepKind::Issue,
            Action::Complete => StepKind::Complete,
            Action::Requeue => StepKind::Requeue,
            _ => return None,
        };
        let (at, client, write) = (event.at, event.client.index(), event.op != Op::Read);
        let (sector, sectors) = (event.sector, event.sectors);
        Some(Step { at, kind, client, write, sector, sectors, latency: None })
    }
}
