// SPDX-License-Identifier: MIT OR Apache-2.0
//! Certificates: read from PEM files, checked, and the names in those that clients show.

use std::path::Path;
use std::sync::Arc;

use ring::io::der::{self, Tag};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use untrusted::{Input, Reader};
use webpki::EndEntityCert;

use crate::config;

/// What TLS is spoken with.
///
/// # Errors
/// The file and what is wrong with it.
pub(crate) fn server_config(tls: &config::Tls) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = read_chain(&tls.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| format!("{}: no private key in PEM: {error}", tls.key.display()))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &tls.client_authority {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_chain(authority)? {
                roots
                    .add(certificate)
                    .map_err(|error| format!("{}: {error}", authority.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| format!("{}: {error}", authority.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| {
        format!("{} and {}: {error}", tls.certificate.display(), tls.key.display())
    })?;
    Ok(Arc::new(config))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let told = |error| format!("{}: no certificate in PEM: {error}", path.display());
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(told)?
        .collect::<Result<_, _>>()
        .map_err(told)?;
    if chain.is_empty() {
        return Err(format!("{}: no certificate in it; PEM is expected", path.display()));
    }
    Ok(chain)
}

/// The name that rules ask for: the first DNS name of a certificate, else its common name.
pub(super) fn name_of(certificate: &CertificateDer<'_>) -> Option<String> {
    let parsed = EndEntityCert::try_from(certificate).ok()?;
    let dns = parsed.valid_dns_names().next().map(str::to_owned);
    dns.or_else(|| common_name(parsed.subject()))
}

/// `id-at-commonName`, 2.5.4.3 (RFC 5280, appendix A.1).
const COMMON_NAME: [u8; 3] = [0x55, 4, 3];
/// The tag of a SET.
const SET: u8 = 0x31;
/// The tag of a UTF8String and that of a PrintableString, which is ASCII.
const STRINGS: [u8; 2] = [0x0c, 0x13];

/// The first common name of a subject.
///
/// ```text
/// subject: SET { SEQUENCE { OBJECT IDENTIFIER, string }, … }, SET …      (RFC 5280, 4.1.2.4)
/// ```
fn common_name(subject: &[u8]) -> Option<String> {
    let mut sets = Reader::new(Input::from(subject));
    while !sets.at_end() {
        let (tag, set) = der::read_tag_and_get_value(&mut sets).ok()?;
        if tag != SET {
            return None;
        }
        let mut pairs = Reader::new(set);
        while !pairs.at_end() {
            let pair = der::expect_tag_and_get_value(&mut pairs, Tag::Sequence).ok()?;
            let mut pair = Reader::new(pair);
            let kind = der::expect_tag_and_get_value(&mut pair, Tag::OID).ok()?;
            let (tag, value) = der::read_tag_and_get_value(&mut pair).ok()?;
            if kind.as_slice_less_safe() == COMMON_NAME && STRINGS.contains(&tag) {
                return String::from_utf8(value.as_slice_less_safe().to_vec()).ok();
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is it the DNS name that a rule sees?
    #[test]
    fn the_dns_name_of_a_certificate() {
        let made = rcgen::generate_simple_self_signed(vec!["vm7.example".to_owned()]).unwrap();
        assert_eq!(name_of(made.cert.der()).as_deref(), Some("vm7.example"));
    }

    /// Is it the common name where there is no DNS name, whatever letters are in it?
    #[test]
    fn the_common_name_of_a_certificate() {
        for common_name in ["vm8", "Größe 8"] {
            let mut parameters = rcgen::CertificateParams::default();
            let name = &mut parameters.distinguished_name;
            name.remove(rcgen::DnType::CommonName);
            name.push(rcgen::DnType::CommonName, common_name);
            let address = rcgen::SanType::IpAddress([127, 0, 0, 1].into());
            for alternatives in [vec![], vec![address]] {
                parameters.subject_alt_names = alternatives;
                let key = rcgen::KeyPair::generate().unwrap();
                let made = parameters.self_signed(&key).unwrap();
                assert_eq!(name_of(made.der()).as_deref(), Some(common_name));
            }
        }
    }

    /// Does a missing file have its name in the message?
    #[test]
    fn a_missing_file_is_named() {
        let tls = config::Tls {
            certificate: "/nowhere/cert.pem".into(),
            key: "/nowhere/key.pem".into(),
            client_authority: None,
        };
        let message = server_config(&tls).unwrap_err();
        assert!(message.contains("/nowhere/cert.pem"), "{message}");
    }
}
