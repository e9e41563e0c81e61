// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entity: what can be scheduled, a queue or a group of them.
//!
//! An entity asks for service in portions, its *budgets*, in sectors. A portion begins at a virtual
//! start, and would end at a virtual finish if the entity were served exactly at its share:
//!
//! ```text
//! finish = start + budget / weight          in units of sectors per weight, times 2^22
//!
//! weight 40, budget 8    8 * 4194304 / 40 = 838860
//! ```
//!
//! Queues and groups share one array: queue `q` at `q`, groups after all queues. `wf2q` computes
//! their times, `schedule` walks the hierarchy.
//!
//! # Invariants
//! I1  Comparisons of virtual times go by the sign of their difference, and survive a wrap.
//! I2  `weight` is `orig_weight` times `raise`, except while a change is pending.
//!
//! Source: BFQ-2, BFQ-19 to BFQ-22.

use paternoster_core::Class;
use paternoster_core::tree::TreeKey;

/// Virtual time is counted in fractions of 2^-22.
const SHIFT: u32 = 22;
/// Weights of queues and groups.
pub(super) const WEIGHTS: core::ops::RangeInclusive<u32> = 1..=1000;

/// What `service` sectors are in virtual time, at this weight.
pub(super) const fn delta(service: u64, weight: u64) -> u64 {
    let weight = if weight == 0 { 1 } else { weight };
    if service < 1 << (64 - SHIFT) {
        (service << SHIFT) / weight
    } else {
        // No entity is served half a petabyte at a time.
        u64::MAX / 4 / weight
    }
}

/// Whether virtual time `a` is behind `b`.
pub(super) const fn is_after(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// The later of two virtual times.
pub(super) const fn later(a: u64, b: u64) -> u64 {
    if is_after(b, a) { b } else { a }
}

/// The weight of a queue of this level, 0 to 7.
pub(super) const fn weight_of_level(level: u8) -> u32 {
    let level = if level > 7 { 7 } else { level };
    (8 - level as u32) * 10
}

/// The order of a service tree: by finish; each node knows the least start below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Deadline {
    pub(super) finish: u64,
    pub(super) start: u64,
}

impl TreeKey for Deadline {
    type Summary = u64;

    fn before(&self, other: &Deadline) -> bool {
        #[cfg(test)]
        steps::count();
        is_after(other.finish, self.finish)
    }

    fn combine(&self, left: Option<&u64>, right: Option<&u64>) -> u64 {
        let mut least = self.start;
        for below in [left, right].into_iter().flatten() {
            if is_after(least, *below) {
                least = *below;
            }
        }
        least
    }
}

/// The order of entities without work: by finish.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Finish(pub(super) u64);

impl TreeKey for Finish {
    type Summary = ();

    const SUMMED: bool = false;

    fn before(&self, other: &Finish) -> bool {
        is_after(other.0, self.0)
    }

    fn combine(&self, _: Option<&()>, _: Option<&()>) {}
}

/// Where an entity is in the service tree of its group and class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Standing {
    /// Forgotten: nothing is owed to it.
    #[default]
    Off,
    /// Without work, but ahead of its share: remembered until virtual time has caught up.
    Idle,
    /// It has work and waits for its turn. A group that is being served may be here, too.
    Active,
    /// Being served, and taken out of the tree meanwhile.
    Extracted,
}

/// A queue or a group, as the scheduler sees it: a cache line of its own.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Entity {
    pub(super) start: u64,
    pub(super) finish: u64,
    /// The budget in sectors.
    pub(super) budget: u64,
    /// Service received of its budget so far, in sectors.
    pub(super) service: u64,
    /// The weight it is scheduled by.
    pub(super) weight: u32,
    /// The weight as configured.
    pub(super) orig_weight: u32,
    /// As configured, from its next turn on.
    pub(super) new_weight: u32,
    /// The factor by which it is raised at present; 1 if it is not.
    pub(super) raise: u32,
    /// Index of its class's tree in its group.
    pub(super) class: u8,
    pub(super) new_class: u8,
    /// A change of weight, raise or class is pending.
    pub(super) changed: bool,
    pub(super) is_queue: bool,
    /// The group in which it is scheduled.
    pub(super) group: u32,
    pub(super) standing: Standing,
}

impl Default for Entity {
    fn default() -> Entity {
        Entity {
            start: 0,
            finish: 0,
            budget: 0,
            service: 0,
            weight: 1,
            orig_weight: 1,
            new_weight: 1,
            raise: 1,
            class: Class::BestEffort as u8,
            new_class: Class::BestEffort as u8,
            changed: false,
            is_queue: false,
            group: 0,
            standing: Standing::Off,
        }
    }
}

impl Entity {
    /// An entity of `group` with this weight and class, forgotten so far.
    pub(super) fn new(group: u32, weight: u32, class: Class, is_queue: bool) -> Entity {
        let weight = weight.clamp(*WEIGHTS.start(), *WEIGHTS.end());
        Entity {
            weight,
            orig_weight: weight,
            new_weight: weight,
            class: class as u8,
            new_class: class as u8,
            is_queue,
            group,
            ..Entity::default()
        }
    }

    /// Its finish if it is served this much from its start.
    pub(super) fn finish_after(&self, service: u64) -> u64 {
        self.start.wrapping_add(delta(service, self.weight.into()))
    }

    /// What is left of its budget.
    pub(super) const fn budget_left(&self) -> u64 {
        self.budget.saturating_sub(self.service)
    }

    /// Whether a third of its budget is left.
    #[inline]
    pub(super) const fn has_third_left(&self) -> bool {
        self.budget_left() >= self.budget / 3
    }

    /// Its node in the tree: start and finish.
    pub(super) const fn deadline(&self) -> Deadline {
        Deadline { finish: self.finish, start: self.start }
    }

    /// Whether its tree counts it: it is in the tree, or being served.
    pub(super) fn counts(&self) -> bool {
        self.standing != Standing::Off
    }
}

/// How often two entities were compared, or a level was descended.
#[cfg(test)]
pub(super) mod steps {
    std::thread_local! {
        static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
    }

    pub(in crate::bfq) fn count() {
        STEPS.set(STEPS.get() + 1);
    }

    pub(in crate::bfq) fn counted() -> u64 {
        STEPS.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are these the increments that the formula gives? 8 * 2^22 / 40 = 838860.8,
    /// 16384 * 2^22 / 100 = 687194767.36, 1024 * 2^22 / 1200 = 3579139.4.
    #[test]
    fn bfq_golden_delta() {
        assert_eq!(delta(8, 40), 838_860);
        assert_eq!(delta(16_384, 100), 687_194_767);
        assert_eq!(delta(1024, 1200), 3_579_139);
    }

    /// Does a level have the weight (8 - level) * 10?
    #[test]
    fn bfq_19_levels_have_weights() {
        assert_eq!([0, 4, 7].map(weight_of_level), [80, 40, 10]);
        assert_eq!(weight_of_level(9), 10);
    }

    /// Are virtual times compared by their difference, also where they wrap?
    #[test]
    fn virtual_times_survive_a_wrap() {
        assert!(is_after(5, 3) && !is_after(3, 5) && !is_after(3, 3));
        assert!(is_after(2, u64::MAX - 2));
        assert_eq!(later(2, u64::MAX - 2), 2);
    }

    /// Is a weight outside 1 to 1000 brought into that range?
    #[test]
    fn bfq_20_weights_are_clamped() {
        let weight = |weight| Entity::new(0, weight, Class::BestEffort, true).weight;
        assert_eq!([0, 1, 1000, 5000].map(weight), [1, 1, 1000, 1000]);
    }
}
