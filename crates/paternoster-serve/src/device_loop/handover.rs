// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handover: a loop's part in giving its connections to another process, or taking them from one.
//!
//! ```text
//! leave ─▶ no request begins, none is read or cut any further
//!       ─▶ what the queue and the device have ends, and is answered into the outboxes     (quiet)
//!       ─▶ the giver gets each connection as it is now; the thread does nothing more
//!       ─▶ verdict   resume: all connections are read from again
//!                    gone: their sockets are closed here, which no client sees
//! ```
//!
//! Quiet depends on the device alone: a client that takes no answers, or sends half a request, does
//! not matter. The state of its current request goes with it: the request, how much of it was done,
//! the bytes read but not yet parsed, those not yet sent. A fragment of a write that is being
//! filled becomes unread bytes again.
//!
//! Connections under TLS and processes on files stay. Their requests that change blocks are done
//! first, so that no two processes change the same block at a time; their reads may go on, and end
//! with the server, as in a stop.
//!
//! A flush that fails after the files' state was reported keeps the connections here: the kernel
//! reports lost pages once, and the other process would not learn of it.
//!
//! Invariants: I1 between the giver's report and the verdict nothing is read, written or sent; I2 a
//! connection is served by one process at a time.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use paternoster_core::Nanos;

use super::DeviceLoop;
use super::connection::{Connection, Pace, Receiving};
use super::io_fragment::{Io, Step};
use super::outbox::Outbox;
#[cfg(test)]
use super::planted::{self, Bug};
use super::requests::Requests;
use super::tenants::BUCKETS;
use crate::config::Level;
use crate::control::snapshot::Figures;
use crate::device::{Giving, KnownLosses};
use crate::handover::record::{Asked, ConnectionState, HandedConnection, Reading, TenantState};
use crate::host::peer::Peer;
use crate::log::Entry;
use crate::nbd::transmission::{Kind, Refusal};
use crate::wire::Wire;

/// See [`HandoverMessage`], which only this crate can write.
#[derive(Debug)]
pub struct Post(pub(crate) Box<HandoverMessage>);

/// Messages to a loop about another process.
#[derive(Debug)]
pub(crate) enum HandoverMessage {
    /// Its files, for a process that may take over.
    Files(Sender<Result<Vec<Giving>, String>>),
    /// Another process takes over.
    Leave(Leave),
    /// What tenants had at the process before.
    Tenants(Vec<TenantState>),
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything goes on here.
    Resume,
    /// Another process serves.
    Gone,
}

/// Connections are to be given away.
#[derive(Debug)]
pub(crate) struct Leave {
    /// How long what is under way may take.
    pub patience: Nanos,
    /// Its deadline, once known.
    pub by: Option<Nanos>,
    /// Where they go.
    pub answer: Sender<Result<Leaving, String>>,
    /// The verdict, awaited after the answer. If it never comes it is [`Verdict::Resume`].
    pub verdict: Receiver<Verdict>,
}

/// What a loop gives away.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub connections: Vec<LeavingConnection>,
    pub tenants: Vec<TenantState>,
    /// Those that must reconnect: under TLS, and processes.
    pub stay: [u32; 2],
}

/// A connection that is given away.
type LeavingConnection = HandedConnection<Arc<OwnedFd>>;

/// The request that a connection was in the middle of.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub reading: Reading,
    pub output: Vec<u8>,
    pub behind: Vec<u8>,
    pub figures: Figures,
}

/// Whether a loop's connections are given away.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// Another process asks for the loop's connections.
    leave: Option<Leave>,
    /// It has them.
    has_left: bool,
    /// Files with a failed flush, as it was told.
    told_lost: KnownLosses,
}

impl Handover {
    /// Whether another process asks for the connections.
    #[inline]
    pub(super) const fn is_asked(&self) -> bool {
        self.leave.is_some()
    }

    /// Whether another process has them.
    pub(super) const fn is_done(&self) -> bool {
        self.has_left
    }

