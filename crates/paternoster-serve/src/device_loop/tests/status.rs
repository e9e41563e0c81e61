// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block status: a request that costs time, and waits for its turn. That a thread of its own asks
//! the system is tested in `device::surveyor`, whose turn it is in `surveys`.

use std::sync::atomic::Ordering;

use paternoster_core::Nanos;

use crate::config::Tenant;
use crate::device_loop::rig::{BLOCK, READ, Rig, STATUS};

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
