// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seats: places for connections, of all loops together.
//!
//! One user, or one address, may have all that are configured. That must not lock out others: there
//! is an eighth more for users and addresses that have few. A tenant that comes from many addresses
//! has no more than what is configured either: the eighth is for other tenants.
//!
//! ```text
//! connections = 4096     |---- anyone's: 4096 ----|- 512: of those that have fewer than 64 -|
//! ```
//!
//! Invariant: a seat is taken back when it is dropped, wherever that is.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::host::peer::Origin;
use crate::locked::locked;

/// For this many seats there is one more, for users that have few.
const SPARE: u32 = 8;
/// Few means fewer than all connections divided by this.
const FEW: u32 = 64;

/// Seats of a server with this many connections, with those for users that have few.
pub(crate) const fn in_all(connections: u32) -> u32 {
    connections.saturating_add(connections / SPARE)
}

/// How many connections there may be with this many seats.
pub(crate) const fn connections_of(seats: u32) -> u32 {
    seats - (seats + 1) / (SPARE + 1)
}

type Counts = Arc<Mutex<HashMap<Origin, u32>>>;

type Tenants = Arc<Mutex<HashMap<String, u32>>>;

/// The seats of a server.
#[derive(Debug)]
pub(crate) struct Seats {
    connections: u32,
    taken: Arc<AtomicU32>,
    counts: Counts,
    tenants: Tenants,
}

impl Seats {
    pub(crate) fn new(connections: u32) -> Seats {
        let (counts, tenants) = (Counts::default(), Tenants::default());
        Seats { connections, taken: Arc::default(), counts, tenants }
    }

    /// A seat for a peer, if there is one.
    pub(crate) fn take(&self, origin: Origin) -> Option<Seat> {
        let mut counts = locked(&self.counts);
        let count = counts.get(&origin).copied().unwrap_or(0);
        let has_few = count < (self.connections / FEW).max(1);
        let most = if has_few { in_all(self.connections) } else { self.connections };
        let mut seat = Seat::take(&self.taken, most)?;
        counts.insert(origin, count + 1);
        seat.of = Some((Arc::clone(&self.counts), origin));
        Some(seat)
    }

    /// The tenant of a seat is known; returns whether it may have it.
    pub(crate) fn admit(&self, seat: &mut Seat, tenant: &str) -> bool {
        let mut tenants = locked(&self.tenants);
        let count = tenants.get(tenant).copied().unwrap_or(0);
        let may = count < self.connections;
        if may {
            tenants.insert(tenant.to_owned(), count + 1);
            seat.tenant = Some((Arc::clone(&self.tenants), tenant.to_owned()));
        }
        may
    }

    /// Seats that are taken: of all, by origins, by tenants.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> [u32; 3] {
        let of = |counts: &mut dyn Iterator<Item = u32>| counts.sum();
        [
            self.taken.load(SeqCst),
            of(&mut locked(&self.counts).values().copied()),
            of(&mut locked(&self.tenants).values().copied()),
        ]
    }
}

/// A seat of a connection.
#[derive(Debug)]
pub struct Seat {
    taken: Arc<AtomicU32>,
    of: Option<(Counts, Origin)>,
    tenant: Option<(Tenants, String)>,
    /// Another seat, given back together with this one.
    beside: Option<Box<Seat>>,
}

impl Seat {
    /// A seat without an owner, if fewer than `most` are taken.
    pub fn take(seats: &Arc<AtomicU32>, most: u32) -> Option<Seat> {
        let taken = seats.fetch_update(SeqCst, SeqCst, |taken| (taken < most).then_some(taken + 1));
        let taken = taken.is_ok().then(|| Arc::clone(seats));
        taken.map(|taken| Seat { taken, of: None, tenant: None, beside: None })
    }

    /// Both seats, which are given back together.
    pub(crate) fn and(mut self, other: Seat) -> Seat {
        self.beside = Some(Box::new(other));
        self
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, SeqCst);
        if let Some((counts, origin)) = &self.of {
            one_fewer(counts, origin);
        }
        if let Some((tenants, name)) = &self.tenant {
            one_fewer(tenants, name);
        }
    }
}

fn one_fewer<K: Eq + Hash>(counts: &Mutex<HashMap<K, u32>>, of: &K) {
    let mut counts = locked(counts);
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a user that has taken all seats leave some to others, and no more to itself? Of 128
    /// connections an eighth are 16 seats more, for those that have fewer than 128 / 64 = 2.
    #[test]
    fn a_crowd_of_one_user_leaves_seats() {
        let seats = Seats::new(128);
        let (crowd, other) = (Origin::User(1000), Origin::User(1001));
        let mut taken: Vec<Seat> = std::iter::from_fn(|| seats.take(crowd)).collect();
        assert_eq!(taken.len(), 128);
        let theirs: Vec<Seat> = std::iter::from_fn(|| seats.take(other)).collect();
        assert_eq!(theirs.len(), 2);
        let many: Vec<Seat> = (0..100).filter_map(|uid| seats.take(Origin::User(uid))).collect();
        assert_eq!(many.len(), 14, "and then all are taken");
        drop(many);
        taken.pop();
        assert!(seats.take(crowd).is_none(), "130 - 1 are there still, two of them spare ones");
        drop(theirs);
        assert!(seats.take(crowd).is_some());
        drop(taken);
        assert_eq!((seats.taken.load(SeqCst), seats.counts.lock().unwrap().len()), (0, 0));
    }

    /// And a tenant that comes from 144 addresses, each of which has few? It has 128 of them;
    /// another tenant's find the other 16, and what goes is free for both.
    #[test]
    fn a_crowd_of_one_tenant_leaves_seats() {
        let seats = Seats::new(128);
        let mut taken: Vec<Seat> = Vec::new();
        for uid in 0..200 {
            let Some(mut seat) = seats.take(Origin::User(uid)) else { continue };
            if seats.admit(&mut seat, "crowd") {
                taken.push(seat);
            }
        }
        assert_eq!(taken.len(), 128);
        let other = || {
            let mut seat = seats.take(Origin::User(1000))?;
            seats.admit(&mut seat, "other").then_some(seat)
        };
        let theirs = [other(), other()];
        assert!(theirs.iter().all(Option::is_some));
        drop((taken, theirs));
        assert!(locked(&seats.tenants).is_empty() && locked(&seats.counts).is_empty());
    }

    /// May few connections be all one user's?
    #[test]
    fn few_connections() {
        let seats = Seats::new(2);
        let taken: Vec<Seat> = std::iter::from_fn(|| seats.take(Origin::Unknown)).collect();
        assert_eq!((taken.len(), in_all(2)), (2, 2));
        for seats in [1, 8, 9, 100, 1000] {
            assert!(in_all(connections_of(seats)) <= seats, "{seats}");
        }
    }
}
