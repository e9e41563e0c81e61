// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idling: keeping the device for a queue that has nothing to do at the moment.
//!
//! There are two reasons. *Throughput*: a sequential reader should go on, because going elsewhere
//! costs two seeks. *Guarantees*: a process that outweighs others gets its share only if the device
//! is kept for its next request; otherwise the others' requests fill the device:
//!
//! ```text
//! weights 100 and 300, one request each at a time, 32 in parallel
//! without idling   each has always one in the device: 1 : 1
//! with             B's next request comes while the device waits for it: 1 : 3, one at a time
//! ```
//!
//! The price of the second is that a device that could do 32 things at once does one. What may be
//! done in the meantime is in `inject`.
//!
//! # Invariants
//! I1  `wait_request` is set for the queue in service exactly while the timer is, for no other
//!     queue.
//! I2  The device is kept free only while `must_idle` holds or a request of the queue in service
//!     is in flight and `better_to_idle` holds, or with `strict_guarantees`.
//!
//! Source: BFQ-68 to BFQ-74, BFQ-91 to BFQ-93.

use crate::bfq::pattern::Pattern;
use crate::bfq::queue::Queue;
use crate::bfq::symmetry::Symmetry;
use crate::bfq::version::Guarantees;
use paternoster_core::time::Nanos;

/// Idle time for a seeky queue.
const SHORT: Nanos = Nanos::from_millis(2);
/// For a raised queue, at least.
const RAISED: Nanos = Nanos::from_millis(20);
/// With this many requests of others in the device a raised queue suffers.
const CROWD: u32 = 4;

/// Whether idling for a queue of this pattern pays: on a device that does not queue commands, or,
/// for a queue that reads on, on one that either is not flash or does not (BFQ-71).
#[inline]
pub(super) fn for_throughput(pattern: &Pattern, rotational: bool, queues_commands: bool) -> bool {
    let reads_on = pattern.reads_on();
    (rotational && !queues_commands) || ((rotational || !queues_commands) && reads_on)
}

/// Whether a queue's share depends on it (BFQ-72).
#[inline]
pub(super) fn for_guarantees(
    rule: Guarantees,
    symmetry: &Symmetry,
    queue: u32,
    home: &Queue,
    in_driver: u32,
) -> bool {
    let raised = home.raising.is_raised();
    match rule {
        Guarantees::AnyGroup => {
            let among_others = raised && symmetry.raised() < symmetry.busy();
            (among_others || symmetry.is_asymmetric(queue)) && !home.in_large_burst
        }
        Guarantees::TwoGroups => {
            if home.processes() == 0 {
                return false;
            }
            let crowded = in_driver >= home.in_flight + CROWD;
            (raised && (symmetry.raised() < symmetry.busy() || crowded))
                || symmetry.is_asymmetric(queue)
                || symmetry.busy() == 1
        }
    }
}

/// How long the device waits for the next request of a queue (BFQ-91).
#[inline]
pub(super) fn period(
    slice_idle: Nanos,
    home: &Queue,
    is_asymmetric: impl FnOnce() -> bool,
) -> Nanos {
    if home.raising.is_raised() {
        slice_idle.max(RAISED)
    } else if home.pattern.is_seeky() && !is_asymmetric() {
        slice_idle.min(SHORT)
    } else {
        slice_idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfq::weight_raising::Kind;
    use paternoster_core::observe::seek::SeekHistory;

    /// Does idling pay on a disk without a queue for each queue, with one for those that read on,
    /// as on flash without; and on flash with a queue for none?
    #[test]
    fn where_idling_pays() {
        let mut pattern = Pattern::new(Nanos::ZERO, true);
        pattern.seek = SeekHistory::default();
        for reads_on in [true, false] {
            pattern.thinks_short = reads_on;
            let pays = |rotational, queues| for_throughput(&pattern, rotational, queues);
            assert_eq!([pays(true, false), pays(true, true)], [true, reads_on]);
            assert_eq!([pays(false, false), pays(false, true)], [reads_on, false]);
        }
    }

    /// Is a seeky queue waited for 2 ms where all weigh the same, and a raised one 20 ms?
    #[test]
    fn how_long_it_waits() {
        let (slice, ms) = (Nanos::from_millis(8), Nanos::from_millis);
        let mut home = Queue { pattern: Pattern::new(Nanos::ZERO, true), ..Queue::default() };
        for place in 0..32 {
            home.pattern.seek.sample_far(true, place * 100_000, 8);
        }
        assert_eq!([false, true].map(|uneven| period(slice, &home, || uneven)), [ms(2), ms(8)]);
        home.pattern.seek = SeekHistory::default();
        assert_eq!(period(slice, &home, || false), ms(8));
        home.raising.kind = Kind::Interactive;
        assert_eq!(period(slice, &home, || false), ms(20));
    }

    /// In 6.18, is the only busy queue waited for, and a queue that no process uses not; and does a
    /// raised queue suffer from four requests of others?
    #[test]
    fn what_shares_depend_on() {
        let mut symmetry = Symmetry::new(2, 1, Guarantees::TwoGroups);
        let mut home = Queue { refs: 1, in_flight: 1, ..Queue::default() };
        let asks = |symmetry: &Symmetry, home: &Queue, in_driver| {
            for_guarantees(Guarantees::TwoGroups, symmetry, 0, home, in_driver)
        };
        symmetry.join(1, true);
        assert!(asks(&symmetry, &home, 1));
        assert!(!asks(&symmetry, &Queue { refs: 0, ..home.clone() }, 1));
        symmetry.join(1, true);
        assert!(!asks(&symmetry, &home, 1));
        home.raising.kind = Kind::Interactive;
        assert_eq!([4, 5].map(|in_driver| asks(&symmetry, &home, in_driver)), [false, true]);
    }
}
