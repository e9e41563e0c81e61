// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded: a log of I/O that a job replays, read into memory, with what its files need.
//!
//! A file is as long as the log's I/O on it reaches; a name below `/dev/` is the device.
//!
//! A log that is constructed and not read may be a [`Chain`]: its I/Os do not come at their times,
//! but each after the ones before, or together with the one before it.
//!
//! Limits: four million I/Os a log, 40 bytes each.

use std::io::BufRead;

use paternoster_core::Nanos;

use super::iolog::{LONGEST, LogEntry, LogReader, WaitRule};
use super::problem::Problem;
use super::replay::ReplayRules;

/// I/Os of one log.
const ENTRIES_MAX: usize = 1 << 22;

/// A log as a job will replay it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Its files, in the order of their numbers.
    pub files: Vec<String>,
    /// How many bytes of each file are touched.
    pub sizes: Vec<u64>,
    /// The process's I/Os, in order of time.
    pub entries: Vec<LogEntry>,
    /// How they depend on each other, if not by time.
    pub chain: Option<Chain>,
}

/// I/Os that depend on each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// From the moment when nothing is in flight to the next I/O that is not read ahead.
    pub think: Nanos,
    /// For each entry: whether it is read ahead together with the one before; otherwise it begins
    /// when everything before it is complete.
    pub ahead: Vec<bool>,
}

/// How one I/O depends on those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Link {
    /// It does not wait for another one.
    #[default]
    Free,
    /// It begins this long after everything before it was complete.
    After(Nanos),
    /// It is issued together with the one before.
    Ahead,
}

impl Chain {
    /// How entry number `place` depends on those before.
    #[must_use]
    pub fn link(&self, place: usize) -> Link {
        match self.ahead.get(place) {
            Some(true) => Link::Ahead,
            _ => Link::After(self.think),
        }
    }
}

impl Recorded {
    /// Reads a log that messages call `name`, as `rules` have it replayed.
    ///
    /// # Errors
    /// The line that is not a line of a log, or the limit.
    pub fn read(name: &str, lines: impl BufRead, rules: &ReplayRules) -> Result<Recorded, Problem> {
        let mut reader = LogReader::new(name, lines, WaitRule::Manual);
        let mut log = Recorded::default();
        for entry in reader.by_ref() {
            let Some(entry) = rules.apply(entry?) else { continue };
            if log.entries.len() >= ENTRIES_MAX {
                let message = format!("the log has more than {ENTRIES_MAX} I/Os");
                return Err(Problem::new(name, 1, name, message));
            }
            if entry.at > LONGEST {
                let message = "with replay_time_scale the log takes more than ten years".to_owned();
                return Err(Problem::new(name, 1, name, message));
            }
            if log.sizes.len() <= entry.file {
                log.sizes.resize(entry.file + 1, 0);
            }
            let end = entry.offset.saturating_add(entry.bytes);
            log.sizes[entry.file] = log.sizes[entry.file].max(end);
            log.entries.push(entry);
        }
        log.files = match &rules.redirect {
            Some(file) => vec![file.clone()],
            None => reader.files().to_vec(),
        };
        log.sizes.resize(log.files.len(), 0);
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "fio version 2 iolog\na add\nb add\na open\nb open\na read 0 4096\n\
                       b write 8192 4096\na sync 0 0\nb close\na close\n";

    /// Are files as long as the log reaches, and one if all is redirected?
    #[test]
    fn files_are_as_long_as_the_log_reaches() {
        let log = Recorded::read("l", LOG.as_bytes(), &ReplayRules::default()).unwrap();
        assert_eq!((log.files.len(), log.sizes.clone()), (2, vec![4096, 12_288]));
        assert_eq!(log.entries.len(), 3);
        let rules = ReplayRules { redirect: Some("c".to_owned()), ..ReplayRules::default() };
        let log = Recorded::read("l", LOG.as_bytes(), &rules).unwrap();
        assert_eq!((log.files, log.sizes), (vec!["c".to_owned()], vec![12_288]));
        let wrong = Recorded::read("l", "nonsense\n".as_bytes(), &ReplayRules::default());
        assert!(wrong.unwrap_err().to_string().starts_with("l:1: "));
    }
}
