// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backlog: how many I/Os are in flight, and whether a device keeps up with arrivals.
//!
//! In an open loop I/Os come whatever the device does. On a device that is too slow more and more
//! of them pile up, and latencies reflect the length of the recording rather than the device:
//!
//! ```text
//! in flight │            ╱╲           most 5,120
//!           │        ╱╱    ╲
//!           │ ▁▂▁╱╱         ╲
//!           └──────────────┬──┬──▶    at the last arrival 4,800; the device goes on for 12 s
//! ```
//!
//! A replay falls behind if at its last arrival it has more I/Os in flight than the recording ever
//! had, and then works for more than a twentieth of the time before.

use paternoster_core::Nanos;

/// How many I/Os were in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Most I/Os in flight.
    pub most: u64,
    /// When the last one had come.
    pub at_last_arrival: u64,
    /// From the first to the last arrival.
    pub arriving: Nanos,
    /// From the last arrival to the last end.
    pub draining: Nanos,
}

impl Backlog {
    /// The backlog of I/Os that came and ended at these times; those without an end do not count.
    #[must_use]
    pub fn of(ios: impl Iterator<Item = (Nanos, Option<Nanos>)>) -> Backlog {
        let known = ios.filter_map(|(came, ended)| Some((came, ended?)));
        let (mut came, mut ended): (Vec<Nanos>, Vec<Nanos>) = known.unzip();
        came.sort_unstable();
        ended.sort_unstable();
        let (Some(first), Some(last)) = (came.first(), came.last()) else {
            return Backlog::default();
        };
        let mut done = 0;
        let mut most = 0;
        for (arrived, at) in came.iter().enumerate() {
            while ended.get(done).is_some_and(|end| end <= at) {
                done += 1;
            }
            // In this order an I/O that takes no time has ended before it came.
            most = most.max((arrived + 1).saturating_sub(done));
        }
        let draining = ended.last().map_or(Nanos::ZERO, |end| *end - *last);
        let at_last_arrival = came.len().saturating_sub(done) as u64;
        Backlog { most: most as u64, at_last_arrival, arriving: *last - *first, draining }
    }

    /// Whether the device fell behind, compared with the recording.
    #[must_use]
    pub fn falls_behind(&self, recorded: &Backlog) -> bool {
        self.at_last_arrival > recorded.most && self.draining.0 > self.arriving.0 / 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_ms(count: u64, takes_ms: impl Fn(u64) -> u64) -> Backlog {
        let io = |n| (Nanos::from_millis(n), Some(Nanos::from_millis(n + takes_ms(n))));
        Backlog::of((0..count).map(io))
    }

    /// Does a device fall behind if it takes longer and longer, but not if it is merely slower? 100
    /// I/Os come in 99 ms. If number n takes 1 + n ms, it ends at 1 + 2n: when the last one comes
    /// at 99, those up to 49 have ended, 50 are in flight, and the last ends 100 ms later. If each
    /// takes 10 ms, at most 10 are in flight.
    #[test]
    fn behind_is_not_slow() {
        let recorded = every_ms(100, |_| 1);
        assert_eq!((recorded.most, recorded.at_last_arrival), (1, 1));
        let behind = every_ms(100, |n| 1 + n);
        assert_eq!((behind.most, behind.at_last_arrival), (50, 50));
        assert_eq!(behind.draining, Nanos::from_millis(100));
        assert!(behind.falls_behind(&recorded));
        let slow = every_ms(1000, |_| 10);
        assert_eq!((slow.most, slow.draining), (10, Nanos::from_millis(10)));
        assert!(!slow.falls_behind(&recorded));
    }

    /// Is the backlog of no I/Os empty?
    #[test]
    fn nothing_is_nothing() {
        assert_eq!(Backlog::of([(Nanos(5), None)].into_iter()), Backlog::default());
    }
}
