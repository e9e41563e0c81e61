// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listening: the sockets of a configuration, open.
//!
//! They are opened first, while the process may still do what its later user may not (ports below
//! 1024, folders of root's). What is refused: `unix_socket.rs`; and an inherited TCP socket beyond
//! loopback without TLS, as the configuration refuses one that is opened here.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::activation::Inherited;
use super::privileges::Account;
use super::unix_socket::{self, OwnPath};
use crate::config::{Address, Listen, Server, TlsMode};
use crate::handover::Takeover;

/// Clients that wait to be let in; the system has a limit of its own (somaxconn).
const BACKLOG: i32 = 4096;

/// A socket that clients come to. Its path, if it has one, is removed with it.
#[derive(Debug)]
pub struct Socket {
    /// The socket, listening, blocking.
    pub listener: Listener,
    /// Whether clients must, may, or cannot use TLS.
    pub tls: TlsMode,
    own: Option<OwnPath>,
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// A unix socket.
    Unix(UnixListener),
    /// TCP.
    Tcp(TcpListener),
}

/// Where a socket is in the end: ports are known, and what was inherited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A unix socket.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.listener {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Socket {
    /// Another process listens at it from now on, and removes its path.
    pub(crate) fn leave(&self) {
        if let Some(own) = &self.own {
            own.leave();
        }
    }

    /// Where it is.
    ///
    /// # Errors
    /// The system's error.
    pub fn place(&self) -> io::Result<Place> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().map(Place::Tcp),
            Listener::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().map(PathBuf::from);
                Ok(Place::Unix(path.unwrap_or_default()))
            }
        }
    }
}

/// Opens every socket of the configuration. Unix sockets belong to `owner`, if another than us.
///
/// # Errors
/// Which cannot be opened, and why; none is open then.
pub fn open(
    server: &Server,
    inherited: &mut Inherited,
    owner: Option<&Account>,
) -> Result<Vec<Socket>, String> {
    open_with(server, inherited, owner, None)
}

/// As [`open`]; what another process listens at, and is called the same, is taken from it.
///
/// # Errors
/// As there.
pub fn open_with(
    server: &Server,
    inherited: &mut Inherited,
    owner: Option<&Account>,
    takeover: Option<&Takeover>,
) -> Result<Vec<Socket>, String> {
    let each = server.listen.iter().map(|listen| {
        let taken = takeover.and_then(|it| Some((it, it.listener(&listen.at.to_string())?)));
        if let Some((takeover, socket)) = taken {
            let listener = usable(socket, listen, server.insecure)?;
            let own = match &listen.at {
                Address::Unix { path, .. } => OwnPath::of(path, &takeover.ours).ok(),
                _ => None,
            };
            return Ok(Socket { listener, tls: listen.tls, own });
        }
        let (listener, own) = match &listen.at {
            Address::Unix { path, mode } => {
                let (socket, own) = unix_socket::open(path, *mode, BACKLOG, owner)?;
                (Listener::Unix(UnixListener::from(socket)), Some(own))
            }
            Address::Tcp(at) => {
                let socket = tcp(*at).map_err(|error| format!("{}: {error}", listen.at))?;
                (Listener::Tcp(TcpListener::from(socket)), None)
            }
            Address::Inherited(number) => {
                (adopt(inherited.socket(*number)?, listen, server.insecure)?, None)
            }
        };
        Ok(Socket { listener, tls: listen.tls, own })
    });
    each.collect()
}

/// With SO_REUSEADDR: connections of an earlier server that are still going away do not matter.
fn tcp(at: SocketAddr) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// What was inherited, if it is a listening stream socket that may be used as it is.
fn adopt(socket: OwnedFd, listen: &Listen, insecure: bool) -> Result<Listener, String> {
    let wrong = |why: &str| format!("{}: {why}", listen.at);
    let kind = sockopt::socket_type(&socket).map_err(|_| wrong("it is no socket"))?;
    let listening = sockopt::socket_acceptconn(&socket).unwrap_or(false);
    if kind != SocketType::STREAM || !listening {
        return Err(wrong("it is not a listening stream socket (ListenStream=)"));
    }
    // Accepting must wait, whatever the one before us wanted.
    rustix::io::ioctl_fionbio(&socket, false).map_err(|error| wrong(&error.to_string()))?;
    usable(socket, listen, insecure)
}

