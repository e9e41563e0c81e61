// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device: what is known about the device, and about the requests in it.
//!
//! ```text
//! dispatched ── started ── in the driver ── ended
//! └──────────────── in flight ────────────────┘
//! ```
//!
//! Whether the device queues commands is declared, or is learned from how many requests it has at a
//! time: a device is taken to queue them until the contrary is known. Requests in flight are
//! counted by the kind of their queue, because async requests wait for sync ones; how many of them
//! may go depends on the time since a sync request was last late.
//!
//! # Invariants
//! I1  `in_flight` counts dispatched requests by the kind of their queue, `in_driver` those of them
//!     in the device.
//! I2  `flying_sync` counts sync queues with requests in flight.
//!
//! Source: CFQ-20 to CFQ-23; the probe of the depth as in 2.6.34.

use crate::cfq::queue::Queue;
use crate::cfq::slice::signed;
use paternoster_core::observe::queue_depth::{Probing, QueueDepth};
use paternoster_core::pick::home::{is_in_flight, set_in_flight};
use paternoster_core::time::Nanos;
use paternoster_core::{Ncq, QueueView, RequestId};

/// With more than this many requests waiting or in flight, the device's depth can be probed.
const LOAD: u32 = 5;
/// A queue that is idled for and has fewer requests than this keeps the device's depth from being
/// seen.
const STARVED: u32 = 5;
/// How long ago a sync request counts as late before any was.
const LATE_AT_FIRST: Nanos = Nanos::from_millis(1000);

/// What is known of the device.
#[derive(Debug, Default)]
pub(super) struct Device {
    /// Dispatched but not ended, by the kind of their queue: async, sync.
    in_flight: [u32; 2],
    /// Sync queues with requests in flight.
    flying_sync: u32,
    /// The requests in flight that the device has.
    in_driver: u32,
    /// The sector after the last request sent to it.
    last_position: u64,
    /// When a sync request last took too long; in nanoseconds, possibly before time zero.
    late_at: i64,
    depth: QueueDepth,
    /// The elevator's epoch, taken from its first request: of the requests in the device, only
    /// those with this epoch are its own.
    epoch: Option<u32>,
}

impl Device {
    /// A device that nothing is known of at `now`.
    pub(super) fn new(now: Nanos) -> Device {
        Device { late_at: signed(now) - signed(LATE_AT_FIRST), ..Device::default() }
    }

    /// The elevator's requests are those of this epoch.
    #[inline]
    pub(super) const fn bind(&mut self, epoch: u32) {
        self.epoch = Some(epoch);
    }

    pub(super) fn is_of_epoch(&self, view: &QueueView, request: RequestId) -> bool {
        Some(view.request(request).epoch()) == self.epoch
    }

    /// Whether a request in the device is this elevator's.
    #[inline]
    pub(super) fn is_own(&self, view: &QueueView, request: RequestId) -> bool {
        self.is_of_epoch(view, request) && is_in_flight(view, request)
    }

    /// The device has a request.
    #[inline]
    pub(super) fn started(&mut self, view: &QueueView, request: RequestId) {
        self.in_driver += 1;
        self.last_position = view.request(request).end();
    }

    /// The device has given a request back.
    pub(super) const fn requeued(&mut self) {
        self.in_driver -= 1;
    }

    /// The device has ended a request while this many waited and this queue was active.
    #[inline]
    pub(super) fn ended(&mut self, waiting: u32, active: Option<&Queue>) {
        let starved = active
            .is_some_and(|home| home.idle_window && home.dispatched + home.lane.len() < STARVED);
        let loaded = waiting.max(self.in_driver) > LOAD;
        let counts = loaded && !(starved && self.in_driver < Probing::CFQ.queueing);
        self.depth.sample(&Probing::CFQ, self.in_driver, counts);
        self.in_driver -= 1;
    }

    /// A request of a queue goes in flight, or ends. Returns by how much the number of those in
    /// flight changes.
    #[inline]
    pub(super) fn count(
        &mut self,
        view: &mut QueueView,
        home: &mut Queue,
        request: RequestId,
        flies: bool,
    ) -> i32 {
        set_in_flight(view, request, flies);
        let by = if flies { 1 } else { -1 };
        if home.is_sync && home.dispatched == u32::from(!flies) {
            self.flying_sync = self.flying_sync.wrapping_add_signed(by);
        }
        for count in [&mut home.dispatched, &mut self.in_flight[usize::from(home.is_sync)]] {
            *count = count.wrapping_add_signed(by);
        }
        by
    }

    /// A sync request took too long.
    pub(super) fn was_late(&mut self, now: Nanos) {
        self.late_at = signed(now);
    }

