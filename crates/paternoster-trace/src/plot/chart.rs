// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chart: lines in steps over cells of time, or of something else, with a shade about each.
//!
//! ```text
//!  ▒▒▒▒                      ▒ the shade, from one height to another in each cell
//!  ▒▒──┐▒▒▒▒
//!  ──  └────▒▒    ──         ─ the line; where a curve has no value it is broken
//! ```
//!
//! The caller says which values there are; their positions and what surrounds them are computed
//! here, and the values shown for each place. All panels have the same horizontal axis; a panel may
//! have a vertical one of its own, in the unit of all.

use std::fmt::Write as _;

use super::Picture;
use super::axis::Axis;
use super::frame::{Entry, Frame, Look, Panel, Sign, Words};
use super::hover::{Hover, HoverPanel, HoverSeries};
use super::svg::{Attributes, Px};

/// With more curves than this in a panel shades would hide each other and are left out.
pub(super) const BANDS_MAX: usize = 3;
/// With more runs than this there are fewer cells, so that curves can be followed.
pub(super) const CURVES_MANY: usize = 6;
/// The narrowest step that is drawn.
const NARROWEST: Px = Px(5);

/// What to draw.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    pub(super) words: Words<'a>,
    pub(super) legend: Vec<Entry>,
    /// The horizontal axis and the text below it.
    pub(super) across: (Axis, String),
    /// The vertical axis and the text next to it.
    pub(super) up: (Axis, String),
    /// From where to where each cell reaches, and its description.
    pub(super) cells: Vec<(u64, u64, String)>,
    pub(super) planes: Vec<Plane>,
    /// Height of each panel, in pixels.
    pub(super) height: i64,
    /// Earlier lines are wider even if there are many.
    pub(super) wide: bool,
    /// The text where there is no value at all.
    pub(super) nothing: Option<&'static str>,
}

/// One of the panels.
#[derive(Debug)]
pub(super) struct Plane {
    /// The text above it.
    pub(super) heading: Option<String>,
    /// Its own vertical axis.
    pub(super) up: Option<Axis>,
    pub(super) curves: Vec<Curve>,
}

/// One line.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) look: Look,
    pub(super) label: String,
    /// Its value in each cell.
    pub(super) bars: Vec<Option<Bar>>,
}

/// A curve within one cell.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) value: u64,
    /// The shade's lower and upper edge.
    pub(super) shade: (u64, u64),
    /// The chart in words.
    pub(super) said: String,
}

impl Chart<'_> {
    /// The picture.
    pub(super) fn draw(self) -> Picture {
        let headed = self.planes.iter().any(|plane| plane.heading.is_some());
        let (across, up) = (&self.across.0, &self.up.0);
        let size = (self.planes.len(), self.height, headed);
        let mut frame = Frame::new(&self.words, Sign::Line, &self.legend, size);
        let mut panels = Vec::new();
        for plane in &self.planes {
            let heading = plane.heading.as_ref().map(|heading| Entry {
                look: Look::of(0),
                label: heading.clone(),
                figures: String::new(),
            });
            let panel = frame.panel(self.height, Sign::Nothing, heading.as_ref());
            let up = plane.up.as_ref().unwrap_or(up);
            frame.axes(&panel, up, across);
            plane.draw(&mut frame, &panel, (across, up), self.wide);
            if let Some(nothing) = self.nothing.filter(|_| plane.is_empty()) {
                frame.say(&panel, nothing);
            }
            let name = plane.heading.clone().unwrap_or_default();
            panels.push(HoverPanel::new(name, &panel, plane.told()));
        }
        let place =
            |cell: &(u64, u64, String)| (Panel::x(across, cell.0).0, Panel::x(across, cell.1).0);
        let cells = self.cells.iter().map(place).collect();
        let hover =
            Hover { cells, panels, when: self.cells.into_iter().map(|cell| cell.2).collect() };
        let title = self.words.title.to_owned();
        let svg = frame.finish(&self.words, (across, &self.across.1), (up, &self.up.1));
        Picture { title, svg, hover }
    }
}

