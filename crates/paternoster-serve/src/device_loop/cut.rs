// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cut: what the next fragment of an I/O is, and which bio of the queue it becomes.
//!
//! ```text
//! WRITE_ZEROES 100 … 5000, blocks of 512
//!   [100..512)  written as zeroes, after its block was read
//!   [512..4608) zeroed
//!   [4608..5000) as the first
//! ```
//!
//! A client may ask for any byte; files are asked for whole blocks. A read reads whole blocks and
//! returns the bytes requested. A fragment is as large as the queue takes at a time, but smaller
//! while memory is short, so that many find some; and for a connection that has waited often: small
//! pieces of memory come back all the time, and small requests take them at once, so a large one
//! might never be free.
//!
//! Invariant: fragments of an I/O are contiguous, and none is empty but a flush.

use paternoster_core::{Bio, ClientId, Flags, Op};

use super::connection::Connection;
use super::geometry::Place;
use super::io_fragment::{Fragment, Io};
use crate::device::Work;
use crate::device::arena::{LARGEST, PAGE};
use crate::nbd::transmission::Kind;

/// A connection short of memory asks for the same amount this often before it asks for half.
pub(super) const PATIENT: u32 = 8;
/// By then it asks for the least: 2^-20 of anything is less than a page.
pub(super) const HUNGRIEST: u32 = 20 * PATIENT;
/// While free memory fits this many fragments of the largest size, fragments are that large; below
/// that they are smaller.
const PIECES: u64 = 32;
/// A fragment of zeroes or of a discard needs no memory, but the queue sees one command in it.
const MOST: u64 = LARGEST as u64;
/// Bytes, at most, of a fragment that is done at once, in the loop's own time. A write's payload
/// has been read in turns by then.
const AT_ONCE: u64 = 256 << 10;
/// A question for holes costs as much as a read of this many bytes.
const QUESTION: u64 = 64 << 10;

/// The room that there is for a fragment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Sectors that the queue takes at a time.
    pub sectors: u32,
    /// Bytes of memory that are free and that the tenant may have.
    pub free: u64,
    /// The device does its commands at once.
    pub at_once: bool,
}

/// Bytes, at most, of a fragment of a volume: what the queue takes at a time, in whole blocks.
pub(super) fn most(place: &Place, sectors: u32) -> u64 {
    let block = u64::from(place.facts.block);
    (MOST.min(u64::from(sectors) * 512) / block * block).max(block)
}

/// Bytes, at most, of the next fragment.
fn appetite(io: &Io, connection: &Connection, place: &Place, room: &Room) -> u64 {
    let most = most(place, room.sectors);
    let in_one_piece = io.request.kind == Kind::Read && io.request.flags.df();
    if in_one_piece {
        return most;
    }
    let most = match io.request.kind {
        Kind::Write => most.min(connection.piece),
        _ if room.at_once => most.min(AT_ONCE),
        _ => most,
    };
    let block = u64::from(place.facts.block).max(PAGE as u64);
    let fair = most.min((room.free / PIECES).max(1).next_power_of_two());
    let sure = connection.sure / block * block;
    (fair >> (connection.hunger / PATIENT).min(20)).min(sure).max(block).min(most)
}

/// The next fragment of an I/O, without memory.
pub(super) fn next(
    (index, io): (u32, &Io),
    connection: &Connection,
    place: &Place,
    room: &Room,
) -> Fragment {
    piece((index, io), place, appetite(io, connection, place, room))
}

