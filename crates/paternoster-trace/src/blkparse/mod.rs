// SPDX-License-Identifier: MIT OR Apache-2.0
//! blkparse: the text that the program of this name makes of a trace, byte for byte.
//!
//! ```text
//!             ┌ Mask, Window    what is selected
//! Source ──▶ Text ─ Programs ── names ─┐
//!             │     Tracker ── times ──┼─▶ line, or Format ─▶ out
//!             └ Counts: per processor, per program ─────────▶ summary, at the end
//! ```
//!
//! ```
//! use paternoster_trace::{Source, blkparse, blktrace};
//!
//! # fn main() -> std::io::Result<()> {
//! let trace: &[u8] = &[];
//! let mut source = blktrace::Ordered::new("sda.bin", trace);
//! let mut text = blkparse::Text::new(blkparse::Options::of_file("sda"), std::io::stdout());
//! while let Some(entry) = source.next() {
//!     text.record(&entry)?;
//! }
//! text.finish()
//! # }
//! ```
//!
//! [`Several`] traces go side by side into [`Text::record_of`].
//!
//! Lines leave as they come, the summary at the end. Events outside the window or the mask are
//! ignored, with two exceptions: their processor has a part in the summary, and the throughput
//! covers the time up to the window's last event, masked or not.
//!
//! Where this differs from the tool on purpose: names of processes are known from their notes on
//! (the tool reads some hundred records ahead); missing payloads are 0, as are times that were not
//! seen (the tool prints what its memory holds); and `%u` of an unknown time is empty (the tool
//! gives up). The lines `Input file … added` are not written.
//!
//! Invariant: I1 memory is bounded: [`PROCESSES_MAX`], [`TRACKED_MAX`], [`PARTS_MAX`].
//!
//! Source: `docs/rules/blkparse.md`, PARSE-1 to PARSE-26; the installed tool, blkparse 1.2.0.

mod digits;
mod elapsed;
mod format;
mod input;
mod line;
mod programs;
mod several;
mod summary;

use std::io;

use paternoster_core::Nanos;

pub use elapsed::TRACKED_MAX;
pub use format::{Format, Formats};
pub use input::PARTS_MAX;
pub(crate) use line::letters;
pub use programs::PROCESSES_MAX;
pub use several::Several;

use crate::blktrace::{Categories, Code, Record};
use crate::filter::{Mask, Position, Window};
use crate::source::Entry;
use elapsed::{Elapsed, Tracker};
use input::Input;
use line::Event;
use programs::{Programs, Wait};
use summary::{Counts, Side};

/// Bytes of text that are collected before they are written.
const CHUNK: usize = 1 << 16;

/// What the parts of the summary are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inputs {
    /// Inputs of these names, each with all its devices (`-i sda -i sdb`).
    Named(Vec<String>),
    /// One stream, with a part for each device (`-i -`).
    Devices,
}

/// What is printed, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the parts of the summary are about.
    pub inputs: Inputs,
    /// How long requests took from step to step (`-t`).
    pub elapsed: bool,
    /// No summary (`-q`).
    pub quiet: bool,
    /// What each program did (`-s`).
    pub programs: bool,
    /// Processes of one name are one program (`-h`).
    pub by_name: bool,
    /// No text at all (`-O`).
    pub silent: bool,
    /// Kinds of events that are looked at (`-a`, `-A`).
    pub mask: Mask,
    /// When (`-w`).
    pub window: Option<Window>,
    /// How lines are written (`-f`, `-F`).
    pub formats: Formats,
    /// How many seconds local clocks are ahead of UTC, for `%z`.
    pub utc_offset_s: i32,
}

impl Options {
    /// The default of everything, for one input of this name.
    #[must_use]
    pub fn of_file(name: &str) -> Options {
        Options::of(Inputs::Named(vec![name.to_owned()]))
    }

    /// The default of everything, for a stream.
    #[must_use]
    pub fn of_stream() -> Options {
        Options::of(Inputs::Devices)
    }

    /// The default of everything, for these inputs.
    #[must_use]
    pub fn of(inputs: Inputs) -> Options {
        Options {
            inputs,
            elapsed: false,
            quiet: false,
            programs: false,
            by_name: false,
            silent: false,
            mask: Mask::ALL,
            window: None,
            formats: Formats::default(),
            utc_offset_s: 0,
        }
    }
}

