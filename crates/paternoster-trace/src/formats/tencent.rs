// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tencent: the traces of Tencent's cloud block storage, 2018.
//!
//! ```text
//! 1538323200,12910952,128,0,1063
//! │          │        │   │ └ number of the volume
//! │          │        │   └ 0 read, 1 write
//! │          │        └ sectors of 512 bytes
//! │          └ offset in sectors
//! └ arrival, Unix time in whole seconds
//! ```
//!
//! Arrivals only; those of one second are spread evenly within it (`spread.rs`). Volumes are called
//! `volume1063`. Times count from the first line.
//!
//! Source: TRACE-46, the data set's own description. No file of it was at hand.

use super::access::Access;
use super::fields::{Commas, Wrong, sector, sectors, whole, whole_seconds};
use super::form::Form;
use super::names::Names;
use crate::blktrace::Categories;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Tencent;

const KIND: &str = "0 (read) or 1 (write)";

impl Form for Tencent {
    const LINE: &'static str = "Timestamp,Offset,Size,IOType,VolumeID";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let mut fields = Commas::of(text);
        let arrival = whole_seconds(fields.field("a time in whole seconds")?)?;
        let sector = sector(fields.field("an offset in sectors")?)?;
        let bytes = sectors(fields.field("a size in sectors")?)?;
        let kind = match fields.field(KIND)? {
            b"0" => Categories::READ,
            b"1" => Categories::WRITE,
            text => return Err(Wrong { text, right: KIND }),
        };
        let volume = fields.field("a volume's number")?;
        whole(volume, "a volume's number")?;
        fields.end()?;
        let device = names.device(volume, |volume| format!("volume{volume}"))?;
        Ok(Some(Access::new(arrival, kind, sector, bytes, device)))
    }

    /// fio's logs of rates also have five numbers; Unix time has ten digits since 2001.
    fn is_likely(text: &[u8]) -> bool {
        text.iter().take_while(|byte| byte.is_ascii_digit()).count() >= 10
    }

    fn is_heading(text: &[u8]) -> bool {
        text.starts_with(b"Timestamp,Offset,Size,IOType")
    }
}
