// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow: jobs that keep their counts of I/Os in proportion.
//!
//! Jobs with the same `flow_id` (0 unless given) share a flow; `flow=N` is the job's weight in it.
//! A job may issue while what it has issued is no more than its part of the weights would be of
//! one I/O more than the flow has issued; if it is, the job sleeps for `flow_sleep` and asks again:
//!
//! ```text
//! weights 3 and 1      A may issue while A * 4 <= (A + B + 1) * 3
//! A B     0 0 yes   1 0: 4 <= 6 yes   2 0: 8 <= 9 yes   3 0: 12 <= 12 yes   4 0: 16 <= 15 no
//!         until B issues:   4 1: 16 <= 18 yes ... 6 1: 24 <= 24 yes   7 1: 28 <= 27 no
//! ```
//!
//! So no job runs ahead by more than its weight, and the slowest decides for all. A job that ends
//! takes its weight and its count along; otherwise the others would wait for it for ever. A job
//! with a `startdelay` counts from the beginning: the others wait for it.
//!
//! Differs: in fio so do jobs after a `stonewall` and jobs with `wait_for`, so that those before
//! them stop for good. Here these jobs count from their own beginning.
//!
//! Invariants: I1 of the members that are there at least one may issue (the one with the least
//! count for its weight); I2 a flow's sums are those of its members.
//!
//! Source: FIO-65; manual of fio 3.33. Which job waits was measured on a slow device, I/O by I/O:
//! with weights 1 and 3, and sleeps longer than the run, they made 1 and 7 I/Os.

use std::collections::BTreeMap;

use paternoster_core::Nanos;

use super::value::{MICROSECOND, Reader};

/// The options `flow`, `flow_id` and `flow_sleep`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowShare {
    /// `flow`: the weight; 0 is no flow.
    pub weight: u32,
    /// `flow_id`: which flow.
    pub id: u32,
    /// `flow_sleep`: how long a job that is ahead waits before it asks again; 0 asks at each event.
    pub sleep: Nanos,
}

