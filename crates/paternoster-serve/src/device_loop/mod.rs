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
//! The loop wires parts: each has its own state, is given what it needs from others, and answers
//! with values. The wiring is in ten files: this one (rounds, sleep, the end), `open`,
//! `connections` (they come and go), `receive` (reading from them), `receive_calls` (the same of
//! processes, through FUSE), `split` (requests into fragments for the queue), `dispatch` (between
//! queue and backend), `reply`, `orders`, `leave` (a hand-over). The parts:
//!
//! * Connections: `connection`, its `link` (a wire, or `calls`), `connection_table`; `waiting` and
//!   `naps`, those that wait for room or for a cap; `turns`, which tenant's requests are read next;
//!   `seats`, how many there may be; `processes`, which connection a FUSE call uses; `messages`,
//!   `inbox`: how they and orders come.
//! * Requests: `requests` (I/Os and fragments), `io_fragment`, `cut` (how large a fragment is),
//!   `range_lock` (which changes of the same blocks may be under way at a time), `surveys` (block
//!   status), `commands` (those in the backend), `replies`, `outbox` (answers and their order).
//! * Memory: `shared` and `pool`, which tenant may have how much of memory and places; `credit`,
//!   how much may wait for clients.
//! * Shares: `tenants`, `cgroups`, `weights`, `caps`, `queue_limit`; `departed`, what tenants that
//!   have gone got; `policy`, the scheduler, and what replaces one that fails.
//! * The loop's own: `poller`, `busy_poll` (whether to look before sleeping), `time`, `settings`;
//!   `volumes`, `geometry`; `stop`, `handover`, `reload`; `status`, `journal`, `complaints`: what
//!   is reported and logged; `handle`, what other threads have of the loop.
//!
//! Invariants: I1 no connection can make the loop wait; I2 an accepted request is answered, or its
//! connection has gone; I3 memory is bounded by the configuration.

mod busy_poll;
mod calls;
mod caps;
mod cgroups;
mod commands;
mod complaints;
mod connection;
mod connection_table;
mod connections;
mod credit;
mod cut;
mod departed;
mod dispatch;
pub(crate) mod geometry;
mod handle;
pub(crate) mod handover;
pub mod inbox;
mod io_fragment;
mod journal;
#[cfg(test)]
mod judge;
mod leave;
mod link;
mod messages;
mod naps;
mod open;
mod orders;
mod outbox;
#[cfg(test)]
pub(crate) mod planted;
mod policy;
mod poller;
mod pool;
mod processes;
mod queue_limit;
mod range_lock;
mod receive;
mod receive_calls;
pub(crate) mod reload;
mod replies;
mod reply;
mod requests;
#[cfg(test)]
mod rig;
pub(crate) mod seats;
mod settings;
mod shared;
mod split;
mod status;
mod stop;
mod surveys;
mod tenants;
#[cfg(test)]
mod tests;
mod time;
mod turns;
pub(crate) mod volumes;
mod waiting;
mod weights;

use paternoster_core::Nanos;
use rustix::event::{Timespec, epoll};

pub use handle::DeviceLoopHandle;
pub use link::Link;
pub use messages::{Message, Newcomer, next_id};
pub use open::Opened;
pub(crate) use open::attributes;
pub use seats::Seat;

use crate::config::{Level, quantity};
use crate::host::notify::Pulse;
use crate::log::Entry;
use crate::recorded_queue::RecordedQueue;
use crate::stats::Stats;
use crate::wire::Wire;
use commands::Commands;
use complaints::Complaints;
use connection::{Blocked, Connection};
use connection_table::Connections;
use handover::Handover;
use naps::Naps;
#[cfg(test)]
use planted::Bug;
use policy::Policy;
use poller::{NO_TIME, Poller};
use processes::Processes;
use replies::Replies;
use requests::Requests;
use settings::Settings;
use shared::Shared;
use stop::Stop;
use surveys::Surveys;
use tenants::Tenants;
use time::Time;
use volumes::Volumes;

/// The thread in front of a device.
pub struct DeviceLoop {
    name: String,
    commands: Commands,
    shared: Shared,
    recorded_queue: RecordedQueue<Stats>,
    volumes: Volumes,
    tenants: Tenants,
    settings: Settings,

    time: Time,
    poller: Poller,

    connections: Connections,
    processes: Processes,
    requests: Requests,

    /// Connections above their caps.
    naps: Naps,
    /// Questions for holes.
    surveys: Surveys,

    handover: Handover,
    stop: Stop,
    complaints: Complaints,
    policy: Policy,

    /// Kept to be used again.
    buffer: Box<[u8]>,
    replies: Replies,
}

