// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tally: what each client got between two instants, read from the event stream.
//!
//! ```text
//! Q ─ ─ waiting ─ ─ D ─ ─ in flight ─ ─ C        M, F: part of another that waits already
//!        begin ├──────── counted ────────┤ end
//! ```
//!
//! All clients are counted between the same two instants, whatever their own ramps: shares of
//! different windows could not be compared. A request belongs to the window in which it ends.
//! Flushes count for device time alone: a requested flush is not the one that is done.
//!
//! Bytes are also counted in parts of that time, its windows; and how long a client had requests
//! outstanding while none ended.

use paternoster_core::{Action, Event, Nanos, Note, Observer, Op};

/// One client between the two instants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Client {
    waits: u64,
    flies: u64,
    last: Nanos,
    /// Waiting requests, integrated over time (requests times ns).
    pub(crate) waiting: u64,
    /// Requests in the device, times ns.
    pub(crate) in_flight: u64,
    /// Device time of what ended.
    pub(crate) served: Nanos,
    /// Bytes of what ended.
    pub(crate) bytes: u64,
    /// Requests that ended.
    pub(crate) requests: u64,
    /// Time in which it had a request outstanding, waiting or in the device.
    pub(crate) outstanding: u64,
    /// The longest time in which the client had a request outstanding and none ended.
    pub(crate) longest: Nanos,
    /// Since when that has been so now.
    since: Nanos,
}

/// Reads the stream of one queue.
#[derive(Debug)]
pub(crate) struct Tally {
    begin: Nanos,
    end: Nanos,
    clients: Vec<Client>,
    windows: Vec<Counted>,
}

/// A part of the time.
#[derive(Debug)]
struct Counted {
    begin: Nanos,
    end: Nanos,
    /// For each client, the bytes of requests that ended in it.
    bytes: Vec<u64>,
}

impl Tally {
    /// Counts from `begin` to `end`.
    pub(crate) fn new(begin: Nanos, end: Nanos, clients: usize) -> Tally {
        Tally { begin, end, clients: vec![Client::default(); clients], windows: Vec::new() }
    }

    /// Also counts bytes in these parts of it, which do not overlap.
    pub(crate) fn with_windows(mut self, windows: impl Iterator<Item = (Nanos, Nanos)>) -> Tally {
        let bytes = vec![0; self.clients.len()];
        let counted = |(begin, end)| Counted { begin, end, bytes: bytes.clone() };
        self.windows = windows.map(counted).collect();
        self
    }

    /// For each window and client: bytes of what ended.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = &[u64]> {
        self.windows.iter().map(|window| &*window.bytes)
    }

    /// The sums of every client, once the run is over.
    pub(crate) fn close(&mut self) -> &[Client] {
        let (begin, end) = (self.begin, self.end);
        for client in &mut self.clients {
            client.pass(end, begin, end);
            if client.is_outstanding() {
                client.waited(end, begin);
            }
        }
        &self.clients
    }
}

impl Client {
    fn pass(&mut self, now: Nanos, begin: Nanos, end: Nanos) {
        let time = now.0.min(end.0).saturating_sub(self.last.0.max(begin.0));
        self.waiting = self.waiting.saturating_add(self.waits.saturating_mul(time));
        self.in_flight = self.in_flight.saturating_add(self.flies.saturating_mul(time));
        if self.is_outstanding() {
            self.outstanding += time;
        }
        self.last = self.last.max(now);
    }

    fn is_outstanding(&self) -> bool {
        self.waits + self.flies > 0
    }

    /// The client has waited until now, and starts a new wait.
    fn waited(&mut self, now: Nanos, begin: Nanos) {
        self.longest = self.longest.max(Nanos(now.0.saturating_sub(self.since.0.max(begin.0))));
        self.since = now;
    }
}

impl Observer for Tally {
    fn event(&mut self, event: &Event) {
        let (begin, end) = (self.begin, self.end);
        let place = event.client.index() as usize;
        let Some(client) = self.clients.get_mut(place) else { return };
        client.pass(event.at, begin, end);
        let flush = event.op == Op::Flush;
        match event.action {
            Action::Queue if !flush => {
                if !client.is_outstanding() {
                    client.since = event.at;
                }
                client.waits += 1;
            }
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
                client.waited(event.at.min(end), begin);
                if event.at >= begin && event.at < end {
                    let bytes = if flush { 0 } else { u64::from(event.sectors) * 512 };
                    client.served += event.served;
                    client.bytes += bytes;
                    client.requests += 1;
                    let is_in = |one: &&mut Counted| (one.begin..one.end).contains(&event.at);
                    if let Some(window) = self.windows.iter_mut().find(is_in) {
                        window.bytes[place] += bytes;
                    }
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}
