// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames: two snapshots and a view as lines of text, and nothing else.
//!
//! ```text
//! disk0: bfq on io_uring                             a device
//! busy 87.5 %, 4 of 32 in device, 61 waiting …
//!
//! tenant    ↓share           entitled     MB/s …     columns, with the one that sorts marked
//! db        75.0 % ######--    75.0 %     12.3 …     a tenant
//!   #12 a unix uid 1000 …                            its connections, if requested
//! ```
//!
//! Invariants: I1 no line is wider than the view; I2 there are no more lines than it is high (0:
//! all of them).

use paternoster_serve::control::snapshot::Snapshot;

use super::rows::{Column, Row, interval};
use super::terminal::Key;
use crate::ctl::units::{Bound, bytes, harmless, millis};

/// In a pipe, lines have at most this many columns.
const WIDTH: u16 = 100;
/// Longest names and bars.
const NAME: usize = 24;
const BAR: usize = 20;
/// Width of the column before the bar, and those after it.
const SHARE: usize = 9;
/// With their priority where there is no room for all: the last goes first.
const FIGURES: [(Column, &str, usize, u8); 7] = [
    (Column::Entitled, "entitled", 9, 0),
    (Column::Bytes, "MB/s", 9, 1),
    (Column::Reads, "reads/s", 9, 4),
    (Column::Writes, "writes/s", 10, 5),
    (Column::Mean, "mean ms", 9, 6),
    (Column::P99, "p99 ms", 9, 2),
    (Column::Open, "open", 7, 3),
];

/// A column, its heading and its width.
type Figure = (Column, &'static str, usize);

/// The columns that fit, the most important first.
fn fitting(room: usize) -> Vec<Figure> {
    let fits = |&&(_, _, _, rank): &&(Column, &str, usize, u8)| {
        let before = FIGURES.iter().filter(|other| other.3 <= rank);
        before.map(|(_, _, width, _)| width).sum::<usize>() <= room
    };
    FIGURES.iter().filter(fits).map(|&(column, title, width, _)| (column, title, width)).collect()
}

/// What is shown, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) width: u16,
    /// Lines; 0 for all of them.
    pub(super) height: u16,
    pub(super) sort: Column,
    pub(super) connections: bool,
    /// Lines that are skipped at the top.
    pub(super) scroll: usize,
    /// Whether there is a keyboard.
    pub(super) live: bool,
}

impl Default for View {
    fn default() -> View {
        View {
            width: WIDTH,
            height: 0,
            sort: Column::default(),
            connections: false,
            scroll: 0,
            live: false,
        }
    }
}

impl View {
    /// Acts on a key.
    pub(super) fn turn(&mut self, key: Key) {
        match key {
            Key::Quit => {}
            Key::Connections => self.connections = !self.connections,
            Key::Left => self.sort = self.sort.step(false),
            Key::Right => self.sort = self.sort.step(true),
            Key::Up => self.scroll = self.scroll.saturating_sub(1),
            Key::Down => self.scroll += 1,
        }
    }
}

/// A line of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    /// A heading.
    pub(super) strong: bool,
}

/// What happened between two snapshots of each device, as lines.
pub(super) fn frame(before: &[Snapshot], after: &[Snapshot], view: &View) -> Vec<Line> {
    let nothing = Snapshot::default();
    let mut lines = Vec::new();
    for now in after {
        if !lines.is_empty() {
            lines.push(plain(String::new()));
        }
        let then = before.iter().find(|then| then.device == now.device).unwrap_or(&nothing);
        device(then, now, view, &mut lines);
    }
    if after.is_empty() {
        lines.push(plain("no device answers".to_owned()));
    }
    let mut lines = window(lines, view);
    for line in &mut lines {
        line.text = cut(line.text.trim_end(), usize::from(view.width));
    }
    lines
}

const fn plain(text: String) -> Line {
    Line { text, strong: false }
}

