// SPDX-License-Identifier: MIT OR Apache-2.0
//! Audit: the invariants of CFQ, verified.
//!
//! Everything that is counted is counted again: references, requests in flight, busy queues, the
//! queues and the weight of each group. Every order is walked.

use alloc::format;
use alloc::vec::Vec;

use crate::cfq::Cfq;
use crate::cfq::queue::Queue;
use paternoster_core::elevator::Fault;
use paternoster_core::pick::home::home;
use paternoster_core::{QueueView, RequestId};

/// What is counted per queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
    allocated: u32,
    /// Processes; for a shared queue, the device.
    others: u32,
}

impl Cfq {
    /// Verifies all invariants; the time grows with everything there is.
    pub(super) fn audit_all(&self, view: &QueueView) -> Result<(), Fault> {
        let mut counted = self.count_requests(view);
        self.count_processes(&mut counted);
        let (mut waiting, mut busy, mut busy_sync, mut flying_sync) = (0, 0, 0, 0);
        let mut in_flight = [0; 2];
        for (key, queue) in self.queues.iter() {
            let number = key.index();
            self.audit_queue(view, number, queue, counted[number as usize])?;
            waiting += queue.lane.len();
            busy += u32::from(queue.is_busy);
            busy_sync += u32::from(queue.is_busy && queue.is_sync);
            flying_sync += u32::from(queue.dispatched > 0 && queue.is_sync);
            in_flight[usize::from(queue.is_sync)] += queue.dispatched;
        }
        let seen = (waiting, busy, busy_sync, flying_sync, in_flight);
        let known =
            (self.queues.waiting(), self.busy, self.busy_sync, self.flying_sync, self.in_flight);
        if seen != known {
            return Err(format!(
                "cfq I2: {seen:?} wait, are busy, are in flight; counted {known:?}"
            ));
        }
        self.positions.check().map_err(|fault| format!("cfq: {fault}"))?;
        self.audit_groups()?;
        let timer = self.idle_until.unwrap_or(paternoster_core::time::Nanos::MAX);
        if timer != view.timer() || (self.idle_until.is_some() && self.active.is_none()) {
            return Err(format!(
                "cfq I3: idle until {timer}, the timer is set to {}",
                view.timer()
            ));
        }
        Ok(())
    }

    fn count_requests(&self, view: &QueueView) -> Vec<Counted> {
        let mut counted: Vec<Counted> =
            (0..self.queues.capacity()).map(|_| Counted::default()).collect();
        for index in 0..view.request_slots() {
            let request = RequestId::from_index(index);
            let is_live = view.is_live(RequestId::from_index(index));
            // The flush command has no queue; an earlier elevator's requests are not ours.
            if is_live
                && view.request(request).scratch()[1] != 0
                && Some(view.request(request).epoch()) == self.epoch
            {
                counted[home(view, request) as usize].allocated += 1;
            }
        }
        counted
    }

    fn count_processes(&self, counted: &mut [Counted]) {
        for context in self.contexts.iter() {
            for slot in context.slots {
                let mut at = slot;
                while let Some(queue) = at {
                    counted[queue as usize].others += 1;
                    at = self.queues.at(queue).merge_into;
                }
            }
        }
        for queue in self.shared.iter() {
            counted[queue as usize].others += 1;
        }
    }

    fn audit_queue(
        &self,
        view: &QueueView,
        number: u32,
        queue: &Queue,
        counted: Counted,
    ) -> Result<(), Fault> {
        queue.lane.check(self.queues.lanes(), view).map_err(|fault| format!("cfq: {fault}"))?;
        let Counted { allocated, others } = counted;
        if (queue.allocated, queue.refs) != (allocated, allocated + others) {
            let (has, refs) = (queue.allocated, queue.refs);
            return Err(format!(
                "queue I1: queue {number} has {has} requests and {refs} references, \
                 counted {allocated} and {others} beside them"
            ));
        }
        let waits =
            |next: RequestId| self.queues.lanes().contains(next) && home(view, next) == number;
        if queue.next.is_some() == queue.is_empty() || !queue.next.is_none_or(waits) {
            return Err(format!("queue I2: the next of queue {number} is {:?}", queue.next));
        }
        let stands = self.service.contains(number);
        let served = self.active == Some(number);
        if stands != queue.is_busy || (!queue.is_empty() && !queue.is_busy) {
            return Err(format!("cfq I1: queue {number} stands: {stands}, {queue:?}"));
        }
        if queue.is_busy && queue.is_empty() && !served {
            return Err(format!("cfq I1: queue {number} is busy with nothing"));
        }
        if stands && queue.stand.is_none_or(|stand| stand.group != queue.group) {
            return Err(format!("service I1: queue {number} stands in another group"));
        }
        let at = queue.next.map(|next| view.request(next).sector());
        if self.positions.contains(number) && !served && self.positions.sector(number) != at {
            return Err(format!("positions: queue {number} stands where its next is not"));
        }
        Ok(())
    }

    fn audit_groups(&self) -> Result<(), Fault> {
        for (number, group) in self.groups.iter() {
            let mut queues = 0;
            for tree in &group.trees {
                tree.check(&self.service).map_err(|fault| format!("cfq: {fault}"))?;
                queues += tree.len();
            }
            let in_flight: u32 = self
                .queues
                .iter()
                .filter(|(_, queue)| queue.group == number)
                .map(|(_, queue)| queue.dispatched)
                .sum();
            if (queues, in_flight) != (group.queues, group.dispatched) {
                let (known, flying) = (group.queues, group.dispatched);
                return Err(format!(
                    "group I1: group {number} has {queues} queues and {in_flight} in flight, \
                     counted {known} and {flying}"
                ));
            }
        }
        self.groups.audit()
    }
}
