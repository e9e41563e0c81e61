// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments: what was read, and what the disk reads ahead.
//!
//! The cache is cut into a few segments of equal size, one for each stream that the disk can
//! follow. A segment holds sectors that follow each other. After a read the head reads on as long
//! as no command needs it elsewhere: the *stream*. It is computed lazily, as a sweep that is
//! brought up to date when needed:
//!
//! ```text
//! segment   first ─────────── end        stream.limit
//!           |== read =|== ahead ==|..........|
//!             requested            ▲ head now   the requested end + read-ahead
//! ```
//!
//! A read of what is in a segment is a *hit*; one that begins in the streaming segment and goes on
//! beyond its end waits until the head gets there, which is why a sequential reader at depth 1 gets
//! the rate of the medium. A stream that has reached its limit goes on when the reader has followed
//! it, unless hits do not move the head (`read_ahead.rs` says how far it goes).
//!
//! On some disks *written* data take a segment too ([`Written`]), answer reads from there, and
//! evict what was read.
//!
//! # Invariants
//! I1  A segment is never longer than its size.
//! I2  Only one segment is streaming, and its end is the stream's next sector.
//! I3  Segments with written data are never more than allowed.
//!
//! # Not here
//! Segments that change size, or that are split when there are many streams.

use super::mechanism::{Mechanism, Sweep};
use super::read_ahead::ReadAhead;

/// Sectors in the cache that follow each other.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    first: u64,
    end: u64,
    /// When it was last used, in uses of the cache.
    used: u64,
    /// Whether it was filled by a write.
    written: bool,
}

/// The head reading ahead.
#[derive(Debug, Clone, Copy)]
struct Stream {
    segment: usize,
    sweep: Sweep,
    /// When the requested sectors had been read.
    since: u64,
    /// Where it stops.
    limit: u64,
}

/// What the cache has of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// All of it, now or soon: complete at this time.
    All(u64),
    /// The part before this sector.
    Until(u64),
    /// Nothing of its beginning.
    Nothing,
}

/// Which segments take what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Written {
    /// None: the write cache is separate memory, and drained data are no longer held.
    #[default]
    Apart,
    /// This many, which take nothing else.
    Own(u32),
    /// Any, but at most this many at a time.
    Shared(u32),
}

/// How large the cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSizes {
    /// Segments; 0 for a disk without a read cache.
    pub count: u32,
    /// Sectors in each.
    pub sectors: u64,
    /// How the disk reads ahead.
    pub read_ahead: ReadAhead,
    /// Which of them take what is written.
    pub written: Written,
    /// Whether sectors that pass the head before those asked for are kept.
    pub keep_before: bool,
}

/// The read cache.
#[derive(Debug, Clone)]
pub struct Segments {
    sizes: SegmentSizes,
    segments: Vec<Segment>,
    stream: Option<Stream>,
    uses: u64,
}

impl Segments {
    /// An empty cache.
    #[must_use]
    pub fn new(sizes: SegmentSizes) -> Segments {
        let segments = vec![Segment::default(); sizes.count as usize];
        Segments { sizes, segments, stream: None, uses: 0 }
    }

    /// Brings the stream up to `now`.
    pub fn catch_up(&mut self, mechanism: &Mechanism, now: u64) {
        let Some(stream) = &mut self.stream else { return };
        if now <= stream.sweep.at {
            return;
        }
        mechanism.sweep(&mut stream.sweep, stream.limit, now);
        let segment = &mut self.segments[stream.segment];
        segment.end = stream.sweep.next;
        segment.first = segment.first.max(segment.end.saturating_sub(self.sizes.sectors));
    }

    /// Ends the stream at `now`; returns where its head is.
    pub fn stop(&mut self, mechanism: &Mechanism, now: u64) -> Option<Sweep> {
        self.catch_up(mechanism, now);
        self.stream.take().map(|stream| stream.sweep)
    }

    /// What the cache has of `[sector, end)` at `now`. If `may_stream`, the read may wait for
    /// sectors that the stream has not reached, and the stream goes on beyond them.
    pub fn find(
        &mut self,
        mechanism: &Mechanism,
        now: u64,
        (sector, end): (u64, u64),
        may_stream: bool,
    ) -> Found {
        self.catch_up(mechanism, now);
        let (place, segment) = match self.holding(sector) {
            Some(found) => found,
            None => return Found::Nothing,
        };
        self.uses += 1;
        self.segments[place].used = self.uses;
        let streaming = self.stream.filter(|stream| stream.segment == place);
        let Some(stream) = streaming else {
            return match segment.end {
                held if end <= held => Found::All(now),
                held if sector < held => Found::Until(held),
                _ => Found::Nothing,
            };
        };
        let hit = end <= segment.end;
        let ready = if hit {
            now.max(stream.since)
        } else if may_stream {
            self.reach(mechanism, now, end)
        } else {
            return Found::Nothing;
        };
        if may_stream && (self.sizes.read_ahead.on_hit || !hit) {
            self.follow(mechanism, now, (sector, end));
        }
        Found::All(ready)
    }

