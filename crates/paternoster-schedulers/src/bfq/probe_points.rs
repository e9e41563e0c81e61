// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probe points: what a test hears of our decisions while those of a real BFQ are replayed.
//!
//! Linux logs what its BFQ decides, with the numbers. At the same points ours *says* the same, and
//! a test compares:
//!
//! ```text
//! Linux  bfq3445S expire (1, slow 0, num_disp 0, short_ttime 1)
//! ours   probe(queue, ProbePoint::Expired { why: BudgetTimeout, slow: false, short: true, … })
//! ```
//!
//! Where a decision depends on when exactly the clock was read, or on a kernel mistake, the
//! recorded decision replaces ours (*forced history*), so that one difference does not cause a
//! thousand others:
//!
//! ```text
//! let more = replace(Decision::TimeCharge { lasted }, more)
//!                                                    └ ours; what comes back is the recorded one
//! ```
//!
//! Without the feature `conformance`, and on a thread without a hook, nothing listens, and a
//! decision is its own answer.
//!
//! Source: the words of Linux 6.18, as `paternoster-trace` reads them (`ftrace::BfqMessage`).

use paternoster_core::event::Expiry;
use paternoster_core::time::Nanos;

#[cfg(feature = "conformance")]
pub(super) use super::probe::{clock, probe, probe_of, replace};
#[cfg(not(feature = "conformance"))]
pub(super) use super::silence::{clock, probe, probe_of, replace};

/// What BFQ says. Amounts are in sectors, virtual times as in entities, queues by number.
#[cfg_attr(feature = "conformance", expect(missing_docs, reason = "said of all fields above"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePoint {
    /// A request has found its queue.
    Arrives { sync: bool },
    /// A queue has work from now on.
    Joins,
    /// A queue has none any more.
    Leaves,
    /// A request is wanted; this many queues have work.
    Asked { busy: u32 },
    /// A turn begins.
    Begins { budget: u64 },
    /// A queue whose turn has begun is examined.
    Looks,
    /// The queue already in service is examined.
    GoesOn,
    /// Whether time may end the turn.
    MayEnd { waits: bool, third_left: bool, over: bool },
    /// The queue is served.
    Returned,
    /// No queue is served.
    Nobody,
    /// The queue is charged.
    Served { sectors: u64 },
    /// Whether it was slow; reported for turns long enough to be measured.
    Slow { slow: bool },
    /// The turn ends.
    Expired { why: Expiry, slow: bool, in_flight: u32, short: bool },
    /// The turn's budget, and the service that it got.
    Account { budget: u64, service: u64 },
    /// The most the queue could ask for so far, and the least that any queue gets.
    Bounds { most: u64, least: u64 },
    /// What kind of queue it is.
    Nature { sync: bool, seeky: bool },
    /// The budget that it asks for next, with the sectors of its next request.
    Asks { head: u32, budget: u64 },
    /// Its next request is another, and what it asks for follows.
    NextChanged { budget: u64 },
    /// A finish is computed for so much service.
    FinishOf { service: u64, weight: u32 },
    /// The times that resulted.
    Times { start: u64, finish: u64 },
    /// No observation of the rate was going on; one begins.
    NothingObserved,
    /// An observation of the rate has ended, and another may have begun.
    Observed { samples: u32, sequential: u32, sectors: u64 },
    /// The largest budget follows the rate.
    MaxBudget { budget: u64 },
    /// A queue that is raised was served.
    Raised { elapsed: Nanos, lasts: Nanos, coefficient: u32, weight: u32, original: u32 },
    /// A change of weight is not taken over yet.
    Pending,
    /// The oldest request goes because of its age.
    Aged,
    /// A queue is looked for by position.
    Sought { sector: u64, found: Option<u32> },
    /// A queue is to be merged.
    ToMerge { with: u32 },
    /// A process leaves its queue for another.
    Merges { with: u32 },
    /// The other queue has taken it over.
    Merged { raised: u32 },
    /// A queue may be woken by another.
    Woken { by: u32 },
}

/// A decision that a test may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Sectors that a turn is charged in addition to those served in it.
    TimeCharge {
        /// How long the turn took.
        lasted: Nanos,
    },
}

/// A moment at which BFQ reads its clock in the middle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A turn begins.
    Begin,
    /// A turn ends.
    End,
}
