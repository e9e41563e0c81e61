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
//! needs no issue. I/Os without sectors (flushes) are found by their place alone: the first clause.
//!
//! # Limits
//! * [`IN_FLIGHT_MAX`] I/Os, or what [`set_limit`](InFlight::set_limit) says: then the oldest is
//!   dropped, returned by `insert`, and counted ([`lost`](InFlight::lost)).
//! * 1024 gaps in what is left of an I/O, [`IN_FLIGHT_MAX`] of all: a piece that would make one
//!   more is left out, so that its I/O ends only with what covers it, or by being dropped.
//! * Where a trace lost an end, the next one at this place is taken for it. Nothing in a trace
//!   could tell them apart.
//!
//! An event costs the logarithm of what is in flight, and a step for each I/O at its sectors.
//!
//! # Invariants
//! I1  An I/O is in flight from `insert` until all its sectors have ended, or it is dropped.
//! I2  No sector of an event is given to two I/Os.
//!
//! Source: BTT-6, BTT-7 (matching by place); the order is ours.

use std::collections::{BTreeMap, BTreeSet};

use crate::sectors::Sectors;

/// I/Os that are kept, and gaps in what is left of them.
pub const IN_FLIGHT_MAX: usize = 1 << 16;

/// Gaps in what is left of one I/O.
const GAPS_MAX: usize = 1 << 10;

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

    const fn sectors(&self) -> u64 {
        self.end.saturating_sub(self.sector)
    }
}

/// The number of an I/O: those that come later have higher ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(u64);

/// The part of an event that is an I/O's.
#[derive(Debug)]
pub struct Part<'a, T> {
    /// What is known of the I/O.
    pub value: &'a mut T,
    /// All of its sectors.
    pub extent: Extent,
    /// The first sector that was the I/O's.
    pub sector: u64,
    /// How many were.
    pub sectors: u64,
    /// Before this part none was issued, refused or had ended.
    pub first: bool,
    /// Behind this part nothing is left to issue, to refuse or to end.
    pub last: bool,
}

/// What is under way.
#[derive(Debug, Clone)]
pub struct InFlight<T> {
    ios: BTreeMap<u64, Io<T>>,
    by_place: BTreeSet<Place>,
    /// How many I/Os of each size there are.
    sizes: [u32; SIZES],
    next: u64,
    limit: usize,
    gaps: usize,
    lost: u64,
    /// Memory for `touching` and `share`.
    touched: Vec<u64>,
    shares: Vec<(u64, u64, Sectors)>,
}

#[derive(Debug, Clone)]
struct Io<T> {
    extent: Extent,
    /// Sectors that were not issued; of these none has ended.
    unissued: Sectors,
    /// Sectors that have not ended.
    left: Sectors,
    value: T,
}

/// By place: device, direction, size as a power of two, first sector, end, number.
type Place = (u32, bool, u8, u64, u64, u64);

/// 0, and a size for each bit.
const SIZES: usize = u64::BITS as usize + 1;

/// Which sectors of an I/O an event can concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Concerns {
    Unissued,
    Issued,
    Left,
}

impl<T> Io<T> {
    fn concerned(&self, by: Concerns) -> Sectors {
        match by {
            Concerns::Unissued => self.unissued.clone(),
            Concerns::Issued => self.left.without(&self.unissued),
            Concerns::Left => self.left.clone(),
        }
    }

    fn gaps(&self) -> usize {
        self.unissued.gaps() + self.left.gaps()
    }

    /// Has these sectors be unissued, unless that would be one gap too many.
    fn mark(&mut self, unissued: Sectors, gaps: &mut usize) {
        if has_room(&self.unissued, &unissued, *gaps) {
            *gaps = *gaps - self.unissued.gaps() + unissued.gaps();
            self.unissued = unissued;
        }
    }
}

