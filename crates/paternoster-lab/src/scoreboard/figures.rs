// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures: throughput, sharing incentive; and the max-min error of device time, which experiments
//! of `reproduce` print. (The scoreboard's own error is of rates: `owed.rs`.)
//!
//! A client that asks for less than its share should get what it asks for, and the others the rest
//! by their weights. How much a client would ask for is not known. The estimate is what it would
//! have had if none of its requests had waited in the elevator:
//!
//! ```text
//! share      device time of one divided by that of all
//! demand d   share * (waiting + in flight) / in flight          means over time
//! level L    the sum of min(d, w L) over all is 1
//! error      the largest 1 - share / min(d, w L)
//! ```
//!
//! Two alike clients; one waits as long as it is served (demand 2 * 0.25) and has a quarter: L is
//! 0.5, and the error 1 - 0.25 / 0.5 = 50 %.
//!
//! # Invariants
//! I1  Demands are at least the shares, which sum up to 1: the level exists.
//! I2  The error is from 0 to 1.
//!
//! Source: own; G3 of `docs/rules/adaptive.md` (weighted max-min shares).

use paternoster_workload::entitlement::level;

/// What one entity, a process or all of a cgroup, got.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Got {
    /// Weight of the client, in any unit.
    pub(crate) weight: f64,
    /// Device time, of any unit.
    pub(crate) served: f64,
    /// Requests that waited in the elevator, on average.
    pub(crate) waiting: f64,
    /// Requests in the device, on average.
    pub(crate) in_flight: f64,
    /// Whether the client had all that it wants, because it paces itself.
    pub(crate) content: bool,
}

/// Demand and fair share of each.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fairness {
    pub(crate) shares: Vec<f64>,
    pub(crate) demands: Vec<f64>,
    /// The largest part of a fair share that a client misses.
    pub(crate) error: f64,
}

/// How far this is from weighted max-min fair.
pub(crate) fn fairness(all: &[Got]) -> Fairness {
    let sum: f64 = all.iter().map(|got| got.served).sum();
    let share = |got: &Got| if sum > 0.0 { got.served / sum } else { 0.0 };
    let shares: Vec<f64> = all.iter().map(share).collect();
    let demand = |(got, &share): (&Got, &f64)| match () {
        () if got.content => share,
        () if got.in_flight > 0.0 => share * (got.waiting + got.in_flight) / got.in_flight,
        // One that only waits would have taken everything.
        () if got.waiting > 0.0 => 1.0,
        () => share,
    };
    let demands: Vec<f64> = all.iter().zip(&shares).map(demand).collect();
    let weights: Vec<f64> = all.iter().map(|got| got.weight).collect();
    let level = level(&demands, &weights, 1.0);
    let miss = |((&share, &demand), weight): ((&f64, &f64), &f64)| {
        let fair = demand.min(weight * level);
        if fair > 0.0 { (1.0 - share / fair).max(0.0) } else { 0.0 }
    };
    let misses = shares.iter().zip(&demands).zip(&weights).map(miss);
    Fairness { error: misses.fold(0.0, f64::max), shares, demands }
}

/// The sum of rates, each divided by what its owner does alone: scale-free, whatever the sizes.
pub(crate) fn throughput(rates: &[(f64, f64)]) -> f64 {
    rates.iter().filter(|(_, solo)| *solo > 0.0).map(|(rate, solo)| rate / solo).sum()
}

/// The least of rate divided by weight times solo rate: 1 and more makes sharing worth it. Each is
/// (rate, solo rate, part of all weights).
pub(crate) fn incentive(all: &[(f64, f64, f64)]) -> f64 {
    let ratio = |&(rate, solo, part): &(f64, f64, f64)| {
        if solo * part > 0.0 { rate / (solo * part) } else { f64::INFINITY }
    };
    all.iter().map(ratio).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got(weight: f64, served: f64, waiting: f64, in_flight: f64) -> Got {
        Got { weight, served, waiting, in_flight, content: false }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// Is a device on which no client waits fair, whatever the weights? Demands are the shares.
    #[test]
    fn nobody_waits() {
        let found = fairness(&[got(1.0, 3.0, 0.0, 3.0), got(5.0, 1.0, 0.0, 1.0)]);
        assert_eq!(found.demands, [0.75, 0.25]);
        assert!(near(found.error, 0.0), "{found:?}");
    }

    /// The module's example: shares 1/4 and 3/4. Both wait: demands 0.25 * (1 + 1) / 1 = 0.5 and
    /// 0.75 * (1 + 3) / 3 = 1. Level: min(0.5, L) + min(1, L) = 1 gives L = 0.5; the first misses 1
    /// minus 0.25 / 0.5 = 50 %, the second nothing.
    #[test]
    fn half_of_a_share_is_missed() {
        let found = fairness(&[got(1.0, 1.0, 1.0, 1.0), got(1.0, 3.0, 1.0, 3.0)]);
        assert!(near(found.demands[0], 0.5) && near(found.demands[1], 1.0), "{found:?}");
        assert!(near(found.error, 0.5), "{found:?}");
    }

    /// Do weights count? 1 to 3 and both deep (30 waiting, 1 in flight): demands 0.5 * 31 both,
    /// L = 1 / 4, fair 0.25 and 0.75; half each leaves the heavy one 1 - 0.5 / 0.75 = 1/3 short.
    #[test]
    fn weights_count() {
        let even = [got(1.0, 1.0, 30.0, 1.0), got(3.0, 1.0, 30.0, 1.0)];
        assert!(near(fairness(&even).error, 1.0 / 3.0));
        let weighted = [got(1.0, 1.0, 30.0, 1.0), got(3.0, 3.0, 30.0, 1.0)];
        assert!(near(fairness(&weighted).error, 0.0));
    }

    /// Does a client that wants little leave the rest to the others? A tenth that never waits, two
    /// deep ones of 0.6 and 0.3: 0.1 + 2 L = 1 gives L = 0.45; the third misses 1 - 0.3 / 0.45 =
    /// 1/3.
    #[test]
    fn the_rest_is_shared() {
        let all = [got(1.0, 0.1, 0.0, 0.1), got(1.0, 0.6, 9.0, 1.0), got(1.0, 0.3, 9.0, 1.0)];
        assert!(near(fairness(&all).error, 1.0 / 3.0));
    }

    /// Is a paced client that keeps its pace content although it waits, and one that is never
    /// served starved? 0 of the fair half is an error of 1.
    #[test]
    fn the_content_and_the_starved() {
        let paced = Got { content: true, ..got(1.0, 0.1, 5.0, 0.1) };
        assert!(near(fairness(&[paced, got(1.0, 0.9, 9.0, 1.0)]).error, 0.0));
        let starved = [got(1.0, 0.0, 1.0, 0.0), got(1.0, 1.0, 9.0, 1.0)];
        assert!(near(fairness(&starved).error, 1.0));
        assert!(near(fairness(&[]).error, 0.0));
    }

    /// Throughput: 50 of 100 alone and 10 of 40 alone are 0.5 + 0.25. Incentive: of equal weights
    /// 50 / (100 / 2) = 1 and 10 / (40 / 2) = 0.5, the least counts.
    #[test]
    fn rates_by_solo_rates() {
        assert!(near(throughput(&[(50.0, 100.0), (10.0, 40.0)]), 0.75));
        assert!(near(incentive(&[(50.0, 100.0, 0.5), (10.0, 40.0, 0.5)]), 0.5));
    }
}
