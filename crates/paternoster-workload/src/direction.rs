// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direction: the three kinds of I/O that a fio job makes, in the order in which fio lists them.

/// What an I/O does to its blocks. The discriminants index arrays of three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Data come from the device.
    Read = 0,
    /// Data go to the device.
    Write = 1,
    /// The device may forget the data.
    Trim = 2,
}

impl Direction {
    /// All three, in fio's order.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

    /// The lower-case name that reports use: `read`, `write`, `trim`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Trim => "trim",
        }
    }
}
