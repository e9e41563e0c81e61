// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does a cache of segments hold, read ahead and evict as `segments.rs` says, by hand?

use super::*;
use crate::hdd::geometry::{Geometry, Zone};
use crate::hdd::read_ahead::Until;
use crate::hdd::seek::{Curve, SeekTable};
use paternoster_core::Nanos;

const MS: u64 = 1_000_000;

/// One surface, 80 sectors of 0.1 ms a track, 8 ms a turn, 1 ms to the next cylinder.
fn mechanism() -> Mechanism {
    let zone = Zone {
        cylinders: 100,
        track_sectors: 80,
        sectors: 0,
        track_skew: Nanos(MS),
        cylinder_skew: Nanos(MS),
    };
    Mechanism {
        geometry: Geometry::new(1, Nanos(8 * MS), &[zone]),
        seek: SeekTable::new(&Curve::Points(vec![(1, Nanos(MS))]), 100),
        head_switch: Nanos(0),
        write_settle: 0,
        zero_latency: false,
    }
}

fn segments(count: u32) -> Segments {
    let read_ahead = ReadAhead::of(40);
    let written = Written::Apart;
    Segments::new(SegmentSizes {
        count,
        sectors: 60,
        read_ahead,
        written,
        keep_before: false,
        almost_hits: true,
        disjoint: false,
    })
}

/// Reads `[sector, end)` on the outermost track in its turn.
fn read(segments: &mut Segments, mechanism: &Mechanism, sector: u64, end: u64) {
    let sweep = Sweep { next: end, at: end * MS / 10, ..Sweep::default() };
    segments.filled(mechanism, sector, 0, sweep);
}

/// Does the head read ahead in its own time, and no further than 40? [0, 10) is there at 1 ms;
/// at 2 ms 20 sectors have passed; sectors 20 to 30 are there at 3 ms; the stream has its limit
/// at 10 + 40.
#[test]
fn the_head_reads_ahead() {
    let (mechanism, mut segments) = (mechanism(), segments(1));
    read(&mut segments, &mechanism, 0, 10);
    let found = segments.find(&mechanism, 2 * MS, (10, 20), false);
    assert_eq!(found, Found::All(2 * MS));
    assert_eq!(segments.find(&mechanism, 2 * MS, (20, 30), false), Found::Nothing);
    let stopped = segments.stop(&mechanism, 100 * MS).unwrap();
    assert_eq!((stopped.next, stopped.at), (50, 5 * MS));
    assert_eq!(segments.find(&mechanism, 100 * MS, (45, 55), true), Found::Until(50));
}

/// Does a reader that follows get sectors as the head reaches them? At 2 ms sectors 20 to 30
/// are 1 ms away. That moves the limit of reading ahead to 30 + 40, so 50 to 65 are there at
/// 6.5 ms. The segment holds 60 sectors, so everything before 5 is gone.
#[test]
fn a_follower_waits_for_the_head() {
    let (mechanism, mut segments) = (mechanism(), segments(1));
    read(&mut segments, &mechanism, 0, 10);
    assert_eq!(segments.find(&mechanism, 2 * MS, (20, 30), true), Found::All(3 * MS));
    let found = segments.find(&mechanism, 5 * MS, (50, 65), true);
    assert_eq!(found, Found::All(6_500_000));
    assert_eq!(segments.find(&mechanism, 7 * MS, (2, 12), true), Found::Nothing);
    assert_eq!(segments.find(&mechanism, 7 * MS, (12, 20), true), Found::All(7 * MS));
}

/// Do two streams keep their segments, and does a third take the one used longest ago?
#[test]
fn least_recently_used_goes() {
    let (mechanism, mut segments) = (mechanism(), segments(2));
    for (first, end) in [(0, 10), (1000, 1010)] {
        read(&mut segments, &mechanism, first, end);
        segments.stop(&mechanism, 0);
    }
    assert_eq!(segments.find(&mechanism, MS, (0, 10), false), Found::All(MS));
    read(&mut segments, &mechanism, 2000, 2010);
    segments.stop(&mechanism, 0);
    assert_eq!(segments.find(&mechanism, MS, (0, 10), false), Found::All(MS));
    assert_eq!(segments.find(&mechanism, MS, (1000, 1010), false), Found::Nothing);
}