    /// The time since that last happened.
    pub(super) fn since_late(&self, now: Nanos) -> Nanos {
        Nanos(u64::try_from(signed(now).saturating_sub(self.late_at)).unwrap_or(0))
    }

    /// Requests in flight of async queues, of sync ones.
    #[inline]
    pub(super) const fn in_flight(&self) -> [u32; 2] {
        self.in_flight
    }

    /// Sync queues with requests in flight.
    #[inline]
    pub(super) const fn flying_sync(&self) -> u32 {
        self.flying_sync
    }

    /// Requests that the device has.
    #[cfg(feature = "conformance")]
    pub(super) const fn in_driver(&self) -> u32 {
        self.in_driver
    }

    /// The sector after the last request sent to it.
    #[inline]
    pub(super) const fn last_position(&self) -> u64 {
        self.last_position
    }

    /// Whether it queues commands; `None` if that is not known.
    #[inline]
    pub(super) fn queues_commands(&self, view: &QueueView) -> Option<bool> {
        match view.ncq() {
            Ncq::Declared => Some(view.facts().depth > 1),
            Ncq::Probe => self.depth.queues(),
        }
    }

    /// Whether it is taken to queue commands: yes until the contrary is known.
    #[inline]
    pub(super) fn may_queue_commands(&self, view: &QueueView) -> bool {
        self.queues_commands(view) != Some(false)
    }

    /// Where seeks cost nothing and commands are queued, idling gains nothing.
    #[inline]
    pub(super) fn is_queueing_flash(&self, view: &QueueView) -> bool {
        !view.facts().rotational && self.may_queue_commands(view)
    }

    /// The most requests that it takes at a time, as far as known.
    pub(super) fn estimated_depth(&self, view: &QueueView) -> u32 {
        match view.ncq() {
            Ncq::Declared => view.facts().depth,
            Ncq::Probe => self.depth.most(),
        }
    }

    /// What was learned about its depth.
    #[cfg(feature = "conformance")]
    pub(super) const fn depth_mut(&mut self) -> &mut QueueDepth {
        &mut self.depth
    }

    /// The same, to look at.
    #[cfg(feature = "conformance")]
    pub(super) const fn depth(&self) -> &QueueDepth {
        &self.depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{Bio, ClientSpec, Limits, Op};

    /// Are requests in flight counted by the kind of their queue, and a sync queue once while it
    /// has any?
    #[test]
    fn what_flies_is_counted_by_kind() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let client = view.add_client(ClientSpec::new());
        let mut ids = [0, 8, 16]
            .map(|sector| view.add_request(&Bio::new(client, Op::Read, sector, 8), Nanos::ZERO));
        let mut device = Device::new(Nanos::ZERO);
        let mut queues = [true, false].map(|is_sync| Queue { is_sync, ..Queue::default() });
        for (place, &id) in ids.iter().enumerate() {
            assert_eq!(device.count(&mut view, &mut queues[place / 2], id, true), 1);
        }
        assert_eq!((device.in_flight(), device.flying_sync()), ([1, 2], 1));
        ids[..2].reverse();
        for (id, left) in ids[..2].iter().zip([1, 0]) {
            assert_eq!(device.count(&mut view, &mut queues[0], *id, false), -1);
            assert_eq!((queues[0].dispatched, device.flying_sync()), (left, left));
        }
        assert_eq!(device.in_flight(), [1, 0]);
    }

    /// Was a sync request last late a second before anything is known, and is the time counted
    /// afresh when one is?
    #[test]
    fn the_time_since_one_was_late() {
        let ms = Nanos::from_millis;
        let mut device = Device::new(ms(50));
        assert_eq!([50, 250].map(|at| device.since_late(ms(at))), [ms(1000), ms(1200)]);
        device.was_late(ms(300));
        assert_eq!([300, 310].map(|at| device.since_late(ms(at))), [ms(0), ms(10)]);
    }

    /// Is a device that has had six requests at a time taken to queue commands, and one that has
    /// had three not to, unless the active queue kept it from having more?
    #[test]
    fn a_starved_queue_hides_the_depth() {
        let view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let idled_for = Queue { idle_window: true, ..Queue::default() };
        for (active, in_driver, queues) in [
            (None, 6, Some(true)),
            (Some(&idled_for), 6, Some(true)),
            (None, 3, Some(false)),
            (Some(&idled_for), 3, None),
        ] {
            let mut device = Device::default();
            for _ in 0..=Probing::CFQ.samples {
                device.in_driver = in_driver;
                device.ended(6, active);
            }
            assert_eq!(device.depth.queues(), queues, "{in_driver}");
        }
        assert!(Device::default().may_queue_commands(&view));
    }
}
