// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journeys: which issue and which submissions a completion belongs to.
//!
//! Neither events nor traces number requests; they are matched by place:
//!
//! ```text
//! Q 8+8   Q 16+8 (merged)   D 8+16   C 8+16
//!                           └────────┘             the D at the same sector
//! └────────────────────────────────── 8 in 8..24   every Q that begins within it is done
//!         └────────────────────────── 16 in 8..24
//! ```
//!
//! Of several at one place the one of the same direction and length is meant, of several such the
//! oldest. A request belongs to the process that submitted the bio at its first sector: the one
//! that issues may be a thread of the kernel, and a completion comes to whatever runs.
//!
//! What never comes back must not be kept for ever: of more than [`JOURNEYS_MAX`] the oldest is no
//! longer waited for, and if it was in the device it leaves it, as a [`StepKind::Requeue`].
//!
//! Limits: a bio whose front half is completed separately is done with that; a second completion of
//! one request (a part of it) is a stray one.
//!
//! Invariants: I1 at most `JOURNEYS_MAX` bios and as many requests are kept, 20 MiB together;
//! I2 as many leave the device as entered it, and are still in it.

use std::collections::BTreeMap;

use paternoster_core::Nanos;

use super::step::{Step, StepKind};

/// The most bios, and the most requests, that are waited for.
pub const JOURNEYS_MAX: usize = 1 << 16;

/// Bios and requests on their way.
#[derive(Debug, Clone)]
pub struct Journeys {
    queued: Waiting,
    issued: Waiting,
}

impl Default for Journeys {
    fn default() -> Journeys {
        Journeys::with_limit(JOURNEYS_MAX)
    }
}

impl Journeys {
    /// At most `max` bios and requests.
    fn with_limit(max: usize) -> Journeys {
        Journeys { queued: Waiting::new(max), issued: Waiting::new(max) }
    }

    /// Processes a step on a device, and emits what is known then: the step itself, with its client
    /// and its latency, and the ends of bios.
    pub fn follow(&mut self, device: u32, mut step: Step, mut emit: impl FnMut(&Step)) {
        match step.kind {
            StepKind::Queue => {
                let _forgotten = self.queued.insert(device, step);
            }
            StepKind::Issue => {
                step.client = self.queued.whose(device, &step).unwrap_or(step.client);
                if let Some(lost) = self.issued.insert(device, step) {
                    emit(&Step { at: step.at, kind: StepKind::Requeue, ..lost });
                }
            }
            StepKind::Requeue => match self.issued.take(device, &step) {
                Some(issued) => step.client = issued.client,
                None => return,
            },
            StepKind::Complete | StepKind::Stray => self.complete(device, &mut step),
            StepKind::Done => {}
        }
        emit(&step);
        if matches!(step.kind, StepKind::Complete | StepKind::Stray) {
            while let Some(bio) = self.queued.take_within(device, &step) {
                let latency = Some(since(bio.at, step.at));
                emit(&Step { at: step.at, kind: StepKind::Done, latency, ..bio });
            }
        }
    }

    fn complete(&mut self, device: u32, step: &mut Step) {
        match self.issued.take(device, step) {
            Some(issued) => {
                step.kind = StepKind::Complete;
                step.client = issued.client;
                step.latency = Some(since(issued.at, step.at));
            }
            None => {
                step.kind = StepKind::Stray;
                step.client = self.queued.whose(device, step).unwrap_or(step.client);
            }
        }
    }
}

fn since(from: Nanos, to: Nanos) -> Nanos {
    Nanos(to.0.saturating_sub(from.0))
}

/// Device, whether it has no sectors, first sector, number.
type Place = (u32, bool, u64, u64);

/// Steps whose end is waited for, by place and by age.
#[derive(Debug, Clone)]
struct Waiting {
    max: usize,
    next: u64,
    by_place: BTreeMap<Place, Step>,
    by_age: BTreeMap<u64, Place>,
}

impl Waiting {
    const fn new(max: usize) -> Waiting {
        Waiting { max, next: 0, by_place: BTreeMap::new(), by_age: BTreeMap::new() }
    }

    /// Takes in a step, and returns the oldest one if there is no room for both.
    fn insert(&mut self, device: u32, step: Step) -> Option<Step> {
        let lost = if self.by_age.len() < self.max {
            None
        } else {
            self.by_age.pop_first().and_then(|(_, place)| self.by_place.remove(&place))
        };
        let place = (device, step.sectors == 0, step.sector, self.next);
        self.by_place.insert(place, step);
        self.by_age.insert(self.next, place);
        self.next += 1;
        lost
    }

    /// The waiting steps that begin where `step` does, the oldest first.
    fn here(&self, device: u32, step: &Step) -> impl Iterator<Item = (&Place, &Step)> {
        let place = (device, step.sectors == 0, step.sector);
        let ends = [0, u64::MAX].map(|number| (place.0, place.1, place.2, number));
        self.by_place.range(ends[0]..=ends[1])
    }

