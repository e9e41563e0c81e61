// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls, however they are read, and replies, however they are cut.

use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::nbd::reply;
use crate::nbd::transmission::parse;

type Told = Receiver<Result<Vec<u8>, i32>>;

fn call(kind: Kind, offset: u64, length: u32, payload: &[u8]) -> (Call, Told) {
    let (to, told) = channel();
    let call = Call {
        place: 0,
        caller: None,
        kind,
        fua: false,
        no_hole: false,
        offset,
        length,
        payload: payload.to_vec(),
        answer: Answer::Test(to),
    };
    (call, told)
}

/// All that can be read, in pieces of this many bytes.
fn read_all(calls: &mut Calls, piece: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = vec![0; piece];
    while let Ok(read) = calls.read(&mut buffer) {
        if read == 0 {
            break;
        }
        all.extend_from_slice(&buffer[..read]);
    }
    all
}

fn said(calls: &mut Calls, bytes: &[u8], piece: usize) {
    for slice in bytes.chunks(piece) {
        assert_eq!(calls.write(&[IoSlice::new(slice)]).unwrap(), slice.len());
    }
}

/// Do calls become requests one after the other, in whatever pieces they are read?
#[test]
fn calls_are_requests() {
    for piece in [1, 3, 28, 29, 1000] {
        let mut calls = Calls::new();
        assert_eq!(calls.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let (write, _told) = call(Kind::Write, 512, 5, b"hello");
        calls.push(Call { fua: true, ..write });
        calls.push(call(Kind::Read, 1024, 7, b"").0);
        calls.push(call(Kind::Flush, 0, 0, b"").0);
        let (zeroes, _told) = call(Kind::WriteZeroes, 4096, 1 << 30, b"");
        calls.push(Call { no_hole: true, ..zeroes });
        let bytes = read_all(&mut calls, piece);
        // Four headers and five bytes.
        assert_eq!(bytes.len(), 4 * HEADER + 5);
        let at = |place: usize| parse(bytes[place..].first_chunk().unwrap()).unwrap();
        let write = at(0);
        assert_eq!((write.kind, write.offset, write.length), (Kind::Write, 512, 5));
        assert!(write.flags.fua());
        assert_eq!(&bytes[HEADER..HEADER + 5], b"hello");
        let read = at(HEADER + 5);
        assert_eq!((read.kind, read.offset, read.length), (Kind::Read, 1024, 7));
        assert_eq!(at(2 * HEADER + 5).kind, Kind::Flush);
        let zeroes = at(3 * HEADER + 5);
        assert_eq!((zeroes.kind, zeroes.length), (Kind::WriteZeroes, 1 << 30));
        assert!(zeroes.flags.no_hole());
    }
}

/// Is each call answered with what is its own, however replies are cut, and in any order?
#[test]
fn replies_find_their_calls() {
    for piece in [1, 2, 5, 19, 64, 4096] {
        let mut calls = Calls::new();
        let (first, first_told) = call(Kind::Read, 1000, 6, b"");
        let (second, second_told) = call(Kind::Read, 0, 4, b"");
        let (third, third_told) = call(Kind::Write, 0, 2, b"ab");
        let (fourth, fourth_told) = call(Kind::Read, 0, 8, b"");
        for call in [first, second, third, fourth] {
            calls.push(call);
        }
        read_all(&mut calls, 512);
        let mut out = Vec::new();
        // The first in two parts, the later one first.
        reply::data(&mut out, 0, 1004, 2, false);
        out.extend_from_slice(b"ef");
        reply::simple(&mut out, 2, 0);
        reply::data(&mut out, 1, 0, 4, true);
        out.extend_from_slice(b"wxyz");
        reply::data(&mut out, 3, 4, 4, false);
        out.extend_from_slice(b"lost");
        reply::error(&mut out, 3, 5, "it failed", true);
        reply::data(&mut out, 0, 1000, 4, false);
        out.extend_from_slice(b"abcd");
        reply::done(&mut out, 0);
        said(&mut calls, &out, piece);
        assert_eq!(first_told.try_recv().unwrap(), Ok(b"abcdef".to_vec()));
        assert_eq!(second_told.try_recv().unwrap(), Ok(b"wxyz".to_vec()));
        assert_eq!(third_told.try_recv().unwrap(), Ok(Vec::new()));
        assert_eq!(fourth_told.try_recv().unwrap(), Err(5));
        assert!(calls.is_idle());
    }
}

/// Are cookies used again, and never two at a time?
#[test]
fn cookies() {
    let mut calls = Calls::new();
    for round in 0..3 {
        let (one, one_told) = call(Kind::Flush, 0, 0, b"");
        let (two, _two_told) = call(Kind::Flush, 0, 0, b"");
        calls.push(one);
        calls.push(two);
        read_all(&mut calls, 100);
        assert!(!calls.is_idle());
        let mut out = Vec::new();
        reply::simple(&mut out, 0, 0);
        reply::simple(&mut out, 1, 28);
        said(&mut calls, &out, 7);
        assert!(one_told.try_recv().is_ok(), "round {round}");
        // Two at a time, so two places.
        assert_eq!(calls.asked.len(), 2);
    }
}

/// Do all calls of a wire that is closed fail, whether they were read or not?
#[test]
fn a_wire_that_goes_answers() {
    let mut calls = Calls::new();
    let (one, one_told) = call(Kind::Read, 0, 4, b"");
    let (two, two_told) = call(Kind::Write, 0, 4, b"abcd");
    calls.push(one);
    calls.push(two);
    calls.read(&mut [0; HEADER]).unwrap();
    calls.leave();
    drop(calls);
    assert_eq!(one_told.try_recv().unwrap(), Err(libc::EIO));
    assert_eq!(two_told.try_recv().unwrap(), Err(libc::EIO));
}

/// Is a reply that fits no call an error of the wire, and not a panic?
#[test]
fn replies_to_nobody() {
    let mut out = Vec::new();
    reply::simple(&mut out, 7, 0);
    assert!(Calls::new().write(&[IoSlice::new(&out)]).is_err());
    let mut calls = Calls::new();
    calls.push(call(Kind::Read, 100, 4, b"").0);
    read_all(&mut calls, 100);
    out.clear();
    // Four bytes from 102 on are not within 100..104.
    reply::data(&mut out, 0, 102, 4, true);
    assert!(calls.write(&[IoSlice::new(&out)]).is_err());
}
