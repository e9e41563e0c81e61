// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frontier: the tail latency of W4's client against the rate of its floods (bulk), for a page of
//! the manual. Which schedulers are not beaten, how far behind are the others, and which make an
//! interactive client wait longer than noop does?
//!
//! ```text
//! tail │    a         b beats a: it is farther right and lower. Nothing beats b and c; which
//!  log │       b      of them is better is a matter of choice. How far a is behind: its tail
//!      │  c           divided by the shortest of those that leave the floods as much, here b's.
//!      └────── bulk
//! ```
//!
//! # Invariants
//! I1  A scheduler on the frontier is 1.0x behind it: none with as much bulk has a shorter tail.
//! I2  A scheduler that starves the client with any of the floods has no place.

use std::fmt::Write as _;

use super::board::{Board, Row};
use super::tell::on_frontier;

/// Smaller differences are chance: of bulk relative to noop's, and of the tail.
const BULK_CHANCE: f64 = 0.01;
const TAIL_CHANCE: f64 = 0.02;

/// An elevator's position in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// The floods' rate divided by that under noop.
    pub(super) bulk: f64,
    /// The client's p99.9 divided by its p99.9 alone; infinite if it starved.
    pub(super) tail: f64,
}

impl Point {
    /// Whether this leaves the floods as much as `other` does.
    fn keeps_as_much(self, other: Point) -> bool {
        self.bulk >= other.bulk - BULK_CHANCE
    }

    /// Whether this is better than `other` in one of the two and no worse in the other; differences
    /// by chance do not count.
    fn beats(self, other: Point) -> bool {
        let shorter = self.tail < other.tail * (1.0 - TAIL_CHANCE);
        let as_short = self.tail <= other.tail * (1.0 + TAIL_CHANCE);
        let more = self.bulk > other.bulk + BULK_CHANCE;
        (self.keeps_as_much(other) && shorter) || (more && as_short)
    }
}

/// The position of every scheduler; `None` where noop did not run too.
pub(super) fn points(board: &Board, row: &Row) -> Vec<Option<Point>> {
    let point = |place| {
        let worst = board.worst(row, place);
        Some(Point { bulk: worst.bulk?, tail: worst.tail.unwrap_or(f64::INFINITY) })
    };
    (0..board.schedulers.len()).map(point).collect()
}

/// How many times longer a tail is than the shortest of those that leave the floods as much.
fn behind(own: Point, all: &[Option<Point>]) -> f64 {
    let others = all.iter().flatten().filter(|other| other.keeps_as_much(own));
    let shortest = others.map(|other| other.tail).fold(own.tail, f64::min);
    let factor = own.tail / shortest;
    if factor > 1.0 + TAIL_CHANCE { factor } else { 1.0 }
}

fn is_beaten(own: Point, all: &[Option<Point>]) -> bool {
    all.iter().flatten().any(|other| other.beats(own))
}

/// The points of each variant of W4 on a device.
type Rows<'a> = Vec<(&'a str, Vec<Option<Point>>)>;

/// All devices in one table, then a table for each, in Markdown.
pub(super) fn markdown(board: &Board) -> String {
    let rows = |device| {
        let rows = board.rows.iter().filter(move |row| row.device == device && on_frontier(row));
        rows.map(|row| (row.workload.name, points(board, row))).collect::<Rows<'_>>()
    };
    let all = board.devices().into_iter().map(|device| (device, rows(device)));
    let all: Vec<(&str, Rows<'_>)> = all.filter(|(_, rows)| !rows.is_empty()).collect();
    if all.is_empty() {
        return "W4 was not run: there is no frontier.\n".to_owned();
    }
    let mut text = "## All devices\n\n".to_owned();
    head(&mut text, board);
    for (device, rows) in &all {
        let told = |place| format!("{}, {}", on_it(place, rows), mean_behind(place, rows));
        line(&mut text, device, (0..board.schedulers.len()).map(told));
    }
    for (device, rows) in &all {
        let _infallible = writeln!(text, "\n## {device}\n");
        table(&mut text, board, rows);
    }
    text
}

fn head(text: &mut String, board: &Board) {
    line(text, "", board.schedulers.iter().cloned());
    line(text, "---", board.schedulers.iter().map(|_| "--:".to_owned()));
}

fn table(text: &mut String, board: &Board, rows: &Rows<'_>) {
    head(text, board);
    for (name, points) in rows {
        line(text, name, points.iter().map(|point| cell(*point, points)));
    }
    let of_each = |told: fn(usize, &Rows<'_>, usize) -> String| {
        let noop = board.schedulers.iter().position(|name| name == "noop" || name == "none");
        (0..board.schedulers.len()).map(move |place| told(place, rows, noop.unwrap_or(place)))
    };
    line(text, "on the frontier", of_each(|place, rows, _| on_it(place, rows)));
    line(text, "behind it, mean", of_each(|place, rows, _| mean_behind(place, rows)));
    line(text, "p99.9 above noop's", of_each(above_noop));
}

fn line(text: &mut String, head: &str, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _infallible = writeln!(text, "| {head} | {} |", cells.join(" | "));
}

fn cell(point: Option<Point>, all: &[Option<Point>]) -> String {
    let Some(point) = point else { return "-".to_owned() };
    let figures = if point.tail.is_finite() {
        format!("{:.0} / {:.1}x", point.bulk * 100.0, point.tail)
    } else {
        format!("{:.0} / starved", point.bulk * 100.0)
    };
    if is_beaten(point, all) { figures } else { format!("**{figures}**") }
}

/// The points of one elevator, each with its variant and all points of its row.
fn own<'a>(
    place: usize,
    rows: &'a Rows<'a>,
) -> impl Iterator<Item = (&'a str, Point, &'a [Option<Point>])> {
    rows.iter().filter_map(move |(name, all)| Some((*name, all[place]?, &**all)))
}

