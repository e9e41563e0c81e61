// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared queues: where the async requests of a class and level wait together.
//!
//! The process that causes a write-back is not the one that waits for it, so schedulers with a
//! queue for each process keep async requests in queues that all processes of a class and level
//! share:
//!
//! ```text
//! real time 0 … 7   best effort 0 … 7   idle         17 for each group
//! ```
//!
//! Source: CFQ-3; BFQ-193.

use crate::client::{Class, ClientId, Priority};
use crate::queue_view::QueueView;

/// Shared queues of a group: 8 levels of two classes, and one of the idle class.
pub const SHARED: usize = 17;
/// The index of the idle class.
const IDLE: usize = 16;

/// The index of a priority's shared queue.
#[inline]
#[must_use]
pub fn place_of(priority: Priority) -> usize {
    match priority.class {
        Class::Realtime => usize::from(priority.level.min(7)),
        Class::BestEffort => 8 + usize::from(priority.level.min(7)),
        Class::Idle => IDLE,
    }
}

/// Of a client's async and sync queues, preferably the sync one.
#[inline]
#[must_use]
pub fn rather_sync([of_async, of_sync]: [Option<u32>; 2]) -> Option<u32> {
    of_sync.or(of_async)
}

/// A client's class and level as a scheduler sees them: the idle class has only one level.
#[inline]
#[must_use]
pub fn effective_priority(view: &QueueView, client: ClientId) -> Priority {
    let priority = view.clients.at(client.index()).priority();
    if priority.class == Class::Idle { Priority { level: 7, ..priority } } else { priority }
}
