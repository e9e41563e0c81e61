// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of the protocol, under the names that its document gives them.
//!
//! All integers on the wire are big-endian and unsigned.

/// First eight bytes of the greeting: `NBDMAGIC`.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Opens the second half of the greeting, and every option: `IHAVEOPT`.
pub const MAGIC_OPTION: u64 = 0x4948_4156_454f_5054;
/// Opens every answer to an option.
pub const MAGIC_ANSWER: u64 = 0x0003_e889_0455_65a9;
/// Opens every request.
pub const MAGIC_REQUEST: u32 = 0x2560_9513;
/// Opens a simple reply.
pub const MAGIC_SIMPLE: u32 = 0x6744_6698;
/// Opens a chunk of a structured reply.
pub const MAGIC_CHUNK: u32 = 0x668e_33ef;

/// Longest string that the protocol allows: names, queries, texts.
pub const STRING_MOST: usize = 4096;
/// Zeroes after the answer to EXPORT_NAME, unless both sides agreed to leave them out.
pub const LEGACY_ZEROES: usize = 124;

/// The metadata context that is served.
pub const ALLOCATION_NAME: &str = "base:allocation";
/// The context's number in replies to BLOCK_STATUS.
pub const ALLOCATION_ID: u32 = 1;
/// Status flag of `base:allocation`: nothing is allocated.
pub const STATE_HOLE: u32 = 1 << 0;
/// Status flag of `base:allocation`: it reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;

/// Handshake flags, the server's (16 bits) and the client's (32 bits): the same two.
pub mod handshake_flag {
    /// Options other than EXPORT_NAME are understood.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The zeroes after the answer to EXPORT_NAME can be left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options.
pub mod option {
    /// Choose an export, without an answer if it fails.
    pub const EXPORT_NAME: u32 = 1;
    /// Leave.
    pub const ABORT: u32 = 2;
    /// Tell the exports.
    pub const LIST: u32 = 3;
    /// TLS from here on.
    pub const STARTTLS: u32 = 5;
    /// Tell of an export.
    pub const INFO: u32 = 6;
    /// Choose an export.
    pub const GO: u32 = 7;
    /// Replies in chunks from here on.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Tell the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts of an export.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Wider headers. Not spoken here.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Answers to options.
pub mod answer {
    /// Done, or the end of several answers.
    pub const ACK: u32 = 1;
    /// An export of a list.
    pub const SERVER: u32 = 2;
    /// Something of an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option is known and not allowed.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option is malformed, or makes no sense here.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// First TLS.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The server is about to end.
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    /// The option's data are too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// What INFO and GO can ask and tell.
pub mod info {
    /// Size and transmission flags; always sent.
    pub const EXPORT: u16 = 0;
    /// The name under which the server knows it.
    pub const NAME: u16 = 1;
    /// A text for people.
    pub const DESCRIPTION: u16 = 2;
    /// Least, preferred and largest block.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what can be done with an export.
pub mod export_flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The flag FUA is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The device is rotational.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// TRIM is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The flag DF is understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers the writes of all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The flag FAST_ZERO is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands.
pub mod command {
    /// Data to the client.
    pub const READ: u16 = 0;
    /// Data from the client, after the header.
    pub const WRITE: u16 = 1;
    /// The client leaves. No reply.
    pub const DISC: u16 = 2;
    /// Makes durable all writes that were replied to.
    pub const FLUSH: u16 = 3;
    /// The range may be forgotten.
    pub const TRIM: u16 = 4;
    /// The range will be read soon.
    pub const CACHE: u16 = 5;
    /// The range reads as zeroes afterwards.
    pub const WRITE_ZEROES: u16 = 6;
    /// Asks which ranges are data and which are holes.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod command_flag {
    /// Durable before the reply.
    pub const FUA: u16 = 1 << 0;
    /// WRITE_ZEROES: allocate, make no hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// READ: all data in one chunk.
    pub const DF: u16 = 1 << 2;
    /// BLOCK_STATUS: one descriptor is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// WRITE_ZEROES: fail at once with ENOTSUP if it is no faster than writing.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of structured replies.
pub mod chunk {
    /// Flag: the last of its reply.
    pub const DONE: u16 = 1 << 0;
    /// A chunk without content, which ends a reply.
    pub const NONE: u16 = 0;
    /// Data of a read.
    pub const OFFSET_DATA: u16 = 1;
    /// A range of a read that is zeroes.
    pub const OFFSET_HOLE: u16 = 2;
    /// Descriptors.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error of the whole request.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// An error at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// Errors that replies may have, and no others.
pub mod errno {
    /// Not permitted.
    pub const EPERM: u32 = 1;
    /// The device failed.
    pub const EIO: u32 = 5;
    /// Out of memory.
    pub const ENOMEM: u32 = 12;
    /// The request has no sense.
    pub const EINVAL: u32 = 22;
    /// No space, or past the end.
    pub const ENOSPC: u32 = 28;
    /// Too long.
    pub const EOVERFLOW: u32 = 75;
    /// Not supported (for FAST_ZERO: not fast).
    pub const ENOTSUP: u32 = 95;
    /// The server is about to end.
    pub const ESHUTDOWN: u32 = 108;
}
