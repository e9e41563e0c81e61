// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule: which cells are kept, and what a cell is compared with.
//!
//! A client with `q` requests has its part `p` of a device only while at most `q / p` commands are
//! in it, because a command waits for the others; D* is the least of these. What the device does
//! with so few may be less than it can:
//!
//! ```text
//! X(D)                      eight readers on an NVMe drive, weights 1 1 1 1 2 2 4 4 of 16, q 32:
//!  max ┤        ┌────       D* = 32 / (4 / 16) = 128, and X(128) is 89 % of the most. With 192
//!  89 %┤   ●─┘              commands 99 % are reached, and the two of weight 4 have 32 / 192 of
//!      └───┴────────▶ D     the device instead of a quarter: an error of 1 - 128 / 192 = 33 %.
//!         D*                A scheduler may be anywhere on that curve; below it, it wastes.
//! ```
//!
//! A cell is kept if
//!
//! 1. the error is at most 5 % and the throughput at least 97 % of the lesser of X(D*) and the best
//!    of the other schedulers whose error is below 10 %; or
//! 2. X(D*) is below 97 % of X(max), and error and throughput are within 2 points of the curve; and
//! 3. no client waited longer than its bound.
//!
//! Source: the schedulers' review, "The measure".

/// The largest error of a cell that is kept.
pub(super) const ERROR_MOST: f64 = 0.05;
/// A scheduler with a larger error is not compared with.
pub(super) const ERROR_COMPARED: f64 = 0.10;
/// If X(D*) is below this part of X(max), exact shares cost throughput.
const COSTS: f64 = 0.97;
/// This close to the curve counts as on it.
const NEAR: f64 = 0.02;

/// What a device does without a scheduler, by the commands in it: from D* on to all there are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    /// Commands and throughput, more commands with each; at least one.
    pub(super) points: Vec<(f64, f64)>,
}

impl Curve {
    /// The throughput with exactly D* commands.
    pub(super) fn at_exact(&self) -> f64 {
        self.points.first().map_or(0.0, |point| point.1)
    }

    /// The most.
    pub(super) fn most(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    /// Whether exact shares cost throughput.
    pub(super) fn costs(&self) -> bool {
        self.at_exact() < COSTS * self.most()
    }

    /// The throughput that is possible with this error; `None` if it would take more commands than
    /// the curve has.
    fn reached(&self, error: f64) -> Option<f64> {
        let exact = self.points.first()?.0;
        let commands = if error > 0.0 { exact / (1.0 - error) } else { exact };
        let after = self.points.iter().position(|point| point.0 >= commands)?;
        let (to, high) = self.points[after];
        let (from, low) = self.points[after.saturating_sub(1)];
        let part = if to > from { (commands - from) / (to - from) } else { 1.0 };
        Some(low + (high - low) * part)
    }

    /// Whether error and throughput are within two points of what is possible together.
    fn allows(&self, error: f64, throughput: f64) -> bool {
        let most = self.most();
        let near = |reached: f64| throughput / most >= reached / most - NEAR;
        self.costs() && self.reached(error - NEAR).is_some_and(near)
    }
}

/// What was measured in one run of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    pub(super) throughput: f64,
    pub(super) error: f64,
    /// The longest wait divided by its bound.
    pub(super) wait: f64,
}

/// Why a run does not keep its cell, or by which part of the rule it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Misses {
    pub(super) error: bool,
    pub(super) throughput: bool,
    pub(super) wait: bool,
    /// Its error or throughput would miss, but the curve allows them.
    pub(super) on_curve: bool,
}

impl Misses {
    pub(super) fn any(self) -> bool {
        self.error || self.throughput || self.wait
    }

    /// The misses of either.
    pub(super) fn or(self, other: Misses) -> Misses {
        Misses {
            error: self.error || other.error,
            throughput: self.throughput || other.throughput,
            wait: self.wait || other.wait,
            on_curve: self.on_curve || other.on_curve,
        }
    }
}

/// The throughput to compare with, from all runs of a seed.
pub(super) fn reference(curve: &Curve, all: impl Iterator<Item = Found>) -> f64 {
    let fair = all.filter(|found| found.error < ERROR_COMPARED);
    let best = fair.map(|found| found.throughput).fold(0.0, f64::max);
    if best > 0.0 { best.min(curve.at_exact()) } else { curve.at_exact() }
}

/// What a run misses, compared with `reference`, of which it must reach `least`.
pub(super) fn misses(own: Found, curve: &Curve, reference: f64, least: f64) -> Misses {
    let found = Misses {
        error: own.error > ERROR_MOST,
        throughput: own.throughput < least * reference,
        wait: own.wait > 1.0,
        on_curve: false,
    };
    if (found.error || found.throughput) && curve.allows(own.error, own.throughput) {
        return Misses { wait: found.wait, on_curve: true, ..Misses::default() };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(error: f64, throughput: f64) -> Found {
        Found { throughput, error, wait: 0.5 }
    }

    /// The module's drive: 89 % with 128 commands, 99 with 192, all with 256.
    fn drive() -> Curve {
        Curve { points: vec![(128.0, 0.89), (192.0, 0.99), (256.0, 1.0)] }
    }

    fn kept(own: Found) -> bool {
        !misses(own, &drive(), 0.89, 0.97).any()
    }

    /// Is a cell kept on the curve, and not below it? Exact at 88 %: 97 % of 89 are 86.3. An error
    /// of 22 % less two points allows 128 / 0.8 = 160 commands, half way from 128 to 192: 94 %,
    /// less two points. `none` itself has 50 % with its 256, and all of the throughput: that is on
    /// the curve, too, which allows any trade; an error of 55 % is not.
    #[test]
    fn the_curve_is_kept() {
        assert!(kept(found(0.0, 0.88)) && !kept(found(0.0, 0.86)));
        assert!(kept(found(0.22, 0.921)) && !kept(found(0.22, 0.919)));
        assert!(kept(found(0.5, 1.0)) && !kept(found(0.55, 1.0)));
    }

    /// Where D* costs nothing, does the error count alone, and throughput against the best of the
    /// fair? The best has 1.0 and is unfair; of the fair the best has 0.9: 97 % of that are 0.873.
    #[test]
    fn the_fair_are_compared_with() {
        let curve = Curve { points: vec![(32.0, 0.99), (64.0, 1.0)] };
        let all = [found(0.4, 1.0), found(0.08, 0.9), found(0.01, 0.88)];
        let reference = reference(&curve, all.into_iter());
        assert!((reference - 0.9).abs() < 1e-9);
        let missed = all.map(|own| misses(own, &curve, reference, 0.97));
        assert_eq!(missed.map(|missed| missed.error), [true, true, false]);
        assert!(!missed[2].any());
        assert!(misses(found(0.01, 0.87), &curve, reference, 0.97).throughput);
    }

    /// Is a wait beyond its bound never kept, whatever else is; and is X(D*) the reference where
    /// none is fair?
    #[test]
    fn waits_are_never_forgiven() {
        let late = |found| Found { wait: 1.1, ..found };
        let missed =
            [found(0.0, 1.0), found(0.5, 1.0)].map(|one| misses(late(one), &drive(), 0.89, 0.97));
        let only = Misses { wait: true, ..Misses::default() };
        assert_eq!(missed, [only, Misses { on_curve: true, ..only }]);
        assert!((reference(&drive(), std::iter::once(found(0.4, 1.0))) - 0.89).abs() < 1e-9);
    }
}
