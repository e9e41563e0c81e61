// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handover: the negotiation's part in giving clients to another process, and in taking them from
//! one.
//!
//! ```text
//! pause ─▶ no client is let in (it waits in the listener's queue, which the other one has, too)
//!       ─▶ those that shake hands may finish, for [`GRACE`]; those that choose go to their loop
//!       ─▶ paused: nothing happens here until the verdict
//!       ─▶ verdict   resume: listeners are looked at again
//!                    gone: clients that have not finished are closed, in words; it ends
//! ```
//!
//! What comes from another process is let in by the configuration of this one: by its rights, its
//! seats, its `most-clients`. A client that may not is closed, in words.
//!
//! Invariant: between the report and the verdict nothing is read or accepted.

use std::cell::OnceCell;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender};

use paternoster_core::Nanos;
use rustix::event::epoll;

use super::entrance::asks_whether_it_is_there;
use super::{Entrance, Negotiation};
use crate::config::rules;
use crate::device_loop::handover::{Resumed, Verdict};
use crate::device_loop::{Message, Newcomer, next_id};
use crate::export_table::View;
use crate::handover::record::{ConnectionState, HandedConnection};
use crate::host::peer::{Origin, Peer};
use crate::nbd::Exports;
use crate::wire::Wire;

/// How long clients that shake hands may take when another process takes over.
const GRACE: Nanos = Nanos::from_secs(1);

/// Sockets by what they are called in the configuration.
pub(crate) type Sockets = Result<Vec<(String, OwnedFd)>, String>;

/// Another process takes over.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Told when it is paused: how many have not finished their handshake.
    pub(crate) paused: Sender<u32>,
    /// What comes next is waited for. If it never comes, that is [`Verdict::Resume`].
    pub(crate) verdict: Receiver<Verdict>,
    /// Until when handshakes may take, once that is known.
    pub(crate) until: Option<Nanos>,
}

impl<E: Entrance> Negotiation<E> {
    /// The listening sockets, once more.
    pub(super) fn tell_sockets(&self, answer: &Sender<Sockets>) {
        let called = self.config.server.listen.iter().map(|listen| listen.at.to_string());
        let sockets = self.listeners.iter().zip(called).map(|(socket, called)| {
            let again = socket.as_fd().try_clone_to_owned().map_err(|error| error.to_string());
            Ok((called, again?))
        });
        let _gone = answer.send(sockets.collect());
    }

    /// No client is let in any more.
    pub(super) fn pause(&mut self, mut pause: Pause) {
        pause.until = Some(self.clock.now() + GRACE);
        self.rest();
        self.pause = Some(pause);
    }

    /// Whether another process has taken over: asked when all have finished, or had their time.
    pub(super) fn is_gone_for_good(&mut self) -> bool {
        let Some(until) = self.pause.as_ref().and_then(|pause| pause.until) else { return false };
        let is_over = until <= self.clock.now();
        if !(is_over || (self.in_handshake.is_empty() && self.parked.is_none())) {
            return false;
        }
        let Some(pause) = self.pause.take() else { return false };
        let heard = pause.paused.send(self.in_handshake.len()).is_ok();
        let verdict = if heard { pause.verdict.recv().ok() } else { None };
        match verdict.unwrap_or(Verdict::Resume) {
            Verdict::Resume => {
                // Clients in handshake are not late because they were not read from.
                let now = self.clock.now();
                let all: Vec<u32> = self.in_handshake.iter().map(|(index, _)| index).collect();
                for index in all {
                    self.in_handshake.at_mut(index).begins_again(now);
                    self.hear(index);
                }
                // Listeners are looked at again with the next round.
                self.rest_until = Some(now);
                false
            }
            Verdict::Gone => {
                for (_, in_handshake) in self.in_handshake.iter() {
                    let peer = in_handshake.peer();
                    crate::log::tell_of(
                        peer.origin,
                        format_args!(
                            "paternoster: {peer}: closed: it was shaking hands when another \
                             process took over"
                        ),
                    );
                }
                for listener in &self.listeners {
                    // The other process has it open: it would go on ringing here.
                    let _known = epoll::delete(&self.poll, listener);
                    listener.leave();
                }
                true
            }
        }
    }

