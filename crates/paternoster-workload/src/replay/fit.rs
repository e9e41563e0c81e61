// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fit: where on another device the sectors of a recording lie.
//!
//! A device that is large enough has everything in its old place. On a smaller one:
//!
//! ```text
//! wrap    what reaches beyond the end wraps around to the front      streams stay streams
//! scale   everything moves closer, in pieces of 64 MiB               near stays near, far far
//! fail    it is refused
//!
//! recorded  0│A·····│B·····│C·····│D·····│256 MiB      on a device of 128 MiB:
//! wrap      0│A C···│B D···│                           C over A, D over B
//! scale     0│A B···│C D···│                           a stream goes on within its piece
//! ```
//!
//! Wrapping takes a whole number of MiB, so that alignment is kept. An I/O that would reach over
//! the end is put before it. In neither manner do things that lay apart stay apart for certain,
//! which matters to a cache or a write that follows a write, not to a disk's head.
//!
//! Invariants: I1 every I/O lies on the device; I2 an I/O that fits where it was is not moved by
//! `wrap`, and by `scale` only if another one does not fit.

use paternoster_core::Op;

use super::recording::{RecordedIo, Recording};

/// What wrapping is a multiple of: 1 MiB in sectors.
const ALIGNED: u64 = 2048;
/// What `scale` moves as a whole: 64 MiB in sectors.
const PIECE: u64 = 131_072;
/// A device has at least this many pieces; on a small one they are smaller.
const PIECES_MIN: u64 = 16;
/// What everything stays aligned to: 4 KiB in sectors.
const BLOCK: u64 = 8;

/// What to do with a recording that is larger than the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Begin again at the front.
    Wrap,
    /// Move everything closer.
    Scale,
    /// Refuse it.
    Fail,
}

/// A recording does not fit a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// Some are beyond its end, and nothing was to be moved.
    #[error(
        "{count} of {of} I/Os reach beyond the device's {capacity} sectors, the first one to \
         sector {end}"
    )]
    Beyond {
        /// Number of I/Os beyond the device.
        count: u64,
        /// Number of I/Os in all.
        of: u64,
        /// Sector after the first such I/O.
        end: u64,
        /// Sectors of the device.
        capacity: u64,
    },
    /// An I/O is larger than the device.
    #[error("an I/O of {sectors} sectors is larger than the device, which has {capacity}")]
    TooLarge {
        /// Number of sectors of that I/O.
        sectors: u32,
        /// Sectors of the device.
        capacity: u64,
    },
}

/// Where the I/Os of one recording lie on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    capacity: u64,
    fit: Fit,
    /// `scale`: the pieces of the device, of the recording, and how large they are.
    pieces: (u64, u64),
    piece: u64,
    moved: u64,
}

impl Mapping {
    /// A mapping for a device of this many sectors.
    ///
    /// # Errors
    /// [`FitError`] when there is none.
    pub fn new(recording: &Recording, capacity: u64, fit: Fit) -> Result<Mapping, FitError> {
        let ios = recording.ios().iter().filter(|io| io.op() != Op::Flush);
        if let Some(io) = ios.clone().find(|io| u64::from(io.sectors()) > capacity) {
            return Err(FitError::TooLarge { sectors: io.sectors(), capacity });
        }
        let beyond = ios.clone().filter(|io| io.end() > capacity);
        let (count, first) = (beyond.clone().count() as u64, beyond.map(RecordedIo::end).next());
        let piece = PIECE.min(capacity / PIECES_MIN / BLOCK * BLOCK).max(1);
        let span = ios.clone().map(RecordedIo::end).max().unwrap_or(0);
        let pieces = ((capacity / piece).max(1), span.div_ceil(piece).max(1));
        let mut mapping = Mapping { capacity, fit, pieces, piece, moved: 0 };
        let Some(end) = first else {
            mapping.fit = Fit::Fail;
            return Ok(mapping);
        };
        if fit == Fit::Fail {
            let of = recording.ios().len() as u64;
            return Err(FitError::Beyond { count, of, end, capacity });
        }
        mapping.moved = ios.filter(|io| mapping.place(io) != io.sector()).count() as u64;
        Ok(mapping)
    }