    /// The segment that holds `sector`, or whose end it is.
    fn holding(&self, sector: u64) -> Option<(usize, Segment)> {
        let holds = |segment: &Segment| {
            segment.first <= sector && sector <= segment.end && segment.first < segment.end
        };
        let (place, segment) = self.segments.iter().enumerate().find(|(_, s)| holds(s))?;
        Some((place, *segment))
    }

    /// When the stream has passed everything before `end`.
    fn reach(&mut self, mechanism: &Mechanism, now: u64, end: u64) -> u64 {
        let Some(stream) = &mut self.stream else { return now };
        if stream.sweep.next >= stream.limit {
            // It had stopped, and the head has stayed over the track since.
            stream.sweep.at = stream.sweep.at.max(now);
        }
        let mut sweep = stream.sweep;
        mechanism.sweep(&mut sweep, end, u64::MAX);
        sweep.at
    }

    /// The reader has reached the end of `extent`: reads ahead from there.
    fn follow(&mut self, mechanism: &Mechanism, now: u64, extent: (u64, u64)) {
        let limit = self.limit(mechanism, extent);
        let Some(stream) = &mut self.stream else { return };
        if limit > stream.limit {
            if stream.sweep.next >= stream.limit {
                stream.sweep.at = stream.sweep.at.max(now);
            }
            stream.limit = limit;
        }
    }

    /// Where reading ahead stops after a read of `extent`.
    fn limit(&self, mechanism: &Mechanism, extent: (u64, u64)) -> u64 {
        let SegmentSizes { sectors, read_ahead, .. } = self.sizes;
        let came = |first, end| {
            let holds = |segment: &Segment| segment.first < end && first < segment.end;
            self.segments.iter().any(|segment| !segment.written && holds(segment))
        };
        read_ahead.limit(&mechanism.geometry, extent, sectors, came)
    }

    /// `[sector, end)` has been read; the head is at `sweep` and may read on. `before` sectors had
    /// passed it just before.
    pub fn filled(&mut self, mechanism: &Mechanism, sector: u64, before: u64, sweep: Sweep) {
        if self.segments.is_empty() {
            return;
        }
        self.uses += 1;
        let before = if self.sizes.keep_before { before } else { 0 };
        let limit = self.limit(mechanism, (sector, sweep.next));
        let continued = self.holding(sector).filter(|(_, segment)| !segment.written);
        let continued = continued.map(|(place, _)| place);
        let place = continued.unwrap_or_else(|| self.for_a_read());
        let segment = &mut self.segments[place];
        if continued.is_none() {
            segment.first = sector - before;
        }
        segment.written = false;
        segment.end = sweep.next;
        segment.first = segment.first.max(segment.end.saturating_sub(self.sizes.sectors));
        segment.used = self.uses;
        self.stream = Some(Stream { segment: place, sweep, since: sweep.at, limit });
    }

    /// `[sector, end)` is written at `now`: a segment takes it, if any does. Returns where the
    /// head is if that ends the stream.
    pub fn wrote(
        &mut self,
        mechanism: &Mechanism,
        now: u64,
        (sector, end): (u64, u64),
    ) -> Option<Sweep> {
        let most = match self.sizes.written {
            Written::Apart | Written::Own(0) | Written::Shared(0) => return None,
            Written::Own(most) | Written::Shared(most) => most as usize,
        };
        if self.segments.is_empty() {
            return None;
        }
        self.uses += 1;
        let appended = |segment: &Segment| {
            segment.written && segment.end == sector && segment.first < segment.end
        };
        let appended = self.segments.iter().position(appended);
        let place = appended.unwrap_or_else(|| self.for_a_write(most));
        let streams = self.stream.is_some_and(|stream| stream.segment == place);
        let stopped = if streams { self.stop(mechanism, now) } else { None };
        let segment = &mut self.segments[place];
        let first = if appended.is_some() { segment.first } else { sector };
        let first = first.max(end.saturating_sub(self.sizes.sectors));
        *segment = Segment { first, end, used: self.uses, written: true };
        stopped
    }

    /// The segment that a read gets: the one used longest ago, of those that are not the writes'.
    fn for_a_read(&self) -> usize {
        let own = match self.sizes.written {
            Written::Own(own) => own as usize,
            _ => 0,
        };
        let count = self.segments.len();
        self.least_used(0..count.saturating_sub(own).max(1), |_| true)
    }

