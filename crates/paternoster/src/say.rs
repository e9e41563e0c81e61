// SPDX-License-Identifier: MIT OR Apache-2.0
//! Say: a line for a person, on standard error.
//!
//! It takes the place of `eprintln!`, which panics where nothing can be written: the reader of a
//! pipe may have gone, and a disk with the log be full. What was asked is done all the same, and
//! the exit status tells what a line cannot.
//!
//! Invariant: there is no `eprintln!` in this crate (a lint holds it to that). What clap says of
//! the command line, the server's log, a thread that is lost and the hook of panics have ways of
//! their own.

use std::fmt::Arguments;
use std::io::Write;

/// Says a line; takes what `format!` does.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}

/// Says `words`, and ends the line. All of it is one write, so that lines of threads do not mix.
pub(crate) fn line(words: Arguments<'_>) {
    // There is no other place to tell of it.
    let _unheard = std::io::stderr().lock().write_all(format!("{words}\n").as_bytes());
}
