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
//! but which client they belong to does not follow weights. The later version instead measures what
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

use alloc::vec::Vec;

use crate::bfq::queue::Queue;
use crate::bfq::queues::Queues;
use crate::bfq::schedule::Schedule;
use crate::bfq::waker::Wakers;
use paternoster_core::QueueView;
use paternoster_core::RequestId;
use paternoster_core::time::Nanos;

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

    /// A request took this long, with or without others that were injected, and alone in the device
    /// at its end or not (BFQ-164).
    fn learn(&mut self, now: Nanos, took: Nanos, injected: bool, alone: bool, most_seen: u32) {
        if self.base > Nanos::ZERO && injected {
            let threshold = self.base + Nanos(self.base.0 / 2);
            if took >= threshold && self.most > 0 {
                self.most -= 1;
                self.lowered = now;
            } else if took < threshold && self.most <= most_seen {
                self.most += 1;
            }
        }
        if self.base == Nanos::ZERO && alone {
            self.most = self.most.max(1);
            self.base = took;
        } else if took < self.base || (!injected && alone) {
            self.base = took;
        }
    }
}

/// The measurement in progress.
#[derive(Debug, Clone, Copy, Default)]
struct Measuring {
    /// The next request of the queue in service is the one to measure.
    waits_for_dispatch: bool,
    /// The measured request, while it is in flight.
    waited: Option<RequestId>,
    since: Nanos,
    /// Whether other requests were injected meanwhile.
    injected: bool,
}

/// What others may do in a queue's time, and what it costs.
#[derive(Debug)]
pub(super) struct Injection {
    /// The limit of each queue.
    limits: Vec<Limit>,
    measuring: Measuring,
    /// Sectors of others that were served in this turn (seed 002).
    sectors: u64,
}

impl Injection {
    pub(super) fn with_capacity(queues: u32) -> Injection {
        let limits = (0..queues).map(|_| Limit::default()).collect();
        Injection { limits, measuring: Measuring::default(), sectors: 0 }
    }

    /// A word of its cache line (`prefetch`).
    #[inline]
    pub(super) fn touch(&self, queue: u32) -> u64 {
        self.limits[queue as usize].lowered.0
    }

    /// How much others may do in a queue's time, as far as known.
    pub(super) fn limit(&self, queue: u32) -> Limit {
        self.limits[queue as usize]
    }

    /// The same, mutable: for a new queue, or one that resumes its saved state.
    pub(super) fn limit_mut(&mut self, queue: u32) -> &mut Limit {
        &mut self.limits[queue as usize]
    }

    /// Seed 002: whether others may be served, given what the queue was served itself (BFQ-151).
    fn has_room(&self, own: u64) -> bool {
        self.sectors.saturating_mul(COEFFICIENT) < own.saturating_mul(TENTHS)
    }

    /// Seed 002: the queue to serve from while `served` is kept (BFQ-150 to BFQ-154).
    pub(super) fn by_coefficient(
        &self,
        view: &QueueView,
        queues: &Queues,
        schedule: &Schedule,
        served: u32,
    ) -> Option<u32> {
        let home = queues.at(served);
        let injectable = home.pattern.is_seeky() && !home.raising.is_raised();
        if !injectable || !self.has_room(schedule.entities[served as usize].service) {
            return None;
        }
        schedule.waiting_queues().find(|&queue| schedule.fits(view, queue, queues.at(queue)))
    }

    /// With fewer requests in the device than the limit of `served`: the first queue whose next
    /// request fits. `idled_long`: the device has been idle for it for a whole slice (BFQ-161).
    #[inline]
    pub(super) fn within_limit(
        &mut self,
        view: &QueueView,
        queues: &Queues,
        schedule: &Schedule,
        served: u32,
        in_driver: u32,
        idled_long: bool,
    ) -> Option<u32> {
        let home = queues.at(served);
        if in_driver >= self.limit_now(served, home.wait_request && idled_long) {
            return None;
        }
        let raised_only = home.raising.is_raised() && home.pattern.thinks_short;
        let one_large = !view.facts().rotational && in_driver >= 1;
        let source = schedule.waiting_queues().find(|&queue| {
            let other = queues.at(queue);
            let Some(next) = other.next else { return false };
            let large = one_large && view.request(next).sectors() >= LARGE;
            !large
                && (!raised_only || other.raising.is_raised())
                && schedule.fits(view, queue, other)
        });
        self.measuring.injected |= source.is_some();
        source
    }

    /// Its limit; 1 if nothing is known of a queue that is idled for without success (BFQ-162).
    ///
    /// Differs: Linux adds nanoseconds to ticks here, so that it practically never happens.
    fn limit_now(&self, served: u32, idled_in_vain: bool) -> u32 {
        let limit = self.limit(served);
        let unknown = limit.most == 0 && limit.base == Nanos::ZERO;
        if unknown && idled_in_vain { 1 } else { limit.most }
    }

    /// A request comes to a sync queue whose process has no other (BFQ-163, BFQ-165).
    #[inline]
    pub(super) fn begin_measuring(
        &mut self,
        view: &QueueView,
        queue: u32,
        is_served: bool,
        thinks_short: bool,
        in_driver: u32,
    ) {
        let (now, hz) = (view.now(), view.hz());
        if now >= self.limit(queue).lowered + hz.ceil(RESET) {
            self.reset_limit(now, queue, thinks_short);
        }
        let limit = self.limit(queue);
        let alone = in_driver == 0;
        let beside = limit.base > Nanos::ZERO && self.measuring.injected && !alone;
        let rested = now >= limit.lowered + hz.ceil(PAUSE);
        if is_served && (alone || beside) && rested {
            self.measuring.since = view.exact_now();
            self.measuring.waits_for_dispatch = true;
            self.measuring.injected &= !alone;
        }
    }