fn on_it(place: usize, rows: &Rows<'_>) -> String {
    let count = own(place, rows).filter(|(_, point, all)| !is_beaten(*point, all)).count();
    format!("{count} of {}", rows.len())
}

/// The geometric mean of how far an elevator is behind.
fn mean_behind(place: usize, rows: &Rows<'_>) -> String {
    let (mut sum, mut count) = (0.0, 0.0);
    for (_, point, all) in own(place, rows) {
        if point.tail.is_infinite() {
            return "starved".to_owned();
        }
        sum += behind(point, all).ln();
        count += 1.0;
    }
    if count > 0.0 { format!("{:.1}x", f64::exp(sum / count)) } else { "-".to_owned() }
}

/// In how many variants the client waits longer than under noop, and in which one by most.
fn above_noop(place: usize, rows: &Rows<'_>, noop: usize) -> String {
    let above = own(place, rows).filter_map(|(name, point, all)| {
        let factor = point.tail / all[noop]?.tail;
        (factor > 1.0 + TAIL_CHANCE).then_some((factor, name))
    });
    let above: Vec<(f64, &str)> = above.collect();
    match above.iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
        None => "never".to_owned(),
        Some((factor, name)) if factor.is_finite() => {
            format!("{} of {}, {name} {factor:.1}x", above.len(), rows.len())
        }
        Some((_, name)) => format!("{} of {}, {name} starved", above.len(), rows.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::board;
    use super::*;

    const fn point(bulk: f64, tail: f64) -> Option<Point> {
        Some(Point { bulk, tail })
    }

    /// The module's picture: a (0.8, 20x), b (0.9, 10x), c (0.3, 5x). b is better than a in both,
    /// and a's tail is 20 / 10 = 2 times as long. Nothing beats b and c.
    #[test]
    fn who_is_beaten_and_by_how_much() {
        let all = [point(0.8, 20.0), point(0.9, 10.0), point(0.3, 5.0), None];
        let [Some(a), Some(b), Some(c), _] = all else { panic!("points") };
        assert_eq!([a, b, c].map(|one| is_beaten(one, &all)), [true, false, false]);
        assert_eq!([a, b, c].map(|one| behind(one, &all)), [2.0, 1.0, 1.0]);
    }

    /// Is a difference by chance, 1 % of bulk or 2 % of the tail, no advantage; and does it not
    /// save one that is far worse in the other figure? And one that starves is beaten.
    #[test]
    fn chance_and_starvation() {
        let all =
            [point(1.0, 10.0), point(0.995, 10.1), point(1.005, 600.0), point(1.0, f64::INFINITY)];
        let beaten = all.map(|one| is_beaten(one.expect("a point"), &all));
        assert_eq!(beaten, [false, false, true, true]);
    }

    /// Is a table printed? Of noop (100 %, 9x) and `mine` (50 %, starved) only noop is on the
    /// frontier.
    #[test]
    fn tables_are_told() {
        let text = markdown(&board());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2..4], ["|  | noop | mine |", "| --- | --: | --: |"]);
        assert_eq!(lines[4], "| card | 1 of 1, 1.0x | 0 of 1, starved |");
        assert_eq!(lines[6], "## card");
        assert_eq!(lines[10], "| W4p-1 | **100 / 9.0x** | 50 / starved |");
        assert_eq!(lines[11], "| on the frontier | 1 of 1 | 0 of 1 |");
        assert_eq!(lines[13], "| p99.9 above noop's | never | 1 of 1, W4p-1 starved |");
    }
}
