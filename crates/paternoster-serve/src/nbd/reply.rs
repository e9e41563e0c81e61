// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies: their headers. The data of a read follow them, from wherever they are.
//!
//! ```text
//! simple   67446698 │ error u32 │ cookie u64 │ data …
//! chunk    668e33ef │ flags u16 │ type u16 │ cookie u64 │ length u32 │ payload:
//!            data                          │ offset u64       │ data …
//!            hole                          │ offset u64       │ length u32
//!            block status                  │ context u32      │ (length u32, flags u32) …
//!            error                         │ errno u32        │ u16, text
//!            error at                      │ errno u32        │ u16, text, offset u64
//! ```
//!
//! A client that negotiated structured replies must never see a simple reply to a read; other
//! requests may have either. Exactly the last chunk of a reply is marked done, and it must not be
//! data that could still fail on their way.
//!
//! Source: `doc/proto.md`, "Simple reply message", "Structured reply types", "Error values".

use super::text::clip;
use super::wire::{MAGIC_CHUNK, MAGIC_SIMPLE, STRING_MOST, chunk, errno as wire_errno};

/// Bytes of a simple reply.
pub const SIMPLE: usize = 16;
/// Bytes of a chunk before its payload.
pub const CHUNK: usize = 20;
/// Bytes of a chunk of data before the data.
pub const DATA: usize = CHUNK + 8;

