// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layout: which die and channel a sector lies on.
//!
//! A *unit* is what a die reads or programs at a time: one page on each of its planes. Units are
//! dealt to the dies in turn, and dies to the channels in turn, so that neighbours lie on
//! different channels and a long run of sectors keeps them all busy:
//!
//! ```text
//! page 16 KiB, 2 planes: unit 32 KiB = 64 sectors; 4 dies on 2 channels
//!
//! unit      0  1  2  3  4  5 …
//! die       0  1  2  3  0  1 …      sectors 100..300 touch units 1 (28 sectors), 2 (64), 3 (64)
//! channel   0  1  0  1  0  1 …      and 4 (44): all four dies
//! ```
//!
//! # Invariants
//! I1  The pieces of a run are in order, without gaps, and add up to its length.
//!
//! # Not here
//! The mapping of a flash translation layer: real drives place sectors where they were written,
//! which for random traffic spreads them in the same way.

/// The place of each sector in the flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    unit_sectors: u32,
    page_sectors: u32,
    dies: u32,
    channels: u32,
}

/// Sectors of one unit that a command touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The die.
    pub(super) die: u32,
    /// Number of sectors.
    pub(super) sectors: u32,
    /// The first and the last of its pages, counted over the whole device.
    pub(super) pages: (u64, u64),
}

impl Layout {
    /// `page` is in bytes, at least one sector; the others are at least 1.
    pub(super) fn new(page: u64, planes: u32, dies: u32, channels: u32) -> Layout {
        let page_sectors = u32::try_from(page / 512).unwrap_or(u32::MAX).max(1);
        let unit_sectors = page_sectors.saturating_mul(planes.max(1));
        Layout { unit_sectors, page_sectors, dies: dies.max(1), channels: channels.max(1) }
    }

    /// What a die programs at a time, in bytes.
    pub(super) const fn unit_bytes(&self) -> u64 {
        self.unit_sectors as u64 * 512
    }

    /// The channel that a die is on.
    pub(super) const fn channel(&self, die: u32) -> u32 {
        die % self.channels
    }

    /// The pieces of a run of sectors.
    pub(super) fn pieces(&self, sector: u64, sectors: u32) -> Pieces {
        Pieces { layout: *self, sector, end: sector + u64::from(sectors) }
    }
}

/// See [`Layout::pieces`].
#[derive(Debug)]
pub(super) struct Pieces {
    layout: Layout,
    sector: u64,
    end: u64,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.sector >= self.end {
            return None;
        }
        let Layout { unit_sectors, page_sectors, dies, .. } = self.layout;
        let unit = self.sector / u64::from(unit_sectors);
        let unit_end = (unit + 1) * u64::from(unit_sectors);
        let first = self.sector;
        let end = self.end.min(unit_end);
        self.sector = end;
        let page = |sector: u64| sector / u64::from(page_sectors);
        Some(Piece {
            // Both fit: a remainder modulo a u32, and at most a unit.
            die: u32::try_from(unit % u64::from(dies)).unwrap_or(0),
            sectors: u32::try_from(end - first).unwrap_or(unit_sectors),
            pages: (page(first), page(end - 1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Does the drawing hold? Sectors 100..300 over units of 64: 28 + 64 + 64 + 44 = 200, on dies
    /// 1, 2, 3, 0; pages of 32 sectors: 3 (96..128), 4 to 5, 6 to 7, 8 (256..288) to 9.
    #[test]
    fn a_run_is_dealt_to_the_dies() {
        let layout = Layout::new(16 << 10, 2, 4, 2);
        let piece = |die, sectors, pages| Piece { die, sectors, pages };
        assert_eq!(
            layout.pieces(100, 200).collect::<Vec<_>>(),
            [
                piece(1, 28, (3, 3)),
                piece(2, 64, (4, 5)),
                piece(3, 64, (6, 7)),
                piece(0, 44, (8, 9))
            ]
        );
        assert_eq!((layout.channel(1), layout.channel(2)), (1, 0));
        assert_eq!(layout.unit_bytes(), 32 << 10);
    }

    proptest! {
        /// Do the pieces of any run add up to its length, each on a die that exists (I1)?
        #[test]
        fn pieces_add_up(
            sector in 0u64..1 << 40, sectors in 0u32..5000, pages in 1u64..64, planes in 1u32..5,
            dies in 1u32..100
        ) {
            let layout = Layout::new(pages * 4096, planes, dies, 3);
            let mut total = 0;
            for piece in layout.pieces(sector, sectors) {
                prop_assert!(piece.die < dies);
                prop_assert!(piece.sectors > 0);
                prop_assert!(u64::from(piece.sectors) * 512 <= layout.unit_bytes());
                prop_assert!(piece.pages.0 <= piece.pages.1);
                total += piece.sectors;
            }
            prop_assert_eq!(total, sectors);
        }
    }
}
