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

use crate::config::{Identity, TlsMode};
use crate::host::listen::{Listener, Socket};
use crate::host::peer;

/// Bytes that a unix socket keeps for its client.
const SEND_BUFFER: usize = 512 << 10;

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
                let _less = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
                let identity = peer::of_unix(&socket, Path::new("/proc"))?;
                let number = |number: Option<u32>| number.map_or("?".to_owned(), |n| n.to_string());
                let (uid, pid) = (number(identity.uid), number(identity.pid));
                let words = format!("unix uid {uid} pid {pid}");
                Ok((socket.into(), Who { identity, words }))
            }
            Listener::Tcp(listener) => {
                let (socket, at) = listener.accept()?;
                socket.set_nonblocking(true)?;
                let who = Who { identity: peer::of_tcp(at), words: at.to_string() };
                Ok((socket.into(), who))
            }
        }
    }
}
