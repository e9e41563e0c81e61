// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared caps: requests that are refused, or that move no data, are not charged.

use paternoster_core::Nanos;

use crate::config::{Caps, Config, Group, Tenant};
use crate::device_loop::rig::{CACHE, Client, READ, Rig, STATUS, TRIM, WRITE, ZEROES};

const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;

/// Tenants "good" and "bad" of a group with these caps.
fn shop(caps: Caps) -> impl FnOnce(&mut Config) {
    move |config| {
        config.groups = vec![Group { caps, ..Group::new("shop") }];
        let member = |name| Tenant { group: Some("shop".to_owned()), ..Tenant::new(name) };
        config.tenants = vec![member("good"), member("bad")];
    }
}

/// How many reads of 4 KiB, one at a time, a client completes in `rounds` of a millisecond each.
fn reads_in(rig: &mut Rig, client: &mut Client, rounds: u32) -> u32 {
    let mut done = 0;
    client.send(READ, 0, 4096, &[]);
    for _ in 0..rounds {
        rig.turn(Nanos::from_millis(1));
        if let [(_, 0)] = client.answers()[..] {
            done += 1;
            client.send(READ, 0, 4096, &[]);
        }
    }
    done
}

/// Does a request that is refused, or that moves no data, leave its group's cap to others? At 50
/// MB/s, 4 GiB would take 86 s. A read of 4 KiB each millisecond is 4 MB/s: each round has one
/// answer.
#[test]
fn what_moves_no_data_is_not_charged() {
    let all = u64::from(u32::MAX) & !4095;
    for (kind, at, length, errno) in [
        (READ, 0, u32::MAX.into(), EOVERFLOW),
        (READ, u64::MAX - 8191, 4096, EINVAL),
        (ZEROES, !4095, all, ENOSPC),
        (STATUS, 0, all, 0),
        (TRIM, 0, all, 0),
        (ZEROES, 0, all, 0),
        (CACHE, 0, all, 0),
    ] {
        let mut rig = Rig::new("noop", shop(Caps { bytes: 50_000_000, requests: 0 }));
        let (mut good, mut bad) = (rig.connect("good"), rig.connect("bad"));
        let cookie = bad.send(kind, at, length, &[]);
        // 4 GiB are 4096 fragments; 8 turns of the loop do some of them.
        for _ in 0..300 {
            rig.settle();
        }
        assert_eq!(bad.answers(), [(cookie, errno)], "kind {kind}");
        let done = reads_in(&mut rig, &mut good, 100);
        assert!(done >= 99, "kind {kind}: {done} of 100 reads");
    }
}

/// And a write that is refused after its payload?
#[test]
fn a_refused_write_is_not_charged() {
    let mut rig = Rig::new("noop", shop(Caps { bytes: 1_000_000, requests: 0 }));
    let (mut good, mut bad) = (rig.connect("good"), rig.connect("bad"));
    let payload = vec![0; 128 << 10];
    let cookie = bad.send(WRITE, u64::MAX - (1 << 20), 128 << 10, &payload);
    rig.settle();
    assert_eq!(bad.answers(), [(cookie, ENOSPC)]);
    // 10 reads of 4 KiB take 41 ms at 1 MB/s, less than the burst of 100 ms.
    assert_eq!(reads_in(&mut rig, &mut good, 10), 10);
}

/// Are data charged as they move, fragment by fragment? A read of 1 MiB at 1 MB/s, with a burst of
/// 100 ms, has fragments of 128 KiB (a 32nd of the memory). The first one goes at once, the last
/// when all before it are paid for but 100 ms: after 7 * 131.072 - 100 = 817.5 ms.
#[test]
fn data_are_charged_as_they_move() {
    let mut rig = Rig::new("noop", shop(Caps { bytes: 1_000_000, requests: 0 }));
    let mut client = rig.connect("good");
    let cookie = client.send(READ, 0, 1 << 20, &[]);
    let (mut rounds, mut answers) = (0, Vec::new());
    while answers.is_empty() && rounds < 2000 {
        rig.turn(Nanos::from_millis(1));
        answers = client.answers();
        rounds += 1;
    }
    assert_eq!(answers, [(cookie, 0)]);
    assert!((818..825).contains(&rounds), "{rounds} ms");
}

