// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of requests: which are accepted, and with which errno the others are refused.

use proptest::prelude::*;

use super::*;
use crate::nbd::export::ExportFacts;

/// 1 MiB and half a block of 4 KiB; everything is offered.
fn negotiated() -> Negotiated {
    let facts = ExportFacts {
        name: "disk".to_owned(),
        size: (1 << 20) + 2048,
        block: 4096,
        preferred: 4096,
        most: 64 << 10,
        flush: true,
        fua: true,
        trim: true,
        zeroes: true,
        fast_zero: true,
        cache: true,
        ..ExportFacts::default()
    };
    Negotiated {
        export: facts.name.clone(),
        facts,
        structured: true,
        allocation: true,
        block_sizes_known: false,
    }
}

fn request(kind: Kind, flags: u16, offset: u64, length: u32) -> Request {
    Request { flags: CommandFlags(flags), kind, cookie: 7, offset, length }
}

/// The errno with which a request is refused, 0 if it is done.
fn verdict(request: Request, with: &Negotiated) -> u32 {
    check(&request, with).map_or_else(|refusal| refusal.errno, |()| 0)
}

/// Are the fields where the protocol has them?
#[test]
fn headers_are_read_byte_by_byte() {
    let bytes = [
        0x25, 0x60, 0x95, 0x13, // magic
        0x00, 0x01, // FUA
        0x00, 0x01, // WRITE
        0, 1, 2, 3, 4, 5, 6, 7, // cookie
        0, 0, 0, 1, 0, 0, 0, 0, // offset 4 GiB
        0, 0, 0x10, 0, // 4096 bytes
    ];
    let read = parse(&bytes).unwrap();
    let expected = Request {
        flags: CommandFlags(1),
        kind: Kind::Write,
        cookie: 0x0001_0203_0405_0607,
        offset: 1 << 32,
        length: 4096,
    };
    assert_eq!(read, expected);
    assert!(read.flags.fua() && !read.flags.df());
    assert_eq!(read.payload(), 4096);
}

/// When is the stream itself lost?
#[test]
fn garbage_ends_the_connection() {
    let mut bytes = [0; HEADER];
    let lost = parse(&bytes).unwrap_err();
    assert_eq!(lost.text, "0x00000000 where a request should begin: 0x25609513");
    bytes[..4].copy_from_slice(&MAGIC_REQUEST.to_be_bytes());
    bytes[7] = 1; // WRITE
    bytes[24..].copy_from_slice(&PAYLOAD_MOST.to_be_bytes());
    assert_eq!(parse(&bytes).unwrap().payload(), 64 << 20);
    bytes[27] = 1;
    assert!(parse(&bytes).unwrap_err().text.contains("67108865"));
    // Only a write has data after it: the same length in WRITE_ZEROES is merely large.
    bytes[7] = 6;
    assert_eq!(parse(&bytes).unwrap().payload(), 0);
}

/// Which errno does which range get?
#[test]
fn ranges_end_at_the_end() {
    let with = negotiated();
    let size = with.facts.size;
    let past = [
        (Kind::Read, errno::EINVAL),
        (Kind::Write, errno::ENOSPC),
        (Kind::WriteZeroes, errno::ENOSPC),
        (Kind::Trim, errno::EINVAL),
        (Kind::Cache, errno::EINVAL),
        (Kind::BlockStatus, errno::EINVAL),
    ];
    for (kind, expected) in past {
        assert_eq!(verdict(request(kind, 0, size - 512, 512), &with), 0, "{kind:?}");
        for offset in [size - 511, size, u64::MAX - 100, u64::MAX] {
            assert_eq!(verdict(request(kind, 0, offset, 512), &with), expected, "{kind:?}");
        }
        assert_eq!(verdict(request(kind, 0, 0, 0), &with), errno::EINVAL, "{kind:?}");
    }
}

/// Is only data bounded, and not the length of what carries none?
#[test]
fn payloads_are_bounded_and_ranges_are_not() {
    let with = negotiated();
    // The most is 64 KiB of 1026 KiB.
    for kind in [Kind::Read, Kind::Write] {
        assert_eq!(verdict(request(kind, 0, 0, 64 << 10), &with), 0);
        assert_eq!(verdict(request(kind, 0, 0, (64 << 10) + 1), &with), errno::EOVERFLOW);
    }
    for kind in [Kind::Trim, Kind::WriteZeroes, Kind::Cache, Kind::BlockStatus] {
        assert_eq!(verdict(request(kind, 0, 0, 1 << 20), &with), 0, "{kind:?}");
    }
}

/// Must only clients that asked for block sizes keep to them, and may a request reach the last part
/// of a block?
#[test]
fn blocks_bind_who_knows_them() {
    let mut with = negotiated();
    assert_eq!(verdict(request(Kind::Read, 0, 1, 3), &with), 0);
    with.block_sizes_known = true;
    for kind in [Kind::Read, Kind::Write, Kind::Trim, Kind::WriteZeroes, Kind::BlockStatus] {
        assert_eq!(verdict(request(kind, 0, 4096, 8192), &with), 0, "{kind:?}");
        assert_eq!(verdict(request(kind, 0, 512, 4096), &with), errno::EINVAL, "{kind:?}");
        assert_eq!(verdict(request(kind, 0, 0, 512), &with), errno::EINVAL, "{kind:?}");
        // The last 2 KiB: half a block, but all there is.
        assert_eq!(verdict(request(kind, 0, 1 << 20, 2048), &with), 0, "{kind:?}");
    }
}

