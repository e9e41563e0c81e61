// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writer: a trace as blktrace keeps it, in one stream or in a file for each processor.
//!
//! ```text
//! Writer     one stream, all processors, as `blkparse -d` leaves it: records as they come
//! PerCpu     sda.blktrace.0 │ clock, 77 = dd, Q (1), G (2), …
//!            sda.blktrace.1 │ (empty: nothing ran there)
//!            sda.blktrace.2 │ 77 = dd, C (1), …
//! ```
//!
//! Version 7, little-endian. [`PerCpu`] numbers the events of each processor from 1, names each
//! process on each processor before its first event there, and puts the clock before the first
//! file: as blkparse and btt expect. Names are given by process notes, which may come at any time
//! before; a clock that the trace lacks is 0.
//!
//! Invariants: I1 at most [`CPUS_MAX`] files and 2^17 names; I2 the events of a file are those
//! given, in order, except for their sequence.
//!
//! Source: TRACE-1, TRACE-2, TRACE-4, TRACE-13, TRACE-14.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use paternoster_core::Nanos;

use super::record::{Categories, Code, Record};
use crate::source::Entry;

/// How many processors a trace has at most.
pub const CPUS_MAX: u32 = 4096;
/// How many processes have names at most; others have none.
const PROCESSES_MAX: usize = 1 << 17;
/// Bytes of a name's payload.
const NAME_BYTES: usize = 16;

/// Writes records in one stream.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    without_messages: bool,
}

impl<W: io::Write> Writer<W> {
    /// A stream to `out`, which is best buffered.
    pub const fn new(out: W) -> Writer<W> {
        Writer { out, without_messages: false }
    }

    /// Leaves out messages (`-M`).
    #[must_use]
    pub fn without_messages(mut self) -> Writer<W> {
        self.without_messages = true;
        self
    }

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// What writing fails with; a payload of more than 65535 bytes.
    pub fn record(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        if self.without_messages && entry.record.is_note_of(Code::NOTE_MESSAGE) {
            return Ok(());
        }
        put(&mut self.out, entry)
    }

    /// Writes what is held back.
    ///
    /// # Errors
    ///
    /// What writing fails with.
    pub fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// One processor's file.
#[derive(Debug)]
struct File<W> {
    out: W,
    sequence: u32,
    /// Processes that were named in it.
    named: BTreeSet<u32>,
}

/// Writes records in a file for each processor.
#[derive(Debug)]
pub struct PerCpu<W, F> {
    open: F,
    files: Vec<File<W>>,
    names: BTreeMap<u32, [u8; NAME_BYTES]>,
    /// The clock, until it is written.
    clock: Option<[u8; 8]>,
    /// When the event before was, once there was one.
    last: Option<Nanos>,
}

impl<W: io::Write, F: FnMut(u32) -> io::Result<W>> PerCpu<W, F> {
    /// A trace whose file of processor N is what `open` makes of N; all from 0 to the last one are
    /// opened, in order.
    pub fn new(open: F) -> PerCpu<W, F> {
        let (files, names) = (Vec::new(), BTreeMap::new());
        PerCpu { open, files, names, clock: None, last: None }
    }

    /// Writes a record; names and clocks are kept until they are wanted.
    ///
    /// # Errors
    ///
    /// What opening or writing fails with; a processor beyond [`CPUS_MAX`]; a payload of more than
    /// 65535 bytes.
    pub fn record(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let record = entry.record;
        if record.is_note_of(Code::NOTE_PROCESS) {
            self.name(record.pid, entry.payload);
            return Ok(());
        }
        if record.is_note_of(Code::NOTE_TIMESTAMP) {
            self.clock = entry.payload.first_chunk::<8>().copied();
            return self.last.map_or(Ok(()), |last| self.write_clock(last));
        }
        self.open_up_to(record.cpu)?;
        if self.last.replace(record.at).is_none() {
            self.write_clock(record.at)?;
        }
        self.event(entry)
    }

    /// Makes sure that there is a file, and writes what is held back.
    ///
    /// # Errors
    ///
    /// What opening or writing fails with.
    pub fn finish(&mut self) -> io::Result<()> {
        self.open_up_to(0)?;
        self.files.iter_mut().try_for_each(|file| file.out.flush())
    }

    /// A name as the kernel writes it: followed by NULs.
    fn name(&mut self, pid: u32, payload: &[u8]) {
        if self.names.len() >= PROCESSES_MAX && !self.names.contains_key(&pid) {
            return;
        }
        let mut name = [0; NAME_BYTES];
        let given = payload.split(|&byte| byte == 0).next().unwrap_or_default();
        let length = given.len().min(NAME_BYTES - 1);
        name[..length].copy_from_slice(&given[..length]);
        if self.names.insert(pid, name) != Some(name) {
            for file in &mut self.files {
                file.named.remove(&pid);
            }
        }
    }

