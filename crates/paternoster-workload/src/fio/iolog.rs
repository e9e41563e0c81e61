// SPDX-License-Identifier: MIT OR Apache-2.0
//! I/O log: fio's own record of I/O, read line by line and written.
//!
//! ```text
//! fio version 2 iolog          fio version 3 iolog
//! f.dat add                    17 f.dat add                17 us after the start
//! f.dat open                   147 f.dat open
//! f.dat read 0 4096            149 f.dat write 0 65536     offset, bytes
//! f.dat wait 300000 0          3476 f.dat write 65536 65536
//! f.dat sync 0 0               3500 f.dat sync 0 0
//! f.dat close                  4000 f.dat close
//! ```
//!
//! Actions are read, write, trim, sync, datasync, sync_file_range, and in version 2 wait. A wait
//! lasts this many microseconds since the last one, as the manual says; fio 3.33 itself waits until
//! this many *milliseconds* after the start, which [`WaitRule::Fio`] repeats.
//!
//! The reader holds one line at a time and the names of the files. Every error names file, line,
//! the offending text and what would be right; after one the log ends.
//!
//! Invariants: I1 no text makes the reader panic or hold more than the limits; I2 times never go
//! back (a stamp before the last one counts as that).
//!
//! Source: TRACE-40, TRACE-41; manual of fio 3.33. `tests/all/iolog_real.rs` lets fio replay what
//! is written here.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _, Write};

use paternoster_core::Nanos;

use super::problem::Problem;
use super::syncs::SyncKind;
use crate::direction::Direction;

/// Bytes of one line.
const LINE_MAX: u64 = 16 << 10;
/// Files of one log.
const FILES_MAX: usize = 1 << 16;
/// Bytes of a file's name.
const NAME_MAX: usize = 4096;
/// Bytes of one I/O, as of a job's blocks.
const BYTES_MAX: u64 = 1 << 30;
/// The latest time of an I/O: ten years.
pub const LONGEST: Nanos = Nanos::from_secs(10 * 365 * 86_400);
/// A shorter wait, in microseconds, is none, says the manual.
const WAIT_MIN_US: u64 = 100;

/// What an entry of a log does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogAction {
    /// Read a range.
    Read,
    /// Write a range.
    Write,
    /// Trim a range.
    Trim,
    /// fsync the file.
    Sync,
    /// fdatasync the file.
    Datasync,
    /// sync_file_range of the file.
    SyncFileRange,
}

impl LogAction {
    /// The word in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LogAction::Read => "read",
            LogAction::Write => "write",
            LogAction::Trim => "trim",
            LogAction::Sync => "sync",
            LogAction::Datasync => "datasync",
            LogAction::SyncFileRange => "sync_file_range",
        }
    }

    fn of(word: &str) -> Option<LogAction> {
        use LogAction::{Datasync, Read, Sync, SyncFileRange, Trim, Write};
        let all = [Read, Write, Trim, Sync, Datasync, SyncFileRange];
        all.into_iter().find(|action| action.name() == word)
    }
}

impl From<Direction> for LogAction {
    fn from(direction: Direction) -> LogAction {
        match direction {
            Direction::Read => LogAction::Read,
            Direction::Write => LogAction::Write,
            Direction::Trim => LogAction::Trim,
        }
    }
}

impl From<SyncKind> for LogAction {
    fn from(kind: SyncKind) -> LogAction {
        match kind {
            SyncKind::Fsync => LogAction::Sync,
            SyncKind::Fdatasync => LogAction::Datasync,
            SyncKind::Range => LogAction::SyncFileRange,
        }
    }
}

/// One I/O of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// Time since the start.
    pub at: Nanos,
    /// Number of its file, in the order in which the log adds them.
    pub file: usize,
    /// The action.
    pub action: LogAction,
    /// Offset in bytes; 0 for syncs.
    pub offset: u64,
    /// Length in bytes; 0 for syncs.
    pub bytes: u64,
}

/// How `wait` in version 2 is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitRule {
    /// Microseconds since the last wait.
    #[default]
    Manual,
    /// Milliseconds since the start, as fio 3.33 does.
    Fio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// Reads a log; an iterator over its I/Os, of which an error is the last.
