// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmission: requests, and whether they may be done.
//!
//! ```text
//! 0          4       6      8        16       24       28
//! │ 25609513 │ flags │ kind │ cookie │ offset │ length │ data of a write …
//! ```
//!
//! [`parse`] takes a header apart, and fails only where the stream itself is lost: after that it is
//! unknown where the next request begins. [`check`] compares a request with what was negotiated;
//! one that fails is answered with its errno, *after* the data of a write have been read and
//! dropped.
//!
//! | what is wrong | errno |
//! |---|---|
//! | a write, trim or zeroing of a read-only export | EPERM |
//! | unknown or not offered command; flag unknown, not offered or of another command | EINVAL |
//! | no length; a flush with a range; not in blocks, if the client knows blocks | EINVAL |
//! | more data than one request may carry | EOVERFLOW |
//! | past the end: writes and zeroes; all others | ENOSPC; EINVAL |
//!
//! Source: `doc/proto.md`, "Request types", "Command flags", "Error values".

use thiserror::Error;

use super::export::Negotiated;
use super::wire::{MAGIC_REQUEST, command, command_flag, errno};

/// Bytes of a request before its data.
pub const HEADER: usize = 28;
/// Longest data that are read and dropped to answer a write with an error. A client that wants
/// more is cut off. It is above the 32 MiB that clients may send without asking.
pub const PAYLOAD_MOST: u32 = 64 << 20;

/// The requested command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Data to the client.
    Read,
    /// Data from the client.
    Write,
    /// The client leaves.
    Disconnect,
    /// Makes durable all writes that were replied to.
    Flush,
    /// The range may be forgotten.
    Trim,
    /// The range will be read soon.
    Cache,
    /// The range reads as zeroes afterwards.
    WriteZeroes,
    /// Asks which ranges are data and which are holes.
    BlockStatus,
    /// Unknown.
    Unknown(u16),
}

impl Kind {
    fn of(number: u16) -> Kind {
        match number {
            command::READ => Kind::Read,
            command::WRITE => Kind::Write,
            command::DISC => Kind::Disconnect,
            command::FLUSH => Kind::Flush,
            command::TRIM => Kind::Trim,
            command::CACHE => Kind::Cache,
            command::WRITE_ZEROES => Kind::WriteZeroes,
            command::BLOCK_STATUS => Kind::BlockStatus,
            other => Kind::Unknown(other),
        }
    }

    /// The command's name in messages and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Disconnect => "disconnect",
            Kind::Flush => "flush",
            Kind::Trim => "trim",
            Kind::Cache => "cache",
            Kind::WriteZeroes => "write-zeroes",
            Kind::BlockStatus => "block-status",
            Kind::Unknown(_) => "unknown",
        }
    }

    /// Whether the command changes what is stored.
    pub const fn modifies(self) -> bool {
        matches!(self, Kind::Write | Kind::Trim | Kind::WriteZeroes)
    }

    /// The flags it may have, besides FUA.
    const fn flags(self) -> u16 {
        match self {
            Kind::Read => command_flag::DF,
            Kind::WriteZeroes => command_flag::NO_HOLE | command_flag::FAST_ZERO,
            Kind::BlockStatus => command_flag::REQ_ONE,
            _ => 0,
        }
    }
}

/// A request's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandFlags(pub u16);

impl CommandFlags {
    /// Durable before the reply.
    pub const fn fua(self) -> bool {
        self.0 & command_flag::FUA != 0
    }

    /// Zeroes that are allocated.
    pub const fn no_hole(self) -> bool {
        self.0 & command_flag::NO_HOLE != 0
    }

    /// DF: the reply must have all data in one chunk.
    pub const fn df(self) -> bool {
        self.0 & command_flag::DF != 0
    }

    /// REQ_ONE: the reply may have one descriptor only.
    pub const fn req_one(self) -> bool {
        self.0 & command_flag::REQ_ONE != 0
    }

    /// Zeroes fast, or ENOTSUP at once.
    pub const fn fast_zero(self) -> bool {
        self.0 & command_flag::FAST_ZERO != 0
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The command's flags.
    pub flags: CommandFlags,
    /// The command.
    pub kind: Kind,
    /// The client's own name for it; every reply to it bears it.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

impl Request {
    /// Bytes of data that follow the header. They come even if the request is refused.
    pub const fn payload(&self) -> u32 {
        match self.kind {
            Kind::Write => self.length,
            _ => 0,
        }
    }
}

/// The stream is lost: the connection must end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct Garbage {
    /// What came, and what would have been right.
    pub text: String,
}

/// Why a request is not done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct Refusal {
    /// The protocol's number of the error.
    pub errno: u32,
    /// For the client's user, where replies can tell it.
    pub text: String,
}

