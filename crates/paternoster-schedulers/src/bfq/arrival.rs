// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrival: what a request that comes to a queue at rest is taken for.
//!
//! After two seconds of rest, for the start of an application. If it comes later than a greedy
//! reader would have asked again, for soft real time:
//!
//! ```text
//! soft_rt_next = max(itself, start of backlog + served/7000 s, end of turn + slice_idle + 4 ticks)
//! ```
//!
//! That tells a player from a reader: a queue that asks again sooner than at 7000 sectors per
//! second, or sooner than a greedy reader would, is not soft real time.
//!
//! Source: BFQ-94 to BFQ-97, BFQ-99, BFQ-107.

use crate::bfq::queue::Queue;
use crate::bfq::tunables::Tunables;
use crate::bfq::version::Version;
use crate::bfq::weight_raising::{Arrival, Kind};
use paternoster_core::QueueView;
use paternoster_core::time::{Hz, Nanos, scale};

/// The fastest that soft real time may be, in sectors per second.
const SOFT_REALTIME_RATE: u64 = 7000;
/// Weight of a queue that was not configured otherwise.
const DEFAULT_WEIGHT: u32 = 40;

/// Four ticks; four milliseconds where time is exact.
fn grace(hz: Hz) -> Nanos {
    Nanos((4 * hz.tick().0).max(if hz == Hz::EXACT { 4_000_000 } else { 0 }))
}

/// What an arrival at a queue that is not busy, and of this weight, is taken for; `is_stable` says
/// that its process was merged with those it was created with (BFQ-95 to BFQ-97).
#[inline]
pub(super) fn judge(
    now: Nanos,
    home: &Queue,
    weight: u32,
    is_stable: bool,
    version: &Version,
    tunables: &Tunables,
) -> Arrival {
    let ordinary = !version.raises_default_weight_only || weight == DEFAULT_WEIGHT;
    let eligible = !home.in_large_burst && ordinary;
    let seeky = version.raises_default_weight_only && home.pattern.is_totally_seeky();
    let interactive = eligible && home.is_idle_for_long(now);
    let soft_realtime =
        eligible && now > home.raising.soft_realtime_next && home.in_flight == 0 && !seeky;
    // With the queues it was created with, it may be raised as if it were alone.
    let own = home.owner.is_some() || is_stable;
    let wanted = home.is_sync && own && (interactive || soft_realtime);
    let deserves = tunables.low_latency && (home.raising.is_raised() || wanted);
    Arrival { interactive, soft_realtime, deserves, in_burst: home.in_large_burst }
}

/// The earliest time at which the next arrival counts as soft real time (BFQ-99).
#[inline]
pub(super) fn soft_realtime_next(view: &QueueView, home: &Queue, slice_idle: Nanos) -> Nanos {
    let hz = view.hz();
    let ticks = scale(home.backlog_service, 1_000_000_000, SOFT_REALTIME_RATE);
    let by_rate = home.backlog_began + hz.floor(Nanos(ticks));
    let by_greed = view.now() + hz.floor(slice_idle) + grace(hz);
    home.raising.soft_realtime_next.max(by_rate).max(by_greed)
}

/// A turn ends: that time is known if it is the end of a backlog, or else when the requests in
/// flight have ended.
#[inline]
pub(super) fn expect_soft_realtime(view: &QueueView, home: &mut Queue, slice_idle: Nanos) {
    let next = soft_realtime_next(view, home, slice_idle);
    if !home.raising.is_raised() {
        home.raising.since = view.now();
    }
    if !home.is_empty() {
        return;
    }
    if home.in_flight == 0 {
        home.raising.soft_realtime_next = next;
    } else {
        home.raising.is_unsettled = true;
    }
}

/// A request has ended: if it was the last one in flight, that time may be known now. `waits`: not
/// in an interactive period (6.18).
#[inline]
pub(super) fn settle_soft_realtime(
    view: &QueueView,
    home: &mut Queue,
    waits: bool,
    slice_idle: Nanos,
) {
    let waits = waits && home.raising.kind == Kind::Interactive;
    if home.raising.is_unsettled && home.in_flight == 0 && !waits {
        home.raising.soft_realtime_next = soft_realtime_next(view, home, slice_idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::pattern::Pattern;
    use crate::bfq::version::{LINUX_4_19, LINUX_6_18};
    use paternoster_core::ClientId;

    /// Is a queue of its own after more than two seconds of rest interactive, in 6.18 only with the
    /// default weight, and never in a large burst or if it is shared?
    #[test]
    fn what_starts() {
        for version in [LINUX_4_19, LINUX_6_18] {
            let tunables = Tunables::new(version.inject, version.late_mechanisms);
            let home = Queue {
                is_sync: true,
                owner: Some(ClientId::default()),
                stamp: Some(Nanos::from_secs(10)),
                pattern: Pattern::new(Nanos::ZERO, true),
                ..Queue::default()
            };
            let deserves = |at, weight, home: &Queue| {
                judge(at, home, weight, false, &version, &tunables).deserves
            };
            let late = Nanos(12_000_000_001);
            assert!(deserves(late, 40, &home));
            assert!(!judge(Nanos(late.0 - 1), &home, 40, false, &version, &tunables).interactive);
            let others = !version.raises_default_weight_only;
            assert_eq!(deserves(late, 50, &home), others);
            assert!(!deserves(late, 40, &Queue { in_large_burst: true, ..home.clone() }));
            assert!(!deserves(late, 40, &Queue { owner: None, ..home }));
        }
    }
}
