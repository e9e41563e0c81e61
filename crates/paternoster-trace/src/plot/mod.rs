// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots: pictures of one run or trace, or of several, as SVG.
//!
//! * [`Kind::QueueDepth`]: how many requests the device had, a line for each run.
//! * [`Kind::Access`]: which places of the device were accessed when, dots in a field for each run.
//! * [`Kind::Throughput`], [`Kind::Iops`]: how much was read and written in a second, over time.
//! * [`shares`]: which part of it was each client's, over time.
//! * [`Kind::Latency`], [`Kind::LatencyHistogram`]: how long it took, over time and by frequency.
//!
//! A picture depends on the records and labels alone: it is computed in whole numbers, measures no
//! font, and uses nothing of the host. Equal runs give equal bytes.
//!
//! Colours are those of Okabe and Ito (2008), made to be distinguishable by everyone; yellow is
//! left out because the ground is white. Each picture has a title and a description in words for
//! readers who cannot see it. The values at each of its places go with it ([`Picture::hover`]).
//!
//! The pictures are those of a mailing-list thread of April 2010 (seed 001), which argued with
//! them; iowatcher draws the same (TRACE-30 to TRACE-32).

mod access;
mod axis;
mod chart;
mod depth;
mod frame;
mod histogram;
mod hover;
mod latency;
#[cfg(feature = "png")]
mod png;
mod rates;
mod shares;
mod svg;
mod ways;

pub use hover::{Hover, HoverPanel, HoverSeries};
use paternoster_core::Nanos;
#[cfg(feature = "png")]
pub use png::{PngError, png};
pub use shares::shares;

use crate::record::{AccessRecord, DepthRecord, FlowRecord, LatencyRecord, Recorder};

/// What can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requests that were issued and not completed, over time.
    QueueDepth,
    /// Accessed places of the device over time.
    Access,
    /// Bytes read and written in a second, over time.
    Throughput,
    /// Requests in a second, over time.
    Iops,
    /// How long requests took, over time.
    Latency,
    /// How many requests took how long.
    LatencyHistogram,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] = [
        Kind::QueueDepth,
        Kind::Access,
        Kind::Throughput,
        Kind::Iops,
        Kind::Latency,
        Kind::LatencyHistogram,
    ];

    /// The kind's name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::QueueDepth => "queue-depth",
            Kind::Access => "access",
            Kind::Throughput => "throughput",
            Kind::Iops => "iops",
            Kind::Latency => "latency",
            Kind::LatencyHistogram => "latency-histogram",
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
            Kind::Throughput | Kind::Iops => recorder.flow = Some(FlowRecord::default()),
            Kind::Latency | Kind::LatencyHistogram => {
                recorder.latency = Some(LatencyRecord::default());
            }
        }
    }
}

/// One run of a picture, or one trace.
#[derive(Debug, Clone)]
pub struct Run {
    /// What distinguishes it from the others, such as `noop` or `noop, 8 jobs`.
    pub label: String,
    /// The names of its clients, by their index.
    pub clients: Vec<String>,
    /// Its records.
    pub recorder: Recorder,
}

/// A picture, and the values at each of its places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its title, without the subject.
    pub title: String,
    /// An SVG document.
    pub svg: String,
    /// For a page that shows values under the pointer.
    pub hover: Hover,
}

/// The picture of this kind of these runs. `subject` says what ran, such as `tiotest on hdd-7200`.
/// A run without the record that the kind needs is left out.
#[must_use]
pub fn picture(kind: Kind, subject: &str, runs: &[Run]) -> Picture {
    match kind {
        Kind::QueueDepth => depth::picture(subject, runs),
        Kind::Access => access::picture(subject, runs),
        Kind::Throughput => rates::picture(rates::Rate::Throughput, subject, runs),
        Kind::Iops => rates::picture(rates::Rate::Iops, subject, runs),
        Kind::Latency => latency::picture(subject, runs),
        Kind::LatencyHistogram => histogram::picture(subject, runs),
    }
}

/// The colour of a series, as pictures have it.
#[must_use]
pub fn colour(series: usize) -> &'static str {
    frame::Look::of(series).colour
}

/// The same as an SVG document alone.
#[must_use]
pub fn draw(kind: Kind, subject: &str, runs: &[Run]) -> String {
    picture(kind, subject, runs).svg
}

/// Brings all records to buckets of one width, and on until the longest has at most this many.
fn even<R>(
    records: &mut [R],
    points_max: usize,
    size: impl Fn(&R) -> (Nanos, usize),
    halve: impl Fn(&mut R),
) {
    loop {
        let widest = records.iter().map(|record| size(record).0).max().unwrap_or_default();
        let longest = records.iter().map(|record| size(record).1).max().unwrap_or(0);
        let even = records.iter().all(|record| size(record).0 == widest);
        if even && longest <= points_max {
            return;
        }
        let narrow = |record: &&mut R| even || size(record).0 < widest;
        records.iter_mut().filter(narrow).for_each(&halve);
    }
}
