// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tally: the figures of a drive that collects or folds, at the end of a run.
//!
//! ```text
//! host 1.0 GB, moved 4.3 GB, folded 1.0 GB:  write amplification (1.0 + 4.3 + 1.0) / 1.0 = 6.3
//! ```
//!
//! Moved bytes are counted when a die begins with them, so what is still owed is not counted.

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
    /// For the report: the part of the capacity that holds data, if the drive collects, and what
    /// its SLC holds and has folded, if it has one. Nothing for other drives.
    pub(super) fn figures(&self, occupied: Option<f64>, slc: Option<(u64, u64)>) -> Vec<Figure> {
        let mut told = Vec::new();
        let mut tell = |name, value| told.push(Figure { name, value });
        if let Some(occupied) = occupied {
            tell("occupied_part", occupied);
        }
        let (held, folded) = slc.unwrap_or_default();
        if self.host > 0 && (occupied.is_some() || slc.is_some()) {
            let all = self.host + self.moved + folded;
            tell("write_amplification", real(all) / real(self.host));
            tell("host_bytes", real(self.host));
        }
        if self.host > 0 && occupied.is_some() {
            tell("moved_bytes", real(self.moved));
            tell("blocks_erased", real(self.erases));
        }
        if slc.is_some() {
            tell("slc_held_bytes", real(held));
            tell("slc_folded_bytes", real(folded));
        }
        told
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people; no decision depends on it")]
const fn real(number: u64) -> f64 {
    number as f64
}
