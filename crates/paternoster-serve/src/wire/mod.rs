// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wires: a client's socket, plain or under TLS, without blocking.
//!
//! ```text
//! plain   socket ◀──▶ bytes
//! TLS     socket ◀──▶ records ◀──▶ rustls ◀──▶ bytes
//! ```
//!
//! Both are asked in the same way: `read` and `write` move what can be moved now, `WouldBlock` says
//! that nothing can. A TLS wire may still have records to send after a `write`; `flush` sends them.

mod certificates;

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

pub(crate) use certificates::server_config;

/// Plain text that a TLS wire takes before it wants its records sent.
const TLS_BUFFER: usize = 256 << 10;
/// Pieces of records that may come in a row without any data in them: a handshake has some, a
/// large record comes in several; who sends nothing else wants to keep us busy.
const RECORDS: u32 = 4096;

/// A client's socket.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
    tls: Option<Box<ServerConnection>>,
}

impl Wire {
    /// A plain wire over a socket that does not block.
    pub const fn plain(socket: OwnedFd) -> Wire {
        Wire { socket, tls: None }
    }

    /// From now on everything is under TLS.
    ///
    /// # Errors
    /// rustls's.
    pub fn secure(&mut self, config: Arc<ServerConfig>) -> io::Result<()> {
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        connection.set_buffer_limit(Some(TLS_BUFFER));
        self.tls = Some(Box::new(connection));
        Ok(())
    }

    /// Whether TLS is on.
    pub const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// The name in the client's certificate, if it showed one.
    pub fn certificate_name(&self) -> Option<String> {
        let shown = self.tls.as_ref()?.peer_certificates()?.first()?;
        certificates::name_of(shown)
    }

    /// Reads what there is: 0 bytes at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing now; others are the end of the wire.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return retry(|| Ok(rustix::io::read(&self.socket, &mut *into)?));
        };
        for _ in 0..RECORDS {
            match tls.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            let mut socket = Socket(self.socket.as_fd());
            if tls.read_tls(&mut socket)? == 0 {
                return Ok(0);
            }
            let told = tls.process_new_packets();
            // What rustls wants to say of it, an alert among others.
            send_records(tls, self.socket.as_fd())?;
            told.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
        Err(io::Error::new(ErrorKind::InvalidData, "records without data in them, without end"))
    }

    /// The last word under TLS; whether it arrives is not waited for.
    pub fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // It is closed in any case.
            let _unheard = send_records(tls, self.socket.as_fd());
        }
    }

    /// Reads straight into memory that belongs to the caller: plain wires only.
    pub const fn reads_straight(&self) -> bool {
        self.tls.is_none()
    }

    /// Writes from the slices; how many bytes were taken.
    ///
    /// # Errors
    /// `WouldBlock` when nothing can be taken now; others are the end of the wire.
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return retry(|| Ok(rustix::io::writev(&self.socket, slices)?));
        };
        send_records(tls, self.socket.as_fd())?;
        let taken = tls.writer().write_vectored(slices)?;
        send_records(tls, self.socket.as_fd())?;
        if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Sends what was taken and not sent; whether all of it has gone.
    ///
    /// # Errors
    /// The end of the wire.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        send_records(tls, self.socket.as_fd())?;
        Ok(!tls.wants_write())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends records until the socket takes no more.
fn send_records(tls: &mut ServerConnection, socket: BorrowedFd<'_>) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(&mut Socket(socket)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A socket as rustls wants it.
struct Socket<'a>(BorrowedFd<'a>);

impl Read for Socket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        retry(|| Ok(rustix::io::read(self.0, &mut *into)?))
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        retry(|| Ok(rustix::io::write(self.0, from)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
