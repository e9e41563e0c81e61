// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operation: what a disk is asked, and what it answers.

use core::fmt;

use paternoster_core::Nanos;

/// The longest operation, in bytes.
pub(crate) const LEN_MAX: u64 = 1 << 30;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Data come from the disk.
    Read,
    /// Data go to the disk. When it is done they may still be in a volatile cache.
    Write,
    /// As [`Op::Write`], and durable when it is done (forced unit access). On a device that does
    /// not know it, a write and a flush behind it.
    WriteFua,
    /// Every write that was done before this was submitted is durable when this is done. Has no
    /// place: offset and length are ignored.
    Flush,
    /// The device may forget these sectors. It takes its time; what they hold stays as it is.
    Discard,
}

impl Op {
    pub(crate) const fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::WriteFua)
    }
}

/// Names an operation; no other of the same disk ever has the same, and later ones have greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub(crate) u64);

impl Id {
    /// The number: 1 for the first operation of a disk.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// An operation that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Which.
    pub id: Id,
    /// What it was.
    pub op: Op,
    /// Its first byte.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// When it was submitted.
    pub submitted: Nanos,
    /// When it ended: not after the `now` at which that was told, and not before `submitted`.
    pub at: Nanos,
    /// How: an errno (positive, EIO is 5) if it failed. A write that failed may be there, wholly or
    /// not; a flush that failed promises nothing.
    pub result: Result<(), i32>,
}

/// What [`crate::Disk::next`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// This has ended. Ask again: others may have, too.
    Done(Done),
    /// Nothing has ended that was not told. Ask again at this time, or after a submit before it.
    /// It may turn out that nothing has ended then either: devices have inner events, too.
    Wait(Nanos),
    /// Nothing is under way.
    Idle,
}

/// Why an operation was not taken. Nothing has happened then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Offset or length is no multiple of 512, or the length is 0.
    Unaligned,
    /// It ends behind the disk's last byte.
    BeyondEnd {
        /// Bytes of the disk.
        capacity: u64,
    },
    /// It has more than 1 GiB.
    TooLong,
    /// As many operations as [`crate::Device::queue`] says have not been handed to the device:
    /// submit again when one has ended.
    Full,
    /// A write without data on a disk that keeps them: [`crate::Disk::write`] brings them;
    /// [`crate::Device::without_data`] makes a disk that needs none.
    NoData,
    /// Time has been later than that already.
    Past {
        /// The latest `now` that the disk was told.
        latest: Nanos,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unaligned => {
                f.write_str("offset and length must be multiples of 512, and the length not 0")
            }
            Refusal::BeyondEnd { capacity } => write!(f, "the disk has {capacity} bytes"),
            Refusal::TooLong => write!(f, "an operation has at most {LEN_MAX} bytes"),
            Refusal::Full => f.write_str("as many operations wait as may; submit when one is done"),
            Refusal::NoData => f.write_str(
                "this disk keeps data: use `write`, or make it from a device `without_data`",
            ),
            Refusal::Past { latest } => write!(f, "it was {latest} already"),
        }
    }
}

impl core::error::Error for Refusal {}
