// SPDX-License-Identifier: MIT OR Apache-2.0
//! Format: lines as the user wants them, `-f "%5T.%9t %a %S + %n [%C]\n"`.
//!
//! ```text
//! %-12C   the name, in 12 columns, left-aligned     %a action   %D device   %S sector   …
//! \n      ends the line: nothing else does          -F Q,FMT    only of the actions with a Q
//! ```
//!
//! A letter without a meaning is printed as it is, in its columns. The nanoseconds are nine digits,
//! or as many as their width. A device and a command's bytes have no width. Messages keep their own
//! line. Timer unplugs (`UT`) follow `U`, their first letter.
//!
//! Where `%u` needs an unknown time, blkparse gives up; here nothing is printed.
//!
//! Source: PARSE-10; the installed tool.

use std::collections::BTreeMap;

use super::digits::{blanks, number, word, zeros};
use super::line::{Event, Flags, device_columns, dump};
use crate::source::quote;

/// The widest column.
const WIDTH_MAX: usize = 4096;
/// Letters of actions that have a format of their own.
const ACTIONS: &str = "ABCDFGIMPQRSTUX";
/// Default columns of the nanoseconds.
const NANOSECONDS: usize = 9;
/// Nanoseconds of a day.
const DAY: i128 = 86_400_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Field { letter: u8, width: Option<usize>, left: bool },
}

/// What a line says, piece by piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Format(Vec<Piece>);

/// The formats of all actions; an action without one has blkparse's usual line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Formats {
    all: Option<Format>,
    own: BTreeMap<u8, Format>,
}

impl Formats {
    /// A format for all actions that have none of their own (`-f`).
    ///
    /// # Errors
    ///
    /// As [`Format::parse`].
    pub fn set_all(&mut self, text: &str) -> Result<(), String> {
        self.all = Some(Format::parse(text)?);
        Ok(())
    }

    /// A format for one action, as `Q,%S\n` (`-F`).
    ///
    /// # Errors
    ///
    /// A message with the wrong text instead of a letter and a comma; see [`Format::parse`].
    pub fn set_one(&mut self, text: &str) -> Result<(), String> {
        let wrong = || {
            let text = quote(text.as_bytes());
            format!("{text} does not begin with one of {ACTIONS} and a comma, as `Q,%S\\n`")
        };
        let (action, format) = text.split_once(',').ok_or_else(wrong)?;
        let [letter] = action.as_bytes() else { return Err(wrong()) };
        if !ACTIONS.as_bytes().contains(letter) {
            return Err(wrong());
        }
        self.own.insert(*letter, Format::parse(format)?);
        Ok(())
    }

    /// The format of an action, if it has one.
    pub(super) fn of(&self, letters: &str) -> Option<&Format> {
        if self.all.is_none() && self.own.is_empty() {
            return None;
        }
        let own = letters.as_bytes().first().and_then(|letter| self.own.get(letter));
        own.or(self.all.as_ref())
    }
}

impl Format {
    /// Reads a format.
    ///
    /// # Errors
    ///
    /// A message with the meaningless character after a `\`, or a width that is too great.
    pub fn parse(text: &str) -> Result<Format, String> {
        let mut format = Format::default();
        let mut rest = text.as_bytes();
        while let Some((&first, behind)) = rest.split_first() {
            rest = match first {
                b'\\' => format.escape(behind)?,
                b'%' => format.field(behind)?,
                _ => format.text(first, behind),
            };
        }
        Ok(format)
    }

    fn text<'a>(&mut self, byte: u8, behind: &'a [u8]) -> &'a [u8] {
        match self.0.last_mut() {
            Some(Piece::Text(text)) => text.push(byte),
            _ => self.0.push(Piece::Text(vec![byte])),
        }
        behind
    }

    fn escape<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], String> {
        let byte = match text.first() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'\\') => b'\\',
            _ => {
                let found = quote(&text[..text.len().min(1)]);
                return Err(format!(
                    "{found} behind a backslash: n, t, r, b and \\ mean something"
                ));
            }
        };
        Ok(self.text(byte, &text[1..]))
    }

    /// `-12C` after a `%`.
    fn field<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], String> {
        if text.is_empty() {
            return Ok(self.text(b'%', text));
        }
        let left = text.starts_with(b"-");
        let text = &text[usize::from(left)..];
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, behind) = text.split_at(digits);
        let value = digits.iter().fold(0_usize, |value, digit| {
            value.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
        });
        if value > WIDTH_MAX {
            let found = quote(digits);
            return Err(format!("a column of {found}: it has at most {WIDTH_MAX} characters"));
        }
        let width = (!digits.is_empty()).then_some(value);
        let Some((&letter, behind)) = behind.split_first() else { return Ok(behind) };
        self.0.push(Piece::Field { letter, width, left });
        Ok(behind)
    }

    /// Prints an event; `clock_ns` is the wall clock at the trace's first event.
    pub(super) fn print(&self, line: &mut Vec<u8>, event: &Event<'_>, clock_ns: i128) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => line.extend_from_slice(text),
                Piece::Field { letter, width, left } => {
                    let from = line.len();
                    let aligned = field(line, event, *letter, *width, clock_ns);
                    if let (Aligned::No, Some(width)) = (aligned, width) {
                        align(line, from, *width, *left);
                    }
                }
            }
        }
    }
}

