// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probe points: where a test may put a recorded decision in the place of ours.
//!
//! The decisions of a real CFQ are replayed with *forced history*: at each point where CFQ decides,
//! its choice is compared with the recorded one, a difference is counted, and the recorded one is
//! carried out. So one difference does not cause a thousand others.
//!
//! ```text
//! let rule = replace(Decision::Preempts { … }, self.preemption(…))
//!                                             └ ours; what comes back is the recorded one
//! ```
//!
//! Without the feature `conformance`, and on a thread without a hook, a decision is its own answer.
//!
//! Source: the tests of `paternoster-conformance`, which know the name of each decision in the
//! recordings.

use paternoster_core::RequestId;
use paternoster_core::time::Nanos;

/// A point at which CFQ decides. Its fields are what the comparison needs: numbers of queues, times
/// in nanoseconds, the index of a tree.
#[cfg_attr(feature = "conformance", expect(missing_docs, reason = "said of all fields above"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The key of a queue that is put into a tree.
    Key { queue: u32, now: Nanos, tree: usize },
    /// How many queues are busy on average.
    Average,
    /// How long a slice is.
    SliceLength { queue: u32 },
    /// That a slice ends; whether the account of what is left is kept.
    TimedOut { queue: u32 },
    /// What is left of a slice that ends.
    Residual { queue: u32 },
    /// How much of its slice a queue has used.
    Used { queue: u32 },
    /// The virtual time of the group whose slice has just ended.
    VirtualTime,
    /// Whether the present workload goes on.
    GoesOn,
    /// Which kind of queues is served next.
    Kind,
    /// For how long that kind is served.
    WorkloadTime,
    /// Which queue's turn it is.
    Turn,
    /// Whether the queue that was to become busy again has done so, which ends its turn.
    BusyAgain,
    /// Whether the slice turns out to be used up when the next request is chosen.
    SliceUsed { left: i64 },
    /// The queue close by that continues in place of an empty one.
    Cooperator,
    /// Whether to wait for the idle timer.
    WaitsForTimer,
    /// Whether a deep, seeky queue loses its idle window.
    DeepIsSlow,
    /// Whether to wait for requests in flight.
    WaitsForFlight,
    /// Whether to wait for the last queue's group.
    WaitsForGroup,
    /// How many requests of the queue may be in flight.
    Most,
    /// Whether one more request may be in flight.
    MayDispatch,
    /// The oldest request, if it goes first because of its age.
    Aged { oldest: Option<RequestId> },
    /// Which of the waiting requests is dispatched.
    Request { waiting: u32 },
    /// Whether the slice ends with what was dispatched.
    EndsWithDispatch,
    /// Whether the queue is one to idle for.
    IdleWindow { before: bool },
    /// Whether a completed request had been late.
    Late,
    /// Whether the slice goes on until the group is busy again.
    WaitBusy { left: i64 },
    /// Whether the slice ends with a completion.
    EndsWithCompletion { left: i64 },
    /// Whether idling is considered at all.
    MayArm,
    /// How long the timer is set for.
    Arm { left: i64, mean: i64 },
    /// Whether the slice ends with the timer.
    EndsWithTimer,
    /// By which rule an insertion preempts.
    Preempts,
}

#[cfg(feature = "conformance")]
pub(super) use super::probe::replace;

/// Our choice.
#[cfg(not(feature = "conformance"))]
#[inline(always)]
pub(super) const fn replace<C: Copy>(_: Decision, ours: C) -> C {
    ours
}
