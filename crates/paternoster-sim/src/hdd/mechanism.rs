// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mechanism: where arm and platters are, and how long it takes to get something under the head.
//!
//! ```text
//! now ──move──▶ arrival ──wait──▶ begin ──sectors pass──▶ end of track ──switch, wait──▶ …
//!      seek or head switch;  until the angle comes by
//!      settle before a write
//! ```
//!
//! The platters' angle is time modulo the revolution, so it is never stored. A read of 2 sectors at
//! angle 3.0 ms of a disk that turns in 8.0 ms: at time 81.0 ms the angle is 1.0; a seek of 4.0 ms
//! ends at angle 5.0; angle 3.0 comes 6.0 ms later, at 91.0 ms.
//!
//! # Invariants
//! I1  A sweep that begins where the last ended, at the time it ended, waits for nothing on the
//!     same track (I2 of `geometry.rs`).
//! I2  Positioning is less than the move and one revolution.
//!
//! # Not here
//! Spindle speed varies by a few parts in a thousand in a real disk; here it is exact. A moving arm
//! is never turned back.

use paternoster_core::Nanos;

use super::geometry::{Geometry, Place};
use super::seek::SeekTable;

/// What moves, and how fast.
#[derive(Debug, Clone)]
pub struct Mechanism {
    /// The layout.
    pub geometry: Geometry,
    /// The arm.
    pub seek: SeekTable,
    /// To another surface of the same cylinder.
    pub head_switch: Nanos,
    /// How much longer than a read a write settles after each move, in nanoseconds; negative where
    /// the seek curve was measured with writes.
    pub write_settle: i64,
    /// Whether a transfer begins with whichever of its sectors comes first, so that a track never
    /// takes more than one revolution after the arrival ("zero latency").
    pub zero_latency: bool,
}

/// Where the arm is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arm {
    cylinder: u32,
    head: u32,
}

/// A head on its way over sectors that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sweep {
    /// The sector that comes next.
    pub next: u64,
    /// When the one before it had passed, or when the sweep began.
    pub at: u64,
    /// Where the arm is.
    pub arm: Arm,
}

/// One transfer from or to the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// When the first sector began to pass the head.
    pub begin: u64,
    /// When the last had passed.
    pub end: u64,
    /// How long the head waited over the first track: sectors that pass meanwhile can be read for
    /// free.
    pub waited: u64,
}

impl Mechanism {
    /// How long the arm takes to the track of `place`.
    fn moving(&self, arm: Arm, place: &Place, write: bool) -> u64 {
        let distance = arm.cylinder.abs_diff(place.cylinder);
        let switch = if arm.head == place.head { 0 } else { self.head_switch.0 };
        let time = self.seek.time(distance).max(switch);
        if write && time > 0 { time.saturating_add_signed(self.write_settle) } else { time }
    }

    /// How long a head at `arm` waits at `time` until `place` begins to pass, moves included.
    #[must_use]
    pub fn positioning(&self, arm: Arm, time: u64, place: &Place, write: bool) -> u64 {
        let moving = self.moving(arm, place, write);
        moving + self.waiting(time + moving, place)
    }

    /// How long until `place` passes a head that is over its track at `arrival`.
    fn waiting(&self, arrival: u64, place: &Place) -> u64 {
        let revolution = self.geometry.revolution();
        let angle = arrival % revolution;
        if place.angle >= angle { place.angle - angle } else { place.angle + revolution - angle }
    }

    /// Reads or writes `[sector, end)` from `now` on; `earliest` is when there are data to write.
    /// Leaves the arm where it ends.
    pub fn access(
        &self,
        arm: &mut Arm,
        now: u64,
        extent: (u64, u64),
        write: bool,
        earliest: u64,
    ) -> Access {
        self.access_by_stretch(arm, now, extent, write, earliest, |_, _| ())
    }

