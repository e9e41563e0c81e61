// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reliability: a test for each thing that clients, devices and administrators do wrong.
//!
//! | who | does | where |
//! |---|---|---|
//! | a client | dies, stalls, sends garbage, asks past the end, floods | `clients` |
//! | a client | wants all of the memory, all of one block | `greed` |
//! | many clients | come at once, or are too many, or never choose | `crowd` |
//! | a device | fails, refuses, returns short, is full | `devices` |
//! | an administrator | drains, stops, kills, starts again | `ends` |
//! | a client | does so under TLS | `secure` |
//! | anybody | speaks to the wrong socket | `doors` |
//!
//! Beside each of them there is a client that behaves well and must not notice. At the end no
//! memory is in use, nothing is under way, and nobody is connected who has gone.

#[path = "../common/mod.rs"]
mod common;

mod clients;
mod crowd;
mod devices;
mod doors;
mod ends;
mod greed;
mod secure;

use common::{Client, Folder, config, device};
use paternoster_serve::config::Config;

const SIZE: u64 = 8 << 20;

/// A folder, and what serves the file `disk` in it under bfq.
fn setting(name: &str) -> (Folder, Config) {
    let folder = Folder::in_memory(name);
    let file = folder.file("disk", SIZE);
    let config = config(&folder, device("bfq", &[("disk", &file)]));
    (folder, config)
}

/// A client of it.
fn connect(folder: &Folder) -> Client {
    Client::connect(&folder.path("nbd.sock"), "disk").expect("a connection")
}

/// Whether a client can write and read at `at`.
fn works(client: &mut Client, at: u64, byte: u8) {
    assert_eq!(client.write(0, at, &[byte; 5000]).expect("an answer"), 0);
    assert!(client.read(at, 5000).expect("an answer") == [byte; 5000]);
}
