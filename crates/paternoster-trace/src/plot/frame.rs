// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frame: what pictures have around their data: words, legend, axes, grid.
//!
//! ```text
//!  title
//!  subject
//!  ● legend  ● legend
//!     ┌──────────────┐
//!  10 ┤              │   panels, one below the other, with one axis of time
//!   0 ┤──────────────│
//!     └┬──────┬──────┘
//!      0      5        time, s
//!                           caption
//! ```
//!
//! Places are fixed, because the width of a text is unknown here. The legend has as many columns as
//! its longest text leaves room for, by a rough rule.

use std::fmt::Write as _;

use super::axis::Axis;
use super::svg::{Attributes, Px, Svg, px};

const WIDTH: i64 = 960;
/// Left of the panels there is room for labels of ten digits.
pub(super) const LEFT: i64 = 92;
const RIGHT: i64 = 28;
pub(super) const PANEL_WIDTH: Px = px(WIDTH - LEFT - RIGHT);
/// Title and subject.
const HEAD: i64 = 66;
/// Height of a row of the legend, and of the words above a panel.
const ROW: i64 = 20;
const GAP: i64 = 12;
/// Labels, title of the axis and caption.
const FOOT: i64 = 76;
/// Longer texts of a legend are cut; the whole is in the entry's title.
const LETTERS_MAX: usize = 100;

const INK: &str = "#222222";
const FAINT: &str = "#666666";
const GRID: &str = "#e4e4e4";

/// Blue, vermillion, green, purple, orange, sky and black, and a grey.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c"];
/// When the colours are used up, lines are broken; then everything begins again.
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "10 3 2 3"];

/// How a series looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) colour: &'static str,
    pub(super) dash: &'static str,
}

impl Look {
    /// How many looks differ in colour alone.
    pub(super) const COLOURS: usize = COLOURS.len();

    /// The look of the series with this number.
    pub(super) const fn of(series: usize) -> Look {
        let cycle = series / COLOURS.len() % DASHES.len();
        Look { colour: COLOURS[series % COLOURS.len()], dash: DASHES[cycle] }
    }
}

/// The sign next to a legend's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Line,
    Dot,
    /// Words alone.
    Nothing,
}

/// A line of a legend.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) look: Look,
    pub(super) label: String,
    /// Figures of this series, for legend and description.
    pub(super) figures: String,
}

/// The texts of a picture.
#[derive(Debug)]
pub(super) struct Words<'a> {
    pub(super) title: &'a str,
    pub(super) subject: &'a str,
    /// For readers who cannot see the picture.
    pub(super) description: String,
    /// How to read it, in small print.
    pub(super) caption: String,
}

/// Where data are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Panel {
    pub(super) top: Px,
    pub(super) height: Px,
}

impl Panel {
    /// Where `value` of the axis of time is.
    pub(super) fn x(axis: &Axis, value: u64) -> Px {
        px(LEFT) + axis.place(value, PANEL_WIDTH)
    }

    /// Where `value` of the vertical axis is.
    pub(super) fn y(&self, axis: &Axis, value: u64) -> Px {
        self.top + self.height - axis.place(value, self.height)
    }
}

/// A picture in the making.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) svg: Svg,
    /// Where the panels begin, and where the next one does, in pixels.
    first: i64,
    top: i64,
}

impl Frame {
    /// Begins a picture with room for a legend of `legend` and for `panels` panels of this height
    /// in pixels, each with a row of words above it if `headed`.
    pub(super) fn new(
        words: &Words<'_>,
        sign: Sign,
        legend: &[Entry],
        (panels, height, headed): (usize, i64, bool),
    ) -> Frame {
        let columns = columns(legend);
        let rows = i64::try_from(legend.len().div_ceil(columns)).unwrap_or(0);
        let panels = i64::try_from(panels).unwrap_or(0);
        let each = height + if headed { ROW + GAP } else { GAP };
        let top = HEAD + rows * ROW;
        let whole = top + panels * each + FOOT;
        let mut frame = Frame { svg: Svg::default(), first: top, top };
        frame.begin(words, whole);
        for (nth, entry) in legend.iter().enumerate() {
            let (row, column) = (nth / columns, nth % columns);
            let [row, column, columns] =
                [row, column, columns].map(|number| i64::try_from(number).unwrap_or(0));
            let x = px(LEFT) + Px(PANEL_WIDTH.0 / columns * column);
            frame.entry(sign, entry, (x, px(HEAD + ROW * row)));
        }
        frame
    }

