// SPDX-License-Identifier: MIT OR Apache-2.0
//! Service: the queue that has the device, the process that it was opened for, and the timer while
//! the device idles for it.
//!
//! ```text
//! begins ── requests ── empty: idling until … ── the next request, or the timer ── ends
//! ```
//!
//! # Invariants
//! I1  `idle_until` is when the view's timer rings; it is set only while a queue has the device.
//!
//! Source: CFQ-26, CFQ-30.

use alloc::format;

use crate::cfq::queue::Queue;
use paternoster_core::elevator::Fault;
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, QueueView};

/// The active queue.
#[derive(Debug, Default)]
pub(super) struct Service {
    queue: Option<u32>,
    /// The process whose request opened the slice.
    opened_by: Option<ClientId>,
    idle_until: Option<Nanos>,
}

impl Service {
    #[inline]
    pub(super) const fn queue(&self) -> Option<u32> {
        self.queue
    }

    /// Whether this is the active queue.
    #[inline]
    pub(super) fn is(&self, queue: u32) -> bool {
        self.queue == Some(queue)
    }

    /// A queue's turn begins.
    pub(super) fn begins(&mut self, view: &mut QueueView, queue: u32, home: &mut Queue) {
        home.slice = home.slice.begun(view.now());
        home.wait_request = false;
        home.must_dispatch = false;
        home.had_permit = false;
        self.cancel_timer(view);
        self.queue = Some(queue);
    }

    /// The slice ends.
    #[inline]
    pub(super) const fn ends(&mut self) {
        self.queue = None;
        self.opened_by = None;
    }

    /// The process whose request opened the slice.
    #[inline]
    pub(super) const fn opened_by(&self) -> Option<ClientId> {
        self.opened_by
    }

    /// A request of `client` is sent.
    #[inline]
    pub(super) fn sent(&mut self, client: ClientId) {
        self.opened_by.get_or_insert(client);
    }

    /// A client ends.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.opened_by = self.opened_by.filter(|&opened_by| opened_by != client);
    }

    /// Whether the device idles for the active queue.
    #[inline]
    pub(super) const fn is_idling(&self) -> bool {
        self.idle_until.is_some()
    }

    /// The device idles for it from now on.
    pub(super) fn idle(&mut self, view: &mut QueueView, home: &mut Queue, until: Nanos) {
        home.wait_request = true;
        self.idle_until = Some(until);
        view.set_timer(until);
    }

    /// The device no longer idles for it.
    #[inline]
    pub(super) fn stop_idling(&mut self, view: &mut QueueView, home: &mut Queue) {
        if core::mem::replace(&mut home.wait_request, false) {
            self.cancel_timer(view);
        }
    }

    /// The timer has rung.
    pub(super) const fn timer_rang(&mut self) {
        self.idle_until = None;
    }

    fn cancel_timer(&mut self, view: &mut QueueView) {
        if self.idle_until.take().is_some() {
            view.cancel_timer();
        }
    }

    /// Verifies I1.
    pub(super) fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        let timer = self.idle_until.unwrap_or(Nanos::MAX);
        if timer != view.timer() || (self.is_idling() && self.queue.is_none()) {
            return Err(format!(
                "cfq I3: idle until {timer}, the timer is set to {}",
                view.timer()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::device::DeviceFacts;
    use paternoster_core::{ClientSpec, Limits};

    /// Is a turn opened by the process whose request is sent first, until that ends?
    #[test]
    fn the_first_request_opens_a_turn() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let [first, second] = [(); 2].map(|()| view.add_client(ClientSpec::new()));
        let (mut service, mut home) = (Service::default(), Queue::default());
        service.begins(&mut view, 3, &mut home);
        assert!(service.is(3) && home.slice.is_new && service.opened_by().is_none());
        service.sent(first);
        service.sent(second);
        service.forget(second);
        assert_eq!(service.opened_by(), Some(first));
        service.forget(first);
        assert_eq!((service.opened_by(), service.queue()), (None, Some(3)));
        service.ends();
        assert_eq!(service.queue(), None);
    }

    /// Is the timer set while the device idles, and cancelled by a request that comes or by the
    /// next turn?
    #[test]
    fn the_timer_is_set_while_the_device_idles() {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let (mut service, mut home) = (Service::default(), Queue::default());
        let until = Nanos::from_millis(8);
        service.begins(&mut view, 3, &mut home);
        for next_turn in [false, true] {
            service.idle(&mut view, &mut home, until);
            assert_eq!((view.timer(), home.wait_request), (until, true));
            service.audit(&view).expect("both agree");
            if next_turn {
                service.begins(&mut view, 3, &mut home);
            } else {
                service.stop_idling(&mut view, &mut home);
            }
            assert_eq!((view.timer(), home.wait_request), (Nanos::MAX, false));
            assert!(!service.is_idling());
        }
    }
}
