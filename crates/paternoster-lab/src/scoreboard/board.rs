// SPDX-License-Identifier: MIT OR Apache-2.0
//! Board: every cell, and what the comparison shows.
//!
//! A cell shows the worst of its seeds, and is kept if each of them keeps the rule (`rule.rs`).
//!
//! | figure | worst |
//! |---|---|
//! | throughput divided by that of the rule's reference | least |
//! | shortfall divided by entitlement (the error) | largest |
//! | longest wait divided by its bound | largest |
//! | 99.9th percentile divided by that alone | largest |
//! | the others' throughput divided by noop's | least |
//! | sharing incentive | least |

use super::cell::Measured;
use super::reach::States;
use super::rule::{Curve, Found, Misses, misses, reference};
use super::workloads::Workload;

/// What the others are compared with when they run with an interactive client.
const UNSCHEDULED: [&str; 2] = ["noop", "none"];

/// One workload on one device, all seeds.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) device: String,
    pub(super) workload: Workload,
    /// Measurements by scheduler, then by seed.
    pub(super) measured: Vec<Vec<Measured>>,
    /// Curves by seed.
    pub(super) curves: Vec<Curve>,
    /// For each seed and window: what could be had.
    pub(super) reach: Vec<Vec<States>>,
}

impl Row {
    /// The throughput that `own` is compared with, for a seed: of the schedulers beside it, so that
    /// a scheduler that alone is fair is held to X(D*), not to itself.
    pub(super) fn reference(&self, seed: usize, own: Option<usize>) -> f64 {
        let others = self.measured.iter().enumerate().filter(|(place, _)| Some(*place) != own);
        reference(&self.curves[seed], others.map(|(_, seeds)| seeds[seed].found()))
    }
}

impl Measured {
    /// The inputs of the rule.
    pub(super) fn found(&self) -> Found {
        Found { throughput: self.throughput, error: self.error, wait: self.wait }
    }
}

/// All results.
#[derive(Debug, Clone)]
pub(super) struct Board {
    pub(super) schedulers: Vec<String>,
    pub(super) seeds: Vec<u64>,
    pub(super) rows: Vec<Row>,
}

/// The worst of a cell's seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Worst {
    /// Divided by the reference, 0 to 1 and more.
    pub(super) throughput: f64,
    pub(super) error: f64,
    pub(super) wait: f64,
    pub(super) incentive: f64,
    /// Tail latency of the interactive client, if there is one and it got anything.
    pub(super) tail: Option<f64>,
    /// Divided by noop's, if that ran and there is an interactive client.
    pub(super) bulk: Option<f64>,
    /// Whether it misses with any of the seeds.
    pub(super) misses: Misses,
}

impl Worst {
    /// Whether a judged cell is good enough.
    pub(super) fn keeps(&self) -> bool {
        !self.misses.any()
    }
}

impl Board {
    /// The devices, in their order.
    pub(super) fn devices(&self) -> Vec<&str> {
        let mut found: Vec<&str> = self.rows.iter().map(|row| &*row.device).collect();
        found.dedup();
        found
    }

    /// The figures of a cell.
    pub(super) fn worst(&self, row: &Row, scheduler: usize) -> Worst {
        let unscheduled = self.schedulers.iter().position(|name| UNSCHEDULED.contains(&&**name));
        let mut worst = Worst {
            throughput: f64::INFINITY,
            error: 0.0,
            wait: 0.0,
            incentive: f64::INFINITY,
            tail: None,
            bulk: None,
            misses: Misses::default(),
        };
        let least = row.workload.throughput_least();
        let mut starved = false;
        for (seed, own) in row.measured[scheduler].iter().enumerate() {
            let reference = row.reference(seed, Some(scheduler));
            let ratio = if reference > 0.0 { own.throughput / reference } else { 1.0 };
            worst.throughput = worst.throughput.min(ratio);
            worst.error = worst.error.max(own.error);
            worst.wait = worst.wait.max(own.wait);
            let missed = misses(own.found(), &row.curves[seed], reference, least);
            worst.misses = worst.misses.or(missed);
            worst.incentive = worst.incentive.min(own.incentive);
            starved |= own.tail.is_none();
            worst.tail = own.tail.map(|tail| worst.tail.map_or(tail, |other| other.max(tail)));
            let noop = unscheduled.and_then(|place| row.measured[place][seed].bulk);
            if let (Some(bulk), Some(noop)) = (own.bulk, noop)
                && noop > 0.0
            {
                let bulk = bulk / noop;
                worst.bulk = Some(worst.bulk.map_or(bulk, |other| other.min(bulk)));
            }
        }
        // A client that got nothing with one seed has no longest latency.
        worst.tail = worst.tail.filter(|_| !starved);
        worst
    }

