// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace of a live device, as blktrace leaves it.
//!
//! ```text
//! Event, Note ──▶ room? ──yes──▶ Tracer ──record──▶ Background writer ──▶ PREFIX.blktrace.0
//!                   └──no──▶ dropped, counted
//! ```
//!
//! Everything happens on the loop's thread, so there is one processor and one file. An event is
//! left out as a whole where the disk is too slow, as blktrace does; its sequence numbers have no
//! gap then. Before a file would grow beyond its bound the trace ends by itself.
//!
//! The file is made for its owner alone (0600), and not through a symbolic link: a user that may
//! order a trace must not be led to overwrite a file that another user's link points to.
//!
//! Invariants: I1 a file has whole records only; I2 it is never larger than its bound.
//!
//! Source: TRACE-1, TRACE-4, TRACE-13, TRACE-14, TRACE-19.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use paternoster_core::{Event, Nanos, Note, Observer};
pub use paternoster_trace::blktrace::DeviceNumber;
use paternoster_trace::blktrace::{Code, MESSAGE_MAX, RECORD_V7, Record, Sink, Traced, Tracer};

use super::{TraceSummary, file_name};
use crate::background_writer::{BackgroundWriter, Ending, Press};
use crate::host::plain_file;

/// What one event can become: the clock and a name before it, and the event itself.
const ROOM: usize = 3 * RECORD_V7 + 8 + 16 + MESSAGE_MAX;
/// So old the first event of a chunk may become before the chunk is passed on.
const CHUNK_AGE: Nanos = Nanos::from_secs(1);

/// A trace that has ended and is being written to its end.
#[derive(Debug)]
pub struct TraceEnding {
    path: PathBuf,
    summary: TraceSummary,
    ending: Ending,
}

impl TraceEnding {
    /// Waits for the disk, so better not on the loop's thread.
    ///
    /// # Errors
    /// The file, and what writing it failed with.
    pub fn wait(self) -> io::Result<TraceSummary> {
        let told = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        };
        self.ending.wait().map_err(told).map(|()| self.summary)
    }
}

/// The device, the file and the time of a new trace.
pub(super) struct Begin<'a> {
    pub(super) prefix: &'a Path,
    pub(super) now: Nanos,
    pub(super) wall_clock: (u64, u32),
    pub(super) device: DeviceNumber,
    pub(super) elevator: &'a str,
    pub(super) bytes_max: u64,
}

/// A trace being written; or one that has ended by itself, until it is asked about.
#[derive(Debug)]
pub(super) struct Trace {
    path: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    Writing(Box<Tracer<Sheet>>),
    Ended(Option<TraceEnding>),
}

impl Trace {
    pub(super) fn start(begin: &Begin<'_>) -> io::Result<Trace> {
        let path = file_name(begin.prefix, 0);
        refuse_further_files(begin.prefix)?;
        let file = plain_file::create(&path)?;
        let sheet = Sheet {
            background_writer: BackgroundWriter::start("trace", Page(file))?,
            wall_clock: begin.wall_clock,
            started: begin.now,
            chunk_began: begin.now,
            bytes_max: begin.bytes_max,
            sequence: 0,
            summary: TraceSummary::default(),
        };
        let traced = Traced {
            device: begin.device,
            cpus: 1,
            elevator: begin.elevator.to_owned(),
            clients: Vec::new(),
        };
        Ok(Trace { path, state: State::Writing(Box::new(Tracer::new(traced, sheet))) })
    }

    pub(super) const fn is_writing(&self) -> bool {
        matches!(self.state, State::Writing(_))
    }

    /// Client `index` is called so from now on.
    pub(super) fn call(&mut self, index: u32, pid: u32, name: &str) {
        if let State::Writing(tracer) = &mut self.state {
            tracer.call(index, pid, name);
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.write(event.at, |tracer| tracer.event(event));
    }

    pub(super) fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        self.write(at, |tracer| tracer.note(at, sequence, note));
    }

