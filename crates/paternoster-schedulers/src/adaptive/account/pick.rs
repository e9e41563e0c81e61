// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which client goes first: by class and virtual time, group by group, and how two compare.
//!
//! Two clients are compared where their paths to the root meet:
//!
//! ```text
//! root ─┬─ A ── a1        a1 and b2 are compared as A and B
//!       └─ B ─┬─ b1       b1 and b2 as they are
//!             └─ b2
//! ```
//!
//! An idle class that has waited for [`IDLE_WAITS_MOST`] goes before all others, once (G10), of
//! whichever kind they wait as.

use super::{Accounts, CROWD, Group, Node, STREAM, UNIT};
use paternoster_core::Class;
use paternoster_core::slab::NIL;
use paternoster_core::time::Nanos;

/// Where a walk over the waiting children of a group is.
#[derive(Debug, Clone, Copy, Default)]
struct Walk {
    at: Option<u32>,
    /// It began with the idle class, which is due, and the better classes follow.
    has_jumped: bool,
}

impl Walk {
    /// Goes on to the next child. An idle class that was due comes once more at its place.
    fn step(&mut self, accounts: &Accounts, group: &Group, kind: usize) {
        let Some(child) = self.at else { return };
        self.at = if self.has_jumped {
            group.first(kind)
        } else {
            accounts.next_in_order(group, child, kind)
        };
        self.has_jumped = false;
    }
}

impl Accounts {
    /// The client that goes next by virtual times alone, of one kind or of both, leaving out those
    /// that are `skipped`, which are few.
    pub(in super::super) fn first(
        &self,
        kinds: &[usize],
        now: Nanos,
        skipped: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        self.first_in(self.root, kinds, now, skipped)
    }

    /// The client that goes next by virtual times alone, of all that wait.
    #[inline]
    pub(in super::super) fn first_of_all(&self, now: Nanos) -> Option<u32> {
        if self.at(self.root).queued[STREAM] == 0 {
            // The common case.
            let first = self.head(self.group(self.root), CROWD, now)?;
            if self.is_client(first) {
                return Some(first);
            }
        }
        self.first_below(now)
    }

    /// The same, for nested groups.
    #[inline(never)]
    fn first_below(&self, now: Nanos) -> Option<u32> {
        let mut group = self.root;
        let [mut crowd, mut stream] = self.at(group).queued.map(|queued| queued > 0);
        loop {
            let node = self.group(group);
            let one = if crowd { self.head(node, CROWD, now) } else { None };
            let other = if stream { self.head(node, STREAM, now) } else { None };
            let streams = match (one, other) {
                (Some(one), Some(other)) => self.is_first(other, one, now),
                _ => one.is_none(),
            };
            let child = if streams { other? } else { one? };
            if self.is_client(child) {
                return Some(child);
            }
            // In a group that waits as both kinds, both may be looked at.
            let queued = self.at(child).queued;
            crowd = !streams || crowd && queued[CROWD] > 0;
            stream = streams || stream && queued[STREAM] > 0;
            group = child;
        }
    }

    /// Recurses as deep as groups are nested, which is bounded by their number.
    fn first_in(
        &self,
        group: u32,
        kinds: &[usize],
        now: Nanos,
        skipped: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        let node = self.group(group);
        let mut walks = [Walk::default(); 2];
        for &kind in kinds {
            walks[kind] = self.walk(node, kind, now);
        }
        while let Some(kind) = self.lesser(walks.map(|walk| walk.at), now) {
            let child = walks[kind].at?;
            let found = if self.is_client(child) {
                (!skipped(child)).then_some(child)
            } else {
                // In a group that waits as both kinds, only this kind is looked at.
                let both = kinds.len() > 1 && self.at(child).queued[1 - kind] > 0;
                let asked = if both { kinds } else { core::slice::from_ref(&kind) };
                self.first_in(child, asked, now, skipped)
            };
            if found.is_some() {
                return found;
            }
            walks[kind].step(self, node, kind);
        }
        None
    }

    /// The first of a kind in a group; one of the idle class if that has waited for too long.
    #[inline]
    fn head(&self, group: &Group, kind: usize, now: Nanos) -> Option<u32> {
        let idler = group.ready[kind][Class::Idle as usize].first();
        if idler.is_some() && group.idlers_due_at() <= now {
            return idler;
        }
        group.first(kind)
    }

    /// A walk over the children that wait as a kind, from the [head](Accounts::head) on.
    fn walk(&self, group: &Group, kind: usize, now: Nanos) -> Walk {
        let at = self.head(group, kind, now);
        Walk { at, has_jumped: at != group.first(kind) }
    }

    fn lesser(&self, heads: [Option<u32>; 2], now: Nanos) -> Option<usize> {
        match heads {
            [Some(crowd), Some(stream)] => {
                Some(if self.is_first(stream, crowd, now) { STREAM } else { CROWD })
            }
            [Some(_), None] => Some(CROWD),
            [None, Some(_)] => Some(STREAM),
            [None, None] => None,
        }
    }

    /// The client directly in a group that goes next, of those that wait as the crowd. Clients of
    /// its subgroups are left out.
    pub(in super::super) fn first_of_sweep_group(&self, group: u32, now: Nanos) -> Option<u32> {
        let node = self.group(group);
        let mut walk = self.walk(node, CROWD, now);
        while walk.at.is_some_and(|child| !self.is_client(child)) {
            walk.step(self, node, CROWD);
        }
        walk.at
    }

    /// The client of the crowd that goes next, except those directly in a group that is `seated`.
    pub(in super::super) fn first_of_sweep_groups(
        &self,
        now: Nanos,
        seated: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        self.first_of_sweep_groups_in(self.root, now, seated)
    }

