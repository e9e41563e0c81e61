// SPDX-License-Identifier: MIT OR Apache-2.0
//! Picture: W4's frontier, a panel for each device, as SVG.
//!
//! ```text
//! tail │ x        a dot for each variant of W4 and scheduler: far right is bulk like noop's, far
//!  log │    o     down a tail like that of the client alone
//!      └────── bulk
//! ```
//!
//! All panels have the same axes, so that devices can be compared. A client that starved has no
//! dot.

use std::fmt::Write as _;

use super::board::Board;
use super::{frontier, tell};

const COLUMNS: usize = 3;
/// Size of a panel, with its labels.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 30.0;
/// Above all panels: what is shown, and the legend.
const HEAD: f64 = 50.0;
/// Okabe and Ito (2008), without yellow.
const COLOURS: [&str; 7] =
    ["#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#cc79a7", "#d55e00"];
/// The longest tail that fits, as a power of ten.
const DECADES: f64 = 5.0;
/// The highest bulk that fits, divided by noop's.
const BULK_MOST: f64 = 1.2;

/// Draws all panels, row by row.
pub(super) fn panels(board: &Board) -> String {
    let has_dots = |device: &&str| {
        board.rows.iter().any(|row| row.device == *device && tell::on_frontier(row))
    };
    let devices: Vec<&str> = board.devices().into_iter().filter(has_dots).collect();
    let columns = devices.len().clamp(1, COLUMNS);
    let (width, height) =
        (WIDTH * count(columns), HEAD + HEIGHT * count(devices.len().div_ceil(columns)));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\" role=\"img\">\n\
         <title>Tail of an interactive client against the rate of floods</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"8\" y=\"16\">p99.9 over that alone, against the floods' rate by noop's (W4; \
         right and down is better)</text>\n"
    );
    legend(&mut svg, board, columns);
    for (place, device) in devices.iter().enumerate() {
        let (left, top) = (WIDTH * count(place % columns), HEAD + HEIGHT * count(place / columns));
        let _infallible = writeln!(svg, "<g transform=\"translate({left} {top})\">");
        axes(&mut svg, device);
        for scheduler in 0..board.schedulers.len() {
            dots(&mut svg, board, device, scheduler);
        }
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

/// As wide as the panels are, in as many lines as it takes: one, with three columns.
fn legend(svg: &mut String, board: &Board, columns: usize) {
    let step = (WIDTH * count(columns) - 16.0) / count(board.schedulers.len().max(1));
    for (place, scheduler) in board.schedulers.iter().enumerate() {
        let left = 14.0 + step * count(place);
        let _infallible = writeln!(
            svg,
            "<circle cx=\"{left:.1}\" cy=\"34\" r=\"4\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"38\">{}</text>",
            COLOURS[place % COLOURS.len()],
            left + 8.0,
            escaped(scheduler)
        );
    }
}

fn dots(svg: &mut String, board: &Board, device: &str, place: usize) {
    let colour = COLOURS[place % COLOURS.len()];
    for row in board.rows.iter().filter(|row| row.device == device && tell::on_frontier(row)) {
        let Some(point) = frontier::points(board, row)[place] else { continue };
        if point.tail.is_infinite() {
            continue;
        }
        let told = format!("{} {}", row.workload.name, board.schedulers[place]);
        let _infallible = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\" fill-opacity=\"0.7\">\
             <title>{}: {:.0} %, {:.1}x</title></circle>",
            x(point.bulk),
            y(point.tail),
            escaped(&told),
            point.bulk * 100.0,
            point.tail
        );
    }
}

fn axes(svg: &mut String, device: &str) {
    let right = WIDTH - RIGHT;
    for decade in [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0] {
        let y = y(decade);
        let _infallible = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#cccccc\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{decade}x</text>",
            LEFT - 4.0,
            y + 4.0
        );
    }
    for per_cent in [0, 40, 80, 120] {
        let (x, bottom) = (x(f64::from(per_cent) / 100.0), HEIGHT - BOTTOM);
        let _infallible = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#eeeeee\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{per_cent} %</text>",
            bottom + 14.0
        );
    }
    let _infallible = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        TOP - 8.0,
        escaped(device)
    );
}

fn x(bulk: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * bulk.clamp(0.0, BULK_MOST) / BULK_MOST
}

fn y(tail: f64) -> f64 {
    let decades = tail.max(1.0).log10().min(DECADES);
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * decades / DECADES
}

#[expect(clippy::cast_precision_loss, reason = "a small count in a picture")]
const fn count(of: usize) -> f64 {
    of as f64
}

/// Names may come from a command line.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::board;
    use super::*;

    /// Is there a panel for each device, a name for each scheduler, and a dot unless the client
    /// starved? noop's 100 % and 9x: 56 + 224 * 1 / 1.2 = 242.7 and 200 - 170 * 0.954 / 5 = 167.6.
    #[test]
    fn panels_have_dots() {
        let svg = panels(&board());
        assert_eq!(svg.matches("<g ").count(), 1);
        assert_eq!(svg.matches("<title>W4p-1").count(), 1, "{svg}");
        assert!(svg.contains("cx=\"242.7\" cy=\"167.6\""), "{svg}");
        assert!(svg.contains(">noop</text>") && svg.contains(">mine</text>"));
    }
}
