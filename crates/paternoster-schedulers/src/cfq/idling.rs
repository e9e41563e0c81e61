// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idling: keeping the device free for the next request of the active queue.
//!
//! A sequential reader asks for the next piece a moment after it got the last. Going elsewhere in
//! that moment costs two seeks; waiting costs the moment:
//!
//! ```text
//! with     A A A A A A A A │ B B B B B B B B │        one seek for each slice
//! without  A │ B │ A │ B │ A │ B │ A │ B │           one for each request
//! ```
//!
//! It pays only for processes that come back soon (think time) and read sequentially (seek
//! history), and on devices with moving parts. Queues that are not idled for singly are idled for
//! once, after the last of them, so that their tree is not left each time it is empty.
//!
//! Here is what is decided about a queue; the timer is `service.rs`'s.
//!
//! Source: CFQ-26 to CFQ-31, CFQ-38, CFQ-65, CFQ-67.

use crate::cfq::context::Context;
use crate::cfq::device::Device;
use crate::cfq::groups::{Group, Groups};
use crate::cfq::kind::Kind;
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::queue::Queue;
use crate::cfq::slice::{jiffy, signed};
use crate::cfq::tunables::Tunables;
use crate::cfq::version::{TreeIdling, Version};
use crate::cfq::workload::Workload;
use paternoster_core::time::Nanos;
use paternoster_core::{Flags, QueueView, RequestId};

/// A queue with this many requests waiting at once is deep: it needs no idling to be served well.
const DEEP: u32 = 4;

/// A request comes to a queue: the think times of its process, of the queue's tree and group.
#[inline]
pub(super) fn sample_think_times(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    context: &mut Context,
    groups: &mut Groups,
    home: &Queue,
) {
    let (now, tick) = (view.now(), view.hz().tick());
    let longest = Nanos(2 * tunables.slice_idle_in(view).0);
    if home.is_sync || version.tree_idling == TreeIdling::Unflagged {
        context.think_time.sample(now, longest, tick);
    }
    if version.tree_idling != TreeIdling::ThinkTime {
        return;
    }
    if let (true, Some(stand)) = (home.is_sync, home.stand) {
        groups[stand.group].tree_think_times[stand.tree].sample(now, longest, tick);
    }
    let of_group = Nanos(2 * tunables.group_idle_in(view, version).0);
    groups[home.group].think_time.sample(now, of_group, tick);
}

/// A request comes: whether the queue is one to idle for, if its process has this `mean` think time
/// (CFQ-28, CFQ-38).
#[inline]
pub(super) fn judge_window(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    home: &mut Queue,
    mean: impl FnOnce() -> Option<Nanos>,
) {
    if !home.is_sync || home.is_idle_class() {
        return;
    }
    let deep = home.is_deep || home.lane.len() >= DEEP;
    let slice_idle = tunables.slice_idle_in(view);
    let flagged = |next: RequestId| view.request(next).flags().contains(Flags::NOIDLE);
    let seeky = home.seek.is_seeky(tunables.seek_detection);
    let last_of_its_kind = version.heeds_no_idle && home.next.is_some_and(flagged);
    let hopeless = slice_idle == Nanos::ZERO || (!deep && seeky);
    let window = !last_of_its_kind
        && !hopeless
        && mean().map_or(home.idle_window, |mean| mean <= slice_idle);
    let window = replace(Decision::IdleWindow { before: home.idle_window }, window);
    (home.is_deep, home.idle_window) = (deep, window);
}

/// Whether the device may be kept free for a queue (CFQ-65).
#[inline]
pub(super) fn may_idle(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    device: &Device,
    groups: &Groups,
    home: &Queue,
) -> bool {
    let slice_idle = tunables.slice_idle_in(view);
    let no_idling = version.no_slice_idle_no_idling && slice_idle == Nanos::ZERO;
    if no_idling || home.is_idle_class() {
        return false;
    }
    if home.idle_window && !device.is_queueing_flash(view) {
        return true;
    }
    let Some(stand) = home.stand else { return false };
    let group = &groups[stand.group];
    let thinks_long = version.tree_idling == TreeIdling::ThinkTime
        && group.tree_think_times[stand.tree].is_longer_than(slice_idle, view.hz().tick());
    home.is_sync && group.trees[stand.tree].len() == 1 && !thinks_long
}

/// A seeky queue with many requests at once loses its idle window when the first of them takes
/// longer than what is left of its slice.
pub(super) fn watch_deep_queue(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    home: &mut Queue,
) {
    if !version.watches_deep_queues
        || !home.idle_window
        || !home.seek.is_seeky(tunables.seek_detection)
    {
        return;
    }
    let now = view.now();
    let began = home.slice.start.unwrap_or(Nanos::ZERO);
    let slow = home.slice.is_new || home.slice.left(now) > signed(now) - signed(began);
    if replace(Decision::DeepIsSlow, slow) {
        (home.is_deep, home.idle_window) = (false, false);
    }
}

