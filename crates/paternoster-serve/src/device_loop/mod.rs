// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loop: the thread in front of a device, with its queue, its connections and its memory.
//!
//! ```text
//!             ┌────────────────────────────── one thread ─────────────────────────────┐
//! handshake ▶ │ inbox                                                                 │
//! control ──▶ │   connections ─▶ receive ─▶ I/Os ─▶ fragments ─▶ recorded queue       │
//!             │        ▲                                              │               │
//!             │        └── replies ◀─ ends of fragments ◀─ dispatch ◀─ backend        │
//!             └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! One thread does everything for a device, without locks: it reads requests, asks the queue whose
//! turn it is, gives commands to the backend and sends answers. Memory is taken once: an arena for
//! data, slabs for connections, I/Os and fragments. When something runs out, connections are not
//! read from.
//!
//! * `connection`, `receive`: connections, and reading from them. `io_fragment`, `split`: requests,
//!   and their pieces. `range_lock`: which changes of the same blocks may be under way together.
//!   `dispatch`: the queue and the device. `reply`, `outbox`: answers to clients, and their order.
//! * `tenants`, `cgroups`, `weights`, `caps`, `naps`, `queue_limit`: which tenant has which share,
//!   and how much of it. `pool`, `shared`: whose memory and places; `credit`: how much of it waits
//!   for clients. `surveys`: whose question for holes is next. `turns`: whose requests are read.
//!   `policy`: a scheduler that fails, and what takes over.
//! * `handover`: another process takes over. `seats`: places for connections. `processes`:
//!   connections that make calls (FUSE). `orders`, `status`: what a running loop can be asked.
//!   `reload`: a new configuration. `ending`: a device that hangs at a stop.
//!
//! Invariants: I1 no connection can make the loop wait; I2 an accepted request is answered, or its
//! connection has gone; I3 memory is bounded by the configuration.

mod busy_poll;
mod caps;
mod cgroups;
mod complaints;
mod connection;
mod connections;
mod credit;
mod departed;
mod dispatch;
mod ending;
pub(crate) mod geometry;
mod handle;
pub(crate) mod handover;
pub mod inbox;
mod io_fragment;
mod journal;
#[cfg(test)]
mod judge;
mod naps;
mod open;
mod orders;
mod outbox;
#[cfg(test)]
pub(crate) mod planted;
mod policy;
mod pool;
mod processes;
mod queue_limit;
mod range_lock;
mod receive;
pub(crate) mod reload;
mod reply;
#[cfg(test)]
mod rig;
pub(crate) mod seats;
mod shared;
mod split;
mod status;
mod surveys;
mod tenants;
#[cfg(test)]
mod tests;
mod turns;
pub(crate) mod volumes;
mod weights;

