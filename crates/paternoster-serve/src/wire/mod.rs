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
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::{ServerConfig, ServerConnection};

use crate::tally;
pub(crate) use certificates::server_config;

/// Plain text that a TLS wire takes before it wants its records sent.
const TLS_BUFFER: usize = 256 << 10;
/// Pieces of records that may come in a row without any data in them: a handshake has some, a large
/// record comes in several; a client that sends nothing else wants to keep us busy.
const RECORDS: u32 = 4096;

/// A client's socket.
#[derive(Debug)]
pub struct Wire {
    socket: Arc<OwnedFd>,
    tls: Option<Box<ServerConnection>>,
}

impl Wire {
    /// A plain wire over a socket that does not block.
    pub fn plain(socket: OwnedFd) -> Wire {
        Wire { socket: Arc::new(socket), tls: None }
    }

    /// Its socket, to be handed to another process: not under TLS, whose state stays here.
    pub(crate) fn to_hand_over(&self) -> Option<Arc<OwnedFd>> {
        self.tls.is_none().then(|| Arc::clone(&self.socket))
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

    /// The socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        OwnedFd::as_fd(&self.socket)
    }

    /// Reads what there is: 0 bytes at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing now; others are the end of the wire.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let socket = OwnedFd::as_fd(&self.socket);
        let Some(tls) = &mut self.tls else {
            return retry(|| Ok(rustix::io::read(socket, &mut *into)?));
        };
        for _ in 0..RECORDS {
            match tls.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if tls.read_tls(&mut Socket(socket))? == 0 {
                return Ok(0);
            }
            let told = tls.process_new_packets();
            // Sends what rustls has to send after it, such as an alert.
            send_records(tls, socket)?;
            told.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
        Err(io::Error::new(ErrorKind::InvalidData, "records without data in them, without end"))
    }

    /// The last word under TLS; whether it arrives is not waited for.
    pub fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // It is closed in any case.
            let _unheard = send_records(tls, OwnedFd::as_fd(&self.socket));
        }
    }

    /// Reads straight into memory that belongs to the caller: not under TLS.
    pub const fn reads_straight(&self) -> bool {
        !self.is_secure()
    }

    /// Bytes that have come and were not read; `None`: that is not known.
    pub(crate) fn arrived(&self) -> Option<u64> {
        if self.is_secure() {
            return None;
        }
        number(&self.socket, libc::FIONREAD)
    }

    /// Bytes that the socket surely takes at once; `None`: that is not known.
    pub(crate) fn room(&self) -> Option<u64> {
        tally::call();
        let all = rustix::net::sockopt::socket_send_buffer_size(&self.socket).ok()?;
        let waiting = number(&self.socket, libc::TIOCOUTQ)?;
        // The system counts what it spends on each piece, too.
        Some((all as u64).saturating_sub(waiting) / 2)
    }

    /// Whether an event would tell at once that the socket takes more.
    pub(crate) fn takes_more(&self) -> bool {
        tally::call();
        let mut asked = [PollFd::new(&self.socket, PollFlags::OUT)];
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
            && asked[0].revents().contains(PollFlags::OUT)
    }

    /// Writes from the slices; how many bytes were taken.
    ///
    /// # Errors
    /// `WouldBlock` when nothing can be taken now; others are the end of the wire.
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let socket = OwnedFd::as_fd(&self.socket);
        let Some(tls) = &mut self.tls else {
            return retry(|| Ok(rustix::io::writev(socket, slices)?));
        };
        send_records(tls, socket)?;
        let taken = tls.writer().write_vectored(slices)?;
        send_records(tls, socket)?;
        if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Sends what was taken and not sent; whether all of it has gone.
    ///
    /// # Errors
    /// The end of the wire.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        send_records(tls, OwnedFd::as_fd(&self.socket))?;
        Ok(!tls.wants_write())
    }
}

/// What the system counts of a socket's bytes.
fn number(socket: &OwnedFd, what: libc::Ioctl) -> Option<u64> {
    let mut found: libc::c_int = 0;
    tally::call();
    // SAFETY: both questions write one `int`, which is there.
    let told = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut found) };
    (told == 0).then(|| u64::try_from(found).unwrap_or(0))
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
        tally::call();
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
