// SPDX-License-Identifier: MIT OR Apache-2.0
//! Record: one event as blktrace keeps it, 48 bytes and a payload, in the byte order of the traced
//! machine.
//!
//! ```text
//! offset   0     4        8    16     24    28     32  36     40  44    46      48
//! v7       magic sequence time sector bytes action pid device cpu error pdu_len payload …
//! v8       magic sequence time sector bytes pid action (8) device cpu error pdu_len pad (12) …
//! offset   0     4        8    16     24    28  32         40     44  48    50       52     64
//! ```
//!
//! An action is a [`Code`] in its low 16 bits and [`Categories`] above. A code may be flagged that
//! the payload begins with eight bytes that name a cgroup; readers drop them.
//!
//! Invariants: I1 what is encoded and decoded again is the same, in both byte orders and versions
//! (categories above bit 15 have no place in version 7); I2 no bytes make [`Head::decode`] panic.
//!
//! Source: TRACE-4 to TRACE-13.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

use paternoster_core::Nanos;
use paternoster_measure::Extent;

/// Magic number, without the version in its low byte.
const MAGIC: u32 = 0x6561_7400;
/// Bytes of a record of version 7.
pub const RECORD_V7: usize = 48;
/// Bytes of a record of version 8.
pub const RECORD_V8: usize = 64;
/// A bit of the action's low half: the payload begins with a cgroup.
const CGROUP: u16 = 1 << 8;
/// Bytes of that beginning.
pub(super) const CGROUP_BYTES: usize = 8;

/// The code of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u16);

impl Code {
    /// `Q`: a bio was submitted.
    pub const QUEUE: Code = Code(1);
    /// `M`: merged after a request.
    pub const BACK_MERGE: Code = Code(2);
    /// `F`: merged before a request.
    pub const FRONT_MERGE: Code = Code(3);
    /// `G`: a request was allocated.
    pub const GET: Code = Code(4);
    /// `S`: its process sleeps for want of a request.
    pub const SLEEP: Code = Code(5);
    /// `R`: the device refused it.
    pub const REQUEUE: Code = Code(6);
    /// `D`: it went to the device.
    pub const ISSUE: Code = Code(7);
    /// `C`: it came back.
    pub const COMPLETE: Code = Code(8);
    /// `P`: plugged.
    pub const PLUG: Code = Code(9);
    /// `U`: unplugged.
    pub const UNPLUG: Code = Code(10);
    /// `UT`: unplugged by the timer.
    pub const UNPLUG_TIMER: Code = Code(11);
    /// `I`: it went to the scheduler.
    pub const INSERT: Code = Code(12);
    /// `X`: a bio was split.
    pub const SPLIT: Code = Code(13);
    /// `B`: bounced.
    pub const BOUNCE: Code = Code(14);
    /// `A`: remapped to another device.
    pub const REMAP: Code = Code(15);
    /// Aborted.
    pub const ABORT: Code = Code(16);
    /// A driver's own data.
    pub const DRIVER_DATA: Code = Code(17);

    /// Among notes: the name of a process.
    pub const NOTE_PROCESS: Code = Code(0);
    /// Among notes: the wall clock.
    pub const NOTE_TIMESTAMP: Code = Code(1);
    /// Among notes: a message.
    pub const NOTE_MESSAGE: Code = Code(2);
}

/// What kind of I/O it is, as a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Categories(pub u32);

impl Categories {
    /// A read.
    pub const READ: Categories = Categories(1);
    /// A write, or a discard.
    pub const WRITE: Categories = Categories(1 << 1);
    /// A flush first; before Linux 2.6.37 a barrier.
    pub const FLUSH: Categories = Categories(1 << 2);
    /// A process waits for it.
    pub const SYNC: Categories = Categories(1 << 3);
    /// Concerns the queue.
    pub const QUEUE: Categories = Categories(1 << 4);
    /// Concerns a requeued request.
    pub const REQUEUE: Categories = Categories(1 << 5);
    /// Concerns an issued request.
    pub const ISSUE: Categories = Categories(1 << 6);
    /// Concerns a completed request.
    pub const COMPLETE: Categories = Categories(1 << 7);
    /// From a file system, or another reader or writer.
    pub const FS: Categories = Categories(1 << 8);
    /// A command passed through to the device.
    pub const PASSTHROUGH: Categories = Categories(1 << 9);
    /// A note, no I/O.
    pub const NOTIFY: Categories = Categories(1 << 10);
    /// Read-ahead.
    pub const AHEAD: Categories = Categories(1 << 11);
    /// Metadata.
    pub const META: Categories = Categories(1 << 12);
    /// A discard.
    pub const DISCARD: Categories = Categories(1 << 13);
    /// A driver's own data.
    pub const DRIVER_DATA: Categories = Categories(1 << 14);
    /// Durable when it ends.
    pub const FUA: Categories = Categories(1 << 15);

