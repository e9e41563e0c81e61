// SPDX-License-Identifier: MIT OR Apache-2.0
//! MQSim: the plain traces of the flash simulator.
//!
//! ```text
//! 938513000 4 264719034 16 0
//! │         │ │         │  └ 0 write, 1 read
//! │         │ │         └ sectors of 512 bytes
//! │         │ └ first sector
//! │         └ number of the device
//! └ arrival in ns
//! ```
//!
//! Arrivals only. Devices are called `device4`. Times count from the first line; lines may be
//! slightly out of order.
//!
//! Source: TRACE-52; real files.

use super::access::Access;
use super::fields::{Words, Wrong, sector, sectors, whole};
use super::form::Form;
use super::names::Names;
use crate::blktrace::Categories;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Mqsim;

const KIND: &str = "0 (write) or 1 (read)";

impl Form for Mqsim {
    const LINE: &'static str = "TIME_NS DEVICE SECTOR SECTORS TYPE";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let mut words = Words::of(text);
        let arrival = whole(words.left("a time in ns")?, "a time in ns")?;
        let number = words.left("a device's number")?;
        whole(number, "a device's number")?;
        let sector = sector(words.left("a first sector")?)?;
        let bytes = sectors(words.left("a count of sectors")?)?;
        let kind = match words.left(KIND)? {
            b"0" => Categories::WRITE,
            b"1" => Categories::READ,
            text => return Err(Wrong { text, right: KIND }),
        };
        words.end()?;
        let device = names.device(number, |number| format!("device{number}"))?;
        Ok(Some(Access::new(arrival, kind, sector, bytes, device)))
    }
}
