// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of processes: they are done as requests of other connections are, and cost no more.

use std::sync::atomic::Ordering;

use paternoster_core::Nanos;

use crate::device_loop::calls::tests::{Told, call};
use crate::device_loop::connection::IOS;
use crate::device_loop::rig::{READ, Rig, SIZE};
use crate::nbd::transmission::Kind;
use crate::tally;

/// A process makes a call; where its answer comes.
fn ask(rig: &mut Rig, kind: Kind, offset: u64, length: u32, payload: &[u8]) -> Told {
    let (call, told) = call(kind, offset, length, payload);
    rig.device_loop.take_call(call);
    told
}

/// Is every kind of call done, answered once, and nothing left of it?
#[test]
fn calls_are_done() {
    let mut rig = Rig::new("noop", |_| {});
    let told = [
        ask(&mut rig, Kind::Write, 100, 5000, &[7; 5000]),
        ask(&mut rig, Kind::Read, 4000, 200, &[]),
        ask(&mut rig, Kind::Flush, 0, 0, &[]),
        ask(&mut rig, Kind::WriteZeroes, 0, 64 << 20, &[]),
    ];
    (0..1000).for_each(|_| rig.turn(Nanos::ZERO));
    let lengths = told.each_ref().map(|told| told.try_recv().map(|told| told.map(|it| it.len())));
    assert_eq!(lengths, [0, 200, 0, 0].map(|length| Ok(Ok(length))));
    assert!(told.iter().all(|told| told.try_recv().is_err()), "once");
    let (_, connection) = rig.device_loop.connections.iter().next().unwrap();
    let figures = &connection.figures;
    assert_eq!((figures.reads, figures.writes, figures.flushes), (1, 2, 1));
    assert!(connection.is_idle());
    assert_eq!(rig.device_loop.shared.used().0, 0);
}

/// Is the payload of a call copied once, into the device's memory, and a read that has one fragment
/// not at all? One that has several is put together: 4 MiB of memory make fragments of 128 KiB at
/// most.
#[test]
fn a_payload_is_copied_once() {
    let mut rig = Rig::new("noop", |_| {});
    let mut copied = |kind, length: u32| {
        let payload = vec![7; if kind == Kind::Write { length as usize } else { 0 }];
        tally::take();
        let told = ask(&mut rig, kind, 0, length, &payload);
        rig.settle();
        assert!(told.try_recv().unwrap().is_ok());
        tally::take().copied
    };
    for length in [4096, 32 << 10, 64 << 10, 256 << 10] {
        assert_eq!(copied(Kind::Write, length), u64::from(length));
    }
    assert_eq!(copied(Kind::Read, 128 << 10), 0);
    assert_eq!(copied(Kind::Read, 256 << 10), 256 << 10);
}

/// Is a call that cannot be done refused with its errno, with or without a payload, and is the next
/// one done?
#[test]
fn refused_calls_are_answered() {
    let mut rig = Rig::new("noop", |_| {});
    let told = [
        ask(&mut rig, Kind::Write, SIZE - 1, 2, b"ab"),
        ask(&mut rig, Kind::Read, SIZE, 1, &[]),
        ask(&mut rig, Kind::Write, SIZE - 2, 2, b"cd"),
    ];
    rig.settle();
    let answers = told.each_ref().map(|told| told.try_recv().unwrap());
    assert_eq!(answers, [Err(libc::ENOSPC), Err(libc::EINVAL), Ok(Vec::new())]);
    let (_, connection) = rig.device_loop.connections.iter().next().unwrap();
    assert_eq!((connection.figures.errors, connection.figures.writes), (2, 1));
}

/// Has a process at most as many requests under way as any connection, however many calls it has
/// made, and are all of them done in the end? Writes wait for memory: each takes a page, and a
/// connection may have a part of 1,024 pages.
#[test]
fn calls_wait_for_room() {
    for (kind, payload) in [(Kind::WriteZeroes, &[][..]), (Kind::Write, &[7; 4096][..])] {
        let mut rig = Rig::new("noop", |_| {});
        rig.holds.store(true, Ordering::SeqCst);
        let told: Vec<Told> = (0..2000).map(|_| ask(&mut rig, kind, 0, 4096, payload)).collect();
        rig.settle();
        let under_way = rig.device_loop.requests.ios().len();
        assert!((1..=IOS).contains(&under_way), "{under_way}");
        rig.holds.store(false, Ordering::SeqCst);
        (0..1000).for_each(|_| rig.turn(Nanos::ZERO));
        assert!(told.iter().all(|told| told.try_recv() == Ok(Ok(Vec::new()))));
        assert_eq!(rig.device_loop.shared.used().0, 0);
    }
}

/// Does a flood of calls, done or refused, leave their turns to other clients? A read takes the
/// turns that it takes beside a flood through a socket.
#[test]
fn a_flood_of_calls_leaves_turns_to_others() {
    for kind in [Kind::Flush, Kind::Cache] {
        let mut rig = Rig::new("noop", |_| {});
        let mut victim = rig.connect("victim");
        let _told: Vec<Told> = (0..5000).map(|_| ask(&mut rig, kind, 0, 4096, &[])).collect();
        let cookie = victim.send(READ, 0, 4096, &[]);
        let turns = (1..100).find(|_| {
            rig.turn(Nanos::ZERO);
            victim.answers() == [(cookie, 0)]
        });
        assert!(turns.is_some_and(|turns| turns <= 3), "{kind:?}: {turns:?}");
    }
}

/// When a connection is closed, do its calls fail, and does all of its memory come back?
#[test]
fn a_closed_connection_answers_its_calls() {
    let mut rig = Rig::new("noop", |_| {});
    rig.holds.store(true, Ordering::SeqCst);
    let told = [
        ask(&mut rig, Kind::Write, 0, 8192, &[7; 8192]),
        ask(&mut rig, Kind::Read, 8192, 4096, &[]),
    ];
    rig.settle();
    let (index, _) = rig.device_loop.connections.iter().next().unwrap();
    rig.device_loop.close(index, "a test");
    let answers = told.each_ref().map(|told| told.try_recv().unwrap());
    assert_eq!(answers, [Err(libc::EIO), Err(libc::EIO)]);
    rig.holds.store(false, Ordering::SeqCst);
    rig.settle();
    assert!(rig.device_loop.connections.is_empty());
    assert_eq!(rig.device_loop.shared.used().0, 0);
    // The next call has another connection.
    let told = ask(&mut rig, Kind::Flush, 0, 0, &[]);
    rig.settle();
    assert_eq!(told.try_recv(), Ok(Ok(Vec::new())));
}

/// Does a process that is sent away go after the calls that it has made?
#[test]
fn who_is_sent_away_is_answered_first() {
    let mut rig = Rig::new("noop", |_| {});
    let told = ask(&mut rig, Kind::Write, 0, 4096, &[7; 4096]);
    let (index, _) = rig.device_loop.connections.iter().next().unwrap();
    rig.device_loop.send_away(index);
    rig.settle();
    assert_eq!(told.try_recv(), Ok(Ok(Vec::new())));
    assert!(rig.device_loop.connections.is_empty());
}
