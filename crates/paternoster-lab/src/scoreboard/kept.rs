// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kept: how many judged cells each scheduler keeps, by device and by workload, and which the last
//! one misses and why, as tables for a page of the manual.
//!
//! ```text
//! | nvme-pm9a3 | W13r | 93 / 1.2 | 88 | bfq 98 / 4.0 keeps it | t |
//!                                │    │                       └ misses: e error, t throughput,
//!                                │    │                         w wait
//!                                │    └ one that keeps it, or the one with the least error
//!                                └ X(D*) divided by X(max), %
//! ```
//!
//! A count is followed by how many of the cells are kept only because of the curve: `40 of 49 (7)`.

use std::fmt::Write as _;

use super::board::{Board, Row, Worst};
use super::rule::Misses;
use super::tell::{figures, late};
use super::workloads::family;

/// All devices, each device, each workload; then the last scheduler's misses.
pub(super) fn markdown(board: &Board) -> String {
    let mut text = String::new();
    line(&mut text, "", board.schedulers.iter().cloned());
    line(&mut text, "---", board.schedulers.iter().map(|_| "--:".to_owned()));
    for device in board.devices() {
        count(&mut text, board, device, |row| row.device == device);
    }
    count(&mut text, board, "**all**", |_| true);
    text.push('\n');
    line(&mut text, "", board.schedulers.iter().cloned());
    line(&mut text, "---", board.schedulers.iter().map(|_| "--:".to_owned()));
    let mut families: Vec<&str> = judged(board).map(|row| family(row.workload.name)).collect();
    families.sort_by_key(|name| name[1..].parse::<u32>().unwrap_or(0));
    families.dedup();
    for name in families {
        count(&mut text, board, name, |row| family(row.workload.name) == name);
    }
    if let Some(last) = board.schedulers.len().checked_sub(1) {
        missed(&mut text, board, last);
    }
    text
}

fn judged(board: &Board) -> impl Iterator<Item = &Row> {
    board.rows.iter().filter(|row| row.workload.judged)
}

pub(super) fn line(text: &mut String, head: &str, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _infallible = writeln!(text, "| {head} | {} |", cells.join(" | "));
}

/// A line with each scheduler's kept cells, of the selected ones.
fn count(text: &mut String, board: &Board, head: &str, meant: impl Fn(&Row) -> bool) {
    let rows: Vec<&Row> = judged(board).filter(|row| meant(row)).collect();
    let cell = |place| {
        let worst = rows.iter().map(|row| board.worst(row, place));
        let kept: Vec<Worst> = worst.filter(Worst::keeps).collect();
        match kept.iter().filter(|worst| worst.misses.on_curve).count() {
            0 => format!("{} of {}", kept.len(), rows.len()),
            curve => format!("{} of {} ({curve})", kept.len(), rows.len()),
        }
    };
    if !rows.is_empty() {
        line(text, head, (0..board.schedulers.len()).map(cell));
    }
}

fn missed(text: &mut String, board: &Board, place: usize) {
    let name = &board.schedulers[place];
    let rows = judged(board).map(|row| (row, board.worst(row, place)));
    let rows: Vec<(&Row, Worst)> = rows.filter(|(_, worst)| !worst.keeps()).collect();
    let _infallible = writeln!(text, "\n{name} misses {}:\n", rows.len());
    if rows.is_empty() {
        return;
    }
    line(
        text,
        "device",
        ["workload", name, "X(D\\*) %", "fair", ""].map(str::to_owned).into_iter(),
    );
    line(text, "---", ["---", "--:", "--:", "--:", "---"].map(str::to_owned).into_iter());
    for (row, worst) in &rows {
        let Misses { error, throughput, wait, .. } = worst.misses;
        let why = [(error, "e"), (throughput, "t"), (wait, "w")];
        let why: String = why.iter().filter(|(is, _)| *is).map(|(_, letter)| *letter).collect();
        let cells = [
            row.workload.name.to_owned(),
            format!("{}{}", figures(worst), late(worst)),
            format!("{:.0}", exact(row) * 100.0),
            best(board, row, place),
            why,
        ];
        line(text, &row.device, cells.into_iter());
    }
}

/// X(D*) divided by X(max), the least of the seeds.
fn exact(row: &Row) -> f64 {
    let part = row.curves.iter().map(|curve| curve.at_exact() / curve.most());
    part.fold(f64::INFINITY, f64::min)
}

/// Another scheduler that keeps the cell; if there is none, the one with the least error.
fn best(board: &Board, row: &Row, own: usize) -> String {
    let others = (0..board.schedulers.len()).filter(|place| *place != own);
    let found: Vec<(usize, Worst)> = others.map(|place| (place, board.worst(row, place))).collect();
    let least = |all: &mut dyn Iterator<Item = &(usize, Worst)>| {
        all.min_by(|a, b| a.1.error.total_cmp(&b.1.error)).copied()
    };
    let keeps = least(&mut found.iter().filter(|(_, worst)| worst.keeps()));
    let told = |(place, worst): (usize, Worst), says: &str| {
        format!("{} {}{says}", board.schedulers[place], figures(&worst))
    };
    match (keeps, least(&mut found.iter())) {
        (Some(keeps), _) => told(keeps, " keeps it"),
        (None, Some(least)) => told(least, ""),
        (None, None) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::board;
    use super::*;

    /// Are cells counted, and misses listed with their cause? `mine` keeps W1-8, noop misses it by
    /// its error; W4 is not judged.
    #[test]
    fn cells_are_counted() {
        let mut board = board();
        let text = markdown(&board);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "| card | 0 of 1 | 1 of 1 |");
        assert_eq!(lines[7], "| W1 | 0 of 1 | 1 of 1 |");
        assert_eq!(lines[9], "mine misses 0:");
        board.schedulers.swap(0, 1);
        board.rows.iter_mut().for_each(|row| row.measured.swap(0, 1));
        let text = markdown(&board);
        let last = text.lines().last();
        assert_eq!(last, Some("| card | W1-8 | 100 / 50.0 | 100 | mine 98 / 4.9 keeps it | e |"));
    }
}
