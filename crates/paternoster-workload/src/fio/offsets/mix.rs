// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mix: reads and writes in a proportion.
//!
//! A direction is not drawn for each I/O: after a change the new one is kept until it has made its
//! part of what the old one had made by then. (Measured: with this rule every job of the judge has
//! fio's directions, without it the second thread of a run soon differs.)

use paternoster_core::Nanos;

use crate::direction::Direction;
use crate::fio::random::Taus88;

/// The direction of one I/O after another.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mix {
    writes: bool,
    issued: [u64; 2],
    kept_until: u64,
}

impl Mix {
    /// The direction of the next I/O. Until [`Mix::issued`] reports that it was made, another may
    /// be drawn instead.
    pub(super) fn next(&mut self, generator: &mut Taus88, reads_per_cent: u64) -> Direction {
        let old = usize::from(self.writes);
        if self.issued[old] >= self.kept_until {
            let writes = generator.percent() > reads_per_cent;
            if writes != self.writes {
                let part = if writes { 100 - reads_per_cent.min(100) } else { reads_per_cent };
                self.kept_until = self.issued[old] * part / 100;
                self.writes = writes;
            }
        }
        if self.writes { Direction::Write } else { Direction::Read }
    }

    /// The direction that goes instead of the drawn one, if that would have to wait longer for its
    /// rate; at a tie the drawn one does.
    pub(super) fn paced(&mut self, drawn: Direction, waits: [Nanos; 2]) -> Direction {
        let other = match drawn {
            Direction::Write => Direction::Read,
            Direction::Read | Direction::Trim => Direction::Write,
        };
        let wait = |direction| waits[usize::from(direction == Direction::Write)];
        if wait(other) >= wait(drawn) {
            return drawn;
        }
        self.writes = other == Direction::Write;
        other
    }

    /// A pass begins: a direction is drawn at once. Counts go on, and so does the last direction: a
    /// pass of reads and then writes begins with more and more reads.
    pub(super) fn next_pass(&mut self) {
        self.kept_until = 0;
    }

    /// An I/O of this direction was made.
    pub(super) fn issued(&mut self, direction: Direction) {
        self.issued[usize::from(direction == Direction::Write)] += 1;
    }
}
