// SPDX-License-Identifier: MIT OR Apache-2.0
//! Negotiation: the thread where clients come in, shake hands and are sent to their loop.
//!
//! ```text
//! listener ──▶ client in handshake: greeting, options, TLS ──▶ export and tenant known ──▶ loop
//!                 └─ too slow, too many, refused ──▶ door
//! ```
//!
//! A client that does not choose an export in time must go; one that stalls costs a file descriptor
//! and some KiB for that time, and no other client waits for it; one that never stops has its turn
//! with the others. When all places are taken, the
//! user or address that has most of them makes room for others: its oldest client in handshake
//! goes, a silent one first. To make room for its own new clients, a client goes only if it has
//! been there for a second.
//!
//! Invariants: I1 a seat is taken before a client in handshake is greeted; I2 nothing here blocks.

mod entrance;
mod handover;
mod in_handshake;
mod room;

use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::table::Table;
use paternoster_core::Nanos;
use rustix::event::{Timespec, epoll};
use rustls::ServerConfig;

use crate::clock::Clock;
use crate::config::{self, TlsMode};
use crate::device_loop::inbox::Inbox;
use crate::device_loop::seats::Seats;
use crate::device_loop::{Message, Seat, next_id};
use crate::export_table::ExportTable;
use crate::host::listen::Socket;
use crate::host::notify::Heart;
use crate::host::peer::Origin;
use crate::nbd::Negotiated;
use crate::reload::{Changed, Word};
use crate::tally;
pub(crate) use entrance::{Entrance, Who};
pub(crate) use handover::{Pause, Sockets};
use in_handshake::{Heard, InHandshake, Offer};
use room::{Stands, for_seat, to_go};

/// Clients that shake hands at a time; more wait in the listener's queue.
const IN_HANDSHAKE_MOST: u32 = 1024;
/// Clients accepted, or turned away, before others are served.
const AT_ONCE: u32 = 64;
/// How long listeners are left alone that would ring for nothing.
const REST: Nanos = Nanos::from_millis(100);
const EVENTS: usize = 128;
const TOKEN_INBOX: u64 = u64::MAX;
/// Listeners count down from here.
const TOKEN_LISTENER: u64 = u64::MAX - 1;

/// Accepts clients and does their handshakes.
pub(crate) struct Negotiation<E: Entrance = Socket> {
    config: Arc<config::Config>,
    export_table: ExportTable,
    pub(crate) clock: Clock,
    listeners: Vec<E>,
    tls: Option<Arc<ServerConfig>>,
    inbox: Inbox<Word>,
    poll: OwnedFd,
    in_handshake: Table<InHandshake>,
    /// Those of which more may have come, although their sockets do not ring again.
    put_off: Vec<u32>,
    seats: Seats,
    ids: AtomicU64,
    buffer: Vec<u8>,
    /// One that waits for a place among the clients in handshake; no others are let in meanwhile.
    parked: Option<Parked>,
    /// The system is out of file descriptors, or clients in handshake have no places: listeners are
    /// left alone until then.
    rest_until: Option<Nanos>,
    /// A service manager waits for signs of life.
    heart: Option<Heart>,
    /// Another process takes over.
    pause: Option<Pause>,
}

impl<E: Entrance> std::fmt::Debug for Negotiation<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Negotiation")
            .field("listeners", &self.listeners.len())
            .finish_non_exhaustive()
    }
}

