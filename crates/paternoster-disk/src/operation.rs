// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operation: what is asked of a disk, and its answers.

use core::fmt;

use paternoster_core::Nanos;

/// The longest operation, in bytes.
pub(crate) const LEN_MAX: u64 = 1 << 30;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Data come from the disk.
    Read,
    /// Data go to the disk. On completion they may still be in a volatile cache.
    Write,
    /// Like [`Op::Write`], and durable on completion (forced unit access). On a device without FUA,
    /// a write followed by a flush.
    WriteFua,
    /// When it completes, every write that completed before its submit is durable. Offset and
    /// length are ignored.
    Flush,
    /// The device may forget these sectors. It takes the device's time; the content does not
    /// change.
    Discard,
}

impl Op {
    pub(crate) const fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::WriteFua)
    }
}

/// Names an operation, unique for its disk; later operations have greater ones.
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
    /// The operation's identity.
    pub id: Id,
    /// The operation's kind.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// When it was submitted.
    pub submitted: Nanos,
    /// When it ended: not after the `now` at which that was reported, and not before `submitted`.
    pub at: Nanos,
    /// An errno (positive, EIO is 5) if it failed. A failed write may be there, in whole or in
    /// part; a failed flush promises nothing.
    pub result: Result<(), i32>,
}

/// What [`crate::Disk::next`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// This has ended. Call again: others may have, too.
    Done(Done),
    /// Every end has been reported. Call again at this time, or after an earlier submit. Nothing
    /// may have ended then either: devices have internal events, too.
    Wait(Nanos),
    /// No operation is under way.
    Idle,
}

/// Why an operation was not taken. Nothing has happened then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Offset or length is not a multiple of 512, or the length is 0.
    Unaligned,
    /// It ends beyond the disk's last byte.
    BeyondEnd {
        /// Bytes of the disk.
        capacity: u64,
    },
    /// It has more than 1 GiB.
    TooLong,
    /// As many operations wait for the device as [`crate::Device::queue`] allows: submit again when
    /// one has ended.
    Full,
    /// A write without data on a disk that keeps them: [`crate::Disk::write`] takes data;
    /// [`crate::Device::without_data`] makes a disk that needs none.
    NoData,
    /// The time given is before an earlier call's.
    Past {
        /// The latest `now` that the disk was given.
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
