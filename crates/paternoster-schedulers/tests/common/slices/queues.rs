// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues: where each request is, and which queue is next.
//!
//! ```text
//! group with the least virtual time ─▶ best class in it ─▶ ring of its queues ─▶ the first one
//!                                                             │
//!      queue: members (all that are bound here)               └ sorted by sector, refused ones
//!             of these wait: head list, tree                    at the head
//! ```
//!
//! In a request's scratch: the number of its queue plus one, and its [`State`].
//!
//! # Invariants
//! S1  A request is in the members of exactly one queue, the one that its scratch names.
//! S2  `waiting` and `picked` are the numbers of members in these states; those that wait are in
//!     the queue's tree or its head list, under their own sector.
//! S3  A queue is in the ring of its group and class exactly while something waits in it.
//! S6  Queues are joined only within a group and a class, and never in a cycle.

use paternoster_core::elevator::{Fault, Position};
use paternoster_core::list::{Links, List};
use paternoster_core::tree::{Nodes, Root};
use paternoster_core::{Bio, ClientId, Nanos, QueueView, RequestId};

/// Fraction bits of virtual time: a nanosecond at weight 10 000 is still a hundred steps.
const FRACTION_BITS: u32 = 20;
const CLASSES: usize = 3;
pub(super) const IDLE_CLASS: usize = 2;
/// In the scratch of a request: its queue, and its state.
const HOME: usize = 0;
const STATE: usize = 1;

/// Where a request is, after the calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Bound = 1,
    Waiting = 2,
    Picked = 3,
    Refused = 4,
    Ended = 5,
}

impl State {
    /// The queue number in a request's scratch.
    pub(super) fn of(view: &QueueView, request: RequestId) -> u64 {
        view.request(request).scratch()[STATE]
    }

    pub(super) fn is_of(self, view: &QueueView, request: RequestId) -> bool {
        State::of(view, request) == self as u64
    }

    pub(super) fn put(self, view: &mut QueueView, request: RequestId) {
        view.scratch_mut(request)[STATE] = self as u64;
    }
}

/// A client's sync requests, or the async ones of all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Queue {
    /// Its client; `None` if the queue is free, or the async one.
    pub(super) client: Option<ClientId>,
    members: List,
    sorted: Root,
    /// What the device refused: goes first.
    head: List,
    /// Picked, and neither completed nor back.
    pub(super) picked: u32,
    pub(super) group: u32,
    pub(super) class: usize,
    /// The queue that this client's next requests go to.
    into: Option<u32>,
    /// After the last request that was bound here.
    pub(super) last_end: Option<u64>,
    /// Device time in the present slice.
    pub(super) served: Nanos,
}

impl Queue {
    /// The queue of a client that has come.
    pub(super) fn of(client: ClientId) -> Queue {
        Queue { client: Some(client), ..Queue::default() }
    }

    pub(super) const fn waiting(&self) -> u32 {
        self.sorted.len() + self.head.len()
    }

    /// Whether it has no client and no requests.
    pub(super) fn is_free(&self) -> bool {
        self.client.is_none() && self.members.is_empty()
    }
}

/// A group's claim on the device.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    weight: u32,
    virtual_time: u128,
    rings: [List; CLASSES],
}

impl Share {
    fn best_class(&self) -> Option<usize> {
        self.rings.iter().position(|ring| !ring.is_empty())
    }
}

/// All queues and groups.
#[derive(Debug)]
pub(super) struct Queues {
    nodes: Nodes<u64>,
    head_links: Links,
    member_links: Links,
    ring_links: Links,
    /// By client, the async one last.
    queues: Vec<Queue>,
    /// The share of each group.
    shares: Vec<Share>,
    waiting: u32,
    /// Virtual time of the whole: a group that comes back starts here.
    virtual_now: u128,
}

impl Queues {
    /// Queues before the elevator has a view.
    pub(super) fn none() -> Queues {
        Queues {
            nodes: Nodes::with_capacity(0),
            head_links: Links::default(),
            member_links: Links::default(),
            ring_links: Links::default(),
            queues: Vec::new(),
            shares: Vec::new(),
            waiting: 0,
            virtual_now: 0,
        }
    }

