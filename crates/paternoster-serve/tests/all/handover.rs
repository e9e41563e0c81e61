// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handover between two servers of this process: what becomes of clients under TLS, of volumes that
//! are other bytes now, of counters and of caps. (Under load, with processes that are killed: the
//! program's `tests/all/handover.rs`.)

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use paternoster_serve::config::{Address, Config, Listen, TlsMode};
use paternoster_serve::server::Server;
use rustls::pki_types::CertificateDer;

use crate::common::client::{READ, WRITE, request};
use crate::common::secure::{Secure, connect, read, secure_setting};
use crate::common::watch::snapshot;
use crate::common::{Client, Folder, config, device, end, start, take_over};

/// Waits for the end of a server in a thread, as the program's main thread does.
fn ends(server: Server) -> JoinHandle<Result<(), String>> {
    std::thread::spawn(move || server.wait())
}

/// A server with a door under TLS and another one, and a client that has come in by each.
struct TwoDoors {
    folder: Folder,
    config: Config,
    certificate: CertificateDer<'static>,
    server: Server,
    secure: Secure,
    beside: Client,
}

fn two_doors(name: &str) -> TwoDoors {
    let (folder, mut config, certificate) = secure_setting(name);
    config.server.control = Some(folder.path("control"));
    let plain = folder.path("plain.sock");
    let at = Address::Unix { path: plain.clone(), mode: 0o600 };
    config.server.listen.push(Listen { at, tls: TlsMode::Off });
    let server = start(config.clone());
    let secure = connect(&folder, &certificate);
    let beside = Client::connect(&plain, "disk").expect("a server");
    TwoDoors { folder, config, certificate, server, secure, beside }
}

/// Are a TLS client's requests answered, its session ended properly, and the client accepted again,
/// while another client keeps its connection and its counts?
#[test]
fn a_client_under_tls_is_told_to_reconnect() {
    let TwoDoors { folder, config, certificate, server, mut secure, mut beside } =
        two_doors("handover-tls");
    assert_eq!(beside.write(0, 0, &[7; 4096]).expect("an answer"), 0);
    read(&mut secure, 4096);
    secure.write_all(&request(READ, 0, 1, 0, 300_000, &[])).expect("it listens");
    // It is in the server's hands, not in the socket: behind it something else was answered.
    assert_eq!(beside.flush().expect("an answer"), 0);
    let old = ends(server);
    let new = take_over(config);
    let mut answer = vec![0; 16 + 300_000];
    secure.read_exact(&mut answer).expect("what it asked for");
    assert_eq!(answer[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    // Without the last word this would be an error.
    assert_eq!(secure.read(&mut [0; 1]).expect("a close in order"), 0);
    old.join().expect("no panic").expect("it ends in good order");
    read(&mut connect(&folder, &certificate), 4096);
    let told = beside.ask(READ, 0, 0, 4096).expect("the same connection");
    assert_eq!((told.errno, &told.data[0].1[..]), (0, &[7; 4096][..]));
    let now = snapshot(&new);
    let counted = now.connections.iter().map(|it| (it.figures.writes, it.figures.flushes));
    assert!(counted.clone().any(|it| it == (1, 1)), "{now:?}");
    let tenant = now.tenants.iter().find(|it| it.name == "disk").expect("it is there");
    assert_eq!((tenant.figures.writes, tenant.figures.flushes), (1, 1));
    end(&new);
    let plain = folder.path("plain.sock");
    assert!(UnixStream::connect(&plain).is_err());
    assert!(!plain.exists() && !folder.path("control").exists());
}

/// Is a write of a TLS client neither done nor answered if its payload has not come when another
/// server takes over, so that no flush of that one misses it, and does the old one end at once?
#[test]
fn half_a_write_under_tls_is_left_to_its_client() {
    let TwoDoors { folder, config, certificate, server, mut secure, mut beside } =
        two_doors("handover-half");
    let write = request(WRITE, 0, 7, 0, 65_536, &[7; 65_536]);
    let (first, second) = write.split_at(40_000);
    secure.write_all(first).expect("it listens");
    assert_eq!(beside.flush().expect("an answer"), 0);
    let (old, begun) = (ends(server), Instant::now());
    let new = take_over(config);
    // It may hear no more.
    let _gone = secure.write_all(second);
    let mut answer = Vec::new();
    let _end = secure.read_to_end(&mut answer);
    assert!(answer.is_empty(), "no answer");
    old.join().expect("no panic").expect("it ends in good order");
    assert!(begun.elapsed() < Duration::from_secs(10), "it has 20 s for its clients");
    assert!(beside.read(40_960, 4096).expect("the same connection") == [0; 4096]);
    let mut again = connect(&folder, &certificate);
    again.write_all(&write).expect("it listens");
    again.read_exact(&mut [0; 16]).expect("an answer");
    assert!(beside.read(61_440, 4096).expect("the same connection") == [7; 4096]);
    end(&new);
}

/// Is a client disconnected whose volume, under the same name and of the same size, is another file
/// or another range at the new server, and does one go on whose file has but another name there?
#[test]
fn no_client_goes_on_with_other_bytes() {
    let folder = Folder::in_memory("handover-bytes");
    let [a, b, c] = ["a", "b", "c"].map(|name| folder.file(name, 1 << 20));
    let files = [("one", &*a), ("two", &*b), ("part", &*c), ("kept", &*folder.file("d", 1 << 20))];
    let mut config = config(&folder, device("noop", &files));
    config.server.control = Some(folder.path("control"));
    config.devices[0].volumes[2].length = Some(1 << 19);
    let old = start(config.clone());
    let connect = |name: &str| Client::connect(&folder.path("nbd.sock"), name).expect("a server");
    let [mut one, mut part, mut kept] = ["one", "part", "kept"].map(connect);
    for (client, byte) in [(&mut one, 1), (&mut part, 2), (&mut kept, 3)] {
        assert_eq!(client.write(0, 0, &[byte; 4096]).expect("an answer"), 0);
    }
    std::fs::hard_link(folder.path("d"), folder.path("again")).expect("another name");
    let volumes = &mut config.devices[0].volumes;
    volumes[0].path.clone_from(&b);
    volumes[1].path.clone_from(&a);
    volumes[2].start = 1 << 19;
    volumes[3].path = folder.path("again");
    let old = ends(old);
    let new = take_over(config);
    old.join().expect("no panic").expect("it ends in good order");
    assert!(kept.read(0, 4096).expect("the same connection") == [3; 4096]);
    for client in [&mut one, &mut part] {
        assert!(client.write(0, 0, &[9; 4096]).is_err(), "it must reconnect");
    }
    assert!(connect("one").read(0, 4096).expect("an answer") == [0; 4096]);
    assert!(connect("two").read(0, 4096).expect("an answer") == [1; 4096]);
    end(&new);
}
