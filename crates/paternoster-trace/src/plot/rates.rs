// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput and IOPS over time: what was read and written in each span, divided by its length.
//!
//! One run alone has a line for reads and one for writes. Several runs have a panel for each
//! direction and a line for each run; each panel has its own scale, in the same unit.
//!
//! ```text
//! | 4 MB | 3 MB | 1 MB|           10 ms wide; the last one 2 ms: 1 MB in 2 ms would be 500 MB/s,
//! 0     10     20    22 ms        so it joins the span before: 4 MB in 12 ms, 333 MB/s
//! ```
//!
//! (A run ends with a request, so its last span always has one, however short that is.)
//!
//! Spans are the same for all runs, and at most [`POINTS_MAX`]; fewer, if there were less than
//! [`REQUESTS_MIN`] requests in each of them, because a line of single requests is a comb.

use std::fmt::Write as _;

use paternoster_core::Nanos;

use super::axis::{Axis, IOPS, RATES, TIMES, Unit, ratio};
use super::chart::{Bar, CURVES_MANY, Chart, Curve, Plane};
use super::depth::spans;
use super::frame::{Entry, Look, Words, counted, time_title};
use super::{Picture, Run};
use crate::record::{Amount, FlowRecord};

const POINTS_MAX: usize = 128;
/// Not fewer than these for want of requests.
const POINTS_MIN: usize = 16;
/// A span must have this many requests, on average, in at least one run.
const REQUESTS_MIN: u64 = 4;
/// Height of a panel that is alone, and of one of two.
const HEIGHT: i64 = 380;
const HEIGHT_OF_TWO: i64 = 230;
const SECOND: u128 = 1_000_000_000;
/// Reads and writes, as an index and a word.
pub(super) const DIRECTIONS: [(usize, &str); 2] = [(0, "reads"), (1, "writes")];

/// Which of the two is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rate {
    Throughput,
    Iops,
}

impl Rate {
    const fn title(self) -> &'static str {
        match self {
            Rate::Throughput => "Throughput",
            Rate::Iops => "Requests per second",
        }
    }

    const fn units(self) -> &'static [Unit] {
        match self {
            Rate::Throughput => &RATES,
            Rate::Iops => &IOPS,
        }
    }

    /// The amount per second, in the small unit.
    fn of(self, amount: Amount, length: u64) -> u64 {
        let much = match self {
            Rate::Throughput => u128::from(amount.bytes),
            Rate::Iops => u128::from(amount.count) * 1_000,
        };
        u64::try_from(much.saturating_mul(SECOND) / u128::from(length.max(1))).unwrap_or(u64::MAX)
    }

    /// A rate with its unit.
    fn words(self, rate: u64) -> String {
        let units = self.units();
        // Thousands of requests are written out up to ten.
        let least = if self == Rate::Iops { 10 } else { 1 };
        let unit = units.iter().rev().find(|unit| unit.0 * least <= rate).or(units.first());
        let (of, name) = unit.copied().unwrap_or((1, ""));
        // Three digits at least, if there are as many.
        let decimals = match rate / of {
            _ if of == 1 => 0,
            0..=9 => 2,
            10..=99 => 1,
            _ => 0,
        };
        format!("{} {name}", ratio(rate.into(), of.into(), decimals))
    }
}

/// The picture.
pub(super) fn picture(rate: Rate, subject: &str, runs: &[Run]) -> Picture {
    let kept = runs.iter().filter_map(|run| Some((run.label.as_str(), run.recorder.flow.clone()?)));
    let (labels, mut records): (Vec<&str>, Vec<FlowRecord>) = kept.unzip();
    let size = |record: &FlowRecord| (record.width(), record.buckets().len());
    let points = if records.len() > CURVES_MANY { POINTS_MAX / 2 } else { POINTS_MAX };
    super::even(&mut records, points, size, FlowRecord::halve);
    thin(&mut records);
    let there = DIRECTIONS
        .into_iter()
        .filter(|(direction, _)| records.iter().any(|record| record.total()[*direction].count > 0));
    let there: Vec<(usize, &str)> = there.collect();
    let (subject, legend, mut planes) = match (&labels[..], &records[..]) {
        ([label], [record]) => {
            let (legend, plane) = alone(rate, record, &there);
            (format!("{subject}: {label}"), legend, vec![plane])
        }
        _ => {
            let legend = legend(rate, &labels, &records);
            let planes = planes(rate, &legend, &records, &there);
            (subject.to_owned(), legend, planes)
        }
    };
    let end = records.iter().map(|record| record.end().0).max().unwrap_or(0);
    let time = Axis::new(0, end, 12, 1, &TIMES);
    let highest = |plane: &Plane| {
        let bars = plane.curves.iter().flat_map(|curve| curve.bars.iter().flatten());
        bars.map(|bar| bar.value).max().unwrap_or(0)
    };
    let (height, ticks) = if planes.len() > 1 { (HEIGHT_OF_TWO, 5) } else { (HEIGHT, 8) };
    // Some room above the highest line.
    let axis = |highest: u64| {
        Axis::new(0, highest.saturating_add(highest / 20), ticks, 1, rate.units()).rounded()
    };
    let up = axis(planes.iter().map(highest).max().unwrap_or(0));
    for plane in &mut planes {
        plane.up = Some(axis(highest(plane)).in_unit_of(&up));
    }
    let longest = records.iter().map(|record| record.buckets().len()).max().unwrap_or(0);
    let width = records.first().map_or(Nanos(1), FlowRecord::width);
    Chart {
        words: words(rate, &subject, &legend, &records),
        legend,
        across: (time, time_title(&time)),
        up: (up, up.unit().to_owned()),
        cells: spans(width, longest),
        planes,
        height,
        wide: false,
        nothing: Some("nothing was read or written"),
    }
    .draw()
}

