// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that fail, refuse, are late, return short, or are full.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};

use paternoster_core::Nanos;
use paternoster_serve::config::Engine;
use paternoster_serve::device::Backend;
use paternoster_serve::device::faulty::{Effect, Fault, Faulty, Often, Which};

use crate::common::client::{FLUSH, READ, WRITE, ZEROES};
use crate::common::disk::{SIZE, connect, setting, works};
use crate::common::watch::{snapshot, until, until_quiet};
use crate::common::{Client, Folder, config, device, end, start, start_behind, uneven, with_fault};

const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const FUA: u16 = 1;

fn second_read_fails(inner: Box<dyn Backend>) -> Box<dyn Backend> {
    with_fault(inner, Which::Reads, Often::Every(2), Effect::Fails(libc::EIO))
}

fn is_full(inner: Box<dyn Backend>) -> Box<dyn Backend> {
    with_fault(inner, Which::Writes, Often::Every(1), Effect::Fails(libc::ENOSPC))
}

fn flushes_fail(inner: Box<dyn Backend>) -> Box<dyn Backend> {
    with_fault(inner, Which::Flushes, Often::Every(1), Effect::FailsAfterwards(libc::EIO))
}

fn refuses_half(inner: Box<dyn Backend>) -> Box<dyn Backend> {
    with_fault(inner, Which::All, Often::OneIn(2), Effect::Refused)
}

/// Does a read that fails fail alone, with EIO, under either kind of reply?
#[test]
fn reads_fail_one_by_one() {
    let (folder, config) = setting("eio");
    let server = start_behind(config, second_read_fails);
    for structured in [true, false] {
        let mut client = Client::negotiate(&folder.path("nbd.sock"), "disk", structured).unwrap();
        for round in 0..10 {
            let told = client.ask(READ, 0, 4096, 4096).unwrap();
            assert_eq!(told.errno, if round % 2 == 0 { 0 } else { EIO }, "{round}");
        }
    }
    until_quiet(&server, 0);
    end(&server);
}

