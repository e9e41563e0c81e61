// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots: pictures of one run or several, as SVG.
//!
//! * [`Kind::QueueDepth`]: how many requests the device had, a line for each run.
//! * [`Kind::Access`]: which places of the device were accessed when, dots in a field for each run.
//!
//! A picture is a function of the records and labels alone: whole numbers until they are written,
//! no font is measured, nothing of the host gets in. Equal runs give equal bytes.
//!
//! Colours are those of Okabe and Ito (2008), made to be told apart by everyone; yellow is left
//! out because the ground is white. A title and a description in words stand in each picture for
//! those who do not see it.
//!
//! The pictures are those of a mailing-list thread of April 2010 (seed 001), which argued with
//! them; iowatcher draws the same (spec `trace.md` 4).

mod access;
mod axis;
mod depth;
mod frame;
mod svg;

use crate::record::{AccessRecord, DepthRecord, Recorder};

/// What can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requests that were issued and not completed, over time.
    QueueDepth,
    /// Accessed places of the device over time.
    Access,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 2] = [Kind::QueueDepth, Kind::Access];

    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::QueueDepth => "queue-depth",
            Kind::Access => "access",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Has the recorder keep what this picture needs.
    pub fn record(self, recorder: &mut Recorder) {
        match self {
            Kind::QueueDepth => recorder.depth = Some(DepthRecord::default()),
            Kind::Access => recorder.access = Some(AccessRecord::default()),
        }
    }
}

/// One run of a picture.
#[derive(Debug, Clone)]
pub struct Run {
    /// What tells it from the others, as `noop` or `noop, 8 jobs`.
    pub label: String,
    /// The names of its clients, by their index.
    pub clients: Vec<String>,
    /// What was kept of it.
    pub recorder: Recorder,
}

/// The picture of this kind of these runs, as an SVG document. `subject` says what ran, as
/// `tiotest on hdd-7200`. A run without the record that the kind needs is left out.
#[must_use]
pub fn draw(kind: Kind, subject: &str, runs: &[Run]) -> String {
    match kind {
        Kind::QueueDepth => depth::draw(subject, runs),
        Kind::Access => access::draw(subject, runs),
    }
}
