// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reader: one stream of binary records, in file order.
//!
//! The first record's magic gives byte order and version. Where a record should begin and does not,
//! the reader looks for the next place that looks like one and goes on there:
//!
//! ```text
//! [record][payload][record]#garbage##[record]        problem: 9 bytes at byte … are no record
//!                          └ skipped ┘
//! [record][payl                                      problem: the file ends within a record
//! ```
//!
//! The timestamp note's payload is turned into little-endian order, a cgroup's bytes are dropped;
//! everything else is passed on unchanged.
//!
//! Invariants: I1 no bytes make the reader panic; I2 it holds one buffer of [`BUFFER`] bytes.
//!
//! Source: TRACE-4 to TRACE-6, TRACE-9.

use std::io::Read;

use super::record::{CGROUP_BYTES, Code, Head, Layout, Record};
use crate::source::{Entry, Place, Problems};

/// Bytes that are held: several of the longest records (64 KiB and a head).
const BUFFER: usize = 1 << 18;
/// Bytes of a kernel's line about lost events.
const LOST_MAX: usize = 64;

/// Reads records one after the other.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    name: String,
    layout: Option<Layout>,
    buffer: Box<[u8]>,
    /// What of the buffer is not yet used.
    start: usize,
    end: usize,
    /// Bytes of the stream before the buffer.
    before: u64,
    ended: bool,
    problems: Problems,
}

impl<R: Read> Reader<R> {
    /// A reader of what messages call `name`.
    pub fn new(name: &str, input: R) -> Reader<R> {
        Reader {
            input,
            name: name.to_owned(),
            layout: None,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            before: 0,
            ended: false,
            problems: Problems::default(),
        }
    }

