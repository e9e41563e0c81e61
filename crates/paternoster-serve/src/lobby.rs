// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lobby: the thread where clients come in, shake hands and are sent to their desk.
//!
//! ```text
//! listener ──▶ visitor: greeting, options, TLS ──▶ export and tenant known ──▶ desk
//!                 └─ too slow, too many, refused ──▶ door
//! ```
//!
//! Who does not choose an export in time must go; a client that stalls costs a file descriptor
//! and some KiB for that time, and nobody waits for it.
//!
//! Invariants: I1 a seat is taken before a visitor is greeted; I2 nothing here blocks.

use std::io::{ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use crate::table::Table;
use rustix::event::{Timespec, epoll};
use rustls::ServerConfig;

use crate::catalog::Catalog;
use crate::config::{self, Identity, TlsMode, rules};
use crate::desk::inbox::Inbox;
use crate::desk::{Letter, Newcomer, Seat, next_id};
use crate::host::listen::{Listener, Socket};
use crate::host::peer::{self, Origin, Peer};
use crate::nbd::handshake::ANSWERS_MOST;
use crate::nbd::{Handshake, Negotiated, Step};
use crate::wire::Wire;

/// Clients that shake hands at a time; more wait in the listener's queue.
const VISITORS: u32 = 1024;
const EVENTS: usize = 128;
const TOKEN_INBOX: u64 = u64::MAX;
/// Bytes that a unix socket keeps for its client.
const SEND_BUFFER: usize = 512 << 10;
/// Listeners count down from here.
const TOKEN_LISTENER: u64 = u64::MAX - 1;

/// A client that has not chosen yet.
struct Visitor {
    wire: Wire,
    handshake: Handshake,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Input is left that was not looked at yet.
    left_over: bool,
    /// Gone once its last words are sent.
    closing: bool,
    /// TLS begins once its last plain words are sent.
    secures: bool,
    identity: Identity,
    peer: Peer,
    until: Instant,
    seat: Seat,
}

/// Where clients come in.
pub(crate) struct Lobby {
    config: Arc<config::Config>,
    catalog: Catalog,
    listeners: Vec<Socket>,
    tls: Option<Arc<ServerConfig>>,
    inbox: Inbox<()>,
    poll: OwnedFd,
    visitors: Table<Visitor>,
    seats: Arc<AtomicU32>,
    ids: AtomicU64,
    buffer: Vec<u8>,
    /// The system is out of file descriptors or seats: listeners are left alone until then.
    rest_until: Option<Instant>,
}

impl std::fmt::Debug for Lobby {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lobby").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

impl Lobby {
    /// A lobby behind these listeners.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn new(
        config: Arc<config::Config>,
        catalog: Catalog,
        listeners: Vec<Socket>,
        tls: Option<Arc<ServerConfig>>,
        inbox: Inbox<()>,
    ) -> std::io::Result<Lobby> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN;
        epoll::add(&poll, inbox.bell(), epoll::EventData::new_u64(TOKEN_INBOX), flags)?;
        for (place, listener) in (0..).zip(&listeners) {
            let token = epoll::EventData::new_u64(TOKEN_LISTENER - place);
            set_nonblocking(listener)?;
            epoll::add(&poll, listener, token, flags)?;
        }
        Ok(Lobby {
            config,
            catalog,
            listeners,
            tls,
            inbox,
            poll,
            visitors: Table::new(VISITORS),
            seats: Arc::new(AtomicU32::new(0)),
            ids: AtomicU64::new(1),
            buffer: vec![0; 64 << 10],
            rest_until: None,
        })
    }

    /// Lets clients in until a letter comes.
    pub(crate) fn run(mut self) {
        loop {
            let timeout = self.timeout();
            let mut events = [const { MaybeUninit::uninit() }; EVENTS];
            let (events, _) = match epoll::wait(&self.poll, &mut events[..], Some(&timeout)) {
                Ok(found) => found,
                Err(_) => (&mut [][..], &mut [][..]),
            };
            for event in events {
                let token = event.data.u64();
                let listeners = self.listeners.len() as u64;
                if token == TOKEN_INBOX {
                    self.inbox.hush();
                    if self.inbox.take().is_some() {
                        return;
                    }
                } else if token > TOKEN_LISTENER - listeners {
                    self.accept(usize::try_from(TOKEN_LISTENER - token).unwrap_or(0));
                } else if let Ok(index) = u32::try_from(token)
                    && self.visitors.is_live(index)
                {
                    self.hear(index);
                }
            }
            self.see_off_the_slow();
        }
    }

    fn timeout(&self) -> Timespec {
        let ms = if self.visitors.is_empty() && self.rest_until.is_none() { 10_000 } else { 100 };
        Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 }
    }

    /// Lets in who waits at a listener.
    fn accept(&mut self, place: usize) {
        let most = self.config.server.connections;
        while !self.visitors.is_full() {
            let (socket, who) = match let_in(&self.listeners[place]) {
                Ok(client) => client,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) =>
                {
                    continue;
                }
                Err(error) => {
                    // Out of descriptors: those who wait find room when others have gone.
                    crate::log::tell_of(
                        Origin::Unknown,
                        format_args!("paternoster: a client could not be let in: {error}"),
                    );
                    return self.rest();
                }
            };
            let Some(seat) = Seat::take(&self.seats, most) else {
                crate::log::tell_of(
                    Origin::of(&who.identity),
                    format_args!(
                        "paternoster: {}: turned away: {most} are connected already",
                        who.words
                    ),
                );
                return self.rest();
            };
            self.greet(socket, who, place, seat);
        }
        self.rest();
    }

    /// Listeners are not looked at for a moment: they would ring all the time.
    fn rest(&mut self) {
        if self.rest_until.is_none() {
            self.rest_until = Some(Instant::now() + Duration::from_millis(100));
            for listener in &self.listeners {
                let _known = epoll::delete(&self.poll, listener);
            }
        }
    }

    fn greet(&mut self, socket: OwnedFd, who: Who, place: usize, seat: Seat) {
        // Small answers go out at once; on a unix socket there is nothing to set.
        let _not_tcp = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let mut handshake = Handshake::new(self.listeners[place].tls, false);
        let mut output = Vec::new();
        handshake.greet(&mut output);
        let visitor = Visitor {
            wire: Wire::plain(socket),
            handshake,
            input: Vec::new(),
            output,
            sent: 0,
            left_over: false,
            closing: false,
            secures: false,
            peer: Peer { words: who.words, origin: Origin::of(&who.identity) },
            identity: who.identity,
            until: Instant::now() + Duration::from_nanos(self.config.server.handshake_timeout.0),
            seat,
        };
        let Ok(key) = self.visitors.insert(visitor) else { return };
        let index = key;
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let token = epoll::EventData::new_u64(index.into());
        let socket = self.visitors.at(index).wire.socket();
        let watched = socket.map(|socket| epoll::add(&self.poll, socket, token, flags));
        if !matches!(watched, Some(Ok(()))) {
            self.visitors.release(index);
            return;
        }
        self.hear(index);
    }

    /// Hears a visitor out, as far as it has spoken.
    fn hear(&mut self, index: u32) {
        let told = self.hear_and_answer(index);
        match told {
            Ok(None) => {}
            Ok(Some(negotiated)) => self.show_to_desk(index, negotiated),
            Err(reason) => {
                if !reason.is_empty() {
                    let peer = &self.visitors.at(index).peer;
                    crate::log::tell_of(
                        peer.origin,
                        format_args!("paternoster: {peer}: turned away in the handshake: {reason}"),
                    );
                }
                self.visitors.release(index);
            }
        }
    }

    fn hear_and_answer(&mut self, index: u32) -> Result<Option<Negotiated>, String> {
        let visitor = self.visitors.at_mut(index);
        loop {
            let sent = visitor.send();
            if visitor.closing {
                // Who takes leave need not wait for the answer.
                return if sent == Ok(false) { Ok(None) } else { Err(String::new()) };
            }
            let all_sent = sent?;
            if visitor.secures {
                if !all_sent {
                    return Ok(None);
                }
                visitor.secure(self.tls.as_ref())?;
            }
            // First what was left over because too many answers waited to be sent.
            if !std::mem::take(&mut visitor.left_over) {
                match visitor.wire.read(&mut self.buffer) {
                    Ok(0) => return Err(String::new()),
                    Ok(read) => visitor.input.extend_from_slice(&self.buffer[..read]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                    Err(error) => return Err(error.to_string()),
                }
            }
            let (taken, step) =
                visitor.handshake.take(&visitor.input, &self.catalog, &mut visitor.output);
            visitor.input.drain(..taken);
            match step {
                // Its answers go first; once they have gone it is heard again.
                Step::More if visitor.output.len() >= ANSWERS_MOST => {
                    visitor.left_over = true;
                    if !visitor.send()? {
                        return Ok(None);
                    }
                }
                Step::More if visitor.input.len() > crate::nbd::handshake::INPUT_MOST => {
                    return Err("it asks faster than it listens".to_owned());
                }
                Step::More => {}
                Step::StartTls => visitor.secures = true,
                Step::Chosen(negotiated) => return Ok(Some(negotiated)),
                Step::Closed(reason) => {
                    visitor.closing = true;
                    if !reason.is_empty() {
                        crate::log::tell_of(
                            visitor.peer.origin,
                            format_args!("paternoster: {}: refused: {reason}", visitor.peer),
                        );
                    }
                }
            }
        }
    }

    /// A client has chosen: from now on it is its desk's.
    fn show_to_desk(&mut self, index: u32, negotiated: Negotiated) {
        let visitor = self.visitors.release(index);
        let _watched = visitor.wire.socket().map(|socket| epoll::delete(&self.poll, socket));
        let identity = Identity {
            export: negotiated.export.clone(),
            certificate: visitor.wire.certificate_name(),
            ..visitor.identity
        };
        let newcomer = Newcomer {
            tenant: rules::tenant_of(&self.config.rules, &identity),
            pid: identity.pid.unwrap_or(0),
            wire: visitor.wire,
            id: next_id(&self.ids),
            peer: visitor.peer,
            input: visitor.input,
            output: visitor.output[visitor.sent..].to_vec(),
            seat: visitor.seat,
            negotiated,
        };
        if let Some(desk) = self.catalog.desk_of(&newcomer.negotiated.export) {
            // A desk that has ended lets nobody in.
            let _ended = desk.put(Letter::Newcomer(Box::new(newcomer)));
        }
    }

    /// Those who took too long go; listeners that were left alone are looked at again.
    fn see_off_the_slow(&mut self) {
        let now = Instant::now();
        let late = self.visitors.iter().filter(|(_, visitor)| visitor.until <= now);
        let late: Vec<u32> = late.map(|(key, _)| key).collect();
        for index in late {
            let visitor = self.visitors.release(index);
            crate::log::tell_of(
                visitor.peer.origin,
                format_args!("paternoster: {}: gone: no export was chosen in time", visitor.peer),
            );
        }
        if self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
            for (place, listener) in (0..).zip(&self.listeners) {
                let token = epoll::EventData::new_u64(TOKEN_LISTENER - place);
                let _again = epoll::add(&self.poll, listener, token, epoll::EventFlags::IN);
            }
        }
    }
}

