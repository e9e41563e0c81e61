// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader: a text, line by line, as records.
//!
//! Empty lines and lines that begin with `#` are skipped. A wrong line is an error, and reading
//! goes on with the next one: a log that was cut at its end, or contains a line of another program,
//! is still good. It ends only when the text itself cannot be read.
//!
//! Invariants: I1 no text makes the reader panic, or hold more than one line of [`LINE_MAX`]; I2
//! the line numbers of the entries go up.

use core::fmt;
use std::io::{self, BufRead, Read as _};

use super::line::{Record, read, whole};

/// Bytes of one line, without its end. The kernel's longest message has a few hundred.
pub const LINE_MAX: usize = 4096;

/// The longest piece of offending text that is quoted.
const QUOTE_MAX: usize = 200;

/// A line that is not skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An event or a message.
    Record(Record),
    /// The kernel's buffer was full; something is missing here.
    Lost {
        /// Number of the line, from 1.
        line: u64,
        /// The processor that lost them.
        cpu: u32,
        /// How many lines, if the kernel knows.
        events: Option<u64>,
    },
}

/// Why a line could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The text could not be read.
    Io {
        /// Number of the line, from 1.
        line: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A line is wrong.
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// Its text, cut where it is long.
        text: String,
        /// What is wrong, and what would be right.
        message: String,
    },
}

impl Error {
    /// The number of the line, from 1.
    #[must_use]
    pub const fn line(&self) -> u64 {
        match self {
            Error::Io { line, .. } | Error::Line { line, .. } => *line,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { line, source } => write!(f, "line {line}: cannot be read: {source}"),
            Error::Line { line, text, message } => write!(f, "line {line}: {message}: `{text}`"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Line { .. } => None,
        }
    }
}

/// Reads a text; an iterator over its entries.
///
/// ```
/// use paternoster_trace::ftrace::{Action, Entry, Reader, What};
///
/// let text = "# tracer: blk\n  fio-3445 [000] d..1. 3987.797223:   7,0    Q  RS 0 + 256 [fio]";
/// let entries: Result<Vec<Entry>, _> = Reader::new(text.as_bytes()).collect();
/// let [Entry::Record(record)] = &entries.unwrap()[..] else { panic!() };
/// let What::Event(event) = &record.what else { panic!() };
/// assert_eq!((record.line, record.pid, record.at_ns), (2, 3445, 3_987_797_223_000));
/// assert_eq!((event.action, event.sector, event.sectors), (Action::Queue, 0, 256));
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    text: R,
    line: u64,
    bytes: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// A reader of this text. The caller must unpack a compressed log.
    pub fn new(text: R) -> Reader<R> {
        Reader { text, line: 0, bytes: Vec::new(), ended: false }
    }

    /// Reads one line into `bytes`; whether there is one.
    fn fill(&mut self) -> io::Result<bool> {
        self.bytes.clear();
        let most = LINE_MAX as u64 + 1;
        let read = self.text.by_ref().take(most).read_until(b'\n', &mut self.bytes)?;
        self.line += 1;
        if self.bytes.last() == Some(&b'\n') {
            self.bytes.pop();
        } else if self.bytes.len() > LINE_MAX {
            self.skip()?;
        }
        Ok(read > 0)
    }

