// SPDX-License-Identifier: MIT OR Apache-2.0
//! paternoster: one elevator for all devices, by device time, kept slots and seats.
//!
//! Each client pays for the device time of its requests, and the client that has paid least for its
//! weight goes next (`account`). Three things are added, each measured on the device itself:
//!
//! * A slot of the device is *kept* for a client that has had less and is about to ask again
//!   (`pattern`, `choose`). On a disk without a queue that is idling; on an SSD it is one slot of
//!   32.
//! * *Seats* limit how many streams are served at a time, where that makes the device faster
//!   (`seats`). Trials show whether, and how many (`learn`, `throughput_gain`). Clients that read
//!   one stream between them share a seat (`cooperate`), and so do the random clients of a group
//!   (`sweep_group`).
//! * Where the device takes everything that all clients have, a *gate* holds a client that is ahead
//!   (`gate`).
//!
//! ```text
//! arrival ─▶ access pattern: expected? a stream? ─▶ account: waits, from the others' floor on
//! pick    ─▶ seats: whose turn ─▶ account: least served ─▶ slot kept for another? ─▶ request
//! end   ─▶ account: the real price ─▶ access pattern: expected again until … ─▶ learn: epoch over?
//! ```
//!
//! The requests of one client go in sector order, from the last one on, and by age when they are
//! too old.
//!
//! # Invariants (see `audit.rs`)
//! I1  Each waiting request is in its client's lane, or among those that go ahead of all others.
//! I2  Counters equal what they count; what was charged is what was served plus what is estimated.
//! I3  The timer is set exactly while the device is kept for an expected client, or the gate holds
//!     a client.
//!
//! Source: own; its rules are `docs/rules/adaptive.md`.

mod access_pattern;
mod account;
mod arms;
mod audit;
mod choose;
mod cooperate;
mod costs;
mod depth;
mod even;
mod explain;
mod face;
mod gate;
mod job;
mod learn;
mod seat_time;
mod seats;
mod shared_stream;
mod sweep_group;
#[cfg(test)]
mod tests;
mod throughput_gain;
mod tunables;
mod watchdog;
mod workload_mix;

use alloc::vec::Vec;
use core::mem::offset_of;

use paternoster_core::list::{Links, List};
use paternoster_core::pick::lane::{Lane, LaneSpace};
use paternoster_core::pick::positions::Positions;
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, QueueView, RequestId};

use access_pattern::AccessPattern;
use account::{Accounts, CROWD, STREAM};
use choose::Reservation;
use cooperate::Cooperation;
use costs::Costs;
use depth::Depth;
use even::Even;
use gate::Gate;
use job::{Job, Stage};
use learn::Learn;
use seat_time::SeatTime;
use seats::Seats;
use shared_stream::SharedStreams;
use sweep_group::SweepGroups;
use throughput_gain::{Access, SORTS};
use tunables::Tunables;
use watchdog::Watchdog;
use workload_mix::Present;

/// After this time a request is its client's next one, whatever its sector.
const AGE_MOST: Nanos = Nanos::from_millis(500);
/// A flush charges its owner at most as much as a long turn.
const FLUSH_MOST: Nanos = Nanos::from_millis(125);
/// With fewer clients than this, their data is in the cache anyway.
const FEW: usize = 256;
/// The priority level at which the weight counts as it is.
const LEVEL_PLAIN: u32 = 4;

/// The data of a client, in two cache lines: its access patterns come first, and the second line
/// has what a dispatch needs.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Client {
    pattern: AccessPattern,
    lane: Lane,
    owed_soon: u32,
    /// The sector after its last request.
    head: u64,
    /// The kind as which its requests wait.
    is_stream: bool,
    /// It is in a shared stream (see `cooperate.rs`).
    is_together: bool,
    /// Its only request came after a pause, in which it had less than all waiting clients: it is a
    /// interactive client.
    is_interactive: bool,
    /// It is in the list of expected clients, and this many of its requests may have a slot kept.
    is_missed: bool,
}

const _: () = assert!(offset_of!(Client, lane) >= 64 && size_of::<Client>() == 128);

