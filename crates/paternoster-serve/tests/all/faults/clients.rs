// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that die, stall, talk nonsense, ask for what there is not, or never stop asking.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use paternoster_core::Nanos;

use crate::common::client::{self, CACHE, FLUSH, READ, STATUS, TRIM, WRITE, ZEROES, request};
use crate::common::disk::{SIZE, connect, setting, works};
use crate::common::watch::{snapshot, until_quiet};
use crate::common::{Client, end, slow, start, start_behind, volume};

const EPERM: u32 = 1;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;
const FUA: u16 = 1;
const DF: u16 = 4;

/// Whether the server has hung up, whatever it said before.
fn is_hung_up_on(client: &mut Client) -> bool {
    let mut rest = Vec::new();
    match client.stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Is a client that dies in the middle of a header, of a payload, or with a hundred requests
/// outstanding, forgotten, with all that was done for it?
#[test]
fn who_dies_is_forgotten() {
    let (folder, config) = setting("dies");
    let server = start_behind(config, slow);
    let mut other = connect(&folder);
    for round in 0..3 {
        let mut header = connect(&folder);
        header.stream.write_all(&request(READ, 0, 1, 0, 4096, &[])[..10]).unwrap();
        let mut payload = connect(&folder);
        let whole = request(WRITE, 0, 1, 100, 1 << 20, &[7; 300_000]);
        payload.stream.write_all(&whole).unwrap();
        let mut many = connect(&folder);
        for at in 0..50 {
            many.send(READ, 0, at * 1000, 60_000, &[]).unwrap();
            many.send(WRITE, FUA, (1 << 20) + at * 1000, 700, &[1; 700]).unwrap();
        }
        drop((header, payload, many));
        works(&mut other, 4 << 20, round);
    }
    until_quiet(&server, 1);
    works(&mut other, 0, 9);
    drop(other);
    until_quiet(&server, 0);
    end(&server);
}

/// Is a client that takes no answers disconnected in time, and its memory given back? And one that
/// does not send the payload it announced? A merely silent one stays.
#[test]
fn who_stalls_must_go() {
    let (folder, mut config) = setting("stalls");
    config.server.stall_timeout = Nanos::from_millis(100);
    let server = start(config);
    let mut silent = connect(&folder);
    works(&mut silent, 0, 1);
    let mut deaf = connect(&folder);
    for at in 0..64 {
        deaf.send(READ, 0, at << 16, 1 << 16, &[]).unwrap();
    }
    let mut slow = connect(&folder);
    slow.stream.write_all(&request(WRITE, 0, 1, 0, 1 << 20, &[7; 100_000])).unwrap();
    // It brings little by little, and takes its time: as good as nothing.
    let mut trickling = connect(&folder);
    trickling.stream.write_all(&request(WRITE, 0, 1, 0, 1 << 20, &[])).unwrap();
    while trickling.stream.write_all(&[7]).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    until_quiet(&server, 1);
    assert!(is_hung_up_on(&mut deaf) && is_hung_up_on(&mut slow));
    works(&mut silent, 0, 2);
    end(&server);
}

/// Is a client that sends garbage, where a request should begin, disconnected, and no other?
#[test]
fn garbage_ends_its_own_connection() {
    let (folder, config) = setting("garbage");
    let server = start(config);
    let mut other = connect(&folder);
    let too_long = request(WRITE, 0, 1, 0, 65 << 20, &[]);
    // A reply where a request should be, and a write of more than is allowed.
    for garbage in [&[0x67, 0x44, 0x66, 0x98][..], &[0; 28], &[0xff; 4000], &too_long] {
        let mut client = connect(&folder);
        client.stream.write_all(garbage).unwrap();
        if garbage.len() >= 28 {
            assert!(is_hung_up_on(&mut client), "{garbage:?}");
        }
        works(&mut other, 0, 3);
    }
    until_quiet(&server, 1);
    end(&server);
}

/// Does random garbage in the handshake harm only its sender? The seed is fixed.
#[test]
fn garbage_in_the_handshake() {
    let (folder, config) = setting("handshakes");
    let server = start(config);
    let mut other = connect(&folder);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        // A xorshift: any bytes will do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..200 {
        let mut client = Client::greet(&folder.path("nbd.sock")).unwrap();
        let length = usize::try_from(random() % 200).unwrap();
        let bytes: Vec<u8> = (0..length).map(|_| random().to_be_bytes()[0]).collect();
        // Half of them begin as an option does.
        let option = u32::try_from(random() % 12).unwrap();
        let sent = if round % 2 == 0 {
            client.option(option, &bytes)
        } else {
            client.stream.write_all(&bytes)
        };
        // The server may have hung up in between.
        drop(sent);
    }
    works(&mut other, 0, 5);
    until_quiet(&server, 1);
    end(&server);
}

