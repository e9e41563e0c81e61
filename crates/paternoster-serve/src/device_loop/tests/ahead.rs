// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading ahead: what clients that are not served for now make the server keep.

use std::io::{ErrorKind, Write};

use paternoster_core::Nanos;

use crate::config::{Caps, Tenant};
use crate::device_loop::connection::AHEAD;
use crate::device_loop::rig::{Client, MEMORY, READ, Rig};
use crate::nbd::transmission::HEADER;

/// Does the server keep little input of floods that are blocked, though each client has sent all
/// that its socket takes? Of 200 clients above their cap of one request a second it keeps no more
/// than an eighth of the memory, and a header each; and it reports what it keeps as memory in use.
/// A blocked client is no longer read from.
#[test]
fn who_is_blocked_is_read_one_header_ahead() {
    let mut rig = Rig::new("noop", |config| {
        config.server.connections = 1000;
        let caps = Caps { bytes: 0, requests: 1 };
        config.tenants = vec![Tenant { caps, ..Tenant::new("flood") }];
    });
    let mut floods: Vec<Client> = (0..200).map(|_| rig.connect("flood")).collect();
    for flood in &mut floods {
        flood.send(READ, 0, 4096, &[]);
        let request = flood.last.clone();
        let many = request.repeat(1000);
        loop {
            match flood.stream.write(&many) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    for _ in 0..100 {
        rig.turn(Nanos::from_millis(1));
    }
    let most = MEMORY / 8 + 200 * HEADER as u64;
    let kept: usize =
        rig.device_loop.connections.iter().map(|(_, connection)| connection.rest.len()).sum();
    assert!(kept as u64 <= most, "{kept} bytes of {most}");
    assert_eq!(rig.device_loop.shared.used().1, kept as u64);
    // Each connection's part may be twice the allowed rest, or a page.
    let held: usize =
        rig.device_loop.connections.iter().map(|(_, connection)| connection.rest.capacity()).sum();
    assert!(held <= 2 * kept + 200 * AHEAD, "{held} bytes for {kept}");
    assert!(rig.device_loop.snapshot().memory_used >= kept as u64);
    assert!(
        rig.device_loop.connections.iter().all(|(_, connection)| connection.ahead < AHEAD),
        "less far the next time"
    );
    drop(floods);
    rig.settle();
    assert_eq!(rig.device_loop.shared.used().1, 0);
}

/// Does a client that is always understood at once read more and more at a time? 200 reads in one
/// write are 5,600 bytes: more than the first 4 KiB, and less than the next 8.
#[test]
fn who_is_understood_reads_far() {
    let mut rig = Rig::new("noop", |config| config.devices[0].memory = 64 << 20);
    let mut client = rig.connect("one");
    let mut answers = 0;
    for _ in 0..8 {
        for at in 0..100 {
            client.send(READ, at << 20, 512, &[]);
        }
        rig.settle();
        answers += client.answers().len();
    }
    assert_eq!(answers, 800);
    let (_, connection) = rig.device_loop.connections.iter().next().unwrap();
    assert!(connection.ahead >= 64 << 10, "{} bytes", connection.ahead);
}
