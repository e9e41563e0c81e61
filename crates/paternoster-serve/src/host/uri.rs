// SPDX-License-Identifier: MIT OR Apache-2.0
//! URIs: how clients name what is served.
//!
//! ```text
//! nbd+unix:///vm1?socket=/run/nbd.sock     nbd://127.0.0.1:10809/vm1     nbds:// with TLS
//! ```
//!
//! Everything but letters, digits and `-._~` (and `/` in a socket's path) is written as `%` and two
//! hexadecimal digits. A socket of all addresses is reached as `localhost` from here.
//! Source: NetworkBlockDevice/nbd, `doc/uri.md`.

use std::fmt::Write;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use super::listen::Place;
use crate::config::TlsMode;

/// The URI of an export at a place. If TLS is offered, the URI asks for it.
#[must_use]
pub fn uri(place: &Place, tls: TlsMode, export: &str) -> String {
    let secure = if tls == TlsMode::Off { "" } else { "s" };
    let export = escaped(export.as_bytes(), b"");
    match place {
        Place::Unix(path) => {
            let path = escaped(path.as_os_str().as_bytes(), b"/");
            format!("nbd{secure}+unix:///{export}?socket={path}")
        }
        Place::Tcp(at) => format!("nbd{secure}://{}/{export}", authority(*at)),
    }
}

/// The same as programs before URIs have it (`$nbd` of a command).
#[must_use]
pub fn old_form(place: &Place, export: &str) -> String {
    match place {
        Place::Unix(path) => format!("nbd:unix:{}:exportname={export}", path.display()),
        Place::Tcp(at) => format!("nbd:{}:exportname={export}", authority(*at)),
    }
}

fn authority(at: SocketAddr) -> String {
    if at.ip().is_unspecified() { format!("localhost:{}", at.port()) } else { at.to_string() }
}

fn escaped(text: &[u8], plain: &[u8]) -> String {
    text.iter().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || plain.contains(byte) {
            escaped.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _written = write!(escaped, "%{byte:02X}");
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are URIs those that nbdinfo and qemu understand?
    #[test]
    fn uris() {
        let unix = Place::Unix("/run/a b.sock".into());
        assert_eq!(uri(&unix, TlsMode::Off, "vm1"), "nbd+unix:///vm1?socket=/run/a%20b.sock");
        assert_eq!(uri(&unix, TlsMode::Required, ""), "nbds+unix:///?socket=/run/a%20b.sock");
        let tcp = Place::Tcp("[::1]:10809".parse().unwrap());
        assert_eq!(uri(&tcp, TlsMode::Off, "a/ü?"), "nbd://[::1]:10809/a%2F%C3%BC%3F");
        let all = Place::Tcp("0.0.0.0:1".parse().unwrap());
        assert_eq!(uri(&all, TlsMode::Offered, "x"), "nbds://localhost:1/x");
        assert_eq!(old_form(&unix, "x"), "nbd:unix:/run/a b.sock:exportname=x");
        assert_eq!(old_form(&all, "x"), "nbd:localhost:1:exportname=x");
    }
}