use std::collections::{BTreeSet, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use crate::table::Table;
use paternoster_core::{Nanos, Tag};
use rustix::event::{Timespec, epoll};

pub use handle::DeviceLoopHandle;
pub(crate) use open::attributes;
pub use open::{Message, Newcomer, Opened, next_id};
pub use seats::Seat;

use crate::clock::Clock;
use crate::config::Rule;
use crate::control::order::Asked;
use crate::device::arena::Arena;
use crate::device::lender::{Lender, Loan};
use crate::host::notify::Pulse;
use crate::recorded_queue::RecordedQueue;
use crate::stats::Stats;
use crate::wire::Wire;
use busy_poll::BusyPoll;
use complaints::Complaints;
use connection::{Blocked, Connection};
use inbox::Inbox;
use io_fragment::{Fragment, Io};
use policy::Policy;
use processes::Processes;
use queue_limit::QueueLimit;
use range_lock::RangeLocks;
use shared::Pools;
use surveys::Surveys;
use tenants::Tenants;
use turns::Turns;
use volumes::Volumes;

/// Events fetched by one system call.
const EVENTS: usize = 256;
/// A timeout that has passed already.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const TOKEN_INBOX: u64 = u64::MAX;
const TOKEN_BACKEND: u64 = u64::MAX - 1;
/// How often stalls and deadlines are checked.
const TICK: Nanos = Nanos::from_millis(250);

/// The thread in front of a device.
pub struct DeviceLoop {
    name: String,
    lender: Lender,
    arena: Arena,
    recorded_queue: RecordedQueue<Stats>,
    volumes: Volumes,
    tenants: Tenants,
    pools: Pools,
    queue_limit: QueueLimit,
    capped: bool,
    /// The device does its commands at once, on this thread.
    at_once: bool,
    verbose: bool,
    connection_memory: u64,
    stall_timeout: Nanos,
    drain_timeout: Nanos,
    device_timeout: Nanos,

    clock: Clock,
    now: Nanos,
    next_tick: Nanos,
    poll: OwnedFd,
    inbox: Inbox<Message>,
    /// The inbox has signalled.
    rung: bool,
    busy_poll: BusyPoll,
    /// What the last look has found, with tokens.
    events: Vec<(u64, epoll::EventFlags)>,

    connections: Table<Connection>,
    processes: Processes,
    ios: Table<Io>,
    fragments: Table<Fragment>,
    /// By index of the queue's client.
    by_client: Vec<u32>,
    /// By slot: the command in the backend.
    tags: Vec<Option<Tag>>,
    /// By slot: when the backend was given the command.
    given: Vec<Nanos>,
    in_device: u32,
    /// Bytes given to the backend since it was last asked what has ended, and answers that were
    /// not sent yet, in pages.
    burst: u64,
    unsent: u32,
    /// The connection that was answered in the last round, if it was only one.
    told: Option<u32>,
    /// Bytes that were read from connections.
    heard: u64,
    /// How often the loop has polled for events.
    #[cfg(test)]
    looks: u64,

    /// Tenants with connections to read from, and how much each has of a turn.
    ready: VecDeque<u32>,
    turns: Turns,
    /// Connections to be sent to, waiting for room, and above their caps.
    sending: Vec<u32>,
    hungry: VecDeque<u32>,
    /// When to look at which line of which tenant; the last number given in a line.
    naps: BTreeSet<(Nanos, u32, usize)>,
    napped: u64,
    /// How often a cap was looked at.
    #[cfg(test)]
    cap_looks: u64,
    /// Questions for holes.
    surveys: Surveys,
    /// Connections that may be about to go.
    leaving: Vec<u32>,
    /// Rules that say whose a client is; connections that are to move to another tenant.
    rules: Vec<Rule>,
    movers: Vec<u32>,
    /// The attributes that were set, by the configuration or an order.
    attributes_set: BTreeSet<String>,
    /// By fragment: changes under way, or waiting for other changes of their blocks.
    changes: RangeLocks,
    /// Fragments that waited are being released.
    letting_go: bool,
    /// Bytes that were read from connections and not understood yet.
    rests: u64,
    /// I/Os that have ended since memory was last given to connections that wait for it.
    freed: usize,

    /// Another process asks for the loop's connections, or has them.
    leave: Option<handover::Leave>,
    has_left: bool,
    /// Files with a failed flush, as another process was told on handover.
    told_lost: crate::device::KnownLosses,
    stopping: bool,
    stop_by: Option<Nanos>,
    stop_asked: Vec<Asked>,
    told_of_loss: bool,
    complaints: Complaints,
    pulse: Pulse,
    /// Schedulers that have failed.
    policy: Policy,

    /// Kept to be used again.
    buffer: Box<[u8]>,
    loans: Vec<Loan>,
    head: Vec<u8>,
}

impl std::fmt::Debug for DeviceLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceLoop")
            .field("name", &self.name)
            .field("connections", &self.connections.len())
            .field("ios", &self.ios.len())
            .field("fragments", &self.fragments.len())
            .finish_non_exhaustive()
    }
}

impl DeviceLoop {
    /// The counter of its turns.
    pub(crate) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Serves until it is ordered to stop.
    pub fn run(mut self) {
        let mut until = None;
        loop {
            self.sleep(until);
            until = self.round();
            if self.stopping && (self.is_done() || self.is_stuck()) {
                return self.end();
            }
        }
    }

    /// A turn, after which the loop may leave; returns when to be back at the latest.
    fn round(&mut self) -> Option<Nanos> {
        let until = self.turn();
        self.pulse.turned();
        self.leave_if_quiet();
        until
    }

    /// Does all there is to do, once; returns when to be back at the latest.
    fn turn(&mut self) -> Option<Nanos> {
        self.reap();
        self.read_messages();
        self.hear_all();
        let mut until = self.dispatch();
        if self.replace_what_failed() {
            until = self.dispatch();
        }
        self.survey();
        self.send_all();
        self.close_finished();
        self.move_the_idle();
        self.volumes.close_the_empty(
            |place| self.connections.iter().any(|(_, connection)| connection.place == place),
            |file| self.lender.remove(file),
        );
        self.retry_blocked();
        self.run_timers();
        until
    }

