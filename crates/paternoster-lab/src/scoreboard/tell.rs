// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: the board as text, Markdown, CSV and one JSON document.

use std::fmt::Write as _;

use paternoster_frame::results::{self, field};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::table::{align_right, plain_table, trimmed, wrapped};
use serde_json::{Value, json};

use super::board::{Board, Row, Worst};
use super::cell::Measured;
use super::owed::Owed;
use super::reach::{self, States};
use super::rule::{Curve, ERROR_COMPARED, ERROR_MOST, Misses};
use super::workloads::family;

/// What the figures of a cell mean.
pub(super) const LEGEND: &str = "A cell: throughput, % of the lesser of what the device does at \
     the depth that exact shares need and the best whose error is below 10 % / error: what the \
     worst-off backlogged client misses of its entitlement, % / w: longest wait by its bound / \
     with an interactive client its p99.9 over that alone / r: least rate over weight times rate \
     alone. Each figure is the worst of its seeds. `!`: a judged cell that is not kept.";

/// Tables by device, the frontier of W4, verdicts.
pub(super) fn text(board: &Board) -> String {
    let mut text = String::new();
    for device in board.devices() {
        let rows = board.rows.iter().filter(|row| row.device == device);
        let lines = rows.map(|row| (row.workload.name, cells(board, row)));
        let _infallible = writeln!(text, "{device}\n\n{}", table(board, lines));
    }
    let frontier = board.rows.iter().filter(|row| on_frontier(row));
    let lines: Vec<(String, Vec<String>)> = frontier
        .map(|row| (format!("{} {}", row.device, row.workload.name), points(board, row)))
        .collect();
    if !lines.is_empty() {
        text += "frontier: the floods' rate against noop's, % / p99.9 over that alone\n\n";
        text += &table(board, lines.iter().map(|(name, cells)| (&**name, cells.clone())));
        text.push('\n');
    }
    text += &wrapped(LEGEND);
    text.push('\n');
    for place in 0..board.schedulers.len() {
        text += &wrapped(&verdict(board, place));
    }
    text
}

/// The same in Markdown.
pub(super) fn markdown(board: &Board) -> String {
    let mut text = String::from("# scoreboard\n\n");
    for device in board.devices() {
        let heads = std::iter::once("workload").chain(board.schedulers.iter().map(|name| &**name));
        let mut sheet = Sheet::new(1, heads.map(str::to_owned));
        for row in board.rows.iter().filter(|row| row.device == device) {
            let name = std::iter::once(row.workload.name.to_owned());
            sheet.row(name.chain(cells(board, row)).collect());
        }
        text += &format!("## {device}\n\n{}\n", sheet.markdown());
    }
    text += &format!("{LEGEND}\n\n");
    for place in 0..board.schedulers.len() {
        text += &format!("* {}\n", verdict(board, place));
    }
    text
}

/// A line for each cell: the worst of its seeds, in parts of the whole.
pub(super) fn csv(board: &Board) -> String {
    let mut text = String::from(
        "device,workload,scheduler,judged,keeps,throughput,error,wait,tail,bulk,incentive\n",
    );
    let part = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    for row in &board.rows {
        for (place, scheduler) in board.schedulers.iter().enumerate() {
            let worst = board.worst(row, place);
            let judged = row.workload.judged;
            let keeps = if judged { worst.keeps().to_string() } else { String::new() };
            let words = [row.device.as_str(), row.workload.name, scheduler].map(field).join(",");
            let Worst { throughput, error, wait, tail, bulk, incentive, .. } = worst;
            let figures =
                [Some(throughput), Some(error), Some(wait), tail, bulk, finite(incentive)];
            text += &format!("{words},{judged},{keeps},{}\n", figures.map(part).join(","));
        }
    }
    text
}

/// The name of each row and its cells.
fn table<'a>(board: &Board, rows: impl Iterator<Item = (&'a str, Vec<String>)>) -> String {
    let mut table = plain_table();
    table.set_width(220);
    let heads = std::iter::once("").chain(board.schedulers.iter().map(|name| &**name));
    table.set_header(heads);
    align_right(&mut table, 1);
    for (name, cells) in rows {
        table.add_row(std::iter::once(name.to_owned()).chain(cells));
    }
    trimmed(&table)
}

