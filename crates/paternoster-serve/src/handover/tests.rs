// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the protocol between two processes: every message is understood or refused.

use std::fs::File;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use paternoster_sim::chance::Chance;
use proptest::prelude::*;

use super::channel::{Channel, RECORD_MOST};
use super::record::{self, Asked, ConnectionState, Reading, VolumeBytes};
use super::taker::Takeover;
use crate::config::Identity;
use crate::control::snapshot::Figures;
use crate::device::Thing;
use crate::nbd::transmission::{HEADER, parse};
use crate::nbd::{ExportFacts, Negotiated};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// A record that is to be sent.
#[derive(Debug, Clone)]
struct Said {
    kind: u8,
    payload: Vec<u8>,
    fds: usize,
}

/// A record of this kind, with this many descriptors.
fn said(kind: u8, payload: &str, fds: usize) -> Said {
    Said { kind, payload: payload.into(), fds }
}

/// A connection to a disk.
fn connection(reading: Reading) -> ConnectionState {
    let negotiated = Negotiated {
        export: "disk".to_owned(),
        facts: ExportFacts { name: "disk".to_owned(), size: 1 << 20, ..ExportFacts::default() },
        structured: true,
        allocation: false,
        block_sizes_known: true,
    };
    let identity = Identity { export: "disk".to_owned(), ..Identity::default() };
    let (words, figures) = ("unix".to_owned(), Figures::default());
    ConnectionState { words, identity, negotiated, reading, figures, bytes: None }
}