    /// What is told of the files: until they are given, no other flush may fail.
    fn tells(&mut self, files: &[Giving]) {
        self.told_lost = KnownLosses::told(files);
    }

    /// Another process asks for the connections, and what is under way may take until then.
    ///
    /// # Errors
    /// Another one does already.
    fn asks(&mut self, leave: Leave, now: Nanos) -> Result<(), Leave> {
        if self.is_asked() {
            return Err(leave);
        }
        let by = Some(now + leave.patience);
        self.leave = Some(Leave { by, ..leave });
        Ok(())
    }

    /// When to give up, while another process asks.
    fn by(&self) -> Option<Nanos> {
        self.leave.as_ref().and_then(|leave| leave.by)
    }

    /// Answers the other process, and waits for its verdict if it gets something.
    fn settle(&mut self, told: Result<Leaving, String>) -> Verdict {
        let Some(leave) = self.leave.take() else { return Verdict::Resume };
        let gives = told.is_ok();
        let heard = leave.answer.send(told).is_ok();
        let verdict = match gives && heard {
            true => leave.verdict.recv().unwrap_or(Verdict::Resume),
            false => Verdict::Resume,
        };
        self.has_left = verdict == Verdict::Gone;
        verdict
    }
}

impl DeviceLoop {
    pub(super) fn read_of_handover(&mut self, message: HandoverMessage) {
        match message {
            HandoverMessage::Files(answer) => {
                let _gone = answer.send(self.files_to_hand_over());
            }
            HandoverMessage::Tenants(all) => self.take_tenants(&all),
            HandoverMessage::Leave(leave) => {
                let ends = if self.stop.is_on() {
                    Some(leave)
                } else {
                    let now = self.time.look();
                    self.handover.asks(leave, now).err()
                };
                if let Some(leave) = ends {
                    let _gone = leave.answer.send(Err("it is ending already".to_owned()));
                }
            }
        }
    }

    fn files_to_hand_over(&mut self) -> Result<Vec<Giving>, String> {
        // The drain would be forgotten: a volume that is being copied would be written to.
        if let Some(name) = self.volumes.any_drained() {
            return Err(format!("volume {name} is drained, or goes: resume it, or try again"));
        }
        let files = self.commands.backend().to_hand_over();
        self.handover.tells(&files);
        Ok(files)
    }

    /// Whether a connection must not be read from, because another process is to have it.
    pub(super) fn holds_back(&self, index: u32) -> bool {
        if !self.handover.is_asked() {
            return false;
        }
        let connection = self.connections.at(index);
        is_given(connection) || !matches!(connection.receiving, Receiving::Splitting { .. })
    }

    /// Whether the queue and the device have nothing.
    fn is_quiet(&self) -> bool {
        #[cfg(test)]
        if planted::has(Bug::LeavesAtOnce) {
            return true;
        }
        let changes = |connection: &Connection| match connection.receiving {
            Receiving::Splitting { io } if connection.wire.is_some() && !is_given(connection) => {
                self.requests.io(io).request.kind != Kind::Read
            }
            _ => false,
        };
        !self.is_waited_for()
            && self.requests.fragments().iter().all(|(_, fragment)| fragment.step == Step::Filling)
            && !self.connections.iter().any(|(_, connection)| changes(connection))
    }

    /// Gives connections away as soon as possible, or gives up.
    pub(super) fn leave_if_quiet(&mut self) {
        let Some(by) = self.handover.by() else { return };
        let is_quiet = self.is_quiet();
        if !is_quiet && !self.stop.is_on() && self.time.now < by {
            return;
        }
        let told = match is_quiet && !self.stop.is_on() {
            true => self.leaving(),
            false if self.stop.is_on() => Err("it is ending already".to_owned()),
            false => Err(format!("what is under way does not end: {}", self.under_way())),
        };
        let verdict = self.handover.settle(told);
        self.time.look();
        match verdict {
            Verdict::Resume => self.go_on(),
            Verdict::Gone => self.give_connections_away(),
        }
    }

