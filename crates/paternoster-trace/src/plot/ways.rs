// SPDX-License-Identifier: MIT OR Apache-2.0
//! What pictures of latencies have in common: which curves are in which panel, and their figures.
//!
//! ```text
//! one run      D2C: reads, writes      Q2C: reads, writes            a panel for each way
//! several      D2C, reads: every run   D2C, writes: every run …      a panel for each that exists
//! ```

use paternoster_core::Nanos;

use super::Run;
use super::chart::{Bar, Curve, Plane};
use super::frame::{Entry, Look, counted};
use super::rates::DIRECTIONS;
use crate::record::{CoarseHistogram, LatencyRecord, Way};

/// Height of a panel, by how many there are.
const HEIGHTS: [i64; 4] = [380, 230, 190, 170];

/// The runs that have latencies.
pub(super) struct Ways<'a> {
    pub(super) labels: Vec<&'a str>,
    pub(super) records: Vec<LatencyRecord>,
    /// Whole runs: by run, way and direction.
    pub(super) totals: Vec<[[CoarseHistogram; 2]; 2]>,
    pub(super) legend: Vec<Entry>,
    pub(super) subject: String,
}

impl<'a> Ways<'a> {
    pub(super) fn new(subject: &str, runs: &'a [Run]) -> Ways<'a> {
        let kept = runs.iter();
        let kept = kept.filter_map(|run| Some((&*run.label, run.recorder.latency.clone()?)));
        let (labels, records): (Vec<&str>, Vec<LatencyRecord>) = kept.unzip();
        let total = |record: &LatencyRecord| {
            Way::ALL.map(|way| [false, true].map(|write| record.total(way, write)))
        };
        let totals: Vec<[[CoarseHistogram; 2]; 2]> = records.iter().map(total).collect();
        let subject = match &labels[..] {
            [label] => format!("{subject}: {label}"),
            _ => subject.to_owned(),
        };
        let mut ways = Ways { labels, records, totals, legend: Vec::new(), subject };
        ways.legend = ways.entries();
        ways
    }

    /// Whether there is only one run.
    const fn alone(&self) -> bool {
        self.labels.len() == 1
    }

    /// Whether any run has such latencies.
    fn there(&self, way: Way, direction: usize) -> bool {
        self.totals.iter().any(|total| total[way as usize][direction].count() > 0)
    }

    /// Directions of one run, or the runs.
    fn entries(&self) -> Vec<Entry> {
        let figures = |way: Way, all: &CoarseHistogram| {
            let [mean, tail] = [all.mean(), all.permille(990)].map(short);
            format!("{} mean {mean}, 99 % {tail}", way.name())
        };
        if self.alone() {
            let there = DIRECTIONS.into_iter();
            let there = there.filter(|(direction, _)| self.there(Way::Device, *direction));
            return there
                .map(|(direction, name)| {
                    let all = &self.totals[0][0][direction];
                    let figures = format!(
                        "{}, {}",
                        figures(Way::Device, all),
                        counted(all.count(), "request")
                    );
                    Entry { look: Look::of(direction), label: name.to_owned(), figures }
                })
                .collect();
        }
        let entry = |(nth, (label, total)): (usize, (&&str, &[[CoarseHistogram; 2]; 2]))| {
            let mut all = total[0][0].clone();
            all.join(total[0][1].clone());
            let figures = figures(Way::Device, &all);
            Entry { look: Look::of(nth), label: (*label).to_owned(), figures }
        };
        self.labels.iter().zip(&self.totals).enumerate().map(entry).collect()
    }

    /// The panels; `bars` gives the curve of a run, a way and a direction.
    pub(super) fn planes(
        &self,
        bars: impl Fn(usize, Way, usize) -> Vec<Option<Bar>>,
    ) -> (Vec<Plane>, i64) {
        let mut planes = Vec::new();
        for way in Way::ALL {
            let there = DIRECTIONS.into_iter();
            let there = there.filter(|(direction, _)| self.there(way, *direction));
            let there: Vec<(usize, &str)> = there.collect();
            let what = match way {
                Way::Device => "D2C: in the device",
                Way::Whole => "Q2C: from submission on",
            };
            if self.alone() && !there.is_empty() {
                let curve = |&(direction, name): &(usize, &str)| Curve {
                    look: Look::of(direction),
                    label: name.to_owned(),
                    bars: bars(0, way, direction),
                };
                let curves = there.iter().map(curve).collect();
                planes.push(Plane { heading: Some(what.to_owned()), up: None, curves });
                continue;
            }
            for (direction, name) in there {
                let curve = |(run, entry): (usize, &Entry)| Curve {
                    look: entry.look,
                    label: entry.label.clone(),
                    bars: bars(run, way, direction),
                };
                let curves = self.legend.iter().enumerate().map(curve).collect();
                let heading = Some(format!("{what}, {name}"));
                planes.push(Plane { heading, up: None, curves });
            }
        }
        if planes.is_empty() {
            planes.push(Plane { heading: None, up: None, curves: Vec::new() });
        }
        let height = HEIGHTS[planes.len().min(HEIGHTS.len()) - 1];
        (planes, height)
    }
}

/// A time with three digits, as legends and tips have it.
pub(super) fn short(time: Nanos) -> String {
    let mut part = 1;
    while time.0 / part >= 1_000 {
        part *= 10;
    }
    Nanos(time.0 / part * part).to_string()
}
