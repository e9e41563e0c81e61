// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histogram of latencies: which part of the requests took how long.
//!
//! The axis of latencies is logarithmic and so are the bars: 4, 8 or 16 for each power of two,
//! fewer the more there are to be drawn. Heights are fractions of all requests of the curve, so
//! that runs of different length can be compared; a curve's bars add up to 100 %.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use paternoster_core::Nanos;

use super::axis::{Axis, PERCENT, TIMES, ratio};
use super::chart::{Bar, Chart};
use super::frame::Words;
use super::ways::{Ways, short};
use super::{Picture, Run};
use crate::record::{CELLS, CoarseHistogram, PARTS};

/// In a picture of up to this many cells of a record, this many of them make a bar.
const JOINED: [(usize, usize); 3] = [(64, 1), (128, 2), (usize::MAX, 4)];
/// A whole, in thousandths of a percent.
const WHOLE: u64 = 100_000;
/// Where the first cell of all is drawn from, in nanoseconds.
const LEAST: u64 = 500;

/// Cells of records that are a bar: from where to where, by their number.
type Cells = BTreeMap<usize, (u64, u64)>;

/// The picture.
pub(super) fn picture(subject: &str, runs: &[Run]) -> Picture {
    let ways = Ways::new(subject, runs);
    let all = || ways.totals.iter().flatten().flatten();
    let joined = joined(all());
    let cells = cells(all(), joined);
    let (planes, height) = ways.planes(|run, way, direction| {
        bars(&ways.totals[run][way as usize][direction], &cells, joined)
    });
    let curves = planes.iter().flat_map(|plane| &plane.curves);
    let bars = curves.flat_map(|curve| curve.bars.iter().flatten());
    let highest = bars.map(|bar| bar.value).max().unwrap_or(WHOLE);
    let ticks = if planes.len() > 1 { 5 } else { 8 };
    let highest = highest.saturating_add(highest / 20);
    let up = Axis::new(0, highest, ticks, 1, &PERCENT).rounded();
    // The first cell begins at nothing, which has no place on the axis.
    let least = cells.values().map(|cell| cell.0.max(LEAST)).min().unwrap_or(1_000_000);
    let most = all().map(|all| all.most().0).max().filter(|most| *most > 0).unwrap_or(10_000_000);
    let across = Axis::logarithmic(least, most, 14, &TIMES);
    let named = |(from, to): &(u64, u64)| {
        let words = [*from, *to].map(|edge| short(Nanos(edge)));
        (*from, *to, words.join(" to "))
    };
    Chart {
        words: words(&ways),
        legend: ways.legend.clone(),
        across: (across, "latency".to_owned()),
        up: (up, "% of requests".to_owned()),
        cells: cells.values().map(named).collect(),
        planes,
        height,
        wide: false,
        nothing: Some("no request came back"),
    }
    .draw()
}

/// How many cells make a bar, for the span of all of them.
fn joined<'a>(all: impl Iterator<Item = &'a CoarseHistogram>) -> usize {
    let places: Vec<usize> = all.flat_map(CoarseHistogram::cells).map(|cell| cell.place).collect();
    let first = places.iter().min().copied().unwrap_or(0);
    let last = places.iter().max().copied().unwrap_or(0);
    JOINED.iter().find(|(most, _)| last - first <= *most).map_or(1, |(_, joined)| *joined)
}

/// Which bar a cell belongs to; the first and the last cell are bars of their own.
const fn bar_of(place: usize, joined: usize) -> usize {
    match place {
        0 => 0,
        _ if place == CELLS - 1 => usize::MAX,
        _ => 1 + (place - 1) / joined,
    }
}

/// Every bar between the first and the last.
fn cells<'a>(all: impl Iterator<Item = &'a CoarseHistogram>, joined: usize) -> Cells {
    debug_assert!(PARTS.is_multiple_of(joined), "no bar reaches over a power of two");
    let mut cells = Cells::new();
    for cell in all.flat_map(CoarseHistogram::cells) {
        let (from, to) = (cell.from.0, cell.to.0);
        let span = cells.entry(bar_of(cell.place, joined)).or_insert((from, to));
        *span = (span.0.min(from), span.1.max(to));
    }
    cells
}

/// The curve of a histogram over these cells.
fn bars(histogram: &CoarseHistogram, cells: &Cells, joined: usize) -> Vec<Option<Bar>> {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    for cell in histogram.cells() {
        *counts.entry(bar_of(cell.place, joined)).or_default() += cell.count;
    }
    let whole = u128::from(histogram.count());
    let bar = |(place, &(from, to)): (&usize, &(u64, u64))| {
        let count = counts.get(place).copied().unwrap_or(0);
        let part = u128::from(count) * u128::from(WHOLE) / whole.max(1);
        let value = u64::try_from(part).unwrap_or(u64::MAX);
        let said = match count {
            0 => String::new(),
            _ => format!("{} %, {count} of {whole}", ratio(part, 1_000, 2)),
        };
        (whole > 0).then_some(Bar { from, to, value, shade: (0, value), said })
    };
    cells.iter().map(bar).collect()
}

fn words<'a>(ways: &'a Ways<'_>) -> Words<'a> {
    let mut description = "Which part of the requests took how long.".to_owned();
    for entry in &ways.legend {
        let _infallible = write!(description, " {}: {}.", entry.label, entry.figures);
    }
    let caption = "heights: parts of all requests of the curve".to_owned();
    Words { title: "Latency, by frequency", subject: &ways.subject, description, caption }
}
