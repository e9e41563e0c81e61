// SPDX-License-Identifier: MIT OR Apache-2.0
//! Record: the files that a process writes about itself: logs of figures, a log of its I/O.
//!
//! Errors of the output end the run with the file's name, not the process: a log that is cut short
//! would be false.

use std::io::{self, Write};

use paternoster_core::Nanos;

use crate::fio::iolog::{LogAction, LogEntry, LogWriter};
use crate::fio::job_logs::{JobLog, LoggedIo};
use crate::fio::offsets::Piece;
use crate::fio::syncs::SyncKind;

/// Where a file goes.
pub type Output = Box<dyn Write>;

/// What a process writes.
#[derive(Default)]
pub struct Record {
    /// Logs of figures with their files' names.
    pub logs: Vec<(String, JobLog<Output>)>,
    /// The log of I/O with its file's name.
    pub ios: Option<(String, LogWriter<Output>)>,
    error: Option<(String, io::Error)>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.logs.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Record").field("logs", &names).finish_non_exhaustive()
    }
}

impl Record {
    /// Whether anything is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.ios.is_none()
    }

    /// The first output that failed, once.
    pub fn take_error(&mut self) -> Option<(String, io::Error)> {
        self.error.take()
    }

    fn note(&mut self, name: &str, done: io::Result<()>) {
        if let (Err(error), None) = (done, &self.error) {
            self.error = Some((name.to_owned(), error));
        }
    }

    pub(super) fn issued(&mut self, at: Nanos, piece: &Piece) {
        let Piece { file, direction, offset, bytes } = *piece;
        self.entry(LogEntry { at, file, action: LogAction::from(direction), offset, bytes });
    }

    pub(super) fn synced(&mut self, at: Nanos, kind: SyncKind, file: usize) {
        self.entry(LogEntry { at, file, action: LogAction::from(kind), offset: 0, bytes: 0 });
    }

    fn entry(&mut self, entry: LogEntry) {
        if let Some((name, mut log)) = self.ios.take() {
            let done = log.entry(&entry);
            self.note(&name, done);
            self.ios = Some((name, log));
        }
    }

    pub(super) fn completed(&mut self, io: &LoggedIo) {
        let mut logs = std::mem::take(&mut self.logs);
        for (name, log) in &mut logs {
            let done = log.completed(io);
            self.note(name, done);
        }
        self.logs = logs;
    }

    /// The process has ended, this long after its start.
    pub(super) fn end(&mut self, after: Nanos) {
        for (name, log) in std::mem::take(&mut self.logs) {
            let done = log.end(after).map(|_| ());
            self.note(&name, done);
        }
        if let Some((name, log)) = self.ios.take() {
            let done = log.finish(after).map(|_| ());
            self.note(&name, done);
        }
    }
}
