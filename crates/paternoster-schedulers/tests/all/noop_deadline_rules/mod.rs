// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of noop, deadline and mq-deadline, one by one: NOOP-1, NOOP-2, DL-1 to DL-10; their
//! attributes and those of the queue; and deadlines in the ticks of a kernel.
//!
//! Each test is named after its rule in `docs/rules` and opens with the question it
//! answers.

mod attributes;
mod classes;
mod deadline;
mod noop;

use paternoster_core::{Action, Bio, Class, ClientId, ClientSpec, Flags, Note, Op, SubmitError};

use crate::common::driver::{Rig, disk, runs};

const DEADLINES: [&str; 3] = ["deadline", "mq-deadline", "mq-deadline-6.8"];
const MODERN: [&str; 2] = ["mq-deadline", "mq-deadline-6.8"];

/// A disk of depth 1 with room for many requests.
fn rig(elevator: &str) -> (Rig, ClientId) {
    let mut rig = Rig::new(disk(1), elevator);
    if elevator != "none" {
        rig.set("nr_requests", if elevator.starts_with("mq") { "384" } else { "128" });
    }
    let client = rig.client();
    (rig, client)
}

fn aged(rig: &Rig) -> usize {
    let notes = &rig.queue.observer().notes;
    notes.iter().filter(|note| matches!(note, Note::Aged { .. })).count()
}

fn batches(rig: &Rig) -> Vec<(bool, bool)> {
    let notes = rig.queue.observer().notes.iter();
    notes
        .filter_map(|note| match *note {
            Note::BatchBegins { writes, from_fifo } => Some((writes, from_fifo)),
            _ => None,
        })
        .collect()
}
