// SPDX-License-Identifier: MIT OR Apache-2.0
//! Certificates: read from PEM files, checked, and the names in those that clients show.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

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
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let dns = alternatives.and_then(|names| {
        names.value.general_names.iter().find_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
    });
    dns.or_else(|| {
        let name = parsed.subject().iter_common_name().next()?;
        name.as_str().ok().map(str::to_owned)
    })
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
