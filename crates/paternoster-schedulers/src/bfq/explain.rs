// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explain: why a request still waits, in words.
//!
//! The clause names what keeps the request from the device: others of its queue, another queue's
//! turn and what is left of it, or requests that go before all others.

use core::fmt;

use crate::bfq::queues::Queues;
use crate::bfq::schedule::Schedule;
use paternoster_core::QueueView;
use paternoster_core::time::Nanos;

/// Continues "it waits because …", of a request of `queue`.
pub(super) fn explain_wait(
    view: &QueueView,
    queues: &Queues,
    schedule: &Schedule,
    served: Option<u32>,
    queue: u32,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    let others = queues.at(queue).lane.len().saturating_sub(1);
    let Some(served) = served else {
        return out.write_str("no queue has the device yet");
    };
    if served == queue {
        return write!(out, "its queue has the device, with {others} others waiting in it");
    }
    let running = queues.at(served);
    match running.made_for.filter(|_| !running.is_shared) {
        Some(client) => write!(out, "{client} has the device")?,
        None if running.is_sync => out.write_str("processes that cooperate have the device")?,
        None => out.write_str("writes in the background have the device")?,
    }
    if running.wait_request {
        out.write_str(", which idles for the next request")?;
    } else {
        let left = schedule.entities[served as usize].budget_left();
        let time = running.stamp.map_or(Nanos::ZERO, |end| end - view.now());
        write!(out, ", for {left} sectors or {time} more")?;
    }
    write!(out, "; {} queues are busy", schedule.symmetry.busy())
}
