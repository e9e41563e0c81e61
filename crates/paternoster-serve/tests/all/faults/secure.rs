// SPDX-License-Identifier: MIT OR Apache-2.0
//! Under TLS: clients that take nothing, and such as leave as they should.

use std::io::{Read, Write};

use paternoster_core::Nanos;

use crate::common::client::{DISCONNECT, READ, request};
use crate::common::secure::{connect, read, secure_setting};
use crate::common::watch::until_quiet;
use crate::common::{end, start};

/// Is a client that takes no answers disconnected, under TLS too?
#[test]
fn who_takes_nothing_must_go() {
    let (folder, mut config, certificate) = secure_setting("deaf");
    config.server.stall_timeout = Nanos::from_millis(100);
    let server = start(config);
    let mut deaf = connect(&folder, &certificate);
    deaf.write_all(&request(READ, 0, 1, 0, 1 << 20, &[]).repeat(4)).unwrap();
    until_quiet(&server, 0);
    end(&server);
}

/// Does a client that disconnects properly get the end of TLS, and not only that of the socket?
#[test]
fn the_end_is_told() {
    let (folder, config, certificate) = secure_setting("bye");
    let server = start(config);
    let mut client = connect(&folder, &certificate);
    read(&mut client, 100_000);
    client.write_all(&request(DISCONNECT, 0, 0, 0, 0, &[])).unwrap();
    // Without the last word this would be an error.
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    end(&server);
}
