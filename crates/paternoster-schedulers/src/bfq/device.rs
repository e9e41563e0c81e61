// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device: what is known of it, from the requests that it has and had.
//!
//! How many requests it has, where the last one went, how fast it is at best ([`PeakRate`]), and
//! whether it queues commands: a drive that does so orders requests itself, and on flash that does,
//! seeks cost nothing.
//!
//! # Invariants
//! I1  `in_driver` counts the requests of this elevator between their dispatch and their end.
//!
//! Source: BFQ-75 to BFQ-83, BFQ-98.

use crate::bfq::rate::{self, Dispatched, PeakRate};
use paternoster_core::RequestId;
use paternoster_core::observe::queue_depth::{Probing, QueueDepth};
use paternoster_core::observe::seek::is_far;
use paternoster_core::pick::home::{is_in_flight, set_in_flight};
use paternoster_core::time::{Nanos, scale};
use paternoster_core::{Ncq, QueueView};

/// The device is not probed with fewer requests than this, waiting and in the driver.
const LOAD: u32 = 4;
/// How long an interactive period lasts at the reference rate.
const DURATIONS: [Nanos; 2] = [Nanos::from_millis(2500), Nanos::from_millis(7000)];
const SHORTEST: Nanos = Nanos::from_secs(3);
const LONGEST: Nanos = Nanos::from_secs(25);

/// What is known of the device.
#[derive(Debug)]
pub(super) struct Device {
    rate: PeakRate,
    depth: QueueDepth,
    probing: Probing,
    /// Requests that it has.
    in_driver: u32,
    /// The sector after the last request sent to it.
    last_position: u64,
    /// The elevator's epoch, taken from its first request: of the requests in the device, only
    /// those with this epoch are its own.
    epoch: Option<u32>,
}

impl Device {
    pub(super) fn new(rotational: bool, top_rate: u64, probing: Probing) -> Device {
        Device {
            rate: PeakRate::new(rotational, top_rate),
            depth: QueueDepth::default(),
            probing,
            in_driver: 0,
            last_position: 0,
            epoch: None,
        }
    }

    /// Requests that it has.
    #[inline]
    pub(super) const fn in_driver(&self) -> u32 {
        self.in_driver
    }

    /// The sector after the last request sent to it.
    #[inline]
    pub(super) const fn last_position(&self) -> u64 {
        self.last_position
    }

    /// What it does at best, in 2^-16 sectors per microsecond.
    #[inline]
    pub(super) const fn rate(&self) -> u64 {
        self.rate.rate()
    }

    /// How long ago a request last ended.
    pub(super) fn since_completion(&self, now: Nanos) -> Nanos {
        now - self.rate.last_completion()
    }

    /// The most requests that it was seen to have.
    pub(super) const fn most_seen(&self) -> u32 {
        self.depth.most()
    }

    /// Requests of this epoch are the elevator's.
    pub(super) const fn bind(&mut self, epoch: u32) {
        self.epoch = Some(epoch);
    }

    /// Whether a request is this elevator's.
    #[inline]
    pub(super) fn is_of_epoch(&self, view: &QueueView, request: RequestId) -> bool {
        Some(view.request(request).epoch()) == self.epoch
    }

    /// Whether a request in the device is this elevator's.
    #[inline]
    pub(super) fn is_own(&self, view: &QueueView, request: RequestId) -> bool {
        self.is_of_epoch(view, request) && is_in_flight(view, request)
    }

    /// A request goes in flight, or ends. Returns by how much its queue's count changes.
    #[inline]
    pub(super) fn count(&mut self, view: &mut QueueView, request: RequestId, flies: bool) -> i32 {
        set_in_flight(view, request, flies);
        let by = if flies { 1 } else { -1 };
        self.in_driver = self.in_driver.wrapping_add_signed(by);
        by
    }

    /// Whether it is taken to queue commands: yes until it is known not to (BFQ-83).
    #[inline]
    pub(super) fn queues_commands(&self, view: &QueueView) -> bool {
        self.known_to_queue(view) != Some(false)
    }

