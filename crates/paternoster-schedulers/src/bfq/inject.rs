// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inject: serving others while the device is kept for an empty queue.
//!
//! Keeping the device for a queue guarantees its share, but empties a device that could do many
//! things at once. Seed 002 gives part of that back: a seeky queue on flash tolerates ten sectors
//! of others for each of its own,
//!
//! ```text
//! own service 8 sectors (1 request)  ->  injected while 1 * injected < 10 * 8
//! ```
//!
//! but whose requests they are does not follow weights. The later version instead measures what
//! others cost: how long the queue's own request takes with nothing else in the device (`base`),
//! and how many requests in the device make that half as long again:
//!
//! ```text
//! own request alone 100 us; with 3 others 120 us: limit 4; with 4 others 160 us: limit 3
//! ```
//!
//! # Invariants
//! I1  Injected service is charged to the queue whose requests are injected.
//! I2  `waited` is a request in flight of the queue in service.
//!
//! Source: BFQ-150 to BFQ-159, BFQ-160 to BFQ-166; seed 002.

use crate::bfq::Bfq;
use crate::bfq::tunables::Inject;
use paternoster_core::event::Note;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

/// In tenths: own sectors per sector of others (seed 002).
const COEFFICIENT: u64 = 1;
const TENTHS: u64 = 10;
/// After this long without a decrease everything is measured again.
const RESET: Nanos = Nanos::from_millis(1000);
/// Between a decrease and the next measurement.
const PAUSE: Nanos = Nanos::from_millis(10);
/// Between a decrease and a reset caused by another think time.
const BARRIER: Nanos = Nanos::from_millis(100);
/// On flash, only one request this large at a time, in sectors.
const LARGE: u32 = 64;

/// How much others may do in a queue's time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limit {
    /// The time its own request takes with nothing else in the device; zero while not known.
    pub(super) base: Nanos,
    /// Up to this many requests in the device, others may join.
    pub(super) most: u32,
    /// When it was last lowered.
    lowered: Nanos,
}

impl Limit {
    pub(super) fn new(now: Nanos) -> Limit {
        Limit { lowered: now, ..Limit::default() }
    }
}

/// The measurement in progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measuring {
    /// The next request of the queue in service is the one to measure.
    waits_for_dispatch: bool,
    /// It is in flight.
    waited: Option<RequestId>,
    since: Nanos,
    /// Others were served meanwhile.
    injected: bool,
}

impl Bfq {
    /// The queue to serve from while `served`, in service, is kept though empty.
    pub(super) fn queue_to_inject(&mut self, view: &mut QueueView, served: u32) -> Option<u32> {
        let source = match self.tunables.inject {
            Inject::Off => None,
            Inject::Coefficient => self.source_by_coefficient(view, served),
            Inject::Measured => self.source_by_measure(view, served),
        }?;
        let names = (self.queues.at(source).made_for, self.queues.at(served).made_for);
        if let (Some(client), Some(into)) = names {
            view.note(Note::Injected { client, into });
        }
        Some(source)
    }

    /// Seed 002 (BFQ-150 to BFQ-154).
    fn source_by_coefficient(&self, view: &QueueView, served: u32) -> Option<u32> {
        let home = self.queues.at(served);
        let injectable =
            self.is_seeky(served) && !home.raising.is_raised() && self.is_queueing_flash(view);
        let own = self.schedule.entities[served as usize].service;
        let room = home.injected.saturating_mul(COEFFICIENT) < own.saturating_mul(TENTHS);
        if !injectable || !room {
            return None;
        }
        self.active_queues().find(|&queue| self.fits(view, queue))
    }

