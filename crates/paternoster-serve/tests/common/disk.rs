// SPDX-License-Identifier: MIT OR Apache-2.0
//! The volume that most tests of faults have: `disk`, in memory, under bfq.

use paternoster_serve::config::Config;

use super::{Client, Folder, config, device};

/// Bytes of it.
pub(crate) const SIZE: u64 = 8 << 20;

/// A folder, and what serves the file `disk` in it under bfq.
pub(crate) fn setting(name: &str) -> (Folder, Config) {
    let folder = Folder::in_memory(name);
    let file = folder.file("disk", SIZE);
    let config = config(&folder, device("bfq", &[("disk", &file)]));
    (folder, config)
}

/// A client of it.
pub(crate) fn connect(folder: &Folder) -> Client {
    Client::connect(&folder.path("nbd.sock"), "disk").expect("a connection")
}

/// Whether a client can write and read at `at`.
pub(crate) fn works(client: &mut Client, at: u64, byte: u8) {
    assert_eq!(client.write(0, at, &[byte; 5000]).expect("an answer"), 0);
    assert!(client.read(at, 5000).expect("an answer") == [byte; 5000]);
}
