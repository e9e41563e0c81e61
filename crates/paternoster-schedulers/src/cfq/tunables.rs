// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunables: what can be set, and what follows from it.
//!
//! Slices get shorter by a fifth of the base from level to level; the requests of an async slice
//! fewer:
//!
//! ```text
//! level             0     4     7
//! sync slice      180   100    40 ms
//! async slice      72    40    16 ms, at most 32, 16, 4 requests
//! ```
//!
//! How each is called and shown is in `knobs.rs`.
//!
//! Source: CFQ-1, CFQ-6, CFQ-48 to CFQ-53.

use crate::cfq::slice::MIDDLE_LEVEL;
use crate::cfq::version::Version;
use paternoster_core::observe::seek::SeekDetection;
use paternoster_core::pick::back_seek::BackSeek;
use paternoster_core::time::Nanos;
use paternoster_core::{Flags, QueueView};

/// Seed 001's experiment: queues that share the device may be merged, if that pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum OptimisticMerge {
    /// As in every released kernel.
    #[default]
    Off,
    /// Bandwidths are measured, but have no effect.
    Measure,
    /// Zoccolo's patches.
    Plain,
    /// With Goyal's window, in which merges are tried to learn their effect.
    Sampled,
    /// With Zoccolo's later corrections of what is split, and when.
    Corrected,
}

/// Each level adds or takes a fifth of the base.
const SLICE_SCALE: u64 = 5;

/// The values that can be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tunables {
    pub(super) quantum: u32,
    /// Async, sync.
    pub(super) fifo_expire: [Nanos; 2],
    /// The distance in KiB.
    pub(super) back_seek_max: u64,
    pub(super) back_seek_penalty: u32,
    /// Async, sync.
    pub(super) slice: [Nanos; 2],
    pub(super) slice_async_rq: u32,
    pub(super) slice_idle: Nanos,
    pub(super) group_idle: Nanos,
    pub(super) low_latency: bool,
    pub(super) group_isolation: bool,
    pub(super) target_latency: Nanos,
    pub(super) seek_detection: SeekDetection,
    pub(super) optimistic_merge: OptimisticMerge,
    pub(super) slice_idle_tuning: bool,
}

impl Tunables {
    /// `slice_idle` in whole ticks.
    pub(super) fn slice_idle_in(&self, view: &QueueView) -> Nanos {
        view.hz().floor(self.slice_idle)
    }

    /// `group_idle` in whole ticks; 0 in kernels that do not have it.
    pub(super) fn group_idle_in(&self, view: &QueueView, version: &Version) -> Nanos {
        if version.idles_for_groups { view.hz().floor(self.group_idle) } else { Nanos::ZERO }
    }

    /// The slice of a level before it is scaled (CFQ-6).
    pub(super) fn level_slice(&self, view: &QueueView, sync: bool, level: u8) -> Nanos {
        let tick = view.hz().tick().0;
        let base = self.slice[usize::from(sync)].0 / tick;
        let fifth = base / SLICE_SCALE;
        let longer = fifth * u64::from(MIDDLE_LEVEL.saturating_sub(level));
        let shorter = fifth * u64::from(level.saturating_sub(MIDDLE_LEVEL));
        Nanos((base.saturating_add(longer) - shorter).saturating_mul(tick))
    }

    /// How many async requests a slice may hold: 16 at level 4.
    pub(super) fn async_limit(&self, level: u8) -> u32 {
        self.slice_async_rq.saturating_mul(2 * (8 - u32::from(level)))
    }
}

impl Tunables {
    /// What a queue's next request is chosen by; those with the flag `urgent` go first.
    #[inline]
    pub(super) fn back_seek(&self, urgent: Flags) -> BackSeek {
        BackSeek {
            most: self.back_seek_max.saturating_mul(2),
            penalty: self.back_seek_penalty.into(),
            urgent,
        }
    }
}

impl Default for Tunables {
    fn default() -> Tunables {
        Tunables {
            quantum: 8,
            fifo_expire: [Nanos::from_millis(250), Nanos::from_millis(125)],
            back_seek_max: 16 * 1024,
            back_seek_penalty: 2,
            slice: [Nanos::from_millis(40), Nanos::from_millis(100)],
            slice_async_rq: 2,
            slice_idle: Nanos::from_millis(8),
            group_idle: Nanos::from_millis(8),
            low_latency: true,
            group_isolation: false,
            target_latency: Nanos::from_millis(300),
            seek_detection: SeekDetection::Auto,
            optimistic_merge: OptimisticMerge::Off,
            slice_idle_tuning: false,
        }
    }
}
