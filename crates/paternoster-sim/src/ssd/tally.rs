// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tally: what a drive that collects tells of itself when a run has ended.
//!
//! ```text
//! host 1.0 GB, moved 4.3 GB:  write amplification (1.0 + 4.3) / 1.0 = 5.3
//! ```
//!
//! Moved bytes are counted when a die begins with them, so that what is still owed is in none of
//! them.

use crate::model::Figure;

/// Sums of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Bytes that the host wrote.
    pub(super) host: u64,
    /// Bytes of units that were moved.
    pub(super) moved: u64,
    /// Blocks of dies that were erased.
    pub(super) erases: u64,
}

impl Tally {
    /// For the report; `occupied` is a part of the capacity.
    pub(super) fn figures(&self, occupied: f64) -> Vec<Figure> {
        let mut told = vec![Figure { name: "occupied_part", value: occupied }];
        if self.host > 0 {
            let amplification = real(self.host + self.moved) / real(self.host);
            told.push(Figure { name: "write_amplification", value: amplification });
            told.push(Figure { name: "host_bytes", value: real(self.host) });
            told.push(Figure { name: "moved_bytes", value: real(self.moved) });
            told.push(Figure { name: "blocks_erased", value: real(self.erases) });
        }
        told
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people; no decision depends on it")]
const fn real(number: u64) -> f64 {
    number as f64
}
