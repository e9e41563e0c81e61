// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded log: found, unpacked, read, and cut down to what a block layer is told and does.
//!
//! The recordings have the words of ftrace's tracer `blk` behind a head of their own, without a
//! processor and a device; with ftrace's head put before them they are read like any other log:
//!
//! ```text
//! 60.544615 lg-307 C WS 12288000 + 32 [0]
//! lg-307 [000] 60.544615: 8,0 C WS 12288000 + 32 [0]
//! ```
//!
//! # Time
//! Lines have microseconds. The guest had one processor (all its work queues are those of
//! processor 0), so that no two lines were written at once, and none is older than the one before
//! it: that is asserted. Lines of one microsecond are taken in the order of the file. What an
//! interrupt puts between a command and its refusal is the business of `driver.rs`.
//!
//! Source: the README beside the logs, section 1; spec `trace.md` 2.1.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use paternoster::{Nanos, Op};
use paternoster_trace::ftrace::{Action, Entry, Event, Reader, What};

const FOLDER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/kernel-traces/cfq-decisions");

/// A command or a bio, by what is told of it: no two of one kind are under way at one sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) op: Op,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
}

impl Shape {
    /// The one flush command, or a bio that asks for one.
    pub(crate) const FLUSH: Shape = Shape { op: Op::Flush, sector: 0, sectors: 0 };

    pub(crate) fn is_flush(self) -> bool {
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

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A bio was submitted.
    Queue(Shape),
    /// A bio came to the elevator or to the flush sequencer; or a refused command came back.
    Insert(Shape),
    /// The driver looked at a command.
    Look(Shape),
    /// It could not take it.
    Refuse(Shape),
    /// A command ended.
    End(Shape),
    /// A bio that waited for a flush ended.
    FlushedBio,
    /// A command of the driver's own ended: no bio, no elevator.
    OwnEnd,
}

/// A line of those that matter here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// Its number in the log.
    pub(crate) number: u64,
    pub(crate) at: Nanos,
    /// Who ran: the submitter with `Queue` and `Insert`, anybody otherwise.
    pub(crate) pid: u32,
    pub(crate) step: Step,
}

/// One recording.
#[derive(Debug)]
pub(crate) struct Log {
    /// Its file's, without `D2.log.` and the ending: `nohold.w4+2plainwr.noop`.
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

impl Log {
    /// Whether that kernel held the queue, as it was made to; the others had that taken out.
    pub(crate) fn is_held(&self) -> bool {
        self.name.starts_with("hold")
    }

    /// The name that its scheduler has here.
    pub(crate) fn scheduler(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("noop") => "noop",
            Some("deadline") => "deadline",
            _ => "cfq-4.19",
        }
    }

    /// All of them, by name. None, and a word about it, where the recordings are not there.
    pub(crate) fn all() -> Vec<Log> {
        let mut paths: Vec<PathBuf> = Path::new(FOLDER)
            .read_dir()
            .map(|files| files.filter_map(Result::ok).map(|entry| entry.path()).collect())
            .unwrap_or_default();
        paths.sort();
        let logs: Vec<Log> = paths.iter().filter_map(|path| Log::read(path)).collect();
        if logs.is_empty() {
            println!("skipped: no recordings of a real kernel's flushes in {FOLDER}");
        }
        logs
    }

    /// `None` for other recordings.
    fn read(path: &Path) -> Option<Log> {
        let name = path.file_name()?.to_str()?;
        let name = name.strip_prefix("D2.log.")?.strip_suffix(".log.gz")?;
        Some(Log { name: name.to_owned(), lines: lines(path) })
    }
}

fn lines(path: &Path) -> Vec<Line> {
    let file = std::fs::File::open(path).expect("a log");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("a log's text");
    let text: String = text.lines().map(with_head).collect();
    let mut last = Nanos::ZERO;
    Reader::new(text.as_bytes())
        .filter_map(|entry| {
            let entry = entry.unwrap_or_else(|wrong| panic!("{}: {wrong}", path.display()));
            let line = Line::read(&entry)?;
            assert!(line.at >= last, "{}: line {} goes back", path.display(), line.number);
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
    /// Whether the processor's idle task wrote it, or an interrupt that met it.
    pub(crate) const fn is_idle(&self) -> bool {
        self.pid == 0
    }

    /// What a line says to a block layer; `None` for what it does itself: allocation, plugs, the
    /// scheduler's messages.
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
            // The end of a bio that asked for a flush is told without the F and a size.
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
