// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stripe: which member holds which sector.
//!
//! Chunks of equal size go to the members in turn:
//!
//! ```text
//! chunk     0 1 2 3 4 5 6 7      on 4 members
//! member    0 1 2 3 0 1 2 3
//! its row   0 0 0 0 1 1 1 1
//! ```
//!
//! An array that scatters its chunks begins each row at another member, chosen by a hash of the
//! row. Without this, streams whose files are a multiple of a row apart hit the same member again
//! and again, which arrays that place their segments freely do not show.
//!
//! # Invariants
//! I1  Different sectors of the array are different sectors of its members.

/// How an array is striped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    /// Disks, at least 1.
    pub members: u32,
    /// Sectors of a chunk, at least 1.
    pub chunk: u64,
    /// Whether each row begins at another member.
    pub scatter: bool,
}

/// Sectors of one member that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The member.
    pub member: u32,
    /// First sector there.
    pub sector: u64,
    /// Number of sectors, within one chunk.
    pub sectors: u32,
    /// The chunk of the array.
    pub chunk: u64,
}

impl Stripe {
    /// The chunk that holds a sector of the array.
    #[must_use]
    pub const fn chunk_of(&self, sector: u64) -> u64 {
        sector / self.chunk
    }

    /// The pieces of a range, in its order.
    pub fn pieces(self, sector: u64, sectors: u64) -> impl Iterator<Item = Piece> {
        let end = sector + sectors;
        let mut next = sector;
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let chunk = self.chunk_of(next);
            let until = ((chunk + 1) * self.chunk).min(end);
            let (row, within) = (chunk / u64::from(self.members), next % self.chunk);
            let turn = if self.scatter { hash(row) >> 32 } else { 0 };
            let piece = Piece {
                member: u32::try_from((chunk + turn) % u64::from(self.members)).unwrap_or(0),
                sector: row * self.chunk + within,
                sectors: u32::try_from(until - next).unwrap_or(u32::MAX),
                chunk,
            };
            next = until;
            Some(piece)
        })
    }

    /// A whole chunk.
    #[must_use]
    pub fn whole(self, chunk: u64) -> Option<Piece> {
        self.pieces(chunk * self.chunk, self.chunk).next()
    }
}

/// Spreads a number over 64 bits: an odd constant (2^64 / golden ratio), twice.
const fn hash(number: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let once = number.wrapping_add(1).wrapping_mul(ODD);
    (once ^ (once >> 29)).wrapping_mul(ODD)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of 8 sectors on 3 members: sectors 20 to 33 are the end of chunk 2 (20-23, member 2,
    /// row 0), chunk 3 (24-31, member 0, row 1) and the beginning of chunk 4 (member 1, row 1).
    #[test]
    fn ranges_are_cut_at_chunks() {
        let stripe = Stripe { members: 3, chunk: 8, scatter: false };
        let pieces: Vec<(u32, u64, u32)> =
            stripe.pieces(20, 14).map(|p| (p.member, p.sector, p.sectors)).collect();
        assert_eq!(pieces, [(2, 4, 4), (0, 8, 8), (1, 8, 2)]);
        assert_eq!(stripe.whole(4).map(|p| (p.member, p.sector, p.sectors)), Some((1, 8, 8)));
    }

    /// I1: are no two sectors in the same place?
    #[test]
    fn no_sector_is_held_twice() {
        for scatter in [false, true] {
            let stripe = Stripe { members: 5, chunk: 3, scatter };
            let mut places: Vec<(u32, u64)> = (0..300)
                .flat_map(|sector| stripe.pieces(sector, 1))
                .map(|piece| (piece.member, piece.sector))
                .collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), 300);
        }
    }
}