/// Is a cap of requests charged only for requests that are accepted? With 10 a second and a burst
/// of 100 ms, two go at once, and the next one waits.
#[test]
fn requests_are_charged_as_requests() {
    let mut rig = Rig::new("noop", shop(Caps { bytes: 0, requests: 10 }));
    let (mut good, mut bad) = (rig.connect("good"), rig.connect("bad"));
    for _ in 0..100 {
        bad.send(READ, 0, u32::MAX.into(), &[]);
    }
    rig.settle();
    assert_eq!(bad.answers().len(), 100);
    for _ in 0..3 {
        good.send(READ, 0, 4096, &[]);
    }
    rig.settle();
    assert_eq!(good.answers().len(), 2);
    rig.turn(Nanos::from_millis(100));
    rig.settle();
    assert_eq!(good.answers().len(), 1);
}

/// Does no cap delay the draining of a volume or the stop of a server? What was accepted is
/// finished.
#[test]
fn the_end_waits_for_no_cap() {
    let mut rig = Rig::new("noop", shop(Caps { bytes: 1000, requests: 0 }));
    let mut client = rig.connect("good");
    let cookie = client.send(READ, 0, 1 << 20, &[]);
    rig.settle();
    assert_eq!(client.answers(), [], "the first fragment of eight");
    let (answer, answers) = std::sync::mpsc::channel();
    let order = crate::control::order::Order::Drain { volume: "disk".to_owned() };
    rig.device_loop.execute(crate::control::order::Asked { order, answer });
    let mut told = Vec::new();
    for _ in 0..8 {
        // What is sent must be taken.
        rig.settle();
        told.append(&mut client.answers());
    }
    assert_eq!(told, [(cookie, 0)]);
    assert!(answers.try_recv().expect("it is drained").is_ok());
}

/// When a cap opens for one fragment, does only one of the waiting connections try, in order of
/// arrival? 100 connections want a block each, under a cap of 409.6 kB/s: the burst of 100 ms and
/// the fragment that crosses it are 11, then one goes every 10 ms. 100 looks at requests, 100 at
/// data, and one for each of the 89 that waited: 289; each of them looking each time would be
/// 4,200.
#[test]
fn one_tries_what_all_wait_for() {
    let mut rig = Rig::new("noop", shop(Caps { bytes: 409_600, requests: 0 }));
    let mut clients: Vec<Client> = (0..100).map(|_| rig.connect("good")).collect();
    for client in &mut clients {
        client.send(READ, 0, 4096, &[]);
        rig.turn(Nanos::ZERO);
    }
    let mut order = Vec::new();
    for _ in 0..1000 {
        rig.turn(Nanos::from_millis(1));
        let ends = clients.iter_mut().map(|client| client.answers().len());
        order.extend(ends.enumerate().filter(|(_, ends)| *ends != 0).map(|(which, _)| which));
    }
    assert_eq!(order, (0..100).collect::<Vec<_>>());
    assert!((289..300).contains(&rig.device_loop.naps.looks()), "{}", rig.device_loop.naps.looks());
}

/// Is nothing left of those that went while they waited for a cap, and does the next one get on?
#[test]
fn who_waits_may_go() {
    let mut rig = Rig::new("noop", shop(Caps { bytes: 4096, requests: 0 }));
    for _ in 0..50 {
        let mut client = rig.connect("good");
        client.send(READ, 0, 4096, &[]);
        client.send(READ, 0, 4096, &[]);
        rig.settle();
        drop(client);
        rig.settle();
    }
    let mut last = rig.connect("good");
    last.send(READ, 0, 4096, &[]);
    for _ in 0..1000 {
        rig.turn(Nanos::from_millis(100));
    }
    assert_eq!(last.answers().len(), 1);
    assert!(rig.device_loop.naps.is_empty());
}