    /// The next record; `None` at the end of the stream.
    pub fn read(&mut self) -> Option<Entry<'_>> {
        let (record, payload) = self.advance()?;
        Some(Entry { record, payload: &self.buffer[payload.0..payload.1] })
    }

    /// The problems so far.
    #[must_use]
    pub const fn problems(&self) -> &Problems {
        &self.problems
    }

    /// Finds the next record and the place of its payload in the buffer.
    fn advance(&mut self) -> Option<(Record, (usize, usize))> {
        loop {
            let head = self.head()?;
            let layout = self.layout?;
            let whole = layout.record_bytes() + usize::from(head.payload);
            if !self.fill(whole) {
                self.cut_short();
                return None;
            }
            let payload_end = self.start + whole;
            let mut payload = self.start + layout.record_bytes();
            self.start = payload_end;
            if head.cgroup {
                payload = (payload + CGROUP_BYTES).min(payload_end);
            }
            if head.record.is_note_of(Code::NOTE_TIMESTAMP) {
                if payload_end - payload < 8 {
                    continue;
                }
                for field in [payload, payload + 4] {
                    let value = layout.u32(&self.buffer, field).to_le_bytes();
                    self.buffer[field..field + 4].copy_from_slice(&value);
                }
            }
            return Some((head.record, (payload, payload_end)));
        }
    }

    /// The head of the next record, after skipping other bytes; it is not consumed.
    fn head(&mut self) -> Option<Head> {
        if !self.fill(4) {
            self.cut_short();
            return None;
        }
        if !self.at_record() {
            self.skip_to_record()?;
        }
        let layout = self.layout?;
        if !self.fill(layout.record_bytes()) {
            self.cut_short();
            return None;
        }
        Head::decode(layout, &self.buffer[self.start..self.end])
    }

    /// Whether a record of the stream's layout begins here; the first one decides the layout.
    fn at_record(&mut self) -> bool {
        let at = self.start;
        let Some(bytes) = self.buffer[at..self.end].first_chunk::<4>() else { return false };
        match (Layout::of_magic(*bytes), self.layout) {
            (Some(found), Some(known)) => found == known,
            (Some(found), None) if found.is_known() => {
                self.layout = Some(found);
                true
            }
            _ => false,
        }
    }

    /// Goes on to where the next record begins, and reports what was left out.
    fn skip_to_record(&mut self) -> Option<()> {
        let from = self.place();
        let (version, lost) = (self.version_here(), self.lost_here());
        let mut skipped = 0_u64;
        let found = loop {
            self.start += 1;
            skipped += 1;
            if !self.fill(4) {
                skipped += (self.end - self.start) as u64;
                self.start = self.end;
                break false;
            }
            if self.at_record() {
                break true;
            }
        };
        self.problems.add(&self.name, from, || match (version, lost) {
            (Some(version), _) => {
                format!("unsupported trace version {version}; 7 and 8 can be read")
            }
            (None, Some(lost)) => format!("the kernel had no room for all events: {lost}"),
            (None, None) => format!("{skipped} bytes are no record of blktrace, and were left out"),
        });
        found.then_some(())
    }

    /// The version here, if this is a magic number of an unknown one.
    fn version_here(&self) -> Option<u8> {
        let bytes = self.buffer[self.start..self.end].first_chunk::<4>()?;
        Layout::of_magic(*bytes).filter(|layout| !layout.is_known()).map(|layout| layout.version)
    }

    /// A kernel pipe's report of missing events, such as `CPU:1 [LOST 5 EVENTS]`.
    fn lost_here(&self) -> Option<String> {
        let here = &self.buffer[self.start..self.end];
        let line = here[..here.len().min(LOST_MAX)].split(|byte| *byte == b'\n').next()?;
        let text = core::str::from_utf8(line).ok()?;
        (text.starts_with("CPU:") && text.ends_with("EVENTS]")).then(|| text.to_owned())
    }

    fn place(&self) -> Place {
        Place::Byte(self.before + self.start as u64)
    }

    /// Reports it if the stream ends within a record.
    fn cut_short(&mut self) {
        let left = self.end - self.start;
        if left > 0 {
            let place = self.place();
            self.problems.add(&self.name, place, || {
                format!("the trace ends within a record, of which there are {left} bytes")
            });
            self.start = self.end;
        }
    }

    /// Sees to it that `wanted` bytes can be looked at; `false` if there are no more.
    #[inline]
    fn fill(&mut self, wanted: usize) -> bool {
        self.end - self.start >= wanted || self.read_more(wanted)
    }

    #[cold]
    fn read_more(&mut self, wanted: usize) -> bool {
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
                    self.problems.add(&self.name, place, || format!("cannot be read: {error}"));
                }
            }
        }
        self.end >= wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blktrace::record::{Categories, DeviceNumber};
    use paternoster_core::Nanos;

    fn record(sector: u64) -> Record {
        Record {
            at: Nanos(sector * 10),
            sector,
            bytes: 512,
            code: Code::QUEUE,
            categories: Categories::QUEUE | Categories::READ | Categories::FS,
            pid: 1,
            device: DeviceNumber::new(8, 0),
            cpu: 0,
            sequence: 1,
            error: 0,
        }
    }

    fn sectors(bytes: &[u8]) -> (Vec<u64>, Problems) {
        let mut reader = Reader::new("t", bytes);
        let mut found = Vec::new();
        while let Some(entry) = reader.read() {
            found.push(entry.record.sector);
        }
        (found, reader.problems().clone())
    }

    /// Is garbage between records left out and reported, with its place and length?
    #[test]
    fn garbage_is_left_out_and_told() {
        let bytes = [&record(1).encode(0)[..], b"garbage", &record(2).encode(0)[..]].concat();
        let (found, problems) = sectors(&bytes);
        assert_eq!(found, [1, 2]);
        let told = problems.shown()[0].to_string();
        assert_eq!(told, "t:byte 48: 7 bytes are no record of blktrace, and were left out");
    }

    /// Does a trace that was cut give what it holds, and say so?
    #[test]
    fn a_cut_trace_gives_what_it_holds() {
        let bytes = [&record(1).encode(0)[..], &record(2).encode(3)[..], b"ab"].concat();
        let (found, problems) = sectors(&bytes);
        assert_eq!(found, [1]);
        let told = problems.shown()[0].to_string();
        // Of 48 bytes of head and 3 of payload, 50 are there.
        assert_eq!(told, "t:byte 48: the trace ends within a record, of which there are 50 bytes");
    }

    /// Is the kernel's report of lost events passed on?
    #[test]
    fn lost_events_are_told() {
        let line = b"CPU:1 [LOST 31171 EVENTS]\n";
        let bytes = [&line[..], &record(1).encode(0)[..]].concat();
        let (found, problems) = sectors(&bytes);
        assert_eq!(found, [1]);
        let told = problems.shown()[0].to_string();
        let words = "the kernel had no room for all events: CPU:1 [LOST 31171 EVENTS]";
        assert_eq!(told, format!("t:byte 0: {words}"));
    }

    /// Is another version named?
    #[test]
    fn an_unknown_version_is_named() {
        let (found, problems) = sectors(b"\x05tae and more");
        assert!(found.is_empty());
        let told = problems.shown()[0].to_string();
        assert_eq!(told, "t:byte 0: unsupported trace version 5; 7 and 8 can be read");
    }

    /// Are a cgroup's eight bytes dropped before the payload?
    #[test]
    fn a_cgroup_is_dropped() {
        let mut head = record(1).encode(10);
        // Bit 8 of the action is the lowest bit of its second byte.
        head[29] |= 1;
        let bytes = [&head[..], b"12345678ab"].concat();
        let mut reader = Reader::new("t", &bytes[..]);
        let entry = reader.read().unwrap();
        assert_eq!((entry.record, entry.payload), (record(1), &b"ab"[..]));
    }
}
