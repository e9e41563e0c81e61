// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replay: the options by which a job replays a log of I/O, and their effect on its entries.
//!
//! ```text
//! replay_scale=3 replay_align=4096     offset 100000 -> 33333 -> 32768; the length stays
//! replay_time_scale=50                 half the rate: an I/O at 50 ms comes at 100 ms
//! replay_skip=write,sync               these are left out; the times of the others stay
//! replay_no_stall                      everything at time 0, in order
//! read_iolog=a:b                       clone 0 replays a, clone 1 b, clone 2 a again
//! ```
//!
//! Source: FIO-71; scale, align and time scale measured on fio 3.33. Differs: there
//! `replay_skip` holds for block traces only, here for every log.

use paternoster_core::Nanos;

use super::iolog::{LogAction, LogEntry};
use super::value::{self, Reader};

/// Logs that one job may name.
const LOGS_MAX: usize = 256;

/// The options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayRules {
    /// `read_iolog`: the logs, one clone after the other; empty is no replay.
    pub logs: Vec<String>,
    /// `write_iolog`: where the job's I/O is recorded. A replay is not recorded.
    pub record: Option<String>,
    /// `replay_no_stall`.
    pub no_stall: bool,
    /// `replay_redirect`: the one file or device for all I/O.
    pub redirect: Option<String>,
    /// `replay_align`: offsets are rounded down to it, a power of two; 0 is none.
    pub align: u64,
    /// `replay_scale`: offsets are divided by it, at least 1.
    pub scale: u64,
    /// `replay_time_scale`: percent of the log's rate.
    pub time_scale: u64,
    /// `replay_skip`: reads, writes, trims, syncs.
    pub skip: [bool; 4],
}

impl Default for ReplayRules {
    fn default() -> ReplayRules {
        ReplayRules {
            logs: Vec::new(),
            record: None,
            no_stall: false,
            redirect: None,
            align: 0,
            scale: 1,
            time_scale: 100,
            skip: [false; 4],
        }
    }
}

impl ReplayRules {
    /// Whether the job replays instead of making I/Os of its own.
    #[must_use]
    pub fn is_used(&self) -> bool {
        !self.logs.is_empty()
    }

    /// The log of clone number `clone`, from 0.
    #[must_use]
    pub fn log_of(&self, clone: u32) -> Option<&str> {
        let count = self.logs.len().max(1);
        self.logs.get(usize::try_from(clone).unwrap_or(0) % count).map(String::as_str)
    }

    /// What an entry of the log becomes; `None` leaves it out.
    #[must_use]
    pub fn apply(&self, entry: LogEntry) -> Option<LogEntry> {
        let place = match entry.action {
            LogAction::Read => 0,
            LogAction::Write => 1,
            LogAction::Trim => 2,
            LogAction::Sync | LogAction::Datasync | LogAction::SyncFileRange => 3,
        };
        if self.skip[place] {
            return None;
        }
        let mut offset = entry.offset / self.scale.max(1);
        if self.align > 0 {
            offset -= offset % self.align;
        }
        let at = if self.no_stall { Nanos::ZERO } else { self.scaled(entry.at) };
        let file = if self.redirect.is_some() { 0 } else { entry.file };
        Some(LogEntry { at, file, offset, ..entry })
    }

    fn scaled(&self, at: Nanos) -> Nanos {
        let scaled = u128::from(at.0) * 100 / u128::from(self.time_scale.max(1));
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        match name {
            "read_iolog" => {
                self.logs = value::names(text);
                if self.logs.len() > LOGS_MAX {
                    return Err(format!("there are more than {LOGS_MAX} logs"));
                }
            }
            "write_iolog" => self.record = Some(text.to_owned()),
            "replay_no_stall" => self.no_stall = value::boolean(text)?,
            "replay_redirect" => self.redirect = Some(text.to_owned()),
            "replay_align" => {
                self.align = read.size(text)?;
                if self.align > 0 && !self.align.is_power_of_two() {
                    return Err(format!("`{text}` is no power of two"));
                }
            }
            "replay_scale" => self.scale = read.integer(text, 1, u64::MAX)?,
            "replay_time_scale" => self.time_scale = read.integer(text, 1, u64::MAX)?,
            "replay_skip" => self.skip = skip(text)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn skip(text: &str) -> Result<[bool; 4], String> {
    let mut skip = [false; 4];
    for word in text.split(',') {
        let place = match word {
            "read" => 0,
            "write" => 1,
            "trim" => 2,
            "sync" => 3,
            _ => return Err(format!("`{word}` is none of read, write, trim and sync")),
        };
        skip[place] = true;
    }
    Ok(skip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(options: &[(&str, &str)]) -> ReplayRules {
        let mut rules = ReplayRules::default();
        for (name, text) in options {
            assert!(rules.set(name, text, &mut Reader::new(1024, &mut Vec::new())).unwrap());
        }
        rules
    }

    fn entry(at_ms: u64, action: LogAction, offset: u64) -> LogEntry {
        LogEntry { at: Nanos::from_millis(at_ms), file: 2, action, offset, bytes: 4096 }
    }

    /// Do the options do what the module says, as measured?
    #[test]
    fn entries_are_transformed() {
        let both = rules(&[("replay_scale", "3"), ("replay_align", "4096")]);
        let scaled = both.apply(entry(0, LogAction::Read, 100_000)).unwrap();
        assert_eq!((scaled.offset, scaled.bytes), (32_768, 4096));
        for (percent, ms) in [("50", 100), ("200", 25)] {
            let slower = rules(&[("replay_time_scale", percent)]);
            let moved = slower.apply(entry(50, LogAction::Write, 0)).unwrap();
            assert_eq!(moved.at, Nanos::from_millis(ms));
        }
        let skip = rules(&[("replay_skip", "write,sync")]);
        assert!(skip.apply(entry(0, LogAction::Write, 0)).is_none());
        assert!(skip.apply(entry(0, LogAction::Datasync, 0)).is_none());
        assert!(skip.apply(entry(0, LogAction::Trim, 0)).is_some());
        let at_once = rules(&[("replay_no_stall", "1"), ("replay_redirect", "/dev/sdb")]);
        let moved = at_once.apply(entry(50, LogAction::Read, 0)).unwrap();
        assert_eq!((moved.at, moved.file), (Nanos::ZERO, 0));
    }

    /// Do clones take the logs in turn, and are wrong values refused?
    #[test]
    fn options() {
        let two = rules(&[("read_iolog", "a:b")]);
        assert_eq!(
            (two.log_of(0), two.log_of(1), two.log_of(2)),
            (Some("a"), Some("b"), Some("a"))
        );
        assert_eq!(ReplayRules::default().log_of(0), None);
        let mut notes = Vec::new();
        let mut read = Reader::new(1024, &mut notes);
        for (name, text) in [("replay_align", "3000"), ("replay_scale", "0"), ("replay_skip", "x")]
        {
            assert!(ReplayRules::default().set(name, text, &mut read).is_err(), "{name}={text}");
        }
    }
}
