// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reload: a loop takes a new configuration while its clients are at work.
//!
//! ```text
//! reload ──Look──▶ loop   what its queue is like, whether there is room     (nothing changes)
//!        ◀─Seen──┘
//!        ──Take──▶ loop   tree, rules, scheduler, limits: between two of its rounds
//!                   └──▶  clients that now belong elsewhere: reading from them stops, and when
//!                         their requests have ended they move
//! ```
//!
//! A client that moves does so at a request boundary: its memory, places and I/Os belong to its
//! tenant, and at that point it has none.
//!
//! Invariants: I1 what was accepted is answered, whichever tenant's its client is meanwhile; I2 a
//! client that moves holds nothing; I3 what `Look` has checked is enough for `Take`.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use paternoster_core::{DeviceFacts, Limits};

use super::geometry::Line;
use super::volumes::{Coming, Going};
use crate::config::Config;
use crate::device::{Backend, NewFile};
use crate::nbd::ExportFacts;

/// What a loop is asked about another configuration.
#[derive(Debug)]
pub struct Reload {
    /// The configuration, and which of its devices this loop is.
    pub config: Arc<Config>,
    /// See there.
    pub device: usize,
    /// The step.
    pub step: Step,
}

/// A step of a reload.
#[derive(Debug)]
pub enum Step {
    /// Changes nothing: answers what its queue is like, or why the configuration cannot be taken.
    Look {
        /// Files that are to come.
        files: Vec<NewFile>,
        /// Where the answer is sent.
        answer: Sender<Result<Seen, String>>,
    },
    /// Takes it. These are all attributes under its scheduler; those that cannot be set now come
    /// back, by name.
    Take(Box<Take>, Sender<Result<Taken, String>>),
}

/// What a loop takes over besides the configuration.
#[derive(Debug, Default)]
pub struct Take {
    /// The attributes of the queue: names and values.
    pub attributes: Vec<(String, String)>,
    /// Volumes that are removed, then those that are added.
    pub going: Vec<Going>,
    /// See there.
    pub coming: Vec<Coming>,
    /// Where files are after the reload.
    pub line: Line,
}

/// The state after a reload that was taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    /// Keys of the device that could not be changed after all.
    pub later: Vec<String>,
    /// What clients are told of its volumes.
    pub exports: Vec<ExportFacts>,
}

/// What attributes and volumes are checked against.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Where files are.
    pub line: Line,
    /// The queue's device.
    pub facts: DeviceFacts,
    /// Limits of the loop.
    pub limits: Limits,
}

/// Whether a backend can have more files.
pub(super) fn has_room(backend: &dyn Backend, files: &[NewFile]) -> Result<(), String> {
    if files.is_empty() || backend.can_add(files) {
        return Ok(());
    }
    let how = backend.describe();
    Err(format!(
        "it ({how}) cannot have {} more volumes of this kind until the next start",
        files.len()
    ))
}
