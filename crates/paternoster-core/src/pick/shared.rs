// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared queues: where the async requests of a class and level wait together.
//!
//! Who causes a write-back is not who waits for it, so that schedulers with a queue for each
//! process keep async requests in queues that all of a class and level share:
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
/// The one of the idle class.
const IDLE: usize = 16;

/// The place of a priority's shared queue.
#[must_use]
pub fn place_of(priority: Priority) -> usize {
    match priority.class {
        Class::Realtime => usize::from(priority.level.min(7)),
        Class::BestEffort => 8 + usize::from(priority.level.min(7)),
        Class::Idle => IDLE,
    }
}

/// Of a client's queues, for async requests and for sync ones, rather the one that is waited for.
pub(crate) fn rather_sync([of_async, of_sync]: [Option<u32>; 2]) -> Option<u32> {
    of_sync.or(of_async)
}

/// The class and level that a scheduler sees of a client: the idle class has one level only.
#[must_use]
pub fn effective_priority(view: &QueueView, client: ClientId) -> Priority {
    let priority = view.clients.at(client.index()).priority();
    if priority.class == Class::Idle { Priority { level: 7, ..priority } } else { priority }
}
