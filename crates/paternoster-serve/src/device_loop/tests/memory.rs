// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory: what is left to other tenants by connections that begin large requests and send little.

use paternoster_core::Nanos;

use crate::device_loop::rig::{Client, MEMORY, READ, Rig, WRITE};
use crate::tally;

/// How many reads of 64 KiB, one at a time, a client completes in 100 turns.
fn reads(rig: &mut Rig, client: &mut Client) -> u32 {
    let mut done = 0;
    client.send(READ, 0, 64 << 10, &[]);
    for _ in 0..100 {
        rig.turn(Nanos::from_millis(1));
        if let [(_, 0)] = client.answers()[..] {
            done += 1;
            client.send(READ, 0, 64 << 10, &[]);
        }
    }
    done
}

/// A loop for many connections.
fn many(config: &mut crate::config::Config) {
    config.server.connections = 2000;
}

/// Do 500 connections of one tenant that each begin a write of 32 MiB, and send 1 kB of it, leave
/// another tenant its guarantee, whichever comes first? A victim that is alone has an answer in
/// each turn.
#[test]
fn begun_writes_leave_memory_to_others() {
    for first in [true, false] {
        let mut rig = Rig::new("noop", many);
        let mut victim = first.then(|| rig.connect("victim"));
        let mut floods: Vec<Client> = (0..500).map(|_| rig.connect("flood")).collect();
        for flood in &mut floods {
            flood.send(WRITE, 1 << 20, 32 << 20, &[7; 1000]);
        }
        rig.settle();
        let mut victim = victim.take().unwrap_or_else(|| rig.connect("victim"));
        rig.settle();
        let held = rig.device_loop.shared.used().0 as u64;
        assert!(held < MEMORY, "{held} bytes are held");
        assert_eq!(reads(&mut rig, &mut victim), 100, "the victim comes first: {first}");
    }
}

/// And do connections that ask for much and take no answers, with the greater weight?
#[test]
fn answers_that_are_not_taken_leave_memory_to_others() {
    let mut rig = Rig::new("noop", |config| {
        many(config);
        let tenant =
            |name, weight| crate::config::Tenant { weight, ..crate::config::Tenant::new(name) };
        config.tenants = vec![tenant("flood", 10_000), tenant("victim", 1)];
    });
    let mut floods: Vec<Client> = (0..300).map(|_| rig.connect("flood")).collect();
    for flood in &mut floods {
        for at in 0..4 {
            flood.send(READ, at << 20, 1 << 20, &[]);
        }
    }
    for _ in 0..100 {
        rig.settle();
    }
    let mut victim = rig.connect("victim");
    assert_eq!(reads(&mut rig, &mut victim), 100);
    drop(floods);
    drop(victim);
    for _ in 0..10 {
        rig.settle();
    }
    assert_eq!((rig.device_loop.shared.used().0, rig.device_loop.shared.lent()), (0, [0; 3]));
}

/// Does a payload get memory in pieces, as it arrives: 64 KiB before anything has come, and more
/// for a client that sends it? A 32nd of 64 MiB is 2 MiB, so memory is not short.
#[test]
fn a_payload_is_given_memory_as_it_arrives() {
    let mut rig = Rig::new("noop", |config| config.devices[0].memory = 64 << 20);
    let mut client = rig.connect("one");
    client.send(WRITE, 0, 1 << 20, &[7; 1000]);
    rig.settle();
    assert_eq!(rig.device_loop.shared.used().0, 64 << 10);
    let (mut left, bytes) = ((1 << 20) - 1000, [7; 32 << 10]);
    while left != 0 {
        let sent = bytes.len().min(left);
        std::io::Write::write_all(&mut client.stream, &bytes[..sent]).unwrap();
        left -= sent;
        rig.settle();
    }
    assert_eq!(client.answers().len(), 1);
    client.send(WRITE, 0, 1 << 20, &[7; 1000]);
    rig.settle();
    // 64 + 128 + 256 + 512 KiB and the rest, 64, were five pieces: the next one is of the largest
    // size.
    assert_eq!(rig.device_loop.shared.used().0, 1 << 20);
}

/// Do all connections of a tenant make progress, although its memory suffices only for some of them
/// at a time? 500 writes of 128 KiB, each sent bit by bit.
#[test]
fn connections_of_one_tenant_take_turns() {
    let mut rig = Rig::new("noop", many);
    let mut clients: Vec<Client> = (0..500).map(|_| rig.connect("one")).collect();
    for client in &mut clients {
        client.send(WRITE, 0, 128 << 10, &vec![7; 64 << 10]);
    }
    rig.settle();
    for client in &mut clients {
        std::io::Write::write_all(&mut client.stream, &vec![7; 64 << 10]).unwrap();
    }
    let mut answers = 0;
    for _ in 0..200 {
        rig.turn(Nanos::from_millis(250));
        rig.settle();
        answers += clients.iter_mut().map(|client| client.answers().len()).sum::<usize>();
    }
    assert_eq!(answers, 500);
}

