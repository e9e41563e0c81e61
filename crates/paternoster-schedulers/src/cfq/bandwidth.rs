// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bandwidth: seed 001's experiment, queues that share the device where that raises throughput.
//!
//! One reader at a time leaves an array of twenty disks mostly idle, and CFQ serves one at a time:
//! 130 MB/s with any number of readers, where noop gets 350. Corrado Zoccolo's idea: merge queues
//! that are far apart, too, if the device moves more that way. To find out, CFQ measures how much
//! it moves:
//!
//! ```text
//! bandwidth      230    753    0           sectors per tick: of the active queue,
//!                 ▲      ▲     ▲           the best of unmerged queues, the best of merged ones
//! ```
//!
//! The second can exceed the first only once merges have happened, and merges happen only once it
//! has: *plain* never begins. Goyal's *sampled* tries, on devices of more than 100 MB/s, until 81
//! merges have been tried. Both split a merged queue that stays 10 % below the best merged one ever
//! seen, which happens soon; *corrected* compares with the best of unmerged ones, and splits off
//! only processes that got less than half of an equal share, or all if there are none.
//!
//! Our own choices where the seed gives no detail: slices shorter than 10 ms or twice `slice_idle`
//! are not measured, completed sectors are counted instead of dispatched ones, the fair share is
//! half of 1/n.
//!
//! Source: seed 001; CFQ-48 to CFQ-51.

use crate::cfq::context::Context;
use crate::cfq::queue::Queue;
use crate::cfq::queues::Queues;
use crate::cfq::slice::jiffy;
use crate::cfq::tunables::{OptimisticMerge, Tunables};
use paternoster_core::QueueView;
use paternoster_core::pick::positions::Neighbours;
use paternoster_core::time::Nanos;

/// Shorter slices are not measured.
const LEAST_SLICE: Nanos = Nanos::from_millis(10);
/// 100 MB/s at HZ=1000: on slower devices, merging distant queues is not tried.
const WORTH_TRYING: u64 = 204;
/// The same for other values of HZ: sectors in 100 MB.
const WORTH_TRYING_PER_SECOND: u64 = 100 * (1 << 20) / 512;
/// This many merges are tried before their measured effect counts.
const TRIES: u32 = 80;

/// What is known of the device's bandwidth, in sectors per tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bandwidth {
    /// The best of unmerged queues, of merged ones.
    pub(super) most: [u64; 2],
    /// Merges tried so far.
    pub(super) tries: u32,
}

/// Which processes are to leave a queue that they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parting {
    No,
    All,
    /// Processes that got less than half of an equal share.
    Slow,
}

impl Bandwidth {
    /// A request of a queue has ended: its sectors count for the slice, and for its client.
    #[inline]
    pub(super) fn count_sectors(
        mode: OptimisticMerge,
        home: &mut Queue,
        context: Option<&mut Context>,
        sectors: u64,
    ) {
        if home.slice.start.is_none() || mode == OptimisticMerge::Off {
            return;
        }
        home.slice.sectors += sectors;
        if let Some(context) = context
            && home.is_shared
            && mode == OptimisticMerge::Corrected
        {
            context.sectors += sectors;
        }
    }

    /// The slice of a queue ends: records what it moved. Returns whether it was long enough to
    /// measure.
    #[inline]
    pub(super) fn measure(
        &mut self,
        view: &QueueView,
        tunables: &Tunables,
        home: &mut Queue,
    ) -> bool {
        if tunables.optimistic_merge == OptimisticMerge::Off {
            // What was measured before counts again when it is switched on.
            return false;
        }
        let least = LEAST_SLICE.max(Nanos(2 * tunables.slice_idle_in(view).0));
        let Some(start) = home.slice.start.filter(|_| home.is_sync) else { return false };
        let time = view.now() - start;
        if time < least {
            return false;
        }
        home.bandwidth = home.slice.sectors / (time.0 / jiffy(view).0).max(1);
        let most = &mut self.most[usize::from(home.is_shared)];
        *most = home.bandwidth.max(*most);
        true
    }

    /// Whether distant queues may be merged now.
    pub(super) fn allows(&self, view: &QueueView, mode: OptimisticMerge) -> bool {
        self.pays(mode, worth_trying(1_000_000_000 / jiffy(view).0))
    }

    fn pays(&self, mode: OptimisticMerge, worth: u64) -> bool {
        let [single, merged] = self.most;
        let pays = merged > single;
        match mode {
            OptimisticMerge::Off | OptimisticMerge::Measure => false,
            OptimisticMerge::Plain => pays,
            _ => pays || (single > worth && self.tries <= TRIES),
        }
    }

    /// Of the queues `near` the head the one with fewer requests, if it and `home` together have at
    /// most `half` of what the device takes, and their bandwidths are alike.
    pub(super) fn partner(
        &mut self,
        queues: &Queues,
        home: &Queue,
        near: Neighbours,
        half: u32,
    ) -> Option<u32> {
        let requests = home.allocated;
        if requests >= half {
            return None;
        }
        let Neighbours { ahead, behind } = near;
        let of = |queue: Option<u32>| queue.map(|queue| (queues.at(queue).allocated, queue));
        let (theirs, found) = [of(ahead), of(behind)].into_iter().flatten().min_by_key(|x| x.0)?;
        if theirs + requests > half {
            return None;
        }
        self.tries = self.tries.saturating_add(1);
        let apart = queues.at(found).bandwidth.abs_diff(home.bandwidth);
        (apart.saturating_mul(4) < self.most[0]).then_some(found)
    }

