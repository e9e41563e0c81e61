// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets: tracks, slices and counters as a trace of perfetto has them.
//!
//! ```text
//! Trace ─┬─ TracePacket  TrackDescriptor   track 2 "pg-read", below track 1 "bfq"
//!        ├─ TracePacket  TrackEvent        at 10: a slice begins on track 2, name 1 is "read"
//!        └─ TracePacket  TrackEvent        at 90: it ends
//! ```
//!
//! A name is written once and has a number from then on. Each run is a sequence of packets of its
//! own, so that a file of several runs is their files concatenated. Times are the trace's own,
//! which begin at 0.
//!
//! Source: perfetto.dev/docs/reference/synthetic-track-event; the numbers of fields are those of
//! `perfetto_trace.proto`. `checks/perfetto_trace.py` reads the output with that file, as
//! published.

use std::collections::BTreeMap;
use std::io::{self, Write};

use paternoster_core::Nanos;

use super::wire::Message;

/// Numbers of fields of `Trace` and `TracePacket`.
mod packet {
    pub(super) const IN_TRACE: u64 = 1;
    pub(super) const TIMESTAMP: u64 = 8;
    pub(super) const SEQUENCE: u64 = 10;
    pub(super) const TRACK_EVENT: u64 = 11;
    pub(super) const INTERNED: u64 = 12;
    pub(super) const FLAGS: u64 = 13;
    pub(super) const TRACK_DESCRIPTOR: u64 = 60;
    /// Names of this sequence begin here; what follows needs those that were written.
    pub(super) const BEGINS: u64 = 1;
    pub(super) const NEEDS_NAMES: u64 = 2;
}

/// Numbers of fields of `TrackDescriptor`.
mod descriptor {
    pub(super) const UUID: u64 = 1;
    pub(super) const NAME: u64 = 2;
    pub(super) const PARENT: u64 = 5;
    pub(super) const COUNTER: u64 = 8;
    pub(super) const CHILD_ORDER: u64 = 11;
    pub(super) const RANK: u64 = 12;
    /// Children are ordered by their ranks.
    pub(super) const BY_RANK: u64 = 3;
}

/// Numbers of fields of `TrackEvent`, of what is interned, and of annotations.
mod event {
    pub(super) const ANNOTATION: u64 = 4;
    pub(super) const TYPE: u64 = 9;
    pub(super) const NAME: u64 = 10;
    pub(super) const TRACK: u64 = 11;
    pub(super) const COUNTER_VALUE: u64 = 30;
    pub(super) const SLICE_BEGIN: u64 = 1;
    pub(super) const SLICE_END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
    pub(super) const COUNTER: u64 = 4;
    pub(super) const INTERNED_NAMES: u64 = 2;
    pub(super) const INTERNED_ANNOTATIONS: u64 = 3;
    pub(super) const INTERNED_NUMBER: u64 = 1;
    pub(super) const INTERNED_TEXT: u64 = 2;
    pub(super) const ANNOTATION_NAME: u64 = 1;
    pub(super) const ANNOTATION_NUMBER: u64 = 3;
}

/// A track, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Track(u64);

/// The meaning of a number at a slice, and the number.
pub(super) type Annotation = (String, u64);

/// The packets of one run, as they are written.
#[derive(Debug)]
pub(super) struct Packets<W> {
    out: W,
    run: u64,
    tracks: u64,
    names: Names,
    annotations: Names,
    begun: bool,
    wrong: Option<io::Error>,
}

impl<W: Write> Packets<W> {
    /// Packets of this run; runs of one file count from 0.
    pub(super) fn new(out: W, run: u32) -> Packets<W> {
        let (names, annotations) = (Names::default(), Names::default());
        let (run, tracks, begun) = (u64::from(run) + 1, 0, false);
        Packets { out, run, tracks, names, annotations, begun, wrong: None }
    }

    /// A new track; below another one its rank gives the order.
    pub(super) fn track(&mut self, name: &str, below: Option<(Track, u32)>) -> Track {
        self.described(name, below, false)
    }

