// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pieces: the parts of a job's memory that are still to be moved, as the kernel's vectors.
//!
//! ```text
//! pieces    [4096][8192][512]      6000 bytes are done
//! rest            [6288][512]      4096 of the first, 1904 of the second are gone
//! ```
//!
//! More than [`VECTORS`] pieces are moved in several calls: each is a short one that is continued.

use std::ptr::{NonNull, null_mut};

use libc::iovec;

use super::Piece;

/// Pieces that one system call is given.
pub(super) const VECTORS: usize = 64;

/// Where zeroes come from when a file must be written full of them.
#[repr(align(4096))]
struct Zeroes([u8; 64 << 10]);

static ZEROES: Zeroes = Zeroes([0; 64 << 10]);

/// The pieces of a call.
pub(crate) struct Vectors {
    all: [iovec; VECTORS],
    count: usize,
}

impl Vectors {
    pub(super) const fn new() -> Vectors {
        Vectors { all: [iovec { iov_base: null_mut(), iov_len: 0 }; VECTORS], count: 0 }
    }

    /// Takes as many of the pieces as there is room for.
    pub(super) fn fill(&mut self, pieces: impl Iterator<Item = Piece>) {
        self.count = 0;
        for (vector, Piece { at, length }) in self.all.iter_mut().zip(pieces) {
            *vector = iovec { iov_base: at.as_ptr().cast(), iov_len: length };
            self.count += 1;
        }
    }

    pub(super) const fn as_ptr(&self) -> *const iovec {
        self.all.as_ptr()
    }

    /// The vectors, for what stands in for the kernel.
    #[cfg(test)]
    pub(crate) fn all(&self) -> &[iovec] {
        &self.all[..self.count]
    }

    /// Number of pieces; at most [`VECTORS`].
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "at most 64")]
    pub(super) const fn count(&self) -> i32 {
        self.count as i32
    }
}

/// What of `pieces` is left when `done` bytes were moved.
pub(super) fn rest(pieces: &[Piece], done: u64) -> impl Iterator<Item = Piece> {
    let mut skip = usize::try_from(done).unwrap_or(usize::MAX);
    pieces.iter().filter_map(move |piece| {
        let skipped = skip.min(piece.length);
        skip -= skipped;
        let at = NonNull::new(piece.at.as_ptr().wrapping_add(skipped))?;
        (skipped < piece.length).then_some(Piece { at, length: piece.length - skipped })
    })
}

/// Pieces full of zeroes, `length` bytes of them. Only to be read from.
pub(super) fn zeroes(length: u64) -> impl Iterator<Item = Piece> {
    let mut left = length;
    std::iter::from_fn(move || {
        let whole = ZEROES.0.len();
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(whole);
        left -= length as u64;
        (length > 0).then_some(Piece { at: NonNull::from(&ZEROES.0).cast(), length })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the example of the essay hold, and is nothing left at the end?
    #[test]
    fn the_rest_begins_where_the_work_stopped() {
        let mut memory = [0; 16384];
        let start = NonNull::from(&mut memory).cast::<u8>();
        let piece = |from: usize, length| Piece {
            at: NonNull::new(start.as_ptr().wrapping_add(from)).unwrap(),
            length,
        };
        let pieces = [piece(0, 4096), piece(4096, 8192), piece(12288, 512)];
        let left: Vec<Piece> = rest(&pieces, 6000).collect();
        assert_eq!(left, [piece(6000, 6288), piece(12288, 512)]);
        assert_eq!(rest(&pieces, 12800).count(), 0);
    }

    /// Are zeroes given in whole runs of 64 KiB and a last one?
    #[test]
    fn zeroes_come_in_runs() {
        let lengths: Vec<usize> = zeroes(150_000).map(|piece| piece.length).collect();
        assert_eq!(lengths, [65536, 65536, 150_000 - 2 * 65536]);
    }
}