    /// The client of the waiting step that `step` continues.
    fn whose(&self, device: u32, step: &Step) -> Option<u32> {
        let mut here = self.here(device, step);
        here.find(|(_, waiting)| waiting.write == step.write).map(|(_, waiting)| waiting.client)
    }

    /// Takes out the waiting step that `step` continues.
    fn take(&mut self, device: u32, step: &Step) -> Option<Step> {
        let alike = |waiting: &Step| waiting.write == step.write && waiting.sectors == step.sectors;
        let best = self.here(device, step).find(|(_, waiting)| alike(waiting));
        let best = best.or_else(|| self.here(device, step).next()).map(|(place, _)| *place);
        self.remove(best?)
    }

    /// Takes out a waiting step that begins within the sectors of `step`.
    fn take_within(&mut self, device: u32, step: &Step) -> Option<Step> {
        let empty = step.sectors == 0;
        let last = step.sector.saturating_add(u64::from(step.sectors).saturating_sub(1));
        let ends = (device, empty, step.sector, 0)..=(device, empty, last, u64::MAX);
        let mut within = self.by_place.range(ends);
        let (place, _) = within.find(|(_, waiting)| waiting.write == step.write)?;
        self.remove(*place)
    }

    fn remove(&mut self, place: Place) -> Option<Step> {
        self.by_age.remove(&place.3);
        self.by_place.remove(&place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: u64, kind: StepKind, client: u32, sector: u64, sectors: u32) -> Step {
        Step { at: Nanos(at), kind, client, write: false, sector, sectors, latency: None }
    }

    /// What is emitted, as kind, client and latency.
    fn emitted(journeys: &mut Journeys, steps: &[Step]) -> Vec<(StepKind, u32, Option<u64>)> {
        let mut all = Vec::new();
        for next in steps {
            journeys.follow(0, *next, |step| {
                all.push((step.kind, step.client, step.latency.map(|latency| latency.0)));
            });
        }
        all
    }

    /// Does a completion find its issue and both its bios, as drawn above, and is the
    /// request the first bio's though another one issues it? 100 - 30, 100 - 10, 100 - 20.
    #[test]
    fn a_merged_request_by_hand() {
        use StepKind::{Complete, Done, Issue, Queue};
        let steps = [
            step(10, Queue, 1, 8, 8),
            step(20, Queue, 2, 16, 8),
            step(30, Issue, 9, 8, 16),
            step(100, Complete, 0, 8, 16),
        ];
        let told = emitted(&mut Journeys::default(), &steps);
        let ends = [(Complete, 1, Some(70)), (Done, 1, Some(90)), (Done, 2, Some(80))];
        assert_eq!(told[..3], [(Queue, 1, None), (Queue, 2, None), (Issue, 1, None)]);
        assert_eq!(told[3..], ends);
    }

    /// Is a completion without an issue a stray one, a refusal without one nothing, and a flush at
    /// sector 0 no end of a read there?
    #[test]
    fn strangers() {
        use StepKind::{Complete, Issue, Queue, Requeue, Stray};
        let steps = [
            step(1, Complete, 3, 64, 8),
            step(2, Requeue, 3, 64, 8),
            step(3, Queue, 1, 0, 8),
            step(4, Issue, 1, 0, 8),
            Step { write: true, ..step(5, Issue, 2, 0, 0) },
            Step { write: true, ..step(7, Complete, 0, 0, 0) },
        ];
        let told = emitted(&mut Journeys::default(), &steps);
        let expected = [
            (Stray, 3, None),
            (Queue, 1, None),
            (Issue, 1, None),
            (Issue, 2, None),
            (Complete, 2, Some(2)),
        ];
        assert_eq!(told, expected);
    }

    /// Of two reads of one place, is the one of the same length meant, and otherwise the oldest?
    #[test]
    fn the_same_place_twice() {
        use StepKind::{Complete, Issue};
        let steps = [
            step(1, Issue, 1, 8, 8),
            step(2, Issue, 2, 8, 16),
            step(3, Issue, 3, 8, 8),
            step(10, Complete, 0, 8, 16),
            step(11, Complete, 0, 8, 8),
            step(12, Complete, 0, 8, 4),
        ];
        let told = emitted(&mut Journeys::default(), &steps);
        let ends = [(Complete, 2, Some(8)), (Complete, 1, Some(10)), (Complete, 3, Some(9))];
        assert_eq!(told[3..], ends);
    }

    /// Does what never comes back leave the device when there is no room for it?
    #[test]
    fn the_lost_are_forgotten() {
        use StepKind::{Issue, Requeue};
        let mut journeys = Journeys::with_limit(2);
        let steps = [1, 2, 3].map(|nth| step(nth, Issue, 7, nth * 8, 8));
        let told = emitted(&mut journeys, &steps);
        let expected = [(Issue, 7, None), (Issue, 7, None), (Requeue, 7, None), (Issue, 7, None)];
        assert_eq!(told, expected);
        assert_eq!(journeys.issued.by_place.len(), 2);
    }
}