    /// Queues in active trees, the last activated first.
    fn active_queues(&self) -> impl Iterator<Item = u32> + '_ {
        self.schedule.active_queues.iter(&self.schedule.active_links)
    }

    /// BFQ-160: the queue that `served` waits for comes first, whatever the limit.
    fn source_by_measure(&mut self, view: &QueueView, served: u32) -> Option<u32> {
        let of_waker = || {
            let waker = self.queues.at(served).waiting.waker?;
            self.is_ready(view, waker).then_some(waker)
        };
        let of_woken = || {
            let woken = self.queues.at(served).woken.first()?;
            self.is_ready(view, woken).then_some(woken)
        };
        let related = self.own_async(view, served).or_else(of_waker).or_else(of_woken);
        if related.is_some() {
            return related;
        }
        let home = self.queues.at(served);
        let tolerant = !home.raising.is_raised() || self.raised > 1 || !home.thinks_short;
        if self.idles_for_throughput(view, served) || !tolerant {
            return None;
        }
        self.source_within_limit(view, served)
    }

    fn is_ready(&self, view: &QueueView, queue: u32) -> bool {
        self.queues.at(queue).is_busy && self.fits(view, queue)
    }

    /// The process's own writes.
    fn own_async(&self, view: &QueueView, served: u32) -> Option<u32> {
        let owner = self.queues.at(served).owner?;
        let queue = self.contexts[owner.index() as usize].slots[0]?;
        let next = self.queues.at(queue).next?;
        let own = view.request(next).client() == owner;
        (own && self.is_ready(view, queue)).then_some(queue)
    }

    /// BFQ-161.
    fn source_within_limit(&mut self, view: &QueueView, served: u32) -> Option<u32> {
        let home = self.queues.at(served);
        if self.in_driver >= self.limit_of(view, served) {
            return None;
        }
        let raised_only = home.raising.is_raised() && home.thinks_short;
        let one_large = !view.facts().rotational && self.in_driver >= 1;
        let source = self.active_queues().find(|&queue| {
            let other = self.queues.at(queue);
            let Some(next) = other.next else { return false };
            let large = one_large && view.request(next).sectors() >= LARGE;
            !large && (!raised_only || other.raising.is_raised()) && self.fits(view, queue)
        });
        self.measuring.injected |= source.is_some();
        source
    }

    /// Its limit; 1 if nothing is known of a queue that is idled for without success (BFQ-162).
    ///
    /// Differs: Linux adds nanoseconds to ticks here, so that it practically never happens.
    fn limit_of(&self, view: &QueueView, served: u32) -> u32 {
        let home = self.queues.at(served);
        let unknown = home.limit.most == 0 && home.limit.base == Nanos::ZERO;
        let long = view.exact_now() > self.idling_since + self.tunables.slice_idle;
        if unknown && home.wait_request && long { 1 } else { home.limit.most }
    }

    /// A request comes to a sync queue whose process has no other (BFQ-163, BFQ-165).
    pub(super) fn begin_measuring(&mut self, view: &QueueView, queue: u32) {
        let (now, hz) = (view.now(), view.hz());
        let lowered = self.queues.at(queue).limit.lowered;
        if now >= lowered + hz.ceil(RESET) {
            self.reset_limit(view, queue);
        }
        let limit = self.queues.at(queue).limit;
        let alone = self.in_driver == 0;
        let beside = limit.base > Nanos::ZERO && self.measuring.injected && !alone;
        let rested = now >= limit.lowered + hz.ceil(PAUSE);
        if self.in_service == Some(queue) && (alone || beside) && rested {
            self.measuring.since = view.exact_now();
            self.measuring.waits_for_dispatch = true;
            self.measuring.injected &= !alone;
        }
    }

    fn reset_limit(&mut self, view: &QueueView, queue: u32) {
        let home = self.queues.at_mut(queue);
        let most = u32::from(!home.thinks_short);
        home.limit = Limit { base: Nanos::ZERO, most, lowered: view.now() };
    }

    /// The think time of a queue has become short or long (BFQ-165).
    pub(super) fn reset_limit_on_flip(&mut self, view: &QueueView, queue: u32, short: bool) {
        let limit = self.queues.at(queue).limit;
        let passed = view.now() >= limit.lowered + view.hz().ceil(BARRIER);
        if limit.base == Nanos::ZERO && (passed || !short) {
            self.reset_limit(view, queue);
        }
    }

    /// A request of the queue in service goes to the device.
    pub(super) fn measure_dispatch(&mut self, request: RequestId) {
        if core::mem::take(&mut self.measuring.waits_for_dispatch) {
            self.measuring.waited = Some(request);
        }
    }

    /// A request has ended; if it is the measured one, its queue's limit learns (BFQ-164).
    pub(super) fn measure_completion(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        if self.measuring.waited != Some(request) {
            return;
        }
        let Measuring { since, injected, .. } = self.measuring;
        let took = view.exact_now() - since;
        let (alone, most_seen) = (self.in_driver == 1, self.depth.most());
        let limit = &mut self.queues.at_mut(queue).limit;
        if limit.base > Nanos::ZERO && injected {
            let threshold = limit.base + Nanos(limit.base.0 / 2);
            if took >= threshold && limit.most > 0 {
                limit.most -= 1;
                limit.lowered = view.now();
            } else if took < threshold && limit.most <= most_seen {
                limit.most += 1;
            }
        }
        if limit.base == Nanos::ZERO && alone {
            limit.most = limit.most.max(1);
            limit.base = took;
        } else if took < limit.base || (!injected && alone) {
            limit.base = took;
        }
        self.stop_measuring();
    }

    /// The turn ends, and with it the measurement.
    pub(super) fn stop_measuring(&mut self) {
        self.measuring = Measuring::default();
    }
}
