// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modelled devices of the recordings, and what the emulation added to them.
//!
//! Source: `devices` in `results.json`; the README next to it, section 2; CFQ-35 (one request more
//! than the device takes).

use paternoster_sim::{Description, Rule};

/// SCSI asks the scheduler for one request more than the device takes.
const PEEK: u32 = 1;

/// The time from the end of a request to its process's next one; the rest of the emulation's
/// overhead is part of the device time. The median from C to Q is 41 us in `B.log.2seq.qd4`, 60 in
/// `A.log.cfq-default-si0`, 83 in `G.log.si0-gi8`.
const RETURN_US: u32 = 60;

/// A modelled device of the recordings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disk {
    servers: u32,
    depth: u32,
    base_us: u32,
    rate_mb: u32,
    penalty_us: u32,
    rotational: bool,
    /// The emulation's own time per request.
    emulation_us: u32,
}

/// A: a flash card.
pub(crate) const CARD: Disk = Disk {
    servers: 1,
    depth: 1,
    base_us: 915,
    rate_mb: 24,
    penalty_us: 0,
    rotational: false,
    emulation_us: 145,
};
/// The same, declared to be a disk.
pub(crate) const CARD_AS_DISK: Disk = Disk { rotational: true, ..CARD };
/// B: a disk.
pub(crate) const DISK: Disk = Disk {
    servers: 1,
    depth: 4,
    base_us: 100,
    rate_mb: 150,
    penalty_us: 8000,
    rotational: true,
    emulation_us: 270,
};
/// F: the same, one command at a time.
pub(crate) const DISK_1: Disk = Disk { depth: 1, ..DISK };
/// Hd: the same, 32 at a time.
pub(crate) const DISK_32: Disk = Disk { depth: 32, ..DISK };
/// C: an array.
pub(crate) const ARRAY: Disk = Disk {
    servers: 16,
    depth: 32,
    base_us: 3000,
    rate_mb: 1000,
    penalty_us: 0,
    rotational: true,
    emulation_us: 270,
};
/// E2: flash of the same width.
pub(crate) const FLASH: Disk = Disk { base_us: 1000, rate_mb: 150, rotational: false, ..ARRAY };
/// G: four servers that take no more than they serve.
pub(crate) const FOUR: Disk = Disk { servers: 4, depth: 4, rate_mb: 30, ..ARRAY };

impl Disk {
    /// The queue's depth.
    pub(crate) const fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether nothing can be queued while it serves: between two requests, a server is idle for
    /// the emulation's time.
    const fn stands_still(&self) -> bool {
        self.depth <= self.servers
    }

    /// The disk as a device file.
    pub(crate) fn description(&self) -> Description {
        let still_us = if self.stands_still() { self.emulation_us } else { 0 };
        let text = format!(
            "name = \"recorded\"\nmodel = \"linear\"\nsummary = \"s\"\nvalid = \"v\"\n\
             [facts]\n\
             capacity = {{ value = \"64 GiB\", source = \"recorded\" }}\n\
             depth = {{ value = {}, source = \"recorded\" }}\n\
             rotational = {{ value = {}, source = \"recorded\" }}\n\
             [linear]\n\
             servers = {{ value = {}, source = \"recorded\" }}\n\
             base = {{ value = \"{} us\", source = \"recorded, calibrated\" }}\n\
             rate = {{ value = \"{} MB/s\", source = \"recorded\" }}\n\
             penalty = {{ value = \"{} us\", source = \"recorded\" }}\n",
            self.depth + PEEK,
            self.rotational,
            self.servers,
            self.base_us + still_us,
            self.rate_mb,
            self.penalty_us,
        );
        Description::parse("recorded.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The emulation's time in the answers: two thirds always, another two thirds for every second
    /// one, at random, so that processes of one kind do not stay in step.
    pub(crate) fn emulation(&self) -> [Rule; 2] {
        let time_us = if self.stands_still() { RETURN_US } else { self.emulation_us };
        let part_us = time_us * 2 / 3;
        [format!("delay time={part_us}us"), format!("delay probability=0.5 time={part_us}us")]
            .map(|rule| rule.parse().expect("a rule"))
    }
}
