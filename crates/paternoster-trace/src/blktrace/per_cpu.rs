// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per CPU: records as blktrace leaves them, one file for each processor.
//!
//! Every processor numbers its events from 1; notes have number 0. Each file begins with the wall
//! clock, and before the first event of a process in a file stands its name, so that each can be
//! read by itself. The files are made before the run, also for processors on which nothing
//! happens: readers stop at the first number that is missing.
//!
//! Limit: a record of a processor that has no file goes to the last one's, as that one's.
//!
//! Source: spec `trace.md` 1.1, 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::record::{Categories, Code, Record};

/// Writes the files of several processors.
#[derive(Debug)]
pub struct PerCpu<W> {
    files: Vec<W>,
    /// By processor: how many events it had.
    counts: Vec<u32>,
    /// The names of processes, as they were told.
    names: BTreeMap<u32, Vec<u8>>,
    /// In which files they stand.
    named: BTreeSet<(u32, usize)>,
}

impl<W: Write> PerCpu<W> {
    /// A writer to these files, by number of the processor; there is at least one.
    ///
    /// # Panics
    /// Without any file.
    pub fn new(files: Vec<W>) -> PerCpu<W> {
        assert!(!files.is_empty(), "a machine has a processor");
        let counts = vec![0; files.len()];
        PerCpu { files, counts, names: BTreeMap::new(), named: BTreeSet::new() }
    }

    /// Writes a record with its payload.
    ///
    /// # Errors
    /// What the file says.
    pub fn record(&mut self, record: &Record, payload: &[u8]) -> io::Result<()> {
        let last = self.files.len() - 1;
        let place = usize::try_from(record.cpu).unwrap_or(last).min(last);
        if record.is_note_of(Code::NOTE_TIMESTAMP) {
            return (0..self.files.len()).try_for_each(|each| self.put(each, record, payload));
        }
        if record.is_note_of(Code::NOTE_PROCESS) {
            self.names.insert(record.pid, payload.to_vec());
            return Ok(());
        }
        if !record.is_note() {
            self.name(place, record)?;
            self.counts[place] = self.counts[place].wrapping_add(1);
            let sequence = self.counts[place];
            return self.put(place, &Record { sequence, ..*record }, payload);
        }
        self.put(place, record, payload)
    }

    /// Puts the name of an event's process before it, unless it stands there.
    fn name(&mut self, place: usize, event: &Record) -> io::Result<()> {
        if !self.named.insert((event.pid, place)) {
            return Ok(());
        }
        let Some(name) = self.names.get(&event.pid).cloned() else { return Ok(()) };
        let (code, categories) = (Code::NOTE_PROCESS, Categories::NOTIFY);
        let (at, pid) = (event.at, event.pid);
        self.put(place, &Record { at, pid, code, categories, ..Record::default() }, &name)
    }

    fn put(&mut self, place: usize, record: &Record, payload: &[u8]) -> io::Result<()> {
        let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
        let cpu = u32::try_from(place).unwrap_or(u32::MAX);
        let file = &mut self.files[place];
        file.write_all(&Record { cpu, ..*record }.encode(length))?;
        file.write_all(&payload[..usize::from(length)])
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// What a file says.
    pub fn finish(mut self) -> io::Result<()> {
        self.files.iter_mut().try_for_each(Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blktrace::{DeviceNumber, Merged};
    use crate::source::Source;
    use paternoster::Nanos;

    fn record(at: u64, cpu: u32, code: Code, categories: Categories) -> Record {
        let device = DeviceNumber::new(8, 0);
        Record { at: Nanos(at), pid: 7, cpu, code, categories, device, ..Record::default() }
    }

    /// Has every file numbers from 1, the clock, and the name before the process's first event
    /// there? And are they one stream again when they are merged?
    #[test]
    fn every_file_stands_by_itself() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut writer = PerCpu::new(vec![&mut first, &mut second]);
        let mut put = |record: &Record, payload: &[u8]| writer.record(record, payload).unwrap();
        put(&record(5, 0, Code::NOTE_TIMESTAMP, Categories::NOTIFY), &[0; 8]);
        put(&record(5, 0, Code::NOTE_PROCESS, Categories::NOTIFY), b"cp\0");
        let queue = Categories::QUEUE | Categories::FS;
        for (at, cpu) in [(5, 0), (6, 1), (7, 0), (9, 1)] {
            put(&record(at, cpu, Code::QUEUE, queue), &[]);
        }
        writer.finish().unwrap();
        let files = [first, second].into_iter().enumerate();
        let named = |(cpu, bytes): (usize, Vec<u8>)| {
            (format!("t.blktrace.{cpu}"), u32::try_from(cpu).ok(), io::Cursor::new(bytes))
        };
        let mut merged = Merged::new(files.map(named));
        let (mut events, mut names, mut clocks) = (Vec::new(), 0, 0);
        while let Some(entry) = merged.next() {
            let record = entry.record;
            if record.is_note() {
                names += u32::from(record.code == Code::NOTE_PROCESS);
                clocks += u32::from(record.code == Code::NOTE_TIMESTAMP);
            } else {
                events.push((record.at.0, record.cpu, record.sequence));
            }
        }
        assert_eq!(events, [(0, 0, 1), (1, 1, 1), (2, 0, 2), (4, 1, 2)]);
        assert_eq!((names, clocks, merged.problems().count()), (2, 2, 0));
    }
}