/// The next fragment of an I/O, of at most so many bytes.
fn piece((index, io): (u32, &Io), place: &Place, most: u64) -> Fragment {
    let request = &io.request;
    let block = u64::from(place.facts.block);
    let offset = request.offset + io.cut;
    let left = u64::from(request.length) - io.cut;
    let fua = request.flags.fua();
    let (skew, to_block) = (offset % block, block - offset % block);
    let ragged_zero = request.kind == Kind::WriteZeroes && (skew != 0 || left < block);
    let work = match request.kind {
        Kind::Read => Work::Read,
        // To the queue a question is a read of its place; it has no memory either.
        Kind::Cache | Kind::BlockStatus => Work::Prefetch,
        Kind::Trim => Work::Discard,
        Kind::WriteZeroes if !ragged_zero => {
            let flags = request.flags;
            Work::Zero { may_unmap: !flags.no_hole(), fua, fast: flags.fast_zero() }
        }
        Kind::Flush => Work::Flush,
        _ => Work::Write { fua },
    };
    let length = match work {
        Work::Flush => 0,
        Work::Prefetch if request.kind == Kind::BlockStatus => left,
        Work::Zero { .. } => (left / block * block).min(most),
        Work::Write { .. } if ragged_zero => left.min(to_block),
        _ => left.min(most - skew),
    };
    let start = offset - skew;
    let mut span = (skew + length).next_multiple_of(block).min(place.size - start);
    if request.kind == Kind::BlockStatus {
        span = span.min(QUESTION.min(most));
    }
    #[allow(clippy::cast_possible_truncation, reason = "at most LARGEST")]
    let (length, span) = (length as u32, span as u32);
    let span = if work == Work::Flush { 0 } else { span };
    Fragment::new(index, work, (offset, length), (start, span), place.on_line(0))
}

/// Reduces a discard to its whole blocks; returns whether there are any. It is a hint: partial
/// blocks at its ends are not discarded.
pub(super) fn shrink(fragment: &mut Fragment, place: &Place) -> bool {
    let block = u64::from(place.facts.block);
    let start = fragment.offset.next_multiple_of(block);
    let end = (fragment.offset + u64::from(fragment.length)) / block * block;
    fragment.start = start;
    fragment.on_line = place.on_line(start);
    #[allow(clippy::cast_possible_truncation, reason = "at most the fragment's length")]
    {
        fragment.span = end.saturating_sub(start) as u32;
    }
    fragment.span != 0
}

