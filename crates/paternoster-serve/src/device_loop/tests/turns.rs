// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns of the loop's own time: what a flood of requests that cost the device nothing leaves to
//! others. How a turn is divided is tested in `device_loop::turns`.

use std::sync::atomic::Ordering;

use paternoster_core::Nanos;

use crate::config::Tenant;
use crate::device_loop::rig::{BLOCK, CACHE, Client, READ, Rig, TRIM, WRITE, ZEROES};

/// An operation that NBD does not have.
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

/// Is a read served in the next turn, and is a flood of 16 connections with 64 refused requests
/// each answered at 32 steps a turn? Two tenants of the same weight have a half of 64 steps each; a
/// look at a connection is a step. 1,024 requests and two looks at each of 16 connections are at
/// least (1024 + 32) / 32 = 33 turns, in each of which another read of the victim's is answered.
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

/// Is a request that is cut into many fragments cut in turns? A hint of 4 GiB is 4,096 fragments of
/// 1 MiB: while 16 connections have one each, a turn makes 64 fragments of them at most, not as
/// many as there are places.
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
            assert!(
                (1..=64 * turn).contains(&rig.device_loop.requests.fragments().len()),
                "turn {turn}"
            );
        }
    }
}

/// Does a payload count as work by its bytes? With 16 connections that write 128 KiB each, while a
/// victim reads, a turn has 32 steps of 8 KiB, 256 KiB; what is read beyond them, 64 KiB at most,
/// is taken off the next turn. All 2 MiB are read at last.
#[test]
fn payloads_have_a_turn() {
    let (mut rig, mut floods, mut victim) = rig();
    rig.holds.store(true, Ordering::SeqCst);
    let payload = vec![1; 128 << 10];
    for (at, flood) in (0..).zip(&mut floods) {
        flood.send(WRITE, at << 20, 128 << 10, &payload);
    }
    let read = |rig: &Rig| {
        rig.device_loop
            .requests
            .fragments()
            .iter()
            .map(|(_, fragment)| fragment.filled)
            .sum::<u32>()
    };
    for turn in 1..=4 {
        victim.send(READ, 0, BLOCK, &[]);
        rig.turn(Nanos::ZERO);
        let read = read(&rig);
        assert!(read <= (turn * 256 + 64) << 10, "{read} bytes in turn {turn}");
    }
    rig.settle();
    assert_eq!(read(&rig), 2 << 20);
}

/// Is what a device does at once, in the loop's own time, cut so that others are served in between?
/// Reads, trims and zeroes of 8 MiB are commands of 256 KiB, one a turn: 1 + 504 / 16 = 32 is all
/// the work of one.
#[test]
fn what_is_done_at_once_is_cut() {
    for kind in [READ, TRIM, ZEROES] {
        let (mut rig, mut floods, mut victim) = rig();
        rig.device_loop.commands.do_at_once();
        floods[0].send(kind, 0, 8 << 20, &[]);
        for turn in 0..40 {
            let before = rig.commands.load(Ordering::SeqCst);
            rig.turn(Nanos::ZERO);
            assert!(rig.commands.load(Ordering::SeqCst) - before <= 1, "turn {turn}");
            floods[0].answers();
        }
        assert_eq!(rig.longest.load(Ordering::SeqCst), 256 << 10);
        assert_eq!(rig.commands.load(Ordering::SeqCst), 32, "kind {kind}");
        victim.send(READ, 0, BLOCK, &[]);
        rig.settle();
        assert_eq!(victim.answers().len(), 1);
    }
}

/// Does a round end when its time is over, if the loop does the device's work itself? Each look at
/// the clock is 10 us later than the last, and there is one before each command but the first: a
/// round of 40 us does at most 5 of the 16 reads. In the end all are answered.
#[test]
fn a_round_of_what_is_done_at_once_ends_in_time() {
    let (mut rig, mut floods, _victim) = rig();
    rig.device_loop.commands.do_at_once();
    rig.work = Some((Box::leak(Box::default()), 10_000));
    for (at, flood) in (0..).zip(&mut floods) {
        flood.send(READ, at << 20, BLOCK, &[]);
    }
    let (mut turns, mut answers) = (0, 0);
    while answers < floods.len() {
        let before = rig.commands.load(Ordering::SeqCst);
        rig.turn(Nanos::ZERO);
        assert!(rig.commands.load(Ordering::SeqCst) - before <= 5, "turn {turns}");
        answers += floods.iter_mut().map(|flood| flood.answers().len()).sum::<usize>();
        turns += 1;
        assert!(turns < 40, "{answers} answers");
    }
    assert!(turns >= 4, "{turns} turns");
}