    /// Whether it queues commands; `None` if that is not known.
    #[inline]
    pub(super) fn known_to_queue(&self, view: &QueueView) -> Option<bool> {
        match view.ncq() {
            Ncq::Declared => Some(view.facts().depth > 1),
            Ncq::Probe => self.depth.queues(),
        }
    }

    /// Flash that queues commands: seeks cost nothing, and the drive orders requests itself.
    #[inline]
    pub(super) fn is_queueing_flash(&self, view: &QueueView) -> bool {
        !view.facts().rotational && self.queues_commands(view)
    }

    /// A request ends, with so many others waiting: their number may show that the device queues
    /// commands (BFQ-82); not if it is kept empty for a queue that has only `of_served` requests.
    #[inline]
    pub(super) fn probe_depth(&mut self, waiting: u32, of_served: Option<u32>) {
        let least = self.probing.queueing - 1;
        let starved = of_served.is_some_and(|own| own < least) && self.in_driver < least;
        let counts = self.in_driver + waiting >= LOAD && !starved;
        self.depth.sample(&self.probing, self.in_driver, counts);
    }

    /// A request goes to the device: rate and positions are updated (BFQ-75, BFQ-124). Returns
    /// whether the rate is new.
    #[inline]
    pub(super) fn dispatched(&mut self, view: &QueueView, request: RequestId) -> bool {
        let (start, sectors) = (view.request(request).sector(), view.request(request).sectors());
        let rotational = view.facts().rotational;
        let dispatched = Dispatched {
            now: view.exact_now(),
            sectors: sectors.into(),
            is_near: !is_far(self.last_position, start, sectors, rotational),
            in_driver: self.in_driver,
        };
        self.last_position = view.request(request).end();
        self.rate.dispatched(dispatched)
    }

    /// A request has ended. Returns whether the rate is new.
    #[inline]
    pub(super) fn completed(&mut self, now: Nanos) -> bool {
        self.rate.completed(now)
    }

    /// How long an interactive period lasts: the slower the device, the longer (BFQ-98).
    pub(super) fn raise_duration(&self, view: &QueueView) -> Nanos {
        let (rotational, hz) = (view.facts().rotational, view.hz());
        let at_reference = DURATIONS[usize::from(rotational)].0 / hz.tick().0;
        let ticks = scale(rate::reference(rotational), at_reference, self.rate.rate());
        let duration = Nanos(ticks.saturating_mul(hz.tick().0));
        duration.clamp(SHORTEST, LONGEST)
    }

    /// As if it had so many requests.
    #[cfg(test)]
    pub(super) const fn set_in_driver(&mut self, requests: u32) {
        self.in_driver = requests;
    }

    /// As if the last request had ended there.
    #[cfg(test)]
    pub(super) const fn set_last_position(&mut self, sector: u64) {
        self.last_position = sector;
    }

    /// The estimate of its rate.
    #[cfg(test)]
    pub(super) const fn rate_mut(&mut self) -> &mut PeakRate {
        &mut self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::Limits;
    use paternoster_core::device::DeviceFacts;

    /// Is flash assumed to queue commands until the contrary is known, and a disk never taken for
    /// such flash; and is nothing learned while the device is kept empty for a queue?
    #[test]
    fn bfq_82_a_starved_device_is_not_probed() {
        for (rotational, of_served, known) in
            [(false, None, Some(false)), (true, None, Some(false)), (false, Some(0), None)]
        {
            let facts = DeviceFacts { rotational, depth: 32, ..DeviceFacts::default() };
            let view = QueueView::alone(facts, Limits::default());
            let mut device = Device::new(rotational, 200, Probing::BFQ);
            assert_eq!(device.is_queueing_flash(&view), !rotational);
            device.set_in_driver(1);
            for _ in 0..100 {
                device.probe_depth(8, of_served);
            }
            assert_eq!(device.depth.queues(), known, "{rotational} {of_served:?}");
        }
    }
}
