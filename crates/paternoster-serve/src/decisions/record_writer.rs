// SPDX-License-Identifier: MIT OR Apache-2.0
//! Record writer: writes the record of a live queue, and never keeps it waiting.
//!
//! ```text
//! call, answer ──▶ names ──▶ encoder ──▶ background writer ──▶ blocks ──▶ sink
//!                                          │
//!              no room, or the file is full: cut here, serving goes on
//! ```
//!
//! A record with a gap could not be repeated. So where the disk is too slow the record ends, with a
//! mark that says so, as it does before it exceeds its size limit. What the record writer holds is
//! passed on after a second of the loop's time: that much is missing after a `kill -9`.
//!
//! Invariants: I1 what is written is the calls from the first one on, without a gap.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paternoster_core::{
    AddError, Client, ClientId, DeviceFacts, Group, GroupId, Limits, Nanos, Observer, Priority,
    RequestQueue,
};

use super::block::{BlockWriter, Cut, HEAD, Header, HeaderError};
use super::call::{Answer, Call, Refusal};
use super::format::{CALL_MAX, Encoder, TEXT_MAX};
use super::names::Names;
use crate::background_writer::{BackgroundWriter, Ending, Press};

/// The largest record, unless said otherwise: 16 GiB.
pub const RECORD_BYTES_MAX: u64 = 16 << 30;
/// So old a call may become before it is passed on.
const AGE_MAX: Nanos = Nanos::from_secs(1);
/// Bytes of the end.
const END_BYTES: u64 = HEAD as u64 + 11;

/// A queue is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The record would begin in the middle.
    #[error("calls have been made already; a record begins with its queue")]
    Begun,
    /// The queue is being recorded already.
    #[error("the queue is being recorded already")]
    Already,
    /// The elevator is none that can be made again.
    #[error("the scheduler {0} has no name that a replay could make it from")]
    Elevator(String),
    /// The queue is too large.
    #[error(transparent)]
    Limits(#[from] HeaderError),
    /// The writer's thread could not be started.
    #[error("the thread that writes was not started: {0}")]
    Thread(#[from] io::Error),
}

/// A record's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordState {
    /// Number of calls recorded.
    pub calls: u64,
    /// Bytes written, without the heads of blocks.
    pub bytes: u64,
    /// Why the record ended before its queue; `None`: it did not.
    pub cut: Option<Cut>,
}

/// Writes blocks, on a thread of its own.
struct Binder {
    sink: Option<(Box<dyn Write + Send>, Header)>,
    blocks: Option<BlockWriter<Box<dyn Write + Send>>>,
    calls: Arc<AtomicU64>,
}

impl Press for Binder {
    fn begin(&mut self) -> io::Result<()> {
        if let Some((sink, header)) = self.sink.take() {
            self.blocks = Some(BlockWriter::new(sink, &header)?);
        }
        Ok(())
    }

    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.blocks {
            Some(blocks) if !bytes.is_empty() => blocks.calls(bytes),
            _ => Ok(()),
        }
    }

    fn end(&mut self, word: u8) -> io::Result<()> {
        let calls = self.calls.load(Ordering::Acquire);
        self.blocks.as_mut().map_or(Ok(()), |blocks| blocks.end(Cut::from_byte(word), calls))
    }
}

/// Writes one queue's record.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    pub(crate) names: Names,
    encoder: Encoder,
    background_writer: Option<BackgroundWriter>,
    ending: Option<Ending>,
    /// Number of calls, which the thread writes at the end.
    calls: Arc<AtomicU64>,
    state: RecordState,
    bytes_max: u64,
    /// When the first call of the present chunk was, and the last one.
    chunk_began: Nanos,
    now: Nanos,
}

