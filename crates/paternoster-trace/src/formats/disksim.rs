// SPDX-License-Identifier: MIT OR Apache-2.0
//! DiskSim: its plain traces, and the traces of real drives that validate it.
//!
//! ```text
//! 46.004000  0  4583180  4  0            the plain form
//! │          │  │        │  └ flags, hexadecimal; bit 0: a read
//! │          │  │        └ blocks of 512 bytes
//! │          │  └ first block
//! │          └ number of the device
//! └ arrival in milliseconds
//!
//! W Hit    4583176   4    663.00000  45422.00000         of a real drive
//! │ │      │         │    │          └ think time to the next request, in microseconds
//! │ │      │         │    └ measured response time, in microseconds
//! │ │      │         └ blocks
//! │ │      └ first block
//! │ └ what the drive's cache did; passed over
//! └ R or W
//! ```
//!
//! The plain form gives arrivals only; devices are called `device0`. For a real drive `C` comes the
//! response time after `Q` and `D`, and the next request the think time after `C`: one request is
//! outstanding. That the last number counts from the end of a request shows in a simulator's own
//! output for such a trace (`atlas10k.outtrace`), where a request arrives that much plus the
//! simulated service after the one before: 45.422 + 0.582 = 46.004 ms. A test checks it.
//!
//! Times count from the first line; plain lines may be slightly out of order.
//!
//! Source: TRACE-51; real files of both.

use super::access::Access;
use super::fields::{
    MICROSECOND, MILLISECOND, Words, Wrong, fixed, letter, sector, sectors, whole,
};
use super::form::Form;
use super::names::Names;
use crate::blktrace::Categories;

/// How a line of the plain form is read.
#[derive(Debug, Default)]
pub(super) struct Disksim;

impl Form for Disksim {
    const LINE: &'static str = "TIME_MS DEVICE BLOCK COUNT FLAGS";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        const TIME: &str = "a time in milliseconds";
        let mut words = Words::of(text);
        let arrival = fixed(words.left(TIME)?, MILLISECOND, TIME)?;
        let number = words.left("a device's number")?;
        whole(number, "a device's number")?;
        let sector = sector(words.left("a first block")?)?;
        let bytes = sectors(words.left("a count of blocks")?)?;
        let kind = kind(words.left("flags, hexadecimal")?)?;
        words.end()?;
        let device = names.device(number, |number| format!("device{number}"))?;
        Ok(Some(Access::new(arrival, kind, sector, bytes, device)))
    }
}

/// Bit 0 of hexadecimal flags says that it is a read.
fn kind(text: &[u8]) -> Result<Categories, Wrong<'_>> {
    let digits = text.len() <= 8 && text.iter().all(u8::is_ascii_hexdigit);
    let last = text.last().and_then(|byte| char::from(*byte).to_digit(16));
    match last {
        Some(digit) if digits && digit & 1 == 1 => Ok(Categories::READ),
        Some(_) if digits => Ok(Categories::WRITE),
        _ => Err(Wrong { text, right: "flags, hexadecimal" }),
    }
}

/// How a line about a real drive is read.
#[derive(Debug, Default)]
pub(super) struct Validation {
    /// When the next request arrives, in ns.
    next: u64,
}

impl Form for Validation {
    const LINE: &'static str = "R|W Hit|Miss BLOCK COUNT RESPONSE_US THINK_US";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        const RESPONSE: &str = "a response time in microseconds";
        const THINK: &str = "a think time in microseconds";
        let mut words = Words::of(text);
        let kind = letter(words.left("`R` or `W`")?)?;
        let cache = words.left("what the cache did")?;
        if !cache[0].is_ascii_alphabetic() {
            return Err(Wrong { text: cache, right: "what the cache did: `Hit`, `Miss` …" });
        }
        let sector = sector(words.left("a first block")?)?;
        let bytes = sectors(words.left("a count of blocks")?)?;
        let response = fixed(words.left(RESPONSE)?, MICROSECOND, RESPONSE)?;
        let think = fixed(words.left(THINK)?, MICROSECOND, THINK)?;
        words.end()?;
        let arrival = self.next;
        self.next = arrival.saturating_add(response).saturating_add(think);
        let device = names.device(b"drive", str::to_owned).unwrap_or_default();
        Ok(Some(Access::new(arrival, kind, sector, bytes, device).answered_after(response)))
    }
}