impl std::fmt::Debug for DeviceLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceLoop")
            .field("name", &self.name)
            .field("connections", &self.connections.len())
            .field("ios", &self.requests.ios().len())
            .field("fragments", &self.requests.fragments().len())
            .finish_non_exhaustive()
    }
}

impl DeviceLoop {
    /// The counter of its turns.
    pub(crate) fn pulse(&self) -> Pulse {
        self.poller.pulse()
    }

    /// Serves until it is ordered to stop.
    pub fn run(mut self) {
        let mut until = None;
        loop {
            self.sleep(until);
            until = self.round();
            if self.stop.is_on() && (self.is_done() || self.is_stuck()) {
                return self.end();
            }
        }
    }

    /// A turn, after which the loop may leave; returns when to be back at the latest.
    fn round(&mut self) -> Option<Nanos> {
        let until = self.turn();
        self.poller.turned();
        self.leave_if_quiet();
        until
    }

    /// Does all there is to do, once; returns when to be back at the latest.
    fn turn(&mut self) -> Option<Nanos> {
        self.reap();
        self.read_messages();
        self.hear_all();
        let mut until = self.dispatch();
        if self.policy.replace_what_failed(self.time.now, &mut self.recorded_queue) {
            until = self.dispatch();
        }
        self.survey();
        self.send_all();
        self.close_finished();
        for (index, name) in self.connections.can_move() {
            self.move_to(index, name);
        }
        self.volumes.close_the_empty(
            |place| self.connections.iter().any(|(_, connection)| connection.place == place),
            |file| self.commands.lender().remove(file),
        );
        self.connections.retry_blocked();
        self.run_timers();
        until
    }

    /// Sleeps until something happens, at most until `until`, and notes what happened.
    fn sleep(&mut self, until: Option<Nanos>) {
        let now = self.time.clock.now();
        let timeout = self.timeout(now, until);
        let clients_alone =
            self.commands.is_empty() && !self.connections.is_empty() && timeout != NO_TIME;
        let begun = self.requests.begun();
        let looks = clients_alone && self.poller.busy_poll.is_worth_it(now, begun);
        if !clients_alone {
            self.poller.busy_poll.waits_for_device(now);
        }
        let found = looks && self.stay_awake(now);
        if looks {
            self.poller.busy_poll.looked(found);
        }
        if !found {
            self.poller.sleep(self.connections.len(), &timeout);
        }
        self.note_events();
    }

    /// Notes what the last look has found.
    fn note_events(&mut self) {
        self.time.look();
        let found = self.poller.take_found();
        for &(token, flags) in &found {
            self.socket_event(token, flags);
        }
        self.poller.handled(found);
    }

    /// Polls for a moment; returns whether anything has happened.
    fn stay_awake(&mut self, begin: Nanos) -> bool {
        let limit = begin + busy_poll::LONGEST;
        let mut found = false;
        for attempt in 1u32.. {
            self.time.look();
            if self.time.now >= limit {
                break;
            }
            found = self.connections.told().is_some_and(|connection| self.listen(connection));
            if !found
                && (self.connections.told().is_none() || attempt.is_multiple_of(busy_poll::LISTENS))
            {
                found = self.poller.glance(self.connections.len());
            }
            if found {
                break;
            }
            (0..busy_poll::PAUSES).for_each(|_| std::hint::spin_loop());
        }
        found
    }

