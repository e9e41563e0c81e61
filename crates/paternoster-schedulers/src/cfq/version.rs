// SPDX-License-Identifier: MIT OR Apache-2.0
//! Version: what later kernels changed, each change with a name.
//!
//! There is one CFQ here. A difference between three kernels is a switch in this table, so that
//! each change can be read, and its effect shown, by itself:
//!
//! ```text
//! cfq       2.6.34   the scheduler that seeds 000 and 001 argue about
//! cfq-3.6   3.6      group idling, think times of trees and groups, the sole sync queue promoted
//! cfq-4.19  4.19     nested groups, async queues in each group, no queue idling on flash
//! ```
//!
//! Source: the rules of `docs/rules/cfq.md`; for 4.19 also our recordings of a running one.

use paternoster_core::Flags;

/// When the device idles for the whole tree of queues that are not idled for singly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeIdling {
    /// If one of its requests lacked the flag that no other follows (2.6.34).
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
    /// The last request of a queue may be flagged that no other follows: no idling.
    pub(super) heeds_no_idle: bool,
    /// A seeky queue with many requests at once is dropped when it is slower than it should be.
    pub(super) watches_deep_queues: bool,
    /// A sole sync queue is not held to the quantum because of async ones.
    pub(super) promotes_sole_sync: bool,
    /// The active queue is preempted when it is empty and not idled for.
    pub(super) preempts_unidled: bool,
    /// A change of class begins a new workload; a preemption across types drops the saved one.
    pub(super) restarts_workloads: bool,
    pub(super) tree_idling: TreeIdling,
    /// `slice_idle=0` switches queue idling off in every respect.
    pub(super) no_slice_idle_no_idling: bool,
    /// Idling for the last queue of a group; groups are charged by requests without `slice_idle`.
    pub(super) idles_for_groups: bool,
    /// `group_isolation` exists: without it seeky queues move to the root.
    pub(super) isolates_groups: bool,
    /// Least weight of a group.
    pub(super) least_weight: u32,
    /// Weights of nested groups multiply; each group has async queues of its own.
    pub(super) nests_groups: bool,
    /// An expired request passes whatever is in flight (CFQ-69).
    pub(super) lets_expired_through: bool,
    /// Real time is checked before whether the slice is used up.
    pub(super) realtime_first: bool,
    /// A seeky queue preempts another however many there are (CFQ-68).
    pub(super) preempts_among_seeky: bool,
    /// The device does not idle for a group whose tree in service thinks for longer than
    /// `group_idle`.
    pub(super) leaves_thinking_trees: bool,
    /// No `slice_idle` on flash from the start.
    pub(super) no_slice_idle_on_flash: bool,
    /// On flash with command queueing, group idling still sets the timer (CFQ-30).
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
