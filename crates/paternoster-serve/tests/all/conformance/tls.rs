// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS with certificates on both sides: libnbd speaks it by way of GnuTLS, the server by rustls.
//!
//! ```text
//! authority ─┬─ server.example               in the server's configuration
//!            └─ vm7.customers.example        what rules see is this name
//! stranger ──── vm7.customers.example        the name is right, its signer is not
//! ```

use std::path::{Path, PathBuf};

use paternoster_serve::config::{Config, Rule, Tls, TlsMode, Who};
use paternoster_serve::control::order::Order;
use paternoster_serve::control::snapshot::{Figures, Snapshot};
use paternoster_serve::server::Server;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::tools::{fails, pattern, script, succeeds, tool, uri};
use crate::common::{Folder, config, device, end, start, tenant};

const SIZE: u64 = 4 << 20;
const CLIENT: &str = "vm7.customers.example";

/// A certificate authority, and its own certificate in PEM.
fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), certificate)
}

/// Writes a certificate for `name` and its key as `WHO-cert.pem` and `WHO-key.pem`.
fn certify(at: &Path, who: &str, name: &str, issuer: &Issuer<'static, KeyPair>) {
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().pem();
    std::fs::write(at.join(format!("{who}-cert.pem")), certificate).unwrap();
    std::fs::write(at.join(format!("{who}-key.pem")), key.serialize_pem()).unwrap();
}

/// A folder of certificates as libnbd wants it, for a client or without one.
fn certificates(
    at: PathBuf,
    authority: &str,
    client: Option<&Issuer<'static, KeyPair>>,
) -> PathBuf {
    std::fs::create_dir(&at).unwrap();
    std::fs::write(at.join("ca-cert.pem"), authority).unwrap();
    if let Some(issuer) = client {
        certify(&at, "client", CLIENT, issuer);
    }
    at
}

/// A server that knows its clients by their certificates, and what they need to get in or not.
struct Secured {
    folder: Folder,
    server: Server,
    known: PathBuf,
    nameless: PathBuf,
    forged: PathBuf,
}

fn secured(mode: TlsMode) -> Secured {
    let folder = Folder::in_memory("tls");
    let (issuer, root) = authority("authority");
    let (stranger, _) = authority("stranger");
    certify(&folder.path(""), "server", "server.example", &issuer);
    let known = certificates(folder.path("known"), &root, Some(&issuer));
    let nameless = certificates(folder.path("nameless"), &root, None);
    let forged = certificates(folder.path("forged"), &root, Some(&stranger));
    let disk = folder.file("disk", SIZE);
    let mut config: Config = config(&folder, device("bfq", &[("disk", &disk)]));
    config.server.listen[0].tls = mode;
    config.server.tls = Some(Tls {
        certificate: folder.path("server-cert.pem"),
        key: folder.path("server-key.pem"),
        client_authority: Some(known.join("ca-cert.pem")),
    });
    // Otherwise only a client of the name `disk` could open it.
    config.devices[0].volumes[0].rights.allow = Some(vec![Who::default()]);
    config.tenants = vec![tenant("customers", 300), tenant("others", 100)];
    let customers = Who { certificate: Some("*.customers.example".into()), ..Who::default() };
    config.rules = vec![
        Rule { who: customers, tenant: "customers".into() },
        Rule { who: Who::default(), tenant: "others".into() },
    ];
    Secured { server: start(config), folder, known, nameless, forged }
}

impl Secured {
    fn socket(&self) -> PathBuf {
        self.folder.path("nbd.sock")
    }

    /// How a client names the volume, with its certificates.
    fn uri(&self, certificates: &Path) -> String {
        let plain = uri("disk", &self.socket());
        let secure = plain.replacen("nbd", "nbds", 1);
        format!("{secure}&tls-certificates={}", certificates.display())
    }

    fn figures(&self, tenant: &str) -> Figures {
        let told = self.server.device_loops()[0].ask(Order::Snapshot).unwrap();
        let told: Snapshot = serde_json::from_value(told).unwrap();
        let line = told.tenants.into_iter().find(|line| line.name == tenant);
        line.unwrap_or_else(|| panic!("no tenant {tenant}")).figures
    }
}

/// Do copies under TLS, on four connections, arrive, and are they counted for the tenant that the
/// certificate names?
#[test]
fn copies_under_tls_are_the_certificates() {
    let Some(mut there) = tool("nbdcopy", "libnbd-bin") else { return };
    let Some(mut back) = tool("nbdcopy", "libnbd-bin") else { return };
    let secured = secured(TlsMode::Required);
    let (source, target) = (secured.folder.path("source"), secured.folder.path("target"));
    let data = pattern(SIZE, 9);
    std::fs::write(&source, &data).unwrap();
    let uri = secured.uri(&secured.known);
    succeeds(there.args(["--connections=4", "--flush"]).arg(&source).arg(&uri));
    succeeds(back.arg("--connections=4").arg(&uri).arg(&target));
    let (customers, others) = (secured.figures("customers"), secured.figures("others"));
    assert_eq!((customers.write_bytes, customers.read_bytes), (SIZE, SIZE));
    assert_eq!((others.writes, others.reads), (0, 0));
    end(&secured.server);
    assert!(std::fs::read(target).unwrap() == data, "what came back");
}

/// Is no client accepted without a certificate, with a forged one, or in plain text, and are
/// accepted clients served well: small and large requests, many at a time, and illegal ones?
#[test]
fn who_is_let_in() {
    let Some(mut script) = script("secure.py") else { return };
    let secured = secured(TlsMode::Required);
    script.arg(secured.socket()).arg(secured.folder.path("disk"));
    succeeds(script.args([&secured.known, &secured.nameless, &secured.forged]));
    assert_eq!(
        secured.figures("others"),
        Figures {
            latency_log2_us: secured.figures("others").latency_log2_us,
            ..Figures::default()
        }
    );
    end(&secured.server);
}

/// Where TLS is offered and not required: both ways in?
#[test]
fn who_asks_gets_it() {
    let Some(mut plain) = tool("nbdinfo", "libnbd-bin") else { return };
    let Some(mut secure) = tool("nbdinfo", "libnbd-bin") else { return };
    let Some(mut nameless) = tool("nbdinfo", "libnbd-bin") else { return };
    let secured = secured(TlsMode::Offered);
    let told = succeeds(plain.arg("--json").arg(uri("disk", &secured.socket())));
    assert!(told.contains("\"TLS\": false"), "{told}");
    let told = succeeds(secure.arg("--json").arg(secured.uri(&secured.known)));
    assert!(told.contains("\"TLS\": true"), "{told}");
    fails(nameless.arg("--json").arg(secured.uri(&secured.nameless)));
    end(&secured.server);
}
