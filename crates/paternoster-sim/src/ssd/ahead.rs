// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read-ahead: the data of a stream that a drive fetches in advance.
//!
//! A read that begins where a recent one ended belongs to a stream, and the drive fetches the next
//! data, in whole units, in parallel from its dies. Data that have been fetched go over the link at
//! once; a read waits for data that are on their way:
//!
//! ```text
//! reads   |a|b|c|d|e|f|        b begins where a ended: fetch 32 KiB
//! asked       ^^^^^^^|^^^^^^^  c to f find their data; at half of it, fetch the next 32 KiB
//! come    ───────▲             d waits if not all of its data have come
//! ```
//!
//! # Invariants
//! I1  A read waits only for sectors that were requested, and each of those comes.
//! I2  At most twice the read-ahead plus a unit is requested beyond a stream's last read.
//! I3  A stream that a read waits for is kept.
//!
//! # Where it stops being valid
//! Pieces come in any order and are counted as if they came in sector order. Data before a stream's
//! position are not kept, and a write does not change what was fetched: models hold no data.

use std::ops::Range;

/// Streams that are known at a time.
const STREAMS: u32 = 8;

/// A stream: its place, and in the upper bits how often the place was reused. It is one word, so
/// that it does not make the calendar's entries longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamId(u32);

impl StreamId {
    fn new(place: usize, times: u32) -> StreamId {
        StreamId(times.wrapping_mul(STREAMS) + u32::try_from(place).unwrap_or(0))
    }

    const fn place(self) -> usize {
        (self.0 % STREAMS) as usize
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    times: u32,
    /// Where the next read begins, if the stream goes on.
    next: u64,
    /// The sector after the last one that was requested, or that a read took itself.
    asked: u64,
    /// How many sectors were requested in all, and have come.
    requested: u64,
    come: u64,
    waiting: u32,
}

/// A read that waits for data on their way.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    id: StreamId,
    /// How many sectors of the stream must have come.
    needs: u64,
    slot: u32,
    sectors: u32,
}

/// What the read-ahead does for a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Sectors at its beginning that were fetched, or are on their way.
    pub(super) sectors: u32,
    /// Whether these have come already.
    pub(super) is_here: bool,
    /// The sectors to fetch, and their stream.
    pub(super) fetch: Option<(StreamId, Range<u64>)>,
}

/// The streams of a drive.
#[derive(Debug)]
pub(super) struct ReadAhead {
    sectors: u64,
    unit: u64,
    capacity: u64,
    streams: [Stream; STREAMS as usize],
    oldest: usize,
    waiters: Vec<Waiter>,
}

impl ReadAhead {
    /// Fetches `sectors` ahead, in whole units of `unit` sectors.
    pub(super) fn new(sectors: u64, unit: u64, capacity: u64, depth: u32) -> ReadAhead {
        let mut streams = [Stream::default(); STREAMS as usize];
        streams.iter_mut().for_each(|stream| stream.next = u64::MAX);
        let waiters = Vec::with_capacity(depth as usize);
        ReadAhead { sectors, unit: unit.max(1), capacity, streams, oldest: 0, waiters }
    }

    /// A read comes; it waits for those of its sectors that are on their way.
    pub(super) fn read(&mut self, slot: u32, sector: u64, sectors: u32) -> Found {
        let end = sector + u64::from(sectors);
        let Some(place) = self.streams.iter().position(|stream| stream.next == sector) else {
            self.begin(end);
            return Found { sectors: 0, is_here: true, fetch: None };
        };
        let stream = &mut self.streams[place];
        let id = StreamId::new(place, stream.times);
        let until = stream.asked.min(end);
        let found = u32::try_from(until.saturating_sub(sector)).unwrap_or(0);
        stream.next = end;
        // Between its last found sector and the end there are requested ones alone: what a read
        // takes from the dies itself was neither requested nor comes here.
        let needs = stream.requested - (stream.asked - until);
        stream.asked = stream.asked.max(end);
        let is_here = found == 0 || stream.come >= needs;
        if !is_here {
            stream.waiting += 1;
            self.waiters.push(Waiter { id, needs, slot, sectors: found });
        }
        let fetch = (stream.asked - end <= self.sectors / 2).then(|| {
            let target = (end + self.sectors).next_multiple_of(self.unit).min(self.capacity);
            stream.asked..target.max(stream.asked)
        });
        let fetch = fetch.filter(|range| !range.is_empty());
        if let Some(range) = &fetch {
            stream.requested += range.end - range.start;
            stream.asked = range.end;
        }
        Found { sectors: found, is_here, fetch: fetch.map(|range| (id, range)) }
    }

