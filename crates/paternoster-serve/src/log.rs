// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log: lines on standard error, for whoever keeps them.
//!
//! Whether anybody does must not matter: `eprintln!` panics when standard error is a pipe that
//! nobody reads any more, or a file on a disk that is full, and a client could choose the moment.
//!
//! Invariant: telling something never fails.

use std::fmt::Arguments;
use std::io::Write;

/// Tells a line.
pub(crate) fn tell(words: Arguments<'_>) {
    #[cfg(test)]
    if SILENT.get() {
        return;
    }
    let line = format!("{words}\n");
    // There is nobody left who could be told.
    let _unheard = std::io::stderr().lock().write_all(line.as_bytes());
}

#[cfg(test)]
thread_local! {
    /// This thread's desks serve clients of which thousands are closed on purpose.
    pub(crate) static SILENT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
