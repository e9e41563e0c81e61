// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces as named on the command line, and their problems.

use std::path::Path;

use clap::Args;
use clap::builder::PossibleValuesParser;
use paternoster_core::Nanos;
use paternoster_frame::progress::{Display, Whole};
use paternoster_frame::say;
use paternoster_frame::{Failure, context};
use paternoster_trace::blktrace::DeviceNumber;
use paternoster_trace::formats::{Format, open_path};
use paternoster_trace::{Entry, Problems, Source};

/// Options for reading a trace.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InputOptions {
    /// The trace's format, if it is not to be recognised by its contents
    #[arg(long, value_name = "FORMAT", value_parser = names())]
    input_format: Option<String>,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
}

impl InputOptions {
    /// Opens a trace: blktrace's files by their prefix, one file of any format, or `-`.
    pub(crate) fn open(&self, name: &str) -> Result<Box<dyn Source>, Failure> {
        let wanted = self.input_format.as_deref();
        let format = Format::ALL.into_iter().find(|format| Some(format.name()) == wanted);
        let source = open_path(Path::new(name), format);
        let source = source.map_err(|error| Failure::Request(error.to_string()))?;
        let display = Display::new(context::is_present(), name, Whole::Unknown);
        Ok(Box::new(Shown { source, display, events: 0 }))
    }
}

/// Events between two updates of the line on the terminal.
const TOLD_EVERY: u64 = 1 << 16;

/// A trace that reports how far it was read.
struct Shown {
    source: Box<dyn Source>,
    display: Display,
    events: u64,
}

impl Source for Shown {
    fn next(&mut self) -> Option<Entry<'_>> {
        self.events += 1;
        if self.events.is_multiple_of(TOLD_EVERY) {
            self.display.read(self.events);
        }
        let entry = self.source.next();
        if entry.is_none() {
            self.display.clear();
        }
        entry
    }

    fn problems(&self) -> &Problems {
        self.source.problems()
    }

    fn device_name(&self, device: DeviceNumber) -> Option<&str> {
        self.source.device_name(device)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.display.clear();
    }
}

/// A trace whose times count from its first event, unlike those of a machine's clock.
pub(crate) struct Rebased {
    source: Box<dyn Source>,
    first: Option<Nanos>,
}

impl Rebased {
    pub(crate) const fn new(source: Box<dyn Source>) -> Rebased {
        Rebased { source, first: None }
    }
}

impl Source for Rebased {
    fn next(&mut self) -> Option<Entry<'_>> {
        let mut entry = self.source.next()?;
        let record = &mut entry.record;
        if self.first.is_none() && !record.is_note() {
            self.first = Some(record.at);
        }
        record.at = Nanos(record.at.0.saturating_sub(self.first.unwrap_or(record.at).0));
        Some(entry)
    }

    fn problems(&self) -> &Problems {
        self.source.problems()
    }

    fn device_name(&self, device: DeviceNumber) -> Option<&str> {
        self.source.device_name(device)
    }
}

/// Prints what was refused, on stderr.
pub(crate) fn tell_problems(source: &dyn Source) {
    if context::is_present() {
        return;
    }
    let problems = source.problems();
    for problem in problems.shown() {
        say!("note: {problem}");
    }
    let shown = problems.shown().len() as u64;
    if problems.count() > shown {
        say!("note: … and {} more", problems.count() - shown);
    }
}
