// SPDX-License-Identifier: MIT OR Apache-2.0
//! Service: the queue that has the device, and since when.
//!
//! ```text
//! began ── requests ── empty: idling since ── the next request, or the timer ── ends
//! ```
//!
//! Source: BFQ-41, BFQ-64, BFQ-124.

use paternoster_core::time::Nanos;

/// The queue in service.
#[derive(Debug, Default)]
pub(super) struct Service {
    queue: Option<u32>,
    /// When its turn began.
    began: Nanos,
    /// When the device began to idle for it.
    idling_since: Nanos,
    /// The sector after its last request sent to the device.
    position: u64,
}

impl Service {
    #[inline]
    pub(super) const fn queue(&self) -> Option<u32> {
        self.queue
    }

    /// Whether this is the queue in service.
    #[inline]
    pub(super) fn is(&self, queue: u32) -> bool {
        self.queue == Some(queue)
    }

    /// The queue in service, if it is another.
    #[inline]
    pub(super) fn other_than(&self, queue: u32) -> Option<u32> {
        self.queue.filter(|&served| served != queue)
    }

    /// A turn begins.
    #[inline]
    pub(super) const fn begins(&mut self, queue: u32, now: Nanos) {
        self.queue = Some(queue);
        self.began = now;
        self.position = 0;
    }

    /// The turn ends.
    #[inline]
    pub(super) const fn ends(&mut self) {
        self.queue = None;
    }

    /// The device begins to idle for it.
    #[inline]
    pub(super) const fn idles(&mut self, now: Nanos) {
        self.idling_since = now;
    }

    /// Whether the device has idled for this long at `now`.
    #[inline]
    pub(super) fn has_idled(&self, now: Nanos, slice_idle: Nanos) -> bool {
        now > self.idling_since + slice_idle
    }

    /// How long the turn lasts at `now`; `idled`: only until the device began to idle.
    #[inline]
    pub(super) fn lasted(&self, now: Nanos, idled: bool) -> Nanos {
        let end = if idled { self.idling_since } else { now };
        end - self.began
    }

    /// A request that ends at `position` is sent for `queue`.
    #[inline]
    pub(super) fn sent(&mut self, queue: u32, position: u64) {
        if self.is(queue) {
            self.position = position;
        }
    }

    /// How far a sector is from where the queue in service is.
    pub(super) const fn distance(&self, sector: u64) -> u64 {
        sector.abs_diff(self.position)
    }

    /// When its turn began, and where it is.
    #[cfg(test)]
    pub(super) const fn seen(&self) -> (Nanos, u64) {
        (self.began, self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a turn last until now, or until the device began to idle?
    #[test]
    fn a_turn_lasts_until_it_idles() {
        let ms = Nanos::from_millis;
        let mut service = Service::default();
        service.begins(3, ms(10));
        service.idles(ms(14));
        assert_eq!([false, true].map(|idled| service.lasted(ms(22), idled)), [ms(12), ms(4)]);
        assert_eq!([22, 23].map(|at| service.has_idled(ms(at), ms(8))), [false, true]);
    }

    /// Do only requests of the queue in service move its position, and does a turn begin at none?
    #[test]
    fn only_its_own_requests_move_it() {
        let mut service = Service::default();
        service.begins(3, Nanos::ZERO);
        service.sent(3, 100);
        service.sent(4, 9000);
        assert_eq!((service.distance(90), service.distance(120)), (10, 20));
        assert_eq!((service.other_than(3), service.other_than(4)), (None, Some(3)));
        service.ends();
        assert!(!service.is(3) && service.queue().is_none());
        service.begins(4, Nanos::ZERO);
        assert_eq!(service.distance(120), 120);
    }
}
