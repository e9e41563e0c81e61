// SPDX-License-Identifier: MIT OR Apache-2.0
//! Book: what an elevator was given and holds, in the order of its coming, and how long it waits.
//!
//! A wait is counted in requests that went meanwhile, not in time: on a slow or hanging device all
//! wait long, and the elevator is not to blame. With 7 requests before it and a client that has a
//! fifth of the device, a request that is served in turn is passed over by 7, one served by shares
//! by some 35:
//!
//! ```text
//! bound   16 * (7 + 1) * 5 = 640 requests, and 30 s
//! ```
//!
//! Invariant: I1 list, numbers and entries are of the same requests.

use paternoster_core::elevator::Position;
use paternoster_core::list::{Links, List};
use paternoster_core::{ClientId, Group, Nanos, QueueView, RequestId};

/// Longer the device is not kept idle while requests wait.
pub const IDLE: Nanos = Nanos::from_millis(500);
/// A request is passed over by at most this many times the number of requests before it.
pub const PASSES: u64 = 16;
/// A shorter wait does not count. Ours let requests be passed over by 100 and more times what was
/// before them for some seconds (measured: bfq 7 s, paternoster 4 s), and wait up to 15 s.
pub const PATIENCE: Nanos = Nanos::from_secs(30);
/// Time between two looks at waits.
const LOOKS: Nanos = Nanos::from_millis(100);
/// The queue was not asked for this long: what happened in between is unknown.
const GAP: Nanos = Nanos::from_millis(260);
const CLASSES: usize = 3;

/// A request that waits.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    since: Nanos,
    class: usize,
    /// Requests that waited when it came.
    before: u64,
    /// What had gone by then, of its class and below.
    gone: u64,
}

/// The requests that wait in an elevator.
#[derive(Debug, Default)]
pub(super) struct Book {
    list: List,
    links: Links,
    entries: Vec<Entry>,
    /// What has gone to the device, by class.
    gone: [u64; CLASSES],
    /// When the device was last seen to be kept idle, and for how long it had been then.
    idle: Option<(Nanos, Nanos)>,
    next_look: Nanos,
    /// For each group: whether it has something to do. Kept to be used again.
    busy: Vec<bool>,
}

impl Book {
    pub(super) fn new(view: &QueueView) -> Book {
        let slots = view.request_slots();
        Book {
            links: Links::with_capacity(slots),
            entries: vec![Entry::default(); slots as usize],
            busy: vec![false; view.limits().groups as usize],
            ..Book::default()
        }
    }

    pub(super) const fn len(&self) -> u32 {
        self.list.len()
    }

    pub(super) fn has(&self, id: RequestId) -> bool {
        (id.index() as usize) < self.entries.len() && self.links.contains(id.index())
    }

    pub(super) fn oldest(&self) -> Option<RequestId> {
        self.list.first().map(RequestId::from_index)
    }

    /// A request begins to wait.
    pub(super) fn comes(&mut self, view: &QueueView, id: RequestId, position: Position) {
        let class = view.request(id).priority().class as usize;
        self.entries[id.index() as usize] = Entry {
            since: view.exact_now(),
            class,
            before: self.list.len().into(),
            gone: self.gone[class..].iter().sum(),
        };
        match position {
            Position::Head => self.list.push_front(&mut self.links, id.index()),
            Position::Sorted => self.list.push_back(&mut self.links, id.index()),
        }
    }

    /// The request no longer exists by itself: it was merged, or withdrawn.
    pub(super) fn leaves(&mut self, id: RequestId) {
        if self.has(id) {
            self.list.remove(&mut self.links, id.index());
        }
    }

    /// A request goes to the device.
    pub(super) fn goes(&mut self, id: RequestId) {
        self.leaves(id);
        self.gone[self.entries[id.index() as usize].class] += 1;
    }

    /// The device has nothing to do, and what waits is not given to it; or not (W4).
    pub(super) fn keeps_idle(&mut self, now: Nanos, is_so: bool) -> Result<(), String> {
        if !is_so {
            self.idle = None;
            return Ok(());
        }
        let (last, so_far) = self.idle.unwrap_or((now, Nanos::ZERO));
        let in_all = so_far + (now - last).min(GAP);
        self.idle = Some((now, in_all));
        if in_all <= IDLE {
            return Ok(());
        }
        Err(format!("keeps the device idle for {in_all} while {} requests wait", self.len()))
    }

    /// Looks, now and then, whether a request was passed over for too long (W5).
    pub(super) fn check_waits(&mut self, view: &QueueView) -> Result<(), String> {
        let now = view.exact_now();
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + LOOKS;
        let mut at = self.list.first();
        while let Some(index) = at {
            at = self.links.next(index);
            let Entry { since, class, before, gone } = self.entries[index as usize];
            let passed = self.gone[class..].iter().sum::<u64>() - gone;
            let bound = PASSES * (before + 1);
            if now - since <= PATIENCE || passed <= bound {
                continue;
            }
            let client = view.request(RequestId::from_index(index)).client();
            if passed > bound.saturating_mul(self.one_in(view, client)) {
                let waited = now - since;
                return Err(format!("lets a request wait for {waited} while {passed} others went"));
            }
        }
        Ok(())
    }

    /// Of how many units of weight a client has one, among those that have something to do.
    fn one_in(&mut self, view: &QueueView, client: ClientId) -> u64 {
        self.busy.fill(false);
        let clients = || view.clients().map(|(_, it)| it).filter(|it| it.requests() != 0);
        for one in clients() {
            let mut group = one.group();
            while let Some(id) = group {
                self.busy[id.index() as usize] = true;
                group = view.group(id).and_then(Group::parent);
            }
        }
        let mut own = view.client(client).map_or(1, |it| u64::from(it.weight()).max(1));
        let mut group = Some(view.group_of(client));
        let mut one_in = 1u64;
        while let Some(id) = group {
            let members = clients().filter(|it| it.group() == Some(id)).map(|it| it.weight());
            let groups = view
                .groups()
                .filter(|(one, it)| it.parent() == Some(id) && self.busy[one.index() as usize]);
            let groups = groups.map(|(_, it)| it.weight());
            let all: u64 = members.chain(groups).map(u64::from).sum();
            one_in = one_in.saturating_mul(all.div_ceil(own).max(1));
            let Some(this) = view.group(id) else { break };
            (own, group) = (u64::from(this.weight()).max(1), this.parent());
        }
        one_in
    }

    pub(super) fn audit(&self) -> Result<(), String> {
        Ok(self.list.check(&self.links)?)
    }
}
