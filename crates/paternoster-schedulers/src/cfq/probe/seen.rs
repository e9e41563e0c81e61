// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay sees of CFQ's queues, and what it sets right.
//!
//! Only what a recording knows better is changed from outside: state left over from an earlier run,
//! the think time that the kernel read from its clock, that a workload is not over yet.
//!
//! Source: ours; see `conformance.rs`.

use crate::cfq::Cfq;
use crate::cfq::kind::{KINDS, tree_of};
use crate::cfq::slice::signed;
use paternoster_core::observe::queue_depth::{Probing, QueueDepth};
use paternoster_core::pick::home::home;
use paternoster_core::testing::Probe;
use paternoster_core::time::Nanos;
use paternoster_core::{Class, ClientId, RequestId};

/// A queue as it is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenQueue {
    /// Number of its group.
    pub group: u32,
    /// Processes that use it.
    pub processes: u32,
    /// Requests that belong to it, until they have ended.
    pub allocated: u32,
    /// How many of these wait.
    pub waiting: u32,
    /// A mark for each of the last 32 requests that was far from the one before it.
    pub seeks: u32,
    /// Whether processes share it.
    pub is_shared: bool,
    /// The queue that its processes move to.
    pub merge_into: Option<u32>,
}

/// The number of the service tree of a class and a kind: 0 async, 1 not idled for, 2 idled for.
/// `None` for other kinds.
#[must_use]
pub fn tree(class: Class, kind: u32) -> Option<usize> {
    let kind = KINDS.iter().find(|one| **one as u32 == kind);
    kind.map(|kind| tree_of(class, *kind))
}

/// What a probe of CFQ shows and changes.
pub trait CfqProbe {
    /// Continues from another run: how many queues of the root were busy on average.
    fn set_average_busy(&mut self, average: u32);

    /// Continues from another run: the most requests that the device took at a time.
    fn settle(&mut self, depth: u32);

    /// Busy queues.
    #[must_use]
    fn busy(&self) -> u32;

    /// Requests that wait.
    #[must_use]
    fn waiting(&self) -> u32;

    /// Requests that the device has.
    #[must_use]
    fn in_driver(&self) -> u32;

    /// Whether the device is taken to queue commands, if that is known; and the most requests that
    /// it has had at a time.
    #[must_use]
    fn depth(&self) -> (Option<bool>, u32);

    /// The active queue.
    #[must_use]
    fn active(&self) -> Option<u32>;

    /// The group that is served.
    #[must_use]
    fn serving(&self) -> Option<u32>;

    /// What is left of its workload, in nanoseconds: zero or less if it is over.
    #[must_use]
    fn workload_left(&self) -> i64;

    /// Prolongs the workload, if it is over.
    fn prolong_workload(&mut self, by: Nanos);

    /// Whether there is a queue of this number.
    #[must_use]
    fn is_live(&self, queue: u32) -> bool;

    /// A queue, which is live.
    #[must_use]
    fn queue(&self, queue: u32) -> SeenQueue;

    /// The number of the queue that a request belongs to.
    #[must_use]
    fn queue_of(&self, request: RequestId) -> u32;

    /// The number of the queue that a client's requests have used so far.
    #[must_use]
    fn queue_of_client(&self, client: ClientId, sync: bool) -> Option<u32>;

    /// The think time of this request's client: its mean in nanoseconds, and the weight of its
    /// samples.
    #[must_use]
    fn think_time(&self, request: RequestId) -> (u64, u64);

    /// Sets the same.
    fn set_think_time(&mut self, request: RequestId, mean: u64, samples: u64);
}

impl CfqProbe for Probe<Cfq> {
    fn set_average_busy(&mut self, average: u32) {
        self.elevator.schedule.groups[self.view.root().index()].averages[0] = average;
    }

    fn settle(&mut self, depth: u32) {
        let learned = self.elevator.device.depth_mut();
        *learned = QueueDepth::default();
        // The sample after the last one decides.
        for _ in 0..=Probing::CFQ.samples {
            learned.sample(&Probing::CFQ, depth, true);
        }
    }

    fn busy(&self) -> u32 {
        self.elevator.schedule.busy()
    }

    fn waiting(&self) -> u32 {
        self.elevator.queues.waiting()
    }

    fn in_driver(&self) -> u32 {
        self.elevator.device.in_driver()
    }

    fn depth(&self) -> (Option<bool>, u32) {
        let depth = self.elevator.device.depth();
        (depth.queues(), depth.most())
    }

    fn active(&self) -> Option<u32> {
        self.elevator.service.queue()
    }

    fn serving(&self) -> Option<u32> {
        self.elevator.workload.serving.group
    }

    fn workload_left(&self) -> i64 {
        let expires = self.elevator.workload.serving.expires.unwrap_or(Nanos::ZERO);
        signed(expires) - signed(self.view.now())
    }

    fn prolong_workload(&mut self, by: Nanos) {
        self.elevator.workload.serving.expires.get_or_insert(self.view.now() + by);
    }

    fn is_live(&self, queue: u32) -> bool {
        self.elevator.queues.is_live(queue)
    }

    fn queue(&self, queue: u32) -> SeenQueue {
        let queue = self.elevator.queues.at(queue);
        SeenQueue {
            group: queue.group,
            processes: queue.processes(),
            allocated: queue.allocated,
            waiting: queue.lane.len(),
            seeks: queue.seek.marks(),
            is_shared: queue.is_shared,
            merge_into: queue.merge_into,
        }
    }

    fn queue_of(&self, request: RequestId) -> u32 {
        home(&self.view, request)
    }

    fn queue_of_client(&self, client: ClientId, sync: bool) -> Option<u32> {
        self.elevator.contexts.slot(client, sync)
    }

    fn think_time(&self, request: RequestId) -> (u64, u64) {
        let client = self.view.request(request).client();
        self.elevator.contexts.at(client).think_time.parts()
    }

    fn set_think_time(&mut self, request: RequestId, mean: u64, samples: u64) {
        let client = self.view.request(request).client();
        self.elevator.contexts.at_mut(client).think_time.set_parts(mean, samples);
    }
}
