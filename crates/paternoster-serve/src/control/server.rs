// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control socket: lines in, lines out.
//!
//! ```text
//! client: {"do":"weight","name":"db","weight":300}
//! server: {"devices":[{"device":"disk0"}],"ok":true}
//! ```
//!
//! A client that can open the socket's file (by default its mode is 0600) may query the state; one
//! that may also give orders can change it, and each order is logged with the user that gave it. A
//! line has at most 64 KiB and ten seconds to arrive, its answer ten more to be read; a client that
//! is silent for five minutes is disconnected. A line that is not in the language gets an error,
//! and the next line is read. After an endless line the connection is closed, since it is unknown
//! where the next one begins.
//!
//! Invariant: each line that is not blank has one answer, in the order of the lines.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::acceptor::{Acceptor, Peer};
use super::answer::{answer, refusal};
use super::order::Answer;
use super::request::{LINE_LIMIT, What, parse};
use crate::config::rights::is_among;
use crate::config::{self, Identity, Level, Who};
use crate::device_loop::{DeviceLoopHandle, Seat};
use crate::host::ours::Ours;
use crate::host::peer::{self, Origin, PROC};
use crate::host::unix_socket::{OwnPath, Refusal, listen_at};
use crate::log::Entry;

/// Default permission bits of the socket.
const MODE: u32 = 0o600;
/// Letters of an order that are logged.
const SHOWN: usize = 200;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// How long the server waits for a client.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Connections at a time.
    connections: usize,
    /// From a line's first byte to its last, and for an answer to be taken.
    line: Duration,
    /// From an answer to the next line's first byte.
    idle: Duration,
}

const PATIENCE: Patience =
    Patience { connections: 16, line: Duration::from_secs(10), idle: Duration::from_secs(300) };

/// Requests to the server itself, not to its loops.
pub trait Host: Send + Sync + 'static {
    /// Begins its end. It is called after the answer, by a thread of the control socket, for which
    /// it must not wait.
    fn stop(&self);

    /// Reads the configuration again.
    ///
    /// # Errors
    /// Why nothing was changed.
    fn reload(&self) -> Answer;

    /// Writes what was ordered into the configuration.
    ///
    /// # Errors
    /// Why it is as it was.
    fn save(&self) -> Answer {
        Err("this server has no configuration file".to_owned())
    }

    /// Gives everything to the process at the other end, which has been granted it.
    ///
    /// # Errors
    /// Why this process goes on; the other has been notified.
    fn hand_over(&self, _to: UnixStream, _who: &Identity) -> Result<(), String> {
        Err("this server does not hand over".to_owned())
    }
}

/// Which clients come to a control socket, and which of them may give orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Permission bits of the socket.
    pub mode: u32,
    /// Clients that may give orders; `None`: root and the server's user.
    pub orders: Option<Vec<Who>>,
}

impl Default for Access {
    fn default() -> Access {
        Access { mode: MODE, orders: None }
    }
}

impl Access {
    /// The access that a configuration gives.
    #[must_use]
    pub fn of(server: &config::Server) -> Access {
        Access { mode: server.control_mode.unwrap_or(MODE), orders: server.control_orders.clone() }
    }

    /// Whether a client may have everything: root, and the server's user, if they may order.
    fn may_have_all(&self, who: &Identity, owner: u32) -> bool {
        self.may_order(who, owner)
            && [0, owner, rustix::process::geteuid().as_raw()].map(Some).contains(&who.uid)
    }

    /// Whether a client may give orders.
    fn may_order(&self, who: &Identity, owner: u32) -> bool {
        match &self.orders {
            Some(entries) => is_among(entries, who),
            // Its user may have changed since it was opened.
            None => [0, owner, rustix::process::geteuid().as_raw()].map(Some).contains(&who.uid),
        }
    }
}

/// A control socket with its threads; ends when it is dropped.
pub struct ControlServer {
    acceptor: Acceptor,
    file: Option<OwnPath>,
}

impl fmt::Debug for ControlServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlServer").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A control socket that is open, and at which nothing answers yet.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    file: OwnPath,
}

impl ControlSocket {
    /// Listens at `path`.
    pub(crate) fn listen(path: &Path, access: &Access) -> io::Result<ControlSocket> {
        let opened = listen_at(path, access.mode, BACKLOG, None);
        let (socket, file) = opened.map_err(|refusal| named(path, refusal))?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(ControlSocket { listener, file })
    }

    /// Another process listens there, until it is ours.
    pub(crate) fn taken(path: &Path, socket: OwnedFd, ours: &Ours) -> io::Result<ControlSocket> {
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(ControlSocket { listener, file: OwnPath::of(path, ours)? })
    }

