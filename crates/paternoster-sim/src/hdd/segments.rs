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
//! A read of sectors in a segment is a *hit*. A read that begins in the streaming segment and goes
//! on beyond its end waits until the head gets there; that is why a sequential reader at depth 1
//! gets the rate of the medium. A stream that has reached its limit goes on when the reader has
//! followed it, unless hits do not move the head (`read_ahead.rs` says how far it goes). Where
//! *almost hits* are none, a read that begins just where the head is, or goes on beyond where it
//! has stopped, is a miss.
//!
//! On some disks *written* data take a segment too ([`Written`]), answer reads from there, and
//! evict what was read. Some hold no sector twice (`disjoint`): what is read or written anew voids
//! every other segment that has any of it, as a whole.
//!
//! # Invariants
//! I1  A segment is never longer than its size.
//! I2  Only one segment is streaming, and its end is the stream's next sector.
//! I3  Segments with written data that are not on the medium are never more than allowed.
//!
//! Where one segment ends at the very sector that another has, the first in the table counts, and
//! the read is a miss if that is the one that ends. What a disk's firmware does is not published.
//! With the other order the RMS figures of the Barracuda and the 4LP are .002 and .001 ms higher.
//!
//! # Not here
//! Segments that change size, or that are split when there are many streams. A segment that reads
//! on into what another holds.
//!
//! Source: DiskSim's reference manual ("Allow almost read hits", "Maximum number of write
//! segments", "Number of buffer segments": disjoint), and the run of it that its authors publish.

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

impl Segment {
    /// Holds nothing any more if it has any of `[first, end)`.
    fn void(&mut self, (first, end): (u64, u64)) {
        if first < self.end && self.first < end {
            self.end = self.first;
        }
    }
}

/// The head reading ahead.
#[derive(Debug, Clone, Copy)]
struct Stream {
    segment: usize,
    sweep: Sweep,
    /// When the requested sectors had been read.
    since: u64,
    /// Sector at which reading ahead stops.
    limit: u64,
}

/// What the cache has of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// All of it, now or soon: complete at this time.
    All(u64),
    /// The part before this sector.
    Until(u64),
    /// Nothing of the beginning.
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
    /// Any, but at most this many for data that are not yet on the medium.
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
    /// Whether a read hits that begins where the head is, or goes on where it has stopped.
    pub almost_hits: bool,
    /// Whether no sector is in two segments.
    pub disjoint: bool,
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
        let almost = self.sizes.almost_hits;
        let held = self.holding(sector).filter(|(_, segment)| almost || sector < segment.end);
        let Some((place, segment)) = held else { return Found::Nothing };
        self.uses += 1;
        self.segments[place].used = self.uses;
        let hit = end <= segment.end;
        let reads_on = |stream: &Stream| stream.sweep.next < stream.limit;
        let streaming = self.stream.filter(|stream| stream.segment == place);
        let streaming = streaming.filter(|stream| almost || hit || reads_on(stream));
        let Some(stream) = streaming else {
            return match segment.end {
                held if end <= held => Found::All(now),
                held if sector < held => Found::Until(held),
                _ => Found::Nothing,
            };
        };
        let ready = if hit {
            now.max(stream.since)
        } else if may_stream {
            self.reach(mechanism, now, end)
        } else {
            return Found::Nothing;
        };
        if may_stream && (self.sizes.read_ahead.on_hit || !hit || reads_on(&stream)) {
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
            let own = self.holding(extent.0).map(|(_, segment)| segment);
            own.is_some_and(|segment| !segment.written && holds(&segment))
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
        let extent = (segment.first, segment.end);
        self.stream = Some(Stream { segment: place, sweep, since: sweep.at, limit });
        if self.sizes.disjoint {
            for other in (0..self.segments.len()).filter(|&other| other != place) {
                self.segments[other].void(extent);
            }
        }
    }

    /// `[sector, end)` is written at `now`: a segment takes it, if any does; `dirty` says whether a
    /// range has data that are not yet on the medium. Returns where the head is if that ends the
    /// stream.
    pub fn wrote(
        &mut self,
        mechanism: &Mechanism,
        now: u64,
        (sector, end): (u64, u64),
        dirty: impl Fn(u64, u64) -> bool,
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
        let place = appended.unwrap_or_else(|| self.for_a_write(most, dirty));
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

    /// The segment that a write gets, where `most` may be for writes, or hold what is `dirty`.
    fn for_a_write(&self, most: usize, dirty: impl Fn(u64, u64) -> bool) -> usize {
        let count = self.segments.len();
        if let Written::Own(_) = self.sizes.written {
            return self.least_used(count.saturating_sub(most)..count, |_| true);
        }
        let dirty = |segment: &Segment| segment.written && dirty(segment.first, segment.end);
        let so_many = self.segments.iter().filter(|segment| dirty(segment)).count();
        self.least_used(0..count, |segment| so_many < most || dirty(segment))
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
            if self.sizes.disjoint {
                segment.void((sector, end));
            } else if sector > segment.first {
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
mod tests;