    /// The same; `stretch` is told of every track when its first sector has passed, and how many
    /// are to come then, that one included.
    pub fn access_by_stretch(
        &self,
        arm: &mut Arm,
        now: u64,
        extent: (u64, u64),
        write: bool,
        earliest: u64,
        mut stretch: impl FnMut(u64, u64),
    ) -> Access {
        let (sector, end) = extent;
        let mut next = sector;
        let mut access = Access { begin: now, end: now, waited: 0 };
        while next < end || next == sector {
            let place = self.geometry.place(next);
            let arrival = (access.end + self.moving(*arm, &place, write)).max(earliest);
            let waited = self.waiting(arrival, &place);
            let sectors = self.on_track(&place, next, end);
            let mut time = waited + self.geometry.passing(&place, sectors);
            if self.zero_latency {
                time = time.min(self.geometry.revolution());
            }
            if next == sector {
                access = Access { begin: arrival + waited, end: arrival, waited };
            }
            stretch(arrival + waited + self.geometry.passing(&place, sectors.min(1)), end - next);
            access.end = arrival + time;
            *arm = Arm { cylinder: place.cylinder, head: place.head };
            next += u64::from(sectors.max(1));
        }
        access
    }

    /// How many of `[next, end)` lie on the track of `place`, which is that of `next`.
    fn on_track(&self, place: &Place, next: u64, end: u64) -> u32 {
        u32::try_from(end - next).unwrap_or(u32::MAX).min(place.left)
    }