/// Are the errors of the protocol those that its document names, with and without structured
/// replies, and does the next request work?
#[test]
fn errors_are_as_the_protocol_says() {
    let (folder, mut config) = setting("errors");
    let mut readonly = volume("readonly", &folder.path("disk"));
    (readonly.readonly, readonly.share) = (true, true);
    config.devices[0].volumes[0].share = true;
    config.devices[0].volumes.push(readonly);
    let server = start(config);
    let socket = folder.path("nbd.sock");
    for structured in [true, false] {
        let mut client = Client::negotiate(&socket, "disk", structured).unwrap();
        for (kind, flags, offset, length, errno) in [
            (READ, 0, SIZE, 1, EINVAL),
            (READ, 0, SIZE - 1, 2, EINVAL),
            (READ, 0, u64::MAX, 4096, EINVAL),
            (WRITE, 0, SIZE - 10, 100, ENOSPC),
            (WRITE, 0, u64::MAX - 50, 100, ENOSPC),
            (ZEROES, 0, SIZE, 4096, ENOSPC),
            (TRIM, 0, SIZE, 4096, EINVAL),
            (CACHE, 0, SIZE, 4096, EINVAL),
            (READ, 0, 0, 0, EINVAL),
            (READ, 0, 0, u32::MAX, EOVERFLOW),
            (WRITE, 0, 0, 33 << 20, EOVERFLOW),
            (FLUSH, 0, 4096, 0, EINVAL),
            (READ, 0x8000, 0, 4096, EINVAL),
            (77, 0, 0, 4096, EINVAL),
            (STATUS, 0, if structured { SIZE } else { 0 }, 4096, EINVAL),
            (READ, DF, 0, 2 << 20, if structured { EOVERFLOW } else { EINVAL }),
        ] {
            let payload = vec![1; if kind == WRITE { length as usize } else { 0 }];
            client.send(kind, flags, offset, length, &payload).unwrap();
            let told = client.told().unwrap();
            assert_eq!(told.errno, errno, "{kind} {flags} {offset} {length}: {told:?}");
        }
        works(&mut client, SIZE - 5000, 7);
        let mut reader = Client::negotiate(&socket, "readonly", structured).unwrap();
        for kind in [WRITE, TRIM, ZEROES] {
            let payload = vec![1; if kind == WRITE { 512 } else { 0 }];
            reader.send(kind, 0, 0, 512, &payload).unwrap();
            assert_eq!(reader.told().unwrap().errno, EPERM);
        }
        assert_eq!(reader.read(SIZE - 1, 1).unwrap(), [7]);
    }
    until_quiet(&server, 0);
    end(&server);
}

/// Is a client that sends as fast as it can and never reads stopped by its own socket, before it
/// has filled the server's memory with answers? Refused requests, short writes, block status: none
/// of them needs memory for data.
#[test]
fn a_flood_is_stopped_by_its_own_socket() {
    let (folder, config) = setting("flood");
    let server = start(config);
    let mut other = connect(&folder);
    let mut floods = Vec::new();
    let one = |kind, offset, length, payload: &[u8]| request(kind, 0, 1, offset, length, payload);
    for bytes in [one(READ, SIZE, 1, &[]), one(WRITE, 3, 1, &[1]), one(STATUS, 0, 4096, &[])] {
        let mut flood = connect(&folder);
        flood.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let many = bytes.repeat(1000);
        let mut sent = 0;
        while let Ok(taken) = flood.stream.write(&many) {
            sent += taken;
            // Sockets take some 200 KiB each way, the server 64 KiB of answers and 256 KiB of
            // requests: far less than that.
            assert!(sent < 16 << 20, "{sent} bytes of requests, and no answer was taken");
        }
        works(&mut other, 1 << 20, 4);
        floods.push(flood);
    }
    assert!(snapshot(&server).memory_used <= snapshot(&server).memory);
    // Does it go on where it was, once it listens?
    let first = &mut floods[0];
    for _ in 0..5000 {
        assert_eq!(first.told().unwrap().errno, EINVAL);
    }
    drop(floods);
    until_quiet(&server, 1);
    end(&server);
}

/// Are requests answered that came with the last option of the handshake, in one piece?
#[test]
fn who_does_not_wait_is_heard_too() {
    let (folder, config) = setting("hasty");
    let server = start(config);
    let mut client = Client::greet(&folder.path("nbd.sock")).unwrap();
    let mut bytes = 0x4948_4156_454f_5054_u64.to_be_bytes().to_vec();
    // EXPORT_NAME "disk", answered by size and flags (10 bytes; the zeroes are left out).
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 4]);
    bytes.extend(b"disk");
    bytes.extend(request(WRITE, 0, 1, 4096, 3, b"abc"));
    bytes.extend(request(READ, 0, 2, 0, 3, &[]));
    client.stream.write_all(&bytes).unwrap();
    // In any order.
    let mut answer = [0; 10 + 16 + 16 + 3];
    client.stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..8], SIZE.to_be_bytes());
    let magics = answer.windows(4).filter(|bytes| **bytes == [0x67, 0x44, 0x66, 0x98]).count();
    assert_eq!(magics, 2, "two simple replies: {answer:?}");
    client.send(client::DISCONNECT, 0, 0, 0, &[]).unwrap();
    assert!(is_hung_up_on(&mut client));
    end(&server);
}