impl Client {
    const fn kind(&self) -> usize {
        if self.is_stream { STREAM } else { CROWD }
    }

    const fn access(&self) -> Access {
        match (self.is_together, self.pattern.is_stream) {
            (true, _) => Access::Together,
            (false, true) => Access::Sequential,
            (false, false) => Access::Random,
        }
    }

    /// It reads sequentially, alone or with others.
    const fn reads_on(&self) -> bool {
        self.is_together || self.pattern.is_stream
    }
}

/// The paternoster scheduler.
#[derive(Debug)]
pub struct Paternoster {
    tunables: Tunables,
    accounts: Accounts,
    clients: Vec<Client>,
    jobs: Vec<Job>,
    lanes: LaneSpace,
    /// Requests that the device refused, or that were let in ahead of all others.
    bypass: List,
    bypass_links: Links,
    /// Clients that have nothing waiting and whose next request is expected; and for how many of
    /// their requests a slot may be kept.
    expected: List,
    expected_links: Links,
    total_expected: u32,
    /// Interactive clients, in the order of their arrival.
    interactive: List,
    interactive_links: Links,
    /// Clients that were active at the last count or since.
    present: Present,
    /// The commands that the device takes, and how many of them are used.
    depth: Depth,
    /// What is owed to clients that have nothing waiting.
    gate: Gate,
    /// Mean device time by sort of request, and of all requests, in ns.
    prices: [u64; SORTS],
    mean_cost: u64,
    /// C5: what is charged where the device is full.
    costs: Costs,
    /// C6: what random requests cost on a disk.
    even: Even,
    /// R4: what may be idled away, in ns; below zero it is overdrawn.
    credit: i64,
    keeping: Option<Reservation>,
    /// How long a slot was kept free while requests waited.
    kept_time: u64,
    interactive_until: Nanos,
    /// Time with something in the device; since when there has been something.
    busy: u64,
    busy_since: Option<Nanos>,
    /// Device time of all requests that have ended.
    served: i64,
    /// How much of it was charged to clients that have left.
    departed: i64,
    seats: Seats,
    seat_time: SeatTime,
    learn: Learn,
    watchdog: Watchdog,
    /// Which clients go in step; and the last positions of all clients, by group, to find that out.
    shared_streams: SharedStreams,
    positions: Positions,
    cooperation: Vec<Cooperation>,
    /// The clients that go in sector order together, where there are seats.
    sweep_groups: SweepGroups,
    /// A rule to break on purpose.
    #[cfg(test)]
    sabotage: watchdog::Sabotage,
}

impl Default for Paternoster {
    fn default() -> Paternoster {
        Paternoster::new()
    }
}

impl Paternoster {
    /// A paternoster without a queue.
    #[must_use]
    pub fn new() -> Paternoster {
        Paternoster {
            tunables: Tunables::default(),
            accounts: Accounts::new(0, 0, 0),
            clients: Vec::new(),
            jobs: Vec::new(),
            lanes: LaneSpace::with_capacity(0),
            bypass: List::new(),
            bypass_links: Links::with_capacity(0),
            expected: List::new(),
            expected_links: Links::with_capacity(0),
            total_expected: 0,
            interactive: List::new(),
            interactive_links: Links::with_capacity(0),
            present: Present::new(0),
            depth: Depth::new(1),
            gate: Gate::new(0),
            prices: [0; SORTS],
            mean_cost: 0,
            costs: Costs::new(1, false),
            even: Even::new(0, false),
            credit: 0,
            keeping: None,
            kept_time: 0,
            interactive_until: Nanos::ZERO,
            busy: 0,
            busy_since: None,
            served: 0,
            departed: 0,
            seats: Seats::default(),
            seat_time: SeatTime::default(),
            learn: Learn::default(),
            watchdog: Watchdog::default(),
            shared_streams: SharedStreams::new(0),
            positions: Positions::new(0, 0),
            cooperation: Vec::new(),
            sweep_groups: SweepGroups::new(0, 0),
            #[cfg(test)]
            sabotage: watchdog::Sabotage::default(),
        }
    }

