// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunables: the policy settings.
//!
//! Nothing here describes the device: its properties are measured.
//!
//! Source: R4 of `docs/rules/adaptive.md` (sigma).

/// The settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tunables {
    /// One part in this many of the device time may be idled away for fairness (1 / sigma).
    pub(super) strictness: u64,
    /// L4: when a shallow client would wait less, this much of the throughput must be kept, in
    /// percent (phi).
    pub(super) bulk_kept: u64,
    /// L6: a client whose requests take less than this many percent of their least time is not
    /// owed.
    pub(super) weights_from: u64,
    /// Whether each client is limited to its share of the requests.
    pub(super) tag_shares: bool,
    /// C5: whether a request is charged its kind's cost where the device is full.
    pub(super) prices: bool,
    /// This many commands are given, if the device takes them; 0: as many as are found best.
    pub(super) depth_max: u64,
}

impl Default for Tunables {
    fn default() -> Tunables {
        Tunables {
            strictness: 32,
            bulk_kept: 95,
            weights_from: 150,
            tag_shares: true,
            prices: true,
            depth_max: 0,
        }
    }
}
