// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded log: unpacked, read, and reduced to a block layer's inputs and actions.
//!
//! The recordings have the words of ftrace's tracer `blk` after a head of their own, without a
//! processor and a device; with ftrace's head put before them they are read like any other log:
//! ```text
//! 60.544615 lg-307 C WS 12288000 + 32 [0]
//! lg-307 [000] 60.544615: 8,0 C WS 12288000 + 32 [0]
//! ```
//!
//! # Time
//! Lines have microseconds. The guest had one processor (all its work queues are those of processor
//! 0), so no two lines were written at once, and none is older than the one before it: that is
//! asserted. Lines of one microsecond are taken in the order of the file. `driver.rs` sorts out
//! what an interrupt puts between a command and its refusal.
//!
//! Source: the README next to the logs, section 1; PARSE-2 to PARSE-6.

use std::fmt;

use paternoster_conformance::Folder;
use paternoster_core::{Nanos, Op};
use paternoster_trace::ftrace::{Action, Entry, Event, Reader, What};

/// A command or a bio, by what is logged of it: no two of one kind are in flight at one sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub(super) op: Op,
    pub(super) sector: u64,
    pub(super) sectors: u32,
}

impl Shape {
    /// The one flush command, or a bio that asks for one.
    pub(super) const FLUSH: Shape = Shape { op: Op::Flush, sector: 0, sectors: 0 };

    pub(super) fn is_flush(self) -> bool {
        self.op == Op::Flush
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_flush() {
            return f.write_str("a flush");
        }
        write!(f, "{:?} {}", self.op, self.sector)
    }
}

/// An action of the block layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A bio was submitted.
    Queue(Shape),
    /// A bio came to the elevator or to the flush sequencer; or a refused command came back.
    Insert(Shape),
    /// The driver looked at a command.
    Look(Shape),
    /// The device could not take it.
    Refuse(Shape),
    /// A command ended.
    End(Shape),
    /// A bio that waited for a flush ended.
    FlushedBio,
    /// A command of the driver's own ended: it has no bio and no elevator.
    OwnEnd,
}

/// A line of those that matter here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// Number of the command in the log.
    pub(super) number: u64,
    pub(super) at: Nanos,
    /// The process that ran: the submitter for `Queue` and `Insert`, any process otherwise.
    pub(super) pid: u32,
    pub(super) step: Step,
}

/// One recording.
#[derive(Debug)]
pub(super) struct Log {
    /// Its file's name, without `D2.log.` and the ending: `nohold.w4+2plainwr.noop`.
    pub(super) name: String,
    pub(super) lines: Vec<Line>,
}

impl Log {
    /// Whether that kernel held the queue, as it normally does; the others had that taken out.
    pub(super) fn is_held(&self) -> bool {
        self.name.starts_with("hold")
    }

    /// The name that its scheduler has here.
    pub(super) fn scheduler(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("noop") => "noop",
            Some("deadline") => "deadline",
            _ => "cfq-4.19",
        }
    }

    /// All of them, by name.
    pub(super) fn all() -> Vec<Log> {
        Folder::Cfq.names().iter().filter_map(|name| Log::read(name)).collect()
    }

    /// `None` for other recordings.
    fn read(log: &str) -> Option<Log> {
        let name = log.strip_prefix("D2.log.")?;
        Some(Log { name: name.to_owned(), lines: lines(log) })
    }
}

fn lines(log: &str) -> Vec<Line> {
    let text: String = Folder::Cfq.log(log).lines().map(with_head).collect();
    let mut last = Nanos::ZERO;
    Reader::new(text.as_bytes())
        .filter_map(|entry| {
            let entry = entry.unwrap_or_else(|wrong| panic!("{log}: {wrong}"));
            let line = Line::read(&entry)?;
            assert!(line.at >= last, "{log}: line {} goes back", line.number);
            last = line.at;
            Some(line)
        })
        .collect()
}

/// A line as ftrace writes it.
fn with_head(line: &str) -> String {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (seconds, task, rest) = (word(), word(), word());
    format!("{task} [000] {seconds}: 8,0 {rest}\n")
}

impl Line {
    /// Whether the processor's idle task wrote it, or an interrupt during it.
    pub(super) const fn is_idle(&self) -> bool {
        self.pid == 0
    }

    /// The input to a block layer that a line records; `None` for the layer's own actions:
    /// allocation, plugs, the scheduler's messages.
    fn read(entry: &Entry) -> Option<Line> {
        let Entry::Record(record) = entry else { panic!("lines were lost: {entry:?}") };
        let What::Event(event) = &record.what else { return None };
        let step = Step::read(event)
            .unwrap_or_else(|| panic!("line {}: not expected here: {event:?}", record.line))?;
        let at = Nanos(record.at_ns);
        Some(Line { number: record.line, at, pid: record.pid, step })
    }
}

impl Step {
    /// `None` for what these runs do not have, `Some(None)` for what does not matter.
    fn read(event: &Event) -> Option<Option<Step>> {
        let (letters, sectors) = (event.letters.as_str(), event.sectors);
        let at = |op| Shape { op, sector: event.sector, sectors };
        let shape = match letters {
            "R" => at(Op::Read),
            "WS" if sectors > 0 => at(Op::Write),
            // A bio, and the command for all of them.
            "FWS" | "FN" => Shape::FLUSH,
            // The end of a bio that asked for a flush is logged without the F and a size.
            "WS" if event.action == Action::Complete => return Some(Some(Step::FlushedBio)),
            "N" if event.action == Action::Complete => return Some(Some(Step::OwnEnd)),
            "N" => return Some(None),
            _ => return None,
        };
        Some(match event.action {
            Action::Queue => Some(Step::Queue(shape)),
            Action::Insert => Some(Step::Insert(shape)),
            Action::Issue => Some(Step::Look(shape)),
            Action::Requeue => Some(Step::Refuse(shape)),
            Action::Complete if event.error == 0 => Some(Step::End(shape)),
            Action::Get => None,
            _ => return None,
        })
    }
}
