// SPDX-License-Identifier: MIT OR Apache-2.0
//! Meter: what the figures of a run are made from, read off the event stream.
//!
//! Device time per client, merges and I/Os per direction, the time that the device was busy. It
//! reads `D`, `C`, `R`, `M` and `F` and nothing else.
//!
//! ```text
//! D     D         C    C      D      C
//! |─────────────────────|      |──────|        busy
//! ```

use paternoster_core::{Action, Event, Nanos, Note, Observer, Op};

/// Sums over a run, for one client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientMeter {
    /// Device time of its requests.
    pub served: Nanos,
    /// Requests that ended.
    pub requests: u64,
}

/// Sums over a run, for the device. Index 0: reads; 1: everything else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceMeter {
    /// Requests that ended.
    pub ios: [u64; 2],
    /// Bios and requests that became part of another.
    pub merges: [u64; 2],
    /// Time in the device, summed over requests.
    pub ticks: [Nanos; 2],
    /// Time with at least one request in the device.
    pub busy: Nanos,
    /// Requests that the device refused.
    pub refused: u64,
}

/// Reads the stream of one queue.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    clients: Vec<ClientMeter>,
    device: DeviceMeter,
    in_device: [u32; 2],
    last: Nanos,
}

impl Meter {
    /// A meter for a queue with this many clients.
    #[must_use]
    pub fn new(clients: u32) -> Meter {
        Meter { clients: vec![ClientMeter::default(); clients as usize], ..Meter::default() }
    }

    /// The sums of the client with this index.
    #[must_use]
    pub fn client(&self, index: u32) -> ClientMeter {
        self.clients.get(index as usize).copied().unwrap_or_default()
    }

    /// The sums of the device up to `now`.
    #[must_use]
    pub fn device(&self, now: Nanos) -> DeviceMeter {
        let mut device = self.device;
        Meter::pass(&mut device, self.in_device, now - self.last);
        device
    }

    fn pass(device: &mut DeviceMeter, in_device: [u32; 2], time: Nanos) {
        if in_device != [0, 0] {
            device.busy += time;
            for (ticks, count) in device.ticks.iter_mut().zip(in_device) {
                *ticks += Nanos(time.0.saturating_mul(count.into()));
            }
        }
    }

    fn step(&mut self, event: &Event, change: i32) {
        Meter::pass(&mut self.device, self.in_device, event.at - self.last);
        self.last = event.at;
        let kind = kind(event.op);
        self.in_device[kind] = self.in_device[kind].wrapping_add_signed(change);
    }
}

const fn kind(op: Op) -> usize {
    if matches!(op, Op::Read) { 0 } else { 1 }
}

impl Observer for Meter {
    #[inline]
    fn event(&mut self, event: &Event) {
        match event.action {
            Action::Issue => self.step(event, 1),
            Action::Requeue => {
                self.step(event, -1);
                self.device.refused += 1;
            }
            Action::Complete => {
                self.step(event, -1);
                self.device.ios[kind(event.op)] += 1;
                if let Some(client) = self.clients.get_mut(event.client.index() as usize) {
                    client.served += event.served;
                    client.requests += 1;
                }
            }
            Action::BackMerge | Action::FrontMerge => self.device.merges[kind(event.op)] += 1,
            _ => {}
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}

/// A digest of the whole stream: two runs with the same digest took the same steps at the same
/// times.
///
/// Multiplies and rotates every field into 64 bits; the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventHash(u64);

impl Default for EventHash {
    fn default() -> EventHash {
        EventHash(0xcbf2_9ce4_8422_2325)
    }
}

impl EventHash {
    /// The digest so far.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.0
    }

    fn mix(&mut self, value: u64) {
        // An odd constant with well spread bits (2^64 / golden ratio); the rotation brings the
        // upper bits back down.
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }
}

/// Digest of what a device got, when, and when it was done: equal for two runs in which schedulers
/// decided alike, whatever their names or methods.
#[derive(Debug, Clone, Default)]
pub struct CommandHash(EventHash);

impl CommandHash {
    /// The digest so far.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.0.digest()
    }
}

impl Observer for CommandHash {
    fn event(&mut self, event: &Event) {
        if matches!(event.action, Action::Issue | Action::Complete) {
            let letter = u64::from(event.action.letter());
            let place = [event.sector, event.sectors.into(), event.client.index().into()];
            let what = [event.at.0, letter, event.op as u64];
            what.into_iter().chain(place).for_each(|value| self.0.mix(value));
        }
    }

    // Reasons differ where commands do not.
    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}

impl Observer for EventHash {
    fn event(&mut self, event: &Event) {
        self.mix(event.at.0);
        self.mix(event.sequence);
        self.mix(u64::from(event.action.letter()));
        self.mix(event.client.index().into());
        self.mix(event.op as u64);
        self.mix(event.flags.bits().into());
        self.mix(event.sector);
        self.mix(event.sectors.into());
        self.mix(u64::from(event.error.unsigned_abs()));
        self.mix(event.served.0);
    }

    // Notes are reasons, not steps: their number and place count, their content may gain words.
    fn note(&mut self, at: Nanos, sequence: u64, _: &Note) {
        self.mix(at.0);
        self.mix(sequence);
    }
}