    /// Whether its path is removed at its end.
    pub(crate) fn ours(&self) -> Ours {
        self.file.ours()
    }

    /// The socket, once more.
    pub(crate) fn again(&self) -> io::Result<OwnedFd> {
        Ok(self.listener.try_clone()?.into())
    }
}

impl ControlServer {
    /// Listens at `path`.
    ///
    /// # Errors
    /// The socket cannot be made; the message names it.
    pub fn start(
        path: &Path,
        device_loops: Vec<DeviceLoopHandle>,
        host: impl Host,
    ) -> io::Result<ControlServer> {
        ControlServer::start_for(path, Access::default(), device_loops, host)
    }

    /// As [`ControlServer::start`], for other clients than by default.
    ///
    /// # Errors
    /// See there.
    pub fn start_for(
        path: &Path,
        access: Access,
        device_loops: Vec<DeviceLoopHandle>,
        host: impl Host,
    ) -> io::Result<ControlServer> {
        ControlServer::with_patience(path, access, device_loops, host, PATIENCE)
    }

    fn with_patience(
        path: &Path,
        access: Access,
        device_loops: Vec<DeviceLoopHandle>,
        host: impl Host,
        patience: Patience,
    ) -> io::Result<ControlServer> {
        let socket = ControlSocket::listen(path, &access)?;
        ControlServer::at(socket, access, device_loops, host, patience, Arc::default())
    }

    /// Starts a server at a socket that is already open.
    pub(crate) fn behind(
        socket: ControlSocket,
        access: Access,
        device_loops: Vec<DeviceLoopHandle>,
        host: impl Host,
        paused: Arc<AtomicBool>,
    ) -> io::Result<ControlServer> {
        ControlServer::at(socket, access, device_loops, host, PATIENCE, paused)
    }

    fn at(
        socket: ControlSocket,
        access: Access,
        device_loops: Vec<DeviceLoopHandle>,
        host: impl Host,
        patience: Patience,
        paused: Arc<AtomicBool>,
    ) -> io::Result<ControlServer> {
        let ControlSocket { listener, file } = socket;
        let most = patience.connections;
        let full = refusal(&format!("{most} connections are open, which is the most"));
        let full = line(&full);
        // Clients that may only ask leave some places free for those that may give orders.
        let asking = Arc::<AtomicU32>::default();
        let most_asking = u32::try_from(most / 2).unwrap_or(u32::MAX);
        let others = refusal(&format!("{most_asking} that may only ask are there already"));
        let others = line(&others);
        let owner = rustix::process::geteuid().as_raw();
        let acceptor = Acceptor::open(
            "control",
            listener,
            most,
            paused,
            move |peer| {
                // A peer whose user is not known may only ask.
                let who = peer::of_unix(peer.stream(), Path::new(PROC)).unwrap_or_default();
                let may_order = access.may_order(&who, owner);
                let seat = (!may_order).then(|| Seat::take(&asking, most_asking));
                if matches!(seat, Some(None)) {
                    let _told = peer.write_all(&others, Instant::now());
                    return;
                }
                let rights = (may_order, access.may_have_all(&who, owner));
                converse(peer, (&who, rights), &device_loops, patience, &host);
            },
            move |peer| drop(peer.write_all(&full, Instant::now())),
        )?;
        Ok(ControlServer { acceptor, file: Some(file) })
    }

    /// Closes all connections, waits for their threads, removes the socket's file.
    pub fn stop(mut self) {
        self.acceptor.close();
        drop(self.file.take());
    }
}

/// A refusal with the path, as for other errors of the control socket.
fn named(path: &Path, refusal: Refusal) -> io::Error {
    let (kind, why) = match refusal {
        Refusal::InUse => (ErrorKind::AddrInUse, "a server listens there already".to_owned()),
        Refusal::NoSocket => {
            let what = "there is something that is not a socket; it is left alone";
            (ErrorKind::AlreadyExists, what.to_owned())
        }
        Refusal::Failed(_, error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
            (ErrorKind::InvalidInput, "the path of a socket has at most 108 bytes".to_owned())
        }
        Refusal::Unclear(error) | Refusal::Unseen(error) | Refusal::Failed(_, error) => {
            (error.kind(), error.to_string())
        }
    };
    io::Error::new(kind, format!("{}: {why}", path.display()))
}

fn line(value: &Value) -> Vec<u8> {
    let mut text = value.to_string().into_bytes();
    text.push(b'\n');
    text
}

/// The refusal for a client that may ask and not give orders.
const NO_ORDERS: &str = "you may ask (help, list, snapshot, attributes, get, explain), not order: \
                         `control-orders` of the configuration says who may";

