// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block status: a request that costs time, and waits for its turn. That a thread of its own asks
//! the system is tested in `device::surveyor`, whose turn it is in `surveys`.

use std::io::Write;
use std::sync::atomic::Ordering;

use paternoster_core::Nanos;

use crate::config::Tenant;
use crate::device_loop::connection::SAID;
use crate::device_loop::outbox::Outbox;
use crate::device_loop::rig::{BLOCK, READ, Rig, STATUS};
use crate::nbd::reply::block_status_bytes;
use crate::nbd::wire::command_flag::REQ_ONE;

/// Does a question wait for its turn, as a read does? While the device has the 32 commands that it
/// takes, nothing is asked; then one question tells 256 runs at most, however long its range is.
#[test]
fn a_question_has_a_turn() {
    let mut rig = Rig::new("noop", |_| ());
    let (mut reader, mut asker) = (rig.connect("reader"), rig.connect("asker"));
    rig.holds.store(true, Ordering::SeqCst);
    // Far from each other, so that none is merged.
    for at in 0..32 {
        reader.send(READ, at << 24, BLOCK, &[]);
    }
    rig.settle();
    assert_eq!(rig.device_loop.commands.len(), 32);
    let cookie = asker.send(STATUS, 0, 1 << 30, &[]);
    rig.settle();
    assert_eq!(rig.runs_told.load(Ordering::SeqCst), 0, "it is not its turn");
    assert_eq!(asker.answers(), []);
    rig.holds.store(false, Ordering::SeqCst);
    rig.settle();
    assert_eq!(asker.answers(), [(cookie, 0)]);
    assert_eq!(rig.runs_told.load(Ordering::SeqCst), 256);
    assert_eq!(reader.answers().len(), 32);
}

/// Do questions of one leave the device, and the next question, to others? 100 wait that tell 256
/// runs each; in a turn of the loop one is asked at most. Meanwhile another's 32 reads are with the
/// device together, and its question is the next but one, or the next.
#[test]
fn questions_leave_the_device_to_others() {
    let mut rig = Rig::new("noop", |config| {
        let tenant = |name, weight| Tenant { weight, ..Tenant::new(name) };
        config.tenants = vec![tenant("asker", 100), tenant("other", 100)];
    });
    let (mut asker, mut other) = (rig.connect("asker"), rig.connect("other"));
    for _ in 0..100 {
        asker.send(STATUS, 0, 1 << 30, &[]);
    }
    for turn in 1..=20 {
        rig.turn(Nanos::from_micros(10));
        assert!(rig.runs_told.load(Ordering::SeqCst) <= turn * 256);
    }
    rig.holds.store(true, Ordering::SeqCst);
    for at in 0..32 {
        other.send(READ, at << 24, BLOCK, &[]);
    }
    let asked = other.send(STATUS, 0, 1 << 30, &[]);
    // 33 requests, at 64 steps a turn.
    rig.turn(Nanos::from_micros(10));
    rig.turn(Nanos::from_micros(10));
    assert_eq!(rig.device_loop.commands.len(), 32);
    rig.holds.store(false, Ordering::SeqCst);
    let mut told = Vec::new();
    for _ in 0..5 {
        rig.turn(Nanos::from_micros(10));
        told.extend(other.answers());
    }
    assert!(told.len() == 33 && told.contains(&(asked, 0)), "{told:?}");
    assert!(asker.answers().len() < 30);
}

/// Do the answers that a connection's questions may have stay within 64 KiB and one answer, whether
/// its client takes them or not? Of 400 questions that may be told 256 runs each, 31 are under way
/// at a time, the others in the socket; all have an answer once the client reads. Questions for one
/// run are so many at a time as other requests.
#[test]
fn answers_to_questions_are_bounded() {
    let mut rig = Rig::new("noop", |_| ());
    let mut asker = rig.connect("asker");
    let says = |rig: &Rig| {
        let (_, it) = rig.device_loop.connections.iter().next().expect("a connection");
        (it.says(), it.ios)
    };
    let answer = Outbox::takes(block_status_bytes(256));
    asker.send(STATUS, 0, 1 << 30, &[]);
    let others = asker.last.repeat(399);
    asker.stream.write_all(&others).expect("room in the socket");
    for _ in 0..400 {
        rig.turn(Nanos::from_micros(10));
        let (bytes, ios) = says(&rig);
        assert!(bytes < SAID + answer && ios <= 31, "{bytes} bytes, {ios} questions");
    }
    assert!(says(&rig).0 >= SAID / 2 && says(&rig).1 == 0, "no more begin: {:?}", says(&rig));
    let mut answered = 0;
    for _ in 0..800 {
        answered += asker.answers().len();
        rig.turn(Nanos::from_micros(10));
        assert!(says(&rig).0 < SAID + answer);
    }
    assert_eq!((answered, says(&rig)), (400, (0, 0)));
    for _ in 0..200 {
        asker.send_flagged(REQ_ONE, STATUS, 0, 1 << 30, &[]);
    }
    for _ in 0..16 {
        rig.turn(Nanos::from_micros(10));
    }
    assert!(says(&rig).1 > 150, "{:?}", says(&rig));
}

/// Is a question that has failed, or whose client has gone, forgotten with all that it had?
#[test]
fn who_asks_may_go() {
    let mut rig = Rig::new("bfq", |_| ());
    let mut asker = rig.connect("asker");
    rig.holds.store(true, Ordering::SeqCst);
    for at in 0..100 {
        asker.send(STATUS, at * BLOCK, BLOCK, &[]);
    }
    rig.settle();
    drop(asker);
    rig.settle();
    rig.holds.store(false, Ordering::SeqCst);
    rig.settle();
    assert!(
        rig.device_loop.connections.is_empty()
            && rig.device_loop.requests.fragments().is_empty()
            && rig.device_loop.requests.ios().is_empty()
    );
}
