// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue view: the queue as an elevator sees it.
//!
//! The queue owns everything that is shared: time, requests, clients, groups, what the device
//! reports and holds. It passes the view into every call of an elevator, so that elevators keep
//! only their own data: their trees, their slices, their statistics. An elevator has one timer,
//! which it sets here.
//!
//! # Invariants
//! I1  `now()` never steps back. Under `hz` it is a multiple of the tick.
//! I2  The counts of `in_device` are those of the requests whose stage is `InDevice` (without flush
//!     commands).

use crate::bio::Bio;
use crate::client::{Client, ClientId, Clients, Group, GroupId, Groups, Priority, ReadOnly};
use crate::device::DeviceFacts;
use crate::event::{Note, Notes};
use crate::request::{Request, RequestId, Requests};
use crate::slab::{NIL, Slab};
use crate::time::{Hz, Nanos};

/// Capacities of a queue, fixed when it is built. None grows later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests, in all pools together.
    pub requests: u32,
    /// Bios submitted and not yet handed back.
    pub bios: u32,
    /// Clients.
    pub clients: u32,
    /// Groups, the root included.
    pub groups: u32,
    /// Notes that one call of an elevator may write while an observer listens.
    pub notes: u32,
}

impl Limits {
    /// The working minimum.
    pub const LEAST: Limits = Limits { requests: 12, bios: 16, clients: 1, groups: 1, notes: 0 };

    /// The countable maximum: elevators add numbers of requests, clients and about fifty queues per
    /// group, which must stay below 2^32.
    pub const MOST: Limits = Limits {
        requests: 1 << 24,
        bios: 1 << 24,
        clients: 1 << 24,
        groups: 1 << 24,
        notes: 1 << 24,
    };
}

impl Default for Limits {
    /// 384 requests (192 in each of the two legacy pools with 128 nominal), 64 clients, 16 groups.
    fn default() -> Limits {
        Limits { requests: 384, bios: 1024, clients: 64, groups: 16, notes: 64 }
    }
}

/// How an elevator learns whether the device queues commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ncq {
    /// The device reports it: depth above 1.
    #[default]
    Declared,
    /// Elevators measure it as the originals do.
    Probe,
}

/// What is in the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InDevice {
    /// Requests in all.
    pub requests: u32,
    /// Those that a process waits for.
    pub sync: u32,
    /// The sector after the last issued request: the assumed head position.
    pub last_end: u64,
}

/// The world as an elevator sees it: views of what the queue owns, of which it can change only the
/// scratch of its requests, the timer and the notes.
///
/// ```compile_fail,E0616
/// # use paternoster_core::{ClientId, QueueView};
/// fn free(view: &mut QueueView, client: ClientId) {
///     view.client(client).map(|client| client.weight()); // this it may
///     view.clients.0.free(client.index());
/// }
/// ```
#[derive(Debug)]
pub struct QueueView {
    pub(crate) exact: Nanos,
    pub(crate) now: Nanos,
    hz: Hz,
    timer: Nanos,
    /// It fires at its exact time, not with the next tick.
    timer_is_precise: bool,
    /// When sleepers are to be asked again whether they may have a request.
    asks_again: Nanos,
    /// The exact time of the first of both, computed once instead of in each call.
    rings: Nanos,
    /// Requests that wait or are in the device.
    pub(crate) requests: Requests,
    /// The submitting clients.
    pub(crate) clients: Clients,
    /// The group tree.
    pub(crate) groups: Groups,
    pub(crate) root: GroupId,
    pub(crate) facts: DeviceFacts,
    pub(crate) limits: Limits,
    pub(crate) ncq: Ncq,
    pub(crate) nr_requests: u32,
    pub(crate) in_device: InDevice,
    /// The device has told what a command took.
    pub(crate) tells_times: bool,
    pub(crate) notes: Notes,
    /// Where every part finds it.
    #[cfg(feature = "planted-bugs")]
    pub(crate) planted: crate::planted::Planted,
}

