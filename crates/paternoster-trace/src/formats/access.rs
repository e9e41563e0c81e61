// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access: one I/O in formats with a line for each, and where such come from.
//!
//! ```text
//! arrival        begin            end
//!    |── waited ──|─── served ─────|       formats with arrivals only have neither begin nor end
//!    Q            D                C
//! ```
//!
//! Times count from anywhere; `events.rs` makes them count from the first arrival.

use crate::blktrace::{Categories, DeviceNumber};
use crate::source::{Place, Problems};

use super::names::Names;

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    /// When it came, in ns.
    pub(super) arrival: u64,
    /// From when to when the device had it, in ns, if known.
    pub(super) served: Option<(u64, u64)>,
    /// First sector of 512 bytes.
    pub(super) sector: u64,
    /// Length in bytes.
    pub(super) bytes: u32,
    /// READ, WRITE, and other flags.
    pub(super) kind: Categories,
    /// The device.
    pub(super) device: DeviceNumber,
    /// The process's number; 0 if unknown.
    pub(super) pid: u32,
    /// Number of the process's name, from 1; 0 without one.
    pub(super) process: u32,
    /// Place of the line in the trace.
    pub(super) place: Place,
}

impl Access {
    /// An access that arrived; nothing is known of its end.
    pub(super) const fn new(
        arrival: u64,
        kind: Categories,
        sector: u64,
        bytes: u32,
        device: DeviceNumber,
    ) -> Access {
        let (served, place) = (None, Place::Line(0));
        Access { arrival, served, sector, bytes, kind, device, pid: 0, process: 0, place }
    }

    /// One that the device had at once, and for this long.
    pub(super) const fn answered_after(mut self, ns: u64) -> Access {
        self.served = Some((self.arrival, self.arrival.saturating_add(ns)));
        self
    }

    /// One of this process, with the number of its name.
    pub(super) const fn of_process(mut self, pid: u32, process: u32) -> Access {
        self.pid = pid;
        self.process = process;
        self
    }
}

/// Where accesses come from, in the order of the trace.
pub(super) trait Accesses {
    /// The next access; names are kept and problems reported along the way.
    fn next(&mut self, names: &mut Names, problems: &mut Problems) -> Option<Access>;

    /// The trace's name in messages.
    fn file(&self) -> &str;
}
