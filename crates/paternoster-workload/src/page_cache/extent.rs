// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extent: where a file lies on its device.
//!
//! A file is one piece, or pieces of equal size at equal distances, as files are that grew at the
//! same time:
//!
//! ```text
//! near          |aaaaaa|bbbbbb|
//! interleaved   |aa|bb|aa|bb|aa|bb|      piece 2, stride 4
//! ```

/// Where a file lies; all in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where its first piece begins on the device.
    pub at: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// How long each of its pieces is, at least 1.
    pub piece: u64,
    /// From the beginning of a piece to the next; `piece` if they lie together.
    pub stride: u64,
}

impl Extent {
    /// A file in one piece.
    #[must_use]
    pub const fn whole(at: u64, bytes: u64) -> Extent {
        Extent { at, bytes, piece: u64::MAX, stride: u64::MAX }
    }

    /// Where byte `offset` of the file is on the device, and how many bytes from there lie
    /// together.
    #[must_use]
    pub const fn locate(&self, offset: u64) -> (u64, u64) {
        let (number, within) = (offset / self.piece, offset % self.piece);
        let start = if number == 0 { self.at } else { self.at + number * self.stride };
        (start + within, self.piece - within)
    }

    /// The byte after its last one on the device; `u64::MAX` if that is out of range.
    #[must_use]
    pub fn end(&self) -> u64 {
        if self.bytes == 0 {
            return self.at;
        }
        let last = self.bytes - 1;
        (last / self.piece)
            .checked_mul(self.stride)
            .and_then(|pieces| pieces.checked_add(self.at))
            .and_then(|start| start.checked_add(last % self.piece + 1))
            .unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are pieces found by hand arithmetic? Piece 2, stride 6, from 100: bytes 0 1 are at 100 101,
    /// 2 3 at 106 107, 4 at 112.
    #[test]
    fn pieces_are_found() {
        let file = Extent { at: 100, bytes: 5, piece: 2, stride: 6 };
        let all: Vec<(u64, u64)> = (0..5).map(|offset| file.locate(offset)).collect();
        assert_eq!(all, [(100, 2), (101, 1), (106, 2), (107, 1), (112, 2)]);
        assert_eq!(file.end(), 113);
        assert_eq!(Extent::whole(100, 5).locate(4).0, 104);
        assert_eq!(Extent::whole(100, 5).end(), 105);
    }
}
