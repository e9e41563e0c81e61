// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks: the file of a record.
//!
//! ```text
//! PATERND │ version │ block: header │ block: calls │ block: calls │ … │ block: end
//!    7         1
//! block   kind │ length │ digest │ payload
//!          1       4        8        length           little-endian
//! ```
//!
//! The digest of a block is that of everything before its payload's end but the digests: a changed
//! byte is noticed, and a block that is missing, doubled or moved. The end says whether the record
//! goes to the end of its queue or was cut before, and how many calls there are. Without it the
//! server was killed: what is there is as good as any.
//!
//! Invariants: I1 no bytes make reading panic or allocate more than a block; I2 a block holds whole
//! records of calls.

use std::io::{self, Read, Write};

use paternoster_core::{DeviceFacts, Limits};

use super::bytes::{Bad, Digest, Input, put_text, put_varint};

/// The first bytes of a file of decisions.
const MAGIC: &[u8; 7] = b"PATERND";
/// The version that is written and read.
pub const VERSION: u8 = 1;
/// Bytes of a block before its payload.
pub(super) const HEAD: usize = 13;
/// The largest payload of a block.
pub const PAYLOAD_MAX: usize = 1 << 20;
/// The longest name of an elevator or version.
const NAME_MAX: usize = 64;
/// The largest capacities of a queue that is recorded: a record must not take a machine's memory.
const LIMITS_MAX: Limits =
    Limits { requests: 1 << 20, bios: 1 << 21, clients: 1 << 17, groups: 1 << 16, notes: 1 << 16 };
/// The deepest device.
const DEPTH_MAX: u32 = 1 << 16;

/// The kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Header = 1,
    Calls = 2,
    End = 3,
}

/// Why a record ends before its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The disk was too slow.
    Slow = 1,
    /// The file had reached its bound.
    Full = 2,
    /// There was a call that has no place in a record: an operation that it does not know, a text
    /// of more than 16 KiB.
    Unspeakable = 3,
}

impl Cut {
    pub(super) const fn from_byte(byte: u8) -> Option<Cut> {
        match byte {
            1 => Some(Cut::Slow),
            2 => Some(Cut::Full),
            3 => Some(Cut::Unspeakable),
            _ => None,
        }
    }
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Cut::Slow => "the disk was too slow",
            Cut::Full => "the file had reached its bound",
            Cut::Unspeakable => "there was a call that cannot be recorded",
        })
    }
}

/// How a record ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It ended with its queue.
    Complete,
    /// Before, and why.
    Cut(Cut),
    /// It breaks off at this byte: the server was killed, or the file has lost its end.
    BrokenOff(u64),
}

/// What a record begins with: how to make the same queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The version of the program that wrote it.
    pub program: String,
    /// The elevator's name.
    pub elevator: String,
    /// The device.
    pub facts: DeviceFacts,
    /// The queue's capacities.
    pub limits: Limits,
}

/// A queue cannot be recorded or made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} of the queue is {found}; a record allows {most}")]
pub struct HeaderError {
    what: &'static str,
    found: u32,
    most: u32,
}

impl Header {
    /// Whether this queue is small enough for a record.
    ///
    /// # Errors
    /// What is too large, and how large it may be.
    pub fn check(&self) -> Result<(), HeaderError> {
        let (limits, most) = (&self.limits, &LIMITS_MAX);
        let bounds = [
            ("the number of requests", limits.requests, most.requests),
            ("the number of bios", limits.bios, most.bios),
            ("the number of clients", limits.clients, most.clients),
            ("the number of groups", limits.groups, most.groups),
            ("the number of notes", limits.notes, most.notes),
            ("the depth", self.facts.depth, DEPTH_MAX),
        ];
        match bounds.into_iter().find(|(_, found, most)| found > most) {
            None => Ok(()),
            Some((what, found, most)) => Err(HeaderError { what, found, most }),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_text(&mut out, &self.program);
        put_text(&mut out, &self.elevator);
        let (facts, limits) = (&self.facts, &self.limits);
        put_varint(&mut out, facts.capacity);
        for number in [facts.depth, facts.max_sectors, facts.max_segments.into()] {
            put_varint(&mut out, number.into());
        }
        let flags = [facts.rotational, facts.write_cache, facts.fua, facts.flush_queueable];
        out.extend(flags.map(u8::from));
        for number in [limits.requests, limits.bios, limits.clients, limits.groups, limits.notes] {
            put_varint(&mut out, number.into());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Header, Bad> {
        let mut input = Input::new(bytes);
        let header = Header {
            program: input.text(NAME_MAX)?.to_owned(),
            elevator: input.text(NAME_MAX)?.to_owned(),
            facts: DeviceFacts {
                capacity: input.varint()?,
                depth: input.number()?,
                max_sectors: input.number()?,
                max_segments: input.number()?,
                rotational: input.flag()?,
                write_cache: input.flag()?,
                fua: input.flag()?,
                flush_queueable: input.flag()?,
            },
            limits: Limits {
                requests: input.number()?,
                bios: input.number()?,
                clients: input.number()?,
                groups: input.number()?,
                notes: input.number()?,
            },
        };
        if input.is_at_end() {
            Ok(header)
        } else {
            Err(Bad("the header is longer than it should be"))
        }
    }
}

/// Writes the blocks of a file.
#[derive(Debug)]
pub struct BlockWriter<W> {
    out: W,
    digest: Digest,
}

impl<W: Write> BlockWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn new(mut out: W, header: &Header) -> io::Result<BlockWriter<W>> {
        out.write_all(MAGIC)?;
        out.write_all(&[VERSION])?;
        let mut writer = BlockWriter { out, digest: Digest::default() };
        writer.block(Kind::Header, &header.encode())?;
        Ok(writer)
    }

    /// Writes encoded calls.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn calls(&mut self, payload: &[u8]) -> io::Result<()> {
        self.block(Kind::Calls, payload)
    }

    /// Writes how it ends, after how many calls, and nothing more.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn end(&mut self, cut: Option<Cut>, calls: u64) -> io::Result<()> {
        let mut payload = vec![cut.map_or(0, |cut| cut as u8)];
        put_varint(&mut payload, calls);
        self.block(Kind::End, &payload)?;
        self.out.flush()
    }

