// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eta: when would a permit be given, and the I/O be done?
//!
//! Nothing is simulated: what happened of late is expected to go on.
//!
//! ```text
//! done = now + wait + held        held: the mean of late, of permits of that kind and size
//! wait = waits ahead * pace       pace: mean time between two permits of the class, while it waits
//! ```
//!
//! Where nothing of the class waits and permits are out for all that may be, it is expected to wait
//! as it did when that was so last; at first, for the next permit that is given back. Means are
//! exponential, of about the last sixteen.

use paternoster_core::Nanos;

use super::entry::Op;

/// log2 of how many the mean is of.
const MEAN_OF: u32 = 4;
/// Sizes are told apart by powers of two, from 512 bytes to half a gibibyte and more.
const SIZES: usize = 21;
const OPS: usize = 4;

/// When a permit would be given, and the I/O be done, as far as one can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eta {
    /// When the permit would be given.
    pub permit: Nanos,
    /// When the I/O would have ended.
    pub done: Nanos,
}

/// An exponential mean; none yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean {
    /// In 1/16 ns.
    sum: u64,
    count: u32,
}

impl Mean {
    pub(super) fn add(&mut self, value: Nanos) {
        // The first few are averaged plainly: a mean that begins at nothing would be too small.
        self.count = (self.count + 1).min(1 << MEAN_OF);
        let (value, count) = (value.0.saturating_mul(1 << MEAN_OF), u64::from(self.count));
        let rest = self.sum / count * (count - 1) + self.sum % count * (count - 1) / count;
        self.sum = rest.saturating_add(value / count);
    }

    pub(super) fn get(self) -> Option<u64> {
        (self.count > 0).then_some(self.sum >> MEAN_OF)
    }
}

/// How fast a class gets permits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// When it was given one last, or began to wait.
    since: Nanos,
    between: Mean,
    /// How long the first in line waited.
    first: Mean,
}

impl Pace {
    /// Something of it waits from now on, and nothing did.
    pub(super) const fn begins(&mut self, now: Nanos) {
        self.since = now;
    }

    /// A permit is given. `was_first`: nothing of the class waited when it was asked for, and
    /// others did, or held all permits.
    pub(super) fn granted(&mut self, now: Nanos, asked: Nanos, was_first: bool) {
        if was_first {
            self.first.add(now - asked);
        }
        self.between.add(now - self.since);
        self.since = now;
    }

    /// How long one waits that comes behind so many. `next`: so long it takes until a permit is
    /// given back, if one has to be.
    pub(super) fn wait(self, waiting: u32, next: Option<u64>) -> u64 {
        if waiting == 0 {
            return next.map_or(0, |next| self.first.get().unwrap_or(next));
        }
        self.between.get().unwrap_or(0).saturating_mul(u64::from(waiting) + 1)
    }
}

/// How long permits are held, by kind and size.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    means: [[Mean; SIZES]; OPS],
    any: Mean,
}

impl Held {
    fn size(len: u64) -> usize {
        (len >> 9).max(1).ilog2().min(20) as usize
    }

    pub(super) fn add(&mut self, op: Op, len: u64, time: Nanos) {
        self.means[op as usize][Held::size(len)].add(time);
        self.any.add(time);
    }

    /// How long any are held.
    pub(super) fn any(&self) -> u64 {
        self.any.get().unwrap_or(0)
    }

    /// As long as those of that size, or of the nearest size that there was, or as any.
    pub(super) fn expect(&self, op: Op, len: u64) -> u64 {
        let (means, size) = (&self.means[op as usize], Held::size(len));
        let near = (0..SIZES).flat_map(|by| [size.checked_sub(by), Some(size + by)]);
        let known = near.flatten().filter_map(|size| means.get(size)?.get()).next();
        known.or_else(|| self.any.get()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the mean of 10, 20, 30 their mean, and that of many equal ones what they are?
    #[test]
    fn a_mean_begins_with_its_first() {
        let mut mean = Mean::default();
        assert_eq!(mean.get(), None);
        for value in [10, 20, 30] {
            mean.add(Nanos(value));
        }
        // (10 + 20 + 30) / 3; a sixteenth is lost in rounding.
        assert!(mean.get().is_some_and(|mean| (19..=20).contains(&mean)));
        for _ in 0..1000 {
            mean.add(Nanos(1_000_000));
        }
        assert!(mean.get().is_some_and(|mean| (999_990..=1_000_000).contains(&mean)));
    }

    /// Is the nearest size asked for what is not known?
    #[test]
    fn sizes_near_each_other_are_alike() {
        let mut held = Held::default();
        assert_eq!(held.expect(Op::Read, 4096), 0);
        held.add(Op::Read, 4096, Nanos(100));
        held.add(Op::Read, 1 << 20, Nanos(900));
        assert_eq!(held.expect(Op::Read, 8192), 100);
        assert_eq!(held.expect(Op::Read, 1 << 40), 900);
        // No write was seen: as any.
        assert!(held.expect(Op::Write, 4096) > 0);
    }
}
