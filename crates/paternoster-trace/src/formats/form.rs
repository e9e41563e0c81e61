// SPDX-License-Identifier: MIT OR Apache-2.0
//! Form: how a line of a text format is read, and the lines of a text as accesses.
//!
//! A format is the rules of a [`Form`] for one line. Everything else is here, once: empty lines,
//! lines that begin with `#` and a heading are skipped; a wrong line is reported, with what would
//! be right, and reading goes on with the next one.

use std::io::Read;

use super::access::{Access, Accesses};
use super::fields::Wrong;
use super::lines::{LINE_MAX, Line, Lines};
use super::names::Names;
use crate::source::{Place, Problems, quote};

/// A text format with at most one I/O in a line.
pub(super) trait Form: Default {
    /// A line as messages show it.
    const LINE: &'static str;

    /// Reads one line that is not empty; `None` if it is right but has no I/O.
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>>;

    /// Whether a line that is right looks like this format's own: asked only to recognise a trace.
    fn is_likely(text: &[u8]) -> bool {
        let _ = text;
        true
    }

    /// Whether a line that is no I/O is a heading of this format.
    fn is_heading(text: &[u8]) -> bool {
        let _ = text;
        false
    }
}

/// Whether a line is empty in every format.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.trim_ascii_start().first().is_none_or(|byte| *byte == b'#')
}

/// The error in a line, in words.
fn told<F: Form>(line: &[u8], wrong: &Wrong<'_>) -> String {
    let Wrong { text, right } = *wrong;
    let what = if text.is_empty() {
        format!("{right} is missing")
    } else if text == line {
        return format!("{} is not {right}; a line is `{}`", quote(line), F::LINE);
    } else {
        format!("{} is not {right}", quote(text))
    };
    format!("{what}, in {}; a line is `{}`", quote(line), F::LINE)
}

/// The lines of a text as accesses.
#[derive(Debug)]
pub(super) struct Lined<R, F> {
    lines: Lines<R>,
    file: String,
    form: F,
}

impl<R: Read, F: Form> Lined<R, F> {
    /// The accesses of what messages call `file`.
    pub(super) fn new(file: &str, input: R) -> Lined<R, F> {
        Lined { lines: Lines::new(input), file: file.to_owned(), form: F::default() }
    }
}

impl<R: Read, F: Form> Accesses for Lined<R, F> {
    #[inline]
    fn next(&mut self, names: &mut Names, problems: &mut Problems) -> Option<Access> {
        let Lined { lines, file, form } = self;
        loop {
            let place = Place::Line(lines.number() + 1);
            let text = match lines.next()? {
                Line::Text(text) => text,
                Line::TooLong(text) => {
                    problems.add(file, place, || {
                        format!("the line has more than {LINE_MAX} bytes: {}", quote(text))
                    });
                    continue;
                }
                Line::Failed(error) => {
                    problems.add(file, place, || format!("cannot be read: {error}"));
                    continue;
                }
            };
            if is_blank(text) {
                continue;
            }
            match form.line(text, names) {
                Ok(Some(mut access)) => {
                    access.place = place;
                    return Some(access);
                }
                Ok(None) => {}
                Err(wrong) => {
                    if !F::is_heading(text) {
                        problems.add(file, place, || told::<F>(text, &wrong));
                    }
                }
            }
        }
    }

    fn file(&self) -> &str {
        &self.file
    }
}