/// A simple reply; `errno` 0 means that the request was done. The data of a read follow it.
pub fn simple(out: &mut Vec<u8>, cookie: u64, errno: u32) {
    out.extend_from_slice(&MAGIC_SIMPLE.to_be_bytes());
    out.extend_from_slice(&errno.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

/// The header of a chunk of data; `length` bytes of data follow it.
///
/// # Panics
/// With 4 GiB - 8 bytes of data or more, which no request asks for.
pub fn data(out: &mut Vec<u8>, cookie: u64, offset: u64, length: u32, done: bool) {
    let payload = length.checked_add(8).expect("the length of a request is checked before");
    header(out, chunk::OFFSET_DATA, cookie, payload, done);
    out.extend_from_slice(&offset.to_be_bytes());
}

/// A range of a read that is zeroes.
pub fn hole(out: &mut Vec<u8>, cookie: u64, offset: u64, length: u32, done: bool) {
    header(out, chunk::OFFSET_HOLE, cookie, 12, done);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
}

/// The end of a structured reply, with nothing in it.
pub fn done(out: &mut Vec<u8>, cookie: u64) {
    header(out, chunk::NONE, cookie, 0, true);
}

/// The request failed at an unknown offset; none of its data count.
pub fn error(out: &mut Vec<u8>, cookie: u64, errno: u32, text: &str, done: bool) {
    failed(out, cookie, errno, text, None, done);
}

/// It failed at `offset`, which is within the request.
pub fn error_at(out: &mut Vec<u8>, cookie: u64, errno: u32, text: &str, offset: u64, done: bool) {
    failed(out, cookie, errno, text, Some(offset), done);
}

fn failed(out: &mut Vec<u8>, cookie: u64, errno: u32, text: &str, offset: Option<u64>, done: bool) {
    debug_assert_ne!(errno, 0, "an error has a number");
    let text = clip(text, STRING_MOST).as_bytes();
    let length = u16::try_from(text.len()).expect("clipped");
    let payload = 4 + 2 + u32::from(length) + if offset.is_some() { 8 } else { 0 };
    let kind = if offset.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
    header(out, kind, cookie, payload, done);
    out.extend_from_slice(&errno.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text);
    if let Some(offset) = offset {
        out.extend_from_slice(&offset.to_be_bytes());
    }
}

/// Descriptors of one metadata context: length and flags of consecutive ranges, one or more.
///
/// # Panics
/// With 2^29 descriptors or more.
pub fn block_status(
    out: &mut Vec<u8>,
    cookie: u64,
    context_id: u32,
    descriptors: &[(u32, u32)],
    done: bool,
) {
    debug_assert!(!descriptors.is_empty(), "at least one descriptor");
    let payload = u32::try_from(block_status_bytes(descriptors.len()) - CHUNK)
        .expect("descriptors are bounded");
    header(out, chunk::BLOCK_STATUS, cookie, payload, done);
    out.extend_from_slice(&context_id.to_be_bytes());
    for (length, flags) in descriptors {
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
    }
}

/// Bytes of a [`block_status`] of this many descriptors.
pub const fn block_status_bytes(descriptors: usize) -> usize {
    CHUNK + 4 + 8 * descriptors
}

fn header(out: &mut Vec<u8>, kind: u16, cookie: u64, payload: u32, done: bool) {
    let flags = if done { chunk::DONE } else { 0 };
    out.extend_from_slice(&MAGIC_CHUNK.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&payload.to_be_bytes());
}

/// The protocol's number for one of Linux; 0 stays 0, what has no number of its own is EIO.
pub fn errno(linux: i32) -> u32 {
    match linux {
        0 => 0,
        libc::EPERM | libc::EACCES | libc::EROFS => wire_errno::EPERM,
        libc::ENOMEM => wire_errno::ENOMEM,
        libc::EINVAL => wire_errno::EINVAL,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => wire_errno::ENOSPC,
        libc::EOVERFLOW => wire_errno::EOVERFLOW,
        libc::EOPNOTSUPP => wire_errno::ENOTSUP,
        libc::ESHUTDOWN => wire_errno::ESHUTDOWN,
        _ => wire_errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: u64 = 0x0102_0304_0506_0708;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        // Whatever is in the vector stays: replies are appended.
        let mut out = vec![0xaa];
        write(&mut out);
        assert_eq!(out.remove(0), 0xaa);
        out
    }

    /// Is a simple reply magic, error, cookie?
    #[test]
    fn simple_replies() {
        let out = written(|out| simple(out, COOKIE, 22));
        let expected = [
            0x67, 0x44, 0x66, 0x98, // magic
            0, 0, 0, 22, // EINVAL
            1, 2, 3, 4, 5, 6, 7, 8, // cookie
        ];
        assert_eq!(out, expected);
        assert_eq!(out.len(), SIMPLE);
    }

    /// Does the length of a chunk of data count the offset?
    #[test]
    fn chunks_of_data() {
        let out = written(|out| data(out, COOKIE, 1 << 32, 4096, false));
        let expected = [
            0x66, 0x8e, 0x33, 0xef, // magic
            0, 0, // not done
            0, 1, // OFFSET_DATA
            1, 2, 3, 4, 5, 6, 7, 8, // cookie
            0, 0, 0x10, 8, // 8 bytes of offset and 4096 of data
            0, 0, 0, 1, 0, 0, 0, 0, // offset
        ];
        assert_eq!(out, expected);
        assert_eq!(out.len(), DATA);
    }

    /// Are holes twelve bytes, and the empty end none?
    #[test]
    fn holes_and_ends() {
        let out = written(|out| hole(out, COOKIE, 512, 1024, true));
        let expected = [
            0x66, 0x8e, 0x33, 0xef, // magic
            0, 1, // done
            0, 2, // OFFSET_HOLE
            1, 2, 3, 4, 5, 6, 7, 8, // cookie
            0, 0, 0, 12, // length
            0, 0, 0, 0, 0, 0, 2, 0, // offset
            0, 0, 4, 0, // 1024 zeroes
        ];
        assert_eq!(out, expected);
        let out = written(|out| done(out, COOKIE));
        assert_eq!(out[4..8], [0, 1, 0, 0]); // done, NONE
        assert_eq!(out[16..], [0, 0, 0, 0]); // nothing
    }

    /// Do errors have their text, and the offset after it?
    #[test]
    fn errors_with_text() {
        let out = written(|out| error_at(out, COOKIE, 5, "bad", 513, false));
        let expected = [
            0x66, 0x8e, 0x33, 0xef, // magic
            0, 0, // not done
            0x80, 2, // ERROR_OFFSET
            1, 2, 3, 4, 5, 6, 7, 8, // cookie
            0, 0, 0, 17, // 4 + 2 + 3 + 8
            0, 0, 0, 5, // EIO
            0, 3, b'b', b'a', b'd', // text
            0, 0, 0, 0, 0, 0, 2, 1, // offset
        ];
        assert_eq!(out, expected);
        let out = written(|out| error(out, COOKIE, 22, "", true));
        assert_eq!(out[4..8], [0, 1, 0x80, 1]); // done, ERROR
        assert_eq!(out[16..], [0, 0, 0, 6, 0, 0, 0, 22, 0, 0]);
        // However long the text: 4096 bytes of it.
        let out = written(|out| error(out, COOKIE, 22, &"x".repeat(1 << 20), true));
        assert_eq!(out.len(), CHUNK + 6 + 4096);
    }

    /// Do descriptors follow their context?
    #[test]
    fn descriptors() {
        let out = written(|out| block_status(out, COOKIE, 1, &[(4096, 3), (512, 0)], true));
        let expected = [
            0, 1, // done
            0, 5, // BLOCK_STATUS
            1, 2, 3, 4, 5, 6, 7, 8, // cookie
            0, 0, 0, 20, // 4 + 2 * 8
            0, 0, 0, 1, // the context
            0, 0, 0x10, 0, 0, 0, 0, 3, // 4096 bytes of hole that reads as zeroes
            0, 0, 2, 0, 0, 0, 0, 0, // 512 bytes of data
        ];
        assert_eq!(out[4..], expected);
    }

    /// Does every errno become one of the eight that the protocol allows?
    #[test]
    fn errnos_are_those_of_the_protocol() {
        let allowed = [0, 1, 5, 12, 22, 28, 75, 95, 108];
        for linux in -1..200 {
            assert!(allowed.contains(&errno(linux)), "{linux}");
        }
        for same in [0, 1, 5, 12, 22, 28, 75, 95, 108_i32] {
            assert_eq!(i32::try_from(errno(same)), Ok(same));
        }
        assert_eq!(errno(libc::EDQUOT), 28);
        assert_eq!(errno(libc::EROFS), 1);
        assert_eq!(errno(libc::EREMOTEIO), 5);
    }
}