impl QueueView {
    pub(crate) fn new(facts: DeviceFacts, limits: Limits, observed: bool) -> QueueView {
        let mut groups: Groups = ReadOnly(Slab::with_capacity(limits.groups.max(1)));
        let root = groups
            .0
            .insert(Group { parent: None, weight: 1000, members: 0 })
            .map(GroupId)
            .unwrap_or(GroupId(crate::slab::Key::new(NIL, 0)));
        QueueView {
            exact: Nanos::ZERO,
            now: Nanos::ZERO,
            hz: Hz::EXACT,
            timer: Nanos::MAX,
            timer_is_precise: false,
            asks_again: Nanos::MAX,
            rings: Nanos::MAX,
            // One more than the limit: the flush command, which is in no pool.
            requests: Requests(Slab::with_capacity(limits.requests + 1)),
            clients: ReadOnly(Slab::with_capacity(limits.clients)),
            groups,
            root,
            facts,
            limits,
            ncq: Ncq::Declared,
            tells_times: false,
            nr_requests: 0,
            in_device: InDevice::default(),
            notes: Notes::with_capacity(if observed { limits.notes } else { 0 }),
            #[cfg(feature = "planted-bugs")]
            planted: crate::planted::Planted::default(),
        }
    }

    /// Time in the ticks that elevators see.
    #[inline]
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Whether the device tells what its commands take (`Outcome::served`). If not, the queue
    /// measures it, and a command seems to be served from its issue to its end.
    #[must_use]
    pub const fn tells_times(&self) -> bool {
        self.tells_times
    }

    /// Time in nanoseconds, whatever `hz` says.
    #[inline]
    #[must_use]
    pub const fn exact_now(&self) -> Nanos {
        self.exact
    }

    /// Ticks per second.
    #[inline]
    #[must_use]
    pub const fn hz(&self) -> Hz {
        self.hz
    }

    /// Requests a call of `Elevator::timer` at `at`, or with the first tick after it, replacing any
    /// earlier request.
    #[inline]
    pub const fn set_timer(&mut self, at: Nanos) {
        self.timer = at;
        self.timer_is_precise = false;
        self.set_rings();
    }

    /// Requests a call of `Elevator::timer` at `at`, whatever the tick is (high resolution).
    #[inline]
    pub const fn set_precise_timer(&mut self, at: Nanos) {
        self.timer = at;
        self.timer_is_precise = true;
        self.set_rings();
    }

    /// The exact time at which the timer fires.
    pub(crate) const fn timer_rings(&self) -> Nanos {
        if self.timer_is_precise { self.timer } else { self.hz.ceil(self.timer) }
    }

    const fn set_rings(&mut self) {
        let timer = self.timer_rings();
        self.rings = if self.asks_again.0 < timer.0 { self.asks_again } else { timer };
    }

    /// The exact time at which the timer fires or sleepers are asked again.
    pub(crate) const fn next_ring(&self) -> Nanos {
        self.rings
    }

    /// At that time, if it is still to come, sleepers are asked again whether they may have a
    /// request.
    pub(crate) fn ask_again(&mut self, at: Nanos) {
        if at > self.exact {
            self.asks_again = self.asks_again.min(at);
            self.rings = self.rings.min(at);
        }
    }

    /// Whether sleepers are to be asked now; they are not asked a second time for that.
    pub(crate) fn take_asks(&mut self) -> bool {
        let is_due = self.asks_again <= self.exact;
        if is_due {
            self.asks_again = Nanos::MAX;
            self.set_rings();
        }
        is_due
    }

    /// Clears the timer.
    #[inline]
    pub const fn cancel_timer(&mut self) {
        // It is rarely set.
        if self.timer.0 != Nanos::MAX.0 {
            (self.timer, self.rings) = (Nanos::MAX, self.asks_again);
        }
    }

    /// Changes the tick: time never steps back for elevators, and a coarser tick begins at the next
    /// one. A timer that is set then fires on it.
    pub(crate) fn set_hz(&mut self, hz: Hz) {
        self.hz = hz;
        self.now = self.now.max(hz.floor(self.exact));
        self.set_rings();
    }

    /// When the timer will fire; `Nanos::MAX` if it is not set.
    #[inline]
    #[must_use]
    pub const fn timer(&self) -> Nanos {
        self.timer
    }