    fn leaving(&self) -> Result<Leaving, String> {
        // The kernel has reported it here, and will not there: the other's next flush would
        // succeed.
        if !self.handover.told_lost.are_all(&self.commands.backend().to_hand_over()) {
            return Err("a flush has failed since it heard of the files: try again".to_owned());
        }
        let mut leaving = Leaving { connections: Vec::new(), tenants: Vec::new(), stay: [0; 2] };
        for (_, connection) in self.connections.iter() {
            let Some(wire) = &connection.wire else { continue };
            match leaving_connection(&self.requests, connection)? {
                Some(given) => leaving.connections.push(given),
                None => leaving.stay[usize::from(!wire.is_secure())] += 1,
            }
        }
        let there = self.tenants.present();
        leaving.tenants.extend(there.map(|(_, node)| TenantState {
            device: self.name.clone(),
            name: node.name.clone(),
            figures: node.figures.clone(),
            ahead: node.cap.ahead(self.time.now),
        }));
        Ok(leaving)
    }

    /// The handover is off: all connections are read from again.
    fn go_on(&mut self) {
        for index in self.connections.all() {
            let (now, connection) = (self.time.now, self.connections.at_mut(index));
            connection.readable = true;
            // That nothing has moved was not the client's fault.
            connection.takes.begin_again(now);
            connection.brings.begin_again(now);
            self.connections.make_ready(index);
        }
    }

    /// Another process has the connections: they go without notice. The others finish, as in a
    /// stop.
    fn give_connections_away(&mut self) {
        let given = self.connections.iter().filter(|(_, connection)| is_given(connection));
        let given: Vec<u32> = given.map(|(index, _)| index).collect();
        for index in given {
            let socket = self.connections.at(index).wire.as_ref().and_then(Wire::socket);
            // The other process has it open: its events would still arrive here.
            if let Some(socket) = socket {
                self.poller.forget(socket);
            }
            self.hang_up(index);
        }
        self.stop_soon();
    }

    /// A connection goes on where it was at another process.
    pub(super) fn resume(&mut self, index: u32, resumed: Resumed) {
        let Resumed { reading, output, behind, figures } = resumed;
        let connection = self.connections.at_mut(index);
        if figures.latency_log2_us.len() == BUCKETS {
            connection.served_before = 0;
            connection.figures = Figures { served_ns: 0, ..figures };
        }
        let owed = match &reading {
            Reading::Within { owed, .. } => *owed,
            _ => 0,
        };
        connection.out = Outbox::taken(output, owed, behind);
        if !connection.out.is_empty() {
            connection.takes.owes(self.time.now);
        }
        let done = match reading {
            Reading::Header => Ok(()),
            Reading::Over => {
                connection.receiving = Receiving::Over;
                self.leave_when_idle(index);
                Ok(())
            }
            Reading::Skipping { left, asked, errno, text } => asked.request().map(|request| {
                connection.receiving = Receiving::Skipping { left };
                connection.refusal = Some((request, Refusal { errno, text }));
            }),
            Reading::Within { asked, cut, error, answered, .. } => {
                self.go_on_within(index, &asked, cut, error, answered)
            }
        };
        if let Err(why) = done {
            self.close(index, &format!("it cannot go on where it was: {why}"));
        }
    }

    fn go_on_within(
        &mut self,
        index: u32,
        asked: &Asked,
        cut: u64,
        error: i32,
        answered: u32,
    ) -> Result<(), String> {
        let request = asked.request()?;
        if cut > u64::from(request.length) {
            return Err(format!("{cut} bytes of {} were done", request.length));
        }
        let made = Io {
            connection: index,
            request,
            arrived: self.time.now,
            cut,
            left: 0,
            answered,
            error,
            then_flush: request.flags.fua() && matches!(request.kind, Kind::Trim),
            silent: false,
        };
        let Some(io) = self.requests.begin(made) else {
            return Err("there is no room for its request".to_owned());
        };
        self.shared.begin_io(self.connections.at(index).tenant);
        let connection = self.connections.at_mut(index);
        connection.ios += 1;
        connection.reads += u32::from(request.kind == Kind::Read);
        connection.receiving = match request.kind {
            Kind::Write => Receiving::Payload { io, fragment: None },
            _ => Receiving::Splitting { io },
        };
        if request.kind == Kind::Write {
            connection.brings = Pace::default();
            connection.brings.owes(self.time.now);
        }
        self.volumes.begins(connection.place);
        Ok(())
    }

