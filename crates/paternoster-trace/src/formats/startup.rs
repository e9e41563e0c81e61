// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start-ups: the logs that the S suite keeps of what programs read while they start.
//!
//! ```text
//! xterm-31657  .015820     8   113248520  Rand     -65536      0        RA   4.682409   C
//! │            │           │   │          │        │           │        │    │          └ START …
//! │            │           │   │          │        │           │        │    └ time in seconds
//! │            │           │   │          │        │           │        └ blkparse's letters
//! │            │           │   │          │        │           └ sectors in sequence so far
//! │            │           │   │          │        └ distance to the end of the one before
//! │            │           │   │          └ Seq or Rand
//! │            │           │   └ first sector
//! │            │           └ sectors
//! │            └ seconds since the line before
//! └ process, and its number after the last `-`
//! ```
//!
//! One event of each request is logged, without saying which: it is taken as its arrival. Notes
//! name the processes; the disk has no name and is called `disk`. The contents of the 2nd, 5th to
//! 7th and last column follow from the others, and are skipped. Times count from the first.
//!
//! Source: TRACE-53; the three real files.

use super::access::Access;
use super::fields::{SECOND, Words, Wrong, fixed, letters, sector, sectors, whole_u32};
use super::form::Form;
use super::names::Names;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Startup;

impl Form for Startup {
    const LINE: &'static str =
        "PROCESS-PID DELTA SECTORS SECTOR Seq|Rand DISTANCE RUN RWBS TIME C|START";

    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        const PROCESS: &str = "a process and its number, `xterm-31657`";
        let mut words = Words::of(text);
        words.right("`C` or `START`")?;
        let arrival = fixed(words.right("a time in seconds")?, SECOND, "a time in seconds")?;
        let kind = letters(words.right("blkparse's letters")?)?;
        words.right("a run of sectors")?;
        words.right("a distance")?;
        let order = words.right("`Seq` or `Rand`")?;
        if ![&b"Seq"[..], b"Rand"].contains(&order) {
            return Err(Wrong { text: order, right: "`Seq` or `Rand`" });
        }
        let sector = sector(words.right("a sector")?)?;
        let bytes = sectors(words.right("a count of sectors")?)?;
        fixed(words.right("a time in seconds")?, SECOND, "a time in seconds")?;
        let process = words.rest();
        let dash = process.iter().rposition(|byte| *byte == b'-');
        let dash = dash.ok_or(Wrong { text: process, right: PROCESS })?;
        let pid = whole_u32(&process[dash + 1..], PROCESS)?;
        let number = names.process(pid, &process[..dash]);
        let device = names.device(b"disk", str::to_owned).unwrap_or_default();
        let access = Access::new(arrival, kind, sector, bytes, device);
        Ok(Some(access.of_process(pid, number)))
    }
}
