// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merge: the files of several processors as one stream in order of time, counted from the first
//! event.
//!
//! ```text
//! sda.blktrace.0   3 5 9        genesis = 3
//! sda.blktrace.1   4 5 6        0(3) 1(4) 2(5, file 0) 2(5, file 1) 3(6) 6(9)
//! ```
//!
//! Each file is taken to be in order; the one whose next event is earliest goes first. Ties follow
//! blkparse, which keeps the files in a line, by their next events: a file goes on while it is not
//! later than the next in line, and otherwise is put before those of its time. When the line is
//! made, a file is put after the first one if that has its time.
//!
//! Names of processes and clocks keep their time, and come as soon as they are read. A record of
//! another processor than its file's is refused, as in blkparse. Events before the first one (a
//! file that is out of order) count as that.
//!
//! Source: TRACE-15 to TRACE-17.

use std::collections::VecDeque;
use std::io::Read;

use paternoster_core::Nanos;

use super::order::stands_aside;
use super::reader::Reader;
use super::record::Record;
use crate::source::{Entry, Place, Problems, Source};

/// One file, with the record that comes next.
#[derive(Debug)]
struct Stream<R> {
    reader: Reader<R>,
    name: String,
    cpu: Option<u32>,
    head: Option<Record>,
    payload: Vec<u8>,
}

impl<R: Read> Stream<R> {
    /// Reads the next record of this processor.
    fn advance(&mut self, problems: &mut Problems) {
        self.head = None;
        while let Some(entry) = self.reader.read() {
            let own = self.cpu.unwrap_or(entry.record.cpu);
            if entry.record.cpu != own {
                let (cpu, sequence) = (entry.record.cpu, entry.record.sequence);
                problems.add(&self.name, Place::Byte(0), || {
                    format!("record {sequence} is of processor {cpu}, the file of {own}")
                });
                continue;
            }
            self.head = Some(entry.record);
            self.payload.clear();
            self.payload.extend_from_slice(entry.payload);
            return;
        }
        problems.extend(self.reader.problems());
    }
}

/// Several files as one stream.
#[derive(Debug)]
pub struct Merged<R> {
    streams: Vec<Stream<R>>,
    /// The streams that have an event, by its time, once the first events are known.
    line: Option<VecDeque<usize>>,
    /// The stream whose record went last.
    current: usize,
    genesis: Option<Nanos>,
    last: Nanos,
    problems: Problems,
    payload: Vec<u8>,
}

impl<R: Read> Merged<R> {
    /// Merges files, each with its name and its processor if only that one's records belong there.
    pub fn new(files: impl IntoIterator<Item = (String, Option<u32>, R)>) -> Merged<R> {
        let mut problems = Problems::default();
        let stream = |(name, cpu, input): (String, Option<u32>, R)| {
            let reader = Reader::new(&name, input);
            let mut stream = Stream { reader, name, cpu, head: None, payload: Vec::new() };
            stream.advance(&mut problems);
            stream
        };
        let streams = files.into_iter().map(stream).collect();
        let (genesis, last, payload) = (None, Nanos::ZERO, Vec::new());
        Merged { streams, line: None, current: 0, genesis, last, problems, payload }
    }

    /// The machine's clock at the first event, once that was read.
    #[must_use]
    pub const fn genesis(&self) -> Option<Nanos> {
        self.genesis
    }

    /// The stream whose head goes next; those with a separate note go at once.
    fn choose(&mut self) -> Option<usize> {
        let aside = |stream: &Stream<R>| stream.head.as_ref().is_some_and(stands_aside);
        let Some(line) = &mut self.line else {
            // Nothing but notes has gone yet.
            let note = self.streams.iter().position(aside);
            return note.or_else(|| self.line_up());
        };
        if aside(self.streams.get(self.current)?) {
            return Some(self.current);
        }
        let first = *line.front()?;
        let due = |place: usize| self.streams[place].head.map(|head| head.at);
        let goes_on = |at| line.get(1).is_none_or(|&next| due(next) >= Some(at));
        match due(first) {
            Some(at) if goes_on(at) => {}
            Some(at) => {
                line.pop_front();
                let place = line.partition_point(|&other| due(other) < Some(at));
                line.insert(place, first);
            }
            None => {
                line.pop_front();
            }
        }
        line.front().copied()
    }

    /// Puts the streams in line; the first of them.
    fn line_up(&mut self) -> Option<usize> {
        let mut line: VecDeque<usize> = VecDeque::new();
        let due = |place: usize| self.streams[place].head.map(|head| head.at);
        for (place, at) in (0..self.streams.len()).filter_map(|place| Some((place, due(place)?))) {
            let earlier = line.partition_point(|&other| due(other) < Some(at));
            let tied = earlier == 0 && line.front().is_some_and(|&first| due(first) == Some(at));
            line.insert(earlier + usize::from(tied), place);
        }
        let first = line.front().copied();
        self.line = Some(line);
        first
    }
}

impl<R: Read> Source for Merged<R> {
    fn next(&mut self) -> Option<Entry<'_>> {
        let place = self.choose()?;
        self.current = place;
        let stream = &mut self.streams[place];
        let mut record = stream.head.take()?;
        core::mem::swap(&mut self.payload, &mut stream.payload);
        stream.advance(&mut self.problems);
        if !stands_aside(&record) {
            let genesis = *self.genesis.get_or_insert(record.at);
            self.last = self.last.max(Nanos(record.at.0.saturating_sub(genesis.0)));
            record.at = self.last;
        }
        Some(Entry { record, payload: &self.payload })
    }

    fn problems(&self) -> &Problems {
        &self.problems
    }
}