impl Plane {
    fn is_empty(&self) -> bool {
        self.curves.iter().all(|curve| curve.bars.iter().all(Option::is_none))
    }

    fn draw(&self, frame: &mut Frame, panel: &Panel, (across, up): (&Axis, &Axis), wide: bool) {
        let pieces: Vec<Vec<Vec<Step>>> =
            self.curves.iter().map(|curve| curve.pieces(panel, across, up)).collect();
        if self.curves.len() <= BANDS_MAX {
            for (curve, pieces) in self.curves.iter().zip(&pieces) {
                shade(frame, curve.look, pieces);
            }
        }
        for (nth, (curve, pieces)) in self.curves.iter().zip(&pieces).enumerate() {
            let above = self.curves.len() - 1 - nth;
            let wider = if wide || self.curves.len() <= BANDS_MAX { above.min(2) } else { 0 };
            line(frame, curve.look, pieces, wider);
        }
    }

    fn told(&self) -> Vec<HoverSeries> {
        let said = |bar: &Option<Bar>| bar.as_ref().map(|bar| bar.said.clone()).unwrap_or_default();
        let series = |curve: &Curve| HoverSeries {
            label: curve.label.clone(),
            colour: curve.look.colour,
            values: curve.bars.iter().map(said).collect(),
        };
        self.curves.iter().map(series).collect()
    }
}

/// A bar as it is drawn.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: Px,
    to: Px,
    value: Px,
    low: Px,
    high: Px,
}

impl Curve {
    /// The parts drawn in one go, from gap to gap.
    fn pieces(&self, panel: &Panel, across: &Axis, up: &Axis) -> Vec<Vec<Step>> {
        let step = |bar: &Bar| Step {
            from: Panel::x(across, bar.from),
            to: Panel::x(across, bar.to),
            value: panel.y(up, bar.value),
            low: panel.y(up, bar.shade.0),
            high: panel.y(up, bar.shade.1),
        };
        let pieces = self.bars.split(Option::is_none);
        let pieces = pieces.map(|piece| {
            let steps = piece.iter().flatten().map(step);
            // The rest of the last cell may be too short to be seen, and its value far off.
            steps.filter(|step| step.to.0 - step.from.0 >= NARROWEST.0).collect::<Vec<Step>>()
        });
        pieces.filter(|piece| !piece.is_empty()).collect()
    }
}

fn shade(frame: &mut Frame, look: Look, pieces: &[Vec<Step>]) {
    let band: String = pieces.iter().map(|piece| band(piece)).collect();
    let fill: Attributes<'_> = &[("d", &band), ("fill", &look.colour), ("fill-opacity", &"0.16")];
    frame.svg.empty("path", fill);
}

/// A line, with this factor of width. Earlier lines are wider, so that coinciding lines stay
/// visible.
fn line(frame: &mut Frame, look: Look, pieces: &[Vec<Step>], wider: usize) {
    let along =
        |piece: &Vec<Step>| along(piece.iter().map(|step| (step.from, step.to, step.value)), 'M');
    let line: String = pieces.iter().map(along).collect();
    let wider = i64::try_from(wider).unwrap_or(0);
    let look: Attributes<'_> = &[
        ("d", &line),
        ("fill", &"none"),
        ("stroke", &look.colour),
        ("stroke-width", &Px(16 + 14 * wider)),
        ("stroke-linejoin", &"round"),
        ("stroke-dasharray", &look.dash),
    ];
    frame.svg.empty("path", look);
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

/// The outline of the shade.
fn band(piece: &[Step]) -> String {
    let above = piece.iter().map(|step| (step.from, step.to, step.high));
    let below = piece.iter().rev().map(|step| (step.to, step.from, step.low));
    along(above, 'M') + &along(below, 'L') + "Z"
}