    /// How many I/Os do not lie where they were.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.moved
    }

    /// The first sector of an I/O on the device; 0 for a flush.
    #[must_use]
    pub fn place(&self, io: &RecordedIo) -> u64 {
        if io.op() == Op::Flush {
            return 0;
        }
        let sector = match self.fit {
            Fit::Fail => io.sector(),
            Fit::Wrap if io.end() <= self.capacity => io.sector(),
            Fit::Wrap => match self.capacity / ALIGNED * ALIGNED {
                0 => io.sector() % self.capacity,
                whole => io.sector() % whole,
            },
            Fit::Scale => {
                let (own, recorded) = self.pieces;
                let piece = u128::from(io.sector() / self.piece) * u128::from(own);
                let piece = u64::try_from(piece / u128::from(recorded)).unwrap_or(0);
                piece * self.piece + io.sector() % self.piece
            }
        };
        let last = self.capacity - u64::from(io.sectors()).min(self.capacity);
        if sector <= last { sector } else { last / BLOCK * BLOCK }
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::{Flags, Nanos};
    use proptest::prelude::*;

    use super::super::recording::Arrival;
    use super::*;

    fn recording(ios: &[(u64, u32)]) -> Recording {
        let mut recording = Recording::default();
        for &(sector, sectors) in ios {
            let op = if sectors == 0 { Op::Flush } else { Op::Read };
            let (at, flags) = (Nanos::ZERO, Flags::NONE);
            recording.push(&Arrival { at, pid: 1, op, flags, sector, sectors }).unwrap();
        }
        recording
    }

    fn places(ios: &[(u64, u32)], capacity: u64, fit: Fit) -> (Vec<u64>, u64) {
        let recording = recording(ios);
        let mapping = Mapping::new(&recording, capacity, fit).unwrap();
        (recording.ios().iter().map(|io| mapping.place(io)).collect(), mapping.moved())
    }

    /// Is the drawing true? 256 MiB are 524,288 sectors, 64 MiB 131,072; the device has 262,144:
    /// wrapped, C lies at A's place; scaled, B lies between A and C, in pieces of 16,384 sectors
    /// (1/16 of a small device).
    #[test]
    fn worked_example() {
        let ios = [(0, 8), (131_072, 8), (262_144, 8), (393_216, 8), (524_280, 8)];
        let (wrapped, moved) = places(&ios, 262_144, Fit::Wrap);
        assert_eq!((wrapped, moved), (vec![0, 131_072, 0, 131_072, 262_136], 3));
        // 32 pieces to 16: piece 8 -> 4, 16 -> 8, 24 -> 12, 31 -> 15.
        let (scaled, moved) = places(&ios, 262_144, Fit::Scale);
        assert_eq!((scaled, moved), (vec![0, 65_536, 131_072, 196_608, 262_136], 4));
    }

    /// Is nothing moved that fits, in either manner, and no flush ever?
    #[test]
    fn what_fits_stays() {
        for fit in [Fit::Wrap, Fit::Scale, Fit::Fail] {
            let (stay, moved) = places(&[(0, 0), (992, 8), (17, 3)], 1000, fit);
            assert_eq!((stay, moved), (vec![0, 992, 17], 0));
        }
    }

    /// Does a refusal give its numbers?
    #[test]
    fn refusals_have_numbers() {
        let two = recording(&[(0, 8), (992, 16), (2000, 8)]);
        let error = Mapping::new(&two, 1000, Fit::Fail).unwrap_err();
        assert_eq!(error, FitError::Beyond { count: 2, of: 3, end: 1008, capacity: 1000 });
        let error = Mapping::new(&two, 12, Fit::Wrap).unwrap_err();
        assert_eq!(error, FitError::TooLarge { sectors: 16, capacity: 12 });
    }

    proptest! {
        /// I1: does everything lie on the device, aligned as it was if the device is? And does a
        /// stream that wraps go on where it left off, except at the ends?
        #[test]
        fn everything_lies_on_the_device(
            ios in prop::collection::vec((any::<u64>(), 1_u32..4096), 1..30),
            capacity in 4096_u64..1 << 33,
        ) {
            for fit in [Fit::Wrap, Fit::Scale] {
                let recording = recording(&ios);
                let mapping = Mapping::new(&recording, capacity, fit).unwrap();
                for io in recording.ios() {
                    prop_assert!(mapping.place(io) + u64::from(io.sectors()) <= capacity);
                }
            }
            let stream: Vec<(u64, u32)> = (0..200).map(|n| (ios[0].0 / 2 + 64 * n, 64)).collect();
            let (places, _) = places(&stream, capacity, Fit::Wrap);
            let torn = places.windows(2).filter(|pair| pair[0] + 64 != pair[1]).count();
            // 12,800 sectors pass the end at most four times (4096 and more), twice torn each.
            prop_assert!(torn <= 8, "{torn}");
        }
    }
}
