// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures: what an analysis found, as plain data.
//!
//! The report is printed from these, so readers of the figures see what btt would print, before
//! rounding.

use super::active::ActiveFigures;
use super::histograms::QueueTimes;
use super::intervals::{Interval, Intervals};
use super::plugs::{PlugFigures, ratio};
use super::seeks::SeekFigures;
use crate::blktrace::DeviceNumber;

/// What an analysis found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Intervals of all devices and processes together.
    pub intervals: Intervals,
    /// In order of their first event.
    pub devices: Vec<DeviceFigures>,
    /// In order of their names.
    pub processes: Vec<ProcessFigures>,
    /// Overhead of all devices that completed something and do not remap.
    pub overhead: Option<Overhead>,
    /// Of all devices together.
    pub merges: MergeFigures,
    /// Seeks from bio to bio, of all devices together.
    pub queue_seeks: SeekFigures,
    /// Seeks from request to request, of all devices together.
    pub device_seeks: SeekFigures,
    /// Of all devices together.
    pub active: ActiveFigures,
    /// What was left out for lack of room.
    pub left_out: LeftOut,
}

/// The findings on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceFigures {
    /// The device.
    pub device: DeviceNumber,
    /// The device's name in files and tables.
    pub label: String,
    /// Whether it remaps to others.
    pub remapper: bool,
    /// Intervals of the device's bios.
    pub intervals: Intervals,
    /// If it completed something and does not remap.
    pub overhead: Option<Overhead>,
    /// Bios and requests.
    pub merges: MergeFigures,
    /// Seeks from bio to bio.
    pub queue_seeks: SeekFigures,
    /// Seeks from request to request.
    pub device_seeks: SeekFigures,
    /// Plugs of the device.
    pub plugs: PlugFigures,
    /// How many requests were not yet issued when a bio came, on average.
    pub waiting: f64,
    /// The device's periods of activity.
    pub active: ActiveFigures,
    pub(super) waiting_sum: u64,
    pub(super) queue_times: QueueTimes,
}

impl DeviceFigures {
    /// Whether btt has a row for its waiting requests.
    pub(super) const fn is_waited_for(&self) -> bool {
        !self.remapper && self.merges.queued > 0
    }
}

/// The findings on the processes of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFigures {
    /// The name.
    pub name: String,
    /// Intervals of the process's bios.
    pub intervals: Intervals,
}

/// Where the time from Q to C went, in percent of its sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overhead {
    /// Until there was a request.
    pub q2g: f64,
    /// Until it was in the scheduler.
    pub g2i: f64,
    /// Until a bio was merged.
    pub q2m: f64,
    /// Percentage in the scheduler.
    pub i2d: f64,
    /// Percentage in the device.
    pub d2c: f64,
}

/// What goes into [`Overhead`], in its order.
const PARTS: [Interval; 5] =
    [Interval::Q2G, Interval::G2I, Interval::Q2M, Interval::I2D, Interval::D2C];

/// Sums of the intervals of some devices.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OverheadSums {
    parts: [u64; PARTS.len()],
    whole: u64,
}

impl OverheadSums {
    pub(super) fn of(intervals: &Intervals) -> OverheadSums {
        let parts = PARTS.map(|part| intervals[part].sum);
        OverheadSums { parts, whole: intervals[Interval::Q2C].sum }
    }

    pub(super) fn add(&mut self, other: &OverheadSums) {
        for (own, other) in self.parts.iter_mut().zip(other.parts) {
            *own = own.saturating_add(other);
        }
        self.whole = self.whole.saturating_add(other.whole);
    }

    pub(super) fn overhead(&self) -> Option<Overhead> {
        let [q2g, g2i, q2m, i2d, d2c] = self.parts.map(|part| 100.0 * ratio(part, self.whole));
        (self.whole > 0).then_some(Overhead { q2g, g2i, q2m, i2d, d2c })
    }
}

impl Overhead {
    /// The columns, in btt's order.
    pub(super) const fn columns(&self) -> [f64; 5] {
        [self.q2g, self.g2i, self.q2m, self.i2d, self.d2c]
    }
}

/// How bios became requests, and how large these were, in sectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeFigures {
    /// Bios and requeues.
    pub queued: u64,
    /// Requests that went to the device.
    pub issued: u64,
    /// The smallest request that was completed.
    pub min: u64,
    /// The largest one.
    pub max: u64,
    /// All of them.
    pub total: u64,
}

impl MergeFigures {
    /// Bios per request.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        ratio(self.queued, self.issued)
    }

    /// Sectors of a request on average, as btt rounds it.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.total.checked_div(self.issued).unwrap_or(0)
    }

    /// Whether btt has a row for it.
    pub(super) const fn is_told(&self) -> bool {
        self.queued > 0 && self.issued > 0
    }
}

/// What had to be left out, to stay within bounds; nothing, of most traces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Events of devices beyond [`DEVICES_MAX`](super::DEVICES_MAX).
    pub events: u64,
    /// Bios that were not completed while [`OUTSTANDING_MAX`](super::OUTSTANDING_MAX) others came.
    pub bios: u64,
    /// Notes of processes beyond [`PROCESSES_MAX`](super::PROCESSES_MAX), which share a row.
    pub processes: u64,
}