    /// What the device reports about itself.
    #[inline]
    #[must_use]
    pub const fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// The queue's capacities: the sizes of an elevator's tables.
    #[inline]
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A request that the elevator has been given.
    ///
    /// # Panics
    /// If this number was never used; for a request that has ended it returns what it left behind.
    #[inline]
    #[must_use]
    pub fn request(&self, id: RequestId) -> &Request {
        &self.requests[id]
    }

    /// All requests that have not ended, in the order of their numbers: those of an earlier
    /// elevator and flush commands, too.
    pub fn requests(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.requests.0.iter().map(|(key, request)| (RequestId(key.index()), request))
    }

    /// Whether a request has not ended yet.
    #[inline]
    #[must_use]
    pub fn is_live(&self, id: RequestId) -> bool {
        self.requests.0.is_live(id.0)
    }

    /// The elevator's own data in a request that it has bound: zero at first.
    ///
    /// # Panics
    /// If this number was never used.
    #[inline]
    pub fn scratch_mut(&mut self, id: RequestId) -> &mut [u64; 2] {
        &mut self.requests[id].scratch
    }

    /// A client; `None` once it has gone, and for requests without a client.
    #[inline]
    #[must_use]
    pub fn client(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(id.0)
    }

    /// A group; `None` once it has gone.
    #[inline]
    #[must_use]
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.0)
    }

    /// The client with this number, which is there: for tables that are indexed by it.
    ///
    /// # Panics
    /// If no client can have this number; in debug builds also if none has it now.
    #[inline]
    #[must_use]
    pub fn client_at(&self, index: u32) -> &Client {
        self.clients.at(index)
    }

    /// The id of the client that has this number now, if one has.
    #[inline]
    #[must_use]
    pub fn client_id(&self, index: u32) -> Option<ClientId> {
        self.clients.is_live(index).then(|| ClientId(self.clients.key_at(index)))
    }

    /// The group with this number, which is there.
    ///
    /// # Panics
    /// If no group can have this number; in debug builds also if none has it now.
    #[inline]
    #[must_use]
    pub fn group_at(&self, index: u32) -> &Group {
        self.groups.at(index)
    }

    /// The id of the group that has this number now, if one has.
    #[inline]
    #[must_use]
    pub fn group_id(&self, index: u32) -> Option<GroupId> {
        self.groups.is_live(index).then(|| GroupId(self.groups.key_at(index)))
    }

    /// All clients, in the order of their numbers.
    pub fn clients(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.clients.iter().map(|(key, client)| (ClientId(key), client))
    }

    /// All groups, in the order of their numbers.
    pub fn groups(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.groups.iter().map(|(key, group)| (GroupId(key), group))
    }

    /// The number of request slots; each index is below it.
    #[inline]
    #[must_use]
    pub fn request_slots(&self) -> u32 {
        self.requests.0.capacity()
    }

    /// Whether the device's report on queueing counts.
    #[inline]
    #[must_use]
    pub const fn ncq(&self) -> Ncq {
        self.ncq
    }

    /// Requests that may be allocated (per pool under legacy rules).
    #[inline]
    #[must_use]
    pub const fn nr_requests(&self) -> u32 {
        self.nr_requests
    }

    /// The requests in the device.
    #[inline]
    #[must_use]
    pub const fn in_device(&self) -> &InDevice {
        &self.in_device
    }

    /// The root of all groups.
    #[inline]
    #[must_use]
    pub const fn root(&self) -> GroupId {
        self.root
    }

    /// The effective priority of a bio: its own, or its client's.
    pub(crate) fn priority_of(&self, bio: &Bio) -> Priority {
        bio.priority.unwrap_or_else(|| self.clients.at(bio.client.index()).priority)
    }

    /// The group of a client; the root if it has none.
    #[inline]
    #[must_use]
    pub fn group_of(&self, client: ClientId) -> GroupId {
        self.clients.get(client.0).and_then(Client::group).unwrap_or(self.root)
    }

    /// Adds a note, if an observer listens.
    #[inline]
    pub fn note(&mut self, note: Note) {
        self.notes.write(note);
    }

    pub(crate) fn slot(&self, index: u32) -> &Request {
        self.requests.0.at(index)
    }
}
