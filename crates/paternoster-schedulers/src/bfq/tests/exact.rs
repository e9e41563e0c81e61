// SPDX-License-Identifier: MIT OR Apache-2.0
//! B-WF2Q+ in exact fractions, by checking every queue: the model the engine is compared with.
//!
//! V, starts and finishes are fractions; the engine counts in units of 2^-22 and rounds down each
//! time, so its choice may differ where two finishes, or a start and V, differ by no more than the
//! sum of those roundings. [`Exact::allows`] says whether a choice was right except for that.

use super::*;

/// Fixed-point units of virtual time.
const UNIT: i128 = 1 << 22;

/// A fraction with a positive denominator.
#[derive(Debug, Clone, Copy)]
struct Fraction(i128, i128);

impl Fraction {
    fn reduced(self) -> Fraction {
        let (mut a, mut b) = (self.0.abs(), self.1);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let divisor = a.max(1);
        Fraction(self.0 / divisor, self.1 / divisor)
    }

    fn plus(self, other: Fraction) -> Fraction {
        Fraction(self.0 * other.1 + other.0 * self.1, self.1 * other.1).reduced()
    }

    fn minus(self, other: Fraction) -> Fraction {
        self.plus(Fraction(-other.0, other.1))
    }

    fn is_above(self, other: Fraction) -> bool {
        self.0 * other.1 > other.0 * self.1
    }
}

/// V, starts and finishes of queues that never run out of work.
pub(super) struct Exact {
    vtime: Fraction,
    start: Vec<Fraction>,
    finish: Vec<Fraction>,
    weights: Vec<i128>,
    sum: i128,
    /// How far the engine may be off by rounding, in its units.
    doubt: i128,
}

impl Exact {
    pub(super) fn new(weights: &[u32]) -> Exact {
        let weights: Vec<i128> = weights.iter().map(|&weight| weight.into()).collect();
        let zeros: Vec<Fraction> = weights.iter().map(|_| Fraction(0, 1)).collect();
        let sum = weights.iter().sum();
        Exact { vtime: Fraction(0, 1), start: zeros.clone(), finish: zeros, weights, sum, doubt: 1 }
    }

    /// A queue asks for `budget` from its start on.
    pub(super) fn asks(&mut self, queue: usize, budget: u64) {
        let more = Fraction(budget.into(), self.weights[queue]);
        self.finish[queue] = self.start[queue].plus(more);
    }

    /// Whether a queue may have the next turn: its start has come, and no queue whose start has
    /// come finishes before it. V jumps to the least start if it must.
    pub(super) fn allows(&mut self, queue: usize) -> bool {
        let earlier = |a: Fraction, b: Fraction| if a.is_above(b) { b } else { a };
        let least = self.start.iter().copied().reduce(earlier).expect("somebody is there");
        if least.is_above(self.vtime) {
            self.vtime = least;
        }
        let doubt = Fraction(self.doubt, UNIT);
        let (surely, limit) = (self.vtime.minus(doubt), self.finish[queue].minus(doubt));
        let mut others = self.start.iter().zip(&self.finish);
        !self.start[queue].is_above(self.vtime.plus(doubt))
            && !others.any(|(start, finish)| !start.is_above(surely) && limit.is_above(*finish))
    }

    /// A queue is served this many sectors.
    pub(super) fn serve(&mut self, sectors: u64) {
        self.vtime = self.vtime.plus(Fraction(sectors.into(), self.sum));
        self.doubt += 1;
    }

    /// A turn ends in which a queue was served this many sectors.
    pub(super) fn ends(&mut self, queue: usize, served: u64) {
        let more = Fraction(served.into(), self.weights[queue]);
        self.start[queue] = self.start[queue].plus(more);
        self.doubt += 1;
    }
}
