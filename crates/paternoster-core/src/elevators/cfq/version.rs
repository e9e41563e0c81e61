// SPDX-License-Identifier: MIT OR Apache-2.0
//! Version: what later kernels changed, each change by its name.
//!
//! There is one CFQ here. What three kernels do differently is a switch of this table, so that
//! each change can be read, and its effect shown, by itself:
//!
//! ```text
//! cfq       2.6.34   the scheduler that seeds 000 and 001 argue about
//! cfq-3.6   3.6      group idling, think times of trees and groups, the sole sync queue promoted
//! cfq-4.19  4.19     nested groups, async queues in each group, no queue idling on flash
//! ```
//!
//! Source: the rules of `docs/rules/cfq.md`; for 4.19 what our recordings of a running one say.

use crate::request::Flags;

/// How the tree of those who are not idled for is idled for as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeIdling {
    /// If one of its requests did not say that no other follows (2.6.34).
    Unflagged,
    /// If its think time is short (3.2 on).
    ThinkTime,
}

/// What a kernel's CFQ does in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) name: &'static str,
    /// Requests with this flag go first and preempt.
    pub(super) urgent: Flags,
    /// A request at the sector of a waiting one pushes that one out at once.
    pub(super) pushes_aliases_out: bool,
    /// A queue that is preempted before its first completion keeps its whole slice.
    pub(super) keeps_unstarted_slice: bool,
    /// The last request of a queue may say that no other follows: no idling.
    pub(super) heeds_no_idle: bool,
    /// A queue that jumps about, with many requests at once, is dropped when slower than it should.
    pub(super) watches_deep_queues: bool,
    /// A sole sync queue is not held to the quantum by async ones beside it.
    pub(super) promotes_sole_sync: bool,
    /// The active queue is preempted when it is empty and not idled for.
    pub(super) preempts_unidled: bool,
    /// A change of class begins a new workload; a preemption across types forgets the saved one.
    pub(super) restarts_workloads: bool,
    pub(super) tree_idling: TreeIdling,
    /// `slice_idle=0` switches queue idling off in every respect.
    pub(super) no_slice_idle_no_idling: bool,
    /// Idling for the last queue of a group, and groups charged by requests without `slice_idle`.
    pub(super) idles_for_groups: bool,
    /// `group_isolation` exists: without it seeky queues move to the root.
    pub(super) isolates_groups: bool,
    /// Least weight of a group.
    pub(super) least_weight: u32,
    /// Weights of nested groups multiply; each group has async queues of its own.
    pub(super) nests_groups: bool,
    /// An expired request is let through whatever is in flight (CFQ-69).
    pub(super) lets_expired_through: bool,
    /// That a request is real time is looked at before whether the slice is used up.
    pub(super) realtime_first: bool,
    /// One seeky queue preempts another however many there are (CFQ-68).
    pub(super) preempts_among_seeky: bool,
    /// The device is not kept free for a group whose tree being served thinks for longer than that.
    pub(super) leaves_thinking_trees: bool,
    /// No `slice_idle` on flash from the start.
    pub(super) no_slice_idle_on_flash: bool,
    /// On flash that queues, group idling still arms the timer (CFQ-30).
    pub(super) idles_on_queueing_flash: bool,
}

/// Linux 2.6.34.
pub(super) const LINUX_2_6_34: Version = Version {
    name: "cfq",
    urgent: Flags::META,
    pushes_aliases_out: true,
    keeps_unstarted_slice: false,
    heeds_no_idle: false,
    watches_deep_queues: false,
    promotes_sole_sync: false,
    preempts_unidled: false,
    restarts_workloads: false,
    tree_idling: TreeIdling::Unflagged,
    no_slice_idle_no_idling: false,
    idles_for_groups: false,
    isolates_groups: true,
    least_weight: 100,
    nests_groups: false,
    lets_expired_through: false,
    realtime_first: false,
    preempts_among_seeky: false,
    leaves_thinking_trees: false,
    no_slice_idle_on_flash: false,
    idles_on_queueing_flash: false,
};

/// Linux 3.6.
pub(super) const LINUX_3_6: Version = Version {
    name: "cfq-3.6",
    urgent: Flags::PRIO,
    pushes_aliases_out: false,
    keeps_unstarted_slice: true,
    heeds_no_idle: true,
    watches_deep_queues: true,
    promotes_sole_sync: true,
    preempts_unidled: true,
    restarts_workloads: true,
    tree_idling: TreeIdling::ThinkTime,
    no_slice_idle_no_idling: true,
    idles_for_groups: true,
    isolates_groups: false,
    least_weight: 10,
    ..LINUX_2_6_34
};

/// Linux 4.19, the last generation, and the one whose recorded decisions the tests read.
pub(super) const LINUX_4_19: Version = Version {
    name: "cfq-4.19",
    nests_groups: true,
    lets_expired_through: true,
    realtime_first: true,
    preempts_among_seeky: true,
    leaves_thinking_trees: true,
    no_slice_idle_on_flash: true,
    idles_on_queueing_flash: true,
    ..LINUX_3_6
};
