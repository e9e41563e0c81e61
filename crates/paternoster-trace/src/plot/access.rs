// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accessed places over time: a dot for each cell of the record, at its first access.
//!
//! Several runs stand one below the other, a panel and a colour each, over the same axes:
//! schedulers serve the same files, and what tells them apart is when. One run alone has a colour
//! for each of its clients, if there are few, or else for reads and writes.
//!
//! Dots have more ink where a cell has more accesses. Those that fall on the same pixel are
//! one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use paternoster::Nanos;

use super::Run;
use super::axis::{Axis, SIZES, TIMES};
use super::frame::{Entry, Frame, Look, Panel, Sign, Words, counted};
use super::svg::Attributes;
use crate::record::{Access, AccessRecord};

/// Height of a panel that is alone, in pixels.
const HEIGHT: i64 = 420;
/// Height of one of a few, and of one of more than [`FEW`].
const HEIGHT_OF_FEW: i64 = 190;
const HEIGHT_OF_MANY: i64 = 120;
const FEW: usize = 4;
const SECTOR: u64 = 512;
/// Opacity of a cell that has at least this part of the accesses of the fullest one.
const INKS: [(u64, &str); 3] = [(4, "0.95"), (32, "0.6"), (u64::MAX, "0.35")];

/// Width of a dot in pixels in a picture with up to so many of them.
const DOTS: [(usize, &str); 3] = [(600, "5"), (4_000, "3.2"), (usize::MAX, "2.4")];

/// The picture.
pub(super) fn draw(subject: &str, runs: &[Run]) -> String {
    let kept = |run| Shown::new(run);
    let shown: Vec<Shown<'_>> = runs.iter().filter_map(kept).collect();
    let (time, places) = axes(&shown, if shown.len() > 1 { 4 } else { 8 });
    match &shown[..] {
        [alone] => draw_one(subject, alone, &time, &places),
        _ => draw_several(subject, &shown, &time, &places),
    }
}

/// A run that has a record.
struct Shown<'a> {
    run: &'a Run,
    record: &'a AccessRecord,
}

impl Shown<'_> {
    fn new(run: &Run) -> Option<Shown<'_>> {
        Some(Shown { run, record: run.recorder.access.as_ref()? })
    }

    fn figures(&self) -> String {
        let end = self.record.end();
        format!("{} in {end}", counted(self.record.count(), "request"))
    }
}

