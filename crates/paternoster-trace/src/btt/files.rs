// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files: where side outputs go, by name; the caller decides what a name is.
//!
//! Every output is written through a small buffer and opened with its first line: one that stays
//! empty never exists (btt deletes it at its end). A failure does not stop the analysis: it is
//! kept, later output is dropped, and the end reports it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

/// Bytes that an output may hold back.
const BUFFER: usize = 1 << 13;
/// Files that [`Folder`] keeps open.
const OPEN_MAX: usize = 256;

/// The name of what goes to the standard output.
pub const STANDARD_OUTPUT: &str = "-";

/// Outputs by name; [`STANDARD_OUTPUT`] is one of them.
pub trait Files {
    /// Makes an empty output, or empties an existing one.
    ///
    /// # Errors
    /// As the system says.
    fn create(&mut self, name: &str) -> io::Result<()>;

    /// Appends to an output.
    ///
    /// # Errors
    /// As the system says.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
}

/// Outputs in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory(pub BTreeMap<String, Vec<u8>>);

impl Files for Memory {
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.0.insert(name.to_owned(), Vec::new());
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.entry(name.to_owned()).or_default().extend_from_slice(bytes);
        Ok(())
    }
}

impl<F: Files + ?Sized> Files for &mut F {
    fn create(&mut self, name: &str) -> io::Result<()> {
        (**self).create(name)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        (**self).append(name, bytes)
    }
}

/// No outputs: only the figures are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nowhere;

impl Files for Nowhere {
    fn create(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn append(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Outputs as files of a folder; the standard output is the program's.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    open: BTreeMap<String, File>,
}

impl Folder {
    /// Outputs in this folder; names that are paths count from there.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Folder {
        Folder { path: path.into(), open: BTreeMap::new() }
    }

    fn keep(&mut self, name: &str, file: File) {
        if self.open.len() >= OPEN_MAX {
            self.open.clear();
        }
        self.open.insert(name.to_owned(), file);
    }
}

impl Files for Folder {
    fn create(&mut self, name: &str) -> io::Result<()> {
        if name == STANDARD_OUTPUT {
            return Ok(());
        }
        let file = File::create(self.path.join(name))?;
        self.keep(name, file);
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if name == STANDARD_OUTPUT {
            return io::stdout().write_all(bytes);
        }
        if !self.open.contains_key(name) {
            let file = fs::OpenOptions::new().append(true).open(self.path.join(name))?;
            self.keep(name, file);
        }
        self.open.get_mut(name).map_or(Ok(()), |file| file.write_all(bytes))
    }
}

/// Bytes that C's standard output to a file holds back.
const C_BUFFER: usize = 4096;

/// Two writers that each opened the same file, as C's standard library leaves it: each writes from
/// its own position, a block at a time, over what the other has written there.
#[derive(Debug, Default)]
pub(super) struct Overlaid {
    file: Vec<u8>,
    writers: [Writer; 2],
}

#[derive(Debug, Default)]
struct Writer {
    held: Vec<u8>,
    place: usize,
}

impl Overlaid {
    /// Writes the text of one of the two writers.
    pub(super) fn write(&mut self, writer: usize, text: fmt::Arguments<'_>) {
        let held = &mut self.writers[writer].held;
        held.write_fmt(text).expect("memory takes what is written");
        while self.writers[writer].held.len() > C_BUFFER {
            self.flush(writer);
        }
    }

    fn flush(&mut self, writer: usize) {
        let Writer { held, place } = &mut self.writers[writer];
        let block: Vec<u8> = held.drain(..held.len().min(C_BUFFER)).collect();
        let end = *place + block.len();
        self.file.resize(self.file.len().max(end), 0);
        self.file[*place..end].copy_from_slice(&block);
        *place = end;
    }

    /// Whether one of the two has written something.
    pub(super) fn has_written(&self, writer: usize) -> bool {
        self.writers[writer].place > 0 || !self.writers[writer].held.is_empty()
    }

