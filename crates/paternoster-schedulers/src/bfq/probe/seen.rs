// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay sees of BFQ's queues.
//!
//! Source: ours; see `conformance.rs`.

use crate::bfq::Bfq;
use paternoster_core::Client;
use paternoster_core::testing::Probe;

/// A queue as it is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenQueue {
    /// The queue's number.
    pub number: u32,
    /// Whether processes share it.
    pub is_shared: bool,
    /// The id of the one process that it belongs to, while that is there.
    pub pid: Option<u32>,
}

/// What a probe of BFQ shows.
pub trait BfqProbe {
    /// Something has happened for which the block layer asks for a request.
    fn ask(&mut self);

    /// Busy queues that are raised.
    #[must_use]
    fn raised(&self) -> u32;

    /// Whether there is a queue of this number that is still referred to.
    #[must_use]
    fn is_kept(&self, queue: u32) -> bool;

    /// All queues, in the order of their numbers.
    fn queues(&self) -> impl Iterator<Item = SeenQueue>;
}

impl BfqProbe for Probe<Bfq> {
    fn ask(&mut self) {
        self.elevator.runs.ask();
    }

    fn raised(&self) -> u32 {
        self.elevator.schedule.symmetry.raised()
    }

    fn is_kept(&self, queue: u32) -> bool {
        let queues = &self.elevator.queues;
        queues.is_live(queue) && queues.at(queue).refs > 0
    }

    fn queues(&self) -> impl Iterator<Item = SeenQueue> {
        self.elevator.queues.iter().map(|(key, queue)| {
            let owner = queue.owner.and_then(|owner| self.view.client(owner));
            let (number, is_shared) = (key.index(), queue.is_shared);
            SeenQueue { number, is_shared, pid: owner.map(Client::pid) }
        })
    }
}