impl FlowShare {
    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        match name {
            "flow" => self.weight = read.small(text, 0, 1000)?,
            "flow_id" => self.id = read.small(text, 0, u64::from(u32::MAX))?,
            "flow_sleep" => self.sleep = sleep(text, read)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// `flow_sleep`: a number of microseconds. fio reads a unit after it as that of a size, so that
/// `5ms` are 5 Mi: 5.2 s.
fn sleep(text: &str, read: &mut Reader<'_>) -> Result<Nanos, String> {
    let micros = read.size(text).map_err(|_| {
        format!("`{text}` is no number of microseconds, and fio knows no other unit here")
    })?;
    Ok(Nanos(micros.saturating_mul(MICROSECOND)))
}

/// A member of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowMember(usize);

#[derive(Debug, Clone, Copy)]
struct Member {
    id: u32,
    weight: u64,
    issued: u64,
    there: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    weight: u64,
    issued: u64,
}

/// All flows of a run.
#[derive(Debug, Clone, Default)]
pub struct Flows {
    members: Vec<Member>,
    sums: BTreeMap<u32, Sums>,
    changes: u64,
}

impl Flows {
    /// No flows.
    #[must_use]
    pub fn new() -> Flows {
        Flows::default()
    }

    /// Gives a clone its place in its flow, which counts from [`Flows::enter`] on; `None` if its
    /// job has no flow.
    pub fn join(&mut self, share: &FlowShare) -> Option<FlowMember> {
        if share.weight == 0 {
            return None;
        }
        let weight = u64::from(share.weight);
        self.members.push(Member { id: share.id, weight, issued: 0, there: false });
        Some(FlowMember(self.members.len() - 1))
    }

    /// The member counts from now on. One that comes later starts with its part of what the others
    /// have issued; otherwise they would wait for it to catch up.
    pub fn enter(&mut self, member: FlowMember) {
        let own = &mut self.members[member.0];
        if core::mem::replace(&mut own.there, true) {
            return;
        }
        let sums = self.sums.entry(own.id).or_default();
        let part = u128::from(sums.issued) * u128::from(own.weight);
        own.issued = u64::try_from(part / u128::from(sums.weight.max(1))).unwrap_or(u64::MAX);
        sums.weight += own.weight;
        sums.issued += own.issued;
        self.changes += 1;
    }

    /// Counts events in any flow: a job that was refused asks again when it has grown.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether the member may issue an I/O now.
    #[must_use]
    pub fn may_issue(&self, member: FlowMember) -> bool {
        let own = &self.members[member.0];
        let Some(sums) = self.sums.get(&own.id) else { return true };
        // Wide, because counts of a long run times a thousand weights are.
        let part = u128::from(own.issued) * u128::from(sums.weight);
        part <= (u128::from(sums.issued) + 1) * u128::from(own.weight)
    }

    /// The member has issued an I/O.
    pub fn issued(&mut self, member: FlowMember) {
        let own = &mut self.members[member.0];
        own.issued += 1;
        self.changes += 1;
        self.sums.entry(own.id).or_default().issued += 1;
    }

    /// The member's job has ended. A second time does nothing.
    pub fn leave(&mut self, member: FlowMember) {
        let own = &mut self.members[member.0];
        if core::mem::take(&mut own.there) {
            let sums = self.sums.entry(own.id).or_default();
            sums.weight -= own.weight;
            sums.issued -= own.issued;
            self.changes += 1;
        }
    }

    /// Verifies I1 and I2.
    ///
    /// # Errors
    /// Names the invariant which does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        for (id, sums) in &self.sums {
            let there = || {
                let all = self.members.iter().enumerate();
                all.filter(|(_, member)| member.there && member.id == *id)
            };
            let weight: u64 = there().map(|(_, member)| member.weight).sum();
            let issued: u64 = there().map(|(_, member)| member.issued).sum();
            if (weight, issued) != (sums.weight, sums.issued) {
                return Err("I2: sums of a flow");
            }
            if weight > 0 && !there().any(|(place, _)| self.may_issue(FlowMember(place))) {
                return Err("I1: nobody may issue");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn share(id: u32, weight: u32) -> FlowShare {
        FlowShare { id, weight, ..FlowShare::default() }
    }

    /// Does the example above come out, step by step?
    #[test]
    fn who_is_ahead_waits() {
        let mut flows = Flows::new();
        let (a, b) = (flows.join(&share(0, 3)).unwrap(), flows.join(&share(0, 1)).unwrap());
        [a, b].into_iter().for_each(|member| flows.enter(member));
        assert!(flows.may_issue(a) && flows.may_issue(b));
        for _ in 0..4 {
            assert!(flows.may_issue(a));
            flows.issued(a);
        }
        assert!(!flows.may_issue(a) && flows.may_issue(b));
        flows.issued(b);
        for _ in 0..3 {
            assert!(flows.may_issue(a));
            flows.issued(a);
        }
        assert!(!flows.may_issue(a));
        // B has left: there is no one to wait for.
        flows.leave(b);
        flows.leave(b);
        assert!(flows.may_issue(a));
        assert_eq!(flows.join(&FlowShare::default()), None);
    }

    /// A job that comes late starts with its part: after 30 of A's (weight 3), B (weight 1) is at
    /// 10, so neither waits long for the other.
    #[test]
    fn who_comes_late_begins_with_its_part() {
        let mut flows = Flows::new();
        let (a, b) = (flows.join(&share(0, 3)).unwrap(), flows.join(&share(0, 1)).unwrap());
        flows.enter(a);
        (0..30).for_each(|_| flows.issued(a));
        assert!(flows.may_issue(a), "alone it waits for nobody");
        flows.enter(b);
        assert!(flows.may_issue(a) && flows.may_issue(b));
        // 31 * 4 <= (31 + 10 + 1) * 3 = 126; 32 * 4 <= 43 * 3 = 129; 33 * 4 <= 44 * 3 = 132.
        for _ in 0..4 {
            assert!(flows.may_issue(a));
            flows.issued(a);
        }
        assert!(!flows.may_issue(a) && flows.may_issue(b));
    }

    proptest! {
        /// Do the invariants hold, and the proportions come out, for any order of asking?
        #[test]
        fn proportions_hold(
            weights in prop::collection::vec((0_u32..3, 1_u32..9), 1..8),
            asks in prop::collection::vec(0_usize..8, 1..2000),
        ) {
            let mut flows = Flows::new();
            let joined = weights.iter().map(|(id, weight)| flows.join(&share(*id, *weight)));
            let all: Vec<FlowMember> = joined.map(Option::unwrap).collect();
            all.iter().for_each(|member| flows.enter(*member));
            for ask in asks {
                let member = all[ask % all.len()];
                if flows.may_issue(member) {
                    flows.issued(member);
                }
                prop_assert_eq!(flows.check(), Ok(()));
            }
            for member in &flows.members {
                let sums = flows.sums[&member.id];
                // At most one I/O more than the part.
                prop_assert!((member.issued - member.issued.min(1)) * sums.weight
                    <= sums.issued * member.weight);
            }
        }
    }
}