    /// As many as the view has slots for, all free but the async one.
    pub(super) fn of(view: &QueueView) -> Queues {
        let (requests, limits) = (view.request_slots(), *view.limits());
        let shared = Queue { group: view.root().index(), class: 1, ..Queue::default() };
        let free = (0..limits.clients).map(|_| Queue::default());
        Queues {
            nodes: Nodes::with_capacity(requests),
            head_links: Links::with_capacity(requests),
            member_links: Links::with_capacity(requests),
            ring_links: Links::with_capacity(limits.clients + 1),
            queues: free.chain([shared]).collect(),
            shares: (0..limits.groups).map(|_| Share::default()).collect(),
            ..Queues::none()
        }
    }

    pub(super) fn at(&self, number: u32) -> &Queue {
        &self.queues[number as usize]
    }

    pub(super) fn at_mut(&mut self, number: u32) -> &mut Queue {
        &mut self.queues[number as usize]
    }

    /// How many requests wait.
    pub(super) const fn waiting(&self) -> u32 {
        self.waiting
    }

    pub(super) fn async_queue(&self) -> u32 {
        u32::try_from(self.queues.len() - 1).unwrap_or(0)
    }

    /// The queue that a client's sync requests go to.
    pub(super) fn target(&self, client: u32) -> u32 {
        let mut number = client;
        while let Some(next) = self.at(number).into {
            number = next;
        }
        number
    }

    /// The queue that `bio` would go to.
    pub(super) fn home_of(&self, bio: &Bio) -> u32 {
        if bio.is_sync() { self.target(bio.client.index()) } else { self.async_queue() }
    }

    pub(super) fn home(view: &QueueView, request: RequestId) -> u32 {
        u32::try_from(view.request(request).scratch()[HOME].saturating_sub(1)).unwrap_or(0)
    }

    /// Whether a request is a member of one of them.
    pub(super) fn knows(&self, request: RequestId) -> bool {
        self.member_links.contains(request.index())
    }

    /// A client that reads where another's last request ended joins that one's queue, which is
    /// returned.
    pub(super) fn join_neighbour(&mut self, client: ClientId, sector: u64) -> Option<ClientId> {
        let own = self.target(client.index());
        if own != client.index() || self.at(own).last_end == Some(sector) {
            return None;
        }
        let (group, class) = (self.at(own).group, self.at(own).class);
        let adjoins = |queue: &Queue| {
            queue.client.is_some()
                && queue.into.is_none()
                && queue.last_end == Some(sector)
                && (queue.group, queue.class) == (group, class)
        };
        let clients = &self.queues[..self.queues.len() - 1];
        let found = clients.iter().position(adjoins)?;
        let into = u32::try_from(found).unwrap_or(own);
        if into == own {
            return None;
        }
        self.at_mut(own).into = Some(into);
        self.at(into).client
    }

    /// No other client shares a queue with this one any longer; what is bound stays where it is.
    pub(super) fn part(&mut self, client: u32) {
        for queue in &mut self.queues {
            if queue.into == Some(client) {
                queue.into = None;
            }
        }
        self.at_mut(client).into = None;
    }

    /// A new request becomes a member.
    pub(super) fn bind(&mut self, view: &mut QueueView, request: RequestId, home: u32) {
        let end = view.request(request).end();
        let queue = &mut self.queues[home as usize];
        queue.members.push_back(&mut self.member_links, request.index());
        queue.last_end = Some(end);
        *view.scratch_mut(request) = [u64::from(home) + 1, State::Bound as u64];
    }

    pub(super) fn first_member(&self, number: u32) -> Option<RequestId> {
        self.at(number).members.first().map(RequestId::from_index)
    }

    /// A member that does not wait leaves.
    pub(super) fn release(&mut self, request: RequestId, home: u32) {
        let members = &mut self.queues[home as usize].members;
        members.remove(&mut self.member_links, request.index());
    }

