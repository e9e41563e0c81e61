// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page: the board for a browser.

use paternoster_trace::html::{Cell, Report, Section, Table};

use super::board::Board;
use super::tell;

/// A table for each device, the frontier's, verdicts.
pub(super) fn html(board: &Board) -> String {
    let mut report = Report::new("Scoreboard");
    let mut verdicts = Section::new("Verdicts").paragraph(tell::LEGEND);
    for place in 0..board.schedulers.len() {
        verdicts = verdicts.paragraph(tell::verdict(board, place));
    }
    report = report.section(verdicts);
    for device in board.devices() {
        let rows = board.rows.iter().filter(|row| row.device == device);
        let lines = rows.map(|row| (row.workload.name.to_owned(), tell::cells(board, row)));
        report = report.section(Section::new(device).table(table(board, lines)));
    }
    let frontier = board.rows.iter().filter(|row| tell::on_frontier(row));
    let named = frontier
        .map(|row| (format!("{} {}", row.device, row.workload.name), tell::points(board, row)));
    let named: Vec<(String, Vec<String>)> = named.collect();
    if !named.is_empty() {
        let text = "The floods' rate against noop's, % / p99.9 over that alone.";
        let section = Section::new("Frontier of tail against bulk").paragraph(text);
        report = report.section(section.table(table(board, named.into_iter())));
    }
    report.render()
}

fn table(board: &Board, rows: impl Iterator<Item = (String, Vec<String>)>) -> Table {
    let heads = std::iter::once("workload".to_owned()).chain(board.schedulers.iter().cloned());
    rows.fold(Table::new(heads), |table, (name, cells)| {
        table.row(std::iter::once(name).chain(cells).map(|cell| Cell::from(cell.as_str())))
    })
}