/// The cells of a row, in the order of the schedulers.
pub(super) fn cells(board: &Board, row: &Row) -> Vec<String> {
    let cell = |place| cell(row, &board.worst(row, place));
    (0..board.schedulers.len()).map(cell).collect()
}

fn cell(row: &Row, worst: &Worst) -> String {
    let mark = if row.workload.judged && !worst.keeps() { "! " } else { "" };
    let Worst { wait, incentive, .. } = *worst;
    let tail = if has_client(row) { format!(" / {}", tail(worst)) } else { String::new() };
    format!("{mark}{} / w{wait:.2}{tail} / r{incentive:.2}", figures(worst))
}

/// Throughput and error, in per cent.
pub(super) fn figures(worst: &Worst) -> String {
    format!("{:.0} / {:.1}", worst.throughput * 100.0, worst.error * 100.0)
}

fn tail(worst: &Worst) -> String {
    worst.tail.map_or_else(|| "starved".to_owned(), |tail| format!("{tail:.1}x"))
}

fn has_client(row: &Row) -> bool {
    row.measured.iter().flatten().any(|measured| measured.bulk.is_some())
}

/// Whether a row belongs to the frontier of tail against bulk.
pub(super) fn on_frontier(row: &Row) -> bool {
    family(row.workload.name) == "W4"
}

/// Bulk and tail of each scheduler.
pub(super) fn points(board: &Board, row: &Row) -> Vec<String> {
    let point = |place| {
        let worst = board.worst(row, place);
        let bulk = worst.bulk.map_or("-".to_owned(), |bulk| format!("{:.0}", bulk * 100.0));
        format!("{bulk} / {}", tail(&worst))
    };
    (0..board.schedulers.len()).map(point).collect()
}

/// A wait beyond its bound.
pub(super) fn late(worst: &Worst) -> String {
    if worst.misses.wait { format!(" / w{:.1}", worst.wait) } else { String::new() }
}

/// How many judged cells a scheduler keeps, and which it misses.
pub(super) fn verdict(board: &Board, scheduler: usize) -> String {
    let name = &board.schedulers[scheduler];
    let (count, misses) = board.misses(scheduler);
    if count == 0 {
        return format!("{name}: no judged cell was run.");
    }
    let kept = count - misses.len();
    if misses.is_empty() {
        return format!("{name}: keeps all {count} judged cells.");
    }
    let miss = |(row, worst): &(&Row, Worst)| {
        format!("{} {} ({}{})", row.device, row.workload.name, figures(worst), late(worst))
    };
    let misses: Vec<String> = misses.iter().map(miss).collect();
    format!("{name}: keeps {kept} of {count} judged cells; misses {}.", misses.join(", "))
}

/// Everything, as one document.
pub(super) fn document(board: &Board) -> Value {
    let rows = board.rows.iter().map(|row| {
        let cells = board.schedulers.iter().enumerate().map(|(place, scheduler)| {
            let worst = board.worst(row, place);
            let seeds =
                board.seeds.iter().zip(&row.measured[place]).zip(references(row, Some(place)));
            let Misses { error, throughput, wait, on_curve } = worst.misses;
            json!({
                "scheduler": scheduler,
                "throughput": worst.throughput,
                "error": worst.error,
                "wait": worst.wait,
                "incentive": finite(worst.incentive),
                "tail": worst.tail,
                "bulk": worst.bulk,
                "keeps": row.workload.judged.then(|| worst.keeps()),
                "misses": { "error": error, "throughput": throughput, "wait": wait },
                "on_curve": on_curve,
                "seeds": seeds
                    .map(|((seed, one), reference)| seed_document(*seed, one, reference))
                    .collect::<Vec<_>>(),
            })
        });
        json!({
            "device": row.device,
            "workload": row.workload.name,
            "jobs": row.workload.file.0,
            "sections": row.workload.sections,
            "judged": row.workload.judged,
            "throughput_least": row.workload.throughput_least(),
            "references": references(row, None),
            "mixtures": of_seeds(row, reach::most),
            "bounds": of_seeds(row, reach::bound),
            "curves": row.curves.iter().map(curve).collect::<Vec<_>>(),
            "cells": cells.collect::<Vec<_>>(),
        })
    });
    let verdicts = (0..board.schedulers.len()).map(|place| {
        let (count, misses) = board.misses(place);
        let misses = misses.iter().map(|(row, worst)| {
            json!({
                "device": row.device, "workload": row.workload.name,
                "throughput": worst.throughput, "error": worst.error,
            })
        });
        json!({
            "scheduler": board.schedulers[place], "judged": count,
            "misses": misses.collect::<Vec<_>>(),
        })
    });
    let found = json!({
        "seeds": board.seeds,
        "error_most": ERROR_MOST,
        "error_compared": ERROR_COMPARED,
        "rows": rows.collect::<Vec<_>>(),
        "verdicts": verdicts.collect::<Vec<_>>(),
    });
    results::document("scoreboard", found)
}

