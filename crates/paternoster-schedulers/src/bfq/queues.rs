// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues: which request of a queue follows, and queues that make room for others.
//!
//! How a queue holds its requests is in `queue_table.rs`: by sector and by age. When the next one
//! leaves, the nearest follows or, once in each turn, the oldest if it has expired.
//!
//! Source: BFQ-37 to BFQ-40.

use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::queue::Queue;
use crate::bfq::schedule::Schedule;
use crate::queue_table::{QueueTable, Queued};
use paternoster_core::QueueView;
use paternoster_core::RequestId;
use paternoster_core::pick::back_seek::BackSeek;
use paternoster_core::pick::lane::Lane;
use paternoster_core::time::Nanos;

impl Queued for Queue {
    #[inline]
    fn lane(&mut self) -> &mut Lane {
        &mut self.lane
    }

    #[inline]
    fn next(&mut self) -> &mut Option<RequestId> {
        &mut self.next
    }
}

/// Queues by number, and their requests.
pub(super) type Queues = QueueTable<Queue>;

impl Queues {
    /// Requests of the queue in service, waiting and in flight, if it thinks short: the device may
    /// be kept empty for it.
    #[inline]
    pub(super) fn of_starved(&self, served: Option<u32>) -> Option<u32> {
        let home = self.at(served?);
        home.pattern.thinks_short.then(|| home.requests())
    }

    /// A new queue that nothing refers to yet, if there is room: the queue that departed first
    /// gives way.
    pub(super) fn add(&mut self, schedule: &mut Schedule, queue: Queue) -> Option<u32> {
        if self.is_full() {
            schedule.forget_oldest();
        }
        while let Some(gone) = schedule.next_gone() {
            self.free(gone);
        }
        self.put(queue)
    }

    /// The request that comes next when `request` leaves (BFQ-39).
    #[inline]
    pub(super) fn following(
        &mut self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
        order: &BackSeek,
    ) -> Option<RequestId> {
        let (home, lanes) = self.with_lanes(queue);
        if !core::mem::replace(&mut home.fifo_looked, true) {
            let oldest = home.lane.oldest().filter(|&oldest| oldest != request);
            let deadline = home.lane.deadline(view).unwrap_or(Nanos::MAX);
            if oldest.is_some() && view.exact_now() >= deadline {
                probe(Some(queue), ProbePoint::Aged);
                return oldest;
            }
        }
        home.lane.nearest_neighbour(lanes, view, order, request)
    }
}
