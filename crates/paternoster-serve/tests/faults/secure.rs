// SPDX-License-Identifier: MIT OR Apache-2.0
//! Under TLS: clients that are slow, silent, or gone in the middle of a record.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use paternoster::Nanos;
use paternoster_serve::config::{Config, Tls, TlsMode};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::common::client::{DISCONNECT, READ, WRITE, request};
use super::common::watch::until_quiet;
use super::common::{Client, Folder, end, start};
use super::setting;

type Secure = StreamOwned<ClientConnection, UnixStream>;

const OPTION: u64 = 0x4948_4156_454f_5054;

/// As [`setting`], with a certificate of its own.
fn secure_setting(name: &str) -> (Folder, Config, CertificateDer<'static>) {
    let (folder, mut config) = setting(name);
    let made = rcgen::generate_simple_self_signed(vec!["server.example".to_owned()]).unwrap();
    let (certificate, key) = (folder.path("server.pem"), folder.path("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    config.server.tls = Some(Tls { certificate, key, client_authority: None });
    config.server.listen[0].tls = TlsMode::Required;
    (folder, config, made.cert.der().clone())
}

/// Asks for TLS; the handshake is to come.
fn asked_for_tls(folder: &Folder) -> Client {
    let mut client = Client::greet(&folder.path("nbd.sock")).unwrap();
    client.option(5, &[]).unwrap();
    assert_eq!(client.answer().unwrap().1, 1, "TLS is there");
    client
}

/// A client under TLS that has chosen `disk`.
fn connect(folder: &Folder, certificate: &CertificateDer<'static>) -> Secure {
    let client = asked_for_tls(folder);
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("server.example").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, client.stream);
    let mut bytes = OPTION.to_be_bytes().to_vec();
    // EXPORT_NAME, answered by size and flags.
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 4]);
    bytes.extend(b"disk");
    stream.write_all(&bytes).unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

/// Reads, and checks that it is told.
fn read(stream: &mut Secure, length: u32) {
    stream.write_all(&request(READ, 0, 1, 0, length, &[])).unwrap();
    let mut answer = vec![0; 16 + length as usize];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
}

/// May a client that took its answers late be silent afterwards for longer than a stall may take?
#[test]
fn who_was_slow_once_may_be_silent() {
    let (folder, mut config, certificate) = secure_setting("late");
    config.server.stall_timeout = Nanos::from_secs(2);
    let server = start(config);
    let mut client = connect(&folder, &certificate);
    for length in [1 << 20, 1 << 20] {
        client.write_all(&request(READ, 0, 1, 0, length, &[])).unwrap();
        // More than sockets and records hold: the server has to wait for it.
        client.read_exact(&mut vec![0; 16 + length as usize]).unwrap();
    }
    // Three looks at who stalls, and more.
    std::thread::sleep(Duration::from_millis(2700));
    read(&mut client, 4096);
    end(&server);
}

/// Must who takes nothing go, under TLS too?
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

/// Does whoever leaves as it should hear the end of TLS, and not only that of the socket?
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

/// Do garbage where TLS should begin, half a handshake, plain text, and death in the middle of a
/// record harm nobody else?
#[test]
fn garbage_under_tls() {
    let (folder, mut config, certificate) = secure_setting("tls");
    config.server.handshake_timeout = Nanos::from_millis(500);
    let server = start(config);
    let mut other = connect(&folder, &certificate);
    // Records begin with their kind, version and length.
    for bytes in [&[0xff; 300][..], &[22, 3, 1, 0x40, 0, 1], b"IHAVEOPT", &[21, 3, 3, 0, 2, 1, 0]] {
        let mut client = asked_for_tls(&folder);
        client.stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        let _ended_or_reset = client.stream.read_to_end(&mut rest);
        read(&mut other, 512);
    }
    let mut plain = Client::greet(&folder.path("nbd.sock")).unwrap();
    plain.option(7, &[0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(plain.answer().unwrap().1, 0x8000_0005, "TLS first");
    let mut dying = connect(&folder, &certificate);
    dying.write_all(&request(WRITE, 0, 1, 0, 1 << 20, &[7; 300_000])).unwrap();
    dying.sock.write_all(&[23, 3, 3, 0x40, 0, 1, 2, 3]).unwrap();
    drop((dying, plain));
    read(&mut other, 512);
    until_quiet(&server, 1);
    end(&server);
}
