// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explain: why a request still waits, in words.
//!
//! The clause names what keeps the request from the device: others of its queue, or another queue's
//! slice and what is left of it.

use core::fmt;

use crate::cfq::queues::Queues;
use crate::cfq::service::Service;
use paternoster_core::QueueView;

/// Continues "it waits because …", of a request of `queue`, while so many queues are busy.
pub(super) fn explain_wait(
    view: &QueueView,
    queues: &Queues,
    service: &Service,
    busy: u32,
    queue: u32,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let others = queues.at(queue).lane.len().saturating_sub(1);
    let Some(active) = service.queue() else {
        return out.write_str("no queue has the device yet");
    };
    if active == queue {
        return write!(out, "its queue has the device, with {others} others waiting in it");
    }
    let running = queues.at(active);
    match running.client {
        Some(client) => write!(out, "{client} has the device")?,
        None => out.write_str("writes in the background have the device")?,
    }
    if service.is_idling() {
        out.write_str(", which idles for its next request")?;
    } else if running.slice.is_new {
        out.write_str(", for a slice that has just begun")?;
    } else {
        let left = running.slice.end - view.now();
        write!(out, ", for {left} more")?;
    }
    write!(out, "; {busy} queues are busy")
}
