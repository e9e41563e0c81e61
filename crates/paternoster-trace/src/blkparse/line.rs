// SPDX-License-Identifier: MIT OR Apache-2.0
//! Line: one event in blkparse's default form.
//!
//! ```text
//!   8,64   1        7     0.003020000     0 UT   N [unknown] 3
//!   8,64   0       12     0.000200900     5  D   R 800 + 8 (     400) [odd]
//!   device cpu  sequence  seconds       pid action │ tail, by action; with the time it took
//!                                            flags ┘
//! ```
//!
//! Flags are, in this order: `F` flush first; `D` discard, or `W` write, or `R` read, or `N` none
//! of them; `F` durable when it ends; `A` read ahead; `S` sync: a process waits; `M` metadata.
//!
//! Source: PARSE-1 to PARSE-8; the installed tool.

use paternoster_core::Nanos;

use super::digits::{left_number, number, signed, word, zeros};
use crate::blktrace::{Categories, Code, DeviceNumber, Record};

/// An event with everything that a line may say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'a> {
    pub(super) record: &'a Record,
    pub(super) payload: &'a [u8],
    /// Letters of its action.
    pub(super) letters: &'static str,
    /// Counted from the trace's first event.
    pub(super) at: Nanos,
    /// How long its request has been on the way to this step.
    pub(super) elapsed_ns: Option<u64>,
    /// The process's name.
    pub(super) name: &'a [u8],
}

/// The letters of an action, if it is one that is printed.
pub(crate) const fn letters(code: Code, passthrough: bool) -> Option<&'static str> {
    Some(match code {
        Code::QUEUE => "Q",
        Code::GET => "G",
        Code::SLEEP => "S",
        Code::REQUEUE => "R",
        Code::ISSUE => "D",
        Code::COMPLETE => "C",
        Code::INSERT => "I",
        _ if passthrough => return None,
        Code::BACK_MERGE => "M",
        Code::FRONT_MERGE => "F",
        Code::PLUG => "P",
        Code::UNPLUG => "U",
        Code::UNPLUG_TIMER => "UT",
        Code::SPLIT => "X",
        Code::BOUNCE => "B",
        Code::REMAP => "A",
        _ => return None,
    })
}

/// Flags as letters: at most six.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flags {
    letters: [u8; 6],
    length: usize,
}

impl Flags {
    pub(super) fn of(record: &Record) -> Flags {
        let has = |category| record.categories.contains(category);
        let mut flags = Flags { letters: [0; 6], length: 0 };
        flags.push_if(has(Categories::FLUSH), b'F');
        flags.push_if(
            true,
            match () {
                () if has(Categories::DISCARD) => b'D',
                () if has(Categories::WRITE) => b'W',
                () if record.bytes > 0 => b'R',
                () => b'N',
            },
        );
        flags.push_if(has(Categories::FUA), b'F');
        flags.push_if(has(Categories::AHEAD), b'A');
        flags.push_if(has(Categories::SYNC), b'S');
        flags.push_if(has(Categories::META), b'M');
        flags
    }

    fn push_if(&mut self, set: bool, letter: u8) {
        if set {
            self.letters[self.length] = letter;
            self.length += 1;
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.letters[..self.length]
    }
}

impl Event<'_> {
    /// The device in the line: for a remap, the bio's target from the payload.
    fn device(&self) -> DeviceNumber {
        match self.record.code {
            Code::REMAP => DeviceNumber(big_endian_u32(self.payload, 4)),
            _ => self.record.device,
        }
    }

    /// The number in its payload, of which blkparse shows the low half.
    pub(super) fn payload_number(&self) -> u32 {
        big_endian_u32(self.payload, 4)
    }

    /// Whether it is a command whose bytes are shown: not yet where it is queued.
    pub(super) fn shows_command(&self) -> bool {
        let shown = matches!(self.record.code, Code::INSERT | Code::ISSUE | Code::COMPLETE);
        shown && self.record.is_passthrough()
    }

    /// Prints the line.
    pub(super) fn print(&self, line: &mut Vec<u8>) {
        let record = self.record;
        let flags = Flags::of(record);
        let sequence = record.sequence.cast_signed();
        head(line, self.device(), record.cpu, sequence, self.at, record.pid);
        word(line, self.letters.as_bytes(), 2);
        line.push(b' ');
        word(line, flags.as_bytes(), 3);
        line.push(b' ');
        self.tail(line);
        line.push(b'\n');
    }

    fn tail(&self, line: &mut Vec<u8>) {
        let record = self.record;
        match record.code {
            Code::COMPLETE | Code::REQUEUE => {
                if !record.is_passthrough() {
                    number(line, record.sector, 0);
                    self.length(line);
                    line.push(b' ');
                    self.elapsed(line);
                }
                self.command(line);
                line.push(b'[');
                number(line, record.error.into(), 0);
                line.push(b']');
            }
            Code::REMAP => self.remap(line),
            Code::SPLIT => {
                number(line, record.sector, 0);
                line.extend_from_slice(b" / ");
                number(line, self.payload_number().into(), 0);
                line.push(b' ');
                self.named(line);
            }
            Code::UNPLUG | Code::UNPLUG_TIMER => {
                self.named(line);
                line.push(b' ');
                number(line, self.payload_number().into(), 0);
            }
            Code::PLUG => self.named(line),
            _ => self.request(line),
        }
    }