    /// Sleeps until something happens, at most until `until`, and notes what happened.
    fn sleep(&mut self, until: Option<Nanos>) {
        let timeout = self.timeout(until);
        let clients_alone =
            self.in_device == 0 && !self.connections.is_empty() && timeout != NO_TIME;
        if !(clients_alone && self.busy_poll.is_worth_it() && self.stay_awake()) {
            let may_sleep = timeout != NO_TIME && self.inbox.doze();
            self.look(if may_sleep { &timeout } else { &NO_TIME });
            self.inbox.wake();
        }
        self.note_events();
    }

    /// Notes what the last look has found.
    fn note_events(&mut self) {
        self.now = self.clock.now();
        let mut events = std::mem::take(&mut self.events);
        for (token, flags) in events.drain(..) {
            match token {
                TOKEN_INBOX => self.rung = true,
                TOKEN_BACKEND => {}
                _ => self.socket_event(token, flags),
            }
        }
        self.events = events;
    }

    /// Polls for a moment; returns whether anything has happened.
    fn stay_awake(&mut self) -> bool {
        let limit = self.clock.now() + busy_poll::LONGEST;
        let mut found = false;
        for attempt in 1u32.. {
            self.now = self.clock.now();
            if self.now >= limit {
                break;
            }
            found = self.told.is_some_and(|connection| self.listen(connection));
            if !found && (self.told.is_none() || attempt.is_multiple_of(busy_poll::LISTENS)) {
                self.look(&NO_TIME);
                found = !self.events.is_empty() || self.inbox.has_message();
            }
            if found {
                break;
            }
            (0..busy_poll::PAUSES).for_each(|_| std::hint::spin_loop());
        }
        self.busy_poll.ended(found);
        found
    }