/// Writes the text of a trace.
#[derive(Debug)]
pub struct Text<W> {
    options: Options,
    out: W,
    text: Vec<u8>,
    programs: Programs,
    tracker: Tracker,
    inputs: Vec<Input>,
    /// The wall clock at the trace's first event, in ns.
    clock_ns: i128,
    /// When the stream's first event was, if it is a stream.
    origin: Option<Nanos>,
    ended: bool,
    unknown: u64,
}

impl<W: io::Write> Text<W> {
    /// A text that goes to `out`.
    pub fn new(options: Options, out: W) -> Text<W> {
        let inputs = match &options.inputs {
            Inputs::Named(names) => names.iter().map(|name| Input::named(name)).collect(),
            Inputs::Devices => Vec::new(),
        };
        let programs = Programs::new(options.by_name);
        let text = Vec::with_capacity(2 * CHUNK);
        let (clock_ns, origin, ended, unknown) = (0, None, false, 0);
        let tracker = Tracker::default();
        Text { options, out, text, programs, tracker, inputs, clock_ns, origin, ended, unknown }
    }

    /// Whether the window has ended, so that nothing that follows matters.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// How many events had an action that is not printed: unknown ones, and drivers' own data.
    #[must_use]
    pub const fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Takes the next event of the first, or only, input.
    ///
    /// # Errors
    ///
    /// What writing fails with.
    pub fn record(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        self.record_of(0, entry)
    }

    /// Takes the next event, of the input at this place; a stream has one.
    ///
    /// # Errors
    ///
    /// What writing fails with.
    pub fn record_of(&mut self, input: usize, entry: &Entry<'_>) -> io::Result<()> {
        let record = &entry.record;
        if self.ended {
            return Ok(());
        }
        if record.is_note() && record.code != Code::NOTE_MESSAGE {
            self.note(entry);
            return Ok(());
        }
        let at = self.rebased(record.at);
        let input = self.input_of(input, record);
        self.inputs[input].meet(record);
        match self.options.window.map_or(Position::Within, |window| window.place(at)) {
            Position::Before => return Ok(()),
            Position::Within => self.inputs[input].pass(at),
            Position::Behind => {
                self.ended = true;
                return Ok(());
            }
        }
        if self.options.mask.passes(record) {
            self.inputs[input].accept(at);
            self.event(input, at, entry);
        }
        if self.text.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// Writes the programs and the summary, if the options ask for them.
    ///
    /// # Errors
    ///
    /// What writing fails with.
    pub fn finish(&mut self) -> io::Result<()> {
        if !self.options.silent {
            if self.options.programs {
                self.print_programs();
            }
            if !self.options.quiet {
                for (place, input) in self.inputs.iter().enumerate() {
                    if place > 0 {
                        self.text.push(b'\n');
                    }
                    input.print(&mut self.text);
                }
            }
        }
        self.flush()?;
        self.out.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.text);
        self.text.clear();
        written
    }

    /// Names and clocks.
    fn note(&mut self, entry: &Entry<'_>) {
        match (entry.record.code, entry.payload.first_chunk::<8>()) {
            (Code::NOTE_PROCESS, _) => self.programs.name(entry.record.pid, entry.payload),
            (Code::NOTE_TIMESTAMP, Some([a, b, c, d, e, f, g, h])) => {
                let seconds = i128::from(u32::from_le_bytes([*a, *b, *c, *d]));
                let nanos = i128::from(u32::from_le_bytes([*e, *f, *g, *h]));
                let offset = i128::from(self.options.utc_offset_s);
                self.clock_ns = (seconds + offset) * 1_000_000_000 + nanos;
            }
            _ => {}
        }
    }

    /// A stream's times are counted from its first event.
    fn rebased(&mut self, at: Nanos) -> Nanos {
        if self.options.inputs != Inputs::Devices {
            return at;
        }
        let origin = *self.origin.get_or_insert(at);
        Nanos(at.0.saturating_sub(origin.0))
    }

