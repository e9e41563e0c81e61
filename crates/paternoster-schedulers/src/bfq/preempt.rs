// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preempt: whether a queue that has just become busy takes the device from the one in service.
//!
//! ```text
//! 4.19   it had a hole or is raised, and is raised more than the one in service
//! 6.18   it had a hole, and is raised at least as much; or it is of a higher class or weight;
//!        or the device would not be idled for the one in service anyway
//! ```
//!
//! And only if another queue than the one in service would be next.
//!
//! Source: BFQ-52 to BFQ-54.

use crate::bfq::queue::Queue;
use crate::bfq::schedule::Schedule;
use paternoster_core::event::Preemption;

/// By which rule `queue` preempts the one in service. It `wants` to if it had a hole, or, in 4.19,
/// is raised. `is_idled_for` says whether the device would idle for the one in service.
pub(super) fn rule(
    schedule: &Schedule,
    (queue, home): (u32, &Queue),
    (served, running): (u32, &Queue),
    wants: bool,
    by_weight: bool,
    is_idled_for: impl FnOnce() -> bool,
) -> Option<Preemption> {
    let (own, its) = (home.raising.kind.coefficient(), running.raising.kind.coefficient());
    if !by_weight {
        return (wants && its < own).then_some(Preemption::Deserves);
    }
    if wants && own >= its {
        Some(Preemption::Deserves)
    } else if schedule.is_heavier(queue, served) {
        Some(Preemption::Heavier)
    } else if !is_idled_for() {
        Some(Preemption::NotIdledFor)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::entity::Entity;
    use crate::bfq::version::LINUX_6_18;
    use crate::bfq::weight_raising::Kind;
    use paternoster_core::Class;

    /// Is each rule applied in its order, and in 4.19 only the first, to what is raised more?
    #[test]
    fn which_rule_preempts() {
        use Preemption::{Deserves, Heavier, NotIdledFor};
        let raised = Kind::Interactive;
        for (wants, kind, weight, idled_for, old, new) in [
            (true, Kind::No, 40, true, None, Some(Deserves)),
            (true, raised, 40, true, Some(Deserves), Some(Deserves)),
            (false, raised, 40, true, None, None),
            (false, Kind::No, 41, true, None, Some(Heavier)),
            (false, Kind::No, 40, false, None, Some(NotIdledFor)),
            (false, Kind::No, 39, true, None, None),
        ] {
            let mut schedule = Schedule::new(2, 1, &LINUX_6_18);
            for (queue, weight) in [weight, 40].into_iter().enumerate() {
                schedule.entities[queue] = Entity::new(0, weight, Class::BestEffort, true);
            }
            let (mut home, running) = (Queue::default(), Queue::default());
            home.raising.kind = kind;
            let rule = |by_weight| {
                rule(&schedule, (0, &home), (1, &running), wants, by_weight, || idled_for)
            };
            assert_eq!((rule(false), rule(true)), (old, new), "{wants} {kind:?} {weight}");
        }
    }

    /// Does one that is raised more keep the device from one that had a hole?
    #[test]
    fn bfq_54_what_is_raised_more_stays() {
        let mut schedule = Schedule::new(2, 1, &LINUX_6_18);
        for queue in 0..2 {
            schedule.entities[queue] = Entity::new(0, 40, Class::BestEffort, true);
        }
        let (home, mut running) = (Queue::default(), Queue::default());
        running.raising.kind = Kind::SoftRealtime;
        assert_eq!(rule(&schedule, (0, &home), (1, &running), true, true, || true), None);
    }
}
