// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a server waits for its clients. The times here are short, at most 2 s: on a busy
//! machine they may be over before a test has done what it must do in time.
//!
//! What clients do wrong without being in a hurry is in `tests/all/faults/`.

use std::io::{Read, Write};
use std::time::Duration;

use paternoster_core::Nanos;
use paternoster_serve::control::order::Order;

use crate::common::client::{READ, WRITE, request};
use crate::common::disk::{connect, setting, works};
use crate::common::secure::{self, asked_for_tls, read, secure_setting};
use crate::common::watch::{snapshot, until, until_quiet};
use crate::common::{Client, end, start};

/// Is a client that never chooses an export closed in time, wherever it stopped, and is its seat
/// free then?
#[test]
fn who_never_chooses_must_go() {
    let (folder, mut config) = setting("handshake");
    config.server.handshake_timeout = Nanos::from_millis(100);
    config.server.connections = 4;
    let server = start(config);
    let socket = folder.path("nbd.sock");
    let mut chosen = connect(&folder);
    let mut slow: Vec<Client> = (0..3).map(|_| Client::greet(&socket).unwrap()).collect();
    // Half an option; an option of a MiB that is skipped, and does not come; nothing at all.
    slow[0].stream.write_all(&0x4948_4156_454f_5054_u64.to_be_bytes()).unwrap();
    let skipped = [&0x4948_4156_454f_5054_u64.to_be_bytes()[..], &[0, 0, 0, 99, 0, 15, 0, 0]];
    slow[1].stream.write_all(&skipped.concat()).unwrap();
    for client in &mut slow {
        let mut rest = Vec::new();
        let ended = client.stream.read_to_end(&mut rest);
        assert!(ended.is_ok_and(|_| rest.len() < 1000), "an answer at most, and the end");
    }
    let mut more: Vec<Client> = Vec::new();
    until("three seats", || {
        more.extend(Client::connect(&socket, "disk").ok());
        more.len() == 3
    });
    // It has been there for longer than any handshake may take.
    works(&mut chosen, 0, 1);
    end(&server);
}

/// Does a client that stalls within a write not keep a volume from being drained?
#[test]
fn who_stalls_does_not_keep_a_volume() {
    let (folder, mut config) = setting("keeps");
    config.server.stall_timeout = Nanos::from_millis(100);
    let server = start(config);
    let mut slow = connect(&folder);
    slow.stream.write_all(&request(WRITE, 0, 1, 0, 1 << 20, &[7; 100])).unwrap();
    until("its write", || snapshot(&server).connections.iter().any(|line| line.under_way == 1));
    let drained = server.device_loops()[0].ask(Order::Drain { volume: "disk".to_owned() });
    assert!(drained.is_ok(), "{drained:?}");
    until_quiet(&server, 0);
    end(&server);
}

/// May a client that took its answers late be silent afterwards for longer than a stall may take?
#[test]
fn who_was_slow_once_may_be_silent() {
    let (folder, mut config, certificate) = secure_setting("late");
    config.server.stall_timeout = Nanos::from_secs(2);
    let server = start(config);
    let mut client = secure::connect(&folder, &certificate);
    for length in [1 << 20, 1 << 20] {
        client.write_all(&request(READ, 0, 1, 0, length, &[])).unwrap();
        // More than sockets and records hold: the server has to wait for it.
        client.read_exact(&mut vec![0; 16 + length as usize]).unwrap();
    }
    // Longer than three looks at clients that stall.
    std::thread::sleep(Duration::from_millis(2700));
    read(&mut client, 4096);
    end(&server);
}

/// Do garbage where TLS should begin, half a handshake, plain text, and death in the middle of a
/// record harm no other client?
#[test]
fn garbage_under_tls() {
    let (folder, mut config, certificate) = secure_setting("tls");
    config.server.handshake_timeout = Nanos::from_millis(500);
    let server = start(config);
    let mut other = secure::connect(&folder, &certificate);
    // Records begin with their kind, version and length.
    for bytes in [&[0xff; 300][..], &[22, 3, 1, 0x40, 0, 1], b"IHAVEOPT", &[21, 3, 3, 0, 2, 1, 0]] {
        let mut client = asked_for_tls(&folder);
        client.stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        let _ended_or_reset = client.stream.read_to_end(&mut rest);
        read(&mut other, 512);
    }
    let mut plain = Client::greet(&folder.path("nbd.sock")).unwrap();
    plain.option(7, &[0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(plain.answer().unwrap().1, 0x8000_0005, "TLS first");
    let mut dying = secure::connect(&folder, &certificate);
    dying.write_all(&request(WRITE, 0, 1, 0, 1 << 20, &[7; 300_000])).unwrap();
    dying.sock.write_all(&[23, 3, 3, 0x40, 0, 1, 2, 3]).unwrap();
    drop((dying, plain));
    read(&mut other, 512);
    until_quiet(&server, 1);
    end(&server);
}