    fn block(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
        let kind = [kind as u8];
        self.digest.take(&kind);
        self.digest.take(&length);
        self.digest.take(payload);
        let mut head = [0; HEAD];
        head[..1].copy_from_slice(&kind);
        head[1..5].copy_from_slice(&length);
        head[5..].copy_from_slice(&self.digest.0.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(payload)
    }
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not a record of decisions.
    #[error("it is no record of decisions, which begins with `PATERND`")]
    NoRecord,
    /// The file has another version.
    #[error("it is a record of version {0}; this program reads version {VERSION}")]
    Version(u8),
    /// Some bytes are not as they were written.
    #[error("it is damaged at byte {at}: {why}")]
    Damaged {
        /// Offset of the block or record in the file.
        at: u64,
        /// What is wrong, in words.
        why: &'static str,
    },
    /// The recorded queue would be too large.
    #[error("{0}")]
    Header(#[from] HeaderError),
}

/// A block that was read; its payload is with the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Calls,
    /// How it ends, after how many calls.
    End(Option<Cut>, u64),
    /// The file breaks off, without an end mark.
    BrokenOff,
}

/// Reads the blocks of a file.
#[derive(Debug)]
pub(super) struct BlockReader<R> {
    input: R,
    digest: Digest,
    at: u64,
    payload: Vec<u8>,
}

impl<R: Read> BlockReader<R> {
    pub(super) fn new(mut input: R) -> Result<(BlockReader<R>, Header), FileError> {
        let mut start = [0; 8];
        if fill(&mut input, &mut start)? < start.len() || start[..7] != MAGIC[..] {
            return Err(FileError::NoRecord);
        }
        if start[7] != VERSION {
            return Err(FileError::Version(start[7]));
        }
        let (digest, payload) = (Digest::default(), Vec::new());
        let mut reader = BlockReader { input, digest, at: 8, payload };
        let at = reader.at;
        match reader.block()? {
            Some(Kind::Header) => {}
            Some(_) => return Err(FileError::Damaged { at, why: "there is no header" }),
            None => return Err(FileError::Damaged { at, why: "the header is not all there" }),
        }
        let header =
            Header::decode(&reader.payload).map_err(|Bad(why)| FileError::Damaged { at, why })?;
        header.check()?;
        Ok((reader, header))
    }

    /// The payload of the last block.
    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Offset of the next block.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn next(&mut self) -> Result<Block, FileError> {
        let at = self.at;
        match self.block()? {
            None => Ok(Block::BrokenOff),
            Some(Kind::Calls) => Ok(Block::Calls),
            Some(Kind::Header) => Err(FileError::Damaged { at, why: "there is a second header" }),
            Some(Kind::End) => self.end(at),
        }
    }

    fn end(&mut self, at: u64) -> Result<Block, FileError> {
        let damaged = |why| FileError::Damaged { at, why };
        let mut input = Input::new(&self.payload);
        let why = input.byte().map_err(|Bad(why)| damaged(why))?;
        let calls = input.varint().map_err(|Bad(why)| damaged(why))?;
        let cut = Cut::from_byte(why);
        if (cut.is_none() && why != 0) || !input.is_at_end() {
            return Err(damaged("the end says nothing that is known"));
        }
        if fill(&mut self.input, &mut [0])? != 0 {
            return Err(FileError::Damaged { at: self.at, why: "something follows the end" });
        }
        Ok(Block::End(cut, calls))
    }

    /// A block, or none if it is not all there.
    fn block(&mut self) -> Result<Option<Kind>, FileError> {
        let at = self.at;
        let damaged = |why| FileError::Damaged { at, why };
        let mut head = [0; HEAD];
        if fill(&mut self.input, &mut head)? < HEAD {
            return Ok(None);
        }
        let kind = match head[0] {
            1 => Kind::Header,
            2 => Kind::Calls,
            3 => Kind::End,
            _ => return Err(damaged("no block begins there")),
        };
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > PAYLOAD_MAX {
            return Err(damaged("a block is longer than any that is written"));
        }
        self.payload.resize(length, 0);
        if fill(&mut self.input, &mut self.payload)? < length {
            return Ok(None);
        }
        self.digest.take(&head[..5]);
        self.digest.take(&self.payload);
        if self.digest.0.to_le_bytes() != head[5..] {
            return Err(damaged("a block's digest is not that of its bytes"));
        }
        self.at += (HEAD + length) as u64;
        Ok(Some(kind))
    }
}

/// Reads until `bytes` is full or nothing is left; returns how much there was.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match input.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
