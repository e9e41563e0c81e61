// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunables: what can be set, and the kernel's defaults. Names, units and clamps are in `knobs`.
//!
//! ```text
//! inject         off (before seed 002), coefficient (seed 002), measured (5.2 on)
//! merge_window   for how long after a start a queue may be merged (seed 004); 0: always
//! ```
//!
//! Source: BFQ-186 to BFQ-188; seeds 002 and 004.

use paternoster_core::Flags;
use paternoster_core::pick::back_seek::BackSeek;
use paternoster_core::time::{Hz, Nanos};

/// What is served while the queue in service is kept although it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Inject {
    /// Nothing is injected: the device runs empty.
    Off,
    /// Up to ten sectors of others for each of its own (seed 002).
    Coefficient,
    /// As many requests as do not prolong its own service (5.2 on).
    #[default]
    Measured,
}

/// The values that can be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tunables {
    /// Async, sync.
    pub(super) fifo_expire: [Nanos; 2],
    /// The distance in KiB.
    pub(super) back_seek_max: u64,
    pub(super) back_seek_penalty: u64,
    pub(super) slice_idle: Nanos,
    /// In sectors; 0 lets it follow the device's rate.
    pub(super) max_budget: u64,
    /// As set; elevators see it in ticks.
    pub(super) timeout_sync: Nanos,
    pub(super) strict_guarantees: bool,
    pub(super) low_latency: bool,
    pub(super) inject: Inject,
    /// Zero: queues may be merged at any time.
    pub(super) merge_window: Nanos,
    pub(super) queue_merging: bool,
    pub(super) stable_merging: bool,
    pub(super) wakers: bool,
    pub(super) tag_shares: bool,
    /// Linux asks for a request after each completion.
    pub(super) completion_runs: bool,
    /// The position tree follows a removal of the head request (seed 004, patch 1).
    pub(super) position_update: bool,
    /// An early merge checks whether raising is wanted at all (seed 004, patch 2).
    pub(super) early_merge_check: bool,
    /// A queue raised for long is not merged (before seed 004, patch 4).
    pub(super) late_raise_check: bool,
}

impl Tunables {
    /// The kernel's defaults; `late` adds what came with 5.2 to 5.17.
    pub(super) const fn new(inject: Inject, late: bool) -> Tunables {
        Tunables {
            fifo_expire: [Nanos::from_millis(250), Nanos::from_millis(125)],
            back_seek_max: 16 * 1024,
            back_seek_penalty: 2,
            slice_idle: Nanos::from_millis(8),
            max_budget: 0,
            timeout_sync: Nanos::from_millis(125),
            strict_guarantees: false,
            low_latency: true,
            inject,
            merge_window: Nanos::from_millis(100),
            queue_merging: true,
            stable_merging: late,
            wakers: late,
            tag_shares: late,
            completion_runs: false,
            position_update: true,
            early_merge_check: true,
            late_raise_check: false,
        }
    }

    /// The budget timeout in the ticks that elevators see: 124 of the 125 ms at HZ=250.
    pub(super) fn timeout(&self, hz: Hz) -> Nanos {
        hz.floor(self.timeout_sync).max(hz.tick())
    }

    /// What a queue's next request is chosen by.
    #[inline]
    pub(super) const fn back_seek(&self) -> BackSeek {
        BackSeek {
            most: self.back_seek_max.saturating_mul(2),
            penalty: self.back_seek_penalty,
            urgent: Flags::META,
        }
    }
}
