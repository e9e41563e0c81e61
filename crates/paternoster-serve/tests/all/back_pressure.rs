// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do clients that do not listen, or have not finished speaking, keep others from being served?

use std::io::{ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use paternoster_core::Nanos;
use paternoster_serve::control::order::Order;
use paternoster_serve::control::snapshot::Snapshot;
use paternoster_serve::server::Server;

use crate::common::client::{READ, WRITE, request};
use crate::common::{Client, Folder, config, device, end, start};

const SIZE: u64 = 4 << 20;

fn snapshot(server: &Server) -> Snapshot {
    serde_json::from_value(server.device_loops()[0].ask(Order::Snapshot).unwrap()).unwrap()
}

/// Ten clients ask for all of the volume and take nothing of it: are others served meanwhile, out
/// of memory for just one such answer?
#[test]
fn who_does_not_listen_does_not_keep_the_memory() {
    let folder = Folder::in_memory("deaf");
    let file = folder.file("disk", SIZE);
    let mut config = config(&folder, device("bfq", &[("disk", &file)]));
    // No client is disconnected: it must work while they are here.
    config.server.stall_timeout = Nanos::from_secs(3600);
    let server = start(config);
    let socket = folder.path("nbd.sock");
    let deaf: Vec<Client> = (0..10)
        .map(|_| {
            let mut client = Client::connect(&socket, "disk").unwrap();
            client.send(READ, 0, 0, u32::try_from(SIZE).unwrap(), &[]).unwrap();
            client
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(60);
    while snapshot(&server).connections.iter().filter(|one| one.under_way == 1).count() < 10 {
        assert!(Instant::now() < until, "their requests are taken");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut client = Client::connect(&socket, "disk").unwrap();
    assert_eq!(client.write(0, 1 << 20, &[7; 1 << 20]).unwrap(), 0);
    assert!(client.read(1 << 20, 1 << 20).unwrap() == [7; 1 << 20]);
    assert_eq!(snapshot(&server).connections.len(), 11);
    drop((deaf, client));
    end(&server);
}

/// Is a write that is refused answered when its payload has come, and not before? libnbd takes an
/// answer to a request that it is still sending for garbage, and hangs up.
#[test]
fn refusals_wait_for_the_payload() {
    let folder = Folder::in_memory("early");
    let file = folder.file("disk", SIZE);
    let server = start(config(&folder, device("noop", &[("disk", &file)])));
    let mut client = Client::connect(&folder.path("nbd.sock"), "disk").unwrap();
    let payload = vec![1; 1 << 20];
    let write = request(WRITE, 0, 9, SIZE - 512, 1 << 20, &payload);
    let (first, rest) = write.split_at(write.len() / 2);
    client.stream.write_all(first).unwrap();
    client.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let early = client.stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::WouldBlock);
    client.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client.stream.write_all(rest).unwrap();
    let told = client.told().unwrap();
    // ENOSPC, by the protocol's number.
    assert_eq!((told.cookie, told.errno), (9, 28));
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
    end(&server);
}