/// Makes spans wider while no run has enough requests in each of its own.
fn thin(records: &mut [FlowRecord]) {
    loop {
        let spans = |record: &FlowRecord| record.buckets().len();
        let longest = records.iter().map(spans).max().unwrap_or(0);
        let enough = |record: &FlowRecord| {
            let count: u64 = record.total().iter().map(|all| all.count).sum();
            count > 0 && count >= REQUESTS_MIN * spans(record) as u64
        };
        if longest <= POINTS_MIN || records.iter().any(enough) {
            return;
        }
        records.iter_mut().for_each(FlowRecord::halve);
    }
}

/// The lines of one run, a colour for each direction.
fn alone(rate: Rate, record: &FlowRecord, there: &[(usize, &str)]) -> (Vec<Entry>, Plane) {
    let mut legend = Vec::new();
    let mut curves = Vec::new();
    for (direction, name) in there {
        let (look, label) = (Look::of(*direction), (*name).to_owned());
        let all = record.total()[*direction];
        let mean = rate.words(rate.of(all, record.end().0));
        let figures = format!("mean {mean}, {}", counted(all.count, "request"));
        legend.push(Entry { look, label: label.clone(), figures });
        curves.push(Curve { look, label, bars: bars(rate, record, *direction) });
    }
    (legend, Plane { heading: None, up: None, curves })
}

/// An entry for each run.
fn legend(rate: Rate, labels: &[&str], records: &[FlowRecord]) -> Vec<Entry> {
    let figures = |record: &FlowRecord| {
        let each = DIRECTIONS.map(|(direction, name)| {
            let mean = rate.of(record.total()[direction], record.end().0);
            (mean > 0).then(|| format!("{name} {}", rate.words(mean)))
        });
        each.into_iter().flatten().collect::<Vec<String>>().join(", ")
    };
    let entry = |(nth, (label, record)): (usize, (&&str, &FlowRecord))| Entry {
        look: Look::of(nth),
        label: (*label).to_owned(),
        figures: figures(record),
    };
    labels.iter().zip(records).enumerate().map(entry).collect()
}

/// A panel for each direction, and one panel if there is no direction.
fn planes(
    rate: Rate,
    legend: &[Entry],
    records: &[FlowRecord],
    there: &[(usize, &str)],
) -> Vec<Plane> {
    let plane = |(direction, name): &(usize, &str)| Plane {
        heading: Some((*name).to_owned()),
        up: None,
        curves: legend
            .iter()
            .zip(records)
            .map(|(entry, record)| Curve {
                look: entry.look,
                label: entry.label.clone(),
                bars: bars(rate, record, *direction),
            })
            .collect(),
    };
    let planes: Vec<Plane> = there.iter().map(plane).collect();
    if planes.is_empty() {
        vec![Plane { heading: None, up: None, curves: Vec::new() }]
    } else {
        planes
    }
}