    /// A member that does not wait goes from one queue to another.
    pub(super) fn rehome(&mut self, view: &mut QueueView, request: RequestId, from: u32, to: u32) {
        if State::Picked.is_of(view, request) || State::Refused.is_of(view, request) {
            self.at_mut(from).picked -= 1;
            self.at_mut(to).picked += 1;
        }
        self.release(request, from);
        let members = &mut self.queues[to as usize].members;
        members.push_back(&mut self.member_links, request.index());
        view.scratch_mut(request)[HOME] = u64::from(to) + 1;
    }

    /// Puts a request into a queue's order; `active` is the queue in service.
    pub(super) fn stand(
        &mut self,
        view: &mut QueueView,
        request: RequestId,
        number: u32,
        position: Position,
        active: Option<u32>,
    ) {
        let (sector, index) = (view.request(request).sector(), request.index());
        State::Waiting.put(view, request);
        self.waiting += 1;
        let queue = &mut self.queues[number as usize];
        match position {
            Position::Sorted => queue.sorted.insert(&mut self.nodes, index, sector),
            Position::Head => queue.head.push_front(&mut self.head_links, index),
        }
        self.enter_ring(number, active);
    }

    /// Takes a waiting request out of its queue's order; returns where it was.
    pub(super) fn step_out(
        &mut self,
        view: &mut QueueView,
        request: RequestId,
        number: u32,
        state: State,
    ) -> Position {
        let index = request.index();
        let queue = &mut self.queues[number as usize];
        let position = if self.head_links.contains(index) {
            queue.head.remove(&mut self.head_links, index);
            Position::Head
        } else {
            queue.sorted.remove(&mut self.nodes, index);
            Position::Sorted
        };
        state.put(view, request);
        self.waiting -= 1;
        if self.at(number).waiting() == 0 {
            self.leave_ring(number);
        }
        position
    }

    /// A waiting request now begins earlier, or ends later.
    pub(super) fn grown(
        &mut self,
        view: &QueueView,
        request: RequestId,
        home: u32,
        at_front: bool,
    ) {
        let queue = &mut self.queues[home as usize];
        if at_front {
            let sector = view.request(request).sector();
            queue.sorted.rekey(&mut self.nodes, request.index(), sector);
        }
        queue.last_end = Some(view.request(request).end());
    }

    pub(super) fn before(&self, request: RequestId) -> Option<RequestId> {
        self.nodes.prev(request.index()).map(RequestId::from_index)
    }

    pub(super) fn behind(&self, request: RequestId) -> Option<RequestId> {
        self.nodes.next(request.index()).map(RequestId::from_index)
    }

    /// The request that a queue serves next: refused ones, then upwards from the head, then from
    /// the lowest.
    pub(super) fn take(&mut self, view: &mut QueueView, number: u32) -> Option<RequestId> {
        let queue = self.at(number);
        let from = view.in_device().last_end;
        let next = queue
            .head
            .first()
            .or_else(|| queue.sorted.lower_bound(&self.nodes, &from))
            .or_else(|| queue.sorted.first())?;
        let request = RequestId::from_index(next);
        self.step_out(view, request, number, State::Picked);
        self.at_mut(number).picked += 1;
        Some(request)
    }

    pub(super) fn enter_ring(&mut self, number: u32, active: Option<u32>) {
        if self.ring_links.contains(number) {
            return;
        }
        let Queue { group, class, .. } = *self.at(number);
        let share = &mut self.shares[group as usize];
        if share.best_class().is_none() && active != Some(number) {
            // A group that was away has saved nothing.
            share.virtual_time = share.virtual_time.max(self.virtual_now);
        }
        share.rings[class].push_back(&mut self.ring_links, number);
    }

    pub(super) fn leave_ring(&mut self, number: u32) {
        if self.ring_links.contains(number) {
            let Queue { group, class, .. } = *self.at(number);
            self.shares[group as usize].rings[class].remove(&mut self.ring_links, number);
        }
    }

    /// A queue that has had its turn goes to the end of its ring.
    pub(super) fn go_behind(&mut self, number: u32) {
        if self.ring_links.contains(number) {
            self.leave_ring(number);
            let Queue { group, class, .. } = *self.at(number);
            self.shares[group as usize].rings[class].push_back(&mut self.ring_links, number);
        }
    }