fn device(before: &Snapshot, now: &Snapshot, view: &View, lines: &mut Vec<Line>) {
    let interval = interval(before, now, view.sort);
    let drained = now.volumes.iter().filter(|volume| volume.drained);
    let drained: Vec<String> = drained.map(|volume| harmless(&volume.name)).collect();
    let mut first = format!("{}: {} on {}", harmless(&now.device), now.scheduler, now.backend);
    if now.tracing {
        first.push_str(", tracing");
    }
    if !drained.is_empty() {
        first = format!("{first}, drained: {}", drained.join(" "));
    }
    lines.push(Line { text: first, strong: true });
    lines.push(plain(format!(
        "busy {:.1} %, {} of {} in device, {} waiting, {:.0} IOPS, {:.1} MB/s, \
         memory {} of {}",
        interval.busy * 100.0,
        now.in_device,
        now.depth,
        now.waiting,
        interval.requests_per_second,
        interval.bytes_per_second / 1e6,
        bytes(now.memory_used),
        bytes(now.memory)
    )));
    lines.push(plain(String::new()));
    let rows = interval.tenants.iter().flat_map(|tenant| {
        let below = tenant.connections.iter().filter(|_| view.connections);
        let indented = below.map(|row| (format!("  {}", row.name), row));
        std::iter::once((tenant.row.name.clone(), &tenant.row)).chain(indented)
    });
    let rows: Vec<(String, &Row)> = rows.collect();
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let named = widest.clamp(8, NAME) + SHARE;
    let fitting = fitting(usize::from(view.width).saturating_sub(named));
    let figures = SHARE + fitting.iter().map(|(_, _, width)| width).sum::<usize>();
    let room = usize::from(view.width).saturating_sub(figures);
    let name = widest.min(room).clamp(8, NAME);
    // A blank before the bar.
    let left = room.saturating_sub(name + 1);
    let bar = if left < 5 { 0 } else { left.min(BAR) };
    lines.push(Line { text: heading(view.sort, name, bar, &fitting), strong: true });
    lines.extend(rows.iter().map(|(text, row)| plain(told(text, row, name, bar, &fitting))));
}

fn heading(sort: Column, name: usize, bar: usize, figures: &[Figure]) -> String {
    let marked =
        |column: Column, text: &str| format!("{}{text}", if column == sort { "↓" } else { "" });
    let (tenant, share) = (marked(Column::Name, "tenant"), marked(Column::Share, "share"));
    let mut text = format!("{tenant:<name$}{share:>SHARE$}");
    if bar > 0 {
        text.push_str(&" ".repeat(bar + 1));
    }
    for &(column, title, width) in figures {
        text = format!("{text}{:>width$}", marked(column, title));
    }
    text
}

fn told(text: &str, row: &Row, name: usize, bar: usize, figures: &[Figure]) -> String {
    let share = format!("{:.1} %", row.share * 100.0);
    let drawn = if bar > 0 { format!(" {}", drawn(row.share, bar)) } else { String::new() };
    let mut told = format!("{:<name$}{share:>SHARE$}{drawn}", cut(text, name));
    for &(column, _, width) in figures {
        let figure = match column {
            Column::Entitled => {
                row.entitled.map_or("-".to_owned(), |part| format!("{:.1} %", part * 100.0))
            }
            Column::Bytes => format!("{:.1}", row.bytes_per_second / 1e6),
            Column::Reads => format!("{:.0}", row.reads_per_second),
            Column::Writes => format!("{:.0}", row.writes_per_second),
            Column::Mean => row.mean.map_or("-".to_owned(), millis),
            Column::P99 => row.p99.map_or("-".to_owned(), Bound::told),
            _ => row.open.to_string(),
        };
        told = format!("{told}{figure:>width$}");
    }
    told
}

/// A bar of this many columns, filled up to `part`.
fn drawn(part: f64, columns: usize) -> String {
    let filled = (0..columns).filter(|column| (*column as f64 + 0.5) < part * columns as f64);
    let filled = filled.count();
    "#".repeat(filled) + &"-".repeat(columns - filled)
}

/// The lines that there is room for.
fn window(lines: Vec<Line>, view: &View) -> Vec<Line> {
    let keys = "q ends  c connections  left right sort  up down scroll";
    let height = usize::from(view.height);
    let foot = usize::from(view.live) * 2;
    let mut shown = lines;
    if height > 0 {
        let room = height.saturating_sub(foot).max(1);
        let scroll = view.scroll.min(shown.len().saturating_sub(room));
        shown.drain(..scroll);
        let below = shown.len().saturating_sub(room);
        if below > 0 {
            shown.truncate(room - 1);
            shown.push(plain(format!("… {} more lines", below + 1)));
        }
    }
    if view.live {
        shown.push(plain(String::new()));
        shown.push(plain(keys.to_owned()));
    }
    if height > 0 {
        shown.truncate(height);
    }
    shown
}

/// The text in at most this many columns; a cut leaves a mark.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(columns.saturating_sub(1)).collect();
    if columns > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
