// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared streams: clients that read one stream between them; each shared stream is a ring.
//!
//! A client is alone, or in a shared stream; one member of the shared stream, its *leader*,
//! represents all of them where there is room for one name only: on a seat.
//!
//! ```text
//! leader_of   a: a   b: a   c: a      d: d        a ─▶ b ─▶ c ─▶ (a)      d ─▶ (d)
//!           one shared stream of three    alone
//! ```
//!
//! Which member is the leader makes no difference to any decision; if the leader leaves, the next
//! in the ring is the leader.
//!
//! # Invariants
//! I1  All members of a ring have the same leader, which is one of them; the leader has the number
//!     of members, at most [`MEMBERS_MOST`].
//!
//! Source: own; BFQ and CFQ merge the queues into one instead (CFQ-41, BFQ-122).

use alloc::vec::Vec;

use paternoster_core::time::Nanos;

/// With more, each choice would be a long walk.
pub(super) const MEMBERS_MOST: u32 = 16;

#[derive(Debug, Clone, Copy)]
struct Member {
    leader: u32,
    next: u32,
    /// Of a leader: the number of members.
    count: u32,
    /// Of a leader: the sector after the last request that went in the shared stream's turn.
    head: u64,
    /// Of a leader: the last count that counted the shared stream.
    counted: Nanos,
}

impl Member {
    const fn alone(client: u32) -> Member {
        Member { leader: client, next: client, count: 1, head: 0, counted: Nanos::MAX }
    }
}

/// The shared streams of all clients.
#[derive(Debug)]
pub(super) struct SharedStreams(Vec<Member>);

impl SharedStreams {
    /// Shared streams for this many clients, each of them alone.
    pub(super) fn new(clients: u32) -> SharedStreams {
        SharedStreams((0..clients).map(Member::alone).collect())
    }

    fn at(&self, client: u32) -> &Member {
        &self.0[client as usize]
    }

    fn at_mut(&mut self, client: u32) -> &mut Member {
        &mut self.0[client as usize]
    }

    /// The client that represents a client's shared stream: itself if it is alone.
    pub(super) fn leader_of(&self, client: u32) -> u32 {
        self.at(client).leader
    }

    /// Whether two are of one shared stream, or the same client.
    pub(super) fn share_one(&self, one: u32, other: u32) -> bool {
        self.leader_of(one) == self.leader_of(other)
    }

    /// The number of clients in a client's shared stream, itself included.
    pub(super) fn count(&self, client: u32) -> u32 {
        self.at(self.leader_of(client)).count
    }

    /// Whether a client is not alone.
    pub(super) fn is_in_one(&self, client: u32) -> bool {
        self.at(client).next != client
    }

    /// How many clients are not alone. O(n).
    pub(super) fn in_shared_streams(&self) -> u64 {
        self.0.iter().zip(0u32..).filter(|&(member, number)| member.next != number).count() as u64
    }

    /// The next client in the ring.
    pub(super) fn after(&self, client: u32) -> u32 {
        self.at(client).next
    }

