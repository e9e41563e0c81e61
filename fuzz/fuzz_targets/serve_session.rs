// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of whole sessions: negotiation, loop and a file in memory, as in the server. No thread
//! panics, and a client that sends no more is disconnected.
//!
//! One server for all inputs: an input may find what another left, as clients do.
#![no_main]

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use paternoster_serve::config;
use paternoster_serve::host::activation::Inherited;
use paternoster_serve::host::listen;
use paternoster_serve::server::{Options, Server};

/// Path of the server's socket.
fn socket() -> &'static str {
    static SERVER: OnceLock<(Server, String)> = OnceLock::new();
    &SERVER
        .get_or_init(|| {
            let at = format!("/dev/shm/paternoster-fuzz-{}", std::process::id());
            let (file, socket) = (format!("{at}.img"), format!("{at}.socket"));
            File::create(&file).and_then(|file| file.set_len(1 << 20)).expect("a file");
            let text = format!(
                "[server]\nlisten = \"unix:{socket}\"\n[device.d]\n[volume.a]\ndevice = \"d\"\n\
                 path = \"{file}\"\n"
            );
            let config = config::Config::parse("fuzz.toml", &text).expect("a configuration");
            let sockets = listen::open(&config.server, &mut Inherited::default(), None);
            let server = Server::start(config, Options::default(), sockets.expect("a socket"));
            (server.expect("a server"), socket)
        })
        .1
}

/// Flags, structured replies and GO for the volume: most inputs should get past them.
const IN: &[u8] =
    b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0IHAVEOPT\0\0\0\x07\0\0\0\x07\0\0\0\x01a\0\0";

fuzz_target!(|data: (bool, Vec<u8>)| {
    let (is_in, bytes) = data;
    let mut client = UnixStream::connect(socket()).expect("the server is there");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let mut other = client.try_clone().expect("a descriptor");
    // Answers are read while it sends, as a client must.
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match other.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    });
    let said = [if is_in { IN } else { &[] }, &bytes].concat();
    // It may be disconnected before it has sent everything.
    let _hung_up = client.write_all(&said);
    let _hung_up = client.shutdown(Shutdown::Write);
    assert!(reader.join().expect("a reader"), "it was not hung up on");
});
