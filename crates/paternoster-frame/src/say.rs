// SPDX-License-Identifier: MIT OR Apache-2.0
//! Say: a line for a person, on standard error.
//!
//! It replaces `eprintln!`, which panics where nothing can be written: the reader of a pipe may
//! have gone, and the disk with the log may be full. The request is carried out all the same, and
//! the exit status says what a line cannot.
//!
//! Invariant: there is no `eprintln!` in this crate, the laboratory and the program (a lint ensures
//! it). What clap says of the command line, the server's log, a lost thread and the panic hook have
//! ways of their own.

use std::fmt::Arguments;
use std::io::Write;

/// Says a line; takes what `format!` does.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}

/// Writes `words`, and ends the line. The text is one write, so that lines of several threads do
/// not mix.
pub fn line(words: Arguments<'_>) {
    // There is nowhere else to report it.
    let _unheard = std::io::stderr().lock().write_all(format!("{words}\n").as_bytes());
}
