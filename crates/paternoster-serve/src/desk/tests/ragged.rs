// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes within blocks: what they cost others. Steps of a lock are counted in `range_lock`.

use std::sync::atomic::Ordering;

use crate::desk::cut::CHANGES_WAITING;
use crate::desk::rig::{Client, READ, Rig, WRITE};

/// Does a flood of writes within one block leave places to others? A desk of a test build has 512
/// places for parts; three clients that send 300 such writes each would take all of them, but no
/// more than 128 of one may wait, beside the one that is under way: 3 * 128 + 1 = 385.
#[test]
fn a_flood_within_a_block_leaves_places() {
    let mut rig = Rig::new("noop", |config| config.devices[0].memory = 64 << 20);
    let mut floods: Vec<Client> = (0..3).map(|number| rig.connect(&format!("{number}"))).collect();
    let mut victim = rig.connect("victim");
    rig.holds.store(true, Ordering::SeqCst);
    for at in 0..300 {
        for flood in &mut floods {
            flood.send(WRITE, at, 1, &[1]);
        }
        if at % 50 == 49 {
            rig.settle();
        }
    }
    let waiting: Vec<u32> =
        rig.desk.guests.iter().map(|(_, guest)| guest.changes_waiting).collect();
    assert_eq!(waiting, [CHANGES_WAITING, CHANGES_WAITING, CHANGES_WAITING, 0]);
    assert_eq!(rig.desk.parts.len(), 3 * CHANGES_WAITING + 1);
    let cookie = victim.send(READ, 1 << 20, 4096, &[]);
    rig.settle();
    assert_eq!(rig.desk.parts.len(), 3 * CHANGES_WAITING + 2, "the victim's read has a place");
    rig.holds.store(false, Ordering::SeqCst);
    rig.settle();
    assert_eq!(victim.answers(), [(cookie, 0)], "and does not wait for the flood");
    let mut answers = [0; 3];
    for _ in 0..1000 {
        rig.settle();
        for (flood, count) in floods.iter_mut().zip(&mut answers) {
            *count += flood.answers().iter().filter(|(_, errno)| *errno == 0).count();
        }
    }
    assert_eq!(answers, [300, 300, 300]);
    assert!(rig.desk.changes.is_empty());
}
