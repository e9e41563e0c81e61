// SPDX-License-Identifier: MIT OR Apache-2.0
//! SYSTOR '17: the storage of Fujitsu's virtual desktops.
//!
//! ```text
//! Timestamp,Response,IOType,LUN,Offset,Size             a heading
//! 1455592200.008817,0.000364,R,2,1025007616,4096
//! │                 │        │ │ │          └ bytes
//! │                 │        │ │ └ offset in bytes
//! │                 │        │ └ number of the unit
//! │                 │        └ R or W; empty where no response was seen, which is skipped
//! │                 └ response time in seconds; empty if it is not known
//! └ arrival, Unix time in seconds, good to the microsecond
//! ```
//!
//! `Q` and `D` at the stamp, `C` after the response time. Units are called `lun2`. Lines may be
//! slightly out of order; times count from the first.
//!
//! The data set reports lost packets: some response times are not to be trusted.
//!
//! Source: TRACE-47, the data set's own description. No file of it was at hand; the
//! published line is read.

use super::access::Access;
use super::fields::{Commas, SECOND, Wrong, fixed, length, letter, offset, whole};
use super::form::Form;
use super::names::Names;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Systor;

impl Form for Systor {
    const LINE: &'static str = "Timestamp,Response,IOType,LUN,Offset,Size";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let mut fields = Commas::of(text);
        let arrival = fixed(fields.field("a time in seconds")?, SECOND, "a time in seconds")?;
        let response = fields.field("a response time in seconds")?;
        let response = match response {
            b"" => None,
            text => Some(fixed(text, SECOND, "a response time in seconds")?),
        };
        let kind = fields.field("`R` or `W`")?;
        let unit = fields.field("a LUN's number")?;
        whole(unit, "a LUN's number")?;
        let (start, size) = (fields.field("an offset in bytes")?, fields.field("a size in bytes")?);
        fields.end()?;
        if kind.is_empty() {
            return Ok(None);
        }
        let (kind, sector, bytes) = (letter(kind)?, offset(start)?, length(size)?);
        let device = names.device(unit, |unit| format!("lun{unit}"))?;
        let access = Access::new(arrival, kind, sector, bytes, device);
        Ok(Some(response.map_or(access, |response| access.answered_after(response))))
    }

    fn is_heading(text: &[u8]) -> bool {
        text.starts_with(b"Timestamp,Response,IOType,LUN")
    }
}
