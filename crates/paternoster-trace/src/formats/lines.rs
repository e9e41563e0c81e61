// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines: a text line by line, in bounded memory.
//!
//! One buffer is filled from the input and handed out in slices; only the remainder at its end is
//! copied. A line that is too long is skipped, with its beginning kept for the message. A `\r`
//! before the end of a line is not part of its text, and the last line needs no end.
//!
//! Invariants: I1 no bytes make it panic; I2 it holds [`BUFFER`] bytes, and a line has at most
//! [`LINE_MAX`]; I3 lines are counted from 1, those that are too long too.

use std::io::Read;

/// Bytes of one line, without its end.
pub const LINE_MAX: usize = 4096;
/// Bytes that are held.
const BUFFER: usize = 1 << 17;
/// The part kept of a line that is too long: more than is quoted.
const KEPT: usize = 100;

/// What comes next in a text.
#[derive(Debug)]
pub(super) enum Line<'t> {
    /// A line without its end.
    Text(&'t [u8]),
    /// The beginning of a line that is too long.
    TooLong(&'t [u8]),
    /// The rest of the text cannot be had, nor the line that it begins in.
    Failed(std::io::Error),
}

/// Reads lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    buffer: Box<[u8]>,
    /// What of the buffer is not yet used.
    start: usize,
    end: usize,
    /// The beginning of a line that was too long.
    kept: Vec<u8>,
    number: u64,
    ended: bool,
    /// Why it ended, if that is still to be reported.
    failed: Option<std::io::Error>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Lines<R> {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        let (kept, failed) = (Vec::new(), None);
        Lines { input, buffer, start: 0, end: 0, kept, number: 0, ended: false, failed }
    }

    /// Number of the line that came last, from 1.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// The next line; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Line<'_>> {
        self.number += 1;
        let from = self.start;
        if let Some(length) = newline(&self.buffer[from..self.end]) {
            self.start += length + 1;
            return Some(within_limits(&self.buffer[from..from + length]));
        }
        self.next_refilled()
    }

    /// The same, where the line's end is not in the buffer.
    #[cold]
    fn next_refilled(&mut self) -> Option<Line<'_>> {
        let mut searched = 0;
        loop {
            if let Some(at) = newline(&self.buffer[self.start + searched..self.end]) {
                let (from, length) = (self.start, searched + at);
                self.start += length + 1;
                return Some(within_limits(&self.buffer[from..from + length]));
            }
            searched = self.end - self.start;
            // One more byte than a line has may be the `\r` before its end.
            if searched > LINE_MAX + 1 {
                return self.pass_over();
            }
            if self.ended {
                let from = self.start;
                self.start = self.end;
                if let Some(error) = self.failed.take() {
                    return Some(Line::Failed(error));
                }
                return (from < self.end).then(|| within_limits(&self.buffer[from..self.end]));
            }
            self.fill();
        }
    }

    /// Skips the rest of a line that is too long.
    fn pass_over(&mut self) -> Option<Line<'_>> {
        self.kept.clear();
        self.kept.extend_from_slice(&self.buffer[self.start..self.start + KEPT]);
        loop {
            if let Some(length) = newline(&self.buffer[self.start..self.end]) {
                self.start += length + 1;
                break;
            }
            self.start = self.end;
            if self.ended {
                break;
            }
            self.fill();
        }
        Some(Line::TooLong(&self.kept))
    }

    /// Reads more after the remainder.
    fn fill(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.ended = count == 0;
                    self.end += count;
                    return;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.failed = Some(error);
                    return;
                }
            }
        }
    }
}

/// A line if it is not too long.
fn within_limits(line: &[u8]) -> Line<'_> {
    let text = line.strip_suffix(b"\r").unwrap_or(line);
    if text.len() > LINE_MAX { Line::TooLong(&text[..KEPT]) } else { Line::Text(text) }
}

/// Where the first end of a line is. Eight bytes are looked at together: of their difference to
/// ends of lines, a byte is zero where there is one, which is the lowest that borrows.
#[inline]
pub(super) fn newline(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    let mut at = 0;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let difference = u64::from_le_bytes(*chunk) ^ (ONES * b'\n' as u64);
        let zero = difference.wrapping_sub(ONES) & !difference & HIGHS;
        if zero != 0 {
            return Some(at + zero.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    rest.iter().position(|byte| *byte == b'\n').map(|place| at + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that gives a few bytes at a time.
    struct Slow<'t>(&'t [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let count = into.len().min(self.0.len()).min(7);
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn all(input: impl Read) -> Vec<String> {
        let mut lines = Lines::new(input);
        let mut found = Vec::new();
        while let Some(line) = lines.next() {
            let told = match line {
                Line::Text(text) => String::from_utf8_lossy(text).into_owned(),
                Line::TooLong(text) => format!("too long {}", text.len()),
                Line::Failed(error) => error.to_string(),
            };
            found.push(format!("{}:{told}", lines.number()));
        }
        found
    }

    /// Are lines found whatever ends them, even in an input that gives a few bytes at a time?
    #[test]
    fn lines_are_found_whatever_ends_them() {
        let text = b"one\r\n\nthree is longer than eight\n4";
        let expected = ["1:one", "2:", "3:three is longer than eight", "4:4"];
        assert_eq!(all(&text[..]), expected);
        assert_eq!(all(Slow(text)), expected);
        assert_eq!(all(&b"a\n"[..]), ["1:a"]);
        assert!(all(&b""[..]).is_empty());
    }

    /// Is a line of just the limit read, one above it passed over, and the next one read again?
    #[test]
    fn lines_that_are_too_long_are_passed_over() {
        for (length, first) in [
            (LINE_MAX, format!("1:{}", "x".repeat(LINE_MAX))),
            (LINE_MAX + 1, "1:too long 100".to_owned()),
            (3 * BUFFER, "1:too long 100".to_owned()),
        ] {
            let text = format!("{}\r\nnext\n", "x".repeat(length));
            let expected = [first, "2:next".to_owned()];
            assert_eq!(all(text.as_bytes()), expected, "{length}");
            assert_eq!(all(Slow(text.as_bytes())), expected, "{length}");
        }
    }

    /// Is it reported where a text can no longer be read, even within a line that is too long?
    #[test]
    fn what_cannot_be_read_is_told() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("a scratch"))
            }
        }
        assert_eq!(
            all((&b"one
tw"[..])
                .chain(Broken)),
            ["1:one", "2:a scratch"]
        );
        let long = [b'x'; 5000];
        assert_eq!(all((&long[..]).chain(Broken)), ["1:too long 100", "2:a scratch"]);
    }

    /// Is the first end found at every place, and nothing that only looks like one?
    #[test]
    fn the_first_end_is_found() {
        for place in 0..40 {
            let mut bytes = [0x0b, 0x8a, 0x09, 0xff, 0x0b].repeat(8);
            assert_eq!(newline(&bytes), None);
            bytes[place] = b'\n';
            bytes[39] = b'\n';
            assert_eq!(newline(&bytes), Some(place));
        }
    }
}
