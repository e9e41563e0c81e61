// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue depth over time: a line in steps for each run, its mean; above it, faintly, how high it
//! went.
//!
//! Runs of different length have buckets of different width. All are brought to the widest, and on
//! until the longest run has at most [`POINTS_MAX`] of them, so that lines are as smooth as each
//! other. With more than [`BANDS_MAX`] runs there are only lines.

use std::fmt::Write as _;

use paternoster_core::Nanos;

use super::axis::{Axis, REQUESTS, TIMES, ratio};
use super::chart::{BANDS_MAX, Bar, Chart, Curve, Plane};
use super::frame::{Entry, Look, Words, time_title};
use super::{Picture, Run};
use crate::record::{Bucket, DepthRecord};

const POINTS_MAX: usize = 256;
const HEIGHT: i64 = 380;

/// The picture.
pub(super) fn picture(subject: &str, runs: &[Run]) -> Picture {
    let kept =
        runs.iter().filter_map(|run| Some((run.label.as_str(), run.recorder.depth.as_ref()?)));
    let (labels, records): (Vec<&str>, Vec<&DepthRecord>) = kept.unzip();
    let records = alike(&records);
    let entry = |(nth, label): (usize, &&str)| Entry {
        look: Look::of(nth),
        label: (*label).to_owned(),
        figures: figures(&records[nth]),
    };
    let legend: Vec<Entry> = labels.iter().enumerate().map(entry).collect();
    let bands = records.len() <= BANDS_MAX;
    let words = words(subject, &legend, &records, bands);
    let end = records.iter().map(|record| record.end().0).max().unwrap_or(0);
    let time = Axis::new(0, end, 12, 1, &TIMES);
    let highest = highest(&records, bands);
    // Some room above the highest line.
    let highest = highest.saturating_add(highest / 20);
    let requests = Axis::new(0, highest, 8, 1_000, &REQUESTS).rounded();
    let curve = |(entry, record): (&Entry, &DepthRecord)| Curve {
        look: entry.look,
        label: entry.label.clone(),
        bars: bars(record).map(Some).collect(),
    };
    let curves = legend.iter().zip(&records).map(curve).collect();
    let width = records.first().map_or(Nanos(1), DepthRecord::width);
    let longest = records.iter().map(|record| record.buckets().len()).max().unwrap_or(0);
    Chart {
        words,
        legend,
        cells: spans(width, longest),
        across: (time, time_title(&time)),
        up: (requests, "requests in the device".to_owned()),
        planes: vec![Plane { heading: None, up: None, curves }],
        height: HEIGHT,
        wide: true,
        nothing: None,
    }
    .draw()
}

/// This many spans of time of this width, with descriptions.
pub(super) fn spans(width: Nanos, count: usize) -> Vec<(u64, u64, String)> {
    let begins = (0_u64..).map(|nth| nth.saturating_mul(width.0)).take(count);
    begins
        .map(|begin| {
            let end = begin.saturating_add(width.0);
            (begin, end, format!("{} to {}", Nanos(begin), Nanos(end)))
        })
        .collect()
}

/// All records with buckets of one width.
fn alike(records: &[&DepthRecord]) -> Vec<DepthRecord> {
    let mut records: Vec<DepthRecord> = records.iter().map(|&record| record.clone()).collect();
    super::even(
        &mut records,
        POINTS_MAX,
        |record| (record.width(), record.buckets().len()),
        DepthRecord::halve,
    );
    records
}

/// The highest value that is drawn, in thousandths of a request.
fn highest(records: &[DepthRecord], bands: bool) -> u64 {
    let of = |record: &DepthRecord| {
        let means = bars(record).map(|bar| bar.value).max().unwrap_or(0);
        if bands { u64::from(record.max()) * 1_000 } else { means }
    };
    records.iter().map(of).max().unwrap_or(0)
}

/// Each bucket with its mean and maximum, in thousandths of a request.
fn bars(record: &DepthRecord) -> impl Iterator<Item = Bar> + '_ {
    let (width, end) = (record.width().0, record.end().0);
    let starts = (0..).map(move |nth: u64| nth * width);
    let bar = move |(bucket, from): (&Bucket, u64)| {
        // A value counted at the very end of a run has no length.
        let length = width.min(end.saturating_sub(from));
        let mean = bucket.area * 1_000 / u128::from(length.max(1));
        let value = u64::try_from(mean).unwrap_or(u64::MAX);
        let most = u64::from(bucket.max) * 1_000;
        let said = format!("mean {}, most {}", ratio(mean, 1_000, 2), bucket.max);
        Bar { from, to: from + length, value, shade: (value, most), said }
    };
    record.buckets().iter().zip(starts).map(bar)
}

fn figures(record: &DepthRecord) -> String {
    let mean = ratio(record.area(), record.end().0.into(), 2);
    format!("mean {mean}, most {}, over {}", record.max(), record.end())
}

fn words<'a>(
    subject: &'a str,
    legend: &[Entry],
    records: &[DepthRecord],
    bands: bool,
) -> Words<'a> {
    let mut description =
        "Requests that were issued to the device and not completed, over time.".to_owned();
    for entry in legend {
        let _infallible = write!(description, " {}: {}.", entry.label, entry.figures);
    }
    let width = records.first().map(DepthRecord::width).unwrap_or_default();
    let above = if bands { "; shaded: up to the most at any instant of it" } else { "" };
    let caption = format!("line: mean over {width}{above}");
    Words { title: "Queue depth", subject, description, caption }
}
