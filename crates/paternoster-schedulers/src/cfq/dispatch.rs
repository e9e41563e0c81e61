// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatch: how many requests of a queue may be in flight.
//!
//! A device with command queueing orders its commands itself, so too much of one queue in it delays
//! the next one's turn. A queue may have half the quantum in flight at any time, the whole quantum
//! while its slice will last for it, and any number when it is alone:
//!
//! ```text
//! quantum 8     just activated                      4
//!               slice left for dispatched * 8 ms    8
//!               the only busy queue                 no limit
//! ```
//!
//! Async requests wait until no sync one is in flight. With `low_latency`, after a late sync
//! request they start again with one at a time, and get one more for each `slice_sync` since.
//!
//! Source: CFQ-61 and CFQ-20 to CFQ-25; CFQ-67, CFQ-69.

use crate::cfq::device::Device;
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::queue::Queue;
use crate::cfq::schedule::Schedule;
use crate::cfq::tunables::Tunables;
use crate::cfq::version::Version;
use paternoster_core::QueueView;
use paternoster_core::time::Nanos;

/// Whether one more request of a queue may be in flight. `is_idled_for`: the device may be kept
/// free for it.
#[inline]
pub(super) fn may_dispatch(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    device: &Device,
    schedule: &Schedule,
    home: &Queue,
    is_idled_for: impl FnOnce() -> bool,
) -> bool {
    if version.lets_expired_through && home.must_dispatch {
        return true;
    }
    let [async_in_flight, sync_in_flight] = device.in_flight();
    if async_in_flight > 0 && is_idled_for() {
        return false;
    }
    if !home.is_sync && sync_in_flight > 0 {
        return false;
    }
    let Some(most) = most_in_flight(view, version, tunables, schedule, home) else { return false };
    let most = most.min(most_async(view, tunables, device, home));
    home.dispatched < replace(Decision::Most, most)
}

/// The limit by the quantum; `None` if not even one more.
#[inline]
fn most_in_flight(
    view: &QueueView,
    version: &Version,
    tunables: &Tunables,
    schedule: &Schedule,
    home: &Queue,
) -> Option<u32> {
    let quantum = tunables.quantum;
    let most = if home.is_idle_class() { 1 } else { (quantum / 2).max(1) };
    if home.dispatched < most {
        return Some(most);
    }
    if home.is_idle_class() {
        return None;
    }
    let promoted = version.promotes_sole_sync && home.is_sync && schedule.busy_sync() == 1;
    if schedule.busy() == 1 || promoted {
        return Some(u32::MAX);
    }
    (!is_used_soon(view, tunables, home)).then_some(quantum)
}

/// Whether a queue may use up its slice before its requests in flight have been served: a rough
/// guess, a `slice_idle` for each.
fn is_used_soon(view: &QueueView, tunables: &Tunables, home: &Queue) -> bool {
    let each = tunables.slice_idle_in(view).0;
    let served = Nanos(each.saturating_mul(home.dispatched.into()));
    home.slice.is_new || view.now() + served > home.slice.end
}

/// With `low_latency`, the limit by the time since a sync request was last late (CFQ-23).
#[inline]
fn most_async(view: &QueueView, tunables: &Tunables, device: &Device, home: &Queue) -> u32 {
    if home.is_sync || !tunables.low_latency {
        return u32::MAX;
    }
    let slice = view.hz().floor(tunables.slice[1]).0.max(1);
    let depth = u32::try_from(device.since_late(view.now()).0 / slice).unwrap_or(u32::MAX);
    if depth == 0 && home.dispatched == 0 { 1 } else { depth }
}

