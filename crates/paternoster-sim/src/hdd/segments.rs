// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments: what was read, and what the disk reads ahead.
//!
//! The cache is cut into a few segments of equal size, one for each stream that the disk can
//! follow. A segment holds sectors that follow each other. After a read the head reads on behind
//! it as long as nobody wants it elsewhere: the *stream*. It is computed lazily, a sweep that is
//! brought up to date when somebody looks:
//!
//! ```text
//! segment   first ─────────── end        stream.limit
//!           |== read =|== ahead ==|..........|
//!             asked for            ▲ head now   the asked-for end + read-ahead
//! ```
//!
//! A read of what is in a segment is a *hit*; one that begins in the streaming segment and goes
//! on behind its end waits until the head has come there, which is why a sequential reader at
//! depth 1 gets the rate of the medium. A stream that has come to its limit goes on when the
//! reader has followed it.
//!
//! # Invariants
//! I1  A segment is never longer than its size.
//! I2  Only one segment is streaming, and its end is the stream's next sector.
//!
//! # Not here
//! Segments that change their size, or that are split when many streams come.

use super::mechanism::{Mechanism, Sweep};

/// Sectors in the cache that follow each other.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    first: u64,
    end: u64,
    /// When it was last used, in uses of the cache.
    used: u64,
}

/// The head reading ahead.
#[derive(Debug, Clone, Copy)]
struct Stream {
    segment: usize,
    sweep: Sweep,
    /// When what was asked for had been read.
    since: u64,
    /// Where it stops.
    limit: u64,
}

/// What the cache has of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// All of it, or it is about to come: complete at this time.
    All(u64),
    /// What lies before this sector.
    Until(u64),
    /// Nothing of its beginning.
    Nothing,
}

/// How large the cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSizes {
    /// Segments; 0 for a disk without a read cache.
    pub count: u32,
    /// Sectors in each.
    pub sectors: u64,
    /// How far the disk reads ahead of what was asked for, at most a segment.
    pub read_ahead: u64,
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

    /// What there is of `[sector, end)` at `now`. If `may_stream`, sectors that the stream has not
    /// come to may be waited for, and it goes on behind them.
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
        let ready = if end <= segment.end {
            now.max(stream.since)
        } else if may_stream {
            self.reach(mechanism, now, end)
        } else {
            return Found::Nothing;
        };
        if may_stream {
            self.follow(mechanism, now, end);
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

    /// When the stream has passed all before `end`.
    fn reach(&mut self, mechanism: &Mechanism, now: u64, end: u64) -> u64 {
        let Some(stream) = &mut self.stream else { return now };
        if stream.sweep.next >= stream.limit {
            // It had stopped: the head has stayed over the track since.
            stream.sweep.at = stream.sweep.at.max(now);
        }
        let mut sweep = stream.sweep;
        mechanism.sweep(&mut sweep, end, u64::MAX);
        sweep.at
    }

    /// The reader has come to `end`: read ahead of that.
    fn follow(&mut self, mechanism: &Mechanism, now: u64, end: u64) {
        let limit = (end + self.sizes.read_ahead).min(mechanism.geometry.capacity());
        let Some(stream) = &mut self.stream else { return };
        if limit > stream.limit {
            if stream.sweep.next >= stream.limit {
                stream.sweep.at = stream.sweep.at.max(now);
            }
            stream.limit = limit;
        }
    }

    /// `[sector, end)` has been read; the head is at `sweep` and may read on. `before` sectors had
    /// passed it just before.
    pub fn filled(&mut self, mechanism: &Mechanism, sector: u64, before: u64, sweep: Sweep) {
        if self.segments.is_empty() {
            return;
        }
        self.uses += 1;
        let before = if self.sizes.keep_before { before } else { 0 };
        let continued = self.holding(sector).map(|(place, _)| place);
        let place = continued.unwrap_or_else(|| self.least_used());
        let segment = &mut self.segments[place];
        if continued.is_none() {
            segment.first = sector - before;
        }
        segment.end = sweep.next;
        segment.first = segment.first.max(segment.end.saturating_sub(self.sizes.sectors));
        segment.used = self.uses;
        let limit = (sweep.next + self.sizes.read_ahead).min(mechanism.geometry.capacity());
        self.stream = Some(Stream { segment: place, sweep, since: sweep.at, limit });
    }

    fn least_used(&self) -> usize {
        let by_use = |&place: &usize| self.segments[place].used;
        (0..self.segments.len()).min_by_key(by_use).unwrap_or(0)
    }

    /// `[sector, end)` was overwritten at `now`: what is held of it is void. Returns where the head
    /// is if that ends the stream.
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