/// Do writes evict what was read, answer reads, and grow when appended to? With 2 segments, of
/// which one may hold writes: the read of 0 was used longest ago, so a write of 500 takes its
/// place; the next write replaces that write, as only one segment may hold what is dirty; a
/// write that follows it on the disk joins it. When all that is on the medium, the next write
/// takes the segment used longest ago, which is that of the read of 1000.
#[test]
fn writes_share_the_segments() {
    let (mechanism, mut segments) = (mechanism(), segments(2));
    segments.sizes.written = Written::Shared(1);
    for (first, end) in [(0, 10), (1000, 1010)] {
        read(&mut segments, &mechanism, first, end);
        segments.stop(&mechanism, 0);
    }
    assert!(segments.wrote(&mechanism, MS, (500, 508), |_, _| true).is_none());
    assert_eq!(segments.find(&mechanism, MS, (0, 10), false), Found::Nothing);
    assert_eq!(segments.find(&mechanism, MS, (500, 508), false), Found::All(MS));
    segments.wrote(&mechanism, MS, (700, 708), |_, _| true);
    assert_eq!(segments.find(&mechanism, MS, (500, 508), false), Found::Nothing);
    assert_eq!(segments.find(&mechanism, MS, (1000, 1010), false), Found::All(MS));
    segments.wrote(&mechanism, MS, (708, 716), |_, _| true);
    assert_eq!(segments.find(&mechanism, MS, (700, 716), false), Found::All(MS));
    let written = segments.segments.iter().filter(|segment| segment.written).count();
    assert_eq!(written, 1);
    segments.wrote(&mechanism, MS, (900, 908), |_, _| false);
    assert_eq!(segments.find(&mechanism, MS, (1000, 1010), false), Found::Nothing);
    assert_eq!(segments.find(&mechanism, MS, (700, 716), false), Found::All(MS));
}

/// Does a segment reserved for writes leave reads theirs? Of 2 segments the second is for
/// writes, so the only one for reads holds the last read.
#[test]
fn writes_have_their_own_segment() {
    let (mechanism, mut segments) = (mechanism(), segments(2));
    segments.sizes.written = Written::Own(1);
    read(&mut segments, &mechanism, 0, 10);
    segments.stop(&mechanism, 0);
    segments.wrote(&mechanism, MS, (500, 508), |_, _| true);
    assert_eq!(segments.find(&mechanism, MS, (0, 10), false), Found::All(MS));
    read(&mut segments, &mechanism, 1000, 1010);
    segments.stop(&mechanism, MS);
    assert_eq!(segments.find(&mechanism, MS, (0, 10), false), Found::Nothing);
    assert_eq!(segments.find(&mechanism, MS, (500, 508), false), Found::All(MS));
}

/// Does a write that takes the streaming segment stop the head, and does a hit make the head
/// begin anew only where configured? At 2 ms the head has come to 20 and is to stop at 50; a
/// read of [10, 20) is answered while it reads on, so it stops at 20 + 40. It is there at 6 ms,
/// and a read of [20, 30) at 7 ms does not move it.
#[test]
fn hits_and_writes_and_the_stream() {
    let (mechanism, mut segments) = (mechanism(), segments(1));
    segments.sizes.read_ahead.on_hit = false;
    segments.sizes.written = Written::Shared(1);
    read(&mut segments, &mechanism, 0, 10);
    assert_eq!(segments.find(&mechanism, 2 * MS, (10, 20), true), Found::All(2 * MS));
    assert_eq!(segments.stream.unwrap().limit, 60);
    assert_eq!(segments.find(&mechanism, 7 * MS, (20, 30), true), Found::All(7 * MS));
    assert_eq!(segments.stream.unwrap().limit, 60);
    let stopped = segments.wrote(&mechanism, 7 * MS, (500, 508), |_, _| true).unwrap();
    assert_eq!(stopped.next, 60);
    assert!(segments.stream.is_none());
}

