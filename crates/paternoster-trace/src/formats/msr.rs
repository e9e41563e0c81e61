// SPDX-License-Identifier: MIT OR Apache-2.0
//! MSR: the traces of Microsoft Research Cambridge, and a plain form to exchange traces in.
//!
//! ```text
//! 128166372003061629,hm,0,Read,9748688896,4096,46528
//! │                  │  │ │    │          │    └ response time, in 100 ns
//! │                  │  │ │    │          └ bytes
//! │                  │  │ │    └ offset in bytes
//! │                  │  │ └ Read or Write
//! │                  │  └ number of the disk
//! │                  └ name of the host
//! └ arrival in 100 ns since 1601: Unix time 12_816_637_200.3061629 - 11_644_473_600 s
//! ```
//!
//! Response times are real: `Q` and `D` at the stamp, `C` that much later. Devices have the names
//! of the set's files, `hm_0`. Lines may be slightly out of order; times count from the first. An
//! offset within a sector counts as the sector.
//!
//! [`write()`] writes this form.
//!
//! Source: TRACE-43. No file of the original was at hand; the published lines are read.

use super::access::Access;
use super::fields::{Commas, Wrong, length, offset, whole};
use super::form::Form;
use super::names::Names;
use crate::blktrace::Categories;

mod writer;

pub use writer::write;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Msr;

impl Form for Msr {
    const LINE: &'static str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        let mut fields = Commas::of(text);
        let arrival = hundreds(fields.field(STAMP)?, STAMP)?;
        let from_host = fields.rest();
        let host = fields.field(HOST)?;
        if host.is_empty() {
            return Err(Wrong { text: host, right: HOST });
        }
        let disk = fields.field(DISK)?;
        whole(disk, DISK)?;
        // Host and disk are one piece of the line, with a comma between and one after.
        let key = from_host.len().saturating_sub(fields.rest().len() + 1);
        let kind = kind(fields.field("`Read` or `Write`")?)?;
        let sector = offset(fields.field("an offset in bytes")?)?;
        let bytes = length(fields.field("a size in bytes")?)?;
        let response = hundreds(fields.field(RESPONSE)?, RESPONSE)?;
        fields.end()?;
        let device = names.device(&from_host[..key], |_| name(host, disk))?;
        Ok(Some(Access::new(arrival, kind, sector, bytes, device).answered_after(response)))
    }

    fn is_heading(text: &[u8]) -> bool {
        text.starts_with(b"Timestamp,Hostname,DiskNumber,")
    }
}

const STAMP: &str = "a time in 100 ns since 1601, below 2^64 ns";
const HOST: &str = "a host's name";
const DISK: &str = "a disk's number";
const RESPONSE: &str = "a response time in 100 ns";

#[inline]
fn hundreds<'t>(text: &'t [u8], right: &'static str) -> Result<u64, Wrong<'t>> {
    whole(text, right)?.checked_mul(100).ok_or(Wrong { text, right })
}

#[inline]
fn kind(text: &[u8]) -> Result<Categories, Wrong<'_>> {
    if text.eq_ignore_ascii_case(b"Read") {
        Ok(Categories::READ)
    } else if text.eq_ignore_ascii_case(b"Write") {
        Ok(Categories::WRITE)
    } else {
        Err(Wrong { text, right: "`Read` or `Write`" })
    }
}

/// A device's name, as the set's files are called.
fn name(host: &[u8], disk: &[u8]) -> String {
    format!("{}_{}", String::from_utf8_lossy(host), String::from_utf8_lossy(disk))
}