    /// Place, length, elapsed time, process.
    fn request(&self, line: &mut Vec<u8>) {
        let (record, code) = (self.record, self.record.code);
        if !record.is_passthrough() {
            if record.sectors() > 0 {
                number(line, record.sector, 0);
                self.length(line);
                line.push(b' ');
            }
            self.elapsed(line);
        } else if matches!(code, Code::QUEUE | Code::INSERT | Code::ISSUE) {
            number(line, record.bytes.into(), 0);
            line.push(b' ');
            self.command(line);
        }
        self.named(line);
    }

    fn length(&self, line: &mut Vec<u8>) {
        if self.record.sectors() > 0 {
            line.extend_from_slice(b" + ");
            number(line, self.record.sectors(), 0);
        }
    }

    fn elapsed(&self, line: &mut Vec<u8>) {
        if let Some(ns) = self.elapsed_ns {
            line.push(b'(');
            number(line, ns, 8);
            line.extend_from_slice(b") ");
        }
    }

    fn named(&self, line: &mut Vec<u8>) {
        line.push(b'[');
        line.extend_from_slice(self.name);
        line.push(b']');
    }

    /// The bytes of a command in parentheses.
    fn command(&self, line: &mut Vec<u8>) {
        if self.shows_command() && !self.payload.is_empty() {
            line.push(b'(');
            dump(line, self.payload);
            line.extend_from_slice(b") ");
        }
    }

    fn remap(&self, line: &mut Vec<u8>) {
        number(line, self.record.sector, 0);
        line.extend_from_slice(b" + ");
        number(line, self.record.sectors(), 0);
        line.extend_from_slice(b" <- (");
        let from = DeviceNumber(big_endian_u32(self.payload, 0));
        number(line, from.major().into(), 0);
        line.push(b',');
        number(line, from.minor().into(), 0);
        line.extend_from_slice(b") ");
        let [high, low] = [8, 12].map(|at| u64::from(big_endian_u32(self.payload, at)));
        number(line, high << 32 | low, 0);
    }
}

/// A message as it is printed, with its text unchanged.
pub(super) fn message(line: &mut Vec<u8>, record: &Record, at: Nanos, text: &[u8]) {
    head(line, record.device, record.cpu, 0, at, 0);
    line.extend_from_slice(b" m   N ");
    line.extend_from_slice(text);
    line.push(b'\n');
}

/// Device, processor, sequence, time and process.
fn head(line: &mut Vec<u8>, device: DeviceNumber, cpu: u32, sequence: i32, at: Nanos, pid: u32) {
    device_columns(line, device);
    line.push(b' ');
    number(line, cpu.into(), 2);
    line.push(b' ');
    signed(line, sequence.into(), 8);
    line.push(b' ');
    number(line, at.0 / 1_000_000_000, 5);
    line.push(b'.');
    zeros(line, at.0 % 1_000_000_000, 9);
    line.push(b' ');
    number(line, pid.into(), 5);
    line.push(b' ');
}

/// A device in seven columns or more.
pub(super) fn device_columns(line: &mut Vec<u8>, device: DeviceNumber) {
    number(line, device.major().into(), 3);
    line.push(b',');
    left_number(line, device.minor().into(), 3);
}

/// Bytes of a command: zeros at the end are one `00 ..`.
pub(super) fn dump(line: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let kept = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    for (place, byte) in bytes[..bytes.len().min(kept + 1)].iter().enumerate() {
        if place > 0 {
            line.push(b' ');
        }
        line.push(HEX[usize::from(byte >> 4)]);
        line.push(HEX[usize::from(byte & 15)]);
    }
    if kept < bytes.len() {
        line.extend_from_slice(b" ..");
    }
}

/// A big-endian number in a payload; what is missing is 0.
fn big_endian_u32(payload: &[u8], at: usize) -> u32 {
    let byte = |at: usize| u32::from(payload.get(at).copied().unwrap_or(0));
    (0..4).fold(0, |value, place| value << 8 | byte(at + place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the bytes of a command shortened where they end in zeros?
    #[test]
    fn commands_are_shortened() {
        let shown = |bytes: &[u8]| {
            let mut line = Vec::new();
            dump(&mut line, bytes);
            String::from_utf8(line).unwrap()
        };
        assert_eq!(shown(&[0x12, 0, 0, 0, 36, 0]), "12 00 00 00 24 00 ..");
        assert_eq!(shown(&[0, 0]), "00 ..");
        assert_eq!(shown(&[0x80, 0, 0, 1]), "80 00 00 01");
        assert_eq!(shown(&[]), "");
    }

    /// Are flags in blkparse's order?
    #[test]
    fn flags_are_in_order() {
        let shown = |categories, bytes| {
            let record = Record { categories, bytes, ..Record::default() };
            String::from_utf8(Flags::of(&record).as_bytes().to_vec()).unwrap()
        };
        let all = Categories(0xffff);
        assert_eq!(shown(all, 512), "FDFASM");
        assert_eq!(shown(Categories::FLUSH, 0), "FN");
        assert_eq!(shown(Categories::READ | Categories::META, 1), "RM");
    }
}