/// Is a long read that fails in the middle reported as failed: by an error with structured replies;
/// without them by hanging up, since its first data have been sent; and is the connection gone
/// then?
#[test]
fn a_long_read_fails_in_the_middle() {
    let (folder, config) = setting("middle");
    let server = start_behind(config, second_read_fails);
    let socket = folder.path("nbd.sock");
    let kinds = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
    for _ in 0..3 {
        // One part after the other: the first is read, the second fails, and then it is over.
        let mut simple = Client::negotiate(&socket, "disk", false).unwrap();
        let error = simple.ask(READ, 0, 0, 2 << 20).unwrap_err();
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    until_quiet(&server, 0);
    // And if the first part fails, that is reported, and the connection goes on.
    let mut simple = Client::negotiate(&socket, "disk", false).unwrap();
    assert_eq!(simple.ask(READ, 0, 0, 4096).unwrap().errno, 0);
    assert_eq!(simple.ask(READ, 0, 0, 2 << 20).unwrap().errno, EIO);
    assert_eq!(simple.ask(READ, 0, 0, 4096).unwrap().errno, 0);
    // Several parts, in any order, every other of which fails.
    let mut structured = connect(&folder);
    assert_eq!(structured.ask(READ, 0, 0, 2 << 20).unwrap().errno, EIO);
    drop((simple, structured));
    until_quiet(&server, 0);
    end(&server);
}

/// Are a write that ends, a flush, and another read answered after a long read of which half has
/// been sent, and not within it? Without structured replies a client takes all that follows its
/// header for its data.
#[test]
fn nothing_is_told_within_a_long_read() {
    /// A read's first part comes at once, its second after the ends of all else.
    fn second_half_is_late(inner: Box<dyn Backend>) -> Box<dyn Backend> {
        let fault = |which, often, time| {
            let effect = Effect::Late(Nanos::from_millis(time));
            Fault { which, often: Often::Every(often), effect }
        };
        let faults = [fault(Which::Writes, 1, 20), fault(Which::Reads, 2, 100)];
        Box::new(Faulty::new(inner, &faults, 1))
    }
    for scheduler in ["noop", "bfq"] {
        let (folder, mut config) = setting("within");
        config.devices[0].scheduler = scheduler.into();
        let data = uneven(SIZE);
        std::fs::write(folder.path("disk"), &data).unwrap();
        let server = start_behind(config, second_half_is_late);
        let mut client = Client::negotiate(&folder.path("nbd.sock"), "disk", false).unwrap();
        // Parts have at most 1 MiB: this read has two.
        let write = client.send(WRITE, FUA, SIZE - 4096, 4096, &[1; 4096]).unwrap();
        let read = client.send(READ, 0, 0, 2 << 20, &[]).unwrap();
        let flush = client.send(FLUSH, 0, 0, 0, &[]).unwrap();
        let small = client.send(READ, 0, 512, 512, &[]).unwrap();
        let mut told = Vec::new();
        for _ in 0..4 {
            let reply = client.told().unwrap();
            assert_eq!(reply.errno, 0, "{reply:?}");
            told.push(reply.cookie);
            let (at, length) = match reply.cookie {
                cookie if cookie == read => (0, 2 << 20),
                cookie if cookie == small => (512, 512),
                _ => continue,
            };
            let mut came = vec![0; length];
            client.stream.read_exact(&mut came).unwrap();
            let wrong = came.iter().zip(&data[at..]).position(|(came, there)| came != there);
            assert_eq!(wrong, None, "under {scheduler}: the first byte that is not the volume's");
        }
        told.sort_unstable();
        assert_eq!(told, [write, read, flush, small]);
        drop(client);
        until_quiet(&server, 0);
        end(&server);
    }
}

/// Is a full device told as ENOSPC to writes and zeroing of any shape, while reads go on?
#[test]
fn a_full_device() {
    let (folder, config) = setting("full");
    let server = start_behind(config, is_full);
    let mut client = connect(&folder);
    for (offset, length) in [(0, 4096), (100, 10), (4096, 3 << 20), (1, 2 << 20)] {
        for flags in [0, FUA] {
            assert_eq!(client.write(flags, offset, &vec![1; length]).unwrap(), ENOSPC);
        }
        let zeroed = client.ask(ZEROES, 0, offset, u32::try_from(length).unwrap()).unwrap();
        assert_eq!(zeroed.errno, ENOSPC);
        assert_eq!(client.read(offset, 4096).unwrap(), [0; 4096]);
    }
    drop(client);
    until_quiet(&server, 0);
    end(&server);
}

/// Is a failed flush reported to all clients that requested one, and to no other?
#[test]
fn a_failing_flush() {
    let (folder, config) = setting("flush");
    let server = start_behind(config, flushes_fail);
    let (mut one, mut other) = (connect(&folder), connect(&folder));
    works(&mut one, 0, 1);
    works(&mut other, 0, 2);
    assert_eq!((one.flush().unwrap(), other.flush().unwrap()), (EIO, EIO));
    works(&mut one, 0, 3);
    drop((one, other));
    until_quiet(&server, 0);
    end(&server);
}

/// Is everything that a device refuses at first done in the end?
#[test]
fn what_is_refused_is_asked_for_again() {
    for scheduler in ["noop", "mq-deadline", "bfq"] {
        let (folder, mut config) = setting("refuses");
        config.devices[0].scheduler = scheduler.into();
        let server = start_behind(config, refuses_half);
        let mut client = connect(&folder);
        for at in 0..40 {
            client.send(WRITE, FUA, at * 5000, 5000, &[9; 5000]).unwrap();
        }
        for _ in 0..40 {
            assert_eq!(client.told().unwrap().errno, 0);
        }
        assert_eq!(client.flush().unwrap(), 0);
        assert!(client.read(0, 200_000).unwrap() == [9; 200_000]);
        end(&server);
    }
}

/// If a device accepts nothing any more, can a client still disconnect, and the server stop?
#[test]
fn a_device_that_takes_nothing() {
    fn takes_nothing(inner: Box<dyn Backend>) -> Box<dyn Backend> {
        with_fault(inner, Which::All, Often::Every(1), Effect::Refused)
    }
    let (folder, mut config) = setting("nothing");
    config.server.drain_timeout = Nanos::from_millis(200);
    let server = start_behind(config, takes_nothing);
    let mut gone = connect(&folder);
    gone.send(READ, 0, 0, 4096, &[]).unwrap();
    drop(gone);
    until_quiet(&server, 0);
    let mut waiting = connect(&folder);
    waiting.send(WRITE, 0, 0, 4096, &[1; 4096]).unwrap();
    until("its write", || snapshot(&server).connections.iter().any(|one| one.under_way == 1));
    end(&server);
    assert!(waiting.told().is_err(), "nobody has answered, nobody ever will");
}

/// Does a server stop although a device hangs, and does it report which device, and what it has not
/// done?
#[test]
fn a_device_that_hangs() {
    fn hangs(inner: Box<dyn Backend>) -> Box<dyn Backend> {
        let late = Effect::Late(Nanos::from_secs(1 << 20));
        with_fault(inner, Which::Writes, Often::Every(1), late)
    }
    let (folder, mut config) = setting("hangs");
    config.server.drain_timeout = Nanos::from_millis(100);
    config.server.device_timeout = Nanos::from_millis(100);
    let server = start_behind(config, hangs);
    let mut waiting = connect(&folder);
    waiting.send(WRITE, 0, 8192, 4096, &[1; 4096]).unwrap();
    until("its write", || snapshot(&server).in_device == 1);
    server.stop();
    let told = server.wait().unwrap_err();
    assert!(told.contains("device dev") && told.contains("Write of 4096 bytes at 8192"), "{told}");
    assert!(waiting.told().is_err(), "nobody has answered, nobody ever will");
}

/// If a file is truncated while it is served, do reads beyond its new end fail with EIO, with
/// either engine, and do reads of the rest succeed?
#[test]
fn a_file_that_became_shorter() {
    for engine in [Engine::Auto, Engine::Threads] {
        for folder in [Folder::in_memory("short"), Folder::on_disk("short")] {
            let file = folder.file("disk", SIZE);
            let mut dev = device("mq-deadline", &[("disk", &file)]);
            dev.engine = engine.clone();
            let server = start(config(&folder, dev));
            let mut client = connect(&folder);
            works(&mut client, 0, 1);
            let truncated = OpenOptions::new().write(true).open(&file).unwrap();
            truncated.set_len(1 << 20).unwrap();
            for (offset, length, errno) in [
                (2 << 20, 4096, EIO),
                ((1 << 20) - 4096, 8192, EIO),
                (0, 3 << 20, EIO),
                (0, 512, 0),
            ] {
                let told = client.ask(READ, 0, offset, length).unwrap();
                assert_eq!(told.errno, errno, "{offset} + {length} by {engine:?}");
            }
            // Writing whole blocks, which need not be read first, makes the file longer again.
            assert_eq!(client.write(0, SIZE - 4096, &[2; 4096]).unwrap(), 0);
            assert_eq!(client.read(SIZE - 4096, 4096).unwrap(), [2; 4096]);
            drop(client);
            until_quiet(&server, 0);
            end(&server);
        }
    }
}