/// The bio of a fragment of a request of this kind.
#[inline]
pub(super) fn bio(
    (index, fragment): (u32, &Fragment),
    kind: Kind,
    client: ClientId,
    place: &Place,
    at_once: bool,
) -> Bio {
    let (op, flags) = match fragment.work {
        _ if fragment.reads_first => (Op::Read, Flags::NOMERGE),
        // Fragments that were cut keep their size.
        Work::Read if at_once && u64::from(fragment.span) >= AT_ONCE => (Op::Read, Flags::NOMERGE),
        Work::Read => (Op::Read, Flags::NONE),
        Work::Prefetch if kind == Kind::BlockStatus => (Op::Read, Flags::NOIDLE | Flags::NOMERGE),
        Work::Prefetch => (Op::Read, Flags::AHEAD | Flags::NOMERGE),
        Work::Write { fua: true } => (Op::Write, Flags::SYNC | Flags::FUA),
        Work::Write { fua: false } => (Op::Write, Flags::SYNC),
        Work::Zero { fua: true, .. } => (Op::Write, Flags::SYNC | Flags::FUA | Flags::NOMERGE),
        Work::Zero { fua: false, .. } => (Op::Write, Flags::SYNC | Flags::NOMERGE),
        Work::Discard => (Op::Discard, Flags::NOMERGE),
        Work::Flush => (Op::Flush, Flags::NONE),
    };
    let sector = if op == Op::Flush { 0 } else { place.sector(fragment.start) };
    Bio::new(client, op, sector, fragment.span / 512).flags(flags).cookie(u64::from(index))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use paternoster_core::Nanos;
    use proptest::prelude::*;

    use super::*;
    use crate::device::FileFacts;
    use crate::nbd::transmission::{CommandFlags, Request};

    const FUA: u16 = 1;
    const KINDS: [Kind; 4] = [Kind::Read, Kind::Write, Kind::WriteZeroes, Kind::Trim];

    fn place(block: u32, size: u64) -> Place {
        let facts = FileFacts::of_a_test(size, block);
        let (name, description, path) = ("vol".to_owned(), String::new(), PathBuf::new());
        Place { name, path, description, file: 0, start: 0, size, base: 0, readonly: false, facts }
    }

    fn io(kind: Kind, flags: u16, offset: u64, length: u32) -> Io {
        Io::new(
            0,
            Request { flags: CommandFlags(flags), kind, cookie: 0, offset, length },
            Nanos::ZERO,
        )
    }

    /// All fragments of an I/O, of at most `most` bytes each.
    fn all(mut io: Io, place: &Place, most: u64) -> Vec<Fragment> {
        let mut made = Vec::new();
        while io.cut < u64::from(io.request.length) {
            let fragment = piece((0, &io), place, most);
            io.cut += u64::from(fragment.length);
            made.push(fragment);
        }
        made
    }

    /// Does the example of the essay hold?
    #[test]
    fn ragged_zeroes_are_written_at_their_ends() {
        let place = place(512, 1 << 20);
        let made = all(io(Kind::WriteZeroes, FUA, 100, 4900), &place, 1 << 20);
        let of = |it: &Fragment| (it.work, it.offset, it.length, it.start, it.span, it.reads_first);
        let (zero, write) =
            (Work::Zero { may_unmap: true, fua: true, fast: false }, Work::Write { fua: true });
        assert_eq!(
            made.iter().map(of).collect::<Vec<_>>(),
            [
                (write, 100, 412, 0, 512, true),
                (zero, 512, 4096, 512, 4096, false),
                (write, 4608, 392, 4608, 512, true),
            ]
        );
    }

    /// Is a discard reduced to its whole blocks, and none within one left?
    #[test]
    fn a_discard_is_of_whole_blocks() {
        let place = place(512, 1 << 20);
        let mut made = all(io(Kind::Trim, 0, 100, 2000), &place, 1 << 20);
        assert!(shrink(&mut made[0], &place));
        // From 512 up to 2048, the last whole block before 2100.
        assert_eq!((made[0].start, made[0].span), (512, 1536));
        let mut within = all(io(Kind::Trim, 0, 100, 500), &place, 1 << 20);
        assert!(!shrink(&mut within[0], &place));
    }

    /// Does the queue take whole blocks, and one at least?
    #[test]
    fn the_most_is_whole_blocks() {
        // 100 sectors are 51,200 bytes: 12 blocks of 4,096.
        assert_eq!(most(&place(4096, 1 << 20), 100), 49_152);
        assert_eq!(most(&place(4096, 1 << 20), 1), 4096);
        assert_eq!(most(&place(512, 1 << 20), u32::MAX), LARGEST as u64);
    }

    proptest! {
        /// Are fragments contiguous, their spans whole blocks within the volume that have all of
        /// their bytes, and is none longer than it may be?
        #[test]
        fn fragments_are_contiguous(
            kind in prop::sample::select(&KINDS[..]),
            (offset, length) in (0u64..65_536, 1u32..65_536),
            (block, most) in (9u32..13, 13u32..17),
        ) {
            let place = place(1 << block, 1 << 17);
            let (mut end, block) = (offset, 1u64 << block);
            for it in all(io(kind, 0, offset, length), &place, 1 << most) {
                prop_assert_eq!(it.offset, end);
                prop_assert!(it.length > 0);
                end += u64::from(it.length);
                let span = it.start..it.start + u64::from(it.span);
                prop_assert!(span.start <= it.offset && end <= span.end && span.end <= place.size);
                prop_assert!(span.start % block == 0 && u64::from(it.span) % block == 0);
                prop_assert!(u64::from(it.span) <= 1 << most);
            }
            prop_assert_eq!(end, offset + u64::from(length));
        }
    }
}
