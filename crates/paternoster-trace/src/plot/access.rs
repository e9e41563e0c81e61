// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accessed places over time: a dot for each cell of the record, at its first access.
//!
//! Several runs are one below the other, a panel and a colour each, over the same axes: schedulers
//! serve the same files, and differ in when. One run alone has a colour for each of its clients, if
//! there are few, or otherwise for reads and writes. A machine's trace has many processes of which
//! a few do most: those have colours, and all others share one.
//!
//! Several devices of one trace are one above the other, with a line and a name at the foot of
//! each.
//!
//! Dots have more ink where a cell has more accesses. Dots that fall on the same pixel are one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use paternoster_core::Nanos;

use super::axis::{Axis, SIZES, TIMES};
use super::frame::{Entry, Frame, Look, Panel, Sign, Words, counted, time_title};
use super::hover::{Hover, HoverPanel, HoverSeries, column, columns};
use super::svg::Attributes;
use super::{Picture, Run};
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

/// Width of a dot in pixels in a picture with up to this many of them.
const DOTS: [(usize, &str); 3] = [(600, "5"), (4_000, "3.2"), (usize::MAX, "2.4")];

/// Columns of the picture that have values to show.
const COLUMNS: i64 = 105;

/// The picture.
pub(super) fn picture(subject: &str, runs: &[Run]) -> Picture {
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

fn draw_several(subject: &str, shown: &[Shown<'_>], time: &Axis, places: &Axis) -> Picture {
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
    let (mut series, mut panels) = (Vec::new(), Vec::new());
    for (entry, shown) in legend.iter().zip(shown) {
        let panel = frame.panel(height, Sign::Dot, Some(entry));
        frame.axes(&panel, places, time);
        shelves(&mut frame, shown.record, &panel, places);
        series.push((entry.look, pixels(shown.record.accesses(), &panel, time, places)));
        let told = vec![told(entry, shown.record.accesses(), time)];
        panels.push((panel, HoverPanel::new(String::new(), &panel, told)));
    }
    dots(&mut frame, width, &series);
    for (shown, (panel, _)) in shown.iter().zip(&panels) {
        shelf_names(&mut frame, shown.record, panel, places);
    }
    let panels = panels.into_iter().map(|(_, told)| told).collect();
    let hover = hover(time, panels);
    let svg = frame.finish(&words, (time, &time_title(time)), (places, &title(places)));
    Picture { title: words.title.to_owned(), svg, hover }
}

fn draw_one(subject: &str, shown: &Shown<'_>, time: &Axis, places: &Axis) -> Picture {
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
    shelves(&mut frame, shown.record, &panel, places);
    let (mut series, mut all) = (Vec::new(), Vec::new());
    for (entry, (part, _)) in legend.iter().zip(&parts) {
        series.push((entry.look, pixels(part.of(shown), &panel, time, places)));
        all.push(told(entry, part.of(shown), time));
    }
    if matches!(parts.last(), Some((Part::Others(_), _))) {
        // The many are drawn first, so that they do not hide those with a colour.
        series.rotate_right(1);
    }
    dots(&mut frame, width, &series);
    shelf_names(&mut frame, shown.record, &panel, places);
    let hover = hover(time, vec![HoverPanel::new(String::new(), &panel, all)]);
    let svg = frame.finish(&words, (time, &time_title(time)), (places, &title(places)));
    Picture { title: words.title.to_owned(), svg, hover }
}

/// The feet of several devices that are one above the other.
fn shelves(frame: &mut Frame, record: &AccessRecord, panel: &Panel, places: &Axis) {
    for shelf in record.shelves() {
        frame.shelf(panel.y(places, shelf.base.saturating_mul(SECTOR)));
    }
}

/// Which devices they are, and which part of each was used.
fn shelf_names(frame: &mut Frame, record: &AccessRecord, panel: &Panel, places: &Axis) {
    for shelf in record.shelves() {
        let y = panel.y(places, shelf.base.saturating_mul(SECTOR));
        let (first, last) = (shelf.first, shelf.first.saturating_add(shelf.height));
        let name = format!("{}: from {} to {}", shelf.name, binary(first), binary(last));
        frame.shelf_name(y, &name);
    }
}

/// A series' value in each column: how many accesses begin there.
fn told(entry: &Entry, accesses: impl Iterator<Item = Access>, time: &Axis) -> HoverSeries {
    let mut counts = vec![0_u64; usize::try_from(COLUMNS).unwrap_or(0)];
    for access in accesses {
        counts[column(Panel::x(time, access.at.0), COLUMNS)] += access.count;
    }
    let said = |count: &u64| if *count == 0 { String::new() } else { counted(*count, "request") };
    let (label, colour) = (entry.label.clone(), entry.look.colour);
    HoverSeries { label, colour, values: counts.iter().map(said).collect() }
}

fn hover(time: &Axis, panels: Vec<HoverPanel>) -> Hover {
    let span = u128::from(time.to - time.from);
    let edge = |nth: i64| {
        let part = span * u128::from(nth.unsigned_abs()) / u128::from(COLUMNS.unsigned_abs());
        // Three digits more than a column needs are noise.
        let grain = 10_u128.pow((span / 100_000).max(1).ilog10());
        Nanos(u64::try_from(part / grain * grain).unwrap_or(u64::MAX))
    };
    let when = (0..COLUMNS).map(|nth| format!("{} to {}", edge(nth), edge(nth + 1))).collect();
    Hover { cells: columns(COLUMNS), when, panels }
}

/// The accesses that have a colour of their own in the picture of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Client(u32),
    /// Clients that have no colour of their own; the set has a bit for each that has.
    Others([u128; 3]),
    Reads,
    Writes,
}

impl Part {
    /// Its accesses.
    fn of<'a>(self, shown: &Shown<'a>) -> impl Iterator<Item = Access> + use<'a> {
        shown.record.accesses().filter(move |access| match self {
            Part::Client(index) => access.client == index,
            Part::Others(own) => !contains(&own, access.client),
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
    let machine = shown.record.of_machine();
    if machine && indices.len() > Look::COLOURS {
        return Some(busiest(shown, indices.len(), name));
    }
    let few = (if machine { 1 } else { 2 }..=Look::COLOURS).contains(&indices.len());
    few.then(|| indices.into_iter().map(|index| (Part::Client(index), name(index))).collect())
}

/// The clients with the most accesses, and all others together.
fn busiest(shown: &Shown<'_>, clients: usize, name: impl Fn(u32) -> String) -> Vec<(Part, String)> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for access in shown.record.accesses() {
        *counts.entry(access.client).or_default() += access.count;
    }
    let mut counts: Vec<(u32, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(client, count)| (std::cmp::Reverse(*count), *client));
    counts.truncate(Look::COLOURS - 1);
    let mut own = [0; 3];
    for (client, _) in &counts {
        own[set_of(*client).0] |= set_of(*client).1;
    }
    let others = format!("{} others", clients - counts.len());
    let named = counts.into_iter().map(|(client, _)| (Part::Client(client), name(client)));
    named.chain([(Part::Others(own), others)]).collect()
}

/// Where a client's bit is; there are as many as are kept, and one.
const fn set_of(client: u32) -> (usize, u128) {
    let place = if client < 383 { client } else { 383 };
    (place as usize / 128, 1 << (place % 128))
}

const fn contains(set: &[u128; 3], client: u32) -> bool {
    let (word, bit) = set_of(client);
    set[word] & bit != 0
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
