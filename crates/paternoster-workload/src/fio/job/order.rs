// SPDX-License-Identifier: MIT OR Apache-2.0
//! Order: directions and offsets, and how what is random in them is drawn.
//!
//! Fields have the names of fio's options.
//!
//! Source: FIO-45; fio's manual.

use super::super::distribution::Distribution;

/// The directions of a job's I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only reads.
    ReadOnly,
    /// Only writes.
    WriteOnly,
    /// Only trims.
    TrimOnly,
    /// Reads and writes, mixed by `rwmixread`.
    ReadWrite,
    /// Each block is trimmed, then written.
    TrimWrite,
}

impl Kind {
    /// Whether there are reads, writes and trims.
    pub(crate) const fn uses(self) -> [bool; 3] {
        match self {
            Kind::ReadOnly => [true, false, false],
            Kind::WriteOnly => [false, true, false],
            Kind::TrimOnly => [false, false, true],
            Kind::ReadWrite => [true, true, false],
            Kind::TrimWrite => [false, true, true],
        }
    }
}

/// The option `rw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Offsets are random.
    pub random: bool,
    /// The directions of the I/Os.
    pub kind: Kind,
    /// The suffix `:N`. Random: a new offset every N I/Os, at least 1. Sequential: bytes added
    /// after each I/O, 0 by default, negative to go backwards.
    pub skip: i64,
}

/// What `randread:N` does between two random offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequencer {
    /// Continue after the last I/O.
    Sequential,
    /// Repeat the last I/O.
    Identical,
}

/// The option `random_generator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generator {
    /// taus88, with a random map.
    Tausworthe,
    /// LFSR258, with a random map.
    Tausworthe64,
    /// A shift register that gives each block once, without a map.
    Lfsr,
}

/// Directions, and the order of offsets.
#[derive(Debug, Clone)]
pub struct Order {
    /// Directions and order.
    pub rw: Pattern,
    /// The pattern's name in reports, without suffix: `randread`, `rw`.
    pub rw_text: &'static str,
    /// The order between two random offsets.
    pub rw_sequencer: Sequencer,
    /// Hundredths of a random job that are random: reads, writes, trims.
    pub percentage_random: [u8; 3],
    /// Hundredths of a mixed job that are reads.
    pub rwmixread: u8,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            rw: Pattern { random: false, kind: Kind::ReadOnly, skip: 0 },
            rw_text: "read",
            rw_sequencer: Sequencer::Sequential,
            percentage_random: [100; 3],
            rwmixread: 50,
        }
    }
}

/// Options of everything that is random.
#[derive(Debug, Clone)]
pub struct Randomness {
    /// Seed of the generators, if given.
    pub randseed: Option<u64>,
    /// Same offsets on every run.
    pub randrepeat: bool,
    /// Same everything on every run.
    pub allrandrepeat: bool,
    /// Random offsets may repeat.
    pub norandommap: bool,
    /// The generator of random offsets.
    pub random_generator: Generator,
    /// The distribution of random offsets.
    pub random_distribution: Distribution,
}

impl Default for Randomness {
    fn default() -> Randomness {
        Randomness {
            randseed: None,
            randrepeat: true,
            allrandrepeat: false,
            norandommap: false,
            random_generator: Generator::Tausworthe,
            random_distribution: Distribution::Uniform,
        }
    }
}