/// Whether a field sees to its columns itself.
#[derive(PartialEq, Eq)]
enum Aligned {
    No,
    Yes,
}

/// Appends a field, without blanks around it.
fn field(
    line: &mut Vec<u8>,
    event: &Event<'_>,
    letter: u8,
    width: Option<usize>,
    clock_ns: i128,
) -> Aligned {
    let record = event.record;
    let value: u64 = match letter {
        b'a' => {
            word(line, event.letters.as_bytes(), 0);
            return Aligned::No;
        }
        b'C' => {
            word(line, event.name, 0);
            return Aligned::No;
        }
        b'd' => {
            word(line, Flags::of(record).as_bytes(), 0);
            return Aligned::No;
        }
        b'D' => {
            device_columns(line, record.device);
            return Aligned::Yes;
        }
        b'P' => {
            if event.shows_command() {
                dump(line, event.payload);
            }
            return Aligned::Yes;
        }
        b't' => {
            zeros(line, event.at.0 % 1_000_000_000, width.unwrap_or(NANOSECONDS));
            return Aligned::Yes;
        }
        b'z' => {
            wall_clock(line, clock_ns + i128::from(event.at.0));
            return Aligned::No;
        }
        b'u' => match event.elapsed_ns {
            Some(ns) => ns / 1000,
            None => return Aligned::No,
        },
        b'c' => record.cpu.into(),
        b'e' => record.error.into(),
        b'm' => record.device.minor().into(),
        b'M' => record.device.major().into(),
        b'n' => record.sectors(),
        b'N' => record.bytes.into(),
        b'p' => record.pid.into(),
        b's' => record.sequence.into(),
        b'S' => record.sector,
        b'T' => event.at.0 / 1_000_000_000,
        b'U' => event.payload_number().into(),
        other => {
            line.push(other);
            return Aligned::No;
        }
    };
    number(line, value, 0);
    Aligned::No
}

/// Puts blanks around what begins at `from`.
fn align(line: &mut Vec<u8>, from: usize, width: usize, left: bool) {
    let length = line.len() - from;
    let missing = width.saturating_sub(length);
    blanks(line, missing);
    if !left {
        line[from..].rotate_right(missing);
    }
}

/// `12:13:20.123456`.
fn wall_clock(line: &mut Vec<u8>, ns: i128) {
    let of_day = u64::try_from(ns.rem_euclid(DAY)).unwrap_or(0) / 1000;
    let (seconds, micros) = (of_day / 1_000_000, of_day % 1_000_000);
    for (value, behind) in [(seconds / 3600, b':'), (seconds / 60 % 60, b':'), (seconds % 60, b'.')]
    {
        zeros(line, value, 2);
        line.push(behind);
    }
    zeros(line, micros, 6);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blktrace::{Code, DeviceNumber, Record};
    use paternoster_core::Nanos;

    fn shown(text: &str, record: &Record) -> String {
        let event = Event {
            record,
            payload: &[],
            letters: "Q",
            at: Nanos(3_000_000_010),
            elapsed_ns: None,
            name: b"dd",
        };
        let mut line = Vec::new();
        // Half past midnight of the second day.
        let clock_ns = DAY + 1_800_000_000_000;
        Format::parse(text).unwrap().print(&mut line, &event, clock_ns);
        String::from_utf8(line).unwrap()
    }

    /// Are fields put into their columns, and letters without meaning kept?
    #[test]
    fn fields_stand_in_columns() {
        let device = DeviceNumber::new(8, 64);
        let record = Record { sector: 4096, code: Code::QUEUE, device, ..Record::default() };
        assert_eq!(shown("%5T.%9t|%-6C|%4a\\n", &record), "    3.000000010|dd    |   Q\n");
        assert_eq!(shown("%D|%M,%m|%3t|%12t", &record), "  8,64 |8,64|010|000000000010");
        assert_eq!(shown("%8x|%1 a|%8%|%", &record), "       x| a|       %|%");
        assert_eq!(shown("%z|%20z|%u|%3u|%-5", &record), {
            "00:30:03.000000|     00:30:03.000000||   |"
        });
    }

    /// Are wrong formats refused with what would be right?
    #[test]
    fn wrong_formats_are_refused() {
        assert!(Format::parse("a\\qb").unwrap_err().starts_with("`q` behind a backslash"));
        assert!(Format::parse("a\\").is_err());
        assert!(Format::parse("%99999999999999999999a").is_err());
        let mut formats = Formats::default();
        for wrong in ["Q", "Q%S", "UT,%a", "m,%a", ",%a", "d,x"] {
            let told = formats.set_one(wrong).unwrap_err();
            assert!(told.contains("and a comma, as `Q,%S\\n`"), "{told}");
        }
        formats.set_one("C,%e").unwrap();
        formats.set_all("%a").unwrap();
        assert_eq!(formats.of("C"), Some(&Format::parse("%e").unwrap()));
        assert_eq!(formats.of("UT"), Some(&Format::parse("%a").unwrap()));
    }
}
