// SPDX-License-Identifier: MIT OR Apache-2.0
//! vscsi: a hypervisor's binary trace of a virtual disk's SCSI commands, as in the CloudPhysics
//! traces.
//!
//! ```text
//! offset   0       4      8    12      14      16   24
//! v1       serial  bytes  SGs  command version lbn  time           32 bytes, little-endian
//! offset   0       2       4      8     12   16   24    32
//! v2       command version serial bytes SGs  lbn  time  response   40 bytes
//! ```
//!
//! The version is in the high byte of its field, times are in microseconds, the lbn is a sector of
//! 512 bytes. Version 1 gives arrivals only, version 2 also `D` at once and `C` after the response
//! time. Commands that read or write no blocks are skipped. Times count from the first record; the
//! disk has no name and is called `disk`.
//!
//! The first record decides the version. A record of another is reported and skipped, as is an
//! incomplete one at the end.
//!
//! Source: TRACE-50; version 1: a real file; version 2: its published order of fields.

use std::io::Read;

use super::access::{Access, Accesses};
use super::names::Names;
use crate::blktrace::Categories;
use crate::source::{Place, Problems};

/// What the disk is called.
pub(super) const DISK: &str = "disk";
/// Bytes of a record of version 1, and of version 2.
const RECORD: [usize; 2] = [32, 40];
/// Records that are looked at to recognise the format.
const LOOKED_AT: usize = 16;
/// No I/O is beyond this sector.
const SECTOR_MAX: u64 = 1 << 54;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn record_bytes(self) -> usize {
        RECORD[self as usize]
    }

    /// Offsets of command, version, bytes, lbn and time.
    const fn offsets(self) -> [usize; 5] {
        match self {
            Version::One => [12, 14, 4, 16, 24],
            Version::Two => [0, 2, 8, 16, 24],
        }
    }

    /// Whether a record of this version may be here.
    fn fits(self, record: &[u8]) -> bool {
        let [command, version, ..] = self.offsets();
        let number = self as u8 + 1;
        record.len() >= self.record_bytes()
            && record[version + 1] == number
            && record[command + 1] == 0
    }

    /// The version of the first records.
    fn of(head: &[u8]) -> Option<Version> {
        [Version::One, Version::Two].into_iter().find(|version| {
            let mut records = head.chunks_exact(version.record_bytes()).take(LOOKED_AT);
            head.len() >= version.record_bytes() && records.all(|record| version.fits(record))
        })
    }
}

/// Whether these bytes begin such a trace.
pub(super) fn looks_like(head: &[u8]) -> bool {
    Version::of(head).is_some()
}

/// What a SCSI command does to blocks, if it does anything.
pub(super) const fn kind(command: u16) -> Option<Categories> {
    match command {
        // READ and WRITE with 6, 10, 12 and 16 bytes; WRITE AND VERIFY, WRITE SAME.
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Categories::READ),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x41 | 0x93 => Some(Categories::WRITE),
        // SYNCHRONIZE CACHE.
        0x35 | 0x91 => Some(Categories::FLUSH),
        _ => None,
    }
}

/// The records of a trace as accesses.
#[derive(Debug)]
pub(super) struct Vscsi<R> {
    input: R,
    file: String,
    version: Option<Version>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes of the trace before the buffer.
    before: u64,
    ended: bool,
}

impl<R: Read> Vscsi<R> {
    /// The accesses of what messages call `file`.
    pub(super) fn new(file: &str, input: R) -> Vscsi<R> {
        let buffer = vec![0; 1 << 16].into_boxed_slice();
        let (file, version) = (file.to_owned(), None);
        Vscsi { input, file, version, buffer, start: 0, end: 0, before: 0, ended: false }
    }

    /// Reads until there are this many bytes, or no more.
    fn fill(&mut self, wanted: usize, problems: &mut Problems) {
        if self.end - self.start >= wanted || self.ended {
            return;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.before += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        while self.end < wanted && !self.ended {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    let place = Place::Byte(self.before + self.end as u64);
                    problems.add(&self.file, place, || format!("cannot be read: {error}"));
                }
            }
        }
    }

    /// The version, from the first records.
    fn version(&mut self, problems: &mut Problems) -> Option<Version> {
        if self.version.is_none() {
            self.fill(LOOKED_AT * RECORD[1], problems);
            let head = &self.buffer[self.start..self.end];
            self.version = Version::of(head).or_else(|| {
                // The first record alone, if later ones are wrong.
                let first = &head[..head.len().min(RECORD[1])];
                [Version::One, Version::Two].into_iter().find(|version| version.fits(first))
            });
            if self.version.is_none() && !head.is_empty() {
                problems.add(&self.file, Place::Byte(0), || {
                    "this is no vscsi trace: its records have a version of 1 or 2".to_owned()
                });
                self.start = self.end;
                self.ended = true;
            }
        }
        self.version
    }

    /// The access in the record at `start`; `None` if the record is not a read or write.
    fn access(
        &self,
        version: Version,
        names: &mut Names,
        problems: &mut Problems,
    ) -> Option<Access> {
        let record = &self.buffer[self.start..self.start + version.record_bytes()];
        let place = Place::Byte(self.before + self.start as u64);
        let [command, _, bytes, lbn, time] = version.offsets();
        if !version.fits(record) {
            problems.add(&self.file, place, || {
                format!("this is no record of version {}, as the first one is", version as u8 + 1)
            });
            return None;
        }
        let kind = kind(record[command].into())?;
        let (sector, bytes) = (u64_at(record, lbn), u32_at(record, bytes));
        let micros = |at| u64_at(record, at).checked_mul(1000);
        let response = if version == Version::Two { micros(32).map(Some) } else { Some(None) };
        let (Some(arrival), Some(response), true) = (micros(time), response, sector < SECTOR_MAX)
        else {
            problems.add(&self.file, place, || {
                let time = u64_at(record, time);
                format!(
                    "sector {sector}, {time} us: a sector is below 2^54, and times below 2^64 ns"
                )
            });
            return None;
        };
        let device = names.device(DISK.as_bytes(), str::to_owned).unwrap_or_default();
        let mut access = Access::new(arrival, kind, sector, bytes, device);
        access.place = place;
        Some(response.map_or(access, |response| access.answered_after(response)))
    }
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from(u32_at(record, at + 4)) << 32 | u64::from(u32_at(record, at))
}

impl<R: Read> Accesses for Vscsi<R> {
    fn next(&mut self, names: &mut Names, problems: &mut Problems) -> Option<Access> {
        let version = self.version(problems)?;
        loop {
            self.fill(version.record_bytes(), problems);
            let left = self.end - self.start;
            if left < version.record_bytes() {
                let place = Place::Byte(self.before + self.start as u64);
                if left > 0 {
                    problems.add(&self.file, place, || {
                        format!("the trace ends within a record, of which there are {left} bytes")
                    });
                    self.start = self.end;
                }
                return None;
            }
            let access = self.access(version, names, problems);
            self.start += version.record_bytes();
            if access.is_some() {
                return access;
            }
        }
    }

    fn file(&self) -> &str {
        &self.file
    }
}
