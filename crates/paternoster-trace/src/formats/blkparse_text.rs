// SPDX-License-Identifier: MIT OR Apache-2.0
//! blkparse's text: its default lines read back into records.
//!
//! ```text
//!   8,64   1        5     0.000022000    78  Q   W 4992 + 8 [kjournald]
//!   8,64   0        0     0.004999000     0  m   N hello
//! CPU0 (sda):                                                          what follows is no trace
//! ```
//!
//! The text omits some of what records hold: that an empty read is a read, which command is queued,
//! and whose message it is; a read without a length (of a split, a command that ends, or less than
//! a sector) gets one byte. Printed again, a record gives its line.
//!
//! Lines may come in blocks, as from a live blkparse. Empty lines and what blkparse says about its
//! files are skipped, and the trace ends with the summary, or the first program.
//!
//! Source: PARSE-1 to PARSE-8, PARSE-30.

use std::io::BufRead;

use paternoster_core::Nanos;

use super::traced::words::{Words, device, seconds, whole, whole_u32};
use super::traced::{Lines, Outbox, body};
use crate::blktrace::{Categories, Code, Record};
use crate::source::{Entry, Problems, Source, quote};

/// What a line looks like.
const EXAMPLE: &str = "`8,64 1 5 0.000022000 78 Q W 4992 + 8 [dd]`";
/// How many lines are looked at to know the format.
const LINES_LOOKED_AT: usize = 10;

/// Whether a text that begins so is blkparse's.
#[must_use]
pub fn looks_like(head: &[u8]) -> bool {
    let lines = head.split(|&byte| byte == b'\n').take(LINES_LOOKED_AT);
    lines.map(<[u8]>::trim_ascii_end).any(|line| parse(line).is_ok())
}

/// Reads the text.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    outbox: Outbox,
    problems: Problems,
}

impl<R: BufRead> Reader<R> {
    /// A reader of what messages call `name`.
    pub fn new(name: &str, input: R) -> Reader<R> {
        let (lines, outbox) = (Lines::new(name, input), Outbox::new(name));
        Reader { lines, outbox, problems: Problems::default() }
    }

    /// Reads a line; whether there was one.
    fn read_line(&mut self) -> bool {
        let Some((number, line)) = self.lines.next(&mut self.problems) else { return false };
        if line.trim_ascii().is_empty() || line.starts_with(b"Input file ") {
            return true;
        }
        match parse(line) {
            Ok((record, said)) => {
                if let Some(name) = said.name.filter(|name| is_name(name)) {
                    self.outbox.name(record.pid, name);
                }
                self.outbox.push(record, said.payload, number);
            }
            Err(_) if ends_trace(line) => self.lines.end(),
            Err(wrong) => self.lines.refuse(&mut self.problems, wrong, |wrong| wrong.to_string()),
        }
        true
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Option<Entry<'_>> {
        while !self.outbox.is_full() {
            if !self.read_line() {
                self.outbox.end();
                break;
            }
        }
        self.outbox.pop(&mut self.problems)
    }

    fn problems(&self) -> &Problems {
        &self.problems
    }
}

/// Why a line is wrong.
#[derive(Debug)]
enum Wrong {
    Head(&'static str),
    Action(String),
    Flags(String),
    Body(Code),
}

impl core::fmt::Display for Wrong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Wrong::Head(what) => write!(f, "{what}, as in {EXAMPLE}"),
            Wrong::Action(found) => write!(f, "{found} is no action, as `Q` or `UT` or `m`"),
            Wrong::Flags(found) => write!(f, "{found} are no flags, as `R`, `WS` or `FWFSM`"),
            Wrong::Body(code) => write!(f, "there is no {} at its end", body::wanted(*code)),
        }
    }
}

/// Reads a line.
fn parse(line: &[u8]) -> Result<(Record, body::Body<'_>), Wrong> {
    let mut words = Words(line);
    let device = device(words.word()).ok_or(Wrong::Head("a line begins with a device"))?;
    let cpu = whole_u32(words.word()).ok_or(Wrong::Head("its second word is a processor"))?;
    let sequence = sequence(words.word()).ok_or(Wrong::Head("its third word is a number"))?;
    let at = seconds(words.word()).ok_or(Wrong::Head("its fourth word is a time in seconds"))?;
    let pid = whole_u32(words.word()).ok_or(Wrong::Head("its fifth word is a process"))?;
    let record = Record { at: Nanos(at), device, cpu, sequence, pid, ..Record::default() };
    let letters = words.word();
    let flags = words.word();
    if letters == b"m" {
        let (code, categories) = (Code::NOTE_MESSAGE, Categories::NOTIFY);
        let record = Record { code, categories, ..record };
        let payload = words.rest().to_vec();
        return Ok((record, body::Body { payload, ..body::Body::default() }));
    }
    let code = body::action(letters).ok_or_else(|| Wrong::Action(quote(letters)))?;
    let kind = body::flags(flags).ok_or_else(|| Wrong::Flags(quote(flags)))?;
    let said = body::read(code, device, words.rest()).ok_or(Wrong::Body(code))?;
    let of = if said.passthrough { Categories::PASSTHROUGH } else { Categories::FS };
    let categories = kind | body::category_of(code) | of;
    let (sector, error) = (said.sector, said.error);
    // Where the length is missing, a read's flag says that there was one.
    let hidden = said.bytes == 0 && kind.contains(Categories::READ);
    let bytes = if hidden { 1 } else { said.bytes };
    Ok((Record { code, categories, sector, bytes, error, ..record }, said))
}