    /// For a scheduler: how many judged cells there are, and those that miss.
    pub(super) fn misses(&self, scheduler: usize) -> (usize, Vec<(&Row, Worst)>) {
        let judged = self.rows.iter().filter(|row| row.workload.judged);
        let cells: Vec<(&Row, Worst)> =
            judged.map(|row| (row, self.worst(row, scheduler))).collect();
        let count = cells.len();
        (count, cells.into_iter().filter(|(_, worst)| !worst.keeps()).collect())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::workloads::by_name;
    use super::*;

    fn measured(throughput: f64, error: f64, tail: Option<f64>, bulk: Option<f64>) -> Measured {
        let (wait, incentive, windows) = (0.5, 1.0, Vec::new());
        Measured { throughput, error, wait, incentive, tail, bulk, windows }
    }

    /// Two schedulers and two seeds; a judged cell and one with a client. Depth costs nothing.
    pub(in super::super) fn board() -> Board {
        let row = |name: &str, measured| Row {
            device: "card".to_owned(),
            workload: by_name(name)[0],
            measured,
            curves: [2.0, 1.0].map(|most| Curve { points: vec![(1.0, most)] }).to_vec(),
            reach: Vec::new(),
        };
        let judged = vec![
            vec![measured(2.0, 0.5, None, None), measured(1.0, 0.4, None, None)],
            vec![measured(1.96, 0.01, None, None), measured(1.1, 0.049, None, None)],
        ];
        let client = vec![
            vec![
                measured(2.0, 0.0, Some(8.0), Some(1.0)),
                measured(2.0, 0.0, Some(9.0), Some(2.0)),
            ],
            vec![measured(1.0, 0.0, Some(2.0), Some(0.9)), measured(1.0, 0.0, None, Some(1.0))],
        ];
        Board {
            schedulers: ["noop", "mine"].map(str::to_owned).to_vec(),
            seeds: vec![1, 2],
            rows: vec![row("W1-8", judged), row("W4p-1", client)],
        }
    }

    /// Is the worst seed shown, compared with the other fair ones? No other is fair, so `mine` is
    /// held to X(D*), 2 and 1: 1.96 / 2 = 98 % and 1.1 / 1 = 110 %; errors 1 and 4.9 %. noop is
    /// held to the lesser of `mine` and X(D*): 2 / 1.96 = 102 % and 1 / 1; it misses by its error.
    #[test]
    fn the_worst_seed_counts() {
        let board = board();
        let mine = board.worst(&board.rows[0], 1);
        assert!((mine.throughput - 0.98).abs() < 1e-9 && (mine.error - 0.049).abs() < 1e-9);
        assert!(mine.keeps());
        let noop = board.worst(&board.rows[0], 0);
        assert!((noop.throughput - 1.0).abs() < 1e-9 && !noop.keeps());
        assert!(noop.misses.error && !noop.misses.throughput);
        assert_eq!(board.misses(0).1.len(), 1);
        // W4 is not judged.
        assert_eq!((board.misses(1).0, board.misses(1).1.len()), (1, 0));
    }

    /// Is a client's tail the longest, unless it starved with a seed; and the others' rate divided
    /// by noop's? 0.9 / 1 and 1 / 2.
    #[test]
    fn clients_have_tails() {
        let board = board();
        assert_eq!(board.worst(&board.rows[1], 0).tail, Some(9.0));
        let mine = board.worst(&board.rows[1], 1);
        assert_eq!((mine.tail, mine.bulk), (None, Some(0.5)));
    }
}