impl<T> Default for InFlight<T> {
    fn default() -> InFlight<T> {
        InFlight {
            ios: BTreeMap::new(),
            by_place: BTreeSet::new(),
            sizes: [0; SIZES],
            next: 0,
            limit: IN_FLIGHT_MAX,
            gaps: 0,
            lost: 0,
            touched: Vec::new(),
            shares: Vec::new(),
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

    /// Takes in an I/O. Returns its number, and what was dropped for it.
    pub fn insert(&mut self, extent: Extent, value: T) -> (IoId, Option<T>) {
        let mut dropped = None;
        if self.ios.len() >= self.limit.max(1) {
            dropped = self.ios.first_key_value().map(|(id, _)| *id).and_then(|id| self.take(id));
            self.lost += 1;
        }
        let id = self.next;
        self.next += 1;
        let unissued = Sectors::new(extent.sector, extent.end);
        let left = unissued.clone();
        self.by_place.insert(place(&extent, id));
        self.sizes[usize::from(size(&extent))] += 1;
        self.ios.insert(id, Io { extent, unissued, left, value });
        (IoId(id), dropped)
    }

    /// Takes an I/O out, ended or not.
    pub fn remove(&mut self, id: IoId) -> Option<T> {
        self.take(id.0)
    }

    /// Forgets all of them; they do not count as lost.
    pub fn clear(&mut self) {
        self.ios.clear();
        self.by_place.clear();
        self.sizes = [0; SIZES];
        self.gaps = 0;
    }

    /// The I/O that an event is about which concerns a whole one, as that it got a request: one of
    /// these sectors, or else one that has the first of them. Of several it is the oldest that
    /// `may` be meant, or else the oldest.
    pub fn find(&mut self, extent: Extent, may: impl Fn(&T) -> bool) -> Option<&mut T> {
        let exact = self.exact(&extent, |io| may(&io.value));
        let mut found = exact.or_else(|| self.exact(&extent, |_| true));
        if found.is_none() {
            let first = Extent { end: extent.sector.saturating_add(1), ..extent };
            let mut touched = core::mem::take(&mut self.touched);
            self.touching(&first, &mut touched);
            let meant = |id: &&u64| self.ios.get(id).is_some_and(|io| may(&io.value));
            found = touched.iter().find(meant).or_else(|| touched.first()).copied();
            self.touched = touched;
        }
        self.ios.get_mut(&found?).map(|io| &mut io.value)
    }

    /// Those that have one of these sectors, the oldest first, with all sectors of each.
    pub fn at(&mut self, extent: Extent) -> impl Iterator<Item = (Extent, &T)> {
        let mut touched = core::mem::take(&mut self.touched);
        self.touching(&extent, &mut touched);
        self.touched = touched;
        self.touched.iter().filter_map(|id| self.ios.get(id)).map(|io| (io.extent, &io.value))
    }

    /// These sectors go to the device. `visit` sees the parts by place.
    pub fn issue(&mut self, extent: Extent, mut visit: impl FnMut(Part<'_, T>)) {
        self.share(extent, Concerns::Unissued);
        let mut shares = core::mem::take(&mut self.shares);
        for (sector, id, own) in shares.drain(..) {
            let Some(io) = self.ios.get_mut(&id) else { continue };
            let first = io.unissued.count() == io.extent.sectors();
            io.mark(io.unissued.without(&own), &mut self.gaps);
            let last = io.unissued.is_empty();
            let (extent, sectors) = (io.extent, own.count());
            visit(Part { value: &mut io.value, extent, sector, sectors, first, last });
        }
        self.shares = shares;
    }

    /// The device refused these sectors: they have not been issued. `visit` sees the parts by
    /// place.
    pub fn requeue(&mut self, extent: Extent, mut visit: impl FnMut(Part<'_, T>)) {
        self.share(extent, Concerns::Issued);
        let mut shares = core::mem::take(&mut self.shares);
        for (sector, id, own) in shares.drain(..) {
            let Some(io) = self.ios.get_mut(&id) else { continue };
            let first = io.unissued.is_empty();
            io.mark(io.unissued.with(&own), &mut self.gaps);
            let last = io.unissued == io.left;
            let (extent, sectors) = (io.extent, own.count());
            visit(Part { value: &mut io.value, extent, sector, sectors, first, last });
        }
        self.shares = shares;
    }

    /// These sectors have ended, and with their last part I/Os have. `visit` sees the parts by
    /// place.
    pub fn complete(&mut self, extent: Extent, mut visit: impl FnMut(Part<'_, T>)) {
        self.share(extent, Concerns::Left);
        let mut shares = core::mem::take(&mut self.shares);
        for (sector, id, own) in shares.drain(..) {
            let Some(io) = self.ios.get_mut(&id) else { continue };
            let first = io.left.count() == io.extent.sectors();
            let (left, unissued) = (io.left.without(&own), io.unissued.without(&own));
            if has_room(&io.left, &left, self.gaps) {
                self.gaps -= io.gaps();
                (io.left, io.unissued) = (left, unissued);
                self.gaps += io.gaps();
            }
            let last = io.left.is_empty();
            let (extent, sectors) = (io.extent, own.count());
            visit(Part { value: &mut io.value, extent, sector, sectors, first, last });
            if last {
                self.take(id);
            }
        }
        self.shares = shares;
    }

    /// Writes down whose each sector is, by place: first sector, number, sectors.
    fn share(&mut self, extent: Extent, by: Concerns) {
        let mut shares = core::mem::take(&mut self.shares);
        shares.clear();
        let all = Sectors::new(extent.sector, extent.end);
        if let Some(exact) = self.exact(&extent, |io| io.concerned(by) == all) {
            shares.push((extent.sector, exact, all));
            self.shares = shares;
            return;
        }
        let mut touched = core::mem::take(&mut self.touched);
        self.touching(&extent, &mut touched);
        let mut free = all;
        for id in touched.drain(..) {
            let Some(io) = self.ios.get(&id) else { continue };
            let own = io.concerned(by).common(&free);
            if let Some(first) = own.first() {
                free = free.without(&own);
                shares.push((first, id, own));
            }
            if free.is_empty() {
                break;
            }
        }
        shares.sort_unstable_by_key(|(first, id, _)| (*first, *id));
        (self.touched, self.shares) = (touched, shares);
    }

    /// The oldest with exactly these sectors that `is` meant.
    fn exact(&self, extent: &Extent, is: impl Fn(&Io<T>) -> bool) -> Option<u64> {
        let range = place(extent, 0)..=place(extent, u64::MAX);
        let mut ids = self.by_place.range(range).map(|place| place.5);
        ids.find(|id| self.ios.get(id).is_some_and(&is))
    }

    /// Those that have one of these sectors, the oldest first.
    fn touching(&self, extent: &Extent, touched: &mut Vec<u64>) {
        touched.clear();
        let Extent { device, write, sector, end } = *extent;
        for (size, count) in (0..).zip(&self.sizes).skip(1) {
            if *count == 0 {
                continue;
            }
            // Of less than 2^size sectors.
            let longest = u64::MAX >> (u64::BITS - u32::from(size));
            let from = (device, write, size, sector.saturating_sub(longest), 0, 0);
            let near = self.by_place.range(from..(device, write, size, end.max(from.3), 0, 0));
            touched.extend(near.filter(|place| place.4 > sector).map(|place| place.5));
        }
        touched.sort_unstable();
    }

    fn take(&mut self, id: u64) -> Option<T> {
        let io = self.ios.remove(&id)?;
        self.by_place.remove(&place(&io.extent, id));
        self.sizes[usize::from(size(&io.extent))] -= 1;
        self.gaps -= io.gaps();
        Some(io.value)
    }
}

/// Whether a set may become another one, where all have so many gaps.
fn has_room(old: &Sectors, new: &Sectors, all: usize) -> bool {
    new.gaps() <= old.gaps() || all < IN_FLIGHT_MAX && new.gaps() <= GAPS_MAX
}

/// The bits that a length needs.
fn size(extent: &Extent) -> u8 {
    u8::try_from(u64::BITS - extent.sectors().leading_zeros()).unwrap_or(u8::MAX)
}

fn place(extent: &Extent, id: u64) -> Place {
    (extent.device, extent.write, size(extent), extent.sector, extent.end, id)
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;
