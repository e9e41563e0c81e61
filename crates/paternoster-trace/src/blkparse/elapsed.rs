// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elapsed: how long each request took from step to step, found by its first sector.
//!
//! G 800 ──────▶ I 800 ──────▶ D 800 ──────▶ C 800
//!   └─ (300) ────┘ └─ (400) ───┘ └─ (50000) ──┘ forgotten
//! F 792 + 8: what was known as 800 is known as 792 from then on
//!
//! blkparse does not check which device of its input a sector is on, and takes a time of 0 for
//! *never*: a request allocated in the trace's first instant has no wait before it is inserted. A
//! request that is issued without having been inserted, as without a scheduler, counts from the
//! trace's beginning.
//!
//! Where a request is inserted that was not allocated in the trace, blkparse prints what happens to
//! lie in its memory; here it has no wait.
//!
//! Invariant: I1 at most [`TRACKED_MAX`] requests are followed, later ones have no times.
//!
//! Source: PARSE-11, PARSE-12; the installed tool.

use std::collections::BTreeMap;

use paternoster_core::Nanos;

/// How many requests are followed at once.
pub const TRACKED_MAX: usize = 1 << 20;

/// Elapsed time, and the process whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elapsed {
    pub(super) ns: u64,
    pub(super) owner: u32,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    /// 0 is never.
    allocated: Nanos,
    inserted: Nanos,
    issued: Nanos,
    /// The process that allocated it, or inserted it if the allocation was not seen.
    owner: u32,
}

/// Where a request begins: in which input, at which sector.
type Place = (usize, u64);

/// The requests in flight.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    requests: BTreeMap<Place, Request>,
}

impl Tracker {
    /// The request at this place, made if there is none; whether it was made.
    fn at(&mut self, place: Place, owner: u32) -> Option<(&mut Request, bool)> {
        if self.requests.len() >= TRACKED_MAX && !self.requests.contains_key(&place) {
            return None;
        }
        let mut made = false;
        let request = self.requests.entry(place).or_insert_with(|| {
            made = true;
            let never = Nanos::ZERO;
            Request { allocated: never, inserted: never, issued: never, owner }
        });
        Some((request, made))
    }

    /// A request was allocated; returns whether it is new, so that its owner must be recorded.
    pub(super) fn allocate(&mut self, place: Place, at: Nanos, owner: u32) -> bool {
        self.at(place, owner).is_some_and(|(request, made)| {
            request.allocated = at;
            made
        })
    }

    /// A request was inserted: how long after it was allocated, and whether it is new.
    pub(super) fn insert(
        &mut self,
        place: Place,
        at: Nanos,
        owner: u32,
    ) -> (Option<Elapsed>, bool) {
        let Some((request, made)) = self.at(place, owner) else { return (None, false) };
        request.inserted = at;
        let known = request.allocated != Nanos::ZERO;
        (known.then(|| since(request.allocated, at, request.owner)), made)
    }

    /// A bio was queued at a device that has no requests: that counts as its dispatch.
    pub(super) fn queue_remapped(&mut self, place: Place, at: Nanos, owner: u32) -> bool {
        self.at(place, owner).is_some_and(|(request, made)| {
            request.issued = at;
            made
        })
    }

    /// A request was issued: how long after it was inserted.
    pub(super) fn issue(&mut self, place: Place, at: Nanos) -> Option<Elapsed> {
        let request = self.requests.get_mut(&place)?;
        request.issued = at;
        Some(since(request.inserted, at, request.owner))
    }

    /// A request came back: how long after it was issued.
    pub(super) fn complete(&mut self, place: Place, at: Nanos) -> Option<Elapsed> {
        let request = self.requests.remove(&place)?;
        Some(since(request.issued, at, request.owner))
    }

    /// A bio of this many sectors was merged before a request.
    pub(super) fn front_merge(&mut self, place: Place, sectors: u64) {
        let behind = (place.0, place.1.wrapping_add(sectors));
        if let Some(request) = self.requests.remove(&behind) {
            self.requests.entry(place).or_insert(request);
        }
    }
}

fn since(from: Nanos, to: Nanos, owner: u32) -> Elapsed {
    Elapsed { ns: to.0.wrapping_sub(from.0), owner }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(elapsed: Option<Elapsed>) -> Option<u64> {
        elapsed.map(|elapsed| elapsed.ns)
    }

    /// Is a request followed from step to step, also when it gets a new first sector?
    #[test]
    fn a_request_is_followed() {
        let mut tracker = Tracker::default();
        assert!(tracker.allocate((0, 56), Nanos(24), 5));
        assert!(!tracker.allocate((0, 56), Nanos(24), 6));
        assert_eq!(
            tracker.insert((0, 56), Nanos(25), 7),
            (Some(Elapsed { ns: 1, owner: 5 }), false)
        );
        tracker.front_merge((0, 48), 8);
        tracker.front_merge((0, 40), 8);
        assert_eq!(ns(tracker.issue((0, 40), Nanos(28))), Some(3));
        assert_eq!(ns(tracker.issue((0, 56), Nanos(29))), None);
        assert_eq!(ns(tracker.complete((0, 40), Nanos(30))), Some(2));
        assert_eq!(ns(tracker.complete((0, 40), Nanos(31))), None);
    }

    /// What of a request that was never inserted, or never allocated?
    #[test]
    fn steps_that_were_not_seen() {
        let mut tracker = Tracker::default();
        tracker.allocate((0, 8), Nanos(10), 1);
        assert_eq!(ns(tracker.issue((0, 8), Nanos(70))), Some(70));
        assert_eq!(tracker.insert((0, 16), Nanos(20), 1), (None, true));
        assert_eq!(ns(tracker.issue((0, 16), Nanos(70))), Some(50));
    }
}