/// Whether a group's last queue is not left while requests of the group are in flight.
pub(super) fn waits_for_group(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    group: &Group,
) -> bool {
    let idle = tunables.group_idle_in(view, version);
    idle.0 > 0
        && group.queues == 1
        && group.dispatched > 0
        && !group.think_time.is_longer_than(idle, view.hz().tick())
}

/// Whether the slice of the active queue, one of whose requests has ended, goes on until its group
/// has work again: if it is nearly over, and the group has no other queue.
#[inline]
pub(super) fn waits_busy(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    group: &Group,
    home: &Queue,
    mean: impl FnOnce() -> Option<Nanos>,
) -> bool {
    let refined = version.keeps_unstarted_slice;
    if refined && !home.is_empty() {
        return false;
    }
    let thinks_long = || {
        let idle = tunables.group_idle_in(view, version);
        refined && group.think_time.is_longer_than(idle, view.hz().tick())
    };
    if group.queues > 1 || thinks_long() {
        return false;
    }
    let left = home.slice.left(view.now());
    home.slice.is_used(view.now())
        || mean().is_some_and(|mean| left < signed(mean))
        || left <= signed(jiffy(view))
}

/// For how long it then goes on.
pub(super) fn extension(view: &QueueView, version: &Version, tunables: &Tunables) -> Nanos {
    let slice_idle = tunables.slice_idle_in(view);
    if slice_idle == Nanos::ZERO { tunables.group_idle_in(view, version) } else { slice_idle }
}

/// Whether 2.6.34 considers the timer at all: for a queue of those that are idled for, for a
/// group's only queue, or for the end of a tree.
#[inline]
pub(super) fn may_set_timer(version: &Version, workload: &Workload, group: &Group) -> bool {
    version.tree_idling != TreeIdling::Unflagged
        || workload.kind() == Kind::Sync
        || workload.tree_idles()
        || group.queues == 1
}