#[derive(Debug)]
pub struct LogReader<R> {
    name: String,
    lines: R,
    rule: WaitRule,
    version: Option<Version>,
    line: u32,
    now: Nanos,
    files: Vec<String>,
    numbers: BTreeMap<String, usize>,
    open: Vec<bool>,
    ended: bool,
}

impl<R: BufRead> LogReader<R> {
    /// A reader of the log that messages call `name`.
    pub fn new(name: &str, lines: R, rule: WaitRule) -> LogReader<R> {
        LogReader {
            name: name.to_owned(),
            lines,
            rule,
            version: None,
            line: 0,
            now: Nanos::ZERO,
            files: Vec::new(),
            numbers: BTreeMap::new(),
            open: Vec::new(),
            ended: false,
        }
    }

    /// The files that the log has added so far, in order.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The next I/O, over the lines that are none.
    fn entry(&mut self) -> Result<Option<LogEntry>, Problem> {
        loop {
            let Some(text) = self.text()? else {
                return match self.version {
                    Some(_) => Ok(None),
                    None => Err(self.wrong("", "the log is empty")),
                };
            };
            let Some(version) = self.version else {
                self.version = Some(self.header(&text)?);
                continue;
            };
            let words: Vec<&str> = text.split_ascii_whitespace().take(6).collect();
            if words.is_empty() {
                continue;
            }
            let words = match version {
                Version::Two => &words[..],
                Version::Three => {
                    let us = self.number(&text, words[0], "a time in microseconds")?;
                    self.check_time(&text, us)?;
                    self.now = self.now.max(Nanos::from_micros(us));
                    &words[1..]
                }
            };
            if let Some(entry) = self.line(&text, words, version)? {
                return Ok(Some(entry));
            }
        }
    }

    /// One line without its end; `None` at the end of the log.
    fn text(&mut self) -> Result<Option<String>, Problem> {
        let mut bytes = Vec::new();
        let read = self.lines.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut bytes);
        self.line = self.line.saturating_add(1);
        let read = read.map_err(|error| self.wrong("", &error.to_string()))?;
        if read == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        if bytes.len() as u64 > LINE_MAX {
            return Err(self.wrong(&text, &format!("the line has more than {LINE_MAX} bytes")));
        }
        Ok(Some(text))
    }

    fn header(&self, text: &str) -> Result<Version, Problem> {
        match text {
            "fio version 2 iolog" => Ok(Version::Two),
            "fio version 3 iolog" => Ok(Version::Three),
            _ => Err(self.wrong(
                text,
                "this is no log of fio: it begins with `fio version 2 iolog` or \
                 `fio version 3 iolog`; block traces come with the trace tools",
            )),
        }
    }

    /// One line without its time: an I/O, or something about a file or the time.
    fn line(
        &mut self,
        text: &str,
        words: &[&str],
        version: Version,
    ) -> Result<Option<LogEntry>, Problem> {
        match *words {
            [file, action] => {
                self.manage(text, file, action)?;
                Ok(None)
            }
            [_, "wait", span, _] if version == Version::Two => {
                let span = self.number(text, span, "a time")?;
                self.check_time(text, span)?;
                self.wait(span);
                self.check_time(text, self.now.as_micros())?;
                Ok(None)
            }
            [file, action, offset, bytes] => self.io(text, file, action, [offset, bytes]).map(Some),
            _ => Err(self.wrong(
                text,
                "this is neither `file action` nor `file action offset length`, \
                 behind a time in version 3",
            )),
        }
    }

    fn manage(&mut self, text: &str, file: &str, action: &str) -> Result<(), Problem> {
        if action == "add" {
            if self.files.len() >= FILES_MAX {
                return Err(self.wrong(text, &format!("there are more than {FILES_MAX} files")));
            }
            if file.len() > NAME_MAX {
                return Err(self.wrong(text, &format!("the name has more than {NAME_MAX} bytes")));
            }
            if self.numbers.contains_key(file) {
                return Err(self.wrong(text, "this file was added before"));
            }
            self.numbers.insert(file.to_owned(), self.files.len());
            self.files.push(file.to_owned());
            self.open.push(false);
            return Ok(());
        }
        let number = self.number_of(text, file)?;
        match action {
            "open" => self.open[number] = true,
            "close" => self.open[number] = false,
            // A file is removed at the end of some jobs; no part of it is left to use.
            "unlink" => {}
            _ => {
                return Err(
                    self.wrong(text, "a file is added, opened or closed: `add`, `open`, `close`")
                );
            }
        }
        Ok(())
    }

    fn io(
        &mut self,
        text: &str,
        file: &str,
        action: &str,
        range: [&str; 2],
    ) -> Result<LogEntry, Problem> {
        let number = self.number_of(text, file)?;
        if !self.open[number] {
            return Err(
                self.wrong(text, &format!("`{file}` is not open: `{file} open` is missing"))
            );
        }
        let Some(action) = LogAction::of(action) else {
            return Err(self.wrong(
                text,
                "the action is none of read, write, trim, sync, datasync (and wait, in version 2)",
            ));
        };
        let [offset, bytes] = range;
        let offset = self.number(text, offset, "an offset in bytes")?;
        let bytes = self.number(text, bytes, "a length in bytes")?;
        let (offset, bytes) = match action {
            LogAction::Sync | LogAction::Datasync | LogAction::SyncFileRange => (0, 0),
            _ if bytes == 0 || bytes > BYTES_MAX || offset.checked_add(bytes).is_none() => {
                let message = format!("an I/O has 1 to {BYTES_MAX} bytes, and ends below 2^64");
                return Err(self.wrong(text, &message));
            }
            _ => (offset, bytes),
        };
        Ok(LogEntry { at: self.now, file: number, action, offset, bytes })
    }

    /// A log is not longer than a run can be.
    fn check_time(&self, text: &str, us: u64) -> Result<(), Problem> {
        if us > LONGEST.as_micros() {
            return Err(self.wrong(text, "a log ends within ten years of its start"));
        }
        Ok(())
    }

    fn wait(&mut self, span: u64) {
        match self.rule {
            WaitRule::Manual if span >= WAIT_MIN_US => self.now += Nanos::from_micros(span),
            WaitRule::Manual => {}
            WaitRule::Fio => self.now = self.now.max(Nanos::from_millis(span)),
        }
    }

    fn number_of(&self, text: &str, file: &str) -> Result<usize, Problem> {
        let missing = || self.wrong(text, &format!("`{file} add` is missing before this line"));
        self.numbers.get(file).copied().ok_or_else(missing)
    }

    fn number(&self, text: &str, word: &str, what: &str) -> Result<u64, Problem> {
        word.parse().map_err(|_| self.wrong(text, &format!("`{word}` is not {what}")))
    }

    fn wrong(&self, text: &str, message: &str) -> Problem {
        Problem::new(&self.name, self.line.max(1), text, message)
    }
}

