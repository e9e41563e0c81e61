// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries: what one line of the log says, and how it is written.
//!
//! ```text
//! text     2026-11-26T12:00:00.123Z info paternoster: vm1: 10.0.0.3:4000: connected, tenant db
//! journal  <6>paternoster: vm1: 10.0.0.3:4000: connected, tenant db
//! json     {"time":"2026-11-26T12:00:00.123Z","level":"info","event":"connect","message":"vm1: …",
//!           "volume":"vm1","peer":"10.0.0.3:4000","tenant":"db"}      (in one line)
//! ```
//!
//! The journal notes times itself, and reads the level from `<N>` (sd-daemon(3)): where standard
//! error is the journal (`JOURNAL_STREAM` has its device and inode) a line of text has that.
//!
//! Names come from clients. In text a control character is written as an escape, so that no name
//! makes a line of its own; in JSON every character is.
//!
//! Invariants: I1 an entry is one line; I2 a line of JSON is one object, whatever is in its texts.

use std::fmt::{Arguments, Write as _};
use std::time::SystemTime;

use super::time::utc;
use crate::config::{Level, LogFormat};

/// Bytes of a message; what is longer ends there.
const LENGTH: usize = 1024;
/// Bytes of a text in addition to it.
const TEXT: usize = 256;

/// Format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Style {
    /// Text, without a time: before anything was configured.
    #[default]
    Plain,
    /// Text, with time and level.
    Text,
    /// Text for the journal.
    Journal,
    /// JSON.
    Json,
}

impl Style {
    /// The configured format, for this standard error.
    pub(super) fn of(format: LogFormat) -> Style {
        match format {
            LogFormat::Json => Style::Json,
            LogFormat::Text if is_journal() => Style::Journal,
            LogFormat::Text => Style::Text,
        }
    }
}

/// Whether standard error goes to the journal.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(std::io::stderr())
        .is_ok_and(|found| stream == format!("{}:{}", found.st_dev, found.st_ino))
}

/// The fields of a message, for machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(cut(text.to_owned(), TEXT))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(number.into())
    }
}

/// One line of the log.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(super) level: Level,
    pub(super) event: &'static str,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Entry {
    /// An entry about an event of this name.
    pub(crate) const fn new(level: Level, event: &'static str) -> Entry {
        Entry { level, event, fields: Vec::new() }
    }

    /// With a field besides its message; no field has the name of one that every line has.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Entry {
        self.fields.push((name, value.into()));
        self
    }

    /// The line, without its end.
    pub(super) fn render(&self, style: Style, now: SystemTime, words: Arguments<'_>) -> String {
        let words = words.to_string();
        let words = cut(words.strip_prefix("paternoster: ").unwrap_or(&words).to_owned(), LENGTH);
        match style {
            Style::Json => self.json(&utc(now), &words),
            Style::Plain => format!("paternoster: {}", Printable(&words)),
            Style::Journal => {
                let number = match self.level {
                    Level::Error => 3,
                    Level::Warning => 4,
                    Level::Info => 6,
                    Level::Debug => 7,
                };
                format!("<{number}>paternoster: {}", Printable(&words))
            }
            Style::Text => {
                format!("{} {} paternoster: {}", utc(now), self.level, Printable(&words))
            }
        }
    }

    fn json(&self, time: &str, words: &str) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (level, event, message) = (self.level, self.event, quoted(words));
        let mut line = format!(
            "{{\"time\":\"{time}\",\"level\":\"{level}\",\"event\":\"{event}\",\
             \"message\":{message}"
        );
        for (name, value) in &self.fields {
            // Writing to a String cannot fail.
            let _written = match value {
                Value::Text(text) => write!(line, ",\"{name}\":{}", quoted(text)),
                Value::Number(number) => write!(line, ",\"{name}\":{number}"),
            };
        }
        line.push('}');
        line
    }
}

/// The beginning of a text, at a whole character.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

/// A text without control characters.
struct Printable<'a>(&'a str);

impl std::fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for letter in self.0.chars() {
            if letter.is_control() {
                write!(f, "{}", letter.escape_default())?;
            } else {
                f.write_char(letter)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn rendered(style: Style, words: &str) -> String {
        let entry =
            Entry::new(Level::Warning, "disconnect").with("peer", words).with("errno", 5u32);
        entry.render(style, UNIX_EPOCH, format_args!("paternoster: {words}"))
    }

    /// Is each style what the essay says?
    #[test]
    fn styles() {
        assert_eq!(rendered(Style::Plain, "x"), "paternoster: x");
        assert_eq!(rendered(Style::Journal, "x"), "<4>paternoster: x");
        let text = "1970-01-01T00:00:00.000Z warning paternoster: x";
        assert_eq!(rendered(Style::Text, "x"), text);
        let json = "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"warning\",\
                    \"event\":\"disconnect\",\"message\":\"x\",\"peer\":\"x\",\"errno\":5}";
        assert_eq!(rendered(Style::Json, "x"), json);
    }

    /// Is an entry in JSON one object on one line, and does its text survive, for every character
    /// of Unicode?
    #[test]
    fn json_of_every_character() {
        let all: Vec<char> = (0..=u32::from(char::MAX)).filter_map(char::from_u32).collect();
        // 60 of at most 4 bytes fit into 256.
        for some in all.chunks(60) {
            let name: String = some.iter().collect();
            let line = rendered(Style::Json, &name);
            assert!(!line.contains(['\n', '\r']), "{line}");
            let value: serde_json::Value = serde_json::from_str(&line).expect("an object");
            assert_eq!((&value["message"], &value["peer"]), (&name.clone().into(), &name.into()));
        }
    }

    /// Does no name make a line of its own in text?
    #[test]
    fn a_name_stays_within_its_line() {
        let told = rendered(Style::Text, "vm\n<0>paternoster: root did it\r\u{1b}[2J\u{85}");
        assert!(!told.contains(char::is_control), "{told}");
        assert!(told.ends_with("vm\\n<0>paternoster: root did it\\r\\u{1b}[2J\\u{85}"), "{told}");
    }

    /// Does a line end somewhere, at a whole character?
    #[test]
    fn lines_are_cut() {
        // 512 characters of two bytes; 128 for the text in addition.
        let told = rendered(Style::Plain, &"ä".repeat(3000));
        assert_eq!(told, format!("paternoster: {}…", "ä".repeat(512)));
        let value: serde_json::Value =
            serde_json::from_str(&rendered(Style::Json, &"ä".repeat(3000))).expect("an object");
        assert_eq!(value["peer"], format!("{}…", "ä".repeat(128)));
    }
}