    /// Recurses as deep as groups are nested. O(clients) in a seated group of many clients and
    /// groups.
    fn first_of_sweep_groups_in(
        &self,
        group: u32,
        now: Nanos,
        seated: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        let node = self.group(group);
        let passed = seated(group);
        if passed && node.groups == 0 {
            return None;
        }
        let mut walk = self.walk(node, CROWD, now);
        while let Some(child) = walk.at {
            let found = if self.is_client(child) {
                (!passed).then_some(child)
            } else {
                self.first_of_sweep_groups_in(child, now, seated)
            };
            if found.is_some() {
                return found;
            }
            walk.step(self, node, CROWD);
        }
        None
    }

    /// Whether a client is of the same class as its sibling `least`, which has had least, and at
    /// most `ns` of that sibling's device time ahead of it.
    pub(in super::super) fn is_within(&self, client: u32, least: u32, ns: u64) -> bool {
        let (own, least) = (self.at(client), self.at(least));
        let ns = i64::try_from(ns).unwrap_or(i64::MAX);
        let most = ns.saturating_mul(UNIT) / i64::from(least.weight);
        own.class == least.class && own.vt.saturating_sub(least.vt) <= most
    }

    /// Steps to the root for a child of this group; none for the root itself, and for one that has
    /// left.
    fn depth_below(&self, group: u32) -> u32 {
        if group == NIL { 0 } else { self.group(group).depth + 1 }
    }

    /// The child of the root that is next by virtual time, if any waits.
    pub(in super::super) fn first_child(&self) -> Option<u32> {
        let root = self.group(self.root);
        let firsts = [root.first(CROWD), root.first(STREAM)];
        // By virtual time alone: at time 0 no idle class is due.
        firsts[self.lesser(firsts, Nanos::ZERO)?]
    }

    /// The child of the root that a client is, or is below.
    pub(in super::super) fn top_of(&self, client: u32) -> u32 {
        let mut at = client;
        while self.at(at).parent != self.root && self.at(at).parent != NIL {
            at = self.at(at).parent;
        }
        at
    }

    /// The two children of the nearest common group that lead to two clients.
    fn siblings(&self, one: u32, other: u32) -> (u32, u32) {
        let (mut one, mut other) = (one, other);
        let (mut over_one, mut over_other) = (self.at(one).parent, self.at(other).parent);
        while over_one != over_other {
            let (depth, other_depth) = (self.depth_below(over_one), self.depth_below(over_other));
            if depth >= other_depth {
                (one, over_one) = (over_one, self.at(over_one).parent);
            }
            if other_depth >= depth {
                (other, over_other) = (over_other, self.at(over_other).parent);
            }
        }
        (one, other)
    }

    /// Whether `one` has had less than `other`, or is of a better class, where their paths meet.
    pub(in super::super) fn precedes(&self, one: u32, other: u32) -> bool {
        let (one, other) = self.siblings(one, other);
        one != other && self.at(one).key().before(&self.at(other).key())
    }

    /// The same, except that an idle class that has waited for too long precedes all others.
    pub(in super::super) fn goes_before(&self, one: u32, other: u32, now: Nanos) -> bool {
        let (one, other) = self.siblings(one, other);
        one != other && self.is_first(one, other, now)
    }

    /// [`Accounts::goes_before`] for two children of one group.
    #[inline]
    fn is_first(&self, one: u32, other: u32, now: Nanos) -> bool {
        let (one, other) = (self.at(one), self.at(other));
        let idles = [one, other].map(|node| node.class == Class::Idle as u8);
        if idles[0] != idles[1] && self.group(one.parent).idlers_due_at() <= now {
            return idles[0];
        }
        one.key().before(&other.key())
    }

    /// How far `one` is ahead of `other` where their paths meet, in ns of its own device time; 0 if
    /// it is not.
    pub(in super::super) fn ahead_of(&self, one: u32, other: u32) -> u64 {
        let (one, other) = self.siblings(one, other);
        let (one, other) = (self.at(one), self.at(other));
        let ahead = one.vt.saturating_sub(other.vt).max(0);
        (ahead.saturating_mul(i64::from(one.weight)) / UNIT).unsigned_abs()
    }

    /// Whether two are of one class where their paths meet.
    pub(in super::super) fn are_of_one_class(&self, one: u32, other: u32) -> bool {
        let (one, other) = self.siblings(one, other);
        self.at(one).class == self.at(other).class
    }

    /// Whether `one` is of a better class than `other` where their paths meet.
    pub(in super::super) fn outranks(&self, one: u32, other: u32) -> bool {
        let (one, other) = self.siblings(one, other);
        self.at(one).class < self.at(other).class
    }

    /// Until when an idle-class client waits for what siblings of a better class have in the
    /// device, or for one of them that is expected: no longer than the idle class ever waits.
    #[inline(always)]
    pub(in super::super) fn yields_until(&self, client: u32, now: Nanos) -> Option<Nanos> {
        let Node { class, parent, .. } = *self.at(client);
        if class != Class::Idle as u8 {
            return None;
        }
        let group = self.group(parent);
        let better = self.at(parent).flying > group.idlers_flying;
        let due = group.idlers_due_at();
        let until = if better { due } else { due.min(group.better_comes) };
        (until > now).then_some(until)
    }

    /// The weights of two where their paths meet.
    pub(in super::super) fn weights(&self, one: u32, other: u32) -> (u64, u64) {
        let (one, other) = self.siblings(one, other);
        (u64::from(self.at(one).weight), u64::from(self.at(other).weight))
    }
}
