// SPDX-License-Identifier: MIT OR Apache-2.0
//! Length: how long the slice of a queue is, and what is kept of one that was cut short.
//!
//! The length is `base + base/5 * (4 - level)`: 180 ms at level 0, 40 ms at level 7. With
//! `low_latency` it shrinks so that all busy queues have their turn within `target_latency`, but
//! not below twice `slice_idle`:
//!
//! ```text
//! level 4, busy    1     3     4     6    10    30
//! ms             100   100    75    50    30    16
//! ```
//!
//! Source: CFQ-6, CFQ-8, CFQ-14 to CFQ-16, CFQ-66.

use crate::cfq::groups::Groups;
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::queue::Queue;
use crate::cfq::slice::signed;
use crate::cfq::tunables::Tunables;
use crate::cfq::version::Version;
use paternoster_core::QueueView;
use paternoster_core::time::{Nanos, scale};

/// The slice that a queue gets now (CFQ-14 to CFQ-16). Updates the average of busy queues.
pub(super) fn length(
    view: &QueueView,
    tunables: &Tunables,
    groups: &mut Groups,
    queue: u32,
    home: &Queue,
) -> Nanos {
    let length = compute(view, tunables, groups, home);
    replace(Decision::SliceLength { queue }, length)
}

fn compute(view: &QueueView, tunables: &Tunables, groups: &mut Groups, home: &Queue) -> Nanos {
    let tick = view.hz().tick().0;
    let slice = tunables.level_slice(view, home.is_sync, home.priority.level).0 / tick;
    if !tunables.low_latency {
        return Nanos(slice * tick);
    }
    let busy = u64::from(groups.average_busy(home.group, home.is_realtime()));
    let base = (tunables.slice[1].0 / tick).max(1);
    let expected = base.saturating_mul(busy);
    let share = groups.slice(home.group, tunables.target_latency, view.hz().tick()).0 / tick;
    if expected <= share {
        return Nanos(slice * tick);
    }
    let idle = tunables.slice_idle_in(view).0 / tick;
    let least = slice.min(scale(slice, 2 * idle, base));
    Nanos(scale(slice, share, expected).max(least).saturating_mul(tick))
}

/// What a queue keeps of a slice that is cut short, in nanoseconds: what is left of it. For a slice
/// whose clock has not started, the whole slice; `None` in 2.6.34, where the queue keeps what it
/// had before (CFQ-66).
pub(super) fn residual(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    groups: &mut Groups,
    queue: u32,
    home: &Queue,
) -> Option<i64> {
    let residual = if !home.slice.is_new {
        home.slice.left(view.now())
    } else if version.keeps_unstarted_slice {
        signed(length(view, tunables, groups, queue, home))
    } else {
        return None;
    };
    Some(replace(Decision::Residual { queue }, residual))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfq::schedule::{Charging, Schedule};
    use crate::cfq::version::{LINUX_2_6_34, LINUX_3_6};
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Class, Limits, Priority};

    /// So many readers of level 4 are busy in group 0, and one of `level`, whose slice this is once
    /// the average has settled.
    fn settled(level: u8, others: u32) -> (QueueView, Schedule, Queue, u64) {
        let view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let tunables = Tunables::default();
        let mut schedule = Schedule::new(others + 1, 1, &LINUX_3_6);
        schedule.groups[0].new_weight = 1000;
        let reader = |level| {
            let priority = Priority { class: Class::BestEffort, level };
            Queue { is_sync: true, idle_window: true, priority, ..Queue::default() }
        };
        for queue in 1..=others {
            schedule.join_busy(&view, &tunables, Charging::Time, queue, &mut reader(4));
        }
        let mut home = reader(level);
        schedule.join_busy(&view, &tunables, Charging::Time, 0, &mut home);
        let groups = &mut schedule.groups;
        let ms = (0..20).fold(0, |_, _| length(&view, &tunables, groups, 0, &home).as_millis());
        (view, schedule, home, ms)
    }

    /// Are slices those of the table above, and at level 0 among ten max(180 * 300/1000, 28)?
    #[test]
    fn cfq_14_slices_of_many_are_shorter() {
        for (busy, ms) in [(1, 100), (3, 100), (4, 75), (6, 50), (10, 30), (30, 16)] {
            assert_eq!(settled(4, busy - 1).3, ms, "{busy}");
        }
        assert_eq!([settled(0, 9).3, settled(0, 29).3], [54, 28]);
    }

    /// Is what is left of a slice kept, and of one that has not started the whole, but in 2.6.34
    /// nothing new?
    #[test]
    fn cfq_66_what_is_kept_of_a_slice() {
        let (mut view, mut schedule, mut home, _) = settled(4, 0);
        view.turn_clock(Nanos::from_millis(70));
        for (is_new, old, new) in [(true, None, Some(100)), (false, Some(40), Some(40))] {
            home.slice.is_new = is_new;
            home.slice.end = Nanos::from_millis(110);
            let mut kept = |version| {
                let groups = &mut schedule.groups;
                let kept = residual(&view, version, &Tunables::default(), groups, 0, &home);
                kept.map(|left| left / 1_000_000)
            };
            assert_eq!((kept(&LINUX_2_6_34), kept(&LINUX_3_6)), (old, new), "{is_new}");
        }
    }
}
