// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls as requests, and what they are answered, in whatever order and parts they are done.

use std::sync::mpsc::{Receiver, channel};

use super::*;

pub(in crate::device_loop) type Told = Receiver<Result<Vec<u8>, i32>>;

/// A call of an unknown process on the first volume, and where its answer comes.
pub(in crate::device_loop) fn call(
    kind: Kind,
    offset: u64,
    length: u32,
    payload: &[u8],
) -> (Call, Told) {
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

/// Calls, and an arena whose blocks count as theirs.
struct Rig {
    calls: Calls,
    arena: Arena,
    memory: u64,
}

impl Rig {
    fn new() -> Rig {
        Rig { calls: Calls::new(), arena: Arena::new(1 << 20).unwrap(), memory: 0 }
    }

    /// Begins a call; its number.
    fn begin(&mut self, call: Call) -> u64 {
        self.calls.push(call);
        self.calls.begin().unwrap().cookie
    }

    /// Data of a fragment that begins `first` bytes within its block; whether they are kept.
    fn data(&mut self, number: u64, offset: u64, first: usize, bytes: &[u8]) -> bool {
        let mut block = self.arena.take(4096).unwrap();
        self.memory += 4096;
        block.bytes_mut()[first..first + bytes.len()].copy_from_slice(bytes);
        let data = Data { block, first, length: bytes.len() };
        let back = self.calls.data(number, offset, data);
        let is_kept = back.is_none();
        if let Some(block) = back {
            self.memory -= 4096;
            self.arena.give_back(block);
        }
        is_kept
    }

    fn answer(&mut self) {
        self.calls.answer(&mut self.arena, &mut self.memory);
    }

    /// Whether no call and no memory is left.
    fn is_idle(&self) -> bool {
        self.calls.begun.is_empty() && self.calls.ended.is_empty() && self.memory == 0
    }
}

/// Do calls become requests one after the other, as they were made?
#[test]
fn calls_are_requests() {
    let mut calls = Calls::new();
    assert!(calls.is_empty() && calls.begin().is_none());
    let (write, _told) = call(Kind::Write, 512, 5, b"hello");
    calls.push(Call { fua: true, ..write });
    calls.push(call(Kind::Flush, 0, 0, b"").0);
    let (zeroes, _told) = call(Kind::WriteZeroes, 4096, 1 << 30, b"");
    calls.push(Call { no_hole: true, ..zeroes });
    let write = calls.begin().unwrap();
    assert_eq!((write.kind, write.offset, write.length), (Kind::Write, 512, 5));
    assert!(write.flags.fua() && !write.flags.no_hole());
    let flush = calls.begin().unwrap();
    assert_eq!((flush.kind, flush.offset, flush.length), (Kind::Flush, 0, 0));
    let zeroes = calls.begin().unwrap();
    assert_eq!((zeroes.kind, zeroes.length), (Kind::WriteZeroes, 1 << 30));
    assert!(zeroes.flags.no_hole() && !zeroes.flags.fua());
    assert_eq!([write, flush, zeroes].map(|request| request.cookie), [0, 1, 2]);
}

/// Is a payload read in pieces, and gone when all of it was read?
#[test]
fn a_payload_is_read_in_pieces() {
    let mut rig = Rig::new();
    rig.begin(call(Kind::Write, 0, 5, b"hello").0);
    assert_eq!(rig.calls.take_payload(), (b"hello".to_vec(), 0));
    rig.calls.keep_payload(b"hello".to_vec(), 2);
    assert_eq!(rig.calls.take_payload(), (b"hello".to_vec(), 2));
    rig.calls.keep_payload(b"hello".to_vec(), 5);
    assert!(rig.calls.take_payload().0.is_empty());
}

/// Is each call answered with what is its own, in whatever order and parts the data come? A read
/// of one part is answered from its memory, others are put together.
#[test]
fn answers_find_their_calls() {
    let mut rig = Rig::new();
    let (first, first_told) = call(Kind::Read, 1000, 6, b"");
    let (second, second_told) = call(Kind::Read, 100, 4, b"");
    let (third, third_told) = call(Kind::Write, 0, 2, b"ab");
    let (fourth, fourth_told) = call(Kind::Read, 0, 8, b"");
    let numbers = [first, second, third, fourth].map(|call| rig.begin(call));
    // The first in two parts, the later one first.
    assert!(!rig.data(numbers[0], 1004, 0, b"ef"));
    rig.calls.end(numbers[2], 0);
    assert!(rig.data(numbers[1], 100, 100, b"wxyz"));
    rig.calls.end(numbers[1], 0);
    assert!(!rig.data(numbers[3], 4, 0, b"lost"));
    rig.calls.end(numbers[3], 5);
    assert!(!rig.data(numbers[0], 1000, 1000, b"abcd"));
    rig.calls.end(numbers[0], 0);
    assert_eq!((rig.calls.to_answer(), rig.memory), (4, 4096));
    assert!(third_told.try_recv().is_err(), "answers are given together");
    rig.answer();
    assert_eq!(first_told.try_recv().unwrap(), Ok(b"abcdef".to_vec()));
    assert_eq!(second_told.try_recv().unwrap(), Ok(b"wxyz".to_vec()));
    assert_eq!(third_told.try_recv().unwrap(), Ok(Vec::new()));
    assert_eq!(fourth_told.try_recv().unwrap(), Err(libc::EIO));
    assert!(rig.is_idle());
}

/// Are numbers used again, and never two at a time?
#[test]
fn numbers() {
    let mut rig = Rig::new();
    for round in 0..3 {
        let (one, one_told) = call(Kind::Flush, 0, 0, b"");
        let (two, _two_told) = call(Kind::Flush, 0, 0, b"");
        let mut numbers = [rig.begin(one), rig.begin(two)];
        rig.calls.end(numbers[0], 0);
        rig.calls.end(numbers[1], 28);
        rig.answer();
        assert!(one_told.try_recv().is_ok(), "round {round}");
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1], "two at a time, so two places");
    }
}

