// SPDX-License-Identifier: MIT OR Apache-2.0
//! Area: where the journal lies on the device, written round and round.
//!
//! ```text
//! blocks   0      6                                32767
//!          |DMMMMC|DMC|DMMC|                           |   D descriptor, M metadata, C commit
//!                          ▲ head: the next is written here; after the last block comes block 0
//! ```
//!
//! # Invariants
//! I1  The head is inside of the area; a piece does not reach over its end.

/// Bytes of a block of the file system.
pub(super) const BLOCK: u64 = 4096;
/// Metadata blocks that one descriptor block names: tags of 16 bytes, next to a header of 12, a
/// name of 16 and a checksum of 4.
const TAGS: u64 = (BLOCK - 12 - 16 - 4) / 16;

/// The journal's place, and how far it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    /// First byte on the device.
    at: u64,
    blocks: u64,
    head: u64,
}

/// A piece of the area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) sector: u64,
    pub(super) blocks: u64,
}

impl Area {
    /// `blocks` blocks from byte `at` on; nothing is written.
    pub(super) const fn new(at: u64, blocks: u64) -> Area {
        Area { at, blocks, head: 0 }
    }

    /// Blocks that a transaction of this much metadata takes before its commit block.
    pub(super) const fn needed(metadata: u64) -> u64 {
        metadata + metadata.div_ceil(TAGS)
    }

    /// The next piece of at most `most` blocks.
    pub(super) fn next(&self, most: u64) -> Piece {
        let blocks = most.min(self.blocks - self.head).max(1);
        Piece { sector: (self.at + self.head * BLOCK) / 512, blocks }
    }

    /// The next piece has been taken.
    pub(super) const fn advance(&mut self, piece: Piece) {
        self.head = (self.head + piece.blocks) % self.blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does it wrap around? Eight blocks from 1 MiB = sector 2048: of five and five the second is
    /// cut after three, at 2048 + 5 * 8, and goes on at the beginning.
    #[test]
    fn it_goes_round() {
        let mut area = Area::new(1 << 20, 8);
        let mut take = |most| {
            let piece = area.next(most);
            area.advance(piece);
            (piece.sector, piece.blocks)
        };
        assert_eq!([take(5), take(5), take(2)], [(2048, 5), (2088, 3), (2048, 2)]);
    }

    /// (4096 - 32) / 16 = 254 blocks to a descriptor.
    #[test]
    fn descriptors_name_254_blocks() {
        assert_eq!([1, 254, 255].map(Area::needed), [2, 255, 257]);
    }
}
