// SPDX-License-Identifier: MIT OR Apache-2.0
//! SLC: cells that hold one bit for a while, and the cliff when they are full.
//!
//! A cell of one bit is programmed in a fraction of the time that one of three or four bits takes.
//! So a consumer drive reserves some cells for that, and uses more while they hold no data; host
//! writes go there, and are *folded* into ordinary cells while the host is quiet:
//!
//! ```text
//! rate   530 |==========|                     |=====|
//!        160 |          |=================|   |     |======
//!            +---------------------------------------------▶ time
//!             full after 78 GB              quiet: room again for drain * (quiet - rest)
//! ```
//!
//! # Section
//! ```toml
//! [slc]
//! size = { value = "6 GB", source = "…" }         # always there
//! dynamic = { value = "72 GB", source = "…" }     # more, while cells hold no data
//! bits = { value = 4, source = "…" }              # a cell holds otherwise: 4 bytes for one of SLC
//! program = { value = "200 us", source = "…" }    # of a unit
//! drain = { value = "160 MB/s", source = "…" }    # folded, while no command is inside
//! rest = { value = "1 s", source = "…" }          # quiet before it begins
//! ```
//!
//! # Invariants
//! I1  No more is held than the size and the part of the dynamic cells that is free at the write.
//! I2  Held + folded = taken.
//!
//! # Where it stops being valid
//! Folding delays no command: the first one ends it. Nothing is folded while commands are inside,
//! so a drive that is never quiet stays past its cliff. How much of the dynamic part is free is
//! known only for drives that collect (`collection`); for others all of it is.

use paternoster_core::Nanos;

use crate::sections::{DeviceFileError, Sections};
use crate::transfer::Transfer;

/// What the section says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlcNumbers {
    /// Size of the cache in bytes.
    pub(super) size: u64,
    pub(super) dynamic: u64,
    pub(super) bits: u32,
    pub(super) program: Nanos,
    pub(super) drain: Transfer,
    pub(super) rest: Nanos,
}

impl SlcNumbers {
    /// Reads the section `[slc]`, if there is one.
    pub(super) fn read(sections: &mut Sections<'_>) -> Result<Option<SlcNumbers>, DeviceFileError> {
        let has = sections.has("slc");
        let mut fields = sections.open("slc");
        if !has {
            return Ok(None);
        }
        let numbers = SlcNumbers {
            size: fields.size("size", None)?,
            dynamic: fields.size("dynamic", Some(0))?,
            bits: fields.number("bits", Some(3), 2..=8)?,
            program: fields.time("program", None)?,
            drain: fields.rate("drain", None)?,
            rest: fields.time("rest", Some(Nanos::ZERO))?,
        };
        fields.finish()?;
        Ok(Some(numbers))
    }
}

/// The cache, and what is in it.
#[derive(Debug, Clone)]
pub(super) struct Slc {
    numbers: SlcNumbers,
    held: u64,
    folded: u64,
}

impl Slc {
    pub(super) const fn new(numbers: SlcNumbers) -> Slc {
        Slc { numbers, held: 0, folded: 0 }
    }

    /// Takes bytes, if there is room with `unused` bytes of ordinary cells; returns how long a
    /// unit's program takes then.
    pub(super) fn take(&mut self, bytes: u64, unused: Option<u64>) -> Option<Nanos> {
        let SlcNumbers { size, dynamic, bits, program, .. } = self.numbers;
        let dynamic = unused.map_or(dynamic, |unused| dynamic.min(unused / u64::from(bits)));
        if self.held.saturating_add(bytes) > size.saturating_add(dynamic) {
            return None;
        }
        self.held += bytes;
        Some(program)
    }

    /// No command was inside for `span`.
    pub(super) fn quiet(&mut self, span: Nanos) {
        let Transfer { nanos, bytes } = self.numbers.drain;
        let span = span.0.saturating_sub(self.numbers.rest.0);
        let drained = u128::from(span) * u128::from(bytes) / u128::from(nanos.max(1));
        let drained = u64::try_from(drained).unwrap_or(u64::MAX).min(self.held);
        self.held -= drained;
        self.folded += drained;
    }

    /// Bytes in it, and bytes that were folded.
    pub(super) const fn bytes(&self) -> (u64, u64) {
        (self.held, self.folded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers() -> SlcNumbers {
        SlcNumbers {
            size: 6_000,
            dynamic: 36_000,
            bits: 4,
            program: Nanos(200_000),
            drain: Transfer { nanos: 1_000_000_000, bytes: 1_000 },
            rest: Nanos::from_secs(1),
        }
    }

    /// Does it hold what it may, and have room again after a quiet time? 8,000 unused bytes make
    /// 2,000 of SLC; with the fixed 6,000 that is eight units of 1,000. In 2.5 of the 3.5 s of
    /// quiet data were folded: room for two more units.
    #[test]
    fn it_is_full_and_drains() {
        let mut slc = Slc::new(numbers());
        let units =
            |slc: &mut Slc| (0..100).take_while(|_| slc.take(1_000, Some(8_000)).is_some()).count();
        assert_eq!(units(&mut slc), 8);
        slc.quiet(Nanos::from_secs(1));
        assert_eq!(units(&mut slc), 0);
        slc.quiet(Nanos::from_millis(3_500));
        assert_eq!(slc.bytes(), (5_500, 2_500));
        assert_eq!(units(&mut slc), 2);
        // Without a mapping the whole dynamic part is there: 42,000 - 7,500.
        assert_eq!((0..100).take_while(|_| slc.take(1_000, None).is_some()).count(), 34);
        slc.quiet(Nanos::from_secs(1_000_000));
        assert_eq!(slc.bytes().0, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

        /// Whatever comes: does it never hold more than it may (I1), and lose nothing (I2)?
        #[test]
        fn nothing_is_lost(
            size in 0u64..10_000, dynamic in 0u64..10_000, bits in 2u32..9,
            steps in prop::collection::vec((0u64..3_000, 0u64..50_000, 0u64..5_000), 1..80)
        ) {
            let mut slc = Slc::new(SlcNumbers { size, dynamic, bits, ..numbers() });
            let mut taken = 0;
            for (bytes, unused, quiet_ms) in steps {
                let before = slc.bytes().0;
                let room = size + dynamic.min(unused / u64::from(bits));
                let took = slc.take(bytes, Some(unused)).is_some();
                prop_assert_eq!(took, before + bytes <= room);
                taken += if took { bytes } else { 0 };
                let (held, folded) = slc.bytes();
                prop_assert_eq!(held + folded, taken);
                slc.quiet(Nanos::from_millis(quiet_ms));
                let drained = (quiet_ms.saturating_sub(1000)).min(held);
                prop_assert_eq!(slc.bytes(), (held - drained, folded + drained));
            }
        }
    }
}
