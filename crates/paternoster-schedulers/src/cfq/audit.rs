// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audit: the invariants of CFQ, verified.
//!
//! Everything that is counted is counted again: references, requests in flight, busy queues, the
//! queues and the weight of each group. Every order is walked.

use alloc::format;
use alloc::vec::Vec;

use crate::cfq::context::Contexts;
use crate::cfq::cooperate::Cooperation;
use crate::cfq::device::Device;
use crate::cfq::queue::Queue;
use crate::cfq::queues::Queues;
use crate::cfq::schedule::Schedule;
use crate::cfq::shared::SharedQueues;
use paternoster_core::elevator::Fault;
use paternoster_core::pick::home::{home, is_settled};
use paternoster_core::{QueueView, RequestId};

/// What is counted per queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    allocated: u32,
    /// Processes; for a shared queue, the device.
    others: u32,
}

/// What is counted over all queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    waiting: u32,
    busy: u32,
    busy_sync: u32,
    flying_sync: u32,
    in_flight: [u32; 2],
}

/// What refers to each queue.
pub(super) fn count_references(
    view: &QueueView,
    contexts: &Contexts,
    shared: &SharedQueues,
    queues: &Queues,
    device: &Device,
) -> Vec<Counted> {
    let mut counted: Vec<Counted> = (0..queues.capacity()).map(|_| Counted::default()).collect();
    for index in 0..view.request_slots() {
        let request = RequestId::from_index(index);
        // The flush command has no queue; an earlier elevator's requests are not ours.
        if view.is_live(request) && is_settled(view, request) && device.is_of_epoch(view, request) {
            counted[home(view, request) as usize].allocated += 1;
        }
    }
    for queue in contexts.held(|queue| queues.at(queue).merge_into) {
        counted[queue as usize].others += 1;
    }
    for queue in shared.iter() {
        counted[queue as usize].others += 1;
    }
    counted
}

/// Each queue, and what is counted over all.
pub(super) fn audit_queues(
    view: &QueueView,
    queues: &Queues,
    schedule: &Schedule,
    device: &Device,
    active: Option<u32>,
    counted: &[Counted],
) -> Result<(), Fault> {
    let mut totals = Totals::default();
    for (key, queue) in queues.iter() {
        let number = key.index();
        queue.lane.check(queues.lanes(), view).map_err(|fault| format!("cfq: {fault}"))?;
        audit_references(number, queue, counted[number as usize])?;
        let waits = |next: RequestId| queues.lanes().contains(next) && home(view, next) == number;
        if queue.next.is_some() == queue.is_empty() || !queue.next.is_none_or(waits) {
            return Err(format!("queue I2: the next of queue {number} is {:?}", queue.next));
        }
        audit_place(schedule, number, queue, active == Some(number))?;
        totals.waiting += queue.lane.len();
        totals.busy += u32::from(queue.is_busy);
        totals.busy_sync += u32::from(queue.is_busy && queue.is_sync);
        totals.flying_sync += u32::from(queue.dispatched > 0 && queue.is_sync);
        totals.in_flight[usize::from(queue.is_sync)] += queue.dispatched;
    }
    let known = Totals {
        waiting: queues.waiting(),
        busy: schedule.busy(),
        busy_sync: schedule.busy_sync(),
        flying_sync: device.flying_sync(),
        in_flight: device.in_flight(),
    };
    if totals != known {
        return Err(format!("cfq I2: counted {totals:?}, known {known:?}"));
    }
    Ok(())
}

fn audit_references(number: u32, queue: &Queue, counted: Counted) -> Result<(), Fault> {
    let Counted { allocated, others } = counted;
    if (queue.allocated, queue.refs) != (allocated, allocated + others) {
        let (has, refs) = (queue.allocated, queue.refs);
        return Err(format!(
            "queue I1: queue {number} has {has} requests and {refs} references, \
             counted {allocated} and {others} beside them"
        ));
    }
    Ok(())
}

/// Checks that a queue is in a tree if and only if it should be.
fn audit_place(schedule: &Schedule, number: u32, queue: &Queue, served: bool) -> Result<(), Fault> {
    let stands = schedule.contains(number);
    if stands != queue.is_busy || (!queue.is_empty() && !queue.is_busy) {
        return Err(format!("cfq I1: queue {number} stands: {stands}, {queue:?}"));
    }
    if queue.is_busy && queue.is_empty() && !served {
        return Err(format!("cfq I1: queue {number} is busy with nothing"));
    }
    if stands && queue.stand.is_none_or(|stand| stand.group != queue.group) {
        return Err(format!("schedule I1: queue {number} stands in another group"));
    }
    Ok(())
}

impl Cooperation {
    /// Checks the order of positions, and that each queue but the active one is at the place of its
    /// next request.
    pub(super) fn audit(
        &self,
        view: &QueueView,
        queues: &Queues,
        active: Option<u32>,
    ) -> Result<(), Fault> {
        self.positions.check().map_err(|fault| format!("cfq: {fault}"))?;
        for (key, queue) in queues.iter().filter(|(key, _)| active != Some(key.index())) {
            let number = key.index();
            let at = queue.next.map(|next| view.request(next).sector());
            if self.positions.contains(number) && self.positions.sector(number) != at {
                return Err(format!("positions: queue {number} stands where its next is not"));
            }
        }
        Ok(())
    }
}

impl Schedule {
    /// The orders of all trees, and what is counted of each group.
    pub(super) fn audit(&self, queues: &Queues) -> Result<(), Fault> {
        for (number, group) in self.groups.iter() {
            let mut busy = 0;
            for tree in &group.trees {
                tree.check(self.nodes()).map_err(|fault| format!("cfq: {fault}"))?;
                busy += tree.len();
            }
            let in_flight: u32 = queues
                .iter()
                .filter(|(_, queue)| queue.group == number)
                .map(|(_, queue)| queue.dispatched)
                .sum();
            if (busy, in_flight) != (group.queues, group.dispatched) {
                let (known, flying) = (group.queues, group.dispatched);
                return Err(format!(
                    "group I1: group {number} has {busy} queues and {in_flight} in flight, \
                     counted {known} and {flying}"
                ));
            }
        }
        self.groups.audit()
    }
}