    /// What the file holds after the first and then the second one closed it.
    pub(super) fn close(mut self) -> Vec<u8> {
        self.flush(0);
        self.flush(1);
        self.file
    }
}

/// An output of an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Output(usize);

#[derive(Debug)]
struct Pending {
    name: String,
    buffer: Vec<u8>,
    created: bool,
}

/// All outputs of an analysis.
#[derive(Debug)]
pub(super) struct Outputs<F> {
    files: F,
    pending: Vec<Pending>,
    error: Option<io::Error>,
}

impl<F: Files> Outputs<F> {
    pub(super) const fn new(files: F) -> Outputs<F> {
        Outputs { files, pending: Vec::new(), error: None }
    }

    /// An output that is made when something is written.
    pub(super) fn open(&mut self, name: String) -> Output {
        self.pending.push(Pending { name, buffer: Vec::new(), created: false });
        Output(self.pending.len() - 1)
    }

    /// An output that is made even if nothing is written.
    pub(super) fn make(&mut self, name: String) -> Output {
        let output = self.open(name);
        self.flush(output);
        output
    }

    /// Appends text to an output.
    pub(super) fn write(&mut self, output: Output, text: fmt::Arguments<'_>) {
        let pending = &mut self.pending[output.0];
        pending.buffer.write_fmt(text).expect("memory takes what is written");
        if pending.buffer.len() >= BUFFER {
            self.flush(output);
        }
    }

    /// Appends bytes to an output.
    pub(super) fn write_bytes(&mut self, output: Output, bytes: &[u8]) {
        let pending = &mut self.pending[output.0];
        pending.buffer.extend_from_slice(bytes);
        if pending.buffer.len() >= BUFFER {
            self.flush(output);
        }
    }

    fn flush(&mut self, output: Output) {
        if self.error.is_some() {
            self.pending[output.0].buffer.clear();
            return;
        }
        let pending = &mut self.pending[output.0];
        let mut done = Ok(());
        if !core::mem::replace(&mut pending.created, true) {
            done = self.files.create(&pending.name);
        }
        done = done.and_then(|()| self.files.append(&pending.name, &pending.buffer));
        pending.buffer.clear();
        if let Err(error) = done {
            self.fail(output, error);
        }
    }

    fn fail(&mut self, output: Output, error: io::Error) {
        let name = &self.pending[output.0].name;
        let told = io::Error::new(error.kind(), format!("cannot write `{name}`: {error}"));
        self.error.get_or_insert(told);
    }

    /// Writes all that was held back.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        for at in 0..self.pending.len() {
            if !self.pending[at].buffer.is_empty() {
                self.flush(Output(at));
            }
        }
        self.error.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is an output made with its first line, and not before?
    #[test]
    fn outputs_are_made_with_their_first_line() {
        let mut outputs = Outputs::new(Memory::default());
        let [a, _unused] = ["a", "b"].map(|name| outputs.open(name.to_owned()));
        outputs.make("c".to_owned());
        outputs.write(a, format_args!("{} {}\n", 1, 2));
        outputs.finish().unwrap();
        let made: Vec<(&str, &[u8])> =
            outputs.files.0.iter().map(|(name, text)| (name.as_str(), text.as_slice())).collect();
        assert_eq!(made, [("a", &b"1 2\n"[..]), ("c", &b""[..])]);
    }

    /// Does the writer that closes last write over the other's text, whose end stays?
    #[test]
    fn who_closes_last_writes_over_the_other() {
        let mut file = Overlaid::default();
        file.write(0, format_args!("first 100.00\n"));
        file.write(1, format_args!("second 1.0\n"));
        assert_eq!(file.close(), b"second 1.0\n0\n");
        let mut long = Overlaid::default();
        long.write(1, format_args!("{}", "b".repeat(C_BUFFER + 2)));
        long.write(0, format_args!("{}", "a".repeat(C_BUFFER + 1)));
        // The first one's block was written later, the second one's end last.
        let expected = "a".repeat(C_BUFFER) + "bb";
        assert_eq!(long.close(), expected.into_bytes());
    }

    /// Is a failure reported at the end, with the name?
    #[test]
    fn failures_are_told_with_the_name() {
        let mut outputs = Outputs::new(Folder::new("/nowhere/at/all"));
        let output = outputs.open("x.dat".to_owned());
        outputs.write(output, format_args!("1\n"));
        let told = outputs.finish().unwrap_err().to_string();
        assert!(told.starts_with("cannot write `x.dat`: "), "{told}");
    }
}
