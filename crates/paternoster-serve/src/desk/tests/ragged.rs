// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes within blocks: what they cost others. Steps of a lock are counted in `range_lock`.

use std::sync::atomic::Ordering;

use crate::desk::cut::CHANGES_WAITING;
use crate::desk::rig::{READ, Rig, WRITE};

/// Does a flood of writes within one block leave places to others of its tenant? A desk of a test
/// build has 256 for parts, of which a lone tenant may have 192; a client that sends 300 such
/// writes would take them, but no more than 128 may wait beside the one that is under way.
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
    let waiting: Vec<u32> =
        rig.desk.guests.iter().map(|(_, guest)| guest.changes_waiting).collect();
    assert_eq!(waiting, [CHANGES_WAITING, 0]);
    assert_eq!(rig.desk.parts.len(), CHANGES_WAITING + 1);
    let cookie = victim.send(READ, 1 << 20, 4096, &[]);
    rig.settle();
    assert_eq!(rig.desk.parts.len(), CHANGES_WAITING + 2, "the victim's read has a place");
    rig.holds.store(false, Ordering::SeqCst);
    rig.settle();
    assert_eq!(victim.answers(), [(cookie, 0)], "and does not wait for the flood");
    let mut answers = 0;
    for _ in 0..1000 {
        rig.settle();
        answers += flood.answers().iter().filter(|(_, errno)| *errno == 0).count();
    }
    assert_eq!(answers, 300);
    assert!(rig.desk.changes.is_empty());
}