    /// The segment that a write gets, of which `most` may hold what was written.
    fn for_a_write(&self, most: usize) -> usize {
        let count = self.segments.len();
        if let Written::Own(_) = self.sizes.written {
            return self.least_used(count.saturating_sub(most)..count, |_| true);
        }
        let written = self.segments.iter().filter(|segment| segment.written).count();
        self.least_used(0..count, |segment| written < most || segment.written)
    }

    fn least_used(&self, among: std::ops::Range<usize>, may: impl Fn(&Segment) -> bool) -> usize {
        let first = among.start;
        let eligible = among.filter(|&place| may(&self.segments[place]));
        eligible.min_by_key(|&place| self.segments[place].used).unwrap_or(first)
    }

    /// `[sector, end)` was overwritten at `now`: the segments forget it. Returns where the head is
    /// if that ends the stream.
    pub fn forget(
        &mut self,
        mechanism: &Mechanism,
        now: u64,
        (sector, end): (u64, u64),
    ) -> Option<Sweep> {
        self.catch_up(mechanism, now);
        let mut streaming = false;
        for place in 0..self.segments.len() {
            let segment = &mut self.segments[place];
            if end <= segment.first || segment.end <= sector {
                continue;
            }
            if sector > segment.first {
                segment.end = sector;
            } else {
                segment.first = end.min(segment.end);
            }
            streaming |= self.stream.is_some_and(|stream| stream.segment == place);
        }
        if streaming { self.stream.take().map(|stream| stream.sweep) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::{Geometry, Zone};
    use super::super::seek::{Curve, SeekTable};
    use super::*;
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
        Segments::new(SegmentSizes { count, sectors: 60, read_ahead, written, keep_before: false })
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
    /// place; the next write replaces that write, as only one segment may hold writes; a write that
    /// follows it on the disk joins it.
    #[test]
    fn writes_share_the_segments() {
        let (mechanism, mut segments) = (mechanism(), segments(2));
        segments.sizes.written = Written::Shared(1);
        for (first, end) in [(0, 10), (1000, 1010)] {
            read(&mut segments, &mechanism, first, end);
            segments.stop(&mechanism, 0);
        }
        assert!(segments.wrote(&mechanism, MS, (500, 508)).is_none());
        assert_eq!(segments.find(&mechanism, MS, (0, 10), false), Found::Nothing);
        assert_eq!(segments.find(&mechanism, MS, (500, 508), false), Found::All(MS));
        segments.wrote(&mechanism, MS, (700, 708));
        assert_eq!(segments.find(&mechanism, MS, (500, 508), false), Found::Nothing);
        assert_eq!(segments.find(&mechanism, MS, (1000, 1010), false), Found::All(MS));
        segments.wrote(&mechanism, MS, (708, 716));
        assert_eq!(segments.find(&mechanism, MS, (700, 716), false), Found::All(MS));
        let written = segments.segments.iter().filter(|segment| segment.written).count();
        assert_eq!(written, 1);
    }

    /// Does a segment reserved for writes leave reads theirs? Of 2 segments the second is for
    /// writes, so the only one for reads holds the last read.
    #[test]
    fn writes_have_their_own_segment() {
        let (mechanism, mut segments) = (mechanism(), segments(2));
        segments.sizes.written = Written::Own(1);
        read(&mut segments, &mechanism, 0, 10);
        segments.stop(&mechanism, 0);
        segments.wrote(&mechanism, MS, (500, 508));
        assert_eq!(segments.find(&mechanism, MS, (0, 10), false), Found::All(MS));
        read(&mut segments, &mechanism, 1000, 1010);
        segments.stop(&mechanism, MS);
        assert_eq!(segments.find(&mechanism, MS, (0, 10), false), Found::Nothing);
        assert_eq!(segments.find(&mechanism, MS, (500, 508), false), Found::All(MS));
    }

    /// Does a write that takes the streaming segment stop the head, and does a hit move the head
    /// only where configured? At 2 ms the head has come to 20; it would stop at 50, and stops there
    /// although a read of [10, 20) was answered.
    #[test]
    fn hits_and_writes_and_the_stream() {
        let (mechanism, mut segments) = (mechanism(), segments(1));
        segments.sizes.read_ahead.on_hit = false;
        segments.sizes.written = Written::Shared(1);
        read(&mut segments, &mechanism, 0, 10);
        assert_eq!(segments.find(&mechanism, 2 * MS, (10, 20), true), Found::All(2 * MS));
        assert_eq!(segments.stream.unwrap().limit, 50);
        let stopped = segments.wrote(&mechanism, 2 * MS, (500, 508)).unwrap();
        assert_eq!(stopped.next, 20);
        assert!(segments.stream.is_none());
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
}