/// Takes a header apart.
///
/// # Errors
/// There is no request, or a write of more than [`PAYLOAD_MOST`]: the connection must end.
pub fn parse(bytes: &[u8; HEADER]) -> Result<Request, Garbage> {
    let magic = u32::from_be_bytes(field(bytes, 0));
    if magic != MAGIC_REQUEST {
        let text = format!("{magic:#010x} where a request should begin: {MAGIC_REQUEST:#010x}");
        return Err(Garbage { text });
    }
    let request = Request {
        flags: CommandFlags(u16::from_be_bytes(field(bytes, 4))),
        kind: Kind::of(u16::from_be_bytes(field(bytes, 6))),
        cookie: u64::from_be_bytes(field(bytes, 8)),
        offset: u64::from_be_bytes(field(bytes, 16)),
        length: u32::from_be_bytes(field(bytes, 24)),
    };
    if request.payload() > PAYLOAD_MOST {
        let length = request.length;
        let text = format!("a write of {length} bytes; {PAYLOAD_MOST} is more than any client may");
        return Err(Garbage { text });
    }
    Ok(request)
}

fn field<const N: usize>(bytes: &[u8; HEADER], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("fields lie within the header")
}

/// Whether a request may be done: its range, its flags, its kind.
///
/// # Errors
/// The error for the client.
pub fn check(request: &Request, with: &Negotiated) -> Result<(), Refusal> {
    if request.kind == Kind::Disconnect {
        // It has no reply; whatever else is in it, the client wants to go.
        return Ok(());
    }
    offered(request.kind, with)?;
    flags(request, with)?;
    if request.kind == Kind::Flush {
        let bare = request.offset == 0 && request.length == 0;
        return bare.then_some(()).ok_or_else(|| {
            let Request { offset, length, .. } = request;
            invalid(format!("a flush has offset 0 and length 0, not {offset} and {length}"))
        });
    }
    range(request, with)
}

fn offered(kind: Kind, with: &Negotiated) -> Result<(), Refusal> {
    let facts = &with.facts;
    if kind.modifies() && facts.readonly {
        let text = format!("{} of a read-only export", kind.name());
        return Err(Refusal { errno: errno::EPERM, text });
    }
    let offered = match kind {
        Kind::Read | Kind::Write | Kind::Disconnect => true,
        Kind::Flush => facts.flush,
        Kind::Trim => facts.trim,
        Kind::Cache => facts.cache,
        Kind::WriteZeroes => facts.zeroes,
        // Its reply is a chunk, and there must be something that it can tell.
        Kind::BlockStatus => with.allocation && with.structured,
        Kind::Unknown(number) => return Err(invalid(format!("command {number} is unknown"))),
    };
    offered.then_some(()).ok_or_else(|| invalid(format!("{} was not negotiated", kind.name())))
}

fn flags(request: &Request, with: &Negotiated) -> Result<(), Refusal> {
    let name = request.kind.name();
    let set = request.flags;
    let strange = set.0 & !(request.kind.flags() | command_flag::FUA);
    if strange != 0 {
        return Err(invalid(format!("{name} does not know flags {strange:#x}")));
    }
    let facts = &with.facts;
    let not_offered = [
        (set.fua() && !facts.fua, "FUA"),
        (set.df() && !with.structured, "DF"),
        (set.fast_zero() && !facts.fast_zero, "FAST_ZERO"),
    ];
    match not_offered.iter().find(|(bad, _)| *bad) {
        Some((_, flag)) => Err(invalid(format!("flag {flag} was not negotiated"))),
        None => Ok(()),
    }
}

fn range(request: &Request, with: &Negotiated) -> Result<(), Refusal> {
    let Request { kind, offset, length, .. } = *request;
    let (name, facts) = (kind.name(), &with.facts);
    if length == 0 {
        return Err(invalid(format!("{name} of 0 bytes")));
    }
    if matches!(kind, Kind::Read | Kind::Write) && length > facts.most {
        let text = format!("{name} of {length} bytes; {} is the most at a time", facts.most);
        return Err(Refusal { errno: errno::EOVERFLOW, text });
    }
    let Some(end) = offset.checked_add(u64::from(length)).filter(|end| *end <= facts.size) else {
        let text = format!("{name} of {length} bytes at {offset}; the end is {}", facts.size);
        let writes = matches!(kind, Kind::Write | Kind::WriteZeroes);
        return Err(Refusal { errno: if writes { errno::ENOSPC } else { errno::EINVAL }, text });
    };
    // An export whose size is no multiple of its block ends with a part of one.
    let block = u64::from(facts.block.max(1));
    let whole = offset % block == 0 && (end % block == 0 || end == facts.size);
    if with.block_sizes_known && !whole {
        let text = format!("{name} of {length} bytes at {offset} is not in blocks of {block}");
        return Err(invalid(text));
    }
    // The parts of blocks at its ends would have to be read and written.
    if request.flags.fast_zero() && !whole {
        let text = format!("{name} of {length} bytes at {offset} is slow: blocks have {block}");
        return Err(Refusal { errno: errno::ENOTSUP, text });
    }
    Ok(())
}

fn invalid(text: String) -> Refusal {
    Refusal { errno: errno::EINVAL, text }
}

#[cfg(test)]
mod tests;
