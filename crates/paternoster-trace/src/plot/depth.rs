// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue depth over time: a line in steps for each run, its mean; above it, faintly, how high it
//! went.
//!
//! ```text
//!  ▒▒▒▒                      ▒ up to the most in each bucket of time
//!  ▒▒──┐▒▒▒▒
//!  ──  └────▒▒               ─ the mean over it
//! ```
//!
//! Runs of different length have buckets of different width. All are brought to the widest, and on
//! until the longest run has at most [`POINTS_MAX`] of them, so that lines are as smooth as each
//! other. With more than [`BANDS_MAX`] runs the faint areas would hide each other and are left
//! out.

use std::fmt::Write as _;

use super::Run;
use super::axis::{Axis, REQUESTS, TIMES, ratio};
use super::frame::{Entry, Frame, Look, Panel, Sign, Words};
use super::svg::{Attributes, Px};
use crate::record::{Bucket, DepthRecord};

const POINTS_MAX: usize = 256;
const BANDS_MAX: usize = 3;
const HEIGHT: i64 = 380;
/// The narrowest step that is drawn.
const NARROWEST: Px = Px(5);

/// The picture.
pub(super) fn draw(subject: &str, runs: &[Run]) -> String {
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

    let mut frame = Frame::new(&words, Sign::Line, &legend, (1, HEIGHT, false));
    let panel = frame.panel(HEIGHT, Sign::Line, None);
    frame.axes(&panel, &requests, &time);
    let curves: Vec<Vec<Step>> =
        records.iter().map(|record| curve(record, &panel, &time, &requests)).collect();
    if bands {
        shade(&mut frame, &legend, &curves);
    }
    lines(&mut frame, &legend, &curves);
    frame.finish(&words, &time, "requests in the device", &requests)
}

/// The areas between means and maxima.
fn shade(frame: &mut Frame, legend: &[Entry], curves: &[Vec<Step>]) {
    for (entry, curve) in legend.iter().zip(curves) {
        let band = band(curve);
        let fill: Attributes<'_> =
            &[("d", &band), ("fill", &entry.look.colour), ("fill-opacity", &"0.16")];
        frame.svg.empty("path", fill);
    }
}

/// The means. Earlier lines are wider, so that those that run on top of each other stay in sight.
fn lines(frame: &mut Frame, legend: &[Entry], curves: &[Vec<Step>]) {
    for (nth, (entry, curve)) in legend.iter().zip(curves).enumerate() {
        let line = along(curve.iter().map(|step| (step.from, step.to, step.mean)), 'M');
        let above = i64::try_from(curves.len() - 1 - nth).unwrap_or(0);
        let look: Attributes<'_> = &[
            ("d", &line),
            ("fill", &"none"),
            ("stroke", &entry.look.colour),
            ("stroke-width", &Px(16 + 14 * above.min(2))),
            ("stroke-linejoin", &"round"),
            ("stroke-dasharray", &entry.look.dash),
        ];
        frame.svg.empty("path", look);
    }
}

/// All records with buckets of one width.
fn alike(records: &[&DepthRecord]) -> Vec<DepthRecord> {
    let mut records: Vec<DepthRecord> = records.iter().map(|&record| record.clone()).collect();
    loop {
        let widest = records.iter().map(DepthRecord::width).max().unwrap_or_default();
        let longest = records.iter().map(|record| record.buckets().len()).max().unwrap_or(0);
        let even = records.iter().all(|record| record.width() == widest);
        if even && longest <= POINTS_MAX {
            return records;
        }
        let narrow = |record: &&mut DepthRecord| even || record.width() < widest;
        records.iter_mut().filter(narrow).for_each(DepthRecord::halve);
    }
}

/// The highest value that is drawn, in thousandths of a request.
fn highest(records: &[DepthRecord], bands: bool) -> u64 {
    let of = |record: &DepthRecord| {
        let means = means(record).map(|(_, _, mean)| mean).max().unwrap_or(0);
        if bands { u64::from(record.max()) * 1_000 } else { means }
    };
    records.iter().map(of).max().unwrap_or(0)
}

/// Beginning and end of each bucket and its mean in thousandths of a request.
fn means(record: &DepthRecord) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
    let (width, end) = (record.width().0, record.end().0);
    let starts = (0..).map(move |nth: u64| nth * width);
    record.buckets().iter().zip(starts).map(move |(bucket, start)| {
        // What is counted at the very end of a run has no length.
        let length = width.min(end.saturating_sub(start));
        let mean = bucket.area * 1_000 / u128::from(length.max(1));
        (start, start + length, u64::try_from(mean).unwrap_or(u64::MAX))
    })
}

/// A bucket as it is drawn.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: Px,
    to: Px,
    mean: Px,
    max: Px,
}

fn curve(record: &DepthRecord, panel: &Panel, time: &Axis, requests: &Axis) -> Vec<Step> {
    let step = |(bucket, (start, end, mean)): (&Bucket, (u64, u64, u64))| Step {
        from: Panel::x(time, start),
        to: Panel::x(time, end),
        mean: panel.y(requests, mean),
        max: panel.y(requests, u64::from(bucket.max) * 1_000),
    };
    let steps = record.buckets().iter().zip(means(record)).map(step);
    // What is left of the last bucket may be too short to be seen, and its mean far off.
    steps.filter(|step| step.to.0 - step.from.0 >= NARROWEST.0).collect()
}

/// A line along these steps; `begin` moves or draws to the first of them.
fn along(steps: impl Iterator<Item = (Px, Px, Px)>, begin: char) -> String {
    let mut path = String::new();
    let mut height = None;
    let mut steps = steps.peekable();
    while let Some((from, to, y)) = steps.next() {
        match height.replace(y) {
            None => {
                let _infallible = write!(path, "{begin}{from} {y}");
            }
            Some(before) if before != y => {
                let _infallible = write!(path, "V{y}");
            }
            Some(_) => {}
        }
        // On the same height the next step draws on.
        if steps.peek().is_none_or(|next| next.2 != y) {
            let _infallible = write!(path, "H{to}");
        }
    }
    path
}

/// The outline of the area between mean and maximum.
fn band(curve: &[Step]) -> String {
    let above = curve.iter().map(|step| (step.from, step.to, step.max));
    let below = curve.iter().rev().map(|step| (step.to, step.from, step.mean));
    along(above, 'M') + &along(below, 'L') + "Z"
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
