// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends: a volume is drained, the server is stopped, or killed in the middle of it all.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use paternoster_core::Nanos;
use paternoster_serve::config::Config;
use paternoster_serve::control::order::Order;
use paternoster_serve::server::Server;

use crate::common::client::{READ, WRITE, request};
use crate::common::disk::{SIZE, connect, setting, works};
use crate::common::watch::{snapshot, until};
use crate::common::{Client, Folder, config, device, end, slow, start, start_behind};

const ESHUTDOWN: u32 = 108;

/// Writes that were read from their sockets, whether they are done or under way.
fn writes_taken(server: &Server) -> u64 {
    let snapshot = snapshot(server);
    let taken =
        snapshot.connections.iter().map(|one| u64::from(one.under_way) + one.figures.writes);
    taken.sum()
}

/// Does a drained volume end what was begun, refuse the rest with ESHUTDOWN, and go on when
/// resumed?
#[test]
fn a_volume_is_drained_and_resumed() {
    let (folder, config) = setting("drain");
    let server = start_behind(config, slow);
    let mut client = connect(&folder);
    for at in 0..32 {
        client.send(WRITE, 0, at << 12, 4096, &[6; 4096]).unwrap();
    }
    until("32 requests", || writes_taken(&server) == 32);
    let volume = "disk".to_owned();
    let drained = server.device_loops()[0].ask(Order::Drain { volume: volume.clone() });
    assert!(drained.is_ok(), "{drained:?}");
    assert_eq!(snapshot(&server).waiting, 0, "drained is drained");
    for _ in 0..32 {
        assert_eq!(client.told().unwrap().errno, 0);
    }
    assert_eq!(client.ask(READ, 0, 0, 4096).unwrap().errno, ESHUTDOWN);
    assert_eq!(client.write(0, 0, &[1; 70_000]).unwrap(), ESHUTDOWN);
    server.device_loops()[0].ask(Order::Resume { volume }).unwrap();
    assert!(client.read(0, 32 << 12).unwrap() == [6; 32 << 12]);
    end(&server);
}

/// Are all requests answered that are under way when the server is stopped, and is what they wrote
/// there?
#[test]
fn a_stop_waits_for_what_is_under_way() {
    let (folder, config) = setting("stop");
    let server = start_behind(config, slow);
    let mut client = connect(&folder);
    let idle = connect(&folder);
    for at in 0..32 {
        client.send(WRITE, 0, at << 12, 4096, &[8; 4096]).unwrap();
    }
    until("32 requests", || writes_taken(&server) == 32);
    end(&server);
    for _ in 0..32 {
        assert_eq!(client.told().unwrap().errno, 0);
    }
    assert!(client.told().is_err(), "and then it has ended");
    assert!(Client::connect(&folder.path("nbd.sock"), "disk").is_err());
    let written = std::fs::read(folder.path("disk")).unwrap();
    assert!(written[..32 << 12] == [8; 32 << 12]);
    drop(idle);
}

/// Does a client that does nothing about it not keep a server from ending?
#[test]
fn a_stop_does_not_wait_for_ever() {
    let (folder, mut config) = setting("forever");
    config.server.drain_timeout = Nanos::from_millis(200);
    let server = start(config);
    let mut slow = connect(&folder);
    slow.stream.write_all(&request(WRITE, 0, 1, 0, 1 << 20, &[7; 100])).unwrap();
    let mut deaf = connect(&folder);
    for at in 0..64 {
        deaf.send(READ, 0, at << 16, 1 << 16, &[]).unwrap();
    }
    end(&server);
}

const CHILD: &str = "PATERNOSTER_TEST_SERVE";

fn killed(folder: &Path) -> Config {
    // Its folder is the parent's: it is not removed when the child ends.
    let folder = Folder::of_another(folder);
    config(&folder, device("bfq", &[("disk", &folder.path("disk"))]))
}

/// What the child of [`what_was_flushed_is_there_after_a_kill`] does; nothing otherwise.
#[test]
fn serves_as_a_child() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let server = start(killed(Path::new(&folder)));
        // Until it is killed.
        server.wait().unwrap();
    }
}

/// Kills its process at its end, whatever happens before.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn serve_in_a_child(folder: &Folder) -> (Serving, Client) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "faults::ends::serves_as_a_child", "--test-threads=1"]);
    command.env(CHILD, folder.path("")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Serving(command.spawn().unwrap());
    let mut client = None;
    until("a server", || {
        assert!(child.0.try_wait().unwrap().is_none(), "the server has ended");
        client = Client::connect(&folder.path("nbd.sock"), "disk").ok();
        client.is_some()
    });
    (child, client.unwrap())
}

/// Is everything there that was flushed before the server was killed in the middle of writing; and
/// does its leftover socket not hinder the next one?
#[test]
fn what_was_flushed_is_there_after_a_kill() {
    const PLACES: u32 = 64;
    let folder = Folder::on_disk("kill");
    folder.file("disk", SIZE);
    // For each place, the last generation whose flush was acknowledged.
    let mut safe = [0u32; 64];
    let mut generation = 0u32;
    let write = |client: &mut Client, place: u64, generation: u32| {
        // Not in whole blocks, so that some of it is read before it is written.
        let data = generation.to_be_bytes().repeat(1500);
        client.send(WRITE, 0, place * 6000, 6000, &data).unwrap();
    };
    for _ in 0..3 {
        let (child, mut client) = serve_in_a_child(&folder);
        for _ in 0..5 {
            generation += 1;
            (0..PLACES).for_each(|place| write(&mut client, place.into(), generation));
            for _ in 0..PLACES {
                assert_eq!(client.told().unwrap().errno, 0);
            }
            assert_eq!(client.flush().unwrap(), 0);
            safe.fill(generation);
        }
        // In the middle of the next ones.
        generation += 1;
        (0..PLACES).for_each(|place| write(&mut client, place.into(), generation));
        let _one_of_them = client.told();
        drop(child);
        assert!(folder.path("nbd.sock").exists(), "left behind");
    }
    let server = start(killed(&folder.path("")));
    let mut client = connect(&folder);
    for (place, &safe) in (0..).zip(&safe) {
        let data = client.read(place * 6000, 6000).unwrap();
        for found in data.chunks(4) {
            let found = u32::from_be_bytes(found.try_into().unwrap());
            assert!(found >= safe && found <= generation, "{place}: {found}, {safe} was flushed");
        }
    }
    works(&mut client, 0, 1);
    end(&server);
}
