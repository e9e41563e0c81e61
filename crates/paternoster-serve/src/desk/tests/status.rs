// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block status: a question that has a cost and a turn. That a thread of its own asks the system
//! is held by `device::surveyor`.

use std::sync::atomic::Ordering;

use crate::desk::rig::{BLOCK, READ, Rig, STATUS};

/// Does a question wait for its turn, as a read does? While the device has the 32 commands that it
/// takes, nothing is asked; then one question tells 256 runs at most, however long its range is.
#[test]
fn a_question_has_a_turn() {
    let mut rig = Rig::new("noop", |_| ());
    let (mut reader, mut asker) = (rig.connect("reader"), rig.connect("asker"));
    rig.holds.store(true, Ordering::SeqCst);
    // Far from each other: none is merged.
    for at in 0..32 {
        reader.send(READ, at << 24, BLOCK, &[]);
    }
    rig.settle();
    assert_eq!(rig.desk.in_device, 32);
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
    assert!(rig.desk.guests.is_empty() && rig.desk.parts.is_empty() && rig.desk.errands.is_empty());
}
