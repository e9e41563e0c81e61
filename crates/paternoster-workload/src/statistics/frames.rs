// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames: how many a player has read, how many of them came too late, and by how much.
//!
//! A frame has one time, from when it was due until it was complete; the longest of them says how
//! close the frames in time came to being late.
//!
//! Source: see `fio/frames.rs`.

use paternoster_core::Nanos;

use crate::fio::frames::{FrameEnd, Unread};

/// Counts of a player's frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    count: u64,
    late: u64,
    unread: u64,
    worst: Nanos,
    longest: Nanos,
}

impl Frames {
    /// A frame was complete.
    pub fn ended(&mut self, end: FrameEnd) {
        self.count += 1;
        self.late += u64::from(end.lateness > Nanos::ZERO);
        self.worst = self.worst.max(end.lateness);
        self.longest = self.longest.max(end.took);
    }

    /// At the end of the job these were never complete.
    pub fn unread_at_end(&mut self, unread: Unread) {
        self.ended(unread.first);
        // The others are late too, and less.
        self.count += unread.count - 1;
        self.late += unread.count - 1;
        self.unread += unread.count;
    }

    /// Takes in those of another player.
    pub fn merge(&mut self, other: &Frames) {
        self.count += other.count;
        self.late += other.late;
        self.unread += other.unread;
        self.worst = self.worst.max(other.worst);
        self.longest = self.longest.max(other.longest);
    }

    /// Frames whose fate is known: those that were complete, and those that were late at the end.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Frames that were complete after their deadline, or not at all.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Late frames that were not complete at the end.
    #[must_use]
    pub const fn unread(&self) -> u64 {
        self.unread
    }

    /// How long after its deadline the worst was complete; zero if none was late.
    #[must_use]
    pub const fn worst(&self) -> Nanos {
        self.worst
    }

    /// The longest time from when a frame was due until it was complete.
    #[must_use]
    pub const fn longest(&self) -> Nanos {
        self.longest
    }

    /// Late frames in per cent.
    #[must_use]
    pub fn late_per_cent(&self) -> f64 {
        super::distribution::per_cent(self.late, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do counts add up? One in time, one 3 ms late, four unread of which the first is 160 ms late;
    /// then the same twice.
    #[test]
    fn frames_add_up() {
        let end = |took: u64, lateness: u64| FrameEnd {
            took: Nanos::from_millis(took),
            lateness: Nanos::from_millis(lateness),
        };
        let mut frames = Frames::default();
        frames.ended(end(20, 0));
        frames.ended(end(43, 3));
        assert_eq!((frames.count(), frames.late(), frames.worst()), (2, 1, Nanos::from_millis(3)));
        frames.unread_at_end(Unread { count: 4, first: end(200, 160) });
        assert_eq!((frames.count(), frames.late(), frames.unread()), (6, 5, 4));
        let times = (Nanos::from_millis(160), Nanos::from_millis(200));
        assert_eq!((frames.worst(), frames.longest()), times);
        let once = frames;
        frames.merge(&once);
        assert_eq!((frames.count(), frames.late(), frames.unread()), (12, 10, 8));
        assert_eq!((frames.worst(), frames.longest()), times);
        // 10 of 12.
        assert!((frames.late_per_cent() - 1000.0 / 12.0).abs() < 1e-9);
    }
}
