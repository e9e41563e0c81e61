// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights over real sockets: by user, for reading only, and by number of clients.

use std::io::{Read, Write};
use std::sync::Arc;

use paternoster_serve::config::{Config, TlsMode, Who};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::common::client::{Client, FLUSH, READ, TRIM, WRITE, ZEROES};
use crate::common::disk::setting;
use crate::common::secure::secure_setting;
use crate::common::watch::until_quiet;
use crate::common::{Folder, end, start, volume};

const EPERM: u32 = 1;

fn ours() -> Who {
    Who { uid: Some(rustix::process::getuid().as_raw()), ..Who::default() }
}

/// `disk`, and next to it `other`, which the change is about.
fn two(name: &str) -> (Folder, Config) {
    let (folder, mut config) = setting(name);
    let path = folder.file("other.img", 1 << 20);
    config.devices[0].volumes.push(volume("other", &path));
    (folder, config)
}

/// Does a volume of another user not exist for us, while ours does?
#[test]
fn a_volume_of_another_user() {
    let (folder, mut config) = two("rights-uid");
    config.devices[0].volumes[0].rights.allow = Some(vec![ours()]);
    let other = Who { uid: Some(ours().uid.unwrap() + 1), ..Who::default() };
    config.devices[0].volumes[1].rights.allow = Some(vec![other]);
    let server = start(config);
    let socket = folder.path("nbd.sock");
    Client::connect(&socket, "disk").unwrap();
    let refusal = |name| Client::negotiate(&socket, name, false).unwrap_err().to_string();
    // 2^31 + 2: NBD_REP_ERR_POLICY.
    let expected = "refused with 0x80000002: no export \"other\" is open to you; nbdinfo --list \
                    shows those";
    assert_eq!(refusal("other"), expected);
    assert_eq!(refusal("nothing"), expected.replace("other", "nothing"));
    end(&server);
}

/// Has a client that does not use offered TLS no name, so that it opens nothing? Once it has shown
/// its certificate, does it open the volume of its name, though it was refused before, and no
/// other?
#[test]
fn a_name_that_is_shown_late() {
    let (folder, mut config, server_certificate) = secure_setting("rights-late");
    let path = folder.file("other.img", 1 << 20);
    config.devices[0].volumes.push(volume("other", &path));
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.path("ca.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(parameters, key);
    config.server.tls.as_mut().unwrap().client_authority = Some(folder.path("ca.pem"));
    config.server.listen[0].tls = TlsMode::Offered;
    let server = start(config);
    let plain = Client::negotiate(&folder.path("nbd.sock"), "disk", false);
    assert!(plain.unwrap_err().to_string().contains("no export \"disk\" is open to you"));

    let own = KeyPair::generate().unwrap();
    let mut named = CertificateParams::new(vec!["disk".to_owned()]).unwrap();
    named.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let shown = named.signed_by(&own, &issuer).unwrap().der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(server_certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![shown], own.serialize_der().try_into().unwrap())
        .unwrap();
    let mut client = Client::greet(&folder.path("nbd.sock")).unwrap();
    // LIST, in plain text: nothing is told of (2 would be an export, 1 is the end).
    client.option(3, &[]).unwrap();
    assert_eq!(client.answer().unwrap().1, 1);
    client.option(5, &[]).unwrap();
    assert_eq!(client.answer().unwrap().1, 1, "TLS is there");
    let name = ServerName::try_from("server.example").unwrap();
    let connection = ClientConnection::new(Arc::new(tls), name).unwrap();
    let mut stream = StreamOwned::new(connection, client.stream);
    let mut go = |name: &str| {
        let (length, all) = (u32::try_from(name.len()).unwrap(), name.len() + 6);
        let all = u32::try_from(all).unwrap();
        let head = [&b"IHAVEOPT"[..], &7u32.to_be_bytes(), &all.to_be_bytes()].concat();
        let data = [&length.to_be_bytes()[..], name.as_bytes(), &[0, 0]].concat();
        stream.write_all(&[head, data].concat()).unwrap();
        let mut answer = [0; 20];
        stream.read_exact(&mut answer).unwrap();
        let number = |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().unwrap());
        stream.read_exact(&mut vec![0; number(16) as usize]).unwrap();
        number(12)
    };
    // 2^31 + 2 is ERR_POLICY, 3 the first of what is told of an export that is open.
    assert_eq!((go("other"), go("DISK"), go("disk")), (0x8000_0002, 0x8000_0002, 3));
    end(&server);
}

/// Are the writes of a client that may only read refused, and does it learn that the export is
/// read-only?
#[test]
fn reading_only() {
    let (folder, mut config) = two("rights-readonly");
    config.devices[0].volumes[1].rights.readonly_for = vec![ours()];
    let server = start(config);
    let mut client = Client::connect(&folder.path("nbd.sock"), "other").unwrap();
    // Flag 1 of the export's flags is READ_ONLY.
    assert_eq!(client.flags & 2, 2);
    for kind in [WRITE, ZEROES, TRIM] {
        let payload: &[u8] = if kind == WRITE { &[1; 512] } else { &[] };
        client.send(kind, 0, 0, 512, payload).unwrap();
        assert_eq!(client.told().unwrap().errno, EPERM, "{kind}");
    }
    for (kind, length) in [(READ, 512), (FLUSH, 0)] {
        client.send(kind, 0, 0, length, &[]).unwrap();
        assert_eq!(client.told().unwrap().errno, 0, "{kind}");
    }
    let writer = Client::connect(&folder.path("nbd.sock"), "disk").unwrap();
    assert_eq!(writer.flags & 2, 0);
    end(&server);
}

/// May a client come when another has gone, where only one may have a volume open?
#[test]
fn one_at_a_time() {
    let (folder, mut config) = two("rights-most");
    config.devices[0].volumes[1].rights.most_clients = Some(1);
    let server = start(config);
    let socket = folder.path("nbd.sock");
    let first = Client::connect(&socket, "other").unwrap();
    let refusal = Client::connect(&socket, "other").unwrap_err().to_string();
    assert!(refusal.contains("`most-clients` is 1"), "{refusal}");
    Client::connect(&socket, "disk").unwrap();
    drop(first);
    // The connection counts until the loop has closed it.
    until_quiet(&server, 0);
    Client::connect(&socket, "other").unwrap();
    end(&server);
}
