// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several: traces read together, as by `blkparse -i sda -i sdb`.
//!
//! ```text
//! sda   0 3 5      began at 900 of the machine's clock
//! sdb   0 4        began at 901      ─▶  0(sda) 1(sdb) 3(sda) 5(sda) 5(sdb)
//! ```
//!
//! Times count from the first event of all. Names and clocks of a trace come before its events.
//!
//! Invariant: I1 at most [`NOTES_MAX`] notes in front of a trace's first event are kept.
//!
//! Source: PARSE-26, TRACE-16; the installed tool.

use std::collections::VecDeque;
use std::io::Read;

use paternoster_core::Nanos;

use crate::blktrace::{Code, Merged, Record};
use crate::source::{Entry, Problems, Source};

/// How many notes are kept that come before the first event of a trace.
const NOTES_MAX: usize = 1 << 17;

/// A trace, with its next record.
#[derive(Debug)]
struct Stream<R> {
    trace: Merged<R>,
    waiting: VecDeque<(Record, Vec<u8>)>,
    /// How much later than the first trace it began.
    offset: Nanos,
}

/// Traces read together.
#[derive(Debug)]
pub struct Several<R> {
    streams: Vec<Stream<R>>,
    current: (Record, Vec<u8>),
}

fn stands_aside(record: &Record) -> bool {
    record.is_note() && record.code != Code::NOTE_MESSAGE
}

impl<R: Read> Stream<R> {
    /// Reads one record; returns whether there was one.
    fn read(&mut self) -> bool {
        let Some(entry) = self.trace.next() else { return false };
        let (record, payload) = (entry.record, entry.payload.to_vec());
        if !stands_aside(&record) || self.waiting.len() < NOTES_MAX {
            self.waiting.push_back((record, payload));
        }
        true
    }

    /// When its next record is due: notes are at once.
    fn due(&self) -> Option<Nanos> {
        let (record, _) = self.waiting.front()?;
        Some(if stands_aside(record) { Nanos::ZERO } else { self.at(record) })
    }

    const fn at(&self, record: &Record) -> Nanos {
        Nanos(record.at.0.saturating_add(self.offset.0))
    }
}

impl<R: Read> Several<R> {
    /// These traces, in the order of a summary's parts.
    pub fn new(traces: impl IntoIterator<Item = Merged<R>>) -> Several<R> {
        let stream = |trace| {
            let mut stream = Stream { trace, waiting: VecDeque::new(), offset: Nanos::ZERO };
            while stream.trace.genesis().is_none() && stream.read() {}
            stream
        };
        let mut streams: Vec<Stream<R>> = traces.into_iter().map(stream).collect();
        let first = streams.iter().filter_map(|stream| stream.trace.genesis()).min();
        let first = first.unwrap_or_default();
        for stream in &mut streams {
            let genesis = stream.trace.genesis().unwrap_or(first);
            stream.offset = Nanos(genesis.0 - first.0);
        }
        Several { streams, current: (Record::default(), Vec::new()) }
    }

    /// The next record, and the place of its trace.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    pub fn next(&mut self) -> Option<(usize, Entry<'_>)> {
        let due = self.streams.iter().enumerate();
        let due = due.filter_map(|(place, stream)| Some((stream.due()?, place)));
        let (_, place) = due.min()?;
        let stream = &mut self.streams[place];
        self.current = stream.waiting.pop_front()?;
        if !stands_aside(&self.current.0) {
            self.current.0.at = stream.at(&self.current.0);
        }
        if stream.waiting.is_empty() {
            stream.read();
        }
        Some((place, Entry { record: self.current.0, payload: &self.current.1 }))
    }

    /// What was refused so far.
    #[must_use]
    pub fn problems(&self) -> Problems {
        let mut all = Problems::default();
        for stream in &self.streams {
            all.extend(stream.trace.problems());
        }
        all
    }
}
