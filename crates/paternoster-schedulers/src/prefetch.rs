// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefetch: what an elevator knows of a client comes from memory at once, not piece by piece.
//!
//! With thousands of clients nothing of the one that asks is in the processor's caches. Its parts
//! lie in several cache lines, fifteen of BFQ, and each decision on its way needs another one: so
//! many times the latency of memory. So when a bio comes, before anything is decided, one word of
//! each line is read. None of these reads waits for another, so that together they take about as
//! long as one:
//!
//! ```text
//! without   line 1 ▓▓▓ decide  line 2 ▓▓▓ decide  line 3 ▓▓▓ decide …
//! with      1 to 15 ▓▓▓ decide decide decide …
//! ```
//!
//! # Invariants
//! I1  It changes nothing.
//!
//! Source: measured, see `docs/cost.md`.

use core::hint::black_box;

/// With fewer clients than this, their data is in the cache anyway.
const FEW: usize = 256;

/// Reads what `touch` does, where there are many clients.
#[inline(always)]
pub(crate) fn prefetch(clients: usize, touch: impl FnOnce() -> u64) {
    if clients >= FEW {
        black_box(touch());
    }
}
