// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedule: which of the queued commands the disk does next (NCQ).
//!
//! The disk knows its angle, so it can choose by *positioning time*, seek and rotation together,
//! where a host sees only addresses. Of 32 random commands the nearest is about a third as far away
//! as the average one; the price is that a command far from the others may wait forever. Hence two
//! limits: only the oldest few compete (the *window*; some firmware looks at four), and one that
//! has waited longer than an age limit goes first.
//!
//! ```text
//! window 3    A 11 ms, B 4 ms, C 7 ms | D 1 ms        B, although D is nearer
//! A has waited 500 ms                                A
//! ```
//!
//! # Invariants
//! I1  Once the oldest has waited longer than the limit, it is chosen.
//!
//! Source: `docs/rules/devices.md`: "shortest positioning time first over the oldest N, with an age
//! limit (500 ms)"; and its gain on two disks.

use super::geometry::Place;
use super::mechanism::{Arm, Mechanism};

/// A command that waits for the mechanism.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// The slot of its task.
    pub slot: u32,
    /// Where the mechanism has to go: if part of a read is in the cache, the sector after that
    /// part.
    pub sector: u64,
    /// Sector after its last.
    pub end: u64,
    /// The place of `sector`.
    pub place: Place,
    /// Whether it writes.
    pub write: bool,
    /// When it came.
    pub arrived: u64,
    /// When the controller has decoded it.
    pub ready: u64,
    /// When a write has data to write; when a read has left the bus.
    pub earliest: u64,
}

/// How the disk orders what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// How many of the oldest compete, at least 1.
    pub window: u32,
    /// A request that has waited longer than this, in nanoseconds, goes first.
    pub age_limit: u64,
}

/// What was chosen, and how far away it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Its index among the candidates.
    pub index: usize,
    /// Its positioning time; 0 if its age chose it.
    pub positioning: u64,
}

/// The candidate to do next at `now`; candidates are in order of arrival. `None` if none is ready.
#[must_use]
pub fn choose(
    mechanism: &Mechanism,
    order: Order,
    arm: Arm,
    now: u64,
    candidates: &[Candidate],
) -> Option<Choice> {
    if let Some(overdue) = overdue(order, now, candidates) {
        return Some(overdue);
    }
    let window = candidates.iter().enumerate().filter(|(_, candidate)| candidate.ready <= now);
    let mut best: Option<Choice> = None;
    for (index, candidate) in window.take(order.window as usize) {
        let positioning = mechanism.positioning(arm, now, &candidate.place, candidate.write);
        if best.is_none_or(|best| positioning < best.positioning) {
            best = Some(Choice { index, positioning });
        }
    }
    best
}

/// The oldest candidate, if it is ready and has waited longer than the limit: it goes before
/// whatever is nearer.
#[must_use]
pub fn overdue(order: Order, now: u64, candidates: &[Candidate]) -> Option<Choice> {
    let oldest = candidates.first().filter(|oldest| oldest.ready <= now)?;
    (now - oldest.arrived > order.age_limit).then_some(Choice { index: 0, positioning: 0 })
}

#[cfg(test)]
mod tests {
    use super::super::geometry::{Geometry, Zone};
    use super::super::seek::{Curve, SeekTable};
    use super::*;
    use paternoster_core::Nanos;

    const MS: u64 = 1_000_000;

    /// One surface of 100 cylinders, 8 ms a turn, 80 sectors; a seek takes 1 ms to 3 ms.
    fn mechanism() -> Mechanism {
        let zone = Zone {
            cylinders: 100,
            track_sectors: 80,
            sectors: 0,
            track_skew: Nanos::ZERO,
            cylinder_skew: Nanos::ZERO,
        };
        let curve = Curve::Points(vec![(1, Nanos(MS)), (100, Nanos(3 * MS))]);
        Mechanism {
            geometry: Geometry::new(1, Nanos(8 * MS), &[zone]),
            seek: SeekTable::new(&curve, 100),
            head_switch: Nanos::ZERO,
            write_settle: 0,
            zero_latency: false,
        }
    }

    fn candidates(mechanism: &Mechanism, sectors: &[u64]) -> Vec<Candidate> {
        let candidate = |(slot, &sector): (u32, &u64)| Candidate {
            slot,
            sector,
            end: sector + 1,
            place: mechanism.geometry.place(sector),
            write: false,
            arrived: 0,
            ready: 0,
            earliest: 0,
        };
        (0..).zip(sectors).map(candidate).collect()
    }

    fn index(window: u32, age_limit: u64, now: u64, candidates: &[Candidate]) -> Option<usize> {
        let order = Order { window, age_limit };
        let chosen = choose(&mechanism(), order, Arm::default(), now, candidates);
        chosen.map(|choice| choice.index)
    }

    /// Does the nearest in angle and arm win, within the window? From angle 0 on cylinder 0: sector
    /// 70 passes in 7 ms; sector 15 of cylinder 1 after 1 ms of seek in 1.5 ms; sector 5 of
    /// cylinder 1 is at 0.5 ms, missed, 8.5 ms; sector 10 of cylinder 0 in 1 ms.
    #[test]
    fn nearest_in_the_window_wins() {
        let waiting = candidates(&mechanism(), &[70, 80 + 5, 80 + 15, 10]);
        assert_eq!(index(1, u64::MAX, 0, &waiting), Some(0));
        assert_eq!(index(2, u64::MAX, 0, &waiting), Some(0));
        assert_eq!(index(3, u64::MAX, 0, &waiting), Some(2));
        assert_eq!(index(32, u64::MAX, 0, &waiting), Some(3));
    }

    /// Does the oldest go first once it is over the limit, and not before (I1)? At 496 ms and
    /// 504 ms the angle is 0 again.
    #[test]
    fn age_limit_chooses_the_oldest() {
        let waiting = candidates(&mechanism(), &[70, 10]);
        assert_eq!(index(32, 500 * MS, 496 * MS, &waiting), Some(1));
        assert_eq!(index(32, 500 * MS, 504 * MS, &waiting), Some(0));
    }

    /// Is a command that the controller has not decoded left out?
    #[test]
    fn only_what_is_ready_competes() {
        let mut waiting = candidates(&mechanism(), &[70, 10]);
        waiting[1].ready = 5;
        assert_eq!(index(32, u64::MAX, 0, &waiting), Some(0));
        waiting[0].ready = 5;
        assert_eq!(index(32, u64::MAX, 0, &waiting), None);
    }
}