/// Is a read-only export left as it is?
#[test]
fn readonly_is_eperm() {
    let mut with = negotiated();
    with.facts.readonly = true;
    for kind in [Kind::Write, Kind::Trim, Kind::WriteZeroes] {
        assert_eq!(verdict(request(kind, 0, 0, 4096), &with), errno::EPERM, "{kind:?}");
    }
    assert_eq!(verdict(request(Kind::Read, 0, 0, 4096), &with), 0);
    assert_eq!(verdict(request(Kind::Flush, 0, 0, 0), &with), 0);
}

/// Does each flag belong to its command, and FUA to all of them?
#[test]
fn flags_belong_to_commands() {
    let with = negotiated();
    let own = [
        (Kind::Read, command_flag::DF),
        (Kind::Write, 0),
        (Kind::Trim, 0),
        (Kind::Cache, 0),
        (Kind::WriteZeroes, command_flag::NO_HOLE | command_flag::FAST_ZERO),
        (Kind::BlockStatus, command_flag::REQ_ONE),
    ];
    for (kind, known) in own {
        for bit in 0..16 {
            let flag = 1 << bit;
            let allowed = flag == command_flag::FUA || known & flag != 0;
            let expected = if allowed { 0 } else { errno::EINVAL };
            assert_eq!(verdict(request(kind, flag, 0, 4096), &with), expected, "{kind:?} {flag}");
        }
    }
    assert_eq!(verdict(request(Kind::Flush, command_flag::FUA, 0, 0), &with), 0);
    assert_eq!(verdict(request(Kind::Flush, command_flag::DF, 0, 0), &with), errno::EINVAL);
}

/// Is nothing done that was not offered?
#[test]
fn what_was_not_negotiated_is_refused() {
    let facts = ExportFacts { size: 8192, most: 8192, ..ExportFacts::default() };
    let bare = Negotiated { facts, structured: false, allocation: false, ..negotiated() };
    assert_eq!(verdict(request(Kind::Read, 0, 0, 4096), &bare), 0);
    assert_eq!(verdict(request(Kind::Write, 0, 0, 4096), &bare), 0);
    for kind in [Kind::Trim, Kind::Cache, Kind::WriteZeroes, Kind::BlockStatus] {
        assert_eq!(verdict(request(kind, 0, 0, 4096), &bare), errno::EINVAL, "{kind:?}");
    }
    assert_eq!(verdict(request(Kind::Flush, 0, 0, 0), &bare), errno::EINVAL);
    for (kind, flag) in [(Kind::Read, command_flag::DF), (Kind::Write, command_flag::FUA)] {
        assert_eq!(verdict(request(kind, flag, 0, 4096), &bare), errno::EINVAL, "{kind:?}");
    }
    let mut slow = negotiated();
    slow.facts.fast_zero = false;
    let zero = |flag| request(Kind::WriteZeroes, flag, 0, 4096);
    assert_eq!(verdict(zero(command_flag::FAST_ZERO), &slow), errno::EINVAL);
    assert_eq!(verdict(zero(command_flag::NO_HOLE), &slow), 0);
}

/// Is zeroing that is to be fast refused at once where parts of blocks would have to be written?
#[test]
fn what_must_be_fast_is_of_whole_blocks() {
    let with = negotiated();
    let zero = |flag, offset| verdict(request(Kind::WriteZeroes, flag, offset, 8192), &with);
    assert_eq!(zero(command_flag::FAST_ZERO, 4096), 0);
    assert_eq!(zero(command_flag::FAST_ZERO, 512), errno::ENOTSUP);
    assert_eq!(zero(0, 512), 0);
    assert_eq!(zero(command_flag::FAST_ZERO, with.facts.size), errno::ENOSPC);
}

/// Are unknown commands refused, RESIZE (8) among them, and is disconnecting always allowed?
#[test]
fn unknown_commands_are_einval() {
    let with = negotiated();
    for number in [8, 9, 0xffff] {
        let refusal = check(&request(Kind::of(number), 0, 0, 512), &with).unwrap_err();
        assert_eq!(refusal.errno, errno::EINVAL);
        assert_eq!(refusal.text, format!("command {number} is unknown"));
    }
    assert_eq!(verdict(request(Kind::Flush, 0, 512, 0), &with), errno::EINVAL);
    assert_eq!(verdict(request(Kind::Flush, 0, 0, 512), &with), errno::EINVAL);
    assert_eq!(verdict(request(Kind::Disconnect, 0xffff, 9, 9), &with), 0);
}

proptest! {
    /// Whatever the bytes: no panic, and what is allowed lies within the export.
    #[test]
    fn what_is_allowed_is_within(
        mut bytes: [u8; HEADER],
        magic in prop::bool::weighted(0.9),
        kind in 0u8..10,
        offset in 0u64..(1 << 21),
        known: bool,
    ) {
        if magic {
            bytes[..4].copy_from_slice(&MAGIC_REQUEST.to_be_bytes());
            bytes[4] = 0;
            bytes[5] &= 3;
            bytes[6..8].copy_from_slice(&[0, kind]);
            bytes[16..24].copy_from_slice(&offset.to_be_bytes());
            bytes[24] = 0;
            bytes[25] &= 1;
        }
        let with = Negotiated { block_sizes_known: known, ..negotiated() };
        let Ok(request) = parse(&bytes) else { return Ok(()) };
        if check(&request, &with).is_ok() && request.kind != Kind::Disconnect {
            let end = request.offset + u64::from(request.length);
            prop_assert!(end <= with.facts.size);
            prop_assert!(request.payload() <= with.facts.most);
        }
    }
}