    fn reset_limit(&mut self, now: Nanos, queue: u32, thinks_short: bool) {
        let most = u32::from(!thinks_short);
        *self.limit_mut(queue) = Limit { base: Nanos::ZERO, most, lowered: now };
    }

    /// The think time of a queue has become short or long (BFQ-165).
    pub(super) fn think_time_flips(&mut self, view: &QueueView, queue: u32, short: bool) {
        let limit = self.limit(queue);
        let passed = view.now() >= limit.lowered + view.hz().ceil(BARRIER);
        if limit.base == Nanos::ZERO && (passed || !short) {
            self.reset_limit(view.now(), queue, short);
        }
    }

    /// A request of the queue in service goes to the device.
    #[inline]
    pub(super) fn dispatched(&mut self, request: RequestId) {
        if core::mem::take(&mut self.measuring.waits_for_dispatch) {
            self.measuring.waited = Some(request);
        }
    }

    /// A request of another queue goes instead.
    pub(super) const fn injected(&mut self, sectors: u64) {
        self.sectors += sectors;
    }

    /// A request has ended, the last of `in_driver`; if it is the measured one, its queue's limit
    /// learns (BFQ-164). The device was seen to have `most_seen` at once.
    #[inline]
    pub(super) fn completed(
        &mut self,
        view: &QueueView,
        queue: u32,
        request: RequestId,
        in_driver: u32,
        most_seen: u32,
    ) {
        if self.measuring.waited == Some(request) {
            let took = view.exact_now() - self.measuring.since;
            let injected = self.measuring.injected;
            self.limits[queue as usize].learn(
                view.now(),
                took,
                injected,
                in_driver == 1,
                most_seen,
            );
            self.measuring = Measuring::default();
        }
    }

    /// The turn ends, and with it the measurement.
    #[inline]
    pub(super) fn turn_ends(&mut self) {
        self.measuring = Measuring::default();
        self.sectors = 0;
    }

    /// Sectors of others that were served in this turn.
    #[cfg(test)]
    pub(super) const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// As if so many had been.
    #[cfg(test)]
    pub(super) const fn set_sectors(&mut self, sectors: u64) {
        self.sectors = sectors;
    }
}

/// The queue that `served` waits for, injected whatever the limit is: `writes`, the async queue of
/// its process, if the process waits for that write; its waker; or a queue that it wakes (BFQ-160).
pub(super) fn related(
    view: &QueueView,
    queues: &Queues,
    schedule: &Schedule,
    wakers: &Wakers,
    served: u32,
    writes: Option<u32>,
) -> Option<u32> {
    let is_ready = |&queue: &u32| {
        let home = queues.at(queue);
        home.is_busy && schedule.fits(view, queue, home)
    };
    let owner = queues.at(served).owner;
    let is_own = |&queue: &u32| {
        let next = queues.at(queue).next;
        next.is_some_and(|next| Some(view.request(next).client()) == owner)
    };
    writes
        .filter(is_own)
        .filter(is_ready)
        .or_else(|| wakers.waker_of(served).filter(is_ready))
        .or_else(|| wakers.woken_by(served).filter(is_ready))
}

/// Whether anything may be injected in the time of a queue (BFQ-160): not for one that is raised
/// and thinks short while no other is.
pub(super) fn is_tolerant(home: &Queue, raised: u32) -> bool {
    !home.raising.is_raised() || raised > 1 || !home.pattern.thinks_short
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a time that was measured alone taken as the base; and of one measured with others in the
    /// device, is the limit lowered if it is half as long again or more, and otherwise raised, up
    /// to what the device has been seen to have?
    #[test]
    fn what_a_measured_request_teaches() {
        let us = Nanos::from_micros;
        let learned = |base, most, took, alone: bool, most_seen| {
            let mut limit = Limit { base: us(base), most, lowered: Nanos::ZERO };
            limit.learn(us(9), us(took), !alone, alone, most_seen);
            (limit.base.as_micros(), limit.most, limit.lowered == us(9))
        };
        assert_eq!(learned(0, 0, 100, true, 1), (100, 1, false));
        assert_eq!(learned(100, 3, 130, true, 1), (130, 3, false));
        assert_eq!(learned(100, 4, 150, false, 8), (100, 3, true));
        assert_eq!(learned(100, 4, 149, false, 4), (100, 5, false));
        assert_eq!(learned(100, 4, 149, false, 3), (100, 4, false));
        assert_eq!(learned(100, 4, 90, false, 4), (90, 5, false), "faster than alone");
    }

    /// Is one request injected for a queue of which nothing is known after a slice that was idled
    /// for in vain, and is all that was learned forgotten one second after a decrease?
    #[test]
    fn limits_that_are_not_known() {
        let mut injection = Injection::with_capacity(1);
        assert_eq!([false, true].map(|vain| injection.limit_now(0, vain)), [0, 1]);
        *injection.limit_mut(0) = Limit { base: Nanos(1), most: 0, lowered: Nanos::ZERO };
        assert_eq!(injection.limit_now(0, true), 0);
        injection.reset_limit(Nanos(7), 0, false);
        let Limit { base, most, lowered } = injection.limit(0);
        assert_eq!((base, most, lowered), (Nanos::ZERO, 1, Nanos(7)));
    }

    /// Seed 002: may others be served up to ten sectors for each of its own, and what was served in
    /// an earlier turn is forgotten?
    #[test]
    fn ten_sectors_for_each_of_its_own() {
        let mut injection = Injection::with_capacity(1);
        injection.injected(79);
        assert!(injection.has_room(8));
        injection.injected(1);
        assert!(!injection.has_room(8));
        injection.turn_ends();
        assert!(injection.has_room(1) && !injection.has_room(0));
    }
}
