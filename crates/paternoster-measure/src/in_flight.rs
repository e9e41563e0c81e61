// SPDX-License-Identifier: MIT OR Apache-2.0
//! In flight: which I/O an event belongs to, where events name sectors and number nothing.
//!
//! # Problem
//! A trace says "read of 8..24 has ended". Which of the bios that were submitted, or of the
//! commands that were issued, is that? Bios are merged into one command, or split over several; a
//! command may come back in pieces; two I/Os may be under way at one place; and some never end.
//!
//! # The rule
//! An event concerns I/Os of its device and of its direction (everything but reads is a write), and
//! each of its sectors belongs to one of them:
//!
//! 1. If there are I/Os with exactly its sectors, of which no part was concerned before, it is the
//!    oldest of these.
//! 2. Otherwise each sector belongs to the oldest I/O that still waits for it.
//!
//! ```text
//! in flight     A [8..16)   B [16..24)         C [64..96)            D [8..16)
//! ends 8..24    A           B                  (merged; D, the younger one of A's place, stays)
//! ends 64..80                                  a piece: C is still under way
//! ends 80..96                                  C ends
//! ends 8..16                                                         D ends
//! ```
//!
//! An I/O ends when its last sector does. That it is *issued* follows the same rule, with the
//! sectors that were not issued yet, and can be taken back ([`requeue`](InFlight::requeue)). An end
//! needs no issue. I/Os without sectors (flushes) are found by their place alone, and are issued,
//! refused and ended whole: of two at one place the second issue is the second one's.
//!
//! # Limits
//! * [`IN_FLIGHT_MAX`] I/Os, or what [`set_limit`](InFlight::set_limit) says: then the oldest is
//!   dropped, returned by `insert`, and counted ([`lost`](InFlight::lost)).
//! * 1024 gaps in what is left of an I/O, [`IN_FLIGHT_MAX`] of all: a piece that would make one
//!   more is left out, so that its I/O ends only with what covers it, or by being dropped.
//! * Where a trace lost an end, the next one at this place is taken for it. Nothing in a trace
//!   could tell them apart.
//!
//! An event costs the logarithm of what is in flight, and a step for each *different* range at its
//! sectors that waits for it: of several I/Os that wait for the same range only the oldest is
//! looked at, since it leaves nothing to the others. So [`Places`] has what is not issued and what
//! is apart, and a trace that never tells an end costs no more at a hot place than elsewhere.
//!
//! # Invariants
//! I1  An I/O is in flight from `insert` until all its sectors have ended, or it is dropped.
//! I2  No sector of an event is given to two I/Os.
//! I3  An I/O is listed in `places` by its extent, and by each range that is issued or is not.
//!
//! Source: BTT-6, BTT-7 (matching by place); the order is ours.

use std::collections::BTreeMap;

use crate::places::Places;
use crate::progress::{ALL, Concerns, Listed, State, WHOLE};
use crate::sectors::{Range, Sectors};

/// I/Os that are kept, and gaps in what is left of them.
pub const IN_FLIGHT_MAX: usize = 1 << 16;

/// Some sectors of a device, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Which device, where one table has several.
    pub device: u32,
    /// Everything but reads.
    pub write: bool,
    /// The first sector.
    pub sector: u64,
    /// The first sector after it.
    pub end: u64,
}

impl Extent {
    /// `sectors` from `sector` on.
    #[must_use]
    pub const fn new(device: u32, write: bool, sector: u64, sectors: u64) -> Extent {
        Extent { device, write, sector, end: sector.saturating_add(sectors) }
    }

    /// These sectors, in the same direction of the same device.
    const fn of(&self, range: Range) -> Extent {
        Extent { sector: range.0, end: range.1, ..*self }
    }

    pub(crate) const fn sectors(&self) -> u64 {
        self.end.saturating_sub(self.sector)
    }
}

/// The number of an I/O: those that come later have higher ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(u64);

/// The part of an event that is an I/O's.
#[derive(Debug)]
pub struct Part<'a, T> {
    /// What the caller keeps about the I/O.
    pub value: &'a mut T,
    /// All sectors of the I/O.
    pub extent: Extent,
    /// The first sector that was the I/O's.
    pub sector: u64,
    /// Number of these sectors.
    pub sectors: u64,
    /// Before this part none was issued, refused or had ended.
    pub first: bool,
    /// From here on nothing is left to issue, to refuse or to end.
    pub last: bool,
}

