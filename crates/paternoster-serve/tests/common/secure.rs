// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS in front of the volume `disk`, and a client of it that speaks rustls.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use paternoster_serve::config::{Config, Tls, TlsMode};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::{READ, request};
use super::disk::setting;
use super::{Client, Folder};

pub(crate) type Secure = StreamOwned<ClientConnection, UnixStream>;

const OPTION: u64 = 0x4948_4156_454f_5054;

/// As [`setting`], with a certificate of its own.
pub(crate) fn secure_setting(name: &str) -> (Folder, Config, CertificateDer<'static>) {
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
pub(crate) fn asked_for_tls(folder: &Folder) -> Client {
    let mut client = Client::greet(&folder.path("nbd.sock")).unwrap();
    client.option(5, &[]).unwrap();
    assert_eq!(client.answer().unwrap().1, 1, "TLS is there");
    client
}

fn session(certificate: &CertificateDer<'static>) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("server.example").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

/// The metrics that a monitor gets, if it trusts the certificate.
pub(crate) fn metrics(at: SocketAddr, certificate: &CertificateDer<'static>) -> io::Result<String> {
    let stream = TcpStream::connect(("127.0.0.1", at.port()))?;
    let mut stream = StreamOwned::new(session(certificate), stream);
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// A client under TLS that has chosen `disk`.
pub(crate) fn connect(folder: &Folder, certificate: &CertificateDer<'static>) -> Secure {
    let client = asked_for_tls(folder);
    let mut stream = StreamOwned::new(session(certificate), client.stream);
    let mut bytes = OPTION.to_be_bytes().to_vec();
    // EXPORT_NAME, answered by size and flags.
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 4]);
    bytes.extend(b"disk");
    stream.write_all(&bytes).unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

/// Reads, and checks that it is told.
pub(crate) fn read(stream: &mut Secure, length: u32) {
    stream.write_all(&request(READ, 0, 1, 0, length, &[])).unwrap();
    let mut answer = vec![0; 16 + length as usize];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
}