/// The records that a server with these connections sends.
fn sound(connections: [ConnectionState; 4]) -> Vec<Said> {
    let connections = connections.map(|connection| {
        said(record::CONNECTION, &serde_json::to_string(&connection).unwrap(), 1)
    });
    let [within, skipping, header, over] = connections;
    vec![
        said(record::LISTENER, r#"{"at":"unix:/s"}"#, 1),
        said(record::CONTROL, r#"{"at":"/c"}"#, 1),
        said(record::CLAIM, r#"{"writes":true,"shared":false}"#, 1),
        said(record::FILE, r#"{"lost":0}"#, 2),
        said(record::INVENTORY, r#"{"pid":1,"notify":null,"watchdog":null}"#, 0),
        within,
        said(record::INPUT, "half a payload", 0),
        said(record::OUTPUT, "half an answer", 0),
        skipping,
        header,
        over,
        said(record::CONNECTIONS, r#"{"guests":4}"#, 0),
    ]
}

/// Connections, each in a different state of its current request.
fn connections() -> [ConnectionState; 4] {
    let asked = Asked { kind: 1, flags: 0, cookie: 7, offset: 4096, length: 8192 };
    let within =
        Reading::Within { asked: asked.clone(), cut: 4096, error: 0, answered: 0, owed: 0 };
    let skipping = Reading::Skipping { left: 9, asked, errno: 28, text: "full".to_owned() };
    [within, skipping, Reading::Header, Reading::Over].map(connection)
}

/// Sends these records and hangs up; returns the other side's result.
fn heard(all: &[Said], raw: &[u8]) -> Result<(), String> {
    let (one, other) = UnixStream::pair().unwrap();
    let file = File::open("/dev/null").unwrap();
    let hears = std::thread::spawn(move || Takeover::only_hear(other));
    let says = Channel::new(one).unwrap();
    for Said { kind, payload, fds } in all {
        let fds: Vec<_> = std::iter::repeat_n(file.as_fd(), *fds).collect();
        // It may have hung up.
        if says.send(*kind, payload, &fds, soon()).is_err() {
            break;
        }
    }
    let mut raw_stream = says.stream();
    let _gone = std::io::Write::write_all(&mut raw_stream, raw);
    let _gone = says.stream().shutdown(Shutdown::Write);
    hears.join().expect("no panic")
}

/// Is a correct message understood, and is one that is cut anywhere, or that lacks or repeats a
/// record, refused or understood without a panic?
#[test]
fn whatever_is_said_is_heard_or_refused() {
    let sound = sound(connections());
    assert_eq!(heard(&sound, &[]), Ok(()));
    for end in 0..sound.len() {
        assert!(heard(&sound[..end], &[]).is_err(), "{end} records");
    }
    let (mut understood, mut refused) = (0, 0);
    for seed in 0..300 {
        let mut chance = Chance::new(seed, 0);
        let mut all = sound.clone();
        let place = |chance: &mut Chance, length: usize| {
            usize::try_from(chance.below(length.max(1) as u64)).unwrap()
        };
        for _ in 0..=chance.below(3) {
            let at = place(&mut chance, all.len());
            match chance.below(6) {
                0 => drop(all.remove(at)),
                1 => all.insert(at, all[place(&mut chance, sound.len()) % all.len()].clone()),
                2 => all[at].kind = chance.below(256).to_le_bytes()[0],
                3 => all[at].fds = place(&mut chance, 3),
                4 => {
                    let end = place(&mut chance, all[at].payload.len());
                    all[at].payload.truncate(end);
                }
                _ => {
                    let byte = place(&mut chance, all[at].payload.len());
                    if let Some(byte) = all[at].payload.get_mut(byte) {
                        *byte ^= 1 << chance.below(8);
                    }
                }
            }
        }
        let raw: Vec<u8> =
            (0..chance.below(64)).map(|_| chance.below(256).to_le_bytes()[0]).collect();
        match heard(&all, &raw) {
            Ok(()) => understood += 1,
            Err(why) => {
                assert!(!why.is_empty() && why.len() < 2000, "seed {seed}: {why}");
                refused += 1;
            }
        }
    }
    println!("{understood} understood, {refused} refused");
    assert!(refused > 100);
}

/// Is a connection refused that has more than one name for its volume?
#[test]
fn a_connection_has_one_volume() {
    let changes: [fn(&mut ConnectionState) -> &mut String; 3] = [
        |it| &mut it.identity.export,
        |it| &mut it.negotiated.export,
        |it| &mut it.negotiated.facts.name,
    ];
    for (place, change) in changes.into_iter().enumerate() {
        let mut connections = connections();
        change(&mut connections[place]).push('s');
        let why = heard(&sound(connections), &[]).unwrap_err();
        assert!(why.contains("more than one name"), "{place}: {why}");
    }
}

/// Is a connection heard of a server that does not tell which bytes it has open, as those before
/// this was told?
#[test]
fn bytes_need_not_be_told() {
    let mut all = sound(connections());
    let header = 8;
    let mut told: serde_json::Value = serde_json::from_slice(&all[header].payload).unwrap();
    assert!(told.as_object_mut().unwrap().remove("bytes").is_some(), "it is one of a connection");
    all[header].payload = serde_json::to_vec(&told).unwrap();
    assert_eq!(heard(&all, &[]), Ok(()));
    for thing in [Some(Thing::File(1, 2)), Some(Thing::Block(3)), None] {
        let bytes = VolumeBytes { thing, start: 4096 };
        let said = serde_json::to_vec(&bytes).unwrap();
        assert_eq!(serde_json::from_slice::<VolumeBytes>(&said).unwrap(), bytes);
    }
}

/// Is text from the other side, an unknown field or its reason for refusing, logged briefly and
/// without terminal control characters?
#[test]
fn foreign_words_are_told_shortly() {
    let long = "\u{1b}é".repeat(10_000);
    let field = serde_json::json!({ long.as_str(): 1 }).to_string();
    let why = serde_json::json!({ "why": long }).to_string();
    for (record, says) in [
        (said(record::INVENTORY, &field, 0), "kind 7: unknown field"),
        (said(record::REFUSED, &why, 0), "refuses: ?é?é"),
    ] {
        let why = heard(&[record], &[]).unwrap_err();
        assert!(why.contains(says) && why.len() < 2000, "{} bytes: {why}", why.len());
        assert!(!why.contains(char::is_control), "{why}");
    }
}

/// Is a header that announces too many bytes or descriptors refused before memory is allocated for
/// them, and are descriptors that came with it closed?
#[test]
fn what_a_head_promises_is_bounded() {
    for head in [
        [record::LISTENER, 0, 0, 0, 255, 255, 255, 255],
        [record::LISTENER, 0, 0, 0, 1, 0, 16, 0],
        [record::LISTENER, 0, 7, 0, 0, 0, 0, 0],
        [record::LISTENER, 1, 0, 0, 2, 0, 0, 0],
        [record::LISTENER, 200, 0, 0, 2, 0, 0, 0],
    ] {
        let why = heard(&[], &head).unwrap_err();
        assert!(why.contains("at most 1048576"), "{why}");
    }
    let (one, other) = UnixStream::pair().unwrap();
    let (mine, theirs) = UnixStream::pair().unwrap();
    let (says, hears) = (Channel::new(one).unwrap(), Channel::new(other).unwrap());
    let too_long = vec![0; RECORD_MOST + 1];
    assert!(says.send(1, &too_long, &[], soon()).is_err());
    says.send(99, b"x", &[theirs.as_fd()], soon()).unwrap();
    drop(theirs);
    let taken = Takeover::hear(hears);
    assert!(taken.unwrap_err().contains("kind 99"));
    // All descriptors of its other end are closed.
    assert_eq!(std::io::Read::read(&mut &mine, &mut [0]).unwrap(), 0);
}

/// Does waiting for a silent process time out, and is the end of a process recognised?
#[test]
fn silence_and_the_end_are_two() {
    let (one, other) = UnixStream::pair().unwrap();
    let channel = Channel::new(other).unwrap();
    let by = Instant::now() + Duration::from_millis(20);
    let silent = channel.receive(Some(by)).unwrap_err();
    assert_eq!(silent.kind(), std::io::ErrorKind::TimedOut);
    drop(OwnedFd::from(one));
    let gone = channel.receive(Some(soon())).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::UnexpectedEof);
}

proptest! {
    /// Is a request the same on the other side, whatever a client sent?
    #[test]
    fn requests_go_over(mut header in prop::array::uniform28(any::<u8>())) {
        header[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        if let Ok(request) = parse(&header) {
            prop_assert_eq!(Asked::of(&request).request(), Ok(request));
        }
        prop_assert_eq!(header.len(), HEADER);
    }

    /// Are the export's facts, as negotiated with a client, the same on the other side?
    #[test]
    fn what_was_agreed_goes_over(size: u64, flags: [bool; 9], rest: [bool; 3], block: u32) {
        let [readonly, flush, fua, trim, zeroes, fast_zero, cache, multi_conn, rotational] = flags;
        let facts = ExportFacts {
            name: "é".to_owned(),
            description: "x".to_owned(),
            size,
            readonly,
            block,
            preferred: block / 2,
            most: block / 3,
            flush,
            fua,
            trim,
            zeroes,
            fast_zero,
            cache,
            multi_conn,
            rotational,
        };
        let [structured, allocation, block_sizes_known] = rest;
        let export = "é".to_owned();
        let told = Negotiated { export, facts, structured, allocation, block_sizes_known };
        let said = serde_json::to_vec(&told).unwrap();
        let heard: Negotiated = serde_json::from_slice(&said).unwrap();
        prop_assert_eq!(heard, told);
    }
}