/// The I/Os that are under way.
#[derive(Debug, Clone)]
pub struct InFlight<T> {
    ios: BTreeMap<u64, Io<T>>,
    places: Places<4>,
    next: u64,
    limit: usize,
    gaps: usize,
    lost: u64,
    /// Memory for `share`.
    touched: Vec<u64>,
    shares: Vec<(u64, u64, Sectors)>,
    /// Memory for `change`.
    before: Vec<Listed>,
    after: Vec<Listed>,
}

#[derive(Debug, Clone)]
struct Io<T> {
    extent: Extent,
    stage: u8,
    state: State,
    value: T,
}

impl<T> Default for InFlight<T> {
    fn default() -> InFlight<T> {
        InFlight {
            ios: BTreeMap::new(),
            places: Places::default(),
            next: 0,
            limit: IN_FLIGHT_MAX,
            gaps: 0,
            lost: 0,
            touched: Vec::new(),
            shares: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
        }
    }
}

impl<T> InFlight<T> {
    /// From as many I/Os on as this (at least one), `insert` drops one for each that it takes in.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// How many I/Os are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ios.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ios.is_empty()
    }

    /// How many were dropped for want of room.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes in an I/O. Returns the I/O's number, and what was dropped to make room for it.
    pub fn insert(&mut self, extent: Extent, value: T) -> (IoId, Option<T>) {
        let mut dropped = None;
        if self.ios.len() >= self.limit.max(1) {
            dropped = self.ios.first_key_value().map(|(id, _)| *id).and_then(|id| self.take(id));
            self.lost += 1;
        }
        let id = self.next;
        self.next += 1;
        let io = Io { extent, stage: 0, state: State::new(&extent), value };
        self.places.insert(ALL, &extent, io.stage, id);
        let places = &mut self.places;
        io.state.listed(&extent, |(table, range, class)| {
            places.insert(table, &extent.of(range), class, id);
        });
        self.ios.insert(id, io);
        (IoId(id), dropped)
    }

    /// Takes an I/O out, ended or not.
    pub fn remove(&mut self, id: IoId) -> Option<T> {
        self.take(id.0)
    }

    /// Forgets all of them; they do not count as lost.
    pub fn clear(&mut self) {
        self.ios.clear();
        self.places.clear();
        self.gaps = 0;
    }

    /// Lets `change` act on the I/O of an event that concerns a whole I/O (such as that it got a
    /// request): the I/O with exactly these sectors, or else one that contains the first of them.
    /// Of several it is the oldest whose stage `may` be meant, or else the oldest.
    ///
    /// The stage is the caller's, and 0 at first. It should have few values: of all I/Os at a place
    /// in one stage only the oldest is looked at.
    pub fn find<R>(
        &mut self,
        extent: Extent,
        may: impl Fn(u8) -> bool,
        change: impl FnOnce(&mut T, &mut u8) -> R,
    ) -> Option<R> {
        // The oldest that may be meant before the oldest that may not.
        let mut found: Option<(bool, u64)> = None;
        let offer = |found: &mut Option<(bool, u64)>, stage, id| {
            let other = (!may(stage), id);
            *found = Some(found.map_or(other, |found| found.min(other)));
        };
        self.places.exactly(ALL, &extent, |stage, id| offer(&mut found, stage, id));
        if found.is_none() {
            let first = Extent { end: extent.sector.saturating_add(1), ..extent };
            self.places.touching(ALL, &first, |stage, id| offer(&mut found, stage, id));
        }
        let (_, id) = found?;
        let io = self.ios.get_mut(&id)?;
        let before = io.stage;
        let result = change(&mut io.value, &mut io.stage);
        if io.stage != before {
            self.places.remove(ALL, &io.extent, before, id);
            self.places.insert(ALL, &io.extent, io.stage, id);
        }
        Some(result)
    }

    /// All I/Os that have one of these sectors, by place, with all their sectors.
    pub fn at(&self, extent: Extent) -> impl Iterator<Item = (Extent, &T)> {
        let touching = self.places.all_touching(ALL, extent);
        touching.filter_map(|id| self.ios.get(&id)).map(|io| (io.extent, &io.value))
    }

    /// These sectors go to the device. `visit` sees the parts by place.
    pub fn issue(&mut self, extent: Extent, visit: impl FnMut(Part<'_, T>)) {
        self.concern(extent, Concerns::Unissued, visit);
    }

    /// The device refused these sectors: they have not been issued. `visit` sees the parts by
    /// place.
    pub fn requeue(&mut self, extent: Extent, visit: impl FnMut(Part<'_, T>)) {
        self.concern(extent, Concerns::Issued, visit);
    }

    /// These sectors have ended, and with their last part I/Os have. `visit` sees the parts by
    /// place.
    pub fn complete(&mut self, extent: Extent, visit: impl FnMut(Part<'_, T>)) {
        self.concern(extent, Concerns::Left, visit);
    }

    fn concern(&mut self, extent: Extent, by: Concerns, mut visit: impl FnMut(Part<'_, T>)) {
        self.share(&extent, by);
        let mut shares = core::mem::take(&mut self.shares);
        for (sector, id, own) in shares.drain(..) {
            let Some(io) = self.ios.get(&id) else { continue };
            let (extent, from) = (io.extent, &io.state);
            let first = from.is_before(by, &extent);
            let to = from.after(by, &own);
            if to.has_room(by, from, self.gaps) {
                self.change(id, to);
            }
            let Some(io) = self.ios.get_mut(&id) else { continue };
            let (last, sectors) = (io.state.is_behind(by), own.count());
            visit(Part { value: &mut io.value, extent, sector, sectors, first, last });
            if last && by == Concerns::Left {
                self.take(id);
            }
        }
        self.shares = shares;
    }

    /// Writes down whose each sector is, by place: first sector, number, sectors.
    fn share(&mut self, extent: &Extent, by: Concerns) {
        self.shares.clear();
        let mut free = Sectors::new(extent.sector, extent.end);
        let tables = by.tables().iter();
        if let Some(exact) = tables.filter_map(|t| self.places.oldest(*t, extent, WHOLE)).min() {
            self.shares.push((extent.sector, exact, free));
            return;
        }
        let mut touched = core::mem::take(&mut self.touched);
        for table in by.tables() {
            self.places.touching(*table, extent, |_, id| touched.push(id));
        }
        // An I/O with several ranges is listed several times.
        touched.sort_unstable();
        touched.dedup();
        for id in touched.drain(..) {
            let Some(io) = self.ios.get(&id) else { continue };
            let own = io.state.concerned(by).common(&free);
            if let Some(first) = own.first() {
                free = free.without(&own);
                self.shares.push((first, id, own));
            }
            if free.is_empty() {
                break;
            }
        }
        self.touched = touched;
        self.shares.sort_unstable_by_key(|(first, id, _)| (*first, *id));
    }

    /// Has an I/O be as far as this, also in `places`.
    fn change(&mut self, id: u64, to: State) {
        let Some(io) = self.ios.get_mut(&id) else { return };
        self.before.clear();
        self.after.clear();
        io.state.listed(&io.extent, |listed| self.before.push(listed));
        self.gaps = self.gaps - io.state.gaps() + to.gaps();
        io.state = to;
        io.state.listed(&io.extent, |listed| self.after.push(listed));
        // Both are in order: what only one has is what differs.
        let (mut old, mut new) = (self.before.as_slice(), self.after.as_slice());
        loop {
            match (old, new) {
                ([], []) => return,
                ([one, ..], [other, ..]) if one == other => (old, new) = (&old[1..], &new[1..]),
                ([one, ..], rest) if rest.first().is_none_or(|other| one < other) => {
                    self.places.remove(one.0, &io.extent.of(one.1), one.2, id);
                    old = &old[1..];
                }
                (_, [other, ..]) => {
                    self.places.insert(other.0, &io.extent.of(other.1), other.2, id);
                    new = &new[1..];
                }
                ([..], []) => return,
            }
        }
    }

    fn take(&mut self, id: u64) -> Option<T> {
        let io = self.ios.remove(&id)?;
        let places = &mut self.places;
        places.remove(ALL, &io.extent, io.stage, id);
        io.state.listed(&io.extent, |(table, range, class)| {
            places.remove(table, &io.extent.of(range), class, id);
        });
        self.gaps -= io.state.gaps();
        Some(io.value)
    }
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;
