// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares over time: which part of all bytes was each one's, in each span.
//!
//! ```text
//! 100 % | ────┐                 one alone has all of it
//!  50 % |     ├──────           then two have a half each; where nothing was done there is no line
//!   0 % | ────┘
//! ```
//!
//! The lines of a span sum to 100 %, except for rounding: less than 0.1 % for each line.

use paternoster_core::Nanos;

use super::axis::{Axis, PERCENT, TIMES, decimal};
use super::chart::{Bar, CURVES_MANY, Chart, Curve, Plane};
use super::depth::spans;
use super::frame::{Entry, Look, Words, time_title};
use super::{Picture, Run};
use crate::record::FlowRecord;

const POINTS_MAX: usize = 64;
const HEIGHT: i64 = 300;
/// All of it, in thousandths of a per cent.
const WHOLE: u64 = 100_000;

/// The picture, with a line for each of `runs`, which are the clients that share the device.
#[must_use]
pub fn shares(subject: &str, runs: &[Run]) -> Picture {
    let kept = runs.iter().filter_map(|run| Some((run.label.as_str(), run.recorder.flow.clone()?)));
    let (labels, mut records): (Vec<&str>, Vec<FlowRecord>) = kept.unzip();
    let size = |record: &FlowRecord| (record.width(), record.buckets().len());
    let points = if records.len() > CURVES_MANY { POINTS_MAX / 2 } else { POINTS_MAX };
    super::even(&mut records, points, size, FlowRecord::halve);
    let bytes: Vec<Vec<u64>> = records.iter().map(bytes).collect();
    let longest = bytes.iter().map(Vec::len).max().unwrap_or(0);
    let at = |own: &[u64], nth: usize| own.get(nth).copied().unwrap_or(0);
    let sums: Vec<u64> =
        (0..longest).map(|nth| bytes.iter().map(|own| at(own, nth)).sum()).collect();
    let all: u64 = sums.iter().sum();
    let width = records.first().map_or(Nanos(1), FlowRecord::width);
    let curve = |(nth, (label, own)): (usize, (&&str, &Vec<u64>))| Curve {
        look: Look::of(nth),
        label: (*label).to_owned(),
        bars: (0..longest).map(|nth| bar(at(own, nth), sums[nth], nth as u64, width)).collect(),
    };
    let curves: Vec<Curve> = labels.iter().zip(&bytes).enumerate().map(curve).collect();
    let entry = |(nth, (label, own)): (usize, (&&str, &Vec<u64>))| Entry {
        look: Look::of(nth),
        label: (*label).to_owned(),
        figures: said(part(own.iter().sum(), all).unwrap_or(0)),
    };
    let legend: Vec<Entry> = labels.iter().zip(&bytes).enumerate().map(entry).collect();
    let parts = legend.iter().map(|entry| format!(" {}: {}.", entry.label, entry.figures));
    let description = format!(
        "The part of all bytes that was each one's, over time.{}",
        parts.collect::<String>()
    );
    let words = Words {
        title: "Share of bytes",
        subject,
        description,
        caption: format!("parts of what was read and written in {width}"),
    };
    let end = records.iter().map(|record| record.end().0).max().unwrap_or(0);
    let time = Axis::new(0, end, 12, 1, &TIMES);
    let up = Axis::new(0, WHOLE, 6, 1, &PERCENT);
    Chart {
        words,
        legend,
        across: (time, time_title(&time)),
        up: (up, up.unit().to_owned()),
        cells: spans(width, longest),
        planes: vec![Plane { heading: None, up: None, curves }],
        height: HEIGHT,
        wide: true,
        nothing: Some("nothing was read or written"),
    }
    .draw()
}

/// What was read and written in each span.
fn bytes(record: &FlowRecord) -> Vec<u64> {
    record.buckets().map(|[read, written]| read.bytes + written.bytes).collect()
}

fn part(own: u64, all: u64) -> Option<u64> {
    let part = u128::from(own) * u128::from(WHOLE) / u128::from(Some(all).filter(|all| *all > 0)?);
    u64::try_from(part).ok()
}

fn said(part: u64) -> String {
    format!("{} %", decimal(part, 1_000, 1))
}

fn bar(own: u64, all: u64, nth: u64, width: Nanos) -> Option<Bar> {
    let value = part(own, all)?;
    let (from, to) = (nth * width.0, (nth + 1) * width.0);
    Some(Bar { from, to, value, shade: (value, value), said: said(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a part relative to what there is, and absent where there is nothing? 1 of 3 is 33.3 %.
    #[test]
    fn parts_by_hand() {
        assert_eq!(part(4096, 12_288).map(said), Some("33.3 %".to_owned()));
        assert_eq!(part(7, 7), Some(WHOLE));
        assert_eq!(part(0, 0), None);
    }
}
