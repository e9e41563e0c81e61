// SPDX-License-Identifier: MIT OR Apache-2.0
//! Back seek: which of two requests is nearer to the head, when going back costs more.
//!
//! A one-way elevator never turns; one that turns at every chance leaves the far end waiting. As a
//! compromise, a request a little behind the head counts as one `penalty` times as far ahead:
//!
//! ```text
//!            960        1000            1100
//!  ───────────┼──────────┼───────────────┼────▶ sectors
//!      40 back, costs 80  head  100 ahead, costs 100        960 goes first
//! ```
//!
//! A request further back than `most` has wrapped: it waits for the next sweep, the lowest first.
//!
//! Source: CFQ-9 to CFQ-11; BFQ-37.

use crate::op::Flags;
use crate::queue_view::QueueView;
use crate::request::RequestId;

/// How far back a request may be, and what that costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackSeek {
    /// In sectors.
    pub most: u64,
    /// The number of sectors ahead that one sector back equals.
    pub penalty: u64,
    /// Requests with this flag go first.
    pub urgent: Flags,
}

impl BackSeek {
    /// The one of two requests that goes first, as seen from `head`.
    #[inline]
    #[must_use]
    pub fn choose(
        &self,
        view: &QueueView,
        a: Option<RequestId>,
        b: Option<RequestId>,
        head: u64,
    ) -> Option<RequestId> {
        let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
        if first == second {
            return a;
        }
        let (one, other) = (&view.requests[first], &view.requests[second]);
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
            // At the same distance: the one ahead.
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
    use crate::device::DeviceFacts;
    use crate::op::Op;
    use crate::queue_view::Limits;
    use crate::request::Request;

    const LINUX: BackSeek = BackSeek { most: 2 * 16384, penalty: 2, urgent: Flags::META };

    /// The sector of the one that goes first, in either order of the two.
    fn first_of(two: [(Op, Flags, u64); 2], head: u64) -> u64 {
        let mut view = QueueView::new(DeviceFacts::default(), Limits::default(), false);
        let [a, b] = two.map(|(op, flags, sector)| {
            let request = Request { op, flags, sector, sectors: 8, ..Request::default() };
            let key = view.requests.0.insert(request).expect("there is room");
            Some(RequestId::from_index(key.index()))
        });
        let chosen = LINUX.choose(&view, a, b, head);
        assert_eq!(chosen, LINUX.choose(&view, b, a, head));
        assert_eq!((LINUX.choose(&view, a, None, head), LINUX.choose(&view, a, a, head)), (a, a));
        view.requests[chosen.expect("one of two")].sector()
    }

    fn first_read(sectors: [u64; 2], head: u64) -> u64 {
        first_of(sectors.map(|sector| (Op::Read, Flags::NONE, sector)), head)
    }

    /// What does going back cost? From 1000, 40 back are 80 and beat 100 ahead; 50 back are 100,
    /// and of two at the same distance the one ahead goes first.
    #[test]
    fn cfq_9_going_back_costs_twice() {
        assert_eq!(LINUX.cost(1100, 1000), Some(100));
        assert_eq!(LINUX.cost(960, 1000), Some(80));
        assert_eq!(first_read([1100, 960], 1000), 960);
        assert_eq!(first_read([1100, 950], 1000), 1100);
    }

    /// How far back is too far? 32,768 sectors back are the last that are not wrapped: they cost
    /// twice that, and go before one that has wrapped, which goes after one far ahead.
    #[test]
    fn cfq_10_too_far_back_is_the_next_sweep() {
        assert_eq!(LINUX.cost(67_232, 100_000), Some(65_536));
        assert_eq!(LINUX.cost(67_231, 100_000), None);
        assert_eq!(first_read([67_232, 100_000 + 65_537], 100_000), 67_232);
        assert_eq!(first_read([67_231, 67_232], 100_000), 67_232);
        assert_eq!(first_read([67_231, 1 << 30], 100_000), 1 << 30);
    }

    /// Of two that have wrapped, does the lower go first? And does a sync one go before an async
    /// one, and metadata before others, wherever they are, the former rule before the latter?
    #[test]
    fn cfq_11_wrapped_sync_and_urgent() {
        assert_eq!(first_read([10, 500], 100_000), 10);
        let [read, meta] = [Flags::NONE, Flags::META].map(|flags| (Op::Read, flags));
        let [write, urgent] = [Flags::NONE, Flags::META].map(|flags| (Op::Write, flags));
        let ask = |near: (Op, Flags), far: (Op, Flags)| {
            first_of([(near.0, near.1, 100_000), (far.0, far.1, 10)], 100_000)
        };
        assert_eq!(ask(write, read), 10);
        assert_eq!(ask(read, meta), 10);
        assert_eq!(ask(urgent, read), 10);
        assert_eq!(ask(read, urgent), 100_000);
    }
}
