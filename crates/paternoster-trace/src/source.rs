// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source: where the events of a trace come from, whatever its format.
//!
//! ```text
//! binary, per CPU ─┐
//! ftrace text      ├─▶ Source: records, in order of time ─▶ analysis, plots, replay
//! MSR's CSV …     ─┘         └▶ problems: what was refused, and where
//! ```
//!
//! Every format becomes blktrace's [`Record`]s, so that a reader of one reads all. A format with
//! less information gives less: one with arrivals only gives `Q`, one with response times `Q`, `D`,
//! `C`. Names of processes come as blktrace's notes, before the first event of the process. A
//! device with a name and no number gets a number.
//!
//! A source never fails: [`Source::problems`] reports what is wrong, and everything readable is
//! read.
//!
//! Invariants: I1 times do not go back, notes apart; I2 memory is bounded, however long the trace.
//!
//! Source: TRACE-8, TRACE-13; TRACE-40 to TRACE-55, TRACE-58.

use core::fmt;

use crate::blktrace::{DeviceNumber, Record};

/// A record with its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The event.
    pub record: Record,
    /// By action: where a remap came from, the second half of a split, a count, the bytes of a
    /// command (all big-endian); the name of a process, the text of a message, the wall clock (two
    /// little-endian 32-bit numbers: seconds, nanoseconds).
    pub payload: &'a [u8],
}

/// The events of a trace, in order of time.
pub trait Source {
    /// The next event; `None` at the end.
    fn next(&mut self) -> Option<Entry<'_>>;

    /// The records refused so far.
    fn problems(&self) -> &Problems;

    /// The format's name of a device, if that is not a number.
    fn device_name(&self, device: DeviceNumber) -> Option<&str> {
        let _ = device;
        None
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next(&mut self) -> Option<Entry<'_>> {
        (**self).next()
    }

    fn problems(&self) -> &Problems {
        (**self).problems()
    }

    fn device_name(&self, device: DeviceNumber) -> Option<&str> {
        (**self).device_name(device)
    }
}

/// A place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a line of a text, from 1.
    Line(u64),
    /// A byte, counted from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "{line}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Something in a trace that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// The place in that file.
    pub place: Place,
    /// What is wrong, with the offending text, and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.place, self.message)
    }
}

/// How many problems are kept to be shown; all are counted.
pub const PROBLEMS_SHOWN: usize = 20;
/// The longest piece of offending text that is quoted, in bytes.
const QUOTE_MAX: usize = 80;

/// The refused records: all are counted, the first ones kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    count: u64,
    shown: Vec<Problem>,
}

impl Problems {
    /// Counts a problem, and keeps it if it is among the first.
    pub fn add(&mut self, file: &str, place: Place, message: impl FnOnce() -> String) {
        self.count += 1;
        if self.shown.len() < PROBLEMS_SHOWN {
            self.shown.push(Problem { file: file.to_owned(), place, message: message() });
        }
    }

    /// Appends the problems of another source.
    pub fn extend(&mut self, other: &Problems) {
        self.count += other.count;
        let room = PROBLEMS_SHOWN - self.shown.len();
        self.shown.extend(other.shown.iter().take(room).cloned());
    }

    /// Number of refused records.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The first [`PROBLEMS_SHOWN`] of them.
    #[must_use]
    pub fn shown(&self) -> &[Problem] {
        &self.shown
    }
}

/// Foreign text in printable form: in backquotes, cut where it is long, without control characters.
#[must_use]
pub fn quote(text: &[u8]) -> String {
    let cut = &text[..text.len().min(QUOTE_MAX)];
    let printable = |c: char| if c.is_control() { '\u{b7}' } else { c };
    let shown: String = String::from_utf8_lossy(cut).chars().map(printable).collect();
    format!("`{shown}{}`", if text.len() > QUOTE_MAX { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are all problems counted, and no more kept than are shown?
    #[test]
    fn problems_are_counted_and_the_first_kept() {
        let mut problems = Problems::default();
        for line in 1..=30 {
            problems.add("a.csv", Place::Line(line), || format!("wrong {line}"));
        }
        assert_eq!((problems.count(), problems.shown().len()), (30, PROBLEMS_SHOWN));
        assert_eq!(problems.shown()[1].to_string(), "a.csv:2: wrong 2");
        let mut both = Problems::default();
        both.add("b", Place::Byte(7), || "cut".to_owned());
        both.extend(&problems);
        assert_eq!((both.count(), both.shown().len()), (31, PROBLEMS_SHOWN));
        assert_eq!(both.shown()[0].to_string(), "b:byte 7: cut");
    }

    /// Is quoted text short and harmless?
    #[test]
    fn quotes_are_short_and_harmless() {
        assert_eq!(quote(b"a\x1b[2Jb"), "`a\u{b7}[2Jb`");
        assert_eq!(quote(&[b'x'; 100]), format!("`{}…`", "x".repeat(80)));
    }
}