fn curve(curve: &Curve) -> Value {
    let point = |&(commands, throughput): &(f64, f64)| json!([commands, throughput]);
    curve.points.iter().map(point).collect()
}

/// A figure of each seed's windows.
fn of_seeds<T>(row: &Row, figure: fn(&[States]) -> T) -> Vec<T> {
    row.reach.iter().map(|windows| figure(windows)).collect()
}

/// For each seed, the run that `own`, or a scheduler measured with them, is compared with.
fn references(row: &Row, own: Option<usize>) -> Vec<f64> {
    (0..row.curves.len()).map(|seed| row.reference(seed, own)).collect()
}

fn seed_document(seed: u64, measured: &Measured, reference: f64) -> Value {
    let client = |one: &Owed| {
        json!({
            "name": one.name, "got": one.got, "entitled": one.entitled,
            "backlogged": one.backlogged,
        })
    };
    let window = |all: &Vec<Owed>| all.iter().map(client).collect::<Value>();
    json!({
        "seed": seed,
        "throughput": measured.throughput,
        "reference": reference,
        "error": measured.error,
        "wait": measured.wait,
        "incentive": finite(measured.incentive),
        "tail": measured.tail,
        "bulk": measured.bulk,
        "windows": measured.windows.iter().map(window).collect::<Vec<_>>(),
    })
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::board;
    use super::*;

    /// Are cells, the frontier and verdicts printed as the legend says? noop's worst error is 50 %.
    #[test]
    fn cells_are_told() {
        let board = board();
        let expected = ["! 100 / 50.0 / w0.50 / r1.00", "98 / 4.9 / w0.50 / r1.00"];
        assert_eq!(cells(&board, &board.rows[0]), expected);
        // noop has 2 with both seeds, and the other one of either 1.
        let expected = ["200 / 0.0 / w0.50 / 9.0x / r1.00", "50 / 0.0 / w0.50 / starved / r1.00"];
        assert_eq!(cells(&board, &board.rows[1]), expected);
        assert_eq!(points(&board, &board.rows[1]), ["100 / 9.0x", "50 / starved"]);
        let noop = "noop: keeps 0 of 1 judged cells; misses card W1-8 (100 / 50.0).";
        assert_eq!(verdict(&board, 0), noop);
        assert_eq!(verdict(&board, 1), "mine: keeps all 1 judged cells.");
    }

    /// Has CSV a line for each cell, with the figures of the table as parts, and Markdown a row for
    /// each workload? noop's worst error of the first is 50 %.
    #[test]
    fn csv_has_a_line_for_each_cell() {
        let csv = csv(&board());
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * 2);
        let expected = "card,W1-8,noop,true,false,1.0000,0.5000,0.5000,,,1.0000";
        assert_eq!(lines[1], expected);
        assert!(lines[4].contains(",mine,false,,0.5000,"), "{}", lines[4]);
        let markdown = markdown(&board());
        assert!(markdown.contains("## card\n\n| workload"), "{markdown}");
        assert!(markdown.contains("| ! 100 / 50.0 / w0.50 / r1.00"), "{markdown}");
        assert!(markdown.contains("\n* mine: keeps all 1 judged cells.\n"), "{markdown}");
    }

    /// Does the document say the same?
    #[test]
    fn the_document_says_the_same() {
        let document = document(&board());
        assert_eq!(document["rows"][0]["cells"][0]["keeps"], false);
        assert_eq!(document["rows"][1]["cells"][0]["keeps"], Value::Null);
        assert_eq!(document["verdicts"][1]["misses"].as_array().map(Vec::len), Some(0));
        assert_eq!(document["rows"][1]["cells"][1]["tail"], Value::Null);
    }
}