    /// Takes over what tenants got, and how long they must still wait.
    fn take_tenants(&mut self, all: &[TenantState]) {
        self.time.look();
        for state in all.iter().filter(|state| state.device == self.name) {
            let Some(place) = self.tenants.find(&state.name) else { continue };
            let now = self.time.now;
            let node = self.tenants.at_mut(place);
            if state.figures.latency_log2_us.len() == BUCKETS {
                node.figures.add(&state.figures);
            }
            node.cap.is_ahead(now, state.ahead);
        }
    }

    /// Logs that there is no place for a connection of another process.
    pub(super) fn tell_of_no_place(&self, peer: &Peer) {
        Entry::new(Level::Warning, "disconnect").tell_of(
            peer.origin,
            format_args!(
                "{}: {peer}: not taken over: its volume is not as it was told, or there is no \
                 room; it must reconnect",
                self.name
            ),
        );
    }
}

/// A connection as it is given away; nothing: it stays here.
fn leaving_connection(
    requests: &Requests,
    connection: &Connection,
) -> Result<Option<LeavingConnection>, String> {
    let socket = connection.wire.as_ref().and_then(Wire::to_hand_over);
    let (Some(socket), Some(identity)) = (socket, &connection.identity) else {
        return Ok(None);
    };
    let Some((output, owed, behind)) = connection.out.to_hand_over() else {
        return Err(format!("{}: a read of it waits for others", connection.peer));
    };
    let mut input = Vec::new();
    let within = |io: u32, cut: u64| {
        let Io { request, error, answered, .. } = requests.io(io);
        let (asked, error, answered) = (Asked::of(request), *error, *answered);
        Reading::Within { asked, cut, error, answered, owed }
    };
    let reading = match connection.receiving {
        Receiving::Header => Reading::Header,
        Receiving::Over => Reading::Over,
        Receiving::Splitting { io } => within(io, requests.io(io).cut),
        Receiving::Payload { io, fragment } => {
            let mut cut = requests.io(io).cut;
            if let Some(fragment) = fragment.map(|fragment| requests.fragment(fragment)) {
                cut -= u64::from(fragment.length);
                let (from, to) = (fragment.skew(), fragment.skew() + fragment.filled as usize);
                let bytes = fragment.block.as_ref().map(|block| &block.bytes()[from..to]);
                #[cfg(test)]
                let bytes = bytes.filter(|_| !planted::has(Bug::ForgetsFilled));
                input.extend_from_slice(bytes.unwrap_or_default());
            }
            within(io, cut)
        }
        Receiving::Skipping { left } => match &connection.refusal {
            Some((request, Refusal { errno, text })) => {
                let (asked, errno, text) = (Asked::of(request), *errno, text.clone());
                Reading::Skipping { left, asked, errno, text }
            }
            None => return Err(format!("{}: payload of no request", connection.peer)),
        },
    };
    input.extend_from_slice(&connection.rest);
    let state = ConnectionState {
        words: connection.peer.words.clone(),
        identity: identity.clone(),
        negotiated: connection.negotiated.clone(),
        reading,
        figures: connection.figures.clone(),
    };
    Ok(Some(HandedConnection { socket, state, input, output, behind }))
}

/// Whether the connection can be given to another process.
fn is_given(connection: &Connection) -> bool {
    connection.identity.is_some() && connection.wire.as_ref().and_then(Wire::to_hand_over).is_some()
}