/// How long to idle for the active queue, if at all, when its process has the mean think time
/// `mean` (CFQ-30, CFQ-67).
pub(super) fn period(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    device: &Device,
    groups: &Groups,
    home: &Queue,
    mean: Option<Nanos>,
) -> Option<Nanos> {
    let (slice_idle, group_idle) =
        (tunables.slice_idle_in(view), tunables.group_idle_in(view, version));
    let for_groups_only = version.idles_on_queueing_flash && group_idle.0 > 0;
    if device.is_queueing_flash(view) && !for_groups_only {
        return None;
    }
    let too_late = mean.is_some_and(|mean| home.slice.left(view.now()) < signed(mean));
    if home.dispatched > 0 || too_late {
        return None;
    }
    if slice_idle.0 > 0 && may_idle(view, version, tunables, device, groups, home) {
        return Some(slice_idle);
    }
    let alone = groups[home.group].queues <= 1;
    let thinks_long = || {
        home.stand.is_some_and(|stand| {
            let think_time = &groups[stand.group].tree_think_times[stand.tree];
            version.leaves_thinking_trees && think_time.is_longer_than(group_idle, view.hz().tick())
        })
    };
    (group_idle.0 > 0 && alone && !thinks_long()).then_some(group_idle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfq::kind::Stand;
    use crate::cfq::schedule::{Charging, Schedule};
    use crate::cfq::slice::Slice;
    use crate::cfq::version::{LINUX_2_6_34, LINUX_3_6, LINUX_4_19};
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Class, Limits, Priority};

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn disk() -> QueueView {
        let facts = DeviceFacts { rotational: true, ..DeviceFacts::default() };
        QueueView::alone(facts, Limits::default())
    }

    fn flash() -> QueueView {
        let facts = DeviceFacts { rotational: false, depth: 32, ..DeviceFacts::default() };
        QueueView::alone(facts, Limits::default())
    }

    fn reader(idle_window: bool) -> Queue {
        let priority = Priority { class: Class::BestEffort, level: 4 };
        Queue { is_sync: true, idle_window, priority, ..Queue::default() }
    }

    /// So many queues like this one are busy in group 0. The last of them.
    fn busy(view: &QueueView, queues: u32, idle_window: bool) -> (Schedule, Queue) {
        let mut schedule = Schedule::new(queues, 1, &LINUX_4_19);
        schedule.groups[0].new_weight = 500;
        let mut home = reader(idle_window);
        for queue in 0..queues {
            home = reader(idle_window);
            schedule.join_busy(view, &Tunables::default(), Charging::Time, queue, &mut home);
        }
        (schedule, home)
    }

    /// Is a queue idled for whose process thinks for at most 8 ms, and one of unknown think time as
    /// before; never without slice_idle?
    #[test]
    fn cfq_28_the_window_follows_the_think_time() {
        for (before, mean, slice_idle, window) in [
            (true, None, 8, true),
            (false, None, 8, false),
            (false, Some(8), 8, true),
            (true, Some(9), 8, false),
            (true, Some(1), 0, false),
        ] {
            let tunables = Tunables { slice_idle: MS(slice_idle), ..Tunables::default() };
            let mut home = reader(before);
            let mean = mean.map(MS);
            judge_window(&disk(), &LINUX_3_6, &tunables, &mut home, || mean);
            assert_eq!(home.idle_window, window, "{before} {mean:?} {slice_idle}");
        }
    }

    /// Is the device kept for a queue with a window but not on flash that queues commands, and for
    /// the last queue of a tree, unless it is known that the tree thinks long?
    #[test]
    fn cfq_65_who_is_idled_for() {
        let (device, tunables) = (Device::new(Nanos::ZERO), Tunables::default());
        for (view, window, queues, idles) in [
            (disk(), true, 2, true),
            (flash(), true, 2, false),
            (disk(), false, 2, false),
            (disk(), false, 1, true),
            (flash(), true, 1, true),
        ] {
            let (mut schedule, home) = busy(&view, queues, window);
            let may =
                |groups: &Groups| may_idle(&view, &LINUX_4_19, &tunables, &device, groups, &home);
            assert_eq!(may(&schedule.groups), idles, "{window} {queues}");
            let Stand { group, tree } = home.stand.expect("it is busy");
            let think_time = &mut schedule.groups[group].tree_think_times[tree];
            think_time.set_parts(20_000_000, 256);
            let by_window = window && view.facts().rotational;
            assert_eq!(may(&schedule.groups), by_window, "{window} {queues}");
        }
    }

    /// Is the timer set for slice_idle, or without that, for a group's only queue, for group_idle,
    /// which 2.6.34 does not have; and not with a request in flight, or with less of the slice left
    /// than the process thinks?
    #[test]
    fn how_long_to_idle() {
        let (view, device) = (disk(), Device::new(Nanos::ZERO));
        let tunables = Tunables { group_idle: MS(6), ..Tunables::default() };
        let ends = |end| Slice { end: MS(end), ..Slice::default() };
        for (window, queues, dispatched, mean, period_ms) in [
            (true, 2, 0, 2, Some(8)),
            (true, 2, 1, 2, None),
            (true, 2, 0, 6, None),
            (false, 2, 0, 2, None),
        ] {
            let (schedule, home) = busy(&view, queues, window);
            let home = Queue { dispatched, slice: ends(5), ..home };
            let groups = &schedule.groups;
            let mean = Some(MS(mean));
            let time = period(&view, &LINUX_3_6, &tunables, &device, groups, &home, mean);
            assert_eq!(time, period_ms.map(MS), "{window} {queues} {dispatched} {mean:?}");
        }
        let tunables = Tunables { slice_idle: Nanos::ZERO, ..tunables };
        let (schedule, home) = busy(&view, 1, false);
        let home = Queue { slice: ends(5), ..home };
        let time =
            |version| period(&view, version, &tunables, &device, &schedule.groups, &home, None);
        assert_eq!([time(&LINUX_2_6_34), time(&LINUX_3_6)], [None, Some(MS(6))]);
    }

    /// Is the slice of a group's only queue drawn out when it is used up, or shorter than its
    /// process thinks; from 2.6.38 on not if the queue has a request already?
    #[test]
    fn a_sole_queue_is_waited_for() {
        let view = disk();
        let tunables = Tunables::default();
        for (queues, end, mean, waits) in
            [(1, 0, 2, true), (1, 5, 6, true), (1, 5, 4, false), (2, 0, 2, false)]
        {
            let (schedule, home) = busy(&view, queues, true);
            let home = Queue { slice: Slice { end: MS(end), ..home.slice }, ..home };
            let group = &schedule.groups[0];
            for version in [LINUX_2_6_34, LINUX_3_6] {
                let mean = || Some(MS(mean));
                let waits_now = waits_busy(&view, &version, &tunables, group, &home, mean);
                assert_eq!(waits_now, waits, "{queues} {end} {}", version.name);
            }
        }
        assert_eq!(extension(&view, &LINUX_3_6, &tunables), MS(8));
    }
}
