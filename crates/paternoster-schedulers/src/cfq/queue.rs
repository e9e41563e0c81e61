// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue: the requests of one process, and what is known about them.
//!
//! Sync requests wait in a queue of their process; async ones in a queue shared by all of a class
//! and level, because the process that causes a write-back is not the one that waits for it.
//!
//! ```text
//! process ─┬─ sync ──▶ a queue of its own, or one that it shares after a merge
//!          └─ async ─▶ the queue of its class and level
//! ```
//!
//! A queue lives as long as something refers to it: a process, a request, a queue that is to be
//! merged into it, and for async queues the device.
//!
//! # Invariants
//! I1  `refs` is the number of its requests, plus the processes that come to it directly or through
//!     merges, plus one if it is shared.
//! I2  `next` is one of its waiting requests, and is set exactly if any waits.
//! I3  `dispatched` counts its requests between their dispatch and their end.
//!
//! Source: CFQ-9 to CFQ-12, CFQ-54.

use crate::cfq::kind::{Kind, Stand, tree_of};
use crate::cfq::probe_points::{Decision, replace};
use crate::cfq::slice::Slice;
use paternoster_core::observe::seek::SeekHistory;
use paternoster_core::pick::lane::Lane;
use paternoster_core::pick::shared::effective_priority;
use paternoster_core::time::Nanos;
use paternoster_core::{Class, ClientId, Priority, QueueView, RequestId};

/// The requests of one process, or of a class and level if they are async.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    pub(super) refs: u32,
    /// Live requests that belong to it.
    pub(super) allocated: u32,
    /// The client it was made for; none if it is shared.
    pub(super) client: Option<ClientId>,
    pub(super) is_sync: bool,
    pub(super) priority: Priority,
    /// Another priority takes effect with the next request.
    pub(super) priority_changed: bool,
    pub(super) group: u32,
    /// The group it returns to, if it was moved to the root (`group_isolation`).
    pub(super) own_group: Option<u32>,
    /// It is among the queues to be served (an active queue stays there though empty).
    pub(super) is_busy: bool,
    /// Its place in the service trees, or its last one.
    pub(super) stand: Option<Stand>,
    pub(super) lane: Lane,
    pub(super) next: Option<RequestId>,
    pub(super) dispatched: u32,
    /// Waiting requests that are urgent.
    pub(super) urgent: u32,
    pub(super) slice: Slice,
    pub(super) seek: SeekHistory,
    /// The device may idle for it.
    pub(super) idle_window: bool,
    /// It has had four requests waiting at once.
    pub(super) is_deep: bool,
    /// The device idles for it now.
    pub(super) wait_request: bool,
    /// It may be served although its slice is used up.
    pub(super) must_dispatch: bool,
    /// Its process has had its permit to allocate in this slice.
    pub(super) had_permit: bool,
    /// The slice goes on until its group has work again.
    pub(super) wait_busy: bool,
    /// Several processes share it.
    pub(super) is_shared: bool,
    /// Whether its processes should part.
    pub(super) is_to_split: bool,
    /// The queue that its processes move to.
    pub(super) merge_into: Option<u32>,
    /// Of its last slice that was long enough, in sectors per tick (seed 001).
    pub(super) bandwidth: u64,
}

impl Queue {
    /// Whether nothing waits in it.
    pub(super) const fn is_empty(&self) -> bool {
        self.lane.is_empty()
    }

    /// The kind that decides how the queue is treated.
    pub(super) const fn kind(&self) -> Kind {
        if !self.is_sync {
            Kind::Async
        } else if self.idle_window {
            Kind::Sync
        } else {
            Kind::NoIdle
        }
    }

    /// The tree to which it belongs by its present kind.
    pub(super) const fn place(&self) -> Stand {
        Stand { group: self.group, tree: tree_of(self.priority.class, self.kind()) }
    }

    pub(super) fn is_idle_class(&self) -> bool {
        self.priority.class == Class::Idle
    }

    pub(super) fn is_realtime(&self) -> bool {
        self.priority.class == Class::Realtime
    }

    /// The references to it other than its requests.
    pub(super) const fn processes(&self) -> u32 {
        self.refs - self.allocated
    }

    /// Adds a request.
    #[inline]
    pub(super) const fn allocate(&mut self) {
        self.allocated += 1;
        self.refs += 1;
    }

    /// It takes over its process's class and level, if they have changed.
    #[inline]
    pub(super) fn refresh_priority(&mut self, view: &QueueView, client: ClientId) {
        if !core::mem::replace(&mut self.priority_changed, false) {
            return;
        }
        self.priority = effective_priority(view, client);
        if self.is_idle_class() {
            self.idle_window = false;
        }
    }

    /// Its oldest request, if it has expired and expiry was not yet checked in this slice (CFQ-12).
    pub(super) fn expired_request(&mut self, view: &QueueView) -> Option<RequestId> {
        if core::mem::replace(&mut self.slice.fifo_looked, true) {
            return None;
        }
        let deadline = self.lane.deadline(view).unwrap_or(Nanos::MAX);
        let oldest = self.lane.oldest();
        replace(Decision::Aged { oldest }, oldest.filter(|_| view.now() >= deadline))
    }
}
