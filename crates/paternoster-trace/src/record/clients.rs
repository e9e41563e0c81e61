// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients: the records of each client of one run, as if each were a run of its own.
//!
//! ```text
//! steps of a run ─▶ Journeys ─▶ whose it is ─┬─▶ Recorder of client 0
//!                                            ├─▶ Recorder of client 1
//!                                            └─▶ Recorder of the others
//! ```
//!
//! # Invariants
//! I1  There are at most [`CLIENTS_APART`] + 1 recorders, whatever a run does.

use std::collections::BTreeMap;

use paternoster_core::Event;

use super::journeys::Journeys;
use super::step::{Step, StepKind};
use super::{FlowRecord, LatencyRecord, Recorder};

/// This many clients, the first to come, have records of their own.
pub const CLIENTS_APART: usize = 15;

/// How much each client of a run read and wrote, and how long that took.
#[derive(Debug, Clone, Default)]
pub struct ByClient {
    journeys: Journeys,
    own: BTreeMap<u32, Recorder>,
    others: Option<Recorder>,
}

impl ByClient {
    /// Takes an event of the run.
    pub fn event(&mut self, event: &Event) {
        let Some(step) = Step::of(event) else { return };
        let mut journeys = core::mem::take(&mut self.journeys);
        let client = step.client;
        journeys.follow(0, step, |step| match step.kind {
            StepKind::Done => self.step(step),
            _ => self.step(&Step { client, ..*step }),
        });
        self.journeys = journeys;
    }

    fn step(&mut self, step: &Step) {
        let is_new = !self.own.contains_key(&step.client);
        let recorder = if is_new && self.own.len() >= CLIENTS_APART {
            self.others.get_or_insert_with(recorder)
        } else {
            self.own.entry(step.client).or_insert_with(recorder)
        };
        recorder.step(step);
    }

    /// Each client's recorder, and that of all others.
    #[must_use]
    pub fn finish(self) -> (Vec<(u32, Recorder)>, Option<Recorder>) {
        (self.own.into_iter().collect(), self.others)
    }
}

fn recorder() -> Recorder {
    Recorder {
        flow: Some(FlowRecord::default()),
        latency: Some(LatencyRecord::default()),
        ..Recorder::default()
    }
}
