// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journeys: which issue and which submissions a completion belongs to.
//!
//! Neither events nor traces number requests; they are matched by place:
//!
//! ```text
//! Q 8+8   Q 16+8 (merged)   D 8+16   C 8+16
//!                           └────────┘             the D at the same sector
//! └────────────────────────────────── 8 in 8..24   every Q whose last sectors it has is done
//!         └────────────────────────── 16 in 8..24
//! ```
//!
//! What belongs together is said by the rule of [`InFlight`], for bios and for requests. A request
//! belongs to the process that submitted the bio at its first sector: the one that issues may be a
//! thread of the kernel, and a completion comes to whatever runs. A request, or a bio, that comes
//! back in pieces is over with the last of them: the pieces before are a [`StepKind::Part`] each.
//!
//! Bios without sectors (flushes) are not waited for: several share a command, or none is needed,
//! so that no count of commands says which have ended. A flush command is matched from its issue
//! on, and belongs to the process that issued it.
//!
//! What never comes back must not be kept for ever: of more than [`IN_FLIGHT_MAX`] the oldest is no
//! longer waited for, and if it was in the device it leaves it, as a [`StepKind::Requeue`].
//!
//! Invariants: I1 at most `IN_FLIGHT_MAX` bios and as many requests are kept, 51 MiB together;
//! I2 the requests that entered the device are those that left it and those still in it.

use paternoster_measure::{Extent, InFlight};

use super::step::{Step, StepKind};

/// Bios and requests on their way.
#[derive(Debug, Clone, Default)]
pub struct Journeys {
    queued: InFlight<Step>,
    issued: InFlight<Step>,
    /// What one completion ends.
    ends: Vec<Step>,
}

impl Journeys {
    /// Processes a step on a device, and emits what is known then: the step itself, with its client
    /// and its latency, and the ends of bios.
    pub fn follow(&mut self, device: u32, mut step: Step, mut emit: impl FnMut(&Step)) {
        let extent = Extent::new(device, step.write, step.sector, step.sectors.into());
        match step.kind {
            StepKind::Queue if step.sectors > 0 => {
                self.queued.insert(extent, step);
            }
            StepKind::Issue => {
                let mut owner = None;
                self.queued.issue(extent, |part| {
                    owner.get_or_insert(part.value.client);
                });
                step.client = owner.unwrap_or(step.client);
                if let Some(lost) = self.issued.insert(extent, step).1 {
                    emit(&Step { at: step.at, kind: StepKind::Requeue, ..lost });
                }
            }
            StepKind::Requeue => {
                self.queued.requeue(extent, |_| ());
                self.issued.complete(extent, |part| {
                    if part.last {
                        emit(&Step { client: part.value.client, ..step });
                    }
                });
                return;
            }
            StepKind::Complete | StepKind::Stray => return self.complete(extent, step, emit),
            StepKind::Queue | StepKind::Part | StepKind::Done => {}
        }
        emit(&step);
    }

    /// Something came back: of one request, nearly always.
    fn complete(&mut self, extent: Extent, mut step: Step, mut emit: impl FnMut(&Step)) {
        let (at, ends) = (step.at, &mut self.ends);
        self.issued.complete(extent, |part| {
            let kind = if part.last { StepKind::Complete } else { StepKind::Part };
            let latency = part.last.then(|| at - part.value.at);
            let sectors = u32::try_from(part.sectors).unwrap_or(u32::MAX);
            let client = part.value.client;
            ends.push(Step { kind, client, latency, sector: part.sector, sectors, ..step });
        });
        if let [alone] = ends.as_mut_slice() {
            // It may have been issued as less than what came back.
            (alone.sector, alone.sectors) = (step.sector, step.sectors);
        }
        ends.iter().for_each(&mut emit);
        let is_stray = ends.is_empty();
        ends.clear();
        let mut owner = None;
        self.queued.complete(extent, |part| {
            owner.get_or_insert(part.value.client);
            if part.last {
                let latency = Some(at - part.value.at);
                ends.push(Step { at, kind: StepKind::Done, latency, ..*part.value });
            }
        });
        if is_stray {
            step.kind = StepKind::Stray;
            step.client = owner.unwrap_or(step.client);
            emit(&step);
        }
        ends.drain(..).for_each(|step| emit(&step));
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::Nanos;

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

    /// Of two reads of one place, is the one of the same length meant, and otherwise the oldest, of
    /// which it is a piece then? 10 - 2, 11 - 1, 13 - 3.
    #[test]
    fn the_same_place_twice() {
        use StepKind::{Complete, Issue, Part};
        let steps = [
            step(1, Issue, 1, 8, 8),
            step(2, Issue, 2, 8, 16),
            step(3, Issue, 3, 8, 8),
            step(10, Complete, 0, 8, 16),
            step(11, Complete, 0, 8, 8),
            step(12, Complete, 0, 8, 4),
            step(13, Complete, 0, 12, 4),
        ];
        let told = emitted(&mut Journeys::default(), &steps);
        let ends = [
            (Complete, 2, Some(8)),
            (Complete, 1, Some(10)),
            (Part, 3, None),
            (Complete, 3, Some(10)),
        ];
        assert_eq!(told[3..], ends);
    }

    /// If a request completes in two pieces, with one bio in the first and one in both, do the
    /// request and the second bio last until the last piece? 60 - 3, 50 - 1, 60 - 2.
    #[test]
    fn pieces_end_with_the_last() {
        use StepKind::{Complete, Done, Issue, Part, Queue};
        let steps = [
            step(1, Queue, 1, 8, 4),
            step(2, Queue, 2, 12, 12),
            step(3, Issue, 9, 8, 16),
            step(50, Complete, 0, 8, 8),
            step(60, Complete, 0, 16, 8),
        ];
        let told = emitted(&mut Journeys::default(), &steps);
        let ends =
            [(Part, 1, None), (Done, 1, Some(49)), (Complete, 1, Some(57)), (Done, 2, Some(58))];
        assert_eq!(told[3..], ends);
    }

    /// If three processes' flushes share a command and a fourth needs none, is none of the bios
    /// kept, and does the command count for the process that issues it? 9 - 5.
    #[test]
    fn flushes_that_share_a_command_do_not_pile_up() {
        use StepKind::{Complete, Issue, Queue};
        let flush = |at, kind, client| Step { write: true, ..step(at, kind, client, 0, 0) };
        let mut journeys = Journeys::default();
        let mut steps = [1, 2, 3, 4].map(|nth: u32| flush(nth.into(), Queue, nth)).to_vec();
        steps.extend([flush(5, Issue, 7), flush(9, Complete, 0)]);
        let told = emitted(&mut journeys, &steps);
        assert_eq!(told[4..], [(Issue, 7, None), (Complete, 7, Some(4))]);
        assert_eq!((journeys.queued.len(), journeys.issued.len()), (0, 0));
    }

    /// Does what never comes back leave the device when there is no room for it?
    #[test]
    fn the_lost_are_forgotten() {
        use StepKind::{Issue, Requeue};
        let mut journeys = Journeys::default();
        journeys.issued.set_limit(2);
        let steps = [1, 2, 3].map(|nth| step(nth, Issue, 7, nth * 8, 8));
        let told = emitted(&mut journeys, &steps);
        let expected = [(Issue, 7, None), (Issue, 7, None), (Requeue, 7, None), (Issue, 7, None)];
        assert_eq!(told, expected);
        assert_eq!(journeys.issued.len(), 2);
    }
}