/// The rate in each span; the rest of the last one joins the span before.
fn bars(rate: Rate, record: &FlowRecord, direction: usize) -> Vec<Option<Bar>> {
    let (width, end) = (record.width().0, record.end().0);
    let mut amounts: Vec<Amount> = record.buckets().map(|amounts| amounts[direction]).collect();
    // What came after the last one that counts (an issue without an answer) has no span here.
    amounts.truncate(usize::try_from(end / width + 1).unwrap_or(usize::MAX));
    let count = amounts.len() as u64;
    let last = count.saturating_sub(1) * width;
    let joined = |nth: u64| count > 1 && nth + 2 >= count;
    let rest = amounts.last().copied().unwrap_or_default();
    let bar = |(amount, nth): (&Amount, u64)| {
        let from = nth * width;
        let to = if nth + 1 == count && count > 1 { end } else { from + width };
        let (mut amount, mut length) = (*amount, to - from);
        if joined(nth) {
            let before = amounts.iter().rev().nth(1).copied().unwrap_or_default();
            amount = Amount { bytes: before.bytes + rest.bytes, count: before.count + rest.count };
            length = width + (end - last);
        }
        let value = rate.of(amount, length);
        Some(Bar { from, to, value, shade: (0, value), said: rate.words(value) })
    };
    amounts.iter().zip(0..).map(bar).collect()
}

fn words<'a>(rate: Rate, subject: &'a str, legend: &[Entry], records: &[FlowRecord]) -> Words<'a> {
    let mut description = match rate {
        Rate::Throughput => "Bytes that were read and written in a second, over time.",
        Rate::Iops => "Requests that were read and written in a second, over time.",
    }
    .to_owned();
    for entry in legend {
        let _infallible = write!(description, " {}: {}.", entry.label, entry.figures);
    }
    let width = records.first().map(FlowRecord::width).unwrap_or_default();
    let mut letters: Vec<char> = records.iter().map(|record| record.stage().letter()).collect();
    letters.sort_unstable();
    letters.dedup();
    let letters: Vec<String> = letters.iter().map(char::to_string).collect();
    let at = if letters.is_empty() { "C".to_owned() } else { letters.join(" or ") };
    let caption = format!("mean over {width}, counted at {at}");
    Words { title: rate.title(), subject, description, caption }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Step, StepKind};

    fn record(steps: &[(u64, u32)]) -> FlowRecord {
        let mut record = FlowRecord::default();
        for &(us, sectors) in steps {
            let (at, kind) = (Nanos::from_micros(us), StepKind::Complete);
            let (client, write, sector, latency) = (0, false, 0, None);
            record.step(&Step { at, kind, client, write, sector, sectors, latency });
        }
        record
    }

    /// Is a short rest one with the span before? 8 KiB in the first microsecond, 8 KiB in the
    /// second and 4 KiB 200 ns after it: 8192 in 1 us are 8.19 GB/s, 12,288 in 1.2 us 10.24 GB/s.
    #[test]
    fn a_short_rest_is_no_peak() {
        let mut short = record(&[(0, 16), (1, 16)]);
        let (at, kind) = (Nanos(2_200), StepKind::Complete);
        let (client, write, sector, latency) = (0, false, 0, None);
        short.step(&Step { at, kind, client, write, sector, sectors: 8, latency });
        let bars = bars(Rate::Throughput, &short, 0);
        let values: Vec<u64> = bars.iter().flatten().map(|bar| bar.value).collect();
        assert_eq!(values, [8_192_000_000, 10_240_000_000, 10_240_000_000]);
        assert_eq!(bars.iter().flatten().map(|bar| bar.to).max(), Some(2_200));
    }

    /// Are spans made wider until there are requests in each? 10 of them in 100 us: 100 spans of
    /// 1 us have less than 4 each, and so on down to 13 of 8 us, which are few enough.
    #[test]
    fn few_requests_have_few_spans() {
        let steps: Vec<(u64, u32)> = (0..10).map(|nth| (nth * 11, 8)).collect();
        let mut records = [record(&steps), FlowRecord::default()];
        thin(&mut records);
        assert_eq!((records[0].buckets().len(), records[0].width()), (13, Nanos(8_000)));
        let mut dense = [record(&(0..400).map(|nth| (nth / 4, 8)).collect::<Vec<(u64, u32)>>())];
        thin(&mut dense);
        assert_eq!(dense[0].buckets().len(), 100);
    }

    /// Are rates printed with suitable digits?
    #[test]
    fn rates_in_words() {
        let said = [800, 83_400, 12_345_678, 250_000_000].map(|rate| Rate::Throughput.words(rate));
        assert_eq!(said, ["800 bytes/s", "83.4 kB/s", "12.3 MB/s", "250 MB/s"]);
        let said = [0, 83_400, 9_999_000, 123_400_000].map(|rate| Rate::Iops.words(rate));
        assert_eq!(said, ["0.00 IOPS", "83.4 IOPS", "9999 IOPS", "123 thousand IOPS"]);
    }
}
