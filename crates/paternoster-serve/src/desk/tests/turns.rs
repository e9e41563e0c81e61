// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns of the desk's own time: what a flood of requests that cost the device nothing leaves to
//! others. How much of a turn is whose is `desk::turns`.

use std::sync::atomic::Ordering;

use paternoster_core::Nanos;

use crate::config::Tenant;
use crate::desk::rig::{BLOCK, CACHE, Client, READ, Rig, TRIM, WRITE};

/// Of what there is not.
const UNKNOWN: u16 = 77;

fn rig() -> (Rig, Vec<Client>, Client) {
    let mut rig = Rig::new("noop", |config| {
        config.devices[0].memory = 64 << 20;
        config.server.connections = 100;
        let tenant = |name, weight| Tenant { weight, ..Tenant::new(name) };
        config.tenants = vec![tenant("flood", 100), tenant("victim", 100)];
    });
    let floods = (0..16).map(|_| rig.connect("flood")).collect();
    let victim = rig.connect("victim");
    (rig, floods, victim)
}

/// Is a read heard in the next turn, and is a flood of 16 connections with 64 refused requests each
/// answered at 32 steps a turn? Two tenants of the same weight have a half of 64 steps each; a look
/// at a connection is a step. 1,024 requests and two looks at each of 16 connections are at least
/// (1024 + 32) / 32 = 33 turns, in each of which another read of the victim's is answered.
#[test]
fn refused_requests_have_a_turn() {
    let (mut rig, mut floods, mut victim) = rig();
    for flood in &mut floods {
        for _ in 0..64 {
            flood.send(UNKNOWN, 0, 0, &[]);
        }
    }
    let (mut turns, mut refused) = (0, 0);
    while refused < 1024 {
        let cookie = victim.send(READ, turns * BLOCK, BLOCK, &[]);
        rig.turn(Nanos::ZERO);
        assert_eq!(victim.answers(), [(cookie, 0)], "in turn {turns}");
        let in_turn: usize = floods.iter_mut().map(|flood| flood.answers().len()).sum();
        assert!(in_turn <= 32, "{in_turn} in turn {turns}");
        refused += in_turn;
        turns += 1;
    }
    assert!((33..=50).contains(&turns), "{turns} turns");
}

/// Is a request that is cut into many parts cut in turns? A hint of 4 GiB is 4,096 parts of 1 MiB:
/// while 16 connections have one each, a turn makes 64 parts of them at most, not as many as there
/// are places.
#[test]
fn long_requests_are_cut_in_turns() {
    for kind in [CACHE, TRIM] {
        let (mut rig, mut floods, _victim) = rig();
        rig.holds.store(true, Ordering::SeqCst);
        for flood in &mut floods {
            flood.send(kind, 0, u64::from(u32::MAX) / BLOCK * BLOCK, &[]);
        }
        for turn in 1..=3 {
            rig.turn(Nanos::ZERO);
            assert!((1..=64 * turn).contains(&rig.desk.parts.len()), "turn {turn}");
        }
    }
}

/// Is a payload as much work as its bytes? 16 connections with a write of 128 KiB each: 32 steps
/// of 8 KiB are 256 KiB, so a turn reads two of them, the last one beyond its steps, and then less
/// in the next, while the victim reads: 16 writes of 1 + 1 + 16 steps are 288, in 288 / 32 = 9 turns at least. (The device
/// is given four in a turn at most, of 1 + 16 and 64 in all.)
#[test]
fn payloads_have_a_turn() {
    let (mut rig, mut floods, mut victim) = rig();
    let payload = vec![1; 128 << 10];
    for (at, flood) in (0..).zip(&mut floods) {
        flood.send(WRITE, at << 20, 128 << 10, &payload);
    }
    let (mut turns, mut written) = (0, 0);
    while written < 16 {
        victim.send(READ, turns * BLOCK, BLOCK, &[]);
        rig.turn(Nanos::ZERO);
        let in_turn: usize = floods.iter_mut().map(|flood| flood.answers().len()).sum();
        assert!(in_turn <= 4, "{in_turn} in turn {turns}");
        written += in_turn;
        turns += 1;
    }
    assert!((9..=24).contains(&turns), "{turns} turns");
}