impl Visitor {
    /// Sends what there is; whether all of it has gone.
    fn send(&mut self) -> Result<bool, String> {
        while self.sent < self.output.len() {
            match self.wire.write(&[IoSlice::new(&self.output[self.sent..])]) {
                Ok(taken) => self.sent += taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.to_string()),
            }
        }
        self.output.clear();
        self.sent = 0;
        self.wire.flush().map_err(|error| error.to_string())
    }

    /// TLS from here on.
    fn secure(&mut self, tls: Option<&Arc<ServerConfig>>) -> Result<(), String> {
        let Some(tls) = tls else { return Err("TLS is not configured".to_owned()) };
        self.wire.secure(Arc::clone(tls)).map_err(|error| error.to_string())?;
        self.handshake.secured();
        self.secures = false;
        Ok(())
    }
}

/// A client, as far as its socket tells.
struct Who {
    identity: Identity,
    words: String,
}

/// Accepts one client.
fn let_in(listener: &Socket) -> std::io::Result<(OwnedFd, Who)> {
    match &listener.listener {
        Listener::Unix(listener) => {
            let (socket, _) = listener.accept()?;
            socket.set_nonblocking(true)?;
            // Room for an answer of 128 KiB beside the one that is being read; the system may
            // give less, and that is fine, too.
            let _less = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
            let identity = peer::of_unix(&socket, Path::new("/proc"))?;
            let number = |number: Option<u32>| number.map_or("?".to_owned(), |n| n.to_string());
            let words = format!("unix uid {} pid {}", number(identity.uid), number(identity.pid));
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

fn set_nonblocking(socket: &Socket) -> std::io::Result<()> {
    match &socket.listener {
        Listener::Unix(listener) => listener.set_nonblocking(true),
        Listener::Tcp(listener) => listener.set_nonblocking(true),
    }
}

/// Whether any listener speaks TLS.
pub(crate) fn wants_tls(listeners: &[Socket]) -> bool {
    listeners.iter().any(|listener| listener.tls != TlsMode::Off)
}
