// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blkreplay: the loads of the program blkreplay, and what it writes of a replay.
//!
//! ```text
//! start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0      a heading
//!       0.449518165 ;     37766917 ;   14 ; W ; 0.0 ; 0.0
//!       │                 │            │    │   │     └ seconds in the device; 0 if not known
//!       │                 │            │    │   └ seconds from the arrival to the device
//!       │                 │            │    └ R, W, or more of blkparse's letters
//!       │                 │            └ sectors
//!       │                 └ first sector
//!       └ arrival in seconds
//! ```
//!
//! A line without `;` is a comment: a licence comes first, and messages may come between. In a load
//! both times are 0, and there are arrivals only. A replay may be slightly out of order; times
//! count from the first line. The disk has no name and is called `disk`.
//!
//! Source: TRACE-58; real loads. No replay was at hand.

use super::access::Access;
use super::fields::{Pieces, SECOND, Wrong, fixed, letters, sector, sectors};
use super::form::Form;
use super::names::Names;

/// How a line is read.
#[derive(Debug, Default)]
pub(super) struct Blkreplay;

type Fields<'t> = Pieces<'t, b';'>;

impl Form for Blkreplay {
    const LINE: &'static str = "START;SECTOR;LENGTH;OP;DELAY;DURATION";

    #[inline]
    fn line<'t>(&mut self, text: &'t [u8], names: &mut Names) -> Result<Option<Access>, Wrong<'t>> {
        if !text.contains(&b';') {
            return Ok(None);
        }
        const TIME: &str = "a time in seconds";
        let mut fields = Fields::of(text);
        let arrival = fixed(fields.field(TIME)?, SECOND, TIME)?;
        let sector = sector(fields.field("a sector")?)?;
        let bytes = sectors(fields.field("a count of sectors")?)?;
        let kind = letters(fields.field("blkparse's letters")?)?;
        let delay = fixed(fields.field("a delay in seconds")?, SECOND, "a delay in seconds")?;
        let duration = fields.field("a duration in seconds")?;
        let duration = fixed(duration, SECOND, "a duration in seconds")?;
        fields.end()?;
        let device = names.device(b"disk", str::to_owned).unwrap_or_default();
        let mut access = Access::new(arrival, kind, sector, bytes, device);
        if duration > 0 {
            let begin = arrival.saturating_add(delay);
            access.served = Some((begin, begin.saturating_add(duration)));
        }
        Ok(Some(access))
    }

    fn is_likely(text: &[u8]) -> bool {
        text.contains(&b';')
    }

    fn is_heading(text: &[u8]) -> bool {
        let mut fields = Fields::of(text);
        [&b"start"[..], b"sector", b"length", b"op"].map(Some) == [(); 4].map(|()| fields.next())
    }
}

/// Whether the heading is among these first bytes: a long licence may precede it.
pub(super) fn looks_like(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(Blkreplay::is_heading)
}
