// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conformance: hooks for replaying a real kernel's recorded decisions against an elevator.
//!
//! Compiled only with the feature `conformance`, which the crate `paternoster-conformance` enables
//! for its tests; never in a release. A replay makes the calls of an elevator itself, at the times
//! of a recording, in a world that contains no more than the recording says
//! ([`paternoster_core::testing::Probe`]):
//!
//! ```text
//!             ┌──────────── Probe ────────────┐
//! recording ──┼─▶ elevator ── decides ──▶ hook of this thread ──▶ ours compared,
//!   calls     │    │    ▲                     │                   the recorded one goes on
//!             │    ▼    └─ recorded choice ◀──┼──────────────────────────┘
//!             │   view                       │
//!             └───────────────────────────────┘
//! ```
//!
//! Each elevator's own part, and its hook, is in the `probe` of its folder.
//!
//! # Invariants
//! I1  On a thread without a hook a decision stands as it is.
//!
//! Source: own.

/// BFQ's hook, and the data of its queues.
pub mod bfq {
    pub use crate::bfq::probe::{
        BfqProbe, Decision, Listener, ProbePoint, Reading, SeenQueue, Turns, install,
    };
}

/// CFQ's hook, and the data of its queues.
pub mod cfq {
    pub use crate::cfq::probe::{CfqProbe, Choice, Decision, Replace, SeenQueue, install, tree};
}
