// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of NBD requests: no panic; an accepted request is within the export, carries no more
//! data than allowed, and never changes a read-only export.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_serve::device::Extent;
use paternoster_serve::nbd::block_status::{DESCRIPTORS_MOST, Descriptors};
use paternoster_serve::nbd::transmission::{HEADER, Kind, PAYLOAD_MOST, check, parse};
use paternoster_serve::nbd::{ExportFacts, Negotiated, reply};

/// An export whose facts are the bits of a number.
fn negotiated(bits: u16, size: u32) -> Negotiated {
    let bit = |place: u16| bits & (1 << place) != 0;
    let facts = ExportFacts {
        name: "fuzz".to_owned(),
        size: u64::from(size),
        readonly: bit(0),
        block: 512 << (bits >> 14),
        preferred: 4096,
        most: 1 << 20,
        flush: bit(1),
        fua: bit(2),
        trim: bit(3),
        zeroes: bit(4),
        fast_zero: bit(5),
        cache: bit(6),
        ..Default::default()
    };
    Negotiated {
        export: facts.name.clone(),
        facts,
        structured: bit(7),
        allocation: bit(8),
        block_sizes_known: bit(9),
    }
}

fuzz_target!(|data: (u16, u32, [u8; HEADER], Vec<(u32, bool)>)| {
    let (bits, size, bytes, runs) = data;
    let with = negotiated(bits, size);
    // Most inputs should get past the magic.
    let mut bytes = bytes;
    if bits & (1 << 10) != 0 {
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
    }
    let Ok(request) = parse(&bytes) else { return };
    assert!(request.payload() <= PAYLOAD_MOST);
    let mut out = Vec::new();
    if let Err(refusal) = check(&request, &with) {
        assert!(refusal.errno != 0 && !refusal.text.is_empty());
        reply::error(&mut out, request.cookie, refusal.errno, &refusal.text, true);
        assert!(out.len() < 256);
        return;
    }
    assert!(!(with.facts.readonly && request.kind.modifies()));
    if matches!(request.kind, Kind::Disconnect | Kind::Flush) {
        return;
    }
    assert!(request.length > 0);
    assert!(request.offset + u64::from(request.length) <= with.facts.size);
    assert!(request.payload() <= with.facts.most);

    let one = request.flags.req_one();
    let mut told = Descriptors::new(request.offset, request.length, with.facts.block, one);
    for (length, hole) in runs {
        if !told.push(Extent { length: u64::from(length), hole }) {
            break;
        }
    }
    let told = told.finish();
    let all: u64 = told.iter().map(|(length, _)| u64::from(*length)).sum();
    assert!(!told.is_empty() && told.len() <= if one { 1 } else { DESCRIPTORS_MOST });
    assert!(told.iter().all(|(length, _)| *length > 0) && all <= u64::from(request.length));
    reply::block_status(&mut out, request.cookie, 1, &told, true);
});