/// Do almost hits miss where they are none? At 2 ms the head has come to 20: a read that begins
/// there misses, one of [15, 25) waits for the head, 2.5 ms, and moves its limit to 65. At 100
/// ms it has stopped there, and [60, 70) is held as far as that; with almost hits it would have
/// all be read on.
#[test]
fn almost_hits_miss_where_they_are_none() {
    for almost_hits in [false, true] {
        let (mechanism, mut segments) = (mechanism(), segments(1));
        segments.sizes.almost_hits = almost_hits;
        read(&mut segments, &mechanism, 0, 10);
        let next = segments.find(&mechanism, 2 * MS, (20, 30), false);
        assert_eq!(next, Found::Nothing);
        assert_eq!(segments.find(&mechanism, 2 * MS, (15, 25), true), Found::All(2_500_000));
        let beyond = segments.find(&mechanism, 100 * MS, (60, 70), true);
        assert_eq!(beyond == Found::Until(65), !almost_hits, "{beyond:?}");
        let at_end = segments.find(&mechanism, 200 * MS, (70, 75), true);
        assert_eq!(at_end == Found::Nothing, !almost_hits, "{at_end:?}");
    }
}

/// Is no sector in two segments where that is so? Of what the first read left, [0, 50), a write
/// of [45, 47) leaves nothing, and neither does a read of [48, 60), which begins before its end.
/// Otherwise [0, 45) stays after the write, and all after the read.
#[test]
fn segments_may_be_disjoint() {
    for disjoint in [false, true] {
        for write in [false, true] {
            let (mechanism, mut segments) = (mechanism(), segments(2));
            segments.sizes.disjoint = disjoint;
            segments.sizes.keep_before = true;
            read(&mut segments, &mechanism, 0, 10);
            segments.stop(&mechanism, 50 * MS);
            if write {
                assert!(segments.forget(&mechanism, 50 * MS, (45, 47)).is_none());
            } else {
                let sweep = Sweep { next: 70, at: 50 * MS, ..Sweep::default() };
                segments.filled(&mechanism, 55, 7, sweep);
            }
            let found = segments.find(&mechanism, 50 * MS, (0, 5), false);
            assert_eq!(found == Found::Nothing, disjoint, "{write} {found:?}");
        }
    }
}

/// Does the head follow into the next track only a reader whom it has seen on the track before?
/// After [60, 70) it stops at that track's end, 80; when the reader has come to [90, 100) in the
/// same segment, it stops at the end of the next track, 240. A reader of [90, 100) alone has
/// made it stop at 160, though a segment of another reader holds something of the first track.
#[test]
fn a_stream_is_followed_in_its_segment() {
    let (mechanism, mut segments) = (mechanism(), segments(2));
    segments.sizes.sectors = 500;
    segments.sizes.read_ahead.most = 500;
    segments.sizes.read_ahead.until = Until::Follow;
    let mut limit_after = |sector: u64, end: u64, held: u64| {
        let at = (sector + 200) * MS;
        let sweep = Sweep { next: end, at, ..Sweep::default() };
        segments.filled(&mechanism, held, 0, sweep);
        let limit = segments.stream.unwrap().limit;
        segments.stop(&mechanism, at);
        limit
    };
    assert_eq!(limit_after(60, 70, 60), 80);
    assert_eq!(limit_after(90, 100, 90), 160);
    assert_eq!(limit_after(70, 100, 70), 240);
}

/// Does overwriting invalidate what was held, and end the stream if that was its segment?
#[test]
fn overwritten_sectors_are_void() {
    let (mechanism, mut segments) = (mechanism(), segments(1));
    read(&mut segments, &mechanism, 0, 10);
    assert!(segments.forget(&mechanism, 2 * MS, (60, 70)).is_none());
    assert!(segments.forget(&mechanism, 2 * MS, (5, 7)).is_some());
    assert_eq!(segments.find(&mechanism, 3 * MS, (0, 5), true), Found::All(3 * MS));
    assert_eq!(segments.find(&mechanism, 3 * MS, (0, 6), true), Found::Until(5));
}
