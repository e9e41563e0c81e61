// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explain: why a request still waits, in words.
//!
//! The clause names what keeps the request from the device: others of its queue, another queue's
//! turn and what is left of it, or requests that go before all others.

use core::fmt;

use crate::bfq::Bfq;
use paternoster_core::pick::home::home;
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

impl Bfq {
    /// Continues "it waits because …".
    pub(super) fn explain_wait(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        if self.bypass_links.contains(request.index()) {
            return out.write_str("it goes next");
        }
        let queue = home(view, request);
        let others = self.queues.at(queue).lane.len().saturating_sub(1);
        let Some(served) = self.in_service else {
            return out.write_str("no queue has the device yet");
        };
        if served == queue {
            return write!(out, "its queue has the device, with {others} others waiting in it");
        }
        let running = self.queues.at(served);
        match running.made_for.filter(|_| !running.is_shared) {
            Some(client) => write!(out, "{client} has the device")?,
            None if running.is_sync => out.write_str("processes that cooperate have the device")?,
            None => out.write_str("writes in the background have the device")?,
        }
        if running.wait_request {
            out.write_str(", which idles for the next request")?;
        } else {
            let left = self.schedule.entities[served as usize].budget_left();
            let time = running.stamp.map_or(Nanos::ZERO, |end| end - view.now());
            write!(out, ", for {left} sectors or {time} more")?;
        }
        write!(out, "; {} queues are busy", self.busy())
    }
}
