// SPDX-License-Identifier: MIT OR Apache-2.0
//! In handshake: a client that has not chosen its export yet, and how it is heard.
//!
//! ```text
//! greeted ─▶ send what waits ─▶ (TLS) ─▶ read ─▶ take options ─┬▶ Chosen: its loop's
//!              ▲                                               ├▶ closing: last words, then gone
//!              └──────────── more has come ────────────────────┴▶ Waits, or PutOff: others first
//! ```
//!
//! The socket rings once for all that has come, so a client is heard until there is no more, or
//! until its turn is over: then it is *put off*, and heard again behind the others although its
//! socket does not ring. What it may choose is found out once, when it first asks, and again when
//! that may have changed: by another configuration, or a certificate.
//!
//! Invariants: I1 in one turn at most [`STEPS`] reads are made for it, and nothing here blocks; I2
//! while [`ANSWERS_MOST`] bytes of answers wait, nothing is read; I3 at most [`INPUT_MOST`] bytes
//! of what it said, and one read's, are kept between turns.
//!
//! Not here: which clients there are, how long each may take, and who must go (`room.rs`).

use std::cell::OnceCell;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use paternoster_core::Nanos;
use rustls::ServerConfig;

use super::entrance::Who;
use super::room::Stands;
use crate::config::{Config, Identity, TlsMode};
use crate::device_loop::{Newcomer, Seat};
use crate::export_table::{ExportTable, Open, View};
use crate::host::peer::{Origin, Peer};
use crate::nbd::handshake::{ANSWERS_MOST, INPUT_MOST};
use crate::nbd::{Handshake, Negotiated, Step};
use crate::tally;
use crate::wire::Wire;

/// How often one client is read from before others are: 64 KiB, or as much of answers, each time.
const STEPS: u32 = 2;

/// What is there to be chosen, and how: it changes with a reload.
#[derive(Clone, Copy)]
pub(super) struct Offer<'a> {
    pub(super) config: &'a Arc<Config>,
    pub(super) export_table: &'a ExportTable,
    pub(super) tls: Option<&'a Arc<ServerConfig>>,
}

/// How far a client has got once it was heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// Its socket rings when there is more, or has room.
    Waits,
    /// There may be more; others are heard first.
    PutOff,
    /// It has chosen.
    Chosen(Negotiated),
}

/// A client that has not chosen yet.
pub(super) struct InHandshake {
    wire: Wire,
    handshake: Handshake,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Whether the client has sent nothing yet.
    is_silent: bool,
    /// Input was read that has not been looked at yet.
    left_over: bool,
    /// Others are heard before it is heard further.
    is_put_off: bool,
    /// Gone once its last words are sent.
    closing: bool,
    /// TLS begins once its last plain words are sent.
    secures: bool,
    identity: Identity,
    /// The exports that are open to it, once it has asked.
    open: OnceCell<Open>,
    peer: Peer,
    came: Nanos,
    seat: Seat,
}

impl InHandshake {
    /// A client that came `now`, and is greeted when it is first heard. `shows_certificates`:
    /// rules may ask for the name in its certificate.
    pub(super) fn new(
        (socket, who): (OwnedFd, Who),
        (tls, shows_certificates): (TlsMode, bool),
        seat: Seat,
        now: Nanos,
    ) -> InHandshake {
        let is_asked_for_name = tls != TlsMode::Off && shows_certificates;
        let mut handshake = Handshake::new(tls, false);
        let mut output = Vec::new();
        handshake.greet(&mut output);
        InHandshake {
            wire: Wire::plain(socket),
            handshake,
            input: Vec::new(),
            output,
            sent: 0,
            is_silent: true,
            left_over: false,
            is_put_off: false,
            closing: false,
            secures: false,
            peer: Peer { words: who.words, origin: Origin::of(&who.identity) },
            identity: Identity { is_asked_for_name, ..who.identity },
            open: OnceCell::new(),
            came: now,
            seat,
        }
    }

