// SPDX-License-Identifier: MIT OR Apache-2.0
//! iolog: fio's logs of I/O, versions 2 and 3, read, and version 3 written.
//!
//! ```text
//! fio version 2 iolog          fio version 3 iolog
//! f.dat add                    17 f.dat add                17 us after the start
//! f.dat open                   147 f.dat open
//! f.dat read 0 4096            149 f.dat write 0 65536     offset, bytes
//! f.dat wait 300000 0          3476 f.dat trim 65536 65536
//! f.dat sync 0 0               3500 f.dat datasync 0 0
//! f.dat close                  4000 f.dat close
//! ```
//!
//! Arrivals only. A file is a device with its name. A trim is a discard, sync and datasync are
//! flushes without data. A wait lasts this many microseconds since the last one, as the manual says
//! (one below 100 is none); fio 3.33 itself waits until this many *milliseconds* after the start.
//! Times count from the first I/O.
//!
//! Whether files were added and opened is not checked: a log that fio would refuse can still be
//! read.
//!
//! [`write()`] makes a log of any trace, which fio replays.
//!
//! Source: TRACE-40, TRACE-41.

use super::access::Access;
use super::fields::{MICROSECOND, Words, Wrong, length, offset, whole};
use super::form::Form;
use super::names::Names;
use crate::blktrace::Categories;

mod writer;

pub use writer::write;

/// A wait below this many microseconds is none.
const WAIT_MIN_US: u64 = 100;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Iolog {
    version: Version,
    /// The time of the line, in ns.
    now: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Version {
    #[default]
    Unknown,
    Two,
    Three,
}

const TIME: &str = "a time in microseconds, below 2^64 ns";
const ACTION: &str = "one of read, write, trim, sync, datasync, wait (version 2), add, open, close";
const VERSION: &str = "`fio version 2 iolog` or `fio version 3 iolog`";

/// The version that a first line names.
fn version(text: &[u8]) -> Option<Version> {
    match text.trim_ascii() {
        b"fio version 2 iolog" => Some(Version::Two),
        b"fio version 3 iolog" => Some(Version::Three),
        _ => None,
    }
}

impl Form for Iolog {
    const LINE: &'static str = "[TIME_US] FILE ACTION [OFFSET LENGTH]";

    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        if let Some(version) = version(text) {
            self.version = version;
            return Ok(None);
        }
        let mut words = Words::of(text);
        match self.version {
            Version::Unknown => return Err(Wrong { text, right: VERSION }),
            Version::Two => {}
            Version::Three => self.now = micros(words.left(TIME)?)?,
        }
        let file = words.left("a file's name")?;
        let action = words.left(ACTION)?;
        if words.rest().is_empty() {
            return match action {
                b"add" | b"open" | b"close" | b"unlink" => Ok(None),
                text => Err(Wrong { text, right: ACTION }),
            };
        }
        let (first, second) = (words.left("an offset")?, words.left("a length")?);
        words.end()?;
        let (kind, sector, bytes) = match action {
            b"wait" if self.version == Version::Two => {
                self.wait(first)?;
                return Ok(None);
            }
            b"sync" | b"datasync" => (Categories::FLUSH, 0, 0),
            b"read" => (Categories::READ, offset(first)?, length(second)?),
            b"write" => (Categories::WRITE, offset(first)?, length(second)?),
            b"trim" => (Categories::DISCARD | Categories::WRITE, offset(first)?, length(second)?),
            text => return Err(Wrong { text, right: ACTION }),
        };
        let device = names.device(file, str::to_owned)?;
        Ok(Some(Access::new(self.now, kind, sector, bytes, device)))
    }

    fn is_heading(text: &[u8]) -> bool {
        version(text).is_some()
    }
}

impl Iolog {
    fn wait<'t>(&mut self, text: &'t [u8]) -> Result<(), Wrong<'t>> {
        let span = micros(text)?;
        if span >= WAIT_MIN_US * MICROSECOND {
            let wrong = Wrong { text, right: "a wait that ends before 2^64 ns" };
            self.now = self.now.checked_add(span).ok_or(wrong)?;
        }
        Ok(())
    }
}

fn micros(text: &[u8]) -> Result<u64, Wrong<'_>> {
    whole(text, TIME)?.checked_mul(MICROSECOND).ok_or(Wrong { text, right: TIME })
}