/// The refusal for a client that may give orders, but not this one.
const NOT_ALL: &str = "only root and the server's own user may take over";

/// Logs an order, the user that gave it, and its result. Clients that may give orders have no rate
/// limit: they are few, and a flood of other lines must not hide an order.
fn note((who, may_order): (&Identity, bool), text: &[u8], said: &Value) {
    let number = |number: Option<u32>| number.map_or("?".to_owned(), |number| number.to_string());
    let text = String::from_utf8_lossy(text);
    let shown: String = text.trim().chars().take(SHOWN).collect();
    let shown = shown.replace(char::is_control, "?");
    let outcome = match said.get("error").and_then(Value::as_str) {
        None => "done".to_owned(),
        Some(why) => format!("refused: {}", why.replace(char::is_control, "?")),
    };
    let (uid, pid) = (number(who.uid), number(who.pid));
    let line = format!("paternoster: order of uid {uid} pid {pid}: {shown}: {outcome}");
    let entry = Entry::new(Level::Info, "order").with("outcome", &*outcome);
    let entry = who.uid.into_iter().fold(entry, |entry, uid| entry.with("uid", uid));
    if may_order {
        entry.tell(format_args!("{line}"));
    } else {
        entry.tell_of(Origin::of(who), format_args!("{line}"));
    }
}

/// Answers line by line, until the other side ends, errs or loses its time.
fn converse(
    peer: &mut Peer<UnixStream>,
    (who, (may_order, may_have_all)): (&Identity, (bool, bool)),
    device_loops: &[DeviceLoopHandle],
    patience: Patience,
    host: &impl Host,
) {
    let mut lines = Lines::default();
    loop {
        let text = match lines.next(peer, patience) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(error) => {
                let why = match error.kind() {
                    ErrorKind::InvalidData => error.to_string(),
                    ErrorKind::TimedOut if lines.is_within() => {
                        format!("the line did not end within {:?}", patience.line)
                    }
                    _ => return,
                };
                let _ = peer.write_all(&line(&refusal(&why)), Instant::now() + patience.line);
                return peer.close_finished(Instant::now() + Duration::from_millis(100));
            }
        };
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let request = parse(&text);
        let is_order = request.as_ref().is_ok_and(|request| !request.what.only_asks());
        let hands_over = request.as_ref().is_ok_and(|it| matches!(it.what, What::Handover(_)));
        let said = match &request {
            Ok(_) if is_order && !may_order => refusal(NO_ORDERS),
            Ok(_) if hands_over && !may_have_all => refusal(NOT_ALL),
            Ok(request) => answer(device_loops, host, request),
            Err(why) => refusal(why),
        };
        if is_order {
            note((who, may_order), &text, &said);
        }
        let written = peer.write_all(&line(&said), Instant::now() + patience.line);
        if hands_over && said.get("ok").is_some() {
            // From here on the bytes are no longer lines: what came after this one would be lost.
            if let (Ok(()), false, Ok(to)) =
                (&written, lines.is_within(), peer.stream().try_clone())
            {
                // The client and the log have both been notified.
                let _told = host.hand_over(to, who);
            }
            return;
        }
        if may_order && request.is_ok_and(|request| request.what == What::Stop) {
            host.stop();
        }
        if written.is_err() {
            return;
        }
    }
}

/// Bytes that have come and were not read by the caller yet.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// When the line that is not complete began.
    began: Option<Instant>,
}

impl Lines {
    /// Part of a line has come.
    fn is_within(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The next line without its end; an unfinished last one too. `None` after that.
    fn next(
        &mut self,
        peer: &mut Peer<UnixStream>,
        patience: Patience,
    ) -> io::Result<Option<Vec<u8>>> {
        let idle = Instant::now() + patience.idle;
        self.began = self.is_within().then(Instant::now);
        let mut searched = 0;
        loop {
            let end = self.bytes[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let rest = self.bytes.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.bytes, rest);
                line.pop();
                return Ok(Some(line));
            }
            searched = self.bytes.len();
            if searched > LINE_LIMIT {
                let why = format!("the line is longer than {LINE_LIMIT} bytes");
                return Err(io::Error::new(ErrorKind::InvalidData, why));
            }
            let deadline = self.began.map_or(idle, |began| began + patience.line);
            let mut piece = [0; 4096];
            match peer.read(&mut piece, deadline)? {
                0 if self.bytes.is_empty() => return Ok(None),
                0 => return Ok(Some(std::mem::take(&mut self.bytes))),
                read => self.bytes.extend_from_slice(&piece[..read]),
            }
            self.began.get_or_insert_with(Instant::now);
        }
    }
}

#[cfg(test)]
mod tests;
