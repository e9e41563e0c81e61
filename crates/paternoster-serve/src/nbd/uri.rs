// SPDX-License-Identifier: MIT OR Apache-2.0
//! URIs: how a client names an export, for messages and for `--run`.
//!
//! ```text
//! nbd+unix:///NAME?socket=PATH     nbds+unix:// where TLS is required
//! nbd://HOST:PORT/NAME             nbds://
//! ```
//!
//! Source: `doc/uri.md` of the reference implementation.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;

use crate::config::{Address, Listen, TlsMode};

/// The URI of an export at a socket; `None` for a socket whose address is not known.
pub fn uri(listen: &Listen, export: &str) -> Option<String> {
    let scheme = if listen.tls == TlsMode::Required { "nbds" } else { "nbd" };
    let name = encoded(export.as_bytes());
    match &listen.at {
        Address::Unix { path, .. } => {
            let path = encoded(path.as_os_str().as_bytes());
            Some(format!("{scheme}+unix:///{name}?socket={path}"))
        }
        Address::Tcp(at) => Some(format!("{scheme}://{}/{name}", reachable(*at))),
        Address::Inherited(_) => None,
    }
}

/// Who listens on all addresses is reached at loopback.
fn reachable(at: SocketAddr) -> SocketAddr {
    let host = match at.ip() {
        IpAddr::V4(host) if host.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(host) if host.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        host => host,
    };
    // A new address: the scope of the old one has no place in a URI.
    SocketAddr::new(host, at.port())
}

/// Letters, digits, `-._~/` as they are, all other bytes as `%` and two digits.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes all");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at: Address, tls: TlsMode) -> Listen {
        Listen { at, tls }
    }

    /// Do unix sockets have their path behind the name, encoded?
    #[test]
    fn unix_sockets() {
        let unix = |path: &str| Address::Unix { path: path.into(), mode: 0o600 };
        let plain = at(unix("/run/a b.sock"), TlsMode::Off);
        let expected = "nbd+unix:///disk%201?socket=/run/a%20b.sock";
        assert_eq!(uri(&plain, "disk 1").as_deref(), Some(expected));
        let tls = at(unix("/s?&#%"), TlsMode::Required);
        let expected = "nbds+unix:///?socket=/s%3F%26%23%25";
        assert_eq!(uri(&tls, "").as_deref(), Some(expected));
    }

    /// Do TCP sockets have a host that can be reached, in brackets if it has colons?
    #[test]
    fn tcp_sockets() {
        let tcp = |text: &str, tls| at(Address::Tcp(text.parse().unwrap()), tls);
        let name = |listen: &Listen| uri(listen, "ä/b").unwrap();
        assert_eq!(name(&tcp("10.0.0.1:10809", TlsMode::Off)), "nbd://10.0.0.1:10809/%C3%A4/b");
        assert_eq!(name(&tcp("0.0.0.0:1", TlsMode::Offered)), "nbd://127.0.0.1:1/%C3%A4/b");
        assert_eq!(name(&tcp("[::]:2", TlsMode::Required)), "nbds://[::1]:2/%C3%A4/b");
    }

    /// Is nothing made up for sockets that somebody else opened?
    #[test]
    fn inherited_sockets_have_none() {
        assert_eq!(uri(&at(Address::Inherited(3), TlsMode::Off), "x"), None);
    }
}
