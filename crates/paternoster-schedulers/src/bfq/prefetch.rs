// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefetch: what is known of a queue comes from memory at once, not piece by piece.
//!
//! With thousands of processes nothing of the queue that gets a request is in the processor's
//! caches. Its parts lie in some fifteen cache lines, and each decision on its way needs another
//! one: fifteen times the latency of memory. So when a bio comes, before anything is decided, one
//! word of each line is read. None of these reads waits for another, so that together they take
//! about as long as one:
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

use crate::bfq::Bfq;
use paternoster_core::Bio;

/// With fewer processes everything is in the caches anyway.
const FEW: usize = 256;

impl Bfq {
    /// The data of the queue that a bio's request will belong to.
    #[inline]
    pub(super) fn prefetch(&self, bio: &Bio) {
        if self.contexts.len() >= FEW {
            self.touch(bio);
        }
    }

    /// Apart, so that it costs nothing where there are few.
    #[inline(never)]
    fn touch(&self, bio: &Bio) {
        if let Some(queue) = self.contexts.slot(bio.client, bio.is_sync()) {
            let own = self.queues.at(queue).touch() ^ self.schedule.touch(queue);
            let known = self.injection.touch(queue) ^ self.wakers.touch(queue);
            black_box(own ^ known ^ u64::from(self.bursts.lists(queue)));
        }
    }
}