    /// The next queue, by group, class, ring.
    pub(super) fn choose(&mut self) -> Option<u32> {
        let busy = self.shares.iter().filter(|share| share.best_class().is_some());
        let share = busy.min_by_key(|share| share.virtual_time)?;
        let first = share.rings[share.best_class()?].first();
        self.virtual_now = self.virtual_now.max(share.virtual_time);
        first
    }

    /// Whether one of a better class waits in this queue's group.
    pub(super) fn is_outranked(&self, number: u32) -> bool {
        let queue = self.at(number);
        let best = self.shares[queue.group as usize].best_class();
        best.is_some_and(|best| best < queue.class)
    }

    /// Device time goes to a group's account.
    pub(super) fn charge_group(&mut self, group: u32, served: Nanos) {
        let share = &mut self.shares[group as usize];
        let cost = (u128::from(served.0) << FRACTION_BITS) / u128::from(share.weight.max(1));
        share.virtual_time += cost;
    }

    /// A group comes, or its weight changes.
    pub(super) fn weigh_group(&mut self, group: u32, weight: u32) {
        let virtual_time = self.virtual_now;
        let share = &mut self.shares[group as usize];
        if share.weight == 0 {
            *share = Share { virtual_time, ..Share::default() };
        }
        share.weight = weight;
    }

    /// A group goes; returns whether it existed with nothing waiting.
    pub(super) fn remove_group(&mut self, group: u32) -> bool {
        let share = std::mem::take(&mut self.shares[group as usize]);
        share.best_class().is_none() && share.weight != 0
    }

    /// S1 to S3 and S6.
    pub(super) fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        let mut waiting = 0;
        for number in 0..=self.async_queue() {
            waiting += self.audit_queue(view, number)?;
            let mut hops = 0;
            let mut at = number;
            while let Some(next) = self.at(at).into {
                (at, hops) = (next, hops + 1);
                if hops > self.queues.len() {
                    return Err(format!("S6: queue {number} is joined in a circle"));
                }
            }
        }
        if waiting != self.waiting {
            return Err(format!("S2: {waiting} wait, counted {}", self.waiting));
        }
        for list in self.shares.iter().flat_map(|share| &share.rings) {
            list.check(&self.ring_links).map_err(|fault| format!("S3: {fault}"))?;
        }
        Ok(())
    }

    fn audit_queue(&self, view: &QueueView, number: u32) -> Result<u32, Fault> {
        let queue = self.at(number);
        queue.members.check(&self.member_links)?;
        queue.sorted.check(&self.nodes)?;
        queue.head.check(&self.head_links)?;
        let (mut waiting, mut picked) = (0, 0);
        for index in queue.members.iter(&self.member_links) {
            let request = view.request(RequestId::from_index(index));
            let [home, state] = request.scratch();
            if home != u64::from(number) + 1 {
                return Err(format!("S1: request {index} of queue {number} names {home}"));
            }
            let stands = self.nodes.contains(index) || self.head_links.contains(index);
            if stands != (state == State::Waiting as u64) {
                return Err(format!("S2: request {index} in state {state} stands: {stands}"));
            }
            if self.nodes.contains(index) && self.nodes.key(index) != Some(request.sector()) {
                return Err(format!("S2: request {index} stands under a sector not its own"));
            }
            waiting += u32::from(stands);
            picked += u32::from(state == State::Picked as u64 || state == State::Refused as u64);
        }
        if waiting != queue.waiting() || picked != queue.picked {
            return Err(format!("S2: queue {number} has {waiting} and {picked}: {queue:?}"));
        }
        if self.ring_links.contains(number) != (waiting > 0) {
            return Err(format!("S3: queue {number} with {waiting} is not where it should be"));
        }
        if let Some(into) = queue.into {
            let other = self.at(into);
            if (other.group, other.class) != (queue.group, queue.class) || other.client.is_none() {
                return Err(format!("S6: queue {number} is joined to {into}"));
            }
        }
        Ok(waiting)
    }
}