    /// How long the loop may sleep.
    fn timeout(&self, now: Nanos, until: Option<Nanos>) -> Timespec {
        let busy = !self.connections.turns.is_empty()
            || self.connections.has_sending()
            || self.connections.has_freed()
            || self.commands.has_surveyed();
        let mut at = if busy { self.time.now } else { self.time.next_tick() };
        let wishes = [
            until,
            self.commands.backend().deadline(),
            self.naps.next_at(),
            self.surveys.next_at(),
        ];
        for wish in wishes.into_iter().flatten() {
            at = at.min(wish);
        }
        let left = at.0.saturating_sub(now.0);
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
            self.connections.unblock_if(index, |why| why == Blocked::Client);
            self.connections.make_ready(index);
        }
        let connection = self.connections.at_mut(index);
        if flags.contains(epoll::EventFlags::OUT) && !connection.writable {
            connection.writable = true;
            self.watch_connection(index);
            self.connections.unblock_if(index, |why| why == Blocked::Client);
            self.connections.make_sending(index);
        }
    }

    /// A connection's socket became full, or no longer is.
    fn watch_connection(&mut self, index: u32) {
        let connection = self.connections.at(index);
        let Some(socket) = connection.wire().map(Wire::socket) else { return };
        let token = connection.id << 32 | u64::from(index);
        if let Err(error) = self.poller.watch(socket, token, connection.writable) {
            self.close(index, &error.to_string());
        }
    }

    /// Messages from other threads.
    fn read_messages(&mut self) {
        self.poller.drain_bell();
        while let Some(message) = self.poller.message() {
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
        while let Some(index) = self.naps.wake(&self.tenants, self.time.now) {
            self.connections.unblock_if(index, |why| matches!(why, Blocked::Cap(_)));
        }
        if self.commands.is_empty() {
            self.shared.queue_limit.idle();
        }
        if !self.time.ticks() {
            return;
        }
        let now = self.time.now;
        for index in self.connections.all() {
            if let Some(why) = self.connections.is_slow(index, now, self.settings.stall_timeout) {
                self.close(index, why);
            }
        }
        for index in
            self.connections.which(|connection| processes::is_idle_for_long(connection, now))
        {
            self.send_away(index);
        }
        if self.volumes.ending() > 0 {
            let late = |connection: &Connection| self.volumes.is_late(connection.place, now);
            for index in self.connections.which(late) {
                self.close(index, "its volume was taken out");
            }
        }
        self.complaints.tell(now, &self.volumes, false);
        if self.tenants.remove_late(now, &mut self.recorded_queue) {
            self.forget_the_gone();
            self.shared.queue_limit.divide(&self.tenants);
        }
        // No connection is left without memory because a count was wrong or the one before it has
        // gone.
        self.connections.freed(1);
        self.connections.feed_all();
        if self.stop.is_over(now) {
            for index in self.connections.all() {
                self.close(index, "the server stops");
            }
        }
    }

    /// Whether the server stops, and the device has not ended its commands in time.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_waited_for() && self.stop.is_late(self.time.now, self.settings.device_timeout)
    }

    /// Whether the device, or the thread that asks for holes, has unfinished work.
    pub(super) const fn is_waited_for(&self) -> bool {
        !self.commands.is_empty() || self.surveys.is_asking()
    }

    /// What the device has not ended, in words.
    pub(super) fn under_way(&self) -> String {
        let mut words =
            self.commands.under_way(|tag| match dispatch::fragment_of(&self.recorded_queue, tag) {
                None => "a flush".to_owned(),
                Some(fragment) => self.requests.in_words(fragment),
            });
        if self.surveys.is_asking() {
            words.push_str(", a question for holes");
        }
        words
    }

    /// Says that the device hangs, and leaves everything as it is.
    pub(super) fn leave_behind(mut self, under_way: &str) {
        let why = format!(
            "it hangs: {under_way} did not end within {}; what was acknowledged and not flushed \
             may be lost",
            quantity::show_time(self.settings.device_timeout)
        );
        Entry::new(Level::Error, "stuck")
            .with("device", &*self.name)
            .tell(format_args!("device {}: {why}", self.name));
        self.stop.answer(|| Err(why.clone()));
        std::mem::forget(self);
    }

    /// Makes everything that was accepted durable; returns whether the device has answered.
    pub(super) fn flush_at_the_end(&mut self) -> bool {
        #[cfg(test)]
        let has_left = self.handover.is_done() && !planted::has(Bug::WorksOn);
        #[cfg(not(test))]
        let has_left = self.handover.is_done();
        if has_left {
            // The open file description now belongs to the other process, and so do its flush
            // errors.
            return true;
        }
        let by = self.time.clock.now() + self.settings.device_timeout;
        let Some(errno) = self.commands.flush_and_wait(self.time.now, &self.time.clock, by) else {
            return false;
        };
        if errno != 0 {
            let error = std::io::Error::from_raw_os_error(errno);
            crate::log::tell(format_args!(
                "paternoster: device {}: the last flush failed: {error}",
                self.name
            ));
        }
        true
    }

    /// Whether nothing is left to be done.
    fn is_done(&self) -> bool {
        self.connections.is_empty() && !self.is_waited_for()
    }

    /// The last flush, and the answers to the orders to stop.
    fn end(mut self) {
        self.complaints.tell(self.time.now, &self.volumes, true);
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
        let lost = self.commands.backend().lost().map(std::io::Error::from_raw_os_error);
        self.stop.answer(|| match &lost {
            None => Ok(serde_json::json!({ "ok": true })),
            // The next server does not know of the failed flush: the operator that stops this one
            // must.
            Some(error) => Err(format!(
                "a flush failed: {error}; data that were acknowledged may be lost: compare the \
                 volumes with what their clients know"
            )),
        });
    }
}
