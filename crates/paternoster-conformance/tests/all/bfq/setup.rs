// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the device and the scheduler of each log were set, and which log continues another.
//!
//! # Series
//! The logs of a device were made one after another with one scheduler, which kept its state:
//! virtual time, the rate and with it the largest budget, whether the device queues commands, the
//! weight of queues that were ahead when they left. That is not stated anywhere, but every number
//! of a log follows from the one before it: `disk_seq_rand_ll0` begins at virtual time 31245885218,
//! exactly where `disk_2seq_ll0` ended, and its first request closes the last observation of the
//! rate.
//!
//! # Ticks
//! The kernel's tick is 4 ms. It came 1560 to 1577 us after each whole 4 ms of the log's clock:
//! with any phase in between every decision that depends on a tick is the recorded one, except one.
//!
//! Source: the README next to the logs (devices, weights); ticks were fitted.

/// What a log does not say about itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) log: &'static str,
    pub(super) rotational: bool,
    pub(super) low_latency: bool,
    /// When the tick comes after each whole 4 ms.
    pub(super) phase_us: u64,
    /// Weights of the groups of processes; processes without one are in the root.
    pub(super) weights: &'static [(u32, u32)],
}

const DISK: Setup =
    Setup { log: "", rotational: true, low_latency: false, phase_us: 1568, weights: &[] };
const FLASH: Setup = Setup { rotational: false, ..DISK };

/// Logs of one scheduler after another.
pub(super) const SERIES: [&[Setup]; 3] = [
    &[
        Setup { log: "disk_2seq_ll0", ..DISK },
        Setup { log: "disk_seq_rand_ll0", ..DISK },
        Setup { log: "disk_shallow_deep_ll0", ..DISK },
        Setup { log: "disk_starter_ll1", low_latency: true, ..DISK },
        Setup { log: "disk_coop_ll0", ..DISK },
    ],
    &[
        Setup {
            log: "ssd_5groups_rand_ll0",
            weights: &[(3643, 100), (3644, 200), (3634, 300), (3628, 400), (3636, 500)],
            ..FLASH
        },
        Setup { log: "ssd_5equal_rand_ll0", ..FLASH },
    ],
    // Another boot; the first 0.2 s of eight readers on a disk.
    &[Setup { log: "bfq_internal_log_8seq", ..DISK }],
];