/// The width of all dots: few large ones, or many small ones.
fn width_of_dots(shown: &[Shown<'_>]) -> &'static str {
    let most = shown.iter().map(|shown| shown.record.accesses().count()).max().unwrap_or(0);
    DOTS.iter().find(|(up_to, _)| most <= *up_to).map_or("1", |(_, width)| width)
}

/// One axis of time and one of places for all runs.
fn axes(shown: &[Shown<'_>], ticks: u64) -> (Axis, Axis) {
    let end = shown.iter().map(|shown| shown.record.end().0).max().unwrap_or(0);
    let sectors = shown.iter().filter_map(|shown| shown.record.sectors());
    let both = sectors.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let (first, last) = both.unwrap_or((0, 1));
    let [first, last] = [first, last].map(|sector| sector.saturating_mul(SECTOR));
    let places = Axis::new(first, last, ticks, SECTOR, &SIZES).rounded();
    (Axis::new(0, end, 12, 1, &TIMES), places)
}

fn draw_several(subject: &str, shown: &[Shown<'_>], time: &Axis, places: &Axis) -> String {
    let entry = |(nth, shown): (usize, &Shown<'_>)| Entry {
        look: Look { dash: "none", ..Look::of(nth) },
        label: shown.run.label.clone(),
        figures: shown.figures(),
    };
    let legend: Vec<Entry> = shown.iter().enumerate().map(entry).collect();
    let words = words(subject, &legend, shown);
    let height = if shown.len() > FEW { HEIGHT_OF_MANY } else { HEIGHT_OF_FEW };
    let size = (shown.len(), height, true);
    let width = width_of_dots(shown);
    let mut frame = Frame::new(&words, Sign::Dot, &[], size);
    let mut series = Vec::new();
    for (entry, shown) in legend.iter().zip(shown) {
        let panel = frame.panel(height, Sign::Dot, Some(entry));
        frame.axes(&panel, places, time);
        series.push((entry.look, pixels(shown.record.accesses(), &panel, time, places)));
    }
    dots(&mut frame, width, &series);
    frame.finish(&words, time, &title(places), places)
}

fn draw_one(subject: &str, shown: &Shown<'_>, time: &Axis, places: &Axis) -> String {
    let parts = clients(shown).unwrap_or_else(|| directions(shown));
    let entry = |(nth, (part, label)): (usize, &(Part, String))| Entry {
        look: Look { dash: "none", ..Look::of(nth) },
        label: label.clone(),
        figures: counted(part.of(shown).map(|access| access.count).sum(), "request"),
    };
    let legend: Vec<Entry> = parts.iter().enumerate().map(entry).collect();
    let subject = format!("{subject}: {}, {}", shown.run.label, shown.figures());
    let words = words(&subject, &legend, std::slice::from_ref(shown));
    let width = width_of_dots(std::slice::from_ref(shown));
    let mut frame = Frame::new(&words, Sign::Dot, &legend, (1, HEIGHT, false));
    let panel = frame.panel(HEIGHT, Sign::Dot, None);
    frame.axes(&panel, places, time);
    let mut series = Vec::new();
    for (entry, (part, _)) in legend.iter().zip(&parts) {
        series.push((entry.look, pixels(part.of(shown), &panel, time, places)));
    }
    dots(&mut frame, width, &series);
    frame.finish(&words, time, &title(places), places)
}

/// What has a colour of its own in the picture of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Client(u32),
    Reads,
    Writes,
}

impl Part {
    /// Its accesses.
    fn of<'a>(self, shown: &Shown<'a>) -> impl Iterator<Item = Access> + use<'a> {
        shown.record.accesses().filter(move |access| match self {
            Part::Client(index) => access.client == index,
            Part::Reads => !access.write,
            Part::Writes => access.write,
        })
    }
}

/// The clients and their names, if there are two or more and a colour for each.
fn clients(shown: &Shown<'_>) -> Option<Vec<(Part, String)>> {
    // They come in order.
    let mut indices: Vec<u32> = shown.record.accesses().map(|access| access.client).collect();
    indices.dedup();
    let name = |index: u32| {
        let name = shown.run.clients.get(index as usize);
        name.cloned().unwrap_or_else(|| format!("client {index}"))
    };
    let few = (2..=Look::COLOURS).contains(&indices.len());
    few.then(|| indices.into_iter().map(|index| (Part::Client(index), name(index))).collect())
}

/// Reads and writes, as far as there are any.
fn directions(shown: &Shown<'_>) -> Vec<(Part, String)> {
    let both = [(Part::Reads, "reads"), (Part::Writes, "writes")].into_iter();
    let there = both.filter(|(part, _)| part.of(shown).next().is_some());
    there.map(|(part, label)| (part, label.to_owned())).collect()
}

/// How many accesses fall on which whole pixel.
type Pixels = BTreeMap<(i64, i64), u64>;

fn pixels(
    accesses: impl Iterator<Item = Access>,
    panel: &Panel,
    time: &Axis,
    places: &Axis,
) -> Pixels {
    let mut pixels = BTreeMap::new();
    for access in accesses {
        let x = Panel::x(time, access.at.0).0 / 10;
        let y = panel.y(places, access.sector.saturating_mul(SECTOR)).0 / 10;
        *pixels.entry((x, y)).or_default() += access.count;
    }
    pixels
}

/// For each series one path for each strength of ink, faint ones first. Strengths are those of the
/// whole picture, so that series can be compared.
fn dots(frame: &mut Frame, width: &str, series: &[(Look, Pixels)]) {
    let most = series.iter().flat_map(|(_, pixels)| pixels.values()).copied().max().unwrap_or(0);
    for (look, pixels) in series {
        let mut paths = INKS.map(|_| String::new());
        for ((x, y), count) in pixels {
            let ink = INKS.iter().position(|(part, _)| *count >= most / part).unwrap_or(0);
            let _infallible = write!(paths[ink], "M{x} {y}h0");
        }
        let paths = INKS.iter().zip(&paths).rev();
        for ((_, opacity), path) in paths.filter(|(_, path)| !path.is_empty()) {
            let look: Attributes<'_> = &[
                ("d", path),
                ("stroke", &look.colour),
                ("stroke-opacity", opacity),
                ("stroke-width", &width),
                ("stroke-linecap", &"round"),
            ];
            frame.svg.empty("path", look);
        }
    }
}

fn title(places: &Axis) -> String {
    format!("place on the device, {}", places.unit())
}

/// A number of sectors in the largest unit of powers of 1024 that it fills.
fn binary(sectors: u64) -> String {
    let bytes = sectors.saturating_mul(SECTOR);
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "bytes")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    let (shift, name) = unit.unwrap_or((0, "bytes"));
    format!("{} {name}", bytes >> shift)
}

fn words<'a>(subject: &'a str, legend: &[Entry], shown: &[Shown<'_>]) -> Words<'a> {
    let mut description = "Places of the device that were accessed, over time.".to_owned();
    for entry in legend {
        let _infallible = write!(description, " {}: {}.", entry.label, entry.figures);
    }
    let cells = shown.iter().map(|shown| shown.record.cell());
    let (width, height) = cells.max().unwrap_or((Nanos::ZERO, 0));
    let single = |shown: &Shown<'_>| shown.record.accesses().all(|access| access.count == 1);
    let caption = if shown.iter().all(single) {
        "each request is a dot".to_owned()
    } else {
        format!("a dot: the requests within {width} and {}; the darker, the more", binary(height))
    };
    Words { title: "Accesses over time", subject, description, caption }
}
