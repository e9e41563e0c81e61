// SPDX-License-Identifier: MIT OR Apache-2.0
//! K5: the volumes of Fujitsu's K5 cloud, 2017.
//!
//! ```text
//! 1157,3.828359000,W,7155568640,4096
//! │    │           │ │          └ bytes
//! │    │           │ └ offset in bytes
//! │    │           └ R or W
//! │    └ arrival, seconds since the first I/O of all volumes
//! └ number of the volume
//! ```
//!
//! Arrivals only. Volumes are called `volume1157`. Times count from the first line; lines may be
//! slightly out of order.
//!
//! Source: TRACE-48, the data set's own description. No file of it was available; the line above is
//! made up from that.

use super::access::Access;
use super::fields::{Commas, SECOND, Wrong, fixed, length, letter, offset, whole};
use super::form::Form;
use super::names::Names;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct K5;

impl Form for K5 {
    const LINE: &'static str = "ID,Timestamp,Type,Offset,Length";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let mut fields = Commas::of(text);
        let volume = fields.field("a volume's number")?;
        whole(volume, "a volume's number")?;
        let arrival = fixed(fields.field("a time in seconds")?, SECOND, "a time in seconds")?;
        let kind = letter(fields.field("`R` or `W`")?)?;
        let sector = offset(fields.field("an offset in bytes")?)?;
        let bytes = length(fields.field("a length in bytes")?)?;
        fields.end()?;
        let device = names.device(volume, |volume| format!("volume{volume}"))?;
        Ok(Some(Access::new(arrival, kind, sector, bytes, device)))
    }

    fn is_heading(text: &[u8]) -> bool {
        text.starts_with(b"ID,Timestamp,Type,Offset")
    }
}