impl RecordWriter {
    pub(crate) fn start(
        sink: Box<dyn Write + Send>,
        bytes_max: u64,
        queue: (DeviceFacts, Limits, &str, GroupId),
    ) -> Result<RecordWriter, RecordError> {
        let (facts, limits, elevator, root) = queue;
        if paternoster_base::schedulers::by_name(elevator).is_none() {
            return Err(RecordError::Elevator(elevator.to_owned()));
        }
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let header = Header { program, elevator: elevator.to_owned(), facts, limits };
        header.check()?;
        let calls = Arc::<AtomicU64>::default();
        let binder = Binder { sink: Some((sink, header)), blocks: None, calls: calls.clone() };
        Ok(RecordWriter {
            names: Names::new(&limits, facts.depth, root),
            encoder: Encoder::default(),
            background_writer: Some(BackgroundWriter::start("decisions", binder)?),
            ending: None,
            calls,
            state: RecordState::default(),
            bytes_max,
            chunk_began: Nanos::ZERO,
            now: Nanos::ZERO,
        })
    }

    /// Whether calls are still written: names need not be kept otherwise.
    #[inline]
    pub(crate) const fn is_writing(&self) -> bool {
        self.background_writer.is_some()
    }

    pub(crate) const fn state(&self) -> RecordState {
        self.state
    }

    /// Records that a client was attached; the queue knows as which.
    pub(crate) fn attached<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &RequestQueue<O>,
        answer: &Result<ClientId, AddError>,
    ) {
        let client = answer.ok().and_then(|id| queue.client(id));
        let group = client.and_then(Client::group).unwrap_or(queue.root());
        let call = Call::Attach {
            group: self.names.groups.name(group),
            priority: client.map_or(Priority::default(), Client::priority),
            weight: client.map_or(100, Client::weight),
            pid: client.map_or(0, Client::pid),
        };
        let said = self.names.attached(answer);
        // What had no group changed nothing, and there is no name for a group that never was.
        if said != Answer::Refused(Refusal::NoGroup) {
            self.write(now, &call, &said);
        }
    }

    /// Writes down that a group was added; the queue knows as what.
    pub(crate) fn group_added<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &RequestQueue<O>,
        answer: &Result<GroupId, AddError>,
    ) {
        let group = answer.ok().and_then(|id| queue.group(id));
        let parent = group.and_then(Group::parent).unwrap_or(queue.root());
        let call = Call::AddGroup {
            parent: self.names.groups.name(parent),
            weight: group.map_or(100, Group::weight),
        };
        let said = self.names.group_added(answer);
        if said != Answer::Refused(Refusal::NoGroup) {
            self.write(now, &call, &said);
        }
    }

    /// Writes a call down.
    pub(crate) fn write(&mut self, now: Nanos, call: &Call, answer: &Answer) {
        let Some(background_writer) = &mut self.background_writer else { return };
        self.now = now;
        if now - self.chunk_began > AGE_MAX {
            background_writer.hand_over();
            self.chunk_began = now;
        }
        let most = CALL_MAX + call.text_bytes();
        if most > CALL_MAX + 2 * TEXT_MAX {
            return self.cut(Cut::Unspeakable);
        }
        if self.state.bytes + most as u64 + END_BYTES > self.bytes_max {
            return self.cut(Cut::Full);
        }
        if !background_writer.room(most) {
            return self.cut(Cut::Slow);
        }
        let out = background_writer.current();
        let before = out.len();
        let written = self.encoder.entry(out, now, call, answer);
        self.state.bytes += (out.len() - before) as u64;
        match written {
            Ok(()) => self.state.calls += 1,
            Err(_) => self.cut(Cut::Unspeakable),
        }
    }

    fn cut(&mut self, why: Cut) {
        self.state.cut = Some(why);
        self.end(why as u8);
    }

    fn end(&mut self, word: u8) {
        let Some(mut background_writer) = self.background_writer.take() else { return };
        // Only a count of calls; there is always room for it.
        self.encoder.flush(background_writer.current());
        self.calls.store(self.state.calls, Ordering::Release);
        self.ending = Some(background_writer.end(word));
    }

    /// Ends the record and waits for the disk.
    pub(crate) fn finish(&mut self) -> io::Result<RecordState> {
        self.end(0);
        self.ending.take().map_or(Ok(()), Ending::wait).map(|()| self.state)
    }
}