    /// Skips the rest of a line that is too long, without holding it.
    fn skip(&mut self) -> io::Result<()> {
        loop {
            let ahead = match self.text.fill_buf() {
                Ok(ahead) => ahead,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = ahead.iter().position(|&byte| byte == b'\n');
            let (length, done) = (ahead.len(), ahead.is_empty() || end.is_some());
            self.text.consume(end.map_or(length, |end| end + 1));
            if done {
                return Ok(());
            }
        }
    }

    /// The entry in `bytes`; `None` for empty lines and comments.
    fn entry(&self) -> Result<Option<Entry>, Error> {
        let text = String::from_utf8_lossy(&self.bytes);
        let wrong = |message: String| Error::Line { line: self.line, text: quote(&text), message };
        if self.bytes.len() > LINE_MAX {
            return Err(wrong(format!("the line has more than {LINE_MAX} bytes")));
        }
        let text = text.trim_end();
        let start = text.trim_start();
        if start.is_empty() || start.starts_with('#') {
            return Ok(None);
        }
        if let Some((cpu, events)) = lost(start) {
            return Ok(Some(Entry::Lost { line: self.line, cpu, events }));
        }
        read(self.line, text).map(|record| Some(Entry::Record(record))).map_err(wrong)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Result<Entry, Error>> {
        while !self.ended {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => self.ended = true,
                Err(source) => {
                    self.ended = true;
                    return Some(Err(Error::Io { line: self.line + 1, source }));
                }
            }
            if let Some(entry) = self.entry().transpose().filter(|_| !self.ended) {
                return Some(entry);
            }
        }
        None
    }
}

/// `CPU:1 [LOST 123 EVENTS]`, or without the number.
fn lost(text: &str) -> Option<(u32, Option<u64>)> {
    let (cpu, rest) = text.strip_prefix("CPU:")?.split_once(" [LOST ")?;
    let events = rest.strip_suffix("EVENTS]")?.trim();
    let events = if events.is_empty() { None } else { Some(whole(events)?) };
    Some((whole(cpu)?, events))
}

fn quote(text: &str) -> String {
    let text = text.trim();
    let mut quoted: String = text.chars().take(QUOTE_MAX).collect();
    if quoted.len() < text.len() {
        quoted.push_str("...");
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "fio-1 [000] d..1. 1.000000: 7,0 Q R 1 + 2 [fio]";

    fn read_all(text: &[u8]) -> Vec<Result<Entry, Error>> {
        Reader::new(text).collect()
    }

    /// Are lines counted, comments skipped, losses reported, with and without an end of line?
    #[test]
    fn lines_of_all_kinds() {
        let text = format!(
            "# tracer: blk\n\n{LINE}\r\n  CPU:1 [LOST 123 EVENTS]\nCPU:0 [LOST EVENTS]\n{LINE}"
        );
        let entries = read_all(text.as_bytes());
        let lines: Vec<u64> = entries
            .iter()
            .map(|entry| match entry.as_ref().unwrap() {
                Entry::Record(record) => record.line,
                Entry::Lost { line, .. } => *line,
            })
            .collect();
        assert_eq!(lines, [3, 4, 5, 6]);
        let lost = |line, cpu, events| Entry::Lost { line, cpu, events };
        assert_eq!(entries[1].as_ref().unwrap(), &lost(4, 1, Some(123)));
        assert_eq!(entries[2].as_ref().unwrap(), &lost(5, 0, None));
    }

    /// Does a wrong line have an error that names it, and the next one none?
    #[test]
    fn a_wrong_line_is_one_error() {
        let text = format!("{LINE}\nfio-1 [000] d..1. 1.000000: 7,0 Q R 1 + \u{fffd}\n{LINE}\n");
        let entries = read_all(text.as_bytes());
        assert_eq!(entries.len(), 3);
        let error = entries[1].as_ref().unwrap_err();
        let message = "line 2: behind `Q R` stands `1 + \u{fffd}`, not `SECTOR + SECTORS [TASK]`: \
                       `fio-1 [000] d..1. 1.000000: 7,0 Q R 1 + \u{fffd}`";
        assert_eq!((error.line(), &*error.to_string()), (2, message));
        assert!(entries[2].is_ok());
    }

    /// Is a line of the greatest length read, and one byte more refused without losing the next?
    #[test]
    fn long_lines() {
        let message = "fio-1 [000] d..1. 1.000000: 7,0 1,0  m   N bfq ";
        for (length, fits) in [(LINE_MAX, true), (LINE_MAX + 1, false), (10 * LINE_MAX, false)] {
            let long = format!("{message}{}", "x".repeat(length - message.len()));
            for text in [format!("{long}\n{LINE}\n"), format!("{long}\n{LINE}"), long] {
                let entries = read_all(text.as_bytes());
                assert_eq!(entries[0].is_ok(), fits, "{length}");
                assert_eq!(entries.len(), 1 + usize::from(text.contains('\n')), "{length}");
            }
        }
    }

    /// Does a text that cannot be read end with one error?
    #[test]
    fn a_broken_text_ends() {
        struct Broken;
        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("gone"))
            }
        }
        let line = format!("{LINE}\n");
        let text = io::BufReader::new(io::Read::chain(line.as_bytes(), Broken));
        let entries: Vec<_> = Reader::new(text).collect();
        assert_eq!(entries.len(), 2);
        let error = entries[1].as_ref().unwrap_err();
        assert_eq!(error.to_string(), "line 2: cannot be read: gone");
    }
}