    /// The next panel, with the words above it if it has any.
    pub(super) fn panel(&mut self, height: i64, sign: Sign, heading: Option<&Entry>) -> Panel {
        if let Some(entry) = heading {
            self.entry(sign, entry, (px(LEFT), px(self.top + GAP)));
            self.top += ROW;
        }
        let panel = Panel { top: px(self.top + GAP), height: px(height) };
        self.top += GAP + height;
        panel
    }

    /// Grid and labels of a panel's vertical axis, and the grid of time.
    pub(super) fn axes(&mut self, panel: &Panel, vertical: &Axis, time: &Axis) {
        let (left, right) = (px(LEFT), px(LEFT) + PANEL_WIDTH);
        let bottom = panel.top + panel.height;
        let mut grid = String::new();
        for (value, _) in time.ticks() {
            let _infallible = write!(grid, "M{} {}V{bottom}", Panel::x(time, value), panel.top);
        }
        for (value, _) in vertical.ticks() {
            let _infallible = write!(grid, "M{left} {}H{right}", panel.y(vertical, value));
        }
        self.svg.empty("path", &[("d", &grid), ("stroke", &GRID), ("stroke-width", &1)]);
        let edges = format!("M{left} {}V{bottom}H{right}", panel.top);
        let edges: Attributes<'_> =
            &[("d", &edges), ("fill", &"none"), ("stroke", &FAINT), ("stroke-width", &1)];
        self.svg.empty("path", edges);
        self.svg.open("g", &[("text-anchor", &"end"), ("font-size", &12)]);
        for (value, label) in vertical.ticks() {
            let y = panel.y(vertical, value) + px(4);
            self.svg.text("text", &[("x", &px(LEFT - 8)), ("y", &y)], &label);
        }
        self.svg.close();
    }

