// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preemption: a request that need not wait for its queue's turn.
//!
//! ```text
//! async has the device       a read comes           it goes first, whatever the slice
//! best effort has it         real time comes        it goes first
//! idling for A at 5000       B asks for 5100        B goes on there: better than an idle device
//! ```
//!
//! The preempted queue keeps the account of what was left of its slice; the other queue moves to
//! the front of its tree. The rules are listed in the order in which they are checked; the first
//! that applies decides.
//!
//! Source: CFQ-62 and CFQ-32 to CFQ-34; CFQ-63, CFQ-68.

use crate::cfq::kind::Kind;
use crate::cfq::queue::Queue;
use crate::cfq::schedule::Schedule;
use crate::cfq::version::Version;
use paternoster_core::event::Preemption;
use paternoster_core::observe::seek::SeekDetection;
use paternoster_core::time::Nanos;

/// Sectors nearer to the head than this are close (4 MiB).
pub(super) const CLOSE_SECTORS: u64 = 8 * 1024;

/// The request that comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) is_sync: bool,
    pub(super) is_urgent: bool,
}

/// Whether a request that comes to one queue should preempt the `running` one, and why. `served` is
/// the kind of queues in turn; `of_waiting` is asked last: see the function of that name.
#[inline]
pub(super) fn rule(
    version: &Version,
    now: Nanos,
    asked: Asked,
    comer: &Queue,
    running: &Queue,
    (schedule, served): (&Schedule, Kind),
    of_waiting: impl FnOnce() -> Option<Preemption>,
) -> Option<Preemption> {
    if comer.is_idle_class() {
        return None;
    }
    if running.is_idle_class() {
        return Some(Preemption::OverIdleClass);
    }
    if running.is_realtime() && !comer.is_realtime() {
        return None;
    }
    let let_through = version.lets_expired_through && running.must_dispatch;
    if asked.is_sync && !running.is_sync && !let_through {
        return Some(Preemption::SyncOverAsync);
    }
    if !schedule.groups.is_at_or_above(comer.group, running.group) {
        return None;
    }
    let realtime = comer.is_realtime() && !running.is_realtime();
    if version.realtime_first && realtime {
        return Some(Preemption::Realtime);
    }
    if running.slice.is_used(now) {
        return Some(Preemption::SliceUsed);
    }
    // Queues that are not idled for take turns: an empty active queue has had its turn.
    let in_turn = served == Kind::NoIdle
        && comer.kind() == Kind::NoIdle
        && (version.preempts_among_seeky || schedule.beside(comer) == 2)
        && running.is_empty();
    if in_turn {
        return Some(Preemption::NextInTurn);
    }
    if asked.is_urgent && running.urgent == 0 {
        return Some(Preemption::Urgent);
    }
    if realtime {
        return Some(Preemption::Realtime);
    }
    of_waiting()
}

