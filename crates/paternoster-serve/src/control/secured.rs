// SPDX-License-Identifier: MIT OR Apache-2.0
//! Monitors' connections under TLS.
//!
//! The handshake is part of the first read, and so of its deadline. What is written is kept until
//! the socket takes it: one answer, which is there as a whole anyway.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use rustix::event::PollFlags;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::acceptor::{Listener, Stream};
use crate::locked::locked;

/// A listener whose clients speak TLS.
pub(super) struct Secured {
    pub(super) listener: TcpListener,
    pub(super) tls: Certified,
}

/// The certificates for new clients, which a reload replaces.
#[derive(Debug, Clone)]
pub(crate) struct Certified(Arc<Mutex<Arc<ServerConfig>>>);

impl Certified {
    pub(super) fn new(tls: Arc<ServerConfig>) -> Certified {
        Certified(Arc::new(Mutex::new(tls)))
    }

    fn now(&self) -> Arc<ServerConfig> {
        Arc::clone(&locked(&self.0))
    }

    /// Sets the certificates for new clients.
    pub(crate) fn renew(&self, tls: Arc<ServerConfig>) {
        *locked(&self.0) = tls;
    }
}

/// A connection under TLS.
pub(super) struct SecuredStream(StreamOwned<ServerConnection, TcpStream>);

impl AsFd for Secured {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Listener for Secured {
    type Stream = SecuredStream;

    fn accept_one(&self) -> io::Result<SecuredStream> {
        let (stream, _) = self.listener.accept()?;
        let mut connection = ServerConnection::new(self.tls.now()).map_err(io::Error::other)?;
        connection.set_buffer_limit(None);
        Ok(SecuredStream(StreamOwned::new(connection, stream)))
    }
}

impl AsFd for SecuredStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.sock.as_fd()
    }
}

impl Read for SecuredStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for SecuredStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Stream for SecuredStream {
    fn never_waits(&self) -> io::Result<()> {
        self.0.sock.set_nonblocking(true)
    }

    /// To write, a handshake has to be read first.
    fn needs(&self) -> Option<PollFlags> {
        Some(if self.0.conn.wants_write() { PollFlags::OUT } else { PollFlags::IN })
    }

    fn end_writing(&mut self) {
        self.0.conn.send_close_notify();
        // It is closed in any case.
        let _unheard = self.0.flush();
        let _closed = self.0.sock.shutdown(Shutdown::Write);
    }
}