impl<E: Entrance> Negotiation<E> {
    /// A negotiation that accepts clients at these listeners.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn new(
        config: Arc<config::Config>,
        export_table: ExportTable,
        listeners: Vec<E>,
        tls: Option<Arc<ServerConfig>>,
        inbox: Inbox<Word>,
    ) -> std::io::Result<Negotiation<E>> {
        let seats = Seats::new(config.server.connections);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN;
        epoll::add(&poll, inbox.bell(), epoll::EventData::new_u64(TOKEN_INBOX), flags)?;
        for (place, listener) in (0..).zip(&listeners) {
            let token = epoll::EventData::new_u64(TOKEN_LISTENER - place);
            listener.open()?;
            epoll::add(&poll, listener, token, flags)?;
        }
        Ok(Negotiation {
            config,
            export_table,
            clock: Clock::start(),
            listeners,
            tls,
            inbox,
            poll,
            in_handshake: Table::new(IN_HANDSHAKE_MOST),
            put_off: Vec::new(),
            seats,
            ids: AtomicU64::new(1),
            buffer: vec![0; 64 << 10],
            parked: None,
            rest_until: None,
            heart: None,
            pause: None,
        })
    }

    /// Gives signs of life to the service manager.
    pub(crate) fn with_heart(self, heart: Option<Heart>) -> Negotiation<E> {
        Negotiation { heart, ..self }
    }

    /// Accepts clients until it is ordered to end.
    pub(crate) fn run(mut self) {
        while !self.round(&self.timeout()) {}
    }

    /// Waits for events, with a timeout, and handles them; returns whether to end.
    pub(crate) fn round(&mut self, timeout: &Timespec) -> bool {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        tally::call();
        let (events, _) = match epoll::wait(&self.poll, &mut events[..], Some(timeout)) {
            Ok(found) => found,
            Err(_) => (&mut [][..], &mut [][..]),
        };
        let put_off = std::mem::take(&mut self.put_off);
        for event in events {
            let token = event.data.u64();
            let listeners = self.listeners.len() as u64;
            if token == TOKEN_INBOX {
                self.inbox.drain_bell();
                while let Some(word) = self.inbox.take() {
                    match word {
                        Word::End => return true,
                        Word::Sockets(answer) => self.tell_sockets(&answer),
                        Word::Pause(pause) => self.pause(pause),
                        Word::Changed(Changed { config, mut export_table, tls, heard }) => {
                            export_table.goes_on_from(&self.export_table);
                            (self.config, self.export_table, self.tls) =
                                (config, export_table, tls);
                            // The waiter for that may have gone.
                            let _gone = heard.send(());
                        }
                    }
                }
            } else if token > TOKEN_LISTENER - listeners {
                self.accept(usize::try_from(TOKEN_LISTENER - token).unwrap_or(0));
            } else if let Ok(index) = u32::try_from(token)
                && self.in_handshake.is_live(index)
                && !self.in_handshake.at(index).is_put_off()
            {
                self.hear(index);
            }
        }
        for index in put_off {
            if self.in_handshake.is_live(index) && self.in_handshake.at_mut(index).takes_its_turn()
            {
                self.hear(index);
            }
        }
        if self.is_gone_for_good() {
            return true;
        }
        self.close_slow();
        if let Some(heart) = &mut self.heart {
            heart.beat(self.clock.now());
        }
        false
    }

    /// Clients that shake hands.
    #[cfg(test)]
    pub(crate) const fn in_handshake(&self) -> u32 {
        self.in_handshake.len()
    }

    /// Seats that are taken: of all, by origins, by tenants, by exports.
    #[cfg(test)]
    pub(crate) fn seats_taken(&self) -> [u32; 4] {
        let [all, origins, tenants] = self.seats.taken();
        [all, origins, tenants, self.export_table.clients()]
    }

    fn timeout(&self) -> Timespec {
        let ms =
            if self.in_handshake.is_empty() && self.rest_until.is_none() { 10_000 } else { 100 };
        let beat = self.heart.as_ref().map(|heart| heart.next_in(self.clock.now()));
        let ms = beat.map_or(ms, |beat| beat.min(ms));
        let ms = if self.put_off.is_empty() { ms } else { 0 };
        Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 }
    }

    /// Accepts the clients that wait at a listener.
    fn accept(&mut self, place: usize) {
        if !self.unpark() || self.pause.is_some() {
            return self.rest();
        }
        let most = self.config.server.connections;
        for _ in 0..AT_ONCE {
            tally::call();
            let (socket, who) = match self.listeners[place].let_in() {
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
                    // Out of descriptors: clients that wait are accepted when others have gone.
                    crate::log::tell_of(
                        Origin::Unknown,
                        format_args!("paternoster: a client could not be let in: {error}"),
                    );
                    return self.rest();
                }
            };
            let origin = Origin::of(&who.identity);
            let Some(seat) = self.seat(origin) else {
                crate::log::tell_of(
                    origin,
                    format_args!(
                        "paternoster: {}: turned away: {most} are connected already",
                        who.words
                    ),
                );
                // Later clients may have one.
                continue;
            };
            self.parked = Some(Parked { socket, who, place, seat });
            if !self.unpark() {
                return self.rest();
            }
        }
    }

    /// A seat for a new client: if none is free, that of a client in handshake that makes room.
    fn seat(&mut self, origin: Origin) -> Option<Seat> {
        self.seats.take(origin).or_else(|| {
            let goes = for_seat(&self.in_handshake_now(), origin, self.clock.now())?;
            self.send_away(goes);
            self.seats.take(origin)
        })
    }

    /// Greets a client that waits for room; returns whether no other waits.
    fn unpark(&mut self) -> bool {
        let Some(parked) = self.parked.take() else { return true };
        if self.in_handshake.is_full() && !self.make_room(Origin::of(&parked.who.identity)) {
            self.parked = Some(parked);
            return false;
        }
        self.greet(parked);
        true
    }

    /// Sends a client in handshake away for one of this origin; whether one could be.
    fn make_room(&mut self, origin: Origin) -> bool {
        let goes = to_go(&self.in_handshake_now(), origin, self.clock.now());
        goes.inspect(|&place| self.send_away(place)).is_some()
    }

    fn in_handshake_now(&self) -> Vec<Stands> {
        tally::looked(self.in_handshake.len().into());
        self.in_handshake.iter().map(|(place, in_handshake)| in_handshake.stands(place)).collect()
    }

    fn send_away(&mut self, place: u32) {
        let in_handshake = self.in_handshake.release(place);
        let peer = in_handshake.peer();
        crate::log::tell_of(
            peer.origin,
            format_args!(
                "paternoster: {peer}: gone: it has most of the places and chose no export"
            ),
        );
    }

    /// Listeners are not looked at for a moment: they would ring all the time.
    fn rest(&mut self) {
        if self.rest_until.is_none() {
            self.rest_until = Some(self.clock.now() + REST);
            for listener in &self.listeners {
                let _known = epoll::delete(&self.poll, listener);
            }
        }
    }

    fn greet(&mut self, parked: Parked) {
        let Parked { socket, who, place, seat } = parked;
        // Small answers go out at once; on a unix socket there is nothing to set.
        let _not_tcp = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let tls = (self.listeners[place].tls(), self.config.server.shows_certificates());
        let in_handshake = InHandshake::new((socket, who), tls, seat, self.clock.now());
        let Ok(index) = self.in_handshake.insert(in_handshake) else { return };
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let token = epoll::EventData::new_u64(index.into());
        let socket = self.in_handshake.at(index).socket();
        tally::call();
        if epoll::add(&self.poll, socket, token, flags).is_err() {
            self.in_handshake.release(index);
            return;
        }
        self.hear(index);
    }

    /// Hears a client in handshake out, as far as it has spoken.
    fn hear(&mut self, index: u32) {
        let (config, export_table) = (&self.config, &self.export_table);
        let offer = Offer { config, export_table, tls: self.tls.as_ref() };
        match self.in_handshake.at_mut(index).hear(offer, &mut self.buffer) {
            Ok(Heard::Waits) => {}
            Ok(Heard::PutOff) => self.put_off.push(index),
            Ok(Heard::Chosen(negotiated)) => self.show_to_device_loop(index, negotiated),
            Err(reason) => {
                if !reason.is_empty() {
                    let peer = self.in_handshake.at(index).peer();
                    crate::log::tell_of(
                        peer.origin,
                        format_args!("paternoster: {peer}: turned away in the handshake: {reason}"),
                    );
                }
                self.in_handshake.release(index);
            }
        }
    }

    /// A client has chosen: from now on it is its loop's.
    fn show_to_device_loop(&mut self, index: u32, negotiated: Negotiated) {
        let mut in_handshake = self.in_handshake.release(index);
        tally::call();
        let _watched = epoll::delete(&self.poll, in_handshake.socket());
        let Some((device_loop, place)) = self.export_table.enter(&negotiated.export) else {
            return;
        };
        let identity = in_handshake.identity_at(&negotiated.export);
        let tenant = config::rules::tenant_of(&self.config.rules, &identity);
        if !self.seats.admit(in_handshake.seat_mut(), &tenant) {
            let peer = in_handshake.peer();
            return crate::log::tell_of(
                peer.origin,
                format_args!(
                    "paternoster: {peer}: turned away: tenant {tenant} has {} connections already",
                    self.config.server.connections
                ),
            );
        }
        let id = next_id(&self.ids);
        let newcomer = in_handshake.into_newcomer(identity, negotiated, id, place);
        // A loop that has ended takes no clients.
        let _ended = device_loop.put(Message::Newcomer(Box::new(newcomer)));
    }

    /// Clients that took too long are closed; listeners that were paused are looked at again.
    fn close_slow(&mut self) {
        let now = self.clock.now();
        let patience = self.config.server.handshake_timeout;
        let late = self
            .in_handshake
            .iter()
            .filter(|(_, in_handshake)| in_handshake.is_late(now, patience));
        let late: Vec<u32> = late.map(|(key, _)| key).collect();
        for index in late {
            let in_handshake = self.in_handshake.release(index);
            let peer = in_handshake.peer();
            crate::log::tell_of(
                peer.origin,
                format_args!("paternoster: {peer}: gone: no export was chosen in time"),
            );
        }
        if self.pause.is_none() && self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
            if !self.unpark() {
                self.rest_until = Some(now + REST);
                return;
            }
            for (place, listener) in (0..).zip(&self.listeners) {
                let token = epoll::EventData::new_u64(TOKEN_LISTENER - place);
                let _again = epoll::add(&self.poll, listener, token, epoll::EventFlags::IN);
            }
        }
    }
}

/// A client that was let in and not greeted yet.
struct Parked {
    socket: OwnedFd,
    who: Who,
    /// Number of its listener.
    place: usize,
    seat: Seat,
}

/// Whether any listener speaks TLS.
pub(crate) fn wants_tls(listeners: &[Socket]) -> bool {
    listeners.iter().any(|listener| listener.tls != TlsMode::Off)
}
