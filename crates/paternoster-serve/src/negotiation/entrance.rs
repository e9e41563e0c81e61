// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entrances: what clients come in by, and what is seen of a client there.
//!
//! ```text
//! unix socket, TCP ──┐
//! a judge's queue ───┴──▶ Entrance ──(socket, peer)──▶ negotiation
//! ```
//!
//! This is all that the negotiation knows of a listener; so the same negotiation runs in a judge's
//! thread, where clients of any user come without the system's involvement.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt;

use crate::config::{Identity, TlsMode};
use crate::host::listen::{Listener, Socket};
use crate::host::peer;

/// Bytes that a unix socket keeps for its client.
const SEND_BUFFER: usize = 512 << 10;

/// After how long without a sign of life a client over TCP is asked for one, after how long again,
/// and how often until it has gone: 2 minutes in all.
const SILENT: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(15);
const ATTEMPTS: u32 = 4;

/// A client whose machine or network has gone does not say so: without this an idle one would keep
/// its seat for ever. Not over TCP, this does nothing.
pub(super) fn asks_whether_it_is_there(socket: impl AsFd) {
    // It is served all the same if the system cannot.
    let _asks = sockopt::set_socket_keepalive(&socket, true);
    let _after = sockopt::set_tcp_keepidle(&socket, SILENT);
    let _each = sockopt::set_tcp_keepintvl(&socket, AGAIN);
    let _until = sockopt::set_tcp_keepcnt(&socket, ATTEMPTS);
}

/// A client, as far as its socket tells.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) identity: Identity,
    /// User and process, or address and port.
    pub(crate) words: String,
}

/// What clients come in by; readable while one waits.
pub(crate) trait Entrance: AsFd {
    /// Whether clients must, may, or cannot use TLS.
    fn tls(&self) -> TlsMode;

    /// From now on [`Entrance::let_in`] does not wait.
    ///
    /// # Errors
    /// The system's error.
    fn open(&self) -> io::Result<()>;

    /// Lets one client in, whose socket does not block.
    ///
    /// # Errors
    /// `WouldBlock` if no client waits; others as `accept` returns them.
    fn let_in(&self) -> io::Result<(OwnedFd, Who)>;

    /// Another process lets clients in by it from now on.
    fn leave(&self) {}
}

impl Entrance for Socket {
    fn tls(&self) -> TlsMode {
        self.tls
    }

    fn open(&self) -> io::Result<()> {
        match &self.listener {
            Listener::Unix(listener) => listener.set_nonblocking(true),
            Listener::Tcp(listener) => listener.set_nonblocking(true),
        }
    }

    fn leave(&self) {
        Socket::leave(self);
    }

    fn let_in(&self) -> io::Result<(OwnedFd, Who)> {
        match &self.listener {
            Listener::Unix(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(true)?;
                // Room for an answer of 128 KiB besides the one that is being read; the system may
                // give less, which is fine.
                let _less = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
                let identity = peer::of_unix(&socket, Path::new("/proc"))?;
                let number = |number: Option<u32>| number.map_or("?".to_owned(), |n| n.to_string());
                let (uid, pid) = (number(identity.uid), number(identity.pid));
                let words = format!("unix uid {uid} pid {pid}");
                Ok((socket.into(), Who { identity, words }))
            }
            Listener::Tcp(listener) => {
                let (socket, at) = listener.accept()?;
                socket.set_nonblocking(true)?;
                asks_whether_it_is_there(&socket);
                let who = Who { identity: peer::of_tcp(at), words: at.to_string() };
                Ok((socket.into(), who))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::config::{Listen, Server};
    use crate::host::activation::Inherited;
    use crate::host::listen::{Place, open};

    /// Is a client over TCP asked whether it is there still, after a minute and four times?
    #[test]
    fn who_is_silent_over_tcp_is_asked() {
        let listen = vec![Listen::new("tcp:127.0.0.1:0".parse().unwrap(), false)];
        let server = Server { listen, ..Server::default() };
        let entrance = open(&server, &mut Inherited::default(), None).unwrap().remove(0);
        let Place::Tcp(at) = entrance.place().unwrap() else { panic!("TCP") };
        let _client = TcpStream::connect(at).unwrap();
        let (socket, _) = entrance.let_in().unwrap();
        assert_eq!(sockopt::socket_keepalive(&socket), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&socket), Ok(Duration::from_secs(60)));
        assert_eq!(sockopt::tcp_keepintvl(&socket), Ok(Duration::from_secs(15)));
        assert_eq!(sockopt::tcp_keepcnt(&socket), Ok(4));
    }
}