    /// Requests that wait in lanes.
    fn waiting(&self) -> u32 {
        let (queued, _) = self.accounts.totals();
        queued[CROWD] + queued[STREAM]
    }

    fn client_of(&self, request: RequestId) -> u32 {
        self.jobs[request.index() as usize].client
    }

    fn waits(&self, request: RequestId) -> bool {
        self.jobs[request.index() as usize].stage == Stage::Waiting
    }

    fn id_of(&self, view: &QueueView, client: u32) -> Option<ClientId> {
        view.client_id(client)
    }

    /// Something is in the device from now on.
    fn count_busy(&mut self, now: Nanos) {
        self.busy_since.get_or_insert(now);
        self.watchdog.goes();
    }

    fn busy_until(&self, now: Nanos) -> u64 {
        self.busy + self.busy_since.map_or(0, |since| (now - since).0)
    }

    /// R1: what the end of a request says about its client; `latency` is how long it was in the
    /// device, and the least time of its sort.
    #[inline(always)]
    fn open_window(&mut self, client: u32, now: Nanos, latency: [u64; 2], took: u64) {
        let has_seats = self.seats.most.is_some();
        let limit = if has_seats { self.seats.patience_for(self.leader_of(client)) } else { 0 };
        let own = &mut self.clients[client as usize];
        let [latency, least] = latency;
        own.pattern.ended(now, latency, took, limit);
        own.pattern.compare(latency, least);
        let comes = own.pattern.expected > 0;
        let until = if comes { own.pattern.window } else { Nanos::ZERO };
        let (was_missed, is_missed) = (own.is_missed, comes && own.lane.is_empty());
        self.watchdog.opened(until);
        self.accounts.expect(client, until);
        if was_missed || is_missed {
            self.miss(client, is_missed);
        }
    }

    /// The expectation of a client, or the number of its waiting requests, has changed.
    #[inline(never)]
    fn recount_expected(&mut self, client: u32) {
        let own = &self.clients[client as usize];
        let comes = own.pattern.expected > 0 && own.lane.is_empty();
        if comes || own.is_missed {
            self.miss(client, comes);
        }
    }

    /// Sets whether a client has nothing waiting and is about to ask.
    #[inline(always)]
    fn miss(&mut self, client: u32, comes: bool) {
        let own = &mut self.clients[client as usize];
        let was = core::mem::replace(&mut own.is_missed, comes);
        let owed = if comes { own.pattern.expected_soon() } else { 0 };
        self.total_expected =
            self.total_expected + owed - core::mem::replace(&mut own.owed_soon, owed);
        if comes && !was {
            self.expected.push_back(&mut self.expected_links, client);
        } else if was && !comes {
            self.expected.remove(&mut self.expected_links, client);
        }
    }

    /// The window in which a client was expected is over.
    fn expect_no_more(&mut self, client: u32) {
        self.clients[client as usize].pattern.expected = 0;
        self.recount_expected(client);
    }

    /// A request arrives at its client's lane.
    fn arrive(&mut self, view: &mut QueueView, request: RequestId, client: u32) {
        let now = view.exact_now();
        let busy = self.accounts.is_busy(client);
        self.present.add(client);
        let own = &mut self.clients[client as usize];
        let expected = own.pattern.is_expected(now);
        own.pattern.arrived(now, view.request(request), busy);
        own.lane.insert(&mut self.lanes, view, request, now + AGE_MOST);
        let is_another = own.is_stream != own.reads_on();
        let mut slack = 0;
        // Otherwise no shared stream is looked for, and there are no turns.
        if is_another || view.facts().rotational || self.seats.most.is_some() {
            slack = self.take_place(view, client, request);
        }
        let behind = !busy && self.accounts.is_behind(client, slack);
        let own = &self.clients[client as usize];
        // A stream that thinks for longer than a change costs is not waited for in a turn, and need
        // not wait for one.
        let too_slow = self.seats.most.is_some() && own.pattern.thinks_beyond(self.seats.change);
        let takes_turns = own.reads_on() && !too_slow;
        let (kind, is_interactive) = (own.kind(), behind && !expected && !takes_turns);
        let was_missed = own.is_missed;
        if own.is_interactive != is_interactive {
            self.add_or_remove_interactive(client, is_interactive);
        }
        if behind {
            self.note_interactive(now, expected);
        }
        self.accounts.arrive(client, kind, now, slack);
        if was_missed {
            // Now it is here.
            self.miss(client, false);
        }
        self.jobs[request.index() as usize].stage = Stage::Waiting;
        self.watch_arrival(client);
    }