    /// The place of the input, or the device, that an event belongs to.
    fn input_of(&mut self, input: usize, record: &Record) -> usize {
        if self.options.inputs != Inputs::Devices {
            if self.inputs.is_empty() {
                self.inputs.push(Input::named(""));
            }
            return input.min(self.inputs.len() - 1);
        }
        if let Some(place) = self.inputs.iter().position(|input| input.is_of(record.device)) {
            return place;
        }
        if self.inputs.len() < PARTS_MAX {
            self.inputs.push(Input::of_device(record.device));
        }
        self.inputs.len() - 1
    }

    /// Counts and prints a selected event.
    fn event(&mut self, input: usize, at: Nanos, entry: &Entry<'_>) {
        let record = &entry.record;
        if record.is_note() {
            if !self.options.silent {
                line::message(&mut self.text, record, at, entry.payload);
            }
            return;
        }
        let driver_data = record.categories.contains(Categories::DRIVER_DATA);
        let Some(letters) = letters(record.code, record.is_passthrough()).filter(|_| !driver_data)
        else {
            self.unknown += 1;
            return;
        };
        // A queued command is counted after its line, which may therefore lack the name.
        let late = record.is_passthrough() && record.code == Code::QUEUE;
        if !late {
            self.count(input, record);
        }
        let elapsed = if self.options.elapsed && !record.is_passthrough() {
            self.track(input, at, record)
        } else {
            None
        };
        if !self.options.silent {
            let name = self.programs.name_of(record.pid);
            let elapsed_ns = elapsed.map(|elapsed| elapsed.ns);
            let event = Event { record, payload: entry.payload, letters, at, elapsed_ns, name };
            match self.options.formats.of(letters) {
                Some(format) => format.print(&mut self.text, &event, self.clock_ns),
                None => event.print(&mut self.text),
            }
        }
        if late {
            self.count(input, record);
        }
    }

    fn count(&mut self, input: usize, record: &Record) {
        if Counts::concerns(record) {
            self.inputs[input].count(record);
            if self.options.programs
                && let Some(program) = self.programs.of(record.pid)
            {
                program.counts.count(record);
            }
        }
    }

    /// Follows the request of an event, and puts its waits down to its owner.
    fn track(&mut self, input: usize, at: Nanos, record: &Record) -> Option<Elapsed> {
        let devices = self.options.inputs == Inputs::Devices;
        let remapper = devices && matches!(record.device.major(), 9 | 253);
        let tracker = &mut self.tracker;
        let (place, pid) = ((input, record.sector), record.pid);
        let mut made = false;
        let found = match record.code {
            Code::QUEUE if remapper => {
                made = tracker.queue_remapped(place, at, pid);
                None
            }
            Code::GET => {
                made = tracker.allocate(place, at, pid);
                None
            }
            Code::INSERT => {
                let (elapsed, new) = tracker.insert(place, at, pid);
                made = new;
                elapsed.map(|elapsed| (elapsed, Wait::Allocation))
            }
            Code::ISSUE => tracker.issue(place, at).map(|elapsed| (elapsed, Wait::Dispatch)),
            Code::COMPLETE => {
                tracker.complete(place, at).map(|elapsed| (elapsed, Wait::Completion))
            }
            Code::FRONT_MERGE => {
                tracker.front_merge(place, record.sectors());
                None
            }
            _ => None,
        };
        if made {
            self.programs.meet(pid);
        }
        found.map(|(elapsed, wait)| {
            self.programs.waited(elapsed.owner, wait, Side::of(record), elapsed.ns);
            elapsed
        })
    }

    /// What each program did, and an empty line.
    fn print_programs(&mut self) {
        for program in self.programs.sorted() {
            let others = if program.several { ", ..." } else { "" };
            self.text.extend_from_slice(&program.name);
            self.text.extend_from_slice(format!(" ({}{others})\n", program.pid).as_bytes());
            program.counts.print(&mut self.text, None);
            let waits = ["Allocation wait:", "Dispatch wait:", "Completion wait:"];
            for (label, longest) in waits.into_iter().zip(program.waits) {
                summary::plain(&mut self.text, [label, label], longest);
            }
        }
        self.text.push(b'\n');
    }
}