impl<R: BufRead> Iterator for LogReader<R> {
    type Item = Result<LogEntry, Problem>;

    fn next(&mut self) -> Option<Result<LogEntry, Problem>> {
        if self.ended {
            return None;
        }
        let entry = self.entry().transpose();
        self.ended = !matches!(entry, Some(Ok(_)));
        entry
    }
}

/// Writes a log of version 3, as fio does since 3.31.
#[derive(Debug)]
pub struct LogWriter<W: Write> {
    out: W,
    files: Vec<String>,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log of I/O on these files, all of which are opened at time zero.
    ///
    /// # Errors
    /// Those of `out`, and names with blanks, which the format cannot hold.
    pub fn new(mut out: W, files: &[String]) -> std::io::Result<LogWriter<W>> {
        if let Some(name) = files.iter().find(|name| name.contains(char::is_whitespace)) {
            let message = format!("a log cannot hold the file name `{name}`, which has a blank");
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
        }
        writeln!(out, "fio version 3 iolog")?;
        for action in ["add", "open"] {
            for name in files {
                writeln!(out, "0 {name} {action}")?;
            }
        }
        Ok(LogWriter { out, files: files.to_vec() })
    }

    /// Records one I/O.
    ///
    /// # Errors
    /// Those of the output.
    pub fn entry(&mut self, entry: &LogEntry) -> std::io::Result<()> {
        let LogEntry { at, file, action, offset, bytes } = *entry;
        let Some(name) = self.files.get(file) else { return Ok(()) };
        writeln!(self.out, "{} {name} {} {offset} {bytes}", at.as_micros(), action.name())
    }

    /// Closes the files at `now`, and gives the output back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self, now: Nanos) -> std::io::Result<W> {
        for name in &self.files {
            writeln!(self.out, "{} {name} close", now.as_micros())?;
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests;