    /// A word in the middle of a panel that has nothing else.
    pub(super) fn say(&mut self, panel: &Panel, what: &str) {
        let middle = px(LEFT) + Px(PANEL_WIDTH.0 / 2);
        let place: Attributes<'_> = &[
            ("x", &middle),
            ("y", &(panel.top + Px(panel.height.0 / 2))),
            ("text-anchor", &"middle"),
            ("font-size", &15),
            ("fill", &FAINT),
        ];
        self.svg.text("text", place, what);
    }

    /// A line across a panel.
    pub(super) fn shelf(&mut self, y: Px) {
        let line = format!("M{} {y}H{}", px(LEFT), px(LEFT) + PANEL_WIDTH);
        self.svg.empty("path", &[("d", &line), ("stroke", &FAINT), ("stroke-width", &1)]);
    }

    /// A word above that line, at its right end, with ground around it to be read among dots.
    pub(super) fn shelf_name(&mut self, y: Px, name: &str) {
        let place: Attributes<'_> = &[
            ("x", &(px(LEFT) + PANEL_WIDTH - px(4))),
            ("y", &(y - px(5))),
            ("text-anchor", &"end"),
            ("font-size", &12),
            ("stroke", &"#ffffff"),
            ("stroke-width", &5),
            ("stroke-linejoin", &"round"),
            ("paint-order", &"stroke"),
        ];
        self.svg.text("text", place, &cut(name));
    }

    /// The titles of both axes (below, at the side), the labels below the last panel, the caption,
    /// and the end.
    pub(super) fn finish(
        mut self,
        words: &Words<'_>,
        (time, below): (&Axis, &str),
        (vertical, title): (&Axis, &str),
    ) -> String {
        self.svg.open("g", &[("text-anchor", &"middle"), ("font-size", &12)]);
        for (value, label) in time.ticks() {
            let x = Panel::x(time, value);
            self.svg.text("text", &[("x", &x), ("y", &px(self.top + 18))], &label);
        }
        self.svg.close();
        self.svg.open("g", &[("text-anchor", &"middle"), ("font-size", &13)]);
        let middle = px(LEFT) + Px(PANEL_WIDTH.0 / 2);
        self.svg.text("text", &[("x", &middle), ("y", &px(self.top + 38))], below);
        // A letter takes about 7 pixels; the title is left of the longest label.
        let letters = vertical.ticks().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        let x = (LEFT - 24 - 7 * i64::try_from(letters).unwrap_or(0)).max(14);
        let y = Px((self.first + self.top) * 5);
        let turned = format!("rotate(-90 {x} {y})");
        self.svg.text("text", &[("x", &x), ("y", &y), ("transform", &turned)], title);
        self.svg.close();
        let attributes: Attributes<'_> = &[
            ("x", &(px(LEFT) + PANEL_WIDTH)),
            ("y", &px(self.top + 60)),
            ("text-anchor", &"end"),
            ("font-size", &11),
            ("fill", &FAINT),
        ];
        self.svg.text("text", attributes, &words.caption);
        self.svg.finish()
    }

    fn begin(&mut self, words: &Words<'_>, height: i64) {
        let view = format!("0 0 {WIDTH} {height}");
        self.svg.open(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("width", &WIDTH),
                ("height", &height),
                ("viewBox", &view),
                ("role", &"img"),
                ("aria-labelledby", &"title description"),
                ("font-family", &"sans-serif"),
                ("fill", &INK),
            ],
        );
        let title = format!("{}: {}", words.title, words.subject);
        self.svg.text("title", &[("id", &"title")], &title);
        self.svg.text("desc", &[("id", &"description")], &words.description);
        self.svg.empty("rect", &[("width", &WIDTH), ("height", &height), ("fill", &"#ffffff")]);
        let place: Attributes<'_> =
            &[("x", &px(LEFT)), ("y", &px(30)), ("font-size", &19), ("font-weight", &"bold")];
        self.svg.text("text", place, words.title);
        let place: Attributes<'_> =
            &[("x", &px(LEFT)), ("y", &px(50)), ("font-size", &13), ("fill", &FAINT)];
        self.svg.text("text", place, &cut(words.subject));
    }

    fn entry(&mut self, sign: Sign, entry: &Entry, (x, y): (Px, Px)) {
        self.svg.open("g", &[("font-size", &13)]);
        self.svg.text("title", &[], &entry.label);
        let middle = y + px(ROW / 2);
        match sign {
            Sign::Line => {
                let path = format!("M{x} {middle}h22");
                let look: Attributes<'_> = &[
                    ("d", &path),
                    ("stroke", &entry.look.colour),
                    ("stroke-width", &3),
                    ("stroke-dasharray", &entry.look.dash),
                ];
                self.svg.empty("path", look);
            }
            Sign::Dot => {
                let centre = x + px(11);
                let colour = entry.look.colour;
                let place: Attributes<'_> =
                    &[("cx", &centre), ("cy", &middle), ("r", &5), ("fill", &colour)];
                self.svg.empty("circle", place);
            }
            Sign::Nothing => {}
        }
        let x = if sign == Sign::Nothing { x } else { x + px(30) };
        self.svg.open("text", &[("x", &x), ("y", &(middle + Px(45)))]);
        self.svg.text("tspan", &[("font-weight", &"bold")], &cut(&entry.label));
        self.svg.text("tspan", &[("fill", &FAINT)], &entry.figures);
        self.svg.close();
        self.svg.close();
    }
}

/// How many entries fit next to each other: a letter takes about 7 of 840 pixels, the sign before
/// it 30.
fn columns(legend: &[Entry]) -> usize {
    let letters = |entry: &Entry| entry.label.chars().count() + entry.figures.chars().count();
    match legend.iter().map(letters).max() {
        Some(..=24) => 4,
        Some(..=52) => 2,
        _ => 1,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LETTERS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The title of an axis of time.
pub(super) fn time_title(time: &Axis) -> String {
    format!("time, {}", time.unit())
}

/// `text` for one, `texts` for more.
pub(super) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