    /// Takes over a client of another process, if the rights allow it its volume; logs what happens
    /// to one that may not have it.
    pub(crate) fn take_over(&self, arrived: HandedConnection<OwnedFd>) {
        let HandedConnection { socket, state, input, output, behind } = arrived;
        let ConnectionState { words, identity, negotiated, reading, figures, bytes } = state;
        let peer = Peer { words, origin: Origin::of(&identity) };
        let closed = |why: &str| {
            crate::log::tell_of(
                peer.origin,
                format_args!("paternoster: {peer}: not taken over: {why}; it must reconnect"),
            );
        };
        let open = OnceCell::new();
        let view = View::new(&self.export_table, &self.config, &open, || identity.clone());
        let export = &negotiated.export;
        let facts = match view.find(export) {
            Ok(facts) => facts,
            Err(_) => return closed(&format!("no volume {export} is open to it here")),
        };
        if facts.readonly && !negotiated.facts.readonly {
            return closed(&format!("it may only read {export} here"));
        }
        if let Some(why) = view.is_full(&facts) {
            return closed(&why);
        }
        let most = self.config.server.connections;
        let Some(mut seat) = self.seats.take(peer.origin) else {
            return closed(&format!("{most} are connected already"));
        };
        let tenant = rules::tenant_of(&self.config.rules, &identity);
        if !self.seats.admit(&mut seat, &tenant) {
            return closed(&format!("tenant {tenant} has {most} connections already"));
        }
        let Some((device_loop, place)) = self.export_table.enter(export) else {
            return closed(&format!("there is no volume {export} here"));
        };
        // Its process may be one that did not.
        asks_whether_it_is_there(&socket);
        let newcomer = Newcomer {
            tenant: String::new(),
            pid: identity.pid.unwrap_or(0),
            identity: Some(identity),
            link: Wire::plain(socket).into(),
            id: next_id(&self.ids),
            peer,
            input,
            output: Vec::new(),
            seat: seat.and(place),
            handed: Some(Box::new(Resumed { reading, output, behind, figures, bytes })),
            negotiated,
        };
        let _ended = device_loop.put(Message::Newcomer(Box::new(newcomer)));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;
    use crate::config::{Config, Device, Identity, Rule, Volume, Who};
    use crate::control::snapshot::Figures;
    use crate::device_loop::inbox::inbox;
    use crate::export_table::ExportTable;
    use crate::handover::record::Reading;
    use crate::host::listen::Socket;
    use crate::nbd::{ExportFacts, Negotiated};

    /// Has a tenant that comes from many addresses no more than 8 connections after a handover
    /// either, and is the ninth another tenant's?
    #[test]
    fn a_crowd_of_one_tenant_leaves_seats_behind_a_hand_over() {
        crate::log::SILENT.set(true);
        let mut config = Config::default();
        config.server.connections = 8;
        let volumes = vec![Volume::new("disk", "disk")];
        config.devices = vec![Device { volumes, ..Device::new("dev") }];
        let rule = |who, tenant: &str| Rule { who, tenant: tenant.to_owned() };
        let other = Who { uid: Some(100), ..Who::default() };
        config.rules = vec![rule(other, "other"), rule(Who::default(), "crowd")];
        let facts = ExportFacts { name: "disk".to_owned(), ..ExportFacts::default() };
        let (slot, mut device_loop) = inbox().expect("an inbox");
        let (_door, messages) = inbox().expect("an inbox");
        let mut export_table = ExportTable::default();
        export_table.add(vec![facts.clone()], &slot);
        let negotiation =
            Negotiation::<Socket>::new(Arc::new(config), export_table, vec![], None, messages);
        let negotiation = negotiation.expect("a negotiation");
        let mut is_let_in = |uid| {
            let (mut ours, theirs) = UnixStream::pair().expect("sockets");
            ours.set_nonblocking(true).expect("a socket");
            let export = "disk".to_owned();
            let identity =
                Identity { export: export.clone(), uid: Some(uid), ..Identity::default() };
            let negotiated = Negotiated {
                export,
                facts: facts.clone(),
                structured: false,
                allocation: false,
                block_sizes_known: false,
            };
            let (words, reading, figures) = (uid.to_string(), Reading::Header, Figures::default());
            let bytes = None;
            let state = ConnectionState { words, identity, negotiated, reading, figures, bytes };
            let (input, output, behind) = (vec![], vec![], vec![]);
            negotiation.take_over(HandedConnection {
                socket: theirs.into(),
                state,
                input,
                output,
                behind,
            });
            // The channel is open, or at its end.
            (ours.read(&mut [0]).is_err(), ours)
        };
        let came: Vec<_> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 9].map(&mut is_let_in).into();
        let open: Vec<bool> = came.iter().map(|(is_open, _)| *is_open).collect();
        assert_eq!(open, [[true; 8].as_slice(), &[false, true, false]].concat());
        assert_eq!(std::iter::from_fn(|| device_loop.take()).count(), 9);
    }
}
