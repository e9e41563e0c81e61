// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tally: what each client had between two instants, read off the event stream.
//!
//! ```text
//! Q ─ ─ waiting ─ ─ D ─ ─ in flight ─ ─ C        M, F: part of another that waits already
//!        begin ├──────── counted ────────┤ end
//! ```
//!
//! All clients are counted between the same two instants, whatever their own ramps: shares of
//! different windows could not be compared. A request belongs to the window in which it ends.
//! Flushes count for device time alone: a flush that is asked for is not the one that is done.

use paternoster_core::{Action, Event, Nanos, Note, Observer, Op};

/// One client between the two instants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Client {
    waits: u64,
    flies: u64,
    last: Nanos,
    /// Requests that waited, times ns.
    pub(crate) waiting: u64,
    /// Requests in the device, times ns.
    pub(crate) in_flight: u64,
    /// Device time of what ended.
    pub(crate) served: Nanos,
    /// Bytes of what ended.
    pub(crate) bytes: u64,
    /// Requests that ended.
    pub(crate) requests: u64,
}

/// Reads the stream of one queue.
#[derive(Debug)]
pub(crate) struct Tally {
    begin: Nanos,
    end: Nanos,
    clients: Vec<Client>,
}

impl Tally {
    /// Counts from `begin` to `end`.
    pub(crate) fn new(begin: Nanos, end: Nanos, clients: usize) -> Tally {
        Tally { begin, end, clients: vec![Client::default(); clients] }
    }

    /// The sums of every client, once the run is over.
    pub(crate) fn close(&mut self) -> &[Client] {
        let (begin, end) = (self.begin, self.end);
        self.clients.iter_mut().for_each(|client| client.pass(end, begin, end));
        &self.clients
    }
}

impl Client {
    fn pass(&mut self, now: Nanos, begin: Nanos, end: Nanos) {
        let time = now.0.min(end.0).saturating_sub(self.last.0.max(begin.0));
        self.waiting = self.waiting.saturating_add(self.waits.saturating_mul(time));
        self.in_flight = self.in_flight.saturating_add(self.flies.saturating_mul(time));
        self.last = self.last.max(now);
    }
}

impl Observer for Tally {
    fn event(&mut self, event: &Event) {
        let (begin, end) = (self.begin, self.end);
        let Some(client) = self.clients.get_mut(event.client.index() as usize) else { return };
        client.pass(event.at, begin, end);
        let flush = event.op == Op::Flush;
        match event.action {
            Action::Queue if !flush => client.waits += 1,
            Action::BackMerge | Action::FrontMerge => client.waits = client.waits.saturating_sub(1),
            Action::Issue if !flush => {
                client.waits = client.waits.saturating_sub(1);
                client.flies += 1;
            }
            Action::Requeue if !flush => {
                client.waits += 1;
                client.flies = client.flies.saturating_sub(1);
            }
            Action::Complete => {
                if !flush {
                    client.flies = client.flies.saturating_sub(1);
                }
                if event.at >= begin && event.at < end {
                    client.served += event.served;
                    client.bytes += if flush { 0 } else { u64::from(event.sectors) * 512 };
                    client.requests += 1;
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}
