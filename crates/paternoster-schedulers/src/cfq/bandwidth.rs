// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bandwidth: seed 001's experiment, queues that share the device where that raises throughput.
//!
//! One reader at a time leaves an array of twenty disks mostly idle, and CFQ serves one at a time:
//! 130 MB/s with any number of readers, where noop gets 350. Corrado Zoccolo's idea: merge queues
//! that are far apart, too, if the device moves more that way. To know that, CFQ measures what it
//! moves:
//!
//! ```text
//! bandwidth      230    753    0           sectors per tick: of the active queue,
//!                 ▲      ▲     ▲           the best of unmerged queues, the best of merged ones
//! ```
//!
//! The second can exceed the first only once merges have happened, and merges happen only once it
//! has: *plain* never begins. Goyal's *sampled* tries, on devices of more than 100 MB/s, until 81
//! merges have been tried. Both split a merged queue that stays 10 % below the best merged one ever
//! seen, which happens soon; *corrected* compares with the best of unmerged ones, and parts only
//! with processes that got less than half of an equal share, or with all if there are none.
//!
//! Our own choices where the seed gives no detail: slices shorter than 10 ms or twice `slice_idle`
//! are not measured, completed sectors are counted instead of dispatched ones, the fair share is
//! half of 1/n.
//!
//! Source: seed 001; CFQ-48 to CFQ-51.

use crate::cfq::Cfq;
use crate::cfq::queue::Queue;
use crate::cfq::slice::jiffy;
use crate::cfq::tunables::OptimisticMerge;
use paternoster_core::pick::positions::Neighbours;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

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

impl Bandwidth {
    /// Whether distant queues may be merged now.
    fn allows(&self, mode: OptimisticMerge, worth: u64) -> bool {
        let [single, merged] = self.most;
        let pays = merged > single;
        match mode {
            OptimisticMerge::Off | OptimisticMerge::Measure => false,
            OptimisticMerge::Plain => pays,
            _ => pays || (single > worth && self.tries <= TRIES),
        }
    }
}

/// The bandwidth from which merging is tried, in sectors per tick, at this many ticks per second.
const fn worth_trying(ticks_per_second: u64) -> u64 {
    if ticks_per_second == 1000 { WORTH_TRYING } else { WORTH_TRYING_PER_SECOND / ticks_per_second }
}

impl Cfq {
    /// A request of `queue` has ended: its sectors count for the slice, and for its client.
    pub(super) fn count_sectors(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        let sectors = u64::from(view.request(request).sectors());
        let home = self.queues.at_mut(queue);
        if home.slice.start.is_none() || self.tunables.optimistic_merge == OptimisticMerge::Off {
            return;
        }
        home.slice.sectors += sectors;
        if !home.is_shared || self.tunables.optimistic_merge != OptimisticMerge::Corrected {
            return;
        }
        if let Some(context) = self.contexts.get_mut(view.request(request).client()) {
            context.sectors += sectors;
        }
    }

    /// The slice of `queue` ends: records what it moved. Returns whether it was long enough to
    /// measure.
    pub(super) fn measure_bandwidth(&mut self, view: &QueueView, queue: u32) -> bool {
        if self.tunables.optimistic_merge == OptimisticMerge::Off {
            return false;
        }
        let least = LEAST_SLICE.max(Nanos(2 * self.tunables.slice_idle_in(view).0));
        let Queue { slice, is_sync, is_shared, .. } = *self.queues.at(queue);
        let Some(start) = slice.start.filter(|_| is_sync) else { return false };
        let time = view.now() - start;
        if time < least {
            return false;
        }
        let bandwidth = slice.sectors / (time.0 / jiffy(view).0).max(1);
        self.queues.at_mut(queue).bandwidth = bandwidth;
        let most = &mut self.bandwidth.most[usize::from(is_shared)];
        *most = bandwidth.max(*most);
        true
    }

    /// A distant queue that would share the device well with the active one.
    pub(super) fn optimistic_cooperator(&mut self, view: &QueueView, active: u32) -> Option<u32> {
        let mode = self.tunables.optimistic_merge;
        // This runs at each completion: costs nothing while the experiment is off.
        if mode <= OptimisticMerge::Measure {
            return None;
        }
        let ticks_per_second = 1_000_000_000 / jiffy(view).0;
        if !self.bandwidth.allows(mode, worth_trying(ticks_per_second))
            || !self.may_queue_commands(view)
        {
            return None;
        }
        let own = self.queues.at(active);
        let (level, requests, bandwidth) =
            (u32::from(own.priority.level), own.allocated, own.bandwidth);
        let half = self.estimated_depth(view) / 2;
        if requests >= half {
            return None;
        }
        let Neighbours { ahead, behind } = self.positions.neighbours(level, self.last_position);
        let of = |queue: Option<u32>| queue.map(|queue| (self.queues.at(queue).allocated, queue));
        let (theirs, found) = [of(ahead), of(behind)].into_iter().flatten().min_by_key(|x| x.0)?;
        if theirs + requests > half {
            return None;
        }
        self.bandwidth.tries = self.bandwidth.tries.saturating_add(1);
        let apart = self.queues.at(found).bandwidth.abs_diff(bandwidth);
        (apart.saturating_mul(4) < self.bandwidth.most[0]).then_some(found)
    }

    /// A merged queue's slice was measured: it stays merged if that pays.
    pub(super) fn split_by_bandwidth(&mut self, queue: u32) {
        let bandwidth = self.queues.at(queue).bandwidth;
        let [single, merged] = self.bandwidth.most;
        if self.tunables.optimistic_merge == OptimisticMerge::Corrected {
            if is_behind(bandwidth, single) {
                // If there are none, the merge itself does not pay, and all part.
                let slow = self.contexts.part_with_the_slow(queue);
                self.queues.at_mut(queue).is_to_split = !slow;
            }
        } else if is_behind(bandwidth, merged) {
            self.queues.at_mut(queue).is_to_split = true;
        }
    }

    /// The slice of a shared queue has ended: each process's part of it is counted afresh.
    pub(super) fn forget_shares(&mut self, queue: u32) {
        if self.tunables.optimistic_merge == OptimisticMerge::Corrected {
            self.contexts.forget_shares(queue);
        }
    }
}

/// Whether it is at most nine tenths of the best.
const fn is_behind(bandwidth: u64, best: u64) -> bool {
    bandwidth <= best * 9 / 10
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!known(300, 0, 0).allows(OptimisticMerge::Plain, 204));
        assert!(known(300, 301, 0).allows(OptimisticMerge::Plain, 204));
        let tried = (0..100).take_while(|&tries| known(300, 0, tries).allows(SAMPLED, 204));
        assert_eq!(tried.count(), 81);
        assert!(!known(300, 300, 81).allows(SAMPLED, 204));
        assert!(known(300, 301, 81).allows(SAMPLED, 204));
    }

    /// Is it tried only on a device of more than 204 sectors per tick?
    #[test]
    fn cfq_50_slow_devices_are_left_alone() {
        assert!(!known(204, 0, 0).allows(SAMPLED, 204));
        assert!(known(205, 0, 0).allows(SAMPLED, 204));
    }

    /// Is 100 MB/s the same at every HZ? 204,800 sectors a second: 819 in 4 ms, 2048 in 10 ms.
    #[test]
    fn cfq_50_worth_is_scaled_to_ticks() {
        assert_eq!((worth_trying(1000), worth_trying(250), worth_trying(100)), (204, 819, 2048));
    }
}