/// Whether a queue's slice ends with a dispatch: that of an async queue with the slice's last
/// request, that of an idle-class queue with each request; never that of the only busy queue.
#[inline]
pub(super) fn ends_slice(tunables: &Tunables, home: &Queue, busy: u32) -> bool {
    let full = !home.is_sync && home.slice.dispatched >= tunables.async_limit(home.priority.level);
    busy > 1 && (full || home.is_idle_class())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfq::schedule::Charging;
    use crate::cfq::version::{LINUX_2_6_34, LINUX_4_19};
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Class, Limits, Priority};

    fn view_at(ms: u64) -> QueueView {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        view.turn_clock(Nanos::from_millis(ms));
        view
    }

    /// A schedule in which so many sync queues are busy.
    fn busy(queues: u32) -> Schedule {
        let mut schedule = Schedule::new(queues, 1, &LINUX_4_19);
        schedule.groups[0].new_weight = 500;
        for queue in 0..queues {
            let mut home = Queue { is_sync: true, ..Queue::default() };
            let tunables = Tunables::default();
            schedule.join_busy(&view_at(0), &tunables, Charging::Time, queue, &mut home);
        }
        schedule
    }

    /// How many requests may go at 10 ms, of this many queues, in a slice that ends then or has not
    /// begun.
    fn most(queues: u32, class: Class, end: Option<u64>) -> u32 {
        let (view, schedule, device) = (view_at(10), busy(queues), Device::new(Nanos::ZERO));
        let priority = Priority { class, level: 4 };
        let mut home = Queue { is_sync: true, priority, ..Queue::default() };
        home.slice.is_new = end.is_none();
        home.slice.end = Nanos::from_millis(end.unwrap_or(0));
        let tunables = Tunables::default();
        while home.dispatched < 100
            && may_dispatch(&view, &LINUX_4_19, &tunables, &device, &schedule, &home, || true)
        {
            home.dispatched += 1;
        }
        home.dispatched
    }

    /// May a queue have half the quantum in flight, the whole quantum while its slice lasts for it,
    /// and any number if it is the only queue? Seven requests take 7 * 8 = 56 ms: at 10 ms, a slice
    /// that ends at 66 ms has just time for an eighth, one that ends at 65 ms has not. The idle
    /// class may have one.
    #[test]
    fn cfq_20_how_many_of_a_sync_queue() {
        let best = Class::BestEffort;
        assert_eq!(
            [most(2, best, None), most(2, best, Some(66)), most(2, best, Some(65))],
            [4, 8, 7]
        );
        assert_eq!([most(1, best, None), most(2, Class::Idle, Some(66))], [100, 1]);
    }

    /// Does an async queue start with one after a late sync request, and get one more for each 100
    /// ms; without low_latency not?
    #[test]
    fn cfq_23_async_requests_start_again() {
        let mut device = Device::new(Nanos::ZERO);
        device.was_late(Nanos::from_millis(1000));
        let mut tunables = Tunables::default();
        let mut home = Queue::default();
        for (ms, dispatched, most) in [(1099, 0, 1), (1099, 1, 0), (1100, 1, 1), (1350, 1, 3)] {
            home.dispatched = dispatched;
            assert_eq!(most_async(&view_at(ms), &tunables, &device, &home), most, "{ms}");
        }
        tunables.low_latency = false;
        assert_eq!(most_async(&view_at(1099), &tunables, &device, &home), u32::MAX);
    }

    /// Does a queue wait while an async request is in flight and the device may be kept for it, or
    /// an async one while a sync one is; and does an expired request go anyway in 4.19?
    #[test]
    fn cfq_69_what_is_in_flight_holds_others_back() {
        use paternoster_core::{Bio, ClientSpec, Op};
        for flying_sync in [false, true] {
            let mut view = view_at(0);
            let client = view.add_client(ClientSpec::new());
            let id = view.add_request(&Bio::new(client, Op::Write, 0, 8), Nanos::ZERO);
            let mut device = Device::new(Nanos::ZERO);
            let mut other = Queue { is_sync: flying_sync, ..Queue::default() };
            device.count(&mut view, &mut other, id, true);
            for (is_sync, idled_for, may) in
                [(true, true, flying_sync), (true, false, true), (false, false, !flying_sync)]
            {
                for must_dispatch in [false, true] {
                    let home = Queue { is_sync, must_dispatch, ..Queue::default() };
                    let of = |version| {
                        let (tunables, schedule) = (Tunables::default(), busy(2));
                        let idled = || idled_for;
                        may_dispatch(&view, version, &tunables, &device, &schedule, &home, idled)
                    };
                    assert_eq!((of(&LINUX_2_6_34), of(&LINUX_4_19)), (may, may || must_dispatch));
                }
            }
        }
    }

    /// Does an async slice of level 4 end with its 16th request, and one of the idle class with
    /// each, but none of a sole queue?
    #[test]
    fn slices_that_end_with_a_dispatch() {
        for (class, dispatched, busy, ends) in [
            (Class::BestEffort, 15, 2, false),
            (Class::BestEffort, 16, 2, true),
            (Class::BestEffort, 16, 1, false),
            (Class::Idle, 1, 2, true),
        ] {
            let mut home = Queue { priority: Priority { class, level: 4 }, ..Queue::default() };
            home.slice.dispatched = dispatched;
            assert_eq!(ends_slice(&Tunables::default(), &home, busy), ends, "{dispatched} {busy}");
        }
    }
}