    /// A client and the other members of its shared stream.
    pub(super) fn members(&self, client: u32) -> Members<'_> {
        Members { all: self, next: client, left: self.count(client) }
    }

    /// The position of a client's shared stream.
    pub(super) fn head(&self, client: u32) -> u64 {
        self.at(self.leader_of(client)).head
    }

    pub(super) fn set_head(&mut self, client: u32, sector: u64) {
        let leader = self.leader_of(client);
        self.at_mut(leader).head = sector;
    }

    /// Whether a client is the first of its shared stream to be counted at `now`.
    pub(super) fn comes_first(&mut self, client: u32, now: Nanos) -> bool {
        let leader = self.leader_of(client);
        core::mem::replace(&mut self.at_mut(leader).counted, now) != now
    }

    /// `one` and its shared stream join the shared stream of `other`, unless they would be too
    /// many.
    pub(super) fn unite(&mut self, one: u32, other: u32) -> bool {
        let (from, into) = (self.leader_of(one), self.leader_of(other));
        let count = self.at(from).count + self.at(into).count;
        if from == into || count > MEMBERS_MOST {
            return false;
        }
        self.name_leader(from, into);
        // Two rings that exchange their next pointers are one.
        let (next, other) = (self.at(from).next, self.at(into).next);
        self.at_mut(from).next = other;
        self.at_mut(into).next = next;
        self.at_mut(into).count = count;
        true
    }

    fn name_leader(&mut self, of: u32, leader: u32) {
        let mut at = of;
        loop {
            let member = self.at_mut(at);
            member.leader = leader;
            at = member.next;
            if at == of {
                return;
            }
        }
    }

    /// A client is alone from now on. Returns the leader of those it leaves, if there are any.
    pub(super) fn part(&mut self, client: u32) -> Option<u32> {
        let heir = self.at(client).next;
        if heir == client {
            return None;
        }
        let old = *self.at(self.leader_of(client));
        let mut before = heir;
        while self.at(before).next != client {
            before = self.at(before).next;
        }
        self.at_mut(before).next = heir;
        *self.at_mut(client) = Member::alone(client);
        let leader = if old.leader == client { heir } else { old.leader };
        self.name_leader(heir, leader);
        let own = self.at_mut(leader);
        (own.count, own.head) = (old.count - 1, old.head);
        Some(leader)
    }

    /// Verifies I1.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        for (client, number) in self.0.iter().zip(0u32..) {
            let leader = self.at(client.leader);
            if leader.leader != client.leader || !(1..=MEMBERS_MOST).contains(&leader.count) {
                return Err("shared stream I1: a leader is none, or of too many");
            }
            let ring = self.members(number).filter(|&other| self.share_one(number, other));
            let last = self.members(number).last().unwrap_or(number);
            if ring.count() != leader.count as usize || self.at(last).next != number {
                return Err("shared stream I1: a ring is not that of its leader");
            }
        }
        Ok(())
    }
}

/// The clients of a shared stream, once each.
#[derive(Debug, Clone)]
pub(super) struct Members<'a> {
    all: &'a SharedStreams,
    next: u32,
    left: u32,
}

impl Iterator for Members<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let client = self.next;
        self.next = self.all.at(client).next;
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &SharedStreams, client: u32) -> Vec<u32> {
        let mut found: Vec<u32> = all.members(client).collect();
        found.sort_unstable();
        found
    }

    /// Do shared streams unite and part, and is there always one leader, which is one of them?
    #[test]
    fn i1_rings_unite_and_part() {
        let mut all = SharedStreams::new(6);
        assert!(all.unite(0, 1) && all.unite(2, 3) && all.unite(0, 3));
        assert_eq!(of(&all, 1), [0, 1, 2, 3]);
        assert!(!all.unite(1, 2), "they are in one already");
        all.set_head(2, 77);
        all.check().unwrap();
        let leader = all.leader_of(0);
        let next = all.part(leader).unwrap();
        assert_ne!(next, leader);
        assert_eq!((all.count(next), all.head(next), all.leader_of(leader)), (3, 77, leader));
        assert!(!all.is_in_one(leader));
        all.check().unwrap();
    }

    /// Is a client alone when the other one leaves, and does a client that was alone leave none
    /// behind?
    #[test]
    fn i1_the_last_two_part() {
        let mut all = SharedStreams::new(2);
        assert_eq!(all.part(0), None);
        all.unite(0, 1);
        assert_eq!(all.part(0), Some(1));
        assert!(!all.is_in_one(1) && all.count(1) == 1);
        all.check().unwrap();
    }

    /// Is there a limit, for clients that come one by one and for two shared streams?
    #[test]
    fn i1_sixteen_at_most() {
        let mut all = SharedStreams::new(40);
        for client in 1..MEMBERS_MOST {
            assert!(all.unite(client, 0));
        }
        assert!(!all.unite(16, 0) && !all.unite(0, 16));
        assert!(all.unite(16, 17) && !all.unite(16, 0));
        assert_eq!(all.count(0), MEMBERS_MOST);
        all.check().unwrap();
    }
}