    /// Reads on from where the sweep is, until it reaches `limit` or the time is `deadline`.
    pub fn sweep(&self, sweep: &mut Sweep, limit: u64, deadline: u64) {
        while sweep.next < limit {
            let place = self.geometry.place(sweep.next);
            let begin = sweep.at + self.positioning(sweep.arm, sweep.at, &place, false);
            if begin >= deadline {
                return;
            }
            let whole = self.on_track(&place, sweep.next, limit);
            let sectors = whole.min(self.geometry.passed(&place, deadline - begin));
            if sectors > 0 {
                sweep.next += u64::from(sectors);
                sweep.at = begin + self.geometry.passing(&place, sectors);
                sweep.arm = Arm { cylinder: place.cylinder, head: place.head };
            }
            if sectors < whole {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::Zone;
    use super::super::seek::Curve;
    use super::*;

    const MS: u64 = 1_000_000;

    /// 8 ms a turn, 2 heads, 80 sectors of 0.1 ms a track; 1 ms to switch heads and to the next
    /// cylinder, 4 ms over ten; skews of 1 ms.
    fn mechanism() -> Mechanism {
        let skew = Nanos::from_millis(1);
        let zone = Zone {
            cylinders: 20,
            track_sectors: 80,
            sectors: 0,
            track_skew: skew,
            cylinder_skew: skew,
        };
        let points = vec![(1, Nanos(MS)), (10, Nanos(4 * MS))];
        Mechanism {
            geometry: Geometry::new(2, Nanos(8 * MS), &[zone]),
            seek: SeekTable::new(&Curve::Points(points), 20),
            head_switch: skew,
            write_settle: 500_000,
            zero_latency: false,
        }
    }

    /// Is the example above right? Cylinder 10, head 0 is track 20: its skew is 20 ms = angle 4.0;
    /// sector 70 of it lies 7.0 ms further, at 11.0 = angle 3.0. From angle 1.0 at time 81 ms the
    /// head is there at 91.0 and two sectors later at 91.2.
    #[test]
    fn seek_then_wait_for_the_angle() {
        let mechanism = mechanism();
        let sector = 20 * 80 + 70;
        assert_eq!(mechanism.geometry.place(sector).angle, 3 * MS);
        let mut arm = Arm::default();
        let access = mechanism.access(&mut arm, 81 * MS, (sector, sector + 2), false, 0);
        assert_eq!((access.begin, access.end), (91 * MS, 91 * MS + MS / 5));
        assert_eq!(arm, Arm { cylinder: 10, head: 0 });
    }

    /// Does a write settle longer, and wait for its data? The head is there at angle 5.5 instead
    /// of 5.0, which 3.0 follows in the same turn; data that come at 92 ms have missed it, and the
    /// next turn begins at 99 ms.
    #[test]
    fn writes_settle_and_wait_for_data() {
        let mechanism = mechanism();
        let extent = (20 * 80 + 70, 20 * 80 + 72);
        let access = mechanism.access(&mut Arm::default(), 81 * MS, extent, true, 0);
        assert_eq!(access.begin, 91 * MS);
        let access = mechanism.access(&mut Arm::default(), 81 * MS, extent, true, 92 * MS);
        assert_eq!(access.begin, 99 * MS);
    }

    /// Does a write arrive sooner where the settling is negative, but never before it started? The
    /// move of 4 ms takes 1 ms less; one of 1 ms takes none at -2 ms.
    #[test]
    fn writes_may_settle_faster() {
        let mut mechanism = mechanism();
        mechanism.write_settle = -1_000_000;
        let arm = Arm::default();
        let far = mechanism.geometry.place(20 * 80);
        assert_eq!(mechanism.moving(arm, &far, false), 4 * MS);
        assert_eq!(mechanism.moving(arm, &far, true), 3 * MS);
        mechanism.write_settle = -2_000_000;
        let near = mechanism.geometry.place(80);
        assert_eq!(mechanism.moving(arm, &near, true), 0);
    }

    /// Do skews hide the switches? 240 sectors from 0 on are three tracks of 8 ms with two
    /// switches of 1 ms between: 26 ms, and not three turns more.
    #[test]
    fn skew_hides_the_switch() {
        let access = mechanism().access(&mut Arm::default(), 0, (0, 240), false, 0);
        assert_eq!((access.begin, access.end), (0, 26 * MS));
    }

    /// Is every track of a transfer told of? 120 sectors from 40 on: the first has passed at 4.1
    /// ms; 80 are left when the next track begins at 9.0 ms, and the first of these has passed at
    /// 9.1.
    #[test]
    fn stretches_are_told() {
        let mut told = Vec::new();
        let stretch = |passed, left| told.push((passed, left));
        mechanism().access_by_stretch(&mut Arm::default(), 0, (40, 160), false, 0, stretch);
        assert_eq!(told, [(4_100_000, 120), (9_100_000, 80)]);
    }

    /// Does a whole track take one revolution from any angle, if the disk begins anywhere? From
    /// angle 3.0 it would be 5.0 + 8.0 ms otherwise.
    #[test]
    fn zero_latency_takes_one_revolution() {
        let mut mechanism = mechanism();
        let track = (0, 80);
        let access = mechanism.access(&mut Arm::default(), 3 * MS, track, false, 0);
        assert_eq!(access.end, 16 * MS);
        mechanism.zero_latency = true;
        let access = mechanism.access(&mut Arm::default(), 3 * MS, track, false, 0);
        assert_eq!((access.begin, access.end), (8 * MS, 11 * MS));
    }

    /// Does a sweep in any steps reach the same place as in one (I1)? 240 sectors end at 26 ms; in
    /// between it stops inside a track, at its end, and during a switch.
    #[test]
    fn a_sweep_in_steps_is_a_sweep() {
        let mechanism = mechanism();
        let mut steps = Sweep::default();
        for (deadline, next) in [(450_000, 4), (8 * MS, 80), (8 * MS + 5, 80), (9_300_000, 83)] {
            mechanism.sweep(&mut steps, 240, deadline);
            assert_eq!(steps.next, next, "at {deadline}");
        }
        mechanism.sweep(&mut steps, 240, u64::MAX);
        let mut whole = Sweep::default();
        mechanism.sweep(&mut whole, 240, u64::MAX);
        assert_eq!(steps, whole);
        assert_eq!((whole.at, whole.next), (26 * MS, 240));
    }
}
