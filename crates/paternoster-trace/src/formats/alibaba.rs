// SPDX-License-Identifier: MIT OR Apache-2.0
//! Alibaba: the block traces of Alibaba's cloud, 2020.
//!
//! ```text
//! 419,W,8792731648,16384,1577808144360767
//! │   │ │          │     └ arrival, Unix time in microseconds
//! │   │ │          └ bytes
//! │   │ └ offset in bytes
//! │   └ R or W
//! └ number of the device
//! ```
//!
//! Arrivals only. Devices are called `device419`. Times count from the first line; lines may be
//! slightly out of order.
//!
//! Source: TRACE-45. No original file was available; the reader follows the published line.

use super::access::Access;
use super::fields::{Commas, MICROSECOND, Wrong, length, letter, offset, whole};
use super::form::Form;
use super::names::Names;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Alibaba;

const TIME: &str = "a time in microseconds, below 2^64 ns";

impl Form for Alibaba {
    const LINE: &'static str = "device_id,opcode,offset,length,timestamp";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let mut fields = Commas::of(text);
        let number = fields.field("a device's number")?;
        whole(number, "a device's number")?;
        let kind = letter(fields.field("`R` or `W`")?)?;
        let sector = offset(fields.field("an offset in bytes")?)?;
        let bytes = length(fields.field("a length in bytes")?)?;
        let time = fields.field(TIME)?;
        let wrong = Wrong { text: time, right: TIME };
        let arrival = whole(time, TIME)?.checked_mul(MICROSECOND).ok_or(wrong)?;
        fields.end()?;
        let device = names.device(number, |number| format!("device{number}"))?;
        Ok(Some(Access::new(arrival, kind, sector, bytes, device)))
    }

    fn is_heading(text: &[u8]) -> bool {
        text.starts_with(b"device_id,opcode,offset,")
    }
}
