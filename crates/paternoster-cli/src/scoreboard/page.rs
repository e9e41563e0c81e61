// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page: the board for a browser, and W4's frontier as a picture.
//!
//! ```text
//! tail │ x        a point for each device, variant of W4 and scheduler: far right is bulk like
//!  log │    o     noop's, far down a tail like that of the client alone
//!      └────── bulk
//! ```

use std::fmt::Write as _;

use paternoster_trace::html::{Cell, Report, Section, Table};

use super::board::Board;
use super::tell;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 150.0;
const MARGIN: f64 = 40.0;
/// Okabe and Ito (2008), without yellow.
const COLOURS: [&str; 7] =
    ["#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"];
/// The longest tail that fits, as a power of ten.
const DECADES: f64 = 5.0;
/// The highest bulk that fits, by noop's.
const BULK_MOST: f64 = 1.2;

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

/// The picture, as SVG.
pub(super) fn frontier(board: &Board) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>Tail of an interactive client against the rate of floods</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    axes(&mut svg);
    for (place, scheduler) in board.schedulers.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        for row in board.rows.iter().filter(|row| tell::on_frontier(row)) {
            let worst = board.worst(row, place);
            let (Some(bulk), Some(tail)) = (worst.bulk, worst.tail) else { continue };
            let told = format!("{} {} {scheduler}", row.device, row.workload.name);
            let _infallible = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\" fill-opacity=\"0.7\">\
                 <title>{}: {:.0} %, {tail:.1}x</title></circle>",
                x(bulk),
                y(tail),
                escaped(&told),
                bulk * 100.0
            );
        }
        let nth = u32::try_from(place).unwrap_or(0);
        let top = MARGIN + 18.0 * f64::from(nth);
        let left = WIDTH - RIGHT + 16.0;
        let _infallible = writeln!(
            svg,
            "<circle cx=\"{left}\" cy=\"{top}\" r=\"4\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + 10.0,
            top + 4.0,
            escaped(scheduler)
        );
    }
    svg + "</svg>\n"
}

fn axes(svg: &mut String) {
    for decade in [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0] {
        let (y, right) = (y(decade), WIDTH - RIGHT);
        let _infallible = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#cccccc\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{decade}x</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    for per_cent in [0, 20, 40, 60, 80, 100, 120] {
        let (x, bottom) = (x(f64::from(per_cent) / 100.0), HEIGHT - MARGIN);
        let _infallible = writeln!(
            svg,
            "<path d=\"M{x:.1} {MARGIN}V{bottom}\" stroke=\"#eeeeee\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{per_cent} %</text>",
            bottom + 16.0
        );
    }
    let _infallible = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"20\">p99.9 over that alone, against the floods' rate by noop's \
         (W4; right and down is better)</text>"
    );
}

fn x(bulk: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * bulk.clamp(0.0, BULK_MOST) / BULK_MOST
}

fn y(tail: f64) -> f64 {
    let decades = tail.max(1.0).log10().min(DECADES);
    HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * decades / DECADES
}

/// Names may come from a command line.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