    /// Their names as blktrace's `-a` takes them, by bit.
    pub const NAMES: [&'static str; 16] = [
        "READ", "WRITE", "FLUSH", "SYNC", "QUEUE", "REQUEUE", "ISSUE", "COMPLETE", "FS", "PC",
        "NOTIFY", "AHEAD", "META", "DISCARD", "DRV_DATA", "FUA",
    ];

    /// The category of this name, in any case, with or without `BLK_TC_`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Categories> {
        let upper = name.to_ascii_uppercase();
        let name = upper.strip_prefix("BLK_TC_").unwrap_or(&upper);
        let place = Categories::NAMES.iter().position(|known| *known == name)?;
        Some(Categories(1 << place))
    }

    /// Whether all of `other` are in this set.
    #[must_use]
    pub const fn contains(self, other: Categories) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is in this set.
    #[must_use]
    pub const fn intersects(self, other: Categories) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Categories {
    type Output = Categories;
    fn bitor(self, other: Categories) -> Categories {
        Categories(self.0 | other.0)
    }
}

impl BitOrAssign for Categories {
    fn bitor_assign(&mut self, other: Categories) {
        self.0 |= other.0;
    }
}

/// A device as the kernel numbers it: 12 bits of major above 20 of minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceNumber(pub u32);

impl DeviceNumber {
    /// Major and minor together; what does not fit is cut.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> DeviceNumber {
        DeviceNumber(major << 20 | minor & 0xf_ffff)
    }

    /// The driver.
    #[must_use]
    pub const fn major(self) -> u32 {
        self.0 >> 20
    }

    /// Which of the driver's devices.
    #[must_use]
    pub const fn minor(self) -> u32 {
        self.0 & 0xf_ffff
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.major(), self.minor())
    }
}

/// One event, without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    /// When; counted from the first event, or the machine's own clock.
    pub at: Nanos,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// How long, in bytes.
    pub bytes: u32,
    /// The action.
    pub code: Code,
    /// To what kind of I/O.
    pub categories: Categories,
    /// The process that did it; for completions, the one that happened to run.
    pub pid: u32,
    /// The device.
    pub device: DeviceNumber,
    /// On which processor.
    pub cpu: u32,
    /// The processor's count of events, from 1; 0 in notes.
    pub sequence: u32,
    /// Of completions: the errno, 0 if done; old kernels have it negative.
    pub error: u16,
}

impl Default for Code {
    fn default() -> Code {
        Code::QUEUE
    }
}

impl Record {
    /// Whether it is a note and not an event.
    #[must_use]
    pub const fn is_note(&self) -> bool {
        self.categories.contains(Categories::NOTIFY)
    }

    /// Whether it is this note.
    #[must_use]
    pub fn is_note_of(&self, code: Code) -> bool {
        self.is_note() && self.code == code
    }

    /// Whether it is a command passed through to the device.
    #[must_use]
    pub const fn is_passthrough(&self) -> bool {
        self.categories.contains(Categories::PASSTHROUGH)
    }

    /// Whether data goes to the device, or away: everything but reads.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        self.categories.contains(Categories::WRITE)
    }

    /// How many sectors, rounded down as blkparse does.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        (self.bytes >> 9) as u64
    }

    /// The first sector after it.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors())
    }

    /// The record's place, by which [`InFlight`](paternoster_measure::InFlight) finds its I/O.
    pub(crate) fn extent(&self) -> Extent {
        let (device, write) = (self.device.0, self.is_write());
        Extent { device, write, sector: self.sector, end: self.end() }
    }

    /// A record of version 7 in little-endian order, with the length of its payload.
    #[must_use]
    pub fn encode(&self, payload: u16) -> [u8; RECORD_V7] {
        let mut bytes = [0; RECORD_V7];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let action = u32::from(self.code.0) | self.categories.0 << 16;
        put(0, &(MAGIC | 7).to_le_bytes());
        put(4, &self.sequence.to_le_bytes());
        put(8, &self.at.0.to_le_bytes());
        put(16, &self.sector.to_le_bytes());
        put(24, &self.bytes.to_le_bytes());
        put(28, &action.to_le_bytes());
        put(32, &self.pid.to_le_bytes());
        put(36, &self.device.0.to_le_bytes());
        put(40, &self.cpu.to_le_bytes());
        put(44, &self.error.to_le_bytes());
        put(46, &payload.to_le_bytes());
        bytes
    }
}

/// How the records of a stream are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The byte order is big-endian.
    pub big_endian: bool,
    /// 7 or 8.
    pub version: u8,
}

impl Layout {
    /// Bytes of a record without its payload.
    #[must_use]
    pub const fn record_bytes(self) -> usize {
        if self.version == 8 { RECORD_V8 } else { RECORD_V7 }
    }

    /// The contents of a record's first four bytes; the version may be unknown.
    #[must_use]
    pub const fn of_magic(bytes: [u8; 4]) -> Option<Layout> {
        let [little, big] = [u32::from_le_bytes(bytes), u32::from_be_bytes(bytes)];
        let (magic, big_endian) = if little & 0xffff_ff00 == MAGIC {
            (little, false)
        } else if big & 0xffff_ff00 == MAGIC {
            (big, true)
        } else {
            return None;
        };
        #[expect(clippy::cast_possible_truncation, reason = "the low byte is the version")]
        Some(Layout { big_endian, version: magic as u8 })
    }

