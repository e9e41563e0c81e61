// SPDX-License-Identifier: MIT OR Apache-2.0
//! CloudPhysics as text: a virtual machine's disk, converted from the binary form (`vscsi.rs`).
//!
//! ```text
//! version,time,op,size,lbn             a heading
//! 1,5633898,2a,512,42932745
//! │ │       │  │   └ first sector
//! │ │       │  └ bytes
//! │ │       └ SCSI's command, hexadecimal: 28 reads, 2a writes
//! │ └ arrival in whole seconds
//! └ version of the binary record, 1 or 2
//!
//! 42932745                             or the first sector, and nothing else
//! ```
//!
//! Arrivals only. Those of one second are spread evenly within it (`spread.rs`); times count from
//! the first line. The short form has no times, lengths or directions: its lines are reads of one
//! sector, all at time zero, in their order. The disk is called `disk`.
//!
//! Source: TRACE-50; real files.

use super::access::Access;
use super::fields::{Commas, Wrong, length, sector, whole_seconds};
use super::form::Form;
use super::names::Names;
use super::vscsi;
use crate::blktrace::Categories;

/// How a line with commas is read.
#[derive(Debug, Default)]
pub(super) struct CloudPhysics;

const VERSION: &str = "a version, 1 or 2";
const COMMAND: &str = "a SCSI command, two hexadecimal digits";

impl Form for CloudPhysics {
    const LINE: &'static str = "version,time,op,size,lbn";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let mut fields = Commas::of(text);
        let version = fields.field(VERSION)?;
        if ![&b"1"[..], b"2"].contains(&version) {
            return Err(Wrong { text: version, right: VERSION });
        }
        let arrival = whole_seconds(fields.field("a time in whole seconds")?)?;
        let command = command(fields.field(COMMAND)?)?;
        let bytes = length(fields.field("a size in bytes")?)?;
        let sector = sector(fields.field("a sector")?)?;
        fields.end()?;
        let Some(kind) = vscsi::kind(command) else { return Ok(None) };
        let device = names.device(vscsi::DISK.as_bytes(), str::to_owned).unwrap_or_default();
        Ok(Some(Access::new(arrival, kind, sector, bytes, device)))
    }

    fn is_heading(text: &[u8]) -> bool {
        text.starts_with(b"version,time,op,size,lbn")
    }
}

fn command(text: &[u8]) -> Result<u16, Wrong<'_>> {
    let digit =
        |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
    let number = match *text {
        [low] => digit(low),
        [high, low] => digit(high).and_then(|high| Some(high * 16 + digit(low)?)),
        _ => None,
    };
    number.ok_or(Wrong { text, right: COMMAND })
}

/// How a line with a sector only is read.
#[derive(Debug, Default)]
pub(super) struct Blocks;

impl Form for Blocks {
    const LINE: &'static str = "SECTOR";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let sector = sector(text.trim_ascii())?;
        let device = names.device(vscsi::DISK.as_bytes(), str::to_owned).unwrap_or_default();
        Ok(Some(Access::new(0, Categories::READ, sector, 512, device)))
    }
}