    /// The client, in words.
    pub(super) const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// What rings when it has said something.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.wire.socket()
    }

    /// Its seat among the connections of the server.
    pub(super) const fn seat_mut(&mut self) -> &mut Seat {
        &mut self.seat
    }

    /// What is asked of it when others want its place.
    pub(super) fn stands(&self, place: u32) -> Stands {
        let (origin, is_silent, came) = (self.peer.origin, self.is_silent, self.came);
        Stands { place, origin, is_silent, came }
    }

    /// Whether it has had `patience`.
    pub(super) fn is_late(&self, now: Nanos, patience: Nanos) -> bool {
        self.came + patience <= now
    }

    /// Its time begins now: it was not heard until now.
    pub(super) const fn begins_again(&mut self, now: Nanos) {
        self.came = now;
    }

    /// Whether others are heard before it is heard further.
    pub(super) const fn is_put_off(&self) -> bool {
        self.is_put_off
    }

    /// It is its turn, if it was put off; whether it was.
    pub(super) const fn takes_its_turn(&mut self) -> bool {
        std::mem::replace(&mut self.is_put_off, false)
    }

    /// Hears it out, as far as it has spoken and its turn lasts. `buffer` is for what is read.
    ///
    /// # Errors
    /// Why it goes; empty if that is no news.
    pub(super) fn hear(&mut self, offer: Offer<'_>, buffer: &mut [u8]) -> Result<Heard, String> {
        for _ in 0..STEPS {
            let sent = self.send();
            if self.closing {
                // A client that sends ABORT need not wait for the answer.
                return if sent == Ok(false) { Ok(Heard::Waits) } else { Err(String::new()) };
            }
            let all_sent = sent?;
            if self.secures {
                if !all_sent {
                    return Ok(Heard::Waits);
                }
                self.secure(offer.tls)?;
            }
            // First what was left over because too many answers waited to be sent.
            if !std::mem::take(&mut self.left_over) {
                match self.wire.read(buffer) {
                    Ok(0) => return Err(String::new()),
                    Ok(read) => {
                        self.is_silent = false;
                        self.input.extend_from_slice(&buffer[..read]);
                        tally::copied(read);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Heard::Waits),
                    Err(error) => return Err(error.to_string()),
                }
            }
            match self.take(offer) {
                // Its answers go first; after that it is read from again.
                Step::More if self.output.len() >= ANSWERS_MOST => {
                    self.left_over = true;
                    if !self.send()? {
                        return Ok(Heard::Waits);
                    }
                }
                Step::More if self.input.len() > INPUT_MOST => {
                    return Err("it asks faster than it listens".to_owned());
                }
                Step::More => {}
                Step::StartTls => self.secures = true,
                Step::Chosen(negotiated) => return Ok(Heard::Chosen(negotiated)),
                Step::Closed(reason) => {
                    self.closing = true;
                    if !reason.is_empty() {
                        crate::log::tell_of(
                            self.peer.origin,
                            format_args!("paternoster: {}: refused: {reason}", self.peer),
                        );
                    }
                }
            }
        }
        let was_put_off = std::mem::replace(&mut self.is_put_off, true);
        Ok(if was_put_off { Heard::Waits } else { Heard::PutOff })
    }

    /// Answers what it has said, as far as that is whole.
    fn take(&mut self, offer: Offer<'_>) -> Step {
        if self.open.get().is_some_and(|open| !open.is_by(offer.config)) {
            self.open = OnceCell::new();
        }
        let (identity, wire) = (&self.identity, &self.wire);
        let who = || identity.with_certificate(wire.certificate_name());
        let view = View::new(offer.export_table, offer.config, &self.open, who);
        let (taken, step) = self.handshake.take(&self.input, &view, &mut self.output);
        // Refusals of EXPORT_NAME are logged where it is closed.
        if view.was_refused() && !matches!(step, Step::Closed(_)) {
            crate::log::tell_of(
                self.peer.origin,
                format_args!(
                    "paternoster: {}: asked for an export that is not open to it",
                    self.peer
                ),
            );
        }
        tally::copied(self.input.len() - taken);
        self.input.drain(..taken);
        step
    }

    /// Sends what there is to send; returns whether all of it has been sent.
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
        // The client's certificate may open other volumes.
        self.open = OnceCell::new();
        self.secures = false;
        Ok(())
    }

    /// What rules choose its tenant by, now that it has chosen this export.
    pub(super) fn identity_at(&self, export: &str) -> Identity {
        Identity {
            export: export.to_owned(),
            ..self.identity.with_certificate(self.wire.certificate_name())
        }
    }

    /// It goes to its loop, as connection `id`, with a `place` among the clients of its export.
    pub(super) fn into_newcomer(
        self,
        identity: Identity,
        negotiated: Negotiated,
        id: u64,
        place: Seat,
    ) -> Newcomer {
        Newcomer {
            tenant: String::new(),
            pid: identity.pid.unwrap_or(0),
            identity: Some(identity),
            link: self.wire.into(),
            id,
            peer: self.peer,
            input: self.input,
            output: self.output[self.sent..].to_vec(),
            seat: self.seat.and(place),
            handed: None,
            negotiated,
        }
    }
}
