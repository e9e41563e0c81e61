// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merge: the files of several processors as one stream in order of time, counted from the first
//! event.
//!
//! ```text
//! sda.blktrace.0   3 5 9        genesis = 3
//! sda.blktrace.1   4 5 6        0(3) 1(4) 2(5, file 0) 2(5, file 1) 3(6) 6(9)
//! ```
//!
//! Each file is taken to be in order; the one whose next event is earliest goes first, on a tie the
//! one that comes first in order of names. Names of processes and clocks keep their time. A record
//! of another processor than its file's is refused, as blkparse does. Events before the first one
//! (a file that is out of order) count as that.
//!
//! Source: spec `trace.md` 1.7.

use std::io::Read;

use paternoster::Nanos;

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
    /// Whose event goes next while it is not later than `limit`, of whom `rival` is.
    current: Option<usize>,
    limit: (Nanos, usize),
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
        let (limit, payload) = ((Nanos::ZERO, 0), Vec::new());
        let (genesis, last) = (None, Nanos::ZERO);
        Merged { streams, current: None, limit, genesis, last, problems, payload }
    }

    /// The machine's clock at the first event, once that was read.
    #[must_use]
    pub const fn genesis(&self) -> Option<Nanos> {
        self.genesis
    }

    /// The stream whose head is earliest; those with a note that stands aside go at once.
    fn choose(&mut self) -> Option<usize> {
        if let Some(current) = self.current {
            let head = self.streams[current].head.as_ref();
            if head.is_some_and(|head| (head.at, current) < self.limit || stands_aside(head)) {
                return Some(current);
            }
        }
        let mut earliest: Option<(Nanos, usize)> = None;
        self.limit = (Nanos::MAX, usize::MAX);
        for (place, stream) in self.streams.iter().enumerate() {
            let Some(head) = &stream.head else { continue };
            let at = if stands_aside(head) { Nanos::ZERO } else { head.at };
            match earliest {
                Some(best) if (at, place) >= best => self.limit = self.limit.min((at, place)),
                _ => {
                    self.limit = earliest.unwrap_or(self.limit);
                    earliest = Some((at, place));
                }
            }
        }
        self.current = earliest.map(|(_, place)| place);
        self.current
    }
}

impl<R: Read> Source for Merged<R> {
    fn next(&mut self) -> Option<Entry<'_>> {
        let place = self.choose()?;
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
