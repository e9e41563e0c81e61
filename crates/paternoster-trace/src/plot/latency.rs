// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency over time: the mean of requests that ended in each span, and a shade up to their 99th
//! percentile.
//!
//! ```text
//! 100 ms |     ▒▒▒           logarithmic: a starved request does not flatten all others,
//!  10 ms | ▒▒▒▒───▒▒         and a factor of two has the same height everywhere
//!   1 ms | ────   ──
//! ```
//!
//! Where nothing ended there is no line.

use std::fmt::Write as _;

use paternoster_core::Nanos;

use super::axis::{Axis, TIMES};
use super::chart::{BANDS_MAX, Bar, CURVES_MANY, Chart};
use super::depth::spans;
use super::frame::{Words, time_title};
use super::ways::{Ways, short};
use super::{Picture, Run};
use crate::record::{LatencyRecord, Way};

const POINTS_MAX: usize = 128;

/// The picture.
pub(super) fn picture(subject: &str, runs: &[Run]) -> Picture {
    let mut ways = Ways::new(subject, runs);
    let size = |record: &LatencyRecord| (record.width(), record.buckets().len());
    let points = if ways.records.len() > CURVES_MANY { POINTS_MAX / 2 } else { POINTS_MAX };
    super::even(&mut ways.records, points, size, LatencyRecord::halve);
    let (planes, height) =
        ways.planes(|run, way, direction| bars(&ways.records[run], way, direction));
    let curves = || planes.iter().flat_map(|plane| &plane.curves);
    let shaded = planes.iter().all(|plane| plane.curves.len() <= BANDS_MAX);
    let bars = || curves().flat_map(|curve| curve.bars.iter().flatten());
    let lowest = bars().map(|bar| bar.value).min().unwrap_or(1_000_000);
    let top = |bar: &Bar| if shaded { bar.shade.1 } else { bar.value };
    let highest = bars().map(top).max().unwrap_or(10_000_000);
    // A label for every 20 pixels.
    let ticks = usize::try_from(height / 20).unwrap_or(0);
    let up = Axis::logarithmic(lowest, highest, ticks, &TIMES);
    let end = ways.records.iter().map(|record| record.end().0).max().unwrap_or(0);
    let time = Axis::new(0, end, 12, 1, &TIMES);
    let longest = ways.records.iter().map(|record| record.buckets().len()).max().unwrap_or(0);
    let width = ways.records.first().map_or(Nanos(1), LatencyRecord::width);
    let words = words(&ways, shaded);
    Chart {
        words,
        legend: ways.legend.clone(),
        across: (time, time_title(&time)),
        up: (up, "latency".to_owned()),
        cells: spans(width, longest),
        planes,
        height,
        wide: false,
        nothing: Some("no request came back"),
    }
    .draw()
}

/// Mean and 99th percentile of each span.
fn bars(record: &LatencyRecord, way: Way, direction: usize) -> Vec<Option<Bar>> {
    let width = record.width().0;
    let bar = |(latencies, nth): (&crate::record::Latencies, u64)| {
        let all = latencies.of(way, direction == 1);
        let (mean, tail) = (all.mean(), all.permille(990));
        let from = nth.saturating_mul(width);
        (all.count() > 0).then(|| Bar {
            from,
            to: from.saturating_add(width).min(record.end().0),
            value: mean.0,
            shade: (mean.0, tail.0.max(mean.0)),
            said: format!("mean {}, 99 % {}, {} of them", short(mean), short(tail), all.count()),
        })
    };
    record.buckets().iter().zip(0..).map(bar).collect()
}

fn words<'a>(ways: &'a Ways<'_>, shaded: bool) -> Words<'a> {
    let mut description = "How long requests took, over the time at which they ended.".to_owned();
    for entry in &ways.legend {
        let _infallible = write!(description, " {}: {}.", entry.label, entry.figures);
    }
    let width = ways.records.first().map(LatencyRecord::width).unwrap_or_default();
    let above = if shaded { "; shaded: up to what 99 of 100 did not exceed" } else { "" };
    let caption = format!("line: mean over {width}{above}");
    Words { title: "Latency", subject: &ways.subject, description, caption }
}
