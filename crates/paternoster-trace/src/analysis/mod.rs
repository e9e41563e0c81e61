// SPDX-License-Identifier: MIT OR Apache-2.0
//! Analysis: a block trace in figures that people need.
//!
//! ```text
//! Q ───── G ── I ─────────── D ────────────── C
//! │ queue  plug   schedule      device        │
//! Q ── M ─────────────────── D ────────────── C      merged: no request of its own
//! │ merge     wait                            │
//! └───────────────── whole (Q2C) ─────────────┘
//! ```
//!
//! * How long: each phase with its percentiles, reads and writes ([`Phase`], [`DeviceFigures`]).
//! * How well: merges, seeks, queue depths, how busy the device was.
//! * Who: what each process got, waited for and cost ([`ProcessFigures`]), and how even it was.
//!
//! **Device time** measures how much each process got: while k commands are in the device, each is
//! charged 1/k of the passing time. The Jain index of n shares is (Σx)² / (n Σx²): 1 if all are
//! equal, 1/n if one has everything.
//!
//! The same phases are btt's; its own figures, to the digit, are in [`crate::btt`]. Percentiles
//! are at most 1/16 too high, below 1024 ns at most 1024 (see
//! [`CoarseHistogram`](paternoster_measure::CoarseHistogram)); means and extremes are exact.
//!
//! Limits: [`DEVICES_MAX`] devices, [`PROCESSES_MAX`] processes and [`ROWS_MAX`] pairs of both;
//! what is beyond them is counted as one. Bios and commands under way are at most
//! [`IN_FLIGHT_MAX`] of all devices together; then one that reads another drops its oldest.
//!
//! Invariants: I1 phases count what btt counts, but for bios in several parts; I2 the device
//! times of all rows of a device add up to the time during which it was busy with commands that
//! ended.
//!
//! Source: BTT-6 to BTT-11; device time is that of `paternoster-core`'s `device.rs`.

mod depth;
mod device;
mod names;
mod process;

use std::collections::BTreeMap;

use paternoster_core::Nanos;
use paternoster_measure::IN_FLIGHT_MAX;

pub use depth::Depth;
pub use device::{Counts, DeviceFigures, NEAR, Phase, Seeks};
pub use process::ProcessFigures;

use crate::blktrace::{Code, DeviceNumber};
use crate::source::Entry;
use device::{Device, Use};
use names::Names;

/// The most devices.
pub const DEVICES_MAX: usize = 1024;
/// The most processes.
pub const PROCESSES_MAX: usize = 1 << 16;
/// The most processes, counted separately on each device; a row has at most 8 KiB.
pub const ROWS_MAX: usize = 1 << 13;

/// Reads a trace, event by event.
#[derive(Debug, Default)]
pub struct Analysis {
    devices: Vec<Device>,
    by_number: BTreeMap<DeviceNumber, usize>,
    last_device: Option<(DeviceNumber, usize)>,
    names: Names,
    events: u64,
    messages: u64,
    /// By all devices: rows are pairs of a process and a device.
    used: Use,
    span: Option<(Nanos, Nanos)>,
}

/// The findings.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Events, without notes.
    pub events: u64,
    /// Messages of schedulers and others.
    pub messages: u64,
    /// The first event.
    pub begins: Nanos,
    /// The last event.
    pub ends: Nanos,
    /// Each device in the order of their first events.
    pub devices: Vec<DeviceFigures>,
}

impl Findings {
    /// From the first event to the last.
    #[must_use]
    pub fn span(&self) -> Nanos {
        Nanos(self.ends.0.saturating_sub(self.begins.0))
    }
}

impl Analysis {
    /// Reads one event.
    pub fn record(&mut self, entry: &Entry<'_>) {
        let record = &entry.record;
        if record.is_note() {
            match record.code {
                Code::NOTE_PROCESS => self.names.learn(record.pid, entry.payload),
                Code::NOTE_MESSAGE => self.messages += 1,
                _ => {}
            }
            return;
        }
        self.events += 1;
        let (begins, _) = self.span.unwrap_or((record.at, record.at));
        self.span = Some((begins, record.at));
        if record.is_passthrough() {
            return;
        }
        let process = self.names.index(record.pid);
        let place = self.place(record.device);
        let Use { rows, in_flight } = self.used;
        let room = Use {
            rows: ROWS_MAX.saturating_sub(rows),
            in_flight: IN_FLIGHT_MAX.saturating_sub(in_flight),
        };
        let device = &mut self.devices[place];
        let before = device.used();
        device.record(record, process, room);
        let after = device.used();
        self.used = Use {
            rows: rows - before.rows + after.rows,
            in_flight: in_flight - before.in_flight + after.in_flight,
        };
    }

    /// Where a device is kept.
    #[inline]
    fn place(&mut self, number: DeviceNumber) -> usize {
        match self.last_device {
            Some((last, place)) if last == number => place,
            _ => self.look_up(number),
        }
    }

    fn look_up(&mut self, number: DeviceNumber) -> usize {
        let next = self.devices.len();
        let place = match self.by_number.get(&number) {
            Some(place) => *place,
            None if next < DEVICES_MAX => {
                self.by_number.insert(number, next);
                self.devices.push(Device::new(number));
                next
            }
            None => next - 1,
        };
        self.last_device = Some((number, place));
        place
    }

    /// The findings.
    #[must_use]
    pub fn finish(self) -> Findings {
        let (begins, ends) = self.span.unwrap_or_default();
        let span = Nanos(ends.0.saturating_sub(begins.0));
        let names = &self.names;
        let figures = |device: Device| device.finish(ends, span, names);
        Findings {
            events: self.events,
            messages: self.messages,
            begins,
            ends,
            devices: self.devices.into_iter().map(figures).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
