// SPDX-License-Identifier: MIT OR Apache-2.0
//! SPC: the Storage Performance Council's trace format, as in the Financial and WebSearch traces of
//! the University of Massachusetts.
//!
//! ```text
//! 0,303567,3584,w,0.000000
//! │ │      │    │ └ seconds since the start, with decimals
//! │ │      │    └ r or w, in either case
//! │ │      └ bytes
//! │ └ block of 512 bytes
//! └ ASU: number of the unit            further fields are optional, and skipped
//! ```
//!
//! Arrivals only. Devices are called `asu0`. Lines may be slightly out of order, which the format
//! forbids and traces do; times count from the first one. The format leaves the size of a block to
//! the description of a trace; it is taken as 512.
//!
//! Source: TRACE-44. No file of the original was at hand; the published lines are read.

use super::access::Access;
use super::fields::{Commas, SECOND, Wrong, fixed, length, letter, sector, whole};
use super::form::Form;
use super::names::Names;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Spc;

impl Form for Spc {
    const LINE: &'static str = "ASU,LBA,Size,Opcode,Timestamp";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let mut fields = Commas::of(text);
        let unit = fields.field("an ASU's number")?;
        whole(unit, "an ASU's number")?;
        let sector = sector(fields.field("an LBA")?)?;
        let bytes = length(fields.field("a size in bytes")?)?;
        let kind = letter(fields.field("`r` or `w`")?)?;
        let time = fields.field("a time in seconds")?;
        let arrival = fixed(time, SECOND, "a time in seconds")?;
        let device = names.device(unit, |unit| format!("asu{unit}"))?;
        Ok(Some(Access::new(arrival, kind, sector, bytes, device)))
    }
}