    /// Whether records of this version can be read.
    #[must_use]
    pub const fn is_known(self) -> bool {
        matches!(self.version, 7 | 8)
    }

    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let field = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) }
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let field = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) }
    }

    fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (self.u32(bytes, at).into(), self.u32(bytes, at + 4).into());
        let (high, low): (u64, u64) =
            if self.big_endian { (first, second) } else { (second, first) };
        high << 32 | low
    }
}

/// A record with its payload's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The record.
    pub record: Record,
    /// Bytes of its payload, with a cgroup's if there is one.
    pub payload: u16,
    /// The payload begins with a cgroup.
    pub cgroup: bool,
}

impl Head {
    /// Reads a record of this layout; `None` if there are too few bytes.
    #[must_use]
    pub fn decode(layout: Layout, bytes: &[u8]) -> Option<Head> {
        if bytes.len() < layout.record_bytes() {
            return None;
        }
        let u32_at = |at| layout.u32(bytes, at);
        let (action, pid, device, tail) = if layout.version == 8 {
            (layout.u64(bytes, 32), u32_at(28), u32_at(40), 44)
        } else {
            (u32_at(28).into(), u32_at(32), u32_at(36), 40)
        };
        #[expect(clippy::cast_possible_truncation, reason = "the low half, and 32 bits above it")]
        let (code, categories) = (action as u16, (action >> 16) as u32);
        let record = Record {
            sequence: u32_at(4),
            at: Nanos(layout.u64(bytes, 8)),
            sector: layout.u64(bytes, 16),
            bytes: u32_at(24),
            code: Code(code & !CGROUP),
            categories: Categories(categories),
            pid,
            device: DeviceNumber(device),
            cpu: u32_at(tail),
            error: layout.u16(bytes, tail + 4),
        };
        let payload = layout.u16(bytes, tail + 6);
        Some(Head { record, payload, cgroup: code & CGROUP != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            at: Nanos(0x0102_0304_0506_0708),
            sector: 0x1112_1314_1516_1718,
            bytes: 4096,
            code: Code::ISSUE,
            categories: Categories::READ | Categories::SYNC | Categories::ISSUE | Categories::FS,
            pid: 4242,
            device: DeviceNumber::new(8, 64),
            cpu: 3,
            sequence: 77,
            error: 65531,
        }
    }

    /// Is a record the same when it was written and read again?
    #[test]
    fn what_is_encoded_is_decoded() {
        let bytes = record().encode(5);
        let layout = Layout::of_magic([bytes[0], bytes[1], bytes[2], bytes[3]]).unwrap();
        assert_eq!(layout, Layout { big_endian: false, version: 7 });
        let head = Head::decode(layout, &bytes).unwrap();
        assert_eq!(head, Head { record: record(), payload: 5, cgroup: false });
        assert_eq!(Head::decode(layout, &bytes[..47]), None);
    }

    /// Is the device number the kernel's, 12 and 20 bits, as in the golden files? 8,64: 0x800040.
    #[test]
    fn device_numbers_are_the_kernels() {
        assert_eq!(DeviceNumber::new(8, 64).0, 0x80_0040);
        assert_eq!(DeviceNumber(0x80_0040).to_string(), "8,64");
    }

    /// Are version 8's wider action and its other places understood, and a cgroup seen?
    #[test]
    fn version_8_has_other_places() {
        let mut bytes = [0_u8; RECORD_V8];
        bytes[..4].copy_from_slice(&(MAGIC | 8).to_be_bytes());
        bytes[28..32].copy_from_slice(&9_u32.to_be_bytes());
        let action = 1_u64 << 40 | u64::from((1_u32 | 1 << 4) << 16) | 1 << 8 | 1;
        bytes[32..40].copy_from_slice(&action.to_be_bytes());
        bytes[44..48].copy_from_slice(&2_u32.to_be_bytes());
        bytes[50..52].copy_from_slice(&8_u16.to_be_bytes());
        let layout = Layout::of_magic([bytes[0], bytes[1], bytes[2], bytes[3]]).unwrap();
        let head = Head::decode(layout, &bytes).unwrap();
        assert_eq!((layout.big_endian, layout.version), (true, 8));
        assert_eq!((head.record.pid, head.record.cpu, head.payload), (9, 2, 8));
        assert_eq!((head.record.code, head.cgroup), (Code::QUEUE, true));
        assert!(head.record.categories.contains(Categories(1 << 24)));
    }

    /// Are categories named as blktrace names them?
    #[test]
    fn categories_have_blktraces_names() {
        assert_eq!(Categories::by_name("blk_tc_pc"), Some(Categories::PASSTHROUGH));
        assert_eq!(Categories::by_name("Fua"), Some(Categories::FUA));
        assert_eq!(Categories::by_name("barrier"), None);
    }
}