    /// A merged queue's slice was measured: it stays merged if that pays.
    pub(super) const fn parting(&self, mode: OptimisticMerge, home: &Queue) -> Parting {
        let [single, merged] = self.most;
        match mode {
            OptimisticMerge::Corrected if is_behind(home.bandwidth, single) => Parting::Slow,
            OptimisticMerge::Corrected => Parting::No,
            _ if is_behind(home.bandwidth, merged) => Parting::All,
            _ => Parting::No,
        }
    }
}

/// The bandwidth from which merging is tried, in sectors per tick, at this many ticks per second.
const fn worth_trying(ticks_per_second: u64) -> u64 {
    if ticks_per_second == 1000 { WORTH_TRYING } else { WORTH_TRYING_PER_SECOND / ticks_per_second }
}

/// Whether it is at most nine tenths of the best.
const fn is_behind(bandwidth: u64, best: u64) -> bool {
    bandwidth <= best * 9 / 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfq::slice::Slice;
    use paternoster_core::Limits;
    use paternoster_core::device::DeviceFacts;

    /// Does a merged queue at 350 sectors per tick stay merged, if the best unmerged one had 300
    /// and the best merged one 400? 400 * 9/10 = 360, 300 * 9/10 = 270.
    #[test]
    fn cfq_51_what_a_merged_queue_is_compared_with() {
        assert!(is_behind(350, 400));
        assert!(!is_behind(350, 300));
    }

    const SAMPLED: OptimisticMerge = OptimisticMerge::Sampled;

    const fn known(single: u64, merged: u64, tries: u32) -> Bandwidth {
        Bandwidth { most: [single, merged], tries }
    }

    /// When may distant queues be merged, if the best unmerged one had 300 sectors per tick? Plain
    /// never begins; sampled may try 81 times, then only if merging has paid.
    #[test]
    fn cfq_49_merging_is_tried_81_times() {
        assert!(!known(300, 0, 0).pays(OptimisticMerge::Plain, 204));
        assert!(known(300, 301, 0).pays(OptimisticMerge::Plain, 204));
        let tried = (0..100).take_while(|&tries| known(300, 0, tries).pays(SAMPLED, 204));
        assert_eq!(tried.count(), 81);
        assert!(!known(300, 300, 81).pays(SAMPLED, 204));
        assert!(known(300, 301, 81).pays(SAMPLED, 204));
    }

    /// Is it tried only on a device of more than 204 sectors per tick?
    #[test]
    fn cfq_50_slow_devices_are_left_alone() {
        assert!(!known(204, 0, 0).pays(SAMPLED, 204));
        assert!(known(205, 0, 0).pays(SAMPLED, 204));
    }

    /// Is 100 MB/s the same at every HZ? 204,800 sectors a second: 819 in 4 ms, 2048 in 10 ms.
    #[test]
    fn cfq_50_worth_is_scaled_to_ticks() {
        assert_eq!((worth_trying(1000), worth_trying(250), worth_trying(100)), (204, 819, 2048));
    }

    /// Is a slice of 20 ms measured that moved 4000 sectors, 200 a tick, and one of 15 ms not,
    /// which is shorter than two slice_idles?
    #[test]
    fn short_slices_are_not_measured() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        for (ms, is_shared, most) in
            [(15, true, [0, 0]), (20, false, [200, 0]), (20, true, [0, 200])]
        {
            view.turn_clock(Nanos::from_millis(ms));
            let slice = Slice { start: Some(Nanos::ZERO), sectors: 4000, ..Slice::default() };
            let mut home = Queue { is_sync: true, is_shared, slice, ..Queue::default() };
            let mut bandwidth = Bandwidth::default();
            let measures =
                Tunables { optimistic_merge: OptimisticMerge::Measure, ..Tunables::default() };
            let measured = bandwidth.measure(&view, &measures, &mut home);
            assert_eq!((measured, bandwidth.most), (most != [0, 0], most), "{ms} {is_shared}");
            // Off: what was measured stays as it was.
            let before = (home.bandwidth, bandwidth.most);
            home.slice.sectors = 9000;
            assert!(!bandwidth.measure(&view, &Tunables::default(), &mut home));
            assert_eq!((home.bandwidth, bandwidth.most), before);
        }
    }

    /// Which queues are split, if a merged queue had 350 sectors per tick, the best merged one 400,
    /// the best unmerged one 300 or 400?
    #[test]
    fn cfq_51_who_parts() {
        let home = Queue { bandwidth: 350, ..Queue::default() };
        let parting = |single, mode| known(single, 400, 0).parting(mode, &home);
        assert_eq!(parting(300, SAMPLED), Parting::All);
        assert_eq!(parting(300, OptimisticMerge::Corrected), Parting::No);
        assert_eq!(parting(400, OptimisticMerge::Corrected), Parting::Slow);
    }
}
