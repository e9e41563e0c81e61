// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reachable: of the cells that the last scheduler misses, which could be kept, as a table for a
//! page of the manual.
//!
//! ```text
//! | ssd-870evo | W1-128 | 100 / 74.7 | 30 | 31 | never |
//!                                │      │    └ the most that any scheduler could
//!                                │      └ the most of a mixture, % of what is asked (`reach.rs`)
//!                                └ throughput / error of the scheduler itself, %
//! ```
//!
//! The throughput that is asked is the rule's: the lesser of X(D*) and the best of the *other* fair
//! ones (`Row::reference`).
//!
//! * kept: another scheduler keeps the cell.
//! * reached: a mixture of what was measured would keep it.
//! * never: no scheduler can, by the laws of `mutual_delay.rs`.
//! * open: neither is shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::board::{Board, Row};
use super::kept::line;
use super::reach;
use super::tell::{figures, late};

/// What is known of a missed cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Kept,
    Reached,
    Never,
    Open,
}

impl Known {
    const ALL: [Known; 4] = [Known::Kept, Known::Reached, Known::Never, Known::Open];

    const fn word(self) -> &'static str {
        match self {
            Known::Kept => "kept",
            Known::Reached => "reached",
            Known::Never => "never",
            Known::Open => "open",
        }
    }
}

/// The most that a mixture, and any scheduler, has: divided by what is asked of a scheduler; the
/// least of the seeds.
fn limits(row: &Row, own: usize) -> (f64, Option<f64>) {
    let (mut mixture, mut any) = (f64::INFINITY, None);
    for (seed, windows) in row.reach.iter().enumerate() {
        let asked = row.reference(seed, Some(own));
        mixture = f64::min(mixture, reach::most(windows) / asked);
        if let Some(bound) = reach::bound(windows) {
            any = Some(any.map_or(bound / asked, |least: f64| least.min(bound / asked)));
        }
    }
    (mixture, any)
}

/// How many of each there are, by workload; then a line for each.
pub(super) fn markdown(board: &Board) -> String {
    let Some(own) = board.schedulers.len().checked_sub(1) else { return String::new() };
    let missed = board.misses(own).1;
    let mut lines = String::new();
    let heads = ["workload", &board.schedulers[own], "mixture", "any", ""];
    line(&mut lines, "device", heads.map(str::to_owned).into_iter());
    line(&mut lines, "---", ["---", "--:", "--:", "--:", "---"].map(str::to_owned).into_iter());
    let mut counts: BTreeMap<(u32, &str), BTreeMap<Known, u32>> = BTreeMap::new();
    for (row, worst) in &missed {
        let others = (0..board.schedulers.len()).filter(|place| *place != own);
        let kept = others.map(|place| board.worst(row, place)).any(|worst| worst.keeps());
        let (mixture, any) = limits(row, own);
        let least = row.workload.throughput_least();
        let known = match any {
            _ if kept => Known::Kept,
            _ if mixture >= least => Known::Reached,
            Some(any) if any < least => Known::Never,
            _ => Known::Open,
        };
        let percent = |part: f64| format!("{:.0}", 100.0 * part);
        let cells = [
            row.workload.name.to_owned(),
            format!("{}{}", figures(worst), late(worst)),
            percent(mixture),
            any.map_or_else(|| "-".to_owned(), percent),
            known.word().to_owned(),
        ];
        line(&mut lines, &row.device, cells.into_iter());
        let family = super::workloads::family(row.workload.name);
        let number = family[1..].parse().unwrap_or(0);
        *counts.entry((number, family)).or_default().entry(known).or_default() += 1;
    }
    let mut text = String::new();
    line(&mut text, "", Known::ALL.map(|known| known.word().to_owned()).into_iter());
    line(&mut text, "---", Known::ALL.map(|_| "--:".to_owned()).into_iter());
    let count = |of: &BTreeMap<Known, u32>, known: &Known| of.get(known).copied().unwrap_or(0);
    for ((_, family), of) in &counts {
        line(&mut text, family, Known::ALL.map(|known| count(of, &known).to_string()).into_iter());
    }
    let sum = |known: Known| counts.values().map(|of| count(of, &known)).sum::<u32>().to_string();
    line(&mut text, "**all**", Known::ALL.map(sum).into_iter());
    let _infallible = write!(text, "\n{lines}");
    text
}