/// A sequence, which is printed as if it had a sign.
fn sequence(text: &[u8]) -> Option<u32> {
    match text.strip_prefix(b"-") {
        Some(digits) => Some(0_u32.wrapping_sub(whole_u32(digits)?)),
        None => whole_u32(text),
    }
}

/// Whether this replaces an unknown name.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"(null)" | b"unknown")
}

/// Whether this line is after the trace: `CPU0 (sda):`, `dd (77)`, `dd (77, ...)`.
fn ends_trace(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let Some((before, inner)) = super::traced::words::split_last(line, b'(') else { return false };
    if before.starts_with(b"CPU") && inner.ends_with(b"):") {
        return whole(before[3..].trim_ascii()).is_some();
    }
    let pid = inner.strip_suffix(b", ...)").or_else(|| inner.strip_suffix(b")"));
    before.ends_with(b" ") && pid.is_some_and(|pid| whole(pid).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blktrace::DeviceNumber;

    fn read(text: &str) -> (Vec<(Record, Vec<u8>)>, Vec<String>) {
        let mut reader = Reader::new("t", text.as_bytes());
        let mut found = Vec::new();
        while let Some(entry) = reader.next() {
            found.push((entry.record, entry.payload.to_vec()));
        }
        (found, reader.problems().shown().iter().map(ToString::to_string).collect())
    }

    /// Does a line become a record, preceded by a note of its process, and a message a message?
    #[test]
    fn lines_are_records() {
        let text = "  8,64   1        5     0.000022000    78  Q  WS 4992 + 8 [kjournald]\n\
                    \x20 8,64   0        0     0.004999000     0  m   N  a [b]  \n";
        let (found, told) = read(text);
        assert!(told.is_empty(), "{told:?}");
        let [(note, name), (queue, _), (message, words)] = &found[..] else { panic!("{found:?}") };
        assert!(note.is_note_of(Code::NOTE_PROCESS));
        assert_eq!((note.pid, &name[..]), (78, &b"kjournald\0\0\0\0\0\0\0"[..]));
        let categories = Categories::WRITE | Categories::SYNC | Categories::QUEUE | Categories::FS;
        let wanted = Record {
            at: Nanos(0),
            sector: 4992,
            bytes: 4096,
            code: Code::QUEUE,
            categories,
            pid: 78,
            device: DeviceNumber::new(8, 64),
            cpu: 1,
            sequence: 5,
            error: 0,
        };
        assert_eq!(*queue, wanted);
        // Times count from the first event: 4999 - 22 us.
        assert_eq!((message.at, &words[..]), (Nanos(4_977_000), &b" a [b]  "[..]));
    }

    /// Is the text of a live trace, in which each processor's lines come as a block, sorted by
    /// time?
    #[test]
    fn blocks_are_put_in_order() {
        let line = |at, cpu| format!("8,0 {cpu} 1 0.{at:09} 0 C R {at} + 8 [0]\n");
        let text = [line(5, 0), line(9, 0), line(3, 1), line(5, 1)].concat();
        let (found, told) = read(&text);
        let order: Vec<_> = found.iter().map(|(r, _)| (r.at.0, r.sector, r.cpu)).collect();
        assert_eq!(order, [(0, 3, 1), (2, 5, 0), (2, 5, 1), (6, 9, 0)]);
        assert!(told.is_empty());
    }

    /// Are wrong lines reported with what would be right, and does the summary end it?
    #[test]
    fn wrong_lines_are_told() {
        for end in ["CPU0 (t):", "dd (77)", "dd (77, ...)"] {
            let good = "8,0 0 1 0.000000001 7 Q R 8 + 8 [a]\n";
            let text = format!(
                "x\n\n{good}8,0 0 1 0.000000001 7 Y R 8 + 8 [a]\n\
                 8,0 0 1 0.000000001 7 Q Y 8 + 8 [a]\n8,0 0 1 0.000000001 7 Q R 8 [a\n{end}\n{good}"
            );
            let (found, told) = read(&text);
            assert_eq!(found.len(), 2);
            let [first, second, third, fourth] = &told[..] else { panic!("{told:?}") };
            assert!(first.starts_with("t:1: a line begins with a device, as in `8,64 1 5"));
            assert!(second.starts_with("t:4: `Y` is no action, as `Q` or `UT` or `m`: `8,0 0 1"));
            assert!(third.starts_with("t:5: `Y` are no flags, as `R`, `WS` or `FWFSM`: `8,0"));
            assert!(
                fourth.starts_with("t:6: there is no SECTOR + SECTORS [NAME] at its end: `8,0")
            );
        }
    }

    /// Is the format recognised, and nothing else taken for it?
    #[test]
    fn it_is_recognised() {
        assert!(looks_like(b"  8,64   0        1     0.000000000     0  C   R 64 + 8 [0]\n  8,64"));
        assert!(!looks_like(b"fio version 2 iolog\n"));
        assert!(!looks_like(b" fio-1 [000] d..1. 1.000000: 7,0 Q R 1 + 2 [fio]\n"));
    }
}
