// SPDX-License-Identifier: MIT OR Apache-2.0
//! biosnoop: the tool of bcc that prints a line when an I/O ends.
//!
//! ```text
//! TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)
//! 0.000004    supervise      1950    xvda1     W 13092560   4096      0.02    0.74
//! │           │              │       │         │ │          │      │       └ in the device
//! │           │              │       │         │ │          │      └ in the queue; with -Q
//! │           │              │       │         │ │          └ bytes
//! │           │              │       │         │ └ first sector
//! │           │              │       │         └ R, W, or blkparse's letters
//! │           │              │       └ disk
//! │           │              └ number of the process
//! │           └ process, which may hold blanks: lines are read from the right
//! └ when it ended, in seconds since the first
//! ```
//!
//! `C` at the time of the line, `D` by LAT before it, `Q` by QUE before that, or with `D`. Lines
//! are in order of ends; arrivals are put in order (`window.rs`). The column of `-P` is passed
//! over. Notes name the processes. Times count from the first arrival.
//!
//! bpftrace's tool of the same name prints neither place nor length: no trace can be made of that,
//! and [`latency_only`] recognises it.
//!
//! Source: TRACE-54, TRACE-55; the manual of bcc's biosnoop. The manual's example is read; no
//! recording was at hand.

use super::access::Access;
use super::fields::{MILLISECOND, SECOND, Words, Wrong, fixed, length, letters, sector, whole_u32};
use super::form::Form;
use super::names::Names;
use crate::blktrace::Categories;

/// Added to all times: the first I/O began before the time of its end, which is zero.
const BEFORE: u64 = 1 << 60;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Biosnoop;

const LATENCY: &str = "a latency in milliseconds";
const QUEUED: &str = "a time in the queue in milliseconds";
const TIME: &str = "a time in seconds";

impl Form for Biosnoop {
    const LINE: &'static str = "TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)";

    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let mut words = Words::of(text);
        let time = words.left(TIME)?;
        let end = fixed(time, SECOND, TIME)?.checked_add(BEFORE);
        let end = end.ok_or(Wrong { text: time, right: TIME })?;
        let latency = fixed(words.right(LATENCY)?, MILLISECOND, LATENCY)?;
        let (queued, bytes) = queued_and_bytes(&mut words)?;
        let sector = no_sector_or(words.right("a sector")?)?;
        let kind = letters(words.right("`R` or `W`")?)?;
        let disk = words.right("a disk's name")?;
        let pid = process_number(words.right("a process's number")?)?;
        let process = names.process(pid, words.rest());
        let device = names.device(disk, str::to_owned)?;
        let begin = end.saturating_sub(latency);
        // Without data, and neither read, write nor discard, it is a flush.
        let flush = if kind == Categories::default() { Categories::FLUSH } else { kind };
        let mut access = Access::new(begin.saturating_sub(queued), flush, sector, bytes, device);
        access.served = Some((begin, end));
        Ok(Some(access.of_process(pid, process)))
    }

    fn is_heading(text: &[u8]) -> bool {
        let mut words = Words::of(text);
        words.left("").is_ok_and(|word| word == b"TIME(s)")
            && words.left("").is_ok_and(|word| word == b"COMM")
    }
}

/// The time in the queue, if there is one, and the length: the first whole number from the right.
fn queued_and_bytes<'t>(words: &mut Words<'t>) -> Result<(u64, u32), Wrong<'t>> {
    let mut queued = 0;
    // A time in the queue and a pattern may come between.
    for _ in 0..2 {
        let word = words.right("a length in bytes")?;
        if word.contains(&b'.') {
            queued = fixed(word, MILLISECOND, QUEUED)?;
        } else if word[0].is_ascii_digit() {
            return Ok((queued, length(word)?));
        }
    }
    Ok((queued, length(words.right("a length in bytes")?)?))
}

/// A sector; a flush has none, which shows as the largest number.
fn no_sector_or(text: &[u8]) -> Result<u64, Wrong<'_>> {
    match text {
        b"-1" | b"18446744073709551615" => Ok(0),
        _ => sector(text),
    }
}

/// A number; a process that was not seen has none, or a negative one.
fn process_number(text: &[u8]) -> Result<u32, Wrong<'_>> {
    match text {
        b"?" | b"-1" => Ok(0),
        _ => whole_u32(text, "a process's number"),
    }
}

/// Whether this is what bpftrace's tool prints, which has latencies only.
pub(super) fn latency_only(head: &[u8]) -> bool {
    let heading = |line: &[u8]| {
        let mut words = Words::of(line);
        words.left("").is_ok_and(|word| word == b"TIME(ms)")
            && words.left("").is_ok_and(|word| word == b"DISK")
    };
    // A line about probes may come first.
    head.split(|byte| *byte == b'\n').take(4).any(heading)
}
