// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pause: why the device waits while requests are queued.
//!
//! What kept it says so (`credit.rs`), and the watchdog judges by it what the wait may cost.
//!
//! Source: R2, R3, R5, S3, S4, L6 of `docs/rules/adaptive.md`.

/// Why the device waits while requests are queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// R2: a slot is kept, and paid for from the credit.
    Credit,
    /// R3: a slot is kept, and that is a bargain.
    Bargain,
    /// R5, S3, S4, L6: the last slots are spared, a seat's holder is expected, the last holder's
    /// requests drain, or a client that is ahead is held.
    Seats,
}