/// Does a tenant get the memory that it is guaranteed even if only single pages are free? Every
/// second page of 4 MiB is taken: a read of 64 KiB gets 16 pieces, and a write of 64 KiB that
/// begins within a block gets 17, both at once.
#[test]
fn a_guarantee_in_small_pieces() {
    let mut rig = Rig::new("noop", |_| ());
    let mut client = rig.connect("one");
    rig.settle();
    let pages = std::iter::from_fn(|| rig.device_loop.shared.arena().take(4096));
    let (kept, free): (Vec<_>, Vec<_>) = pages.enumerate().partition(|(which, _)| which % 2 == 0);
    free.into_iter().for_each(|(_, block)| rig.device_loop.shared.arena().give_back(block));
    let read = client.send(READ, 0, 64 << 10, &[]);
    rig.settle();
    assert_eq!(client.answers(), [(read, 0)]);
    let write = client.send(WRITE, 5, 64 << 10, &vec![7; 64 << 10]);
    rig.settle();
    rig.settle();
    assert_eq!(client.answers(), [(write, 0)]);
    kept.into_iter().for_each(|(_, block)| rig.device_loop.shared.arena().give_back(block));
    assert_eq!(rig.device_loop.shared.used().0, 0);
}

/// Does a read that must be answered in one piece, which is more than an empty socket is sure to
/// take, wait in peace while others of its tenant have nearly all of its memory, and is it answered
/// when they have gone? Its client is not blamed for taking no answers.
#[test]
fn a_read_in_one_piece_waits_in_peace() {
    const DF: u16 = 4;
    let mut rig = Rig::new("noop", |config| {
        many(config);
        config.server.stall_timeout = Nanos::from_secs(1000);
    });
    let mut reader = rig.connect("one");
    let mut floods: Vec<Client> = (0..240).map(|_| rig.connect("one")).collect();
    for flood in &mut floods {
        flood.send(WRITE, 1 << 20, 32 << 20, &[7; 1000]);
    }
    (0..200).for_each(|_| rig.settle());
    rig.device_loop.settings.stall_timeout = Nanos::from_secs(1);
    let read = reader.send_flagged(DF, READ, 0, 512 << 10, &[]);
    rig.settle();
    tally::take();
    (0..100).for_each(|_| rig.turn(Nanos::ZERO));
    let calls = tally::take().calls;
    assert!(calls <= 300, "{calls} calls in 100 turns without an event");
    assert_eq!(reader.answers(), []);
    rig.turn(Nanos::from_secs(2));
    rig.turn(Nanos::from_secs(2));
    drop(floods);
    (0..10).for_each(|_| rig.settle());
    let mut told = Vec::new();
    for _ in 0..10 {
        rig.turn(Nanos::from_millis(100));
        rig.settle();
        told.extend(reader.answers());
    }
    assert_eq!(told, [(read, 0)]);
}

/// How many of 100 reads a connection gets while 240 others of the same tenant wait for their
/// clients.
fn reads_beside_siblings(attack: impl Fn(&mut Client)) -> u32 {
    let mut rig = Rig::new("noop", many);
    let mut floods: Vec<Client> = (0..240).map(|_| rig.connect("one")).collect();
    for flood in &mut floods {
        attack(flood);
    }
    for _ in 0..200 {
        rig.settle();
    }
    let mut victim = rig.connect("one");
    let done = reads(&mut rig, &mut victim);
    drop(floods);
    drop(victim);
    for _ in 0..10 {
        rig.settle();
    }
    assert_eq!((rig.device_loop.shared.used().0, rig.device_loop.shared.lent()), (0, [0; 3]));
    done
}

/// Does a client of the same tenant find memory while 240 connections each begin a write of 32 MiB
/// and send 1 kB of it? If each got 64 KiB at once, that would be 15 MiB, and there are 3.
#[test]
fn begun_writes_leave_memory_to_siblings() {
    assert_eq!(
        reads_beside_siblings(|flood| {
            flood.send(WRITE, 1 << 20, 32 << 20, &[7; 1000]);
        }),
        100
    );
}

/// Does it find memory while 240 connections each ask for 4 MiB and take no answer?
#[test]
fn answers_that_are_not_taken_leave_memory_to_siblings() {
    assert_eq!(
        reads_beside_siblings(|flood| {
            for at in 0..4 {
                flood.send(READ, at << 20, 1 << 20, &[]);
            }
        }),
        100
    );
}
