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

use crate::bfq::Bfq;
use crate::bfq::version::Guarantees;
use paternoster_core::event::Note;
use paternoster_core::time::Nanos;
use paternoster_core::{Class, QueueView};

/// For a seeky queue.
const SHORT: Nanos = Nanos::from_millis(2);
/// For a raised queue, at least.
const RAISED: Nanos = Nanos::from_millis(20);
/// With this many requests of others in the device a raised queue suffers.
const CROWD: u32 = 4;

impl Bfq {
    /// Queues with work, or kept in service without.
    pub(super) const fn busy(&self) -> u32 {
        self.busy[0] + self.busy[1] + self.busy[2]
    }

    pub(super) fn is_idle_class(&self, queue: u32) -> bool {
        self.schedule.entities[queue as usize].class == Class::Idle as u8
    }

    /// Whether the device is kept for `queue` while it is empty (BFQ-68, BFQ-69).
    pub(super) fn better_to_idle(&self, view: &QueueView, queue: u32) -> bool {
        let home = self.queues.at(queue);
        let orphaned = self.version.keeps_empty_preempted && home.processes() == 0;
        if orphaned {
            return false;
        }
        if self.tunables.strict_guarantees {
            return true;
        }
        if self.tunables.slice_idle == Nanos::ZERO || !home.is_sync || self.is_idle_class(queue) {
            return false;
        }
        self.idles_for_throughput(view, queue) || self.idles_for_guarantees(queue)
    }

    /// BFQ-70.
    pub(super) fn must_idle(&self, view: &QueueView, queue: u32) -> bool {
        self.queues.at(queue).is_empty() && self.better_to_idle(view, queue)
    }

    /// BFQ-71.
    pub(super) fn idles_for_throughput(&self, view: &QueueView, queue: u32) -> bool {
        if self.raised > 0 {
            return false;
        }
        let (rotational, queues) = (view.facts().rotational, self.queues_commands(view));
        let home = self.queues.at(queue);
        let reads_on = home.is_io_bound && home.thinks_short && !self.is_seeky(queue);
        (rotational && !queues) || ((rotational || !queues) && reads_on)
    }

    /// BFQ-72.
    pub(super) fn idles_for_guarantees(&self, queue: u32) -> bool {
        let home = self.queues.at(queue);
        let raised = home.raising.is_raised();
        match self.version.guarantees {
            Guarantees::AnyGroup => {
                let among_others = raised && self.raised < self.busy();
                (among_others || self.is_asymmetric(queue)) && !home.in_large_burst
            }
            Guarantees::TwoGroups => {
                if home.processes() == 0 {
                    return false;
                }
                let crowded = self.in_driver >= home.in_flight + CROWD;
                (raised && (self.raised < self.busy() || crowded))
                    || self.is_asymmetric(queue)
                    || self.busy() == 1
            }
        }
    }

    /// Whether serving queues side by side would give `queue` less than its share (BFQ-73, BFQ-74).
    pub(super) fn is_asymmetric(&self, queue: u32) -> bool {
        match self.version.guarantees {
            Guarantees::AnyGroup => self.schedule.weights.differ() || self.pending_groups > 0,
            Guarantees::TwoGroups => {
                let weights = &self.schedule.weights;
                let classes = self.busy.iter().filter(|&&busy| busy > 0).count();
                (weights.differ() && !weights.is_least(queue))
                    || classes >= 2
                    || self.pending_groups >= 2
            }
        }
    }

    /// The device waits for the next request of the queue in service (BFQ-91).
    pub(super) fn arm_idle_timer(&mut self, view: &mut QueueView, queue: u32) {
        let now = view.exact_now();
        let seeky = self.is_seeky(queue);
        let home = self.queues.at(queue);
        let slice_idle = self.tunables.slice_idle;
        let period = if home.raising.is_raised() {
            slice_idle.max(RAISED)
        } else if seeky && !self.is_asymmetric(queue) {
            slice_idle.min(SHORT)
        } else {
            slice_idle
        };
        self.idling_since = now;
        self.queues.at_mut(queue).wait_request = true;
        let until = now + period;
        self.idle_until = Some(until);
        self.set_timer(view);
        if let Some(client) = self.queues.at(queue).made_for {
            view.note(Note::Idling { client, until });
        }
    }

    /// The device stops waiting.
    pub(super) fn stop_idling(&mut self, view: &mut QueueView, queue: u32) {
        self.queues.at_mut(queue).wait_request = false;
        self.idle_until = None;
        self.set_timer(view);
    }
}
