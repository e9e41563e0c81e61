// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read-ahead: how far the head reads on beyond the requested sectors.
//!
//! Firmware differs in where it stops. A read of sectors 20 to 28 of a track that has 100, with a
//! segment of 60:
//!
//! ```text
//! none       |20..28|                               nothing
//! segment    |20..28|=============>88               until the segment is full
//! track      |20..28|=================>100          the end of the track (and of the segment)
//! cylinder   |20..28|======= ... the end of the last track of the cylinder
//! follow     |20..28|=================>100 ... 200  the next track too, if this read came from
//!                                                   the one before
//! ```
//!
//! Whatever the kind, at most `most` sectors are read ahead; where the requested sectors must stay
//! in their segment, they take up part of its room.
//!
//! # Invariants
//! I1  The limit is neither before the end of the requested sectors nor beyond the disk's.
//!
//! Source: the kinds that DiskSim's reference manual names ("Buffer continuous read", "Maximum
//! read-ahead", "Read-ahead over requested", "Read-ahead on idle hit"); `docs/models/hdd.md`.

use super::geometry::Geometry;

/// Where reading ahead stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// There is no read-ahead.
    Nothing,
    /// At the end of the track.
    Track,
    /// At the end of the cylinder.
    Cylinder,
    /// When the segment is full.
    #[default]
    Segment,
    /// At the end of the track; of the next one if a segment holds something of the track before.
    Follow,
}

impl Until {
    /// All, with their keywords in a device file.
    pub const WORDS: [(&str, Until); 5] = [
        ("nothing", Until::Nothing),
        ("track", Until::Track),
        ("cylinder", Until::Cylinder),
        ("segment", Until::Segment),
        ("follow", Until::Follow),
    ];
}

/// How a disk reads ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAhead {
    /// Where it stops.
    pub until: Until,
    /// Sectors beyond the requested ones, at most; no more than a segment.
    pub most: u64,
    /// Whether the requested sectors may be evicted from their segment.
    pub over_requested: bool,
    /// Whether a read hit makes the head read on.
    pub on_hit: bool,
}

impl ReadAhead {
    /// Until the segment is full, but at most `most` sectors.
    #[must_use]
    pub const fn of(most: u64) -> ReadAhead {
        ReadAhead { until: Until::Segment, most, over_requested: true, on_hit: true }
    }

    /// The sector before which the head stops after a read of `[sector, end)`, in a segment of
    /// `room` sectors. `came` says whether a segment holds any of a range of sectors.
    pub(crate) fn limit(
        &self,
        geometry: &Geometry,
        (sector, end): (u64, u64),
        room: u64,
        came: impl Fn(u64, u64) -> bool,
    ) -> u64 {
        let mut limit = end.saturating_add(self.most).min(geometry.capacity());
        if !self.over_requested {
            limit = limit.min(sector.saturating_add(room));
        }
        let to = match self.until {
            Until::Segment => limit,
            Until::Nothing => end,
            Until::Track => geometry.track(end - 1).1,
            Until::Cylinder => cylinder_end(geometry, end - 1),
            Until::Follow => {
                let (first, last) = geometry.track(end - 1);
                let follows = first.checked_sub(1).is_some_and(|before| {
                    let (before, _) = geometry.track(before);
                    sector < first || came(before, first)
                });
                if follows { geometry.track(last).1 } else { last }
            }
        };
        limit.min(to).max(end)
    }
}

/// The sector after the last one of the cylinder of `sector`.
fn cylinder_end(geometry: &Geometry, sector: u64) -> u64 {
    let cylinder = geometry.place(sector).cylinder;
    let mut end = geometry.track(sector).1;
    while end < geometry.capacity() && geometry.place(end).cylinder == cylinder {
        end = geometry.track(end).1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::super::geometry::Zone;
    use super::*;
    use paternoster_core::Nanos;

    /// Ten cylinders of two tracks, each of 100 sectors.
    fn geometry() -> Geometry {
        let zone = Zone {
            cylinders: 10,
            track_sectors: 100,
            sectors: 0,
            track_skew: Nanos(0),
            cylinder_skew: Nanos(0),
        };
        Geometry::new(2, Nanos(1000), &[zone])
    }

    /// Where does each kind stop? [120, 128) lies on the second track of the first cylinder, whose
    /// end is 200; the next track ends at 300. The segment of 60 is full at 188 with a `most` of
    /// 60, and at 180 if the requested sectors must stay. [90, 110) comes from the track before.
    #[test]
    fn kinds_stop_where_they_say() {
        let geometry = geometry();
        let limit = |until, most, over_requested, (sector, end), came| {
            let ahead = ReadAhead { until, most, over_requested, on_hit: true };
            ahead.limit(&geometry, (sector, end), 60, |_, _| came)
        };
        let read = (120, 128);
        for (until, stops) in [
            (Until::Nothing, 128),
            (Until::Track, 200),
            (Until::Cylinder, 200),
            (Until::Segment, 628),
            (Until::Follow, 200),
        ] {
            assert_eq!(limit(until, 500, true, read, false), stops, "{until:?}");
        }
        assert_eq!(limit(Until::Cylinder, 500, true, (20, 28), false), 200);
        assert_eq!(limit(Until::Follow, 500, true, read, true), 300);
        assert_eq!(limit(Until::Follow, 500, true, (90, 110), false), 300);
        assert_eq!(limit(Until::Follow, 500, true, (20, 28), true), 100);
        assert_eq!(limit(Until::Segment, 60, true, read, false), 188);
        assert_eq!(limit(Until::Segment, 60, false, read, false), 180);
    }

    /// Does no kind leave the disk, or stop before the end of the request (I1)? Its last sector is
    /// 1999; [1990, 2000) fills more than a segment of 5.
    #[test]
    fn the_limit_lies_on_the_disk() {
        let geometry = geometry();
        for (_, until) in Until::WORDS {
            for over_requested in [false, true] {
                let ahead = ReadAhead { until, most: 70, over_requested, on_hit: true };
                let at_end = ahead.limit(&geometry, (1990, 2000), 5, |_, _| true);
                assert_eq!(at_end, 2000, "{until:?}");
                for sector in 0..1980 {
                    let end = sector + 20;
                    let limit = ahead.limit(&geometry, (sector, end), 60, |_, _| true);
                    assert!((end..=2000).contains(&limit), "{until:?} {sector} {limit}");
                }
            }
        }
    }
}