/// When a connection goes, is what has ended answered as it ended, do all other calls fail, begun
/// or not, and does the memory come back?
#[test]
fn a_connection_that_goes_answers() {
    let mut rig = Rig::new();
    let kinds = [Kind::Read, Kind::Read, Kind::Flush, Kind::Flush];
    let (made, told): (Vec<Call>, Vec<Told>) =
        kinds.into_iter().map(|kind| call(kind, 0, 4, b"")).unzip();
    let mut made = made.into_iter();
    let numbers: Vec<u64> = made.by_ref().take(3).map(|call| rig.begin(call)).collect();
    rig.calls.push(made.next().unwrap());
    assert!(rig.data(numbers[0], 0, 0, b"abcd") && rig.data(numbers[1], 0, 0, b"efgh"));
    rig.calls.end(numbers[0], 0);
    rig.calls.leave();
    assert!(!rig.calls.is_over(), "one waits");
    let Rig { calls, mut arena, mut memory } = rig;
    calls.clear(&mut arena, &mut memory);
    assert_eq!((memory, arena.used()), (0, 0));
    let answers: Vec<_> = told.iter().map(|told| told.try_recv().unwrap()).collect();
    let lost = Err(libc::EIO);
    assert_eq!(answers, [Ok(b"abcd".to_vec()), lost.clone(), lost.clone(), lost]);
}

/// Do calls fail that are dropped with what they are of?
#[test]
fn no_call_is_forgotten() {
    let mut calls = Calls::new();
    let (one, one_told) = call(Kind::Flush, 0, 0, b"");
    let (two, two_told) = call(Kind::Write, 0, 4, b"abcd");
    calls.push(one);
    calls.push(two);
    calls.begin().unwrap();
    drop(calls);
    assert_eq!(one_told.try_recv().unwrap(), Err(libc::EIO));
    assert_eq!(two_told.try_recv().unwrap(), Err(libc::EIO));
}