    /// A request has come to its lane: updates its client's shared stream, kind and sweep. Returns
    /// how far a client may be ahead of the others, in ns.
    #[inline(never)]
    fn take_place(&mut self, view: &mut QueueView, client: u32, request: RequestId) -> i64 {
        self.even.jump(client, view.request(request).sector());
        self.look_around(view, client, request);
        let own = &self.clients[client as usize];
        if own.is_stream != (own.reads_on() || self.seats.everyone) {
            self.sort_client(client);
        }
        if self.seats.most.is_none() {
            return 0;
        }
        self.join_sweep(client, request, view.request(request).sector());
        // Turns let a client be ahead of the others by a quantum; so may this one.
        i64::try_from(self.seats.quantum()).unwrap_or(i64::MAX)
    }

    /// A client becomes an interactive client, or stops being one.
    #[inline]
    fn set_interactive(&mut self, client: u32, is_interactive: bool) {
        if self.clients[client as usize].is_interactive != is_interactive {
            self.add_or_remove_interactive(client, is_interactive);
        }
    }

    #[inline(never)]
    fn add_or_remove_interactive(&mut self, client: u32, is_interactive: bool) {
        self.clients[client as usize].is_interactive = is_interactive;
        if is_interactive {
            self.interactive.push_back(&mut self.interactive_links, client);
        } else {
            self.interactive.remove(&mut self.interactive_links, client);
        }
    }

    /// A waiting request has a new first sector.
    fn moved(&mut self, view: &QueueView, request: RequestId) {
        let client = self.client_of(request);
        self.clients[client as usize].lane.resort(&mut self.lanes, view, request);
        let sector = view.request(request).sector();
        self.sweep_groups.resort(self.group_of(client), request, sector);
    }

    /// A waiting request leaves without being dispatched, and is not charged.
    fn take(&mut self, request: RequestId) {
        let client = self.client_of(request);
        let job = &mut self.jobs[request.index() as usize];
        let stage = core::mem::replace(&mut job.stage, Stage::Elsewhere);
        if stage == Stage::Bypassing {
            self.bypass.remove(&mut self.bypass_links, request.index());
        } else if stage == Stage::Waiting {
            let own = &mut self.clients[client as usize];
            own.lane.remove(&mut self.lanes, request);
            let kind = own.kind();
            self.leave_sweep_with(client, request);
            self.accounts.leave(client, kind);
            self.recount_expected(client);
        }
    }

    /// The account, weight and class of a client: its level scales its weight.
    fn place_of(&self, view: &QueueView, client: ClientId) -> (u32, u32, u8) {
        let own = view.client_at(client.index());
        let level = u32::from(own.priority().level.min(7));
        let weight = (own.weight().max(1) * (8 - level) / LEVEL_PLAIN).max(1);
        let parent = self.accounts.of_group(view.group_of(client).index());
        (parent, weight, own.priority().class as u8)
    }

    /// Opens the account of a group, after those above it.
    fn open_group(&mut self, view: &QueueView, group: u32) {
        let node = self.accounts.of_group(group);
        let own = view.group_at(group);
        let Some(parent) = own.parent() else { return };
        let (above, class) = (self.accounts.of_group(parent.index()), 1);
        if self.accounts.is_open(node) {
            self.accounts.change(node, above, own.weight(), class);
        } else {
            self.open_group(view, parent.index());
            self.accounts.open(node, above, own.weight(), class);
        }
    }
}
