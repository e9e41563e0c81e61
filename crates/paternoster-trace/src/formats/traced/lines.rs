// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines: a text line by line, none longer than [`LINE_MAX`].
//!
//! A line that is too long is reported and left out, without being held. A `\r` before the end of a
//! line is not part of its text, and the last line needs no end.
//!
//! Invariants: I1 no bytes make it panic; I2 it holds one line; I3 all lines are counted, from 1.

use std::io::{self, BufRead, Read as _};

use super::LINE_MAX;
use crate::source::{Place, Problems, quote};

/// Reads lines.
#[derive(Debug)]
pub(in crate::formats) struct Lines<R> {
    input: R,
    name: String,
    line: Vec<u8>,
    number: u64,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Lines of what messages call `name`.
    pub(in crate::formats) fn new(name: &str, input: R) -> Lines<R> {
        Lines { input, name: name.to_owned(), line: Vec::new(), number: 0, ended: false }
    }

    /// The next line with its number, from 1; `None` at the end.
    pub(in crate::formats) fn next(&mut self, problems: &mut Problems) -> Option<(u64, &[u8])> {
        while !self.ended {
            match self.fill() {
                Ok(0) => self.ended = true,
                Ok(_) if self.line.len() <= LINE_MAX => return Some((self.number, &self.line)),
                Ok(_) => self.refuse(problems, "a line", |_| {
                    format!("the line has more than {LINE_MAX} bytes")
                }),
                Err(error) => {
                    self.ended = true;
                    let place = Place::Line(self.number + 1);
                    problems.add(&self.name, place, || format!("cannot be read: {error}"));
                }
            }
        }
        None
    }

    /// Nothing that follows is read.
    pub(in crate::formats) fn end(&mut self) {
        self.ended = true;
    }

    /// Counts the line as one that cannot be used.
    pub(in crate::formats) fn refuse<T>(
        &self,
        problems: &mut Problems,
        why: T,
        told: impl FnOnce(T) -> String,
    ) {
        let place = Place::Line(self.number);
        problems
            .add(&self.name, place, || format!("{}: {}", told(why), quote(self.line.trim_ascii())));
    }

    /// Reads a line; how many bytes of the text were used.
    fn fill(&mut self) -> io::Result<usize> {
        self.line.clear();
        let most = LINE_MAX as u64 + 2;
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        self.number += u64::from(read > 0);
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if self.line.len() > LINE_MAX {
            self.pass_over()?;
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(read)
    }

    /// Skips the rest of a line that is too long.
    fn pass_over(&mut self) -> io::Result<()> {
        loop {
            let ahead = match self.input.fill_buf() {
                Ok(ahead) => ahead,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = ahead.iter().position(|&byte| byte == b'\n');
            let (length, done) = (ahead.len(), ahead.is_empty() || end.is_some());
            self.input.consume(end.map_or(length, |end| end + 1));
            if done {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> (Vec<String>, Vec<String>) {
        let mut problems = Problems::default();
        let mut lines = Lines::new("t", text);
        let mut found = Vec::new();
        while let Some((_, line)) = lines.next(&mut problems) {
            found.push(String::from_utf8(line.to_vec()).unwrap());
        }
        (found, problems.shown().iter().map(ToString::to_string).collect())
    }

    /// Are lines read with and without an end, and is the longest one read but no longer one?
    #[test]
    fn lines_up_to_the_longest() {
        let long = "x".repeat(LINE_MAX);
        let (found, told) = read(format!("a\r\n\n{long}\n{long}y\nb").as_bytes());
        assert_eq!(found, ["a", "", &long, "b"]);
        assert_eq!(told.len(), 1);
        let wanted = format!("t:4: the line has more than 4096 bytes: `{}…`", "x".repeat(80));
        assert_eq!(told[0], wanted);
    }
}
