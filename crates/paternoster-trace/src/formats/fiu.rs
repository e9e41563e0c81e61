// SPDX-License-Identifier: MIT OR Apache-2.0
//! FIU: the traces of Florida International University, with the content of each block as a hash.
//!
//! ```text
//! 89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523
//! │              │     │    │         │ │ │ │ └ hash of the content; passed over, may be missing
//! │              │     │    │         │ │ │ └ minor number of the device
//! │              │     │    │         │ │ └ major number
//! │              │     │    │         │ └ R or W
//! │              │     │    │         └ sectors of 512 bytes
//! │              │     │    └ first sector
//! │              │     └ process
//! │              └ its number
//! └ arrival in ns
//! ```
//!
//! Arrivals only, with notes of the processes. Devices have their own numbers. Times count from the
//! first line; lines may be slightly out of order.
//!
//! Source: TRACE-49. No file of the original was at hand; the published line is read.

use super::access::Access;
use super::fields::{Words, Wrong, letter, sector, sectors, whole, whole_u32};
use super::form::Form;
use super::names::Names;
use crate::blktrace::DeviceNumber;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Fiu;

/// A hash has at least this many digits, and a minor number has fewer.
const HASH_MIN: usize = 8;

impl Form for Fiu {
    const LINE: &'static str = "TIME_NS PID PROCESS LBA SECTORS R|W MAJOR MINOR MD5";

    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        const MINOR: &str = "a minor number, below 2^20";
        let mut words = Words::of(text);
        let arrival = whole(words.left("a time in ns")?, "a time in ns")?;
        let pid = whole_u32(words.left("a process's number")?, "a process's number")?;
        let mut minor = words.right("a minor number")?;
        if minor.len() >= HASH_MIN {
            if !minor.iter().all(u8::is_ascii_hexdigit) {
                return Err(Wrong { text: minor, right: "a hash, hexadecimal" });
            }
            minor = words.right("a minor number")?;
        }
        let major = words.right("a major number")?;
        let device = DeviceNumber::new(
            below(major, 1 << 12, "a major number, below 2^12")?,
            below(minor, 1 << 20, MINOR)?,
        );
        let kind = letter(words.right("`R` or `W`")?)?;
        let bytes = sectors(words.right("a count of sectors")?)?;
        let sector = sector(words.right("a first sector")?)?;
        let process = names.process(pid, words.rest());
        let access = Access::new(arrival, kind, sector, bytes, device);
        Ok(Some(access.of_process(pid, process)))
    }
}

fn below<'t>(text: &'t [u8], limit: u32, right: &'static str) -> Result<u32, Wrong<'t>> {
    let number = whole_u32(text, right)?;
    if number < limit { Ok(number) } else { Err(Wrong { text, right }) }
}
