// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes of parts of blocks: what they cost others. Steps of a lock are counted in `range_lock`.

use std::sync::atomic::Ordering;

use paternoster_core::Nanos;

use crate::device_loop::dispatch::ROUND;
use crate::device_loop::rig::{READ, Rig, WRITE};
use crate::device_loop::split::CHANGES_WAITING;

/// Does a flood of writes within one block leave places to others of its tenant? A loop of a test
/// build has 256 for fragments, of which a lone tenant may have 192; a client that sends 300 such
/// writes would take them, but no more than 128 may wait in addition to the one under way.
#[test]
fn a_flood_within_a_block_leaves_places() {
    let mut rig = Rig::new("noop", |config| config.devices[0].memory = 64 << 20);
    let mut flood = rig.connect("one");
    let mut victim = rig.connect("one");
    rig.holds.store(true, Ordering::SeqCst);
    for at in 0..300 {
        flood.send(WRITE, at, 1, &[1]);
        if at % 50 == 49 {
            rig.settle();
        }
    }
    let waiting: Vec<u32> = rig
        .device_loop
        .connections
        .iter()
        .map(|(_, connection)| connection.changes_waiting)
        .collect();
    assert_eq!(waiting, [CHANGES_WAITING, 0]);
    assert_eq!(rig.device_loop.requests.fragments().len(), CHANGES_WAITING + 1);
    let cookie = victim.send(READ, 1 << 20, 4096, &[]);
    rig.settle();
    assert_eq!(
        rig.device_loop.requests.fragments().len(),
        CHANGES_WAITING + 2,
        "the victim's read has a place"
    );
    rig.holds.store(false, Ordering::SeqCst);
    rig.settle();
    assert_eq!(victim.answers(), [(cookie, 0)], "and does not wait for the flood");
    let mut answers = 0;
    for _ in 0..1000 {
        rig.settle();
        answers += flood.answers().iter().filter(|(_, errno)| *errno == 0).count();
    }
    assert_eq!(answers, 300);
    assert!(rig.device_loop.requests.changes().is_empty());
}

/// Is the work of a turn bounded, however many commands one completion sets free? 129 writes within
/// one block are 258 commands, each of which waits for the one before; a turn does 32 of them and
/// then looks at other connections: a read is answered within two more turns.
#[test]
fn a_turn_is_bounded() {
    let mut rig = Rig::new("noop", |config| config.devices[0].memory = 64 << 20);
    let (mut flood, mut victim) = (rig.connect("flood"), rig.connect("victim"));
    rig.holds.store(true, Ordering::SeqCst);
    for at in 0..u64::from(CHANGES_WAITING) + 1 {
        flood.send(WRITE, at, 1, &[1]);
    }
    rig.settle();
    assert_eq!(rig.commands.load(Ordering::SeqCst), 1);
    rig.holds.store(false, Ordering::SeqCst);
    let turn = |rig: &mut Rig| {
        let before = rig.commands.load(Ordering::SeqCst);
        rig.turn(Nanos::ZERO);
        rig.commands.load(Ordering::SeqCst) - before
    };
    assert_eq!(turn(&mut rig), ROUND);
    let cookie = victim.send(READ, 1 << 20, 4096, &[]);
    let turns = (1..10).find(|_| turn(&mut rig) <= ROUND && victim.answers() == [(cookie, 0)]);
    assert!(turns.is_some_and(|turns| turns <= 2), "{turns:?}");
    let done: u32 = (0..10).map(|_| turn(&mut rig)).inspect(|&some| assert!(some <= ROUND)).sum();
    assert!(done > 0, "there was more to do");
    assert_eq!(rig.commands.load(Ordering::SeqCst), 2 * (CHANGES_WAITING + 1) + 1);
}
