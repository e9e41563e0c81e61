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
//! first, so that no two processes change the same block at a time, and that a flush of the new one
//! covers them; their reads may go on, and end with the server, as in a stop. A write under TLS
//! whose payload has not come by the verdict is neither done nor answered.
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

use super::connection::{Connection, Receiving};
use super::connection_table::Connections;
use super::io_fragment::{Io, Step};
#[cfg(test)]
use super::planted::{self, Bug};
use super::requests::Requests;
use super::tenants::{BUCKETS, Node, Tenants};
use super::volumes::Volumes;
use crate::config::Level;
use crate::control::snapshot::Figures;
use crate::device::{Giving, KnownLosses};
use crate::handover::record::{
    Asked, ConnectionState, HandedConnection, Reading, TenantState, VolumeBytes,
};
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
    /// When it must be done, once known.
    pub by: Option<Nanos>,
    /// Where the loop's state is sent.
    pub answer: Sender<Result<Leaving, String>>,
    /// The verdict, awaited after the answer. If it never comes it is [`Verdict::Resume`].
    pub verdict: Receiver<Verdict>,
}

/// What a loop hands over.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub connections: Vec<LeavingConnection>,
    pub tenants: Vec<TenantState>,
    /// Connections that must reconnect: those under TLS, and processes.
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
    /// The bytes that it had open there, if the other process tells.
    pub bytes: Option<VolumeBytes>,
}

/// Whether a loop's connections are given away.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// Another process asks for the loop's connections.
    leave: Option<Leave>,
    /// Whether the other process has them.
    has_left: bool,
    /// Files with a failed flush, as reported to the other process.
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

    /// The losses that are reported with the files: until these are handed over, no further flush
    /// may fail.
    pub(super) fn tells(&mut self, files: &[Giving]) {
        self.told_lost = KnownLosses::told(files);
    }

    /// Another process asks for the connections, and what is under way may take until then.
    ///
    /// # Errors
    /// Another one does already.
    pub(super) fn asks(&mut self, leave: Leave, now: Nanos) -> Result<(), Leave> {
        if self.is_asked() {
            return Err(leave);
        }
        let by = Some(now + leave.patience);
        self.leave = Some(Leave { by, ..leave });
        Ok(())
    }

    /// Whether a flush has failed since the files were reported.
    pub(super) fn has_lost(&self, files: &[Giving]) -> bool {
        !self.told_lost.are_all(files)
    }

    /// When to give up, while another process asks.
    pub(super) fn by(&self) -> Option<Nanos> {
        self.leave.as_ref().and_then(|leave| leave.by)
    }

    /// Answers the other process, and waits for its verdict if it gets something.
    pub(super) fn settle(&mut self, told: Result<Leaving, String>) -> Verdict {
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

/// Whether a connection must not be read from, while another process is to have it.
pub(super) fn holds_back(connection: &Connection) -> bool {
    is_given(connection) || under_way(connection).is_none()
}

/// The I/O of a connection that stays, if nothing is missing of it that its client must send.
fn under_way(connection: &Connection) -> Option<u32> {
    match connection.receiving {
        Receiving::Splitting { io } => Some(io),
        // A call has come with its payload.
        Receiving::Payload { io, .. } => connection.process.as_ref().map(|_| io),
        _ => None,
    }
}

/// Whether queue and device have nothing, and no connection that stays goes on with a change.
pub(super) fn is_quiet(
    requests: &Requests,
    connections: &Connections,
    is_waited_for: bool,
) -> bool {
    #[cfg(test)]
    if planted::has(Bug::LeavesAtOnce) {
        return true;
    }
    let changes = |connection: &Connection| {
        let stays = connection.is_open() && !is_given(connection);
        let io = under_way(connection).filter(|_| stays);
        io.is_some_and(|io| requests.io(io).request.kind != Kind::Read)
    };
    !is_waited_for
        && requests.fragments().iter().all(|(_, fragment)| fragment.step == Step::Filling)
        && !connections.iter().any(|(_, connection)| changes(connection))
}

/// The state of all connections, for the other process.
pub(super) fn leaving(
    requests: &Requests,
    connections: &Connections,
    volumes: &Volumes,
) -> Result<Leaving, String> {
    let mut leaving = Leaving { connections: Vec::new(), tenants: Vec::new(), stay: [0; 2] };
    for (_, connection) in connections.iter() {
        if !connection.is_open() {
            continue;
        }
        match leaving_connection(requests, connection, volumes)? {
            Some(given) => leaving.connections.push(given),
            None => leaving.stay[usize::from(!connection.wire().is_some_and(Wire::is_secure))] += 1,
        }
    }
    Ok(leaving)
}

/// What tenants of a device got, and how long they must still wait.
pub(super) fn states_of(tenants: &Tenants, now: Nanos, device: &str) -> Vec<TenantState> {
    let state = |node: &Node| TenantState {
        device: device.to_owned(),
        name: node.name.clone(),
        figures: node.figures.clone(),
        ahead: node.cap.ahead(now),
    };
    tenants.present().map(|(_, node)| state(node)).collect()
}

/// Takes that over.
pub(super) fn take_tenants<'a>(
    tenants: &mut Tenants,
    now: Nanos,
    states: impl Iterator<Item = &'a TenantState>,
) {
    for state in states {
        let Some(place) = tenants.find(&state.name) else { continue };
        let node = tenants.at_mut(place);
        if state.figures.latency_log2_us.len() == BUCKETS {
            node.figures.add(&state.figures);
        }
        node.cap.is_ahead(now, state.ahead);
    }
}

/// Logs that the volume of a connection of another process is a file, or a range of one, that the
/// connection did not have open there.
pub(super) fn tell_of_other_bytes(device: &str, peer: &Peer) {
    Entry::new(Level::Warning, "disconnect").tell_of(
        peer.origin,
        format_args!(
            "{device}: {peer}: not taken over: its volume is on another file or range here; it \
             must reconnect"
        ),
    );
}

/// Logs that there is no place for a connection of another process.
pub(super) fn tell_of_no_place(device: &str, peer: &Peer) {
    Entry::new(Level::Warning, "disconnect").tell_of(
        peer.origin,
        format_args!(
            "{device}: {peer}: not taken over: its volume is not as it was told, or there is no \
             room; it must reconnect"
        ),
    );
}

/// A connection as it is given away; nothing: it stays here.
fn leaving_connection(
    requests: &Requests,
    connection: &Connection,
    volumes: &Volumes,
) -> Result<Option<LeavingConnection>, String> {
    let socket = connection.wire().and_then(Wire::to_hand_over);
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
        bytes: Some(volumes.at(connection.place).bytes()),
    };
    Ok(Some(HandedConnection { socket, state, input, output, behind }))
}

/// Whether the connection can be given to another process.
pub(super) fn is_given(connection: &Connection) -> bool {
    connection.identity.is_some() && connection.wire().and_then(Wire::to_hand_over).is_some()
}
