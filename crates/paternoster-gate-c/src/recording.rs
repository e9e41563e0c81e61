// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording: a gate's calls in a file, and replaying them.
//!
//! A gate writes a line for each call under its lock, so the lines go through a buffer of 64 KiB.
//! They are written when that is full, when the program says so (`pn_gate_flush`), and when it
//! closes the gate, whatever classes are still open.

use std::ffi::{c_char, c_int};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paternoster_gate::{Core, ReplayError};

use super::{DIFFERS, INVALID, OK, UNREADABLE, path, put, tell};

/// A call in a loop writes some 60 bytes.
const BUFFER: usize = 64 << 10;

/// The file of a recording; a clone is the same file.
#[derive(Debug, Clone)]
pub(super) struct Recording(Arc<Mutex<BufWriter<File>>>);

impl Recording {
    pub(super) fn create(path: &Path) -> io::Result<Recording> {
        let file = BufWriter::with_capacity(BUFFER, File::create(path)?);
        Ok(Recording(Arc::new(Mutex::new(file))))
    }

    fn lock(&self) -> MutexGuard<'_, BufWriter<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all that was recorded so far to the file.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.lock().flush()
    }
}

impl Write for Recording {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Recording::flush(self)
    }
}

/// Replays a recording: the result, the line concerned, and the words.
fn again(text: &str, until: usize) -> (c_int, usize, String) {
    match Core::replay(text, until) {
        Ok((gate, lines)) => {
            let mut words = String::new();
            let written = gate.explain_all(usize::MAX, &mut words);
            debug_assert!(written.is_ok(), "a string takes everything");
            (OK, lines, words)
        }
        Err(error) => {
            let words = error.to_string();
            match error {
                ReplayError::Differs(line, _) => (DIFFERS, line, words),
                ReplayError::Unreadable(line) => (UNREADABLE, line, words),
                _ => (UNREADABLE, 0, words),
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_replay(
    recording: *const c_char,
    until: usize,
    lines: *mut usize,
    text: *mut c_char,
    room: usize,
) -> c_int {
    if recording.is_null() {
        return INVALID;
    }
    // SAFETY: U2.
    let file = unsafe { path(recording) };
    let (result, line, words) = match std::fs::read_to_string(file) {
        Ok(text) => again(&text, until),
        Err(error) => (UNREADABLE, 0, format!("{}: {error}", file.display())),
    };
    // SAFETY: U2.
    unsafe {
        put(lines, line);
        tell(&words, text, room);
    }
    result
}