/// A listening socket, as what it is, if its clients may come in the way that is configured.
fn usable(socket: OwnedFd, listen: &Listen, insecure: bool) -> Result<Listener, String> {
    let wrong = |why: &str| format!("{}: {why}", listen.at);
    let domain = sockopt::socket_domain(&socket).map_err(|error| wrong(&error.to_string()))?;
    match domain {
        AddressFamily::UNIX => Ok(Listener::Unix(UnixListener::from(socket))),
        AddressFamily::INET | AddressFamily::INET6 => {
            let listener = TcpListener::from(socket);
            let at = listener.local_addr().map_err(|error| wrong(&error.to_string()))?;
            if !at.ip().is_loopback() && listen.tls != TlsMode::Required && !insecure {
                return Err(wrong(&format!(
                    "everybody who reaches {at} could read and write, in the clear; TLS (`tls = \
                     \"required\"`), an address of loopback, or `insecure = true`"
                )));
            }
            Ok(Listener::Tcp(listener))
        }
        _ => Err(wrong("it is neither a unix socket nor TCP")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::super::scratch::Scratch;
    use super::*;

    fn server(listen: &[&str]) -> Server {
        let listen = listen.iter().map(|text| Listen::new(text.parse().unwrap(), false)).collect();
        Server { listen, ..Server::default() }
    }

    /// Are sockets open at their places, and is the port that the system chose reported?
    #[test]
    fn sockets_are_open() {
        let scratch = Scratch::new();
        let path = scratch.path("s");
        let unix = format!("unix:{}", path.display());
        let server = server(&[&unix, "tcp:127.0.0.1:0", "tcp:127.0.0.1:0"]);
        let sockets = open(&server, &mut Inherited::default(), None).unwrap();
        assert_eq!(sockets[0].place().unwrap(), Place::Unix(path.clone()));
        UnixStream::connect(&path).unwrap();
        for socket in &sockets[1..] {
            let Place::Tcp(at) = socket.place().unwrap() else { panic!("TCP") };
            TcpStream::connect(at).unwrap();
        }
    }

    /// Is a port in use reported, and nothing left open?
    #[test]
    fn a_port_in_use() {
        let scratch = Scratch::new();
        let path = scratch.path("s");
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = format!("tcp:{}", taken.local_addr().unwrap());
        let server = server(&[&format!("unix:{}", path.display()), &tcp]);
        let refusal = open(&server, &mut Inherited::default(), None).unwrap_err();
        assert!(refusal.starts_with(&tcp) && refusal.contains("in use"), "{refusal}");
        assert!(!path.exists());
    }

    /// Are inherited sockets taken for what they are, and others refused?
    #[test]
    fn inherited_sockets() {
        let scratch = Scratch::new();
        let listen = Listen::new(Address::Inherited(3), false);
        let adopt = |socket: OwnedFd, insecure| adopt(socket, &listen, insecure);
        let unix = UnixListener::bind(scratch.path("s")).unwrap();
        unix.set_nonblocking(true).unwrap();
        assert!(matches!(adopt(unix.into(), false), Ok(Listener::Unix(_))));
        let near = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(matches!(adopt(near.into(), false), Ok(Listener::Tcp(_))));
        let far = TcpListener::bind("0.0.0.0:0").unwrap();
        let again = far.try_clone().unwrap();
        assert!(adopt(far.into(), false).unwrap_err().contains("in the clear"));
        assert!(adopt(again.into(), true).is_ok());
        let refusal = adopt(UnixDatagram::unbound().unwrap().into(), false).unwrap_err();
        assert_eq!(refusal, "inherited:3: it is not a listening stream socket (ListenStream=)");
        let file = std::fs::File::create(scratch.path("f")).unwrap();
        assert_eq!(adopt(file.into(), false).unwrap_err(), "inherited:3: it is no socket");
    }
}