    fn write(&mut self, at: Nanos, each: impl FnOnce(&mut Tracer<Sheet>)) {
        let State::Writing(tracer) = &mut self.state else { return };
        let sheet = tracer.sink_mut();
        match sheet.prepare(at) {
            Room::There => each(tracer),
            Room::None => sheet.summary.dropped += 1,
            Room::Never => {
                sheet.summary.full = !sheet.background_writer.has_failed();
                self.end();
            }
        }
    }

    fn end(&mut self) {
        if !self.is_writing() {
            return;
        }
        if let State::Writing(tracer) = std::mem::replace(&mut self.state, State::Ended(None)) {
            let sheet = tracer.into_sink();
            let (path, summary) = (self.path.clone(), sheet.summary);
            let ending = sheet.background_writer.end(0);
            self.state = State::Ended(Some(TraceEnding { path, summary, ending }));
        }
    }

    /// Ends it, if it has not ended by itself.
    pub(super) fn finish(mut self) -> Option<TraceEnding> {
        self.end();
        match self.state {
            State::Ended(ending) => ending,
            State::Writing(_) => None,
        }
    }
}

/// Readers would take files of further processors, of some other trace, for a part of ours.
fn refuse_further_files(prefix: &Path) -> io::Result<()> {
    let further = file_name(prefix, 1);
    if further.symlink_metadata().is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!(
                "{}: it belongs to another trace; take another prefix or remove it",
                further.display()
            ),
        ));
    }
    Ok(())
}

/// The file, on its own thread.
struct Page(File);

impl Press for Page {
    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn end(&mut self, _: u8) -> io::Result<()> {
        Ok(())
    }
}

/// How much room the file has.
enum Room {
    There,
    None,
    /// The file is full, or cannot be written.
    Never,
}

/// Takes the tracer's records.
#[derive(Debug)]
struct Sheet {
    background_writer: BackgroundWriter,
    /// What it was when the trace was started.
    wall_clock: (u64, u32),
    started: Nanos,
    /// When the first event of the present chunk was.
    chunk_began: Nanos,
    bytes_max: u64,
    sequence: u32,
    summary: TraceSummary,
}

impl Sheet {
    /// Room for an event at `at` and all that comes with it.
    fn prepare(&mut self, at: Nanos) -> Room {
        if self.summary.bytes + ROOM as u64 > self.bytes_max || self.background_writer.has_failed()
        {
            return Room::Never;
        }
        if at - self.chunk_began > CHUNK_AGE {
            self.background_writer.hand_over();
            self.chunk_began = at;
        }
        if self.background_writer.room(ROOM) { Room::There } else { Room::None }
    }

    /// The wall clock at `at`, as the payload of its note.
    fn clock(&self, at: Nanos) -> [u8; 8] {
        let (seconds, nanos) = self.wall_clock;
        let nanos = u64::from(nanos) + (at - self.started).0;
        let seconds = seconds + nanos / 1_000_000_000;
        // blktrace counts them in 32 bits, until 2106.
        let seconds = u32::try_from(seconds & 0xffff_ffff).unwrap_or(0);
        let nanos = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&seconds.to_le_bytes());
        payload[4..].copy_from_slice(&nanos.to_le_bytes());
        payload
    }

    fn put(&mut self, record: &Record, payload: &[u8]) {
        let length = u16::try_from(payload.len()).unwrap_or(0);
        let current = self.background_writer.current();
        current.extend_from_slice(&record.encode(length));
        current.extend_from_slice(&payload[..usize::from(length)]);
        self.summary.bytes += (RECORD_V7 + usize::from(length)) as u64;
    }
}

impl Sink for Sheet {
    fn record(&mut self, record: &Record, payload: &[u8]) {
        if record.is_note_of(Code::NOTE_TIMESTAMP) {
            return self.put(record, &self.clock(record.at));
        }
        let mut record = *record;
        if !record.is_note() {
            self.sequence = self.sequence.wrapping_add(1);
            record.sequence = self.sequence;
        }
        self.summary.events += u64::from(!record.is_note_of(Code::NOTE_PROCESS));
        self.put(&record, payload);
    }
}