    /// Waits for events, and finds those of all sockets that have one: the system returns a few at
    /// a time, in turn, and a client that it did not return would wait for another round.
    fn look(&mut self, timeout: &Timespec) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let mut room = [MaybeUninit::uninit(); EVENTS];
        let mut wait = timeout;
        // Besides connections there are inbox and backend.
        for _ in 0..(self.connections.len() as usize + 2).div_ceil(EVENTS) {
            crate::tally::call();
            // A signal: it is handled elsewhere.
            let Ok((found, _)) = epoll::wait(&self.poll, &mut room, Some(wait)) else { return };
            self.events.extend(found.iter().map(|event| (event.data.u64(), event.flags)));
            if found.len() < EVENTS {
                break;
            }
            wait = &NO_TIME;
        }
    }

    /// How long to sleep.
    fn timeout(&self, until: Option<Nanos>) -> Timespec {
        let busy = !self.ready.is_empty()
            || !self.sending.is_empty()
            || self.freed != 0
            || self.lender.has_surveyed();
        let mut at = if busy { self.now } else { self.next_tick };
        let caps = self.naps.first().map(|&(until, ..)| until);
        let wishes = [until, self.lender.backend().deadline(), caps, self.surveys.next_at()];
        for wish in wishes.into_iter().flatten() {
            at = at.min(wish);
        }
        let left = at.0.saturating_sub(self.clock.now().0);
        Timespec {
            tv_sec: i64::try_from(left / 1_000_000_000).unwrap_or(1),
            tv_nsec: i64::try_from(left % 1_000_000_000).unwrap_or(0),
        }
    }

    /// Handles a socket's events.
    fn socket_event(&mut self, token: u64, flags: epoll::EventFlags) {
        let index = dispatch::index_of(token & u64::from(u32::MAX));
        if !self.connections.is_live(index) || self.connections.at(index).id != token >> 32 {
            return;
        }
        let connection = self.connections.at_mut(index);
        if flags.intersects(
            epoll::EventFlags::IN
                | epoll::EventFlags::RDHUP
                | epoll::EventFlags::HUP
                | epoll::EventFlags::ERR,
        ) {
            connection.readable = true;
            if flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                return self.close(index, "");
            }
            self.client_moved(index);
            self.make_ready(index);
        }
        let connection = self.connections.at_mut(index);
        if flags.contains(epoll::EventFlags::OUT) && !connection.writable {
            connection.writable = true;
            self.watch_connection(index);
            self.client_moved(index);
            self.make_sending(index);
        }
    }

    /// A connection's socket became full, or no longer is.
    fn watch_connection(&mut self, index: u32) {
        let connection = self.connections.at(index);
        let Some(socket) = connection.wire.as_ref().and_then(Wire::socket) else { return };
        let data = epoll::EventData::new_u64(connection.id << 32 | u64::from(index));
        crate::tally::call();
        if let Err(error) =
            epoll::modify(&self.poll, socket, data, connection_events(connection.writable))
        {
            self.close(index, &error.to_string());
        }
    }

    /// Messages from other threads.
    fn read_messages(&mut self) {
        if std::mem::take(&mut self.rung) {
            self.inbox.drain_bell();
            // The loop is awake, and looks before it sleeps.
            self.inbox.wake();
        }
        while let Some(message) = self.inbox.take() {
            match message {
                Message::Newcomer(newcomer) => self.welcome(*newcomer),
                Message::Asked(asked) => self.execute(asked),
                Message::Call(call) => self.take_call(call),
                Message::Reload(reload) => self.reload(*reload),
                Message::Handover(post) => self.read_of_handover(*post.0),
            }
        }
    }

    /// Does what has to be done now and then.
    fn run_timers(&mut self) {
        self.wake_sleepers();
        if self.in_device == 0 {
            self.queue_limit.idle();
        }
        if self.now < self.next_tick {
            return;
        }
        self.next_tick = self.now + TICK;
        let now = self.now;
        self.close_slow();
        self.send_the_idle_away();
        let late = |connection: &Connection| self.volumes.is_late(connection.place, now);
        for index in self.connections.which(late) {
            self.close(index, "its volume was taken out");
        }
        self.tell_complaints(false);
        if self.tenants.remove_late(now, &mut self.recorded_queue) {
            self.queue_limit.divide(&self.tenants);
        }
        // No connection is left without memory because a count was wrong or the one before it has
        // gone.
        self.freed += 1;
        self.feed_the_tenants();
        if self.stop_by.is_some_and(|by| by <= now) {
            let all: Vec<u32> = self.connections.iter().map(|(key, _)| key).collect();
            for index in all {
                self.close(index, "the server stops");
            }
        }
    }

    /// Closes clients that neither take answers nor send payload: they hold memory that others
    /// want.
    fn close_slow(&mut self) {
        let (now, patience) = (self.now, self.stall_timeout);
        let all: Vec<u32> = self.connections.iter().map(|(key, _)| key).collect();
        for index in all {
            let connection = self.connections.at_mut(index);
            if !matches!(connection.blocked, Blocked::No | Blocked::Client) {
                // It is not being read from: that its payload is missing is not its fault.
                connection.brings.begin_again(now);
            }
            if connection.takes.is_late(now, patience) {
                self.close(index, "it takes no answers");
            } else if connection.brings.is_late(now, patience) {
                self.close(index, "its payload does not come");
            }
        }
    }

    /// Whether nothing is left to be done.
    fn is_done(&self) -> bool {
        self.connections.is_empty() && !self.is_waited_for()
    }

    /// The last flush, and the answers to the orders to stop.
    fn end(mut self) {
        self.tell_complaints(true);
        if self.is_waited_for() {
            let under_way = self.under_way();
            return self.leave_behind(&under_way);
        }
        if !self.flush_at_the_end() {
            return self.leave_behind("the last flush");
        }
        if let Some(trace) = self.recorded_queue.observer_mut().end_trace()
            && let Err(error) = trace.wait()
        {
            crate::log::tell(format_args!(
                "paternoster: device {}: the trace could not be written: {error}",
                self.name
            ));
        }
        if let Err(error) = self.recorded_queue.finish_record() {
            crate::log::tell(format_args!("paternoster: device {}: decisions: {error}", self.name));
        }
        let lost = self.lender.backend().lost().map(std::io::Error::from_raw_os_error);
        for asked in std::mem::take(&mut self.stop_asked) {
            let _gone = asked.answer.send(match &lost {
                None => Ok(serde_json::json!({ "ok": true })),
                // The next server does not know of the failed flush: the operator that stops this
                // one must.
                Some(error) => Err(format!(
                    "a flush failed: {error}; data that were acknowledged may be lost: compare \
                     the volumes with what their clients know"
                )),
            });
        }
    }
}

/// The events wanted from a connection's socket. It reports room each time the client takes data:
/// only a connection that waits for room wants to be woken by that.
fn connection_events(writable: bool) -> epoll::EventFlags {
    let always = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    if writable { always } else { always | epoll::EventFlags::OUT }
}

/// Adds a file to the loop's poll.
fn watch(
    poll: &OwnedFd,
    fd: impl AsFd,
    token: u64,
    flags: epoll::EventFlags,
) -> std::io::Result<()> {
    crate::tally::call();
    Ok(epoll::add(poll, fd, epoll::EventData::new_u64(token), flags)?)
}
