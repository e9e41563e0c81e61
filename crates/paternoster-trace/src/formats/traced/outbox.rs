// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outbox: events put in order of time, counted from the first, with the names of their processes
//! in front.
//!
//! ```text
//! lines      5 7 6 9 …      a live text has what one processor said, then what the next said
//! window     5 6 7 9        sorted in as they come; the first leaves if they are more than WINDOW
//! names                     leave at once, before everything that waits
//! plugs      P of 77 ?      wait for the device of the next event of 77, then sorted in
//! ```
//!
//! Invariants: I1 times do not go back: an event later than the window is reported, and gets the
//! time of the one before; I2 at most [`WINDOW`] events, [`PROCESSES_MAX`] names and [`HELD_MAX`]
//! plugs are held, these for [`HELD_LINES`] lines.

use std::collections::{BTreeMap, VecDeque};

use paternoster_core::Nanos;

use crate::blktrace::{Categories, Code, DeviceNumber, Record};
use crate::source::{Entry, Place, Problems};

/// How many events are sorted together.
const WINDOW: usize = 4096;
/// How many processes are known by name.
const PROCESSES_MAX: usize = 1 << 17;
/// Bytes of a name; a kernel keeps no more.
const NAME_MAX: usize = 15;
/// How many plugs wait for a device.
const HELD_MAX: usize = 256;
/// For how many lines.
const HELD_LINES: u64 = 1000;

/// An event that waits, with its place in the text.
#[derive(Debug, Default)]
struct Item {
    record: Record,
    payload: Vec<u8>,
    line: u64,
}

/// Events on their way out.
#[derive(Debug)]
pub(in crate::formats) struct Outbox {
    name: String,
    names: BTreeMap<u32, Box<[u8]>>,
    notes: VecDeque<Item>,
    window: VecDeque<Item>,
    held: VecDeque<Item>,
    /// The last device of an event.
    device: DeviceNumber,
    origin: Option<Nanos>,
    last: Nanos,
    current: Item,
    /// The process that was named last, and its name.
    named: Option<(u32, Box<[u8]>)>,
}

impl Outbox {
    /// Events of what messages call `name`.
    pub(in crate::formats) fn new(name: &str) -> Outbox {
        Outbox {
            name: name.to_owned(),
            names: BTreeMap::new(),
            notes: VecDeque::new(),
            window: VecDeque::new(),
            held: VecDeque::new(),
            device: DeviceNumber::default(),
            origin: None,
            last: Nanos::ZERO,
            current: Item::default(),
            named: None,
        }
    }

    /// A process has this name; writes a note, unless it was known.
    pub(in crate::formats) fn name(&mut self, pid: u32, name: &[u8]) {
        let name = &name[..name.len().min(NAME_MAX)];
        let same = |(last, known): &(u32, Box<[u8]>)| *last == pid && **known == *name;
        if self.named.as_ref().is_some_and(same) {
            return;
        }
        self.named = Some((pid, name.into()));
        match self.names.get(&pid) {
            Some(known) if **known == *name => return,
            None if self.names.len() >= PROCESSES_MAX => return,
            _ => self.names.insert(pid, name.into()),
        };
        let mut payload = name.to_vec();
        payload.resize(NAME_MAX + 1, 0);
        let (code, categories) = (Code::NOTE_PROCESS, Categories::NOTIFY);
        let record = Record { code, categories, pid, ..Record::default() };
        self.notes.push_back(Item { record, payload, line: 0 });
    }

    /// Takes an event; its time is the text's.
    pub(in crate::formats) fn push(&mut self, record: Record, payload: Vec<u8>, line: u64) {
        if !record.is_note() {
            self.device = record.device;
            if !self.held.is_empty() {
                self.release(|held| held.record.pid == record.pid, record.device);
            }
        }
        self.release(|held| held.line + HELD_LINES < line, self.device);
        self.sort_in(Item { record, payload, line });
    }

    /// Takes an event whose device follows from the next event of its process.
    pub(in crate::formats) fn hold(&mut self, record: Record, payload: Vec<u8>, line: u64) {
        if self.held.len() >= HELD_MAX {
            let oldest = self.held.front().map_or(0, |held| held.line);
            self.release(|held| held.line == oldest, self.device);
        }
        self.held.push_back(Item { record, payload, line });
    }

    /// Gives some of the waiting plugs a device.
    fn release(&mut self, which: impl Fn(&Item) -> bool, device: DeviceNumber) {
        let mut place = 0;
        while place < self.held.len() {
            if !which(&self.held[place]) {
                place += 1;
            } else if let Some(mut item) = self.held.remove(place) {
                item.record.device = device;
                self.sort_in(item);
            }
        }
    }

    fn sort_in(&mut self, item: Item) {
        let at = item.record.at;
        if self.window.back().is_none_or(|last| last.record.at <= at) {
            self.window.push_back(item);
        } else {
            let place = self.window.partition_point(|waiting| waiting.record.at <= at);
            self.window.insert(place, item);
        }
    }

    /// Whether something is to leave before the next line is read.
    pub(in crate::formats) fn is_full(&self) -> bool {
        !self.notes.is_empty() || self.window.len() > WINDOW
    }

    /// There is no next line.
    pub(in crate::formats) fn end(&mut self) {
        self.release(|_| true, self.device);
    }

    /// The next event.
    pub(in crate::formats) fn pop(&mut self, problems: &mut Problems) -> Option<Entry<'_>> {
        if let Some(note) = self.notes.pop_front() {
            self.current = note;
        } else {
            self.current = self.window.pop_front()?;
            let at = self.current.record.at;
            let origin = *self.origin.get_or_insert(at);
            if at < self.last {
                let (line, late) = (self.current.line, self.last.0 - at.0);
                problems.add(&self.name, Place::Line(line), || {
                    format!(
                        "the event is {late} ns earlier than one more than {WINDOW} lines before"
                    )
                });
            }
            self.last = self.last.max(at);
            self.current.record.at = Nanos(self.last.0 - origin.0);
        }
        Some(Entry { record: self.current.record, payload: &self.current.payload })
    }
}