/// Whether the request preempts because the `running` queue is empty and not idled for, or because
/// the device idles (`waits`) and the request lies close by, `distance` sectors away.
#[inline]
pub(super) fn of_waiting(
    version: &Version,
    detection: SeekDetection,
    running: &Queue,
    waits: bool,
    distance: u64,
    is_idled_for: impl FnOnce() -> bool,
) -> Option<Preemption> {
    if version.preempts_unidled && running.is_empty() && !is_idled_for() {
        return Some(Preemption::NotIdledFor);
    }
    let is_close = || distance <= running.seek.closeness(detection, CLOSE_SECTORS);
    (waits && is_close()).then_some(Preemption::Close)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfq::slice::Slice;
    use crate::cfq::version::{LINUX_2_6_34, LINUX_3_6, LINUX_4_19};
    use paternoster_core::{Class, Priority};

    const SYNC: Asked = Asked { is_sync: true, is_urgent: false };

    fn of(class: Class) -> Queue {
        let priority = Priority { class, level: 4 };
        let slice = Slice { end: Nanos::from_millis(100), ..Slice::default() };
        Queue { is_sync: true, idle_window: true, priority, slice, ..Queue::default() }
    }

    fn rule_of(
        version: &Version,
        asked: Asked,
        comer: &Queue,
        running: &Queue,
    ) -> Option<Preemption> {
        let schedule = Schedule::new(2, 2, version);
        let now = Nanos::from_millis(50);
        rule(version, now, asked, comer, running, (&schedule, Kind::Sync), || None)
    }

    /// Which class preempts which? Any the idle class, real time best effort; never the reverse.
    #[test]
    fn cfq_33_classes_preempt_downwards() {
        use Class::{BestEffort, Idle, Realtime};
        for (comer, running, expected) in [
            (Idle, BestEffort, None),
            (Idle, Idle, None),
            (BestEffort, Idle, Some(Preemption::OverIdleClass)),
            (BestEffort, Realtime, None),
            (BestEffort, BestEffort, None),
            (Realtime, BestEffort, Some(Preemption::Realtime)),
            (Realtime, Realtime, None),
        ] {
            let rule = rule_of(&LINUX_3_6, SYNC, &of(comer), &of(running));
            assert_eq!(rule, expected, "{comer:?} {running:?}");
        }
    }

    /// Does a sync request preempt an async queue, but in 4.19 not one with an expired request?
    #[test]
    fn cfq_32_sync_goes_before_async() {
        for (must_dispatch, version, expected) in [
            (false, LINUX_4_19, Some(Preemption::SyncOverAsync)),
            (true, LINUX_3_6, Some(Preemption::SyncOverAsync)),
            (true, LINUX_4_19, None),
        ] {
            let best = of(Class::BestEffort);
            let running = Queue { is_sync: false, must_dispatch, ..best.clone() };
            assert_eq!(rule_of(&version, SYNC, &best, &running), expected);
            let asked = Asked { is_sync: false, ..SYNC };
            assert_eq!(rule_of(&version, asked, &best, &running), None);
        }
    }

    /// Is a slice that is used up no obstacle, but not for a queue of another group; and is an
    /// urgent request, unless the running queue has one?
    #[test]
    fn groups_and_urgent_requests() {
        let best = of(Class::BestEffort);
        let used = Queue { slice: Slice::default(), ..best.clone() };
        let elsewhere = Queue { group: 1, ..best.clone() };
        assert_eq!(rule_of(&LINUX_3_6, SYNC, &best, &used), Some(Preemption::SliceUsed));
        assert_eq!(rule_of(&LINUX_3_6, SYNC, &elsewhere, &used), None);
        let asked = Asked { is_urgent: true, ..SYNC };
        for (urgent, expected) in [(0, Some(Preemption::Urgent)), (1, None)] {
            let running = Queue { urgent, ..best.clone() };
            assert_eq!(rule_of(&LINUX_3_6, asked, &best, &running), expected);
        }
    }

    /// Do queues that are not idled for take turns where such are served: in 4.19 always, before
    /// only if there are exactly two?
    #[test]
    fn cfq_68_seeky_queues_take_turns() {
        let comer = Queue { idle_window: false, ..of(Class::BestEffort) };
        for (version, expected) in [(LINUX_3_6, None), (LINUX_4_19, Some(Preemption::NextInTurn))] {
            let schedule = Schedule::new(2, 1, &version);
            let rule = |served| {
                let now = Nanos::ZERO;
                rule(&version, now, SYNC, &comer, &comer, (&schedule, served), || None)
            };
            assert_eq!([rule(Kind::NoIdle), rule(Kind::Sync)], [expected, None]);
        }
    }

    /// While the device idles, does a request preempt that is at most 8192 sectors away; and one at
    /// any distance, from 2.6.38 on, if the empty queue is not idled for?
    #[test]
    fn cfq_34_close_requests_preempt_an_idle_device() {
        let running = of(Class::BestEffort);
        for (waits, distance, idled_for, old, new) in [
            (true, 8192, true, Some(Preemption::Close), Some(Preemption::Close)),
            (true, 8193, true, None, None),
            (false, 0, true, None, None),
            (false, 8193, false, None, Some(Preemption::NotIdledFor)),
        ] {
            let rule = |version| {
                let detection = SeekDetection::Auto;
                of_waiting(version, detection, &running, waits, distance, || idled_for)
            };
            assert_eq!((rule(&LINUX_2_6_34), rule(&LINUX_3_6)), (old, new), "{distance}");
        }
    }
}
