// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many clients: at once, or too many.

use std::io::{ErrorKind, Write};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::disk::{SIZE, connect, setting, works};
use crate::common::watch::{snapshot, until, until_quiet};
use crate::common::{Client, end, skipped, start};

/// Are those above the limit turned away, without harm to the others, and let in again when a
/// seat is free?
#[test]
fn too_many_are_turned_away() {
    let (folder, mut config) = setting("crowd");
    config.server.connections = 2;
    let server = start(config);
    let socket = folder.path("nbd.sock");
    let (mut first, second) = (connect(&folder), connect(&folder));
    for _ in 0..3 {
        let refused = Client::connect(&socket, "disk").unwrap_err();
        let kinds = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(kinds.contains(&refused.kind()), "{refused}");
        works(&mut first, 0, 1);
    }
    drop(second);
    let mut third = None;
    until("a seat", || {
        third = Client::connect(&socket, "disk").ok();
        third.is_some()
    });
    works(third.as_mut().unwrap(), 0, 2);
    works(&mut first, 0, 3);
    drop((first, third));
    until_quiet(&server, 0);
    end(&server);
}

/// Are options answered that were sent all at once, with more answers than are kept at a time?
/// 900 lists of a volume with 250 bytes of description are more than 200 KiB.
#[test]
fn many_options_at_once() {
    let (folder, mut config) = setting("options");
    config.devices[0].volumes[0].description = "x".repeat(250);
    let server = start(config);
    let mut client = Client::greet(&folder.path("nbd.sock")).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..900 {
        bytes.extend(0x4948_4156_454f_5054_u64.to_be_bytes());
        bytes.extend([0, 0, 0, 3, 0, 0, 0, 0]);
    }
    client.stream.write_all(&bytes).unwrap();
    for _ in 0..900 {
        assert_eq!(client.answer().unwrap().1, 2, "the volume");
        assert_eq!(client.answer().unwrap().1, 1, "the end of the list");
    }
    end(&server);
}

/// Are a thousand clients served at once? Each has a socket, and so has the server for each.
#[test]
fn a_thousand_at_once() {
    const CLIENTS: u64 = 1000;
    let limit = getrlimit(Resource::Nofile);
    let needed = 2 * CLIENTS + 500;
    if limit.maximum.is_some_and(|most| most < needed) {
        return skipped(&format!("{needed} open files are needed, {limit:?} is the limit"));
    }
    // The limit is the process's: concurrent tests have files open, too.
    let wanted = limit.maximum.map_or(2 * needed, |most| most.min(2 * needed));
    if limit.current.is_some_and(|now| now < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).expect("within the hard limit");
    }
    let (folder, mut config) = setting("thousand");
    config.server.connections = u32::try_from(CLIENTS).unwrap();
    // Debug builds look at everything after every call; of this one there is less.
    config.devices[0].scheduler = "mq-deadline".into();
    let server = start(config);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| connect(&folder)).collect();
    until("everybody", || snapshot(&server).connections.len() == clients.len());
    let place = |number: u64| number * (SIZE / CLIENTS);
    for (number, client) in (0..).zip(&mut clients) {
        let bytes = u64::to_be_bytes(number);
        client.send(crate::common::client::WRITE, 0, place(number), 8, &bytes).unwrap();
    }
    for client in &mut clients {
        assert_eq!(client.told().unwrap().errno, 0);
    }
    for (number, client) in (0..).zip(&mut clients) {
        assert_eq!(client.read(place(number), 8).unwrap(), u64::to_be_bytes(number));
    }
    drop(clients);
    until_quiet(&server, 0);
    end(&server);
}