    /// Sectors of a stream have come.
    pub(super) fn come(&mut self, id: StreamId, sectors: u32) {
        let stream = &mut self.streams[id.place()];
        if StreamId::new(id.place(), stream.times) == id {
            stream.come += u64::from(sectors);
        }
    }

    /// The next read that need not wait any more, and how many sectors it has waited for.
    pub(super) fn ready(&mut self) -> Option<(u32, u32)> {
        let streams = &self.streams;
        let has = |waiter: &Waiter| streams[waiter.id.place()].come >= waiter.needs;
        let place = self.waiters.iter().position(has)?;
        let waiter = self.waiters.remove(place);
        self.streams[waiter.id.place()].waiting -= 1;
        Some((waiter.slot, waiter.sectors))
    }

    /// Begins a stream that may go on at `end`, in the place of the oldest one that no read waits
    /// for.
    fn begin(&mut self, end: u64) {
        let all = self.streams.len();
        let places = (0..all).map(|nth| (self.oldest + nth) % all);
        let Some(place) = { places }.find(|&place| self.streams[place].waiting == 0) else {
            return;
        };
        let times = self.streams[place].times.wrapping_add(1);
        self.streams[place] = Stream { times, next: end, asked: end, ..Stream::default() };
        self.oldest = (place + 1) % all;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    /// Is it as in the drawing? Reads of 8 sectors, 64 ahead in units of 32: the second read
    /// requests 16 to 96 (80 in whole units), the third finds its sectors on their way. When 24
    /// have come, the third and the fourth have theirs. The eighth leaves 32 requested sectors, and
    /// requests up to 128.
    #[test]
    fn a_stream_is_fetched_ahead() {
        let mut ahead = ReadAhead::new(64, 32, 1 << 20, 4);
        let nothing = Found { sectors: 0, is_here: true, fetch: None };
        assert_eq!(ahead.read(0, 0, 8), nothing);
        let second = ahead.read(0, 8, 8);
        let (id, range) = second.fetch.clone().unwrap();
        assert_eq!((second.sectors, range), (0, 16..96));
        let third = ahead.read(1, 16, 8);
        assert_eq!(third, Found { sectors: 8, is_here: false, fetch: None });
        assert_eq!(ahead.ready(), None);
        ahead.come(id, 24);
        assert_eq!((ahead.ready(), ahead.ready()), (Some((1, 8)), None));
        assert_eq!(ahead.read(2, 24, 8), Found { sectors: 8, is_here: true, fetch: None });
        ahead.come(id, 56);
        for nth in 4..7 {
            assert_eq!(ahead.read(2, nth * 8, 8).fetch, None);
        }
        assert_eq!(ahead.read(2, 56, 8).fetch.map(|(_, range)| range), Some(96..128));
        // Not where the stream continues: this begins another stream.
        assert_eq!(ahead.read(3, 1000, 8), nothing);
    }

    /// Does a read that goes beyond what was requested wait for what is on its way? 16 to 96 is
    /// requested, none of it has come, and a read of 16 to 216 takes 96 to 216 from the dies
    /// itself: these 120 are not the 80 that it waits for. 216 to 288 (216 + 64 in whole units)
    /// is requested, of which the next read needs its first 8.
    #[test]
    fn what_a_read_takes_itself_is_not_what_it_waits_for() {
        let mut ahead = ReadAhead::new(64, 32, 1 << 20, 4);
        ahead.read(0, 0, 8);
        let (id, range) = ahead.read(0, 8, 8).fetch.unwrap();
        assert_eq!(range, 16..96);
        let long = ahead.read(1, 16, 200);
        assert_eq!((long.sectors, long.is_here), (80, false));
        assert_eq!(long.fetch, Some((id, 216..288)));
        assert_eq!(ahead.read(2, 216, 8), Found { sectors: 8, is_here: false, fetch: None });
        ahead.come(id, 79);
        assert_eq!(ahead.ready(), None);
        ahead.come(id, 1);
        assert_eq!((ahead.ready(), ahead.ready()), (Some((1, 80)), None));
        ahead.come(id, 8);
        assert_eq!(ahead.ready(), Some((2, 8)));
    }

    /// Sectors come: are exactly those reads ready whose last one has come?
    fn come(
        ahead: &mut ReadAhead,
        here: &mut BTreeMap<StreamId, u64>,
        waiting: &mut BTreeMap<u32, (StreamId, u64)>,
        id: StreamId,
        part: &Range<u64>,
    ) -> Result<(), TestCaseError> {
        ahead.come(id, u32::try_from(part.end - part.start).unwrap());
        here.insert(id, part.end);
        while let Some((slot, _)) = ahead.ready() {
            let needed = waiting.remove(&slot);
            prop_assert!(needed.is_some_and(|(id, until)| here[&id] >= until), "{slot} {needed:?}");
        }
        let due = waiting.iter().find(|(_, (its, until))| *its == id && here[its] >= *until);
        prop_assert!(due.is_none(), "{due:?} still waits");
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// Whatever is read, and in whatever pieces it comes: does a read learn that its sectors
        /// are here once they have come (by the test's own account) and not before (I1), is never
        /// more requested than allowed (I2), and is no sector requested twice while the stream goes
        /// on?
        #[test]
        fn every_read_gets_its_sectors(
            sectors in 1u64..512, unit in 1u64..65,
            steps in prop::collection::vec((0usize..12, 1u32..300, 0u8..4, 1u32..100), 1..200)
        ) {
            let mut ahead = ReadAhead::new(sectors, unit, 1 << 40, 64);
            let mut at: Vec<u64> = (0..12).map(|stream| stream << 30).collect();
            let mut on_its_way: VecDeque<(StreamId, Range<u64>)> = VecDeque::new();
            // The sectors that have come of each stream, and those that each waiting read needs.
            let mut here: BTreeMap<StreamId, u64> = BTreeMap::new();
            let mut waiting: BTreeMap<u32, (StreamId, u64)> = BTreeMap::new();
            for (nth, (stream, count, kind, piece)) in steps.into_iter().enumerate() {
                let slot = u32::try_from(nth).unwrap();
                let sector = at[stream];
                let place = ahead.streams.iter().position(|stream| stream.next == sector);
                let id = place.map(|place| StreamId::new(place, ahead.streams[place].times));
                let found = ahead.read(slot, sector, count);
                at[stream] += u64::from(count);
                prop_assert!(found.sectors <= count);
                if found.sectors > 0 {
                    // Pieces come in order here, so that all before the last one have come, too.
                    let (id, until) = (id.unwrap(), sector + u64::from(found.sectors));
                    let come = here.get(&id).is_some_and(|here| *here >= until);
                    prop_assert_eq!(found.is_here, come, "{} of {:?}", until, here.get(&id));
                    if !come {
                        waiting.insert(slot, (id, until));
                    }
                }
                if let Some((id, range)) = found.fetch {
                    prop_assert!(range.start >= at[stream]);
                    prop_assert!(range.end <= at[stream] + 2 * sectors + unit);
                    let mut from = range.start;
                    while from < range.end {
                        let to = (from + u64::from(piece)).min(range.end);
                        on_its_way.push_back((id, from..to));
                        from = to;
                    }
                }
                let coming = if kind == 0 { on_its_way.len() / 2 } else { 0 };
                for (id, part) in on_its_way.drain(..coming) {
                    come(&mut ahead, &mut here, &mut waiting, id, &part)?;
                }
                if waiting.len() > 60 {
                    break;
                }
            }
            for (id, part) in on_its_way {
                come(&mut ahead, &mut here, &mut waiting, id, &part)?;
            }
            prop_assert!(waiting.is_empty(), "{waiting:?} wait for ever");
        }
    }
}
