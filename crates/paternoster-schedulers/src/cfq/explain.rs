// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explain: why a request still waits, in words.

use core::fmt;

use crate::cfq::Cfq;
use paternoster_core::pick::home::home;
use paternoster_core::{QueueView, RequestId};

impl Cfq {
    /// A clause that continues "it waits because …".
    pub(super) fn explain_wait(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let queue = home(view, request);
        let own = self.queues.at(queue);
        let others = own.lane.len().saturating_sub(1);
        match self.active {
            _ if self.bypass.contains(request) => out.write_str("it goes next"),
            None => out.write_str("no queue has the device yet"),
            Some(active) if active == queue => {
                write!(out, "its queue has the device, with {others} others waiting in it")
            }
            Some(active) => {
                let running = self.queues.at(active);
                match running.client {
                    Some(client) => write!(out, "{client} has the device")?,
                    None => out.write_str("writes in the background have the device")?,
                }
                if self.idle_until.is_some() {
                    out.write_str(", which idles for its next request")?;
                } else if running.slice.is_new {
                    out.write_str(", for a slice that has just begun")?;
                } else {
                    let left = running.slice.end - view.now();
                    write!(out, ", for {left} more")?;
                }
                write!(out, "; {} queues are busy", self.busy)
            }
        }
    }
}
