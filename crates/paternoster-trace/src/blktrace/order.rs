// SPDX-License-Identifier: MIT OR Apache-2.0
//! Order: one stream in which the events of several processors come in blocks, as from a pipe.
//!
//! `blktrace -o -` and a kernel's `trace_pipe` write what one processor had, then what the next
//! had. The stream is read a window at a time; a window that is out of order is sorted together
//! with the one after it, and its first half passed on:
//!
//! ```text
//! window        1 4 7 2 3 │ 5 9 6 8 …
//! sorted        1 2 3 4 5 │ 6 7 8 9          events of one time keep their order
//!               passed on │ kept
//! ```
//!
//! A stream already in order is passed on unchanged. Names and clocks, which carry the time when
//! they were written, not one of the trace, stay after the event before them. An event later by
//! more than a window is reported as a problem and gets the time of the event before it.
//!
//! Invariants: I1 times do not go back, those notes apart; I2 at most two windows are held:
//! [`WINDOW`] records, or [`PAYLOAD_MAX`] bytes of payloads.
//!
//! Source: TRACE-3.

use std::io::Read;

use paternoster_core::Nanos;

use super::reader::Reader;
use super::record::{Code, Record};
use crate::source::{Entry, Place, Problems, Source};

/// Records that are sorted together, twice over.
pub const WINDOW: usize = 1 << 15;
/// Bytes of payloads of one window.
pub const PAYLOAD_MAX: usize = 4 << 20;

/// A waiting record, with its sort time and the place of its payload.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    key: Nanos,
    record: Record,
    payload: (u32, u32),
}

/// Puts the events of a stream in order.
#[derive(Debug)]
pub struct Ordered<R> {
    reader: Reader<R>,
    name: String,
    /// The window being passed on and the one after it, in order, from `next` on.
    waiting: Vec<Waiting>,
    payloads: Vec<u8>,
    next: usize,
    /// How many of `waiting` may be passed on before the next window must be read.
    ready: usize,
    ended: bool,
    /// The key of the last one that was passed on.
    last: Nanos,
    late: Problems,
    problems: Problems,
}

/// Notes whose time is not one of the trace.
pub(super) fn stands_aside(record: &Record) -> bool {
    record.is_note() && record.code != Code::NOTE_MESSAGE
}

impl<R: Read> Ordered<R> {
    /// The events of what messages call `name`, in order.
    pub fn new(name: &str, input: R) -> Ordered<R> {
        Ordered {
            reader: Reader::new(name, input),
            name: name.to_owned(),
            waiting: Vec::new(),
            payloads: Vec::new(),
            next: 0,
            ready: 0,
            ended: false,
            last: Nanos::ZERO,
            late: Problems::default(),
            problems: Problems::default(),
        }
    }

    /// Reads windows until there is something to pass on.
    fn read_windows(&mut self) {
        self.forget_passed();
        let mut sorted = self.read_window();
        if !self.ended && self.waiting.len() < 2 * WINDOW {
            sorted &= self.read_window();
        }
        if !sorted {
            self.waiting.sort_by_key(|waiting| waiting.key);
        }
        self.ready = if self.ended { self.waiting.len() } else { self.waiting.len().div_ceil(2) };
        self.problems = self.reader.problems().clone();
        self.problems.extend(&self.late);
    }

    /// Drops what was passed on, and its payloads.
    fn forget_passed(&mut self) {
        self.waiting.drain(..self.next);
        self.next = 0;
        let mut kept = Vec::new();
        for waiting in &mut self.waiting {
            let (from, to) = (waiting.payload.0 as usize, waiting.payload.1 as usize);
            waiting.payload = store(&mut kept, &self.payloads[from..to]);
        }
        self.payloads = kept;
    }

    /// Reads one window after the waiting ones; returns whether all of it is in order.
    fn read_window(&mut self) -> bool {
        let mut sorted = true;
        let mut key = self.waiting.last().map_or(self.last, |waiting| waiting.key);
        let room = self.payloads.len() + PAYLOAD_MAX;
        for _ in 0..WINDOW {
            let Some(entry) = self.reader.read() else {
                self.ended = true;
                break;
            };
            if !stands_aside(&entry.record) {
                sorted &= entry.record.at >= key;
                key = entry.record.at;
            }
            let payload = store(&mut self.payloads, entry.payload);
            self.waiting.push(Waiting { key, record: entry.record, payload });
            if self.payloads.len() >= room {
                break;
            }
        }
        sorted
    }
}

/// Appends a payload; returns its place.
fn store(payloads: &mut Vec<u8>, payload: &[u8]) -> (u32, u32) {
    let from = payloads.len();
    payloads.extend_from_slice(payload);
    let place = |at: usize| u32::try_from(at).expect("two windows of payloads, a few MiB");
    (place(from), place(payloads.len()))
}

impl<R: Read> Source for Ordered<R> {
    fn next(&mut self) -> Option<Entry<'_>> {
        if self.next >= self.ready {
            if self.ended && self.next >= self.waiting.len() {
                return None;
            }
            self.read_windows();
        }
        let waiting = self.waiting.get(self.next)?;
        self.next += 1;
        let mut record = waiting.record;
        if !stands_aside(&record) {
            if record.at < self.last {
                let (at, last, sector) = (record.at.0, self.last.0, record.sector);
                self.late.add(&self.name, Place::Byte(0), || {
                    format!("an event at {at} ns (sector {sector}) comes behind one at {last} ns")
                });
                self.problems = self.reader.problems().clone();
                self.problems.extend(&self.late);
                record.at = self.last;
            }
            self.last = record.at;
        }
        let payload = &self.payloads[waiting.payload.0 as usize..waiting.payload.1 as usize];
        Some(Entry { record, payload })
    }

    fn problems(&self) -> &Problems {
        &self.problems
    }
}