    fn open_up_to(&mut self, cpu: u32) -> io::Result<()> {
        if cpu >= CPUS_MAX {
            let told = format!("an event of processor {cpu}; there are at most {CPUS_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, told));
        }
        for number in u32::try_from(self.files.len()).unwrap_or(CPUS_MAX)..=cpu {
            let out = (self.open)(number)?;
            self.files.push(File { out, sequence: 0, named: BTreeSet::new() });
        }
        Ok(())
    }

    /// The clock in the first file, at the time of the trace: its own is another one if the events
    /// were counted from the first.
    fn write_clock(&mut self, at: Nanos) -> io::Result<()> {
        let record = note(Code::NOTE_TIMESTAMP, at, 0, 0);
        let payload = self.clock.take().unwrap_or_default();
        self.open_up_to(0)?;
        put(&mut self.files[0].out, &Entry { record, payload: &payload })
    }

    fn event(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let mut record = entry.record;
        let file = &mut self.files[record.cpu as usize];
        if !record.is_note() {
            if let Some(name) = self.names.get(&record.pid)
                && file.named.insert(record.pid)
            {
                let named = note(Code::NOTE_PROCESS, record.at, record.pid, record.cpu);
                put(&mut file.out, &Entry { record: named, payload: name })?;
            }
            file.sequence = file.sequence.wrapping_add(1);
            record.sequence = file.sequence;
        } else {
            record.sequence = 0;
        }
        put(&mut file.out, &Entry { record, payload: entry.payload })
    }
}

fn note(code: Code, at: Nanos, pid: u32, cpu: u32) -> Record {
    Record { at, code, categories: Categories::NOTIFY, pid, cpu, ..Record::default() }
}

fn put(out: &mut impl io::Write, entry: &Entry<'_>) -> io::Result<()> {
    let Ok(length) = u16::try_from(entry.payload.len()) else {
        let told = format!("a payload of {} bytes; 65535 fit", entry.payload.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, told));
    };
    out.write_all(&entry.record.encode(length))?;
    out.write_all(entry.payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blktrace::{Merged, Reader};
    use crate::source::Source as _;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Files in memory, by processor.
    type Files = Rc<RefCell<Vec<Vec<u8>>>>;

    struct Part(Files, usize);

    impl io::Write for Part {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut()[self.1].extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn open(files: &Files) -> impl FnMut(u32) -> io::Result<Part> + use<> {
        let files = files.clone();
        move |cpu| {
            assert_eq!(files.borrow().len(), cpu as usize);
            files.borrow_mut().push(Vec::new());
            Ok(Part(files.clone(), cpu as usize))
        }
    }

    fn event(at: u64, cpu: u32, pid: u32) -> Record {
        let categories = Categories::QUEUE | Categories::READ | Categories::FS;
        Record { at: Nanos(at), cpu, pid, categories, bytes: 4096, ..Record::default() }
    }

    fn codes(bytes: &[u8]) -> Vec<(Code, u32, u32, bool)> {
        let mut reader = Reader::new("t", bytes);
        let mut found = Vec::new();
        while let Some(entry) = reader.read() {
            let record = entry.record;
            found.push((record.code, record.pid, record.sequence, record.is_note()));
        }
        assert_eq!(reader.problems().count(), 0);
        found
    }

    /// Has each processor a file, idle ones too, with clock, names and sequence as in blktrace's?
    #[test]
    fn files_are_as_blktrace_leaves_them() {
        let files = Files::default();
        let mut trace = PerCpu::new(open(&files));
        let name = note(Code::NOTE_PROCESS, Nanos::ZERO, 77, 0);
        trace.record(&Entry { record: name, payload: b"dd" }).unwrap();
        for record in [event(5, 0, 77), event(6, 2, 77), event(7, 0, 77), event(8, 0, 78)] {
            trace.record(&Entry { record, payload: &[] }).unwrap();
        }
        trace.finish().unwrap();
        let files = files.borrow();
        let event = |pid, sequence| (Code::QUEUE, pid, sequence, false);
        let named = (Code::NOTE_PROCESS, 77, 0, true);
        let clock = (Code::NOTE_TIMESTAMP, 0, 0, true);
        assert_eq!(codes(&files[0]), [clock, named, event(77, 1), event(77, 2), event(78, 3)]);
        assert!(files[1].is_empty());
        assert_eq!(codes(&files[2]), [named, event(77, 1)]);
        // Two heads of 48 bytes; a clock of 8 bytes lies before the name of 16.
        let at = 48 + 8 + 48;
        assert_eq!(&files[0][at..at + 16], b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    }

    /// Are the files together the trace that was written?
    #[test]
    fn files_are_the_trace_again() {
        let files = Files::default();
        let mut trace = PerCpu::new(open(&files));
        let records: Vec<Record> =
            (0..100).map(|k| event(10 * u64::from(k), k * 7 % 3, 5)).collect();
        for &record in &records {
            trace.record(&Entry { record, payload: b"abc" }).unwrap();
        }
        trace.finish().unwrap();
        let files = files.borrow();
        let inputs = files.iter().enumerate();
        let mut merged = Merged::new(
            inputs.map(|(cpu, file)| (cpu.to_string(), u32::try_from(cpu).ok(), &file[..])),
        );
        for record in records {
            let entry = loop {
                let entry = merged.next().unwrap();
                if !entry.record.is_note() {
                    break entry;
                }
            };
            let sequence = entry.record.sequence;
            assert_eq!(entry, Entry { record: Record { sequence, ..record }, payload: b"abc" });
        }
        assert!(merged.next().is_none());
        assert_eq!(merged.problems().count(), 0);
    }

    /// Is a nonexistent processor refused, and a payload that does not fit?
    #[test]
    fn what_does_not_fit_is_refused() {
        let mut trace = PerCpu::new(|_| Ok(Vec::new()));
        let told = trace.record(&Entry { record: event(0, CPUS_MAX, 1), payload: &[] });
        assert_eq!(
            told.unwrap_err().to_string(),
            "an event of processor 4096; there are at most 4096"
        );
        let long = vec![0; 65536];
        let told =
            Writer::new(Vec::new()).record(&Entry { record: event(0, 0, 1), payload: &long });
        assert_eq!(told.unwrap_err().to_string(), "a payload of 65536 bytes; 65535 fit");
    }
}
