// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets: who may open them, and how they answer unknown input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use paternoster_serve::config::{Address, Listen, TlsMode};

use crate::common::disk::{connect, setting, works};
use crate::common::{end, start};

/// Can only their owner open the sockets of clients and of orders?
#[test]
fn sockets_are_their_owners() {
    let (folder, mut config) = setting("mode");
    config.server.control = Some(folder.path("control.sock"));
    let server = start(config);
    for name in ["nbd.sock", "control.sock"] {
        let mode = std::fs::metadata(folder.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    end(&server);
    assert!(!folder.path("nbd.sock").exists() && !folder.path("control.sock").exists());
}

/// Is TCP in the clear refused beyond loopback, unless explicitly enabled?
#[test]
fn tcp_in_the_clear() {
    let (_folder, config) = setting("tcp");
    let settles = |address: &str, insecure| {
        let mut config = config.clone();
        config.server.insecure = insecure;
        let at = Address::Tcp(address.parse().unwrap());
        config.server.listen = vec![Listen { at, tls: TlsMode::Off }];
        config.settle().is_ok()
    };
    assert!(settles("127.0.0.1:10809", false) && settles("[::1]:10809", false));
    assert!(!settles("0.0.0.0:10809", false) && !settles("192.0.2.1:10809", false));
    assert!(!settles("[::]:10809", false));
    assert!(settles("0.0.0.0:10809", true));
}

/// Do garbage, a line without end, and connections that are closed in the middle harm neither
/// orders nor clients?
#[test]
fn garbage_for_orders() {
    let (folder, mut config) = setting("orders");
    let path = folder.path("control.sock");
    config.server.control = Some(path.clone());
    let server = start(config);
    let mut client = connect(&folder);
    let endless = vec![b'x'; 200 << 10];
    for garbage in
        [&b"\xff\xfe\0\0\n"[..], b"{\"do\":", b"[1,2]\n{}\n{\"do\":\"dance\"}\n", &endless]
    {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The socket may be closed before all bytes have been sent.
        let _closed = stream.write_all(garbage);
        let _closed = stream.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        let _reset = stream.read_to_end(&mut said);
        let said = String::from_utf8(said).unwrap();
        assert!(!said.contains("\"ok\":true"), "{said}");
        works(&mut client, 0, 1);
    }
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"nonsense\n{\"do\":\"snapshot\"}\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("\"error\""));
    assert!(lines.next().unwrap().contains("\"memory_used\""));
    end(&server);
}

/// And garbage for monitors?
#[test]
fn garbage_for_monitors() {
    let (folder, mut config) = setting("monitors");
    config.server.metrics = Some("127.0.0.1:0".parse().unwrap());
    let server = start(config);
    let address = server.metrics().expect("an address");
    let ask = |request: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _closed = stream.write_all(request);
        let _closed = stream.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        let _reset = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    };
    for garbage in [&[0xff; 9000][..], b"GET", b"\r\n\r\n", b"BREW /metrics HTTP/1.1\r\n\r\n"] {
        assert!(!ask(garbage).starts_with("HTTP/1.1 200"));
    }
    works(&mut connect(&folder), 0, 1);
    assert!(ask(b"GET /healthz HTTP/1.0\r\n\r\n").contains("\r\n\r\nok\n"));
    assert!(ask(b"GET /metrics HTTP/1.0\r\n\r\n").contains("paternoster_"));
    end(&server);
}
