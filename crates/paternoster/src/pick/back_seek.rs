// SPDX-License-Identifier: MIT OR Apache-2.0
//! Back seek: which of two requests is nearer to the head, when going back costs more.
//!
//! A one-way elevator never turns; one that turns at every chance leaves the far end waiting. In
//! between, a request a little behind the head is taken for one `penalty` times as far ahead:
//!
//! ```text
//!            960        1000            1100
//!  ───────────┼──────────┼───────────────┼────▶ sectors
//!      40 back, costs 80  head  100 ahead, costs 100        960 goes first
//! ```
//!
//! Further back than `most` it has wrapped: it waits for the next sweep, the lowest first.
//!
//! Source: spec `cfq-flush-block.md` 2.1 (CFQ-9 to CFQ-11); `bfq.md` section 5.

use crate::request::{Flags, RequestId};
use crate::scene::Scene;

/// How far back a request may lie, and what that costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackSeek {
    /// In sectors.
    pub most: u64,
    /// Sectors ahead that one sector back is worth.
    pub penalty: u64,
    /// Requests with this flag go first.
    pub urgent: Flags,
}

impl BackSeek {
    /// The one of two requests that should go first, as seen from `head`.
    #[must_use]
    pub fn choose(
        &self,
        scene: &Scene,
        a: Option<RequestId>,
        b: Option<RequestId>,
        head: u64,
    ) -> Option<RequestId> {
        let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
        if first == second {
            return a;
        }
        let (one, other) = (&scene.requests[first], &scene.requests[second]);
        let preferred = [
            (one.is_sync(), other.is_sync()),
            (one.flags().intersects(self.urgent), other.flags().intersects(self.urgent)),
        ];
        for (ours, theirs) in preferred {
            if ours != theirs {
                return if ours { a } else { b };
            }
        }
        let (s, t) = (one.sector(), other.sector());
        let first_wins = match (self.cost(s, head), self.cost(t, head)) {
            (Some(x), Some(y)) if x != y => x < y,
            // As near: the one ahead.
            (Some(_), Some(_)) => s >= t,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => s <= t,
        };
        if first_wins { a } else { b }
    }

    /// How far a request is from the head; `None` if it has wrapped.
    const fn cost(&self, start: u64, head: u64) -> Option<u64> {
        if start >= head {
            Some(start - head)
        } else if start.saturating_add(self.most) >= head {
            Some((head - start).saturating_mul(self.penalty))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX: BackSeek = BackSeek { most: 2 * 16384, penalty: 2, urgent: Flags::META };

    /// What does going back cost, and how far back is too far? CFQ-9, CFQ-10: 40 back are 80, and
    /// 32,768 sectors back are the last that are not wrapped.
    #[test]
    fn going_back_costs_twice() {
        assert_eq!(LINUX.cost(1100, 1000), Some(100));
        assert_eq!(LINUX.cost(960, 1000), Some(80));
        assert_eq!(LINUX.cost(67_232, 100_000), Some(65_536));
        assert_eq!(LINUX.cost(67_231, 100_000), None);
    }
}