    /// The same, of a number over time.
    pub(super) fn counter(&mut self, name: &str, below: (Track, u32)) -> Track {
        self.described(name, Some(below), true)
    }

    pub(super) fn begin(&mut self, track: Track, at: Nanos, name: &str, beside: &[Annotation]) {
        self.event(track, at, event::SLICE_BEGIN, Some((name, beside)));
    }

    pub(super) fn end(&mut self, track: Track, at: Nanos) {
        self.event(track, at, event::SLICE_END, None);
    }

    pub(super) fn instant(&mut self, track: Track, at: Nanos, name: &str) {
        self.event(track, at, event::INSTANT, Some((name, &[])));
    }

    pub(super) fn count(&mut self, track: Track, at: Nanos, value: u64) {
        let mut event = Message::default();
        event.number(event::TYPE, event::COUNTER).number(event::TRACK, track.0);
        event.number(event::COUNTER_VALUE, value);
        self.packet(Some(at), packet::TRACK_EVENT, &event, None);
    }

    /// Ends the trace; returns the first error, if there was one.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.wrong.map_or_else(|| self.out.flush(), Err)
    }

    fn described(&mut self, name: &str, below: Option<(Track, u32)>, counts: bool) -> Track {
        self.tracks += 1;
        let track = Track(self.run << 32 | self.tracks);
        let mut described = Message::default();
        described.number(descriptor::UUID, track.0).text(descriptor::NAME, name);
        if let Some((parent, rank)) = below {
            described.number(descriptor::PARENT, parent.0);
            described.number(descriptor::RANK, u64::from(rank));
        } else {
            described.number(descriptor::CHILD_ORDER, descriptor::BY_RANK);
        }
        if counts {
            described.message(descriptor::COUNTER, &Message::default());
        }
        self.packet(None, packet::TRACK_DESCRIPTOR, &described, None);
        track
    }

    fn event(&mut self, track: Track, at: Nanos, kind: u64, told: Option<(&str, &[Annotation])>) {
        let (mut event, mut interned) = (Message::default(), Message::default());
        event.number(event::TYPE, kind).number(event::TRACK, track.0);
        if let Some((name, beside)) = told {
            let number = self.names.number(name, event::INTERNED_NAMES, &mut interned);
            event.number(event::NAME, number);
            for (what, value) in beside {
                let field = event::INTERNED_ANNOTATIONS;
                let number = self.annotations.number(what, field, &mut interned);
                let mut annotation = Message::default();
                annotation.number(event::ANNOTATION_NAME, number);
                annotation.number(event::ANNOTATION_NUMBER, *value);
                event.message(event::ANNOTATION, &annotation);
            }
        }
        let interned = (!interned.as_bytes().is_empty()).then_some(&interned);
        self.packet(Some(at), packet::TRACK_EVENT, &event, interned);
    }

    fn packet(&mut self, at: Option<Nanos>, field: u64, held: &Message, names: Option<&Message>) {
        if self.wrong.is_some() {
            return;
        }
        let mut packet = Message::default();
        if let Some(at) = at {
            packet.number(packet::TIMESTAMP, at.0);
        }
        packet.number(packet::SEQUENCE, self.run).message(field, held);
        if let Some(names) = names {
            packet.message(packet::INTERNED, names);
        }
        let begins = if self.begun { 0 } else { packet::BEGINS };
        self.begun = true;
        packet.number(packet::FLAGS, packet::NEEDS_NAMES | begins);
        let mut trace = Message::default();
        trace.message(packet::IN_TRACE, &packet);
        self.wrong = self.out.write_all(trace.as_bytes()).err();
    }
}

/// Names that have numbers, from 1.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, u64>);

impl Names {
    /// The number of a name; a new one is written in this field of `interned`.
    fn number(&mut self, name: &str, field: u64, interned: &mut Message) -> u64 {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), number);
        let mut told = Message::default();
        told.number(event::INTERNED_NUMBER, number).text(event::INTERNED_TEXT, name);
        interned.message(field, &told);
        number
    }
}
