// SPDX-License-Identifier: MIT OR Apache-2.0
//! Write buffer: a write is done once it is in here; full units go to the dies.
//!
//! Writes collect in two open units, one for those that continue a recent stream and one for the
//! others. A full unit is programmed on the die that has been without a program for longest. In the
//! steady state of a full drive, room for it must be made first: valid data are read and programmed
//! elsewhere. That is the *write amplification*: the number of programs for each unit of random
//! writes. A stream overwrites whole erase blocks and needs only its own program. A drive with a
//! mapping of its own (`collection`) has no such factor: it says what each write owes.
//!
//! ```text
//! unit 16 KiB, amplification 2.5, random writes of 4 KiB:
//!
//!   4 writes ─▶ a unit: owes 1.5 programs of collection, 1 begins before it,  0.5 left over
//!   4 writes ─▶ a unit: owes 1.5 + 0.5 = 2,              2 begin before it,   nothing
//! ```
//!
//! A unit leaves the buffer when its own program has ended. A write that finds no room waits, and
//! so do those behind it.
//!
//! # Invariants
//! I1  Bytes used = bytes of open units + of units that wait + of units in programming.
//! I2  Programs begun = units + collections owed, rounded down, + units moved.
//!
//! # Not here
//! Garbage collection in idle time, SLC caching, wear, and reads from the buffer. Data of an open
//! unit stay until it is full or a flush closes it.
//!
//! Source: `docs/rules/devices.md` (WAF, buffer). Assumed: a write that continues one of the last
//! [`STREAMS`] writes belongs to a stream.

use std::collections::VecDeque;

use super::collection::Bill;
use super::durable::{Durability, Epoch};

/// Streams that can be distinguished from random writes at a time.
const STREAMS: usize = 8;
/// Amplification is counted in thousandths of a program.
pub(super) const ONE_PROGRAM: u64 = 1000;
/// Units for which room is allocated ahead; a buffer seldom holds more.
const UNITS_AHEAD: u64 = 1 << 14;

/// A full unit that waits for its programs.
#[derive(Debug, Clone, Copy)]
struct Unit {
    collections: u64,
    erases: u64,
    bytes: u64,
    epoch: Epoch,
}

/// What a die does with its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Program a unit of host data.
    Host,
    /// Program a unit of moved data.
    Move,
    /// Erase a block.
    Erase,
}

/// A program for a die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) work: Work,
    /// Its bytes in the buffer; 0 unless the data are the host's.
    pub(super) bytes: u64,
    /// When the unit was closed.
    pub(super) epoch: Epoch,
}

/// The buffer and what waits in it.
#[derive(Debug)]
pub(super) struct WriteBuffer {
    unit_bytes: u64,
    size: u64,
    amplification: u64,
    used: u64,
    /// Bytes in the two open units: of streams, of random writes.
    open: [u64; 2],
    /// Thousandths of a program.
    owed: u64,
    /// What the collection moved and erased that no program accounts for yet: bytes, blocks.
    bill: Bill,
    full: VecDeque<Unit>,
    in_programming: u32,
    /// Where recent writes ended; and which of these is forgotten next.
    streams: [u64; STREAMS],
    oldest: usize,
    durability: Durability,
}

impl WriteBuffer {
    /// `amplification` in thousandths, at least [`ONE_PROGRAM`].
    pub(super) fn new(size: u64, unit_bytes: u64, amplification: u64, depth: u32) -> WriteBuffer {
        let units = (size / unit_bytes.max(1)).min(UNITS_AHEAD) + 2;
        WriteBuffer {
            unit_bytes: unit_bytes.max(1),
            size,
            amplification: amplification.max(ONE_PROGRAM),
            used: 0,
            open: [0; 2],
            owed: 0,
            bill: Bill::default(),
            full: VecDeque::with_capacity(usize::try_from(units).unwrap_or(0)),
            in_programming: 0,
            streams: [u64::MAX; STREAMS],
            oldest: 0,
            durability: Durability::new(depth),
        }
    }

    /// Whether a write of `bytes` has room. One larger than the buffer gets it all to itself.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= self.size
    }

    /// Takes a write.
    pub(super) fn take(&mut self, sector: u64, sectors: u32) {
        let bytes = u64::from(sectors) * 512;
        let random = usize::from(!self.continues(sector, sectors));
        self.used += bytes;
        self.open[random] += bytes;
        while self.open[random] >= self.unit_bytes {
            self.open[random] -= self.unit_bytes;
            self.close_unit(random, self.unit_bytes);
        }
    }

    /// Whether a write begins where a recent one ended; remembers where this one ends.
    fn continues(&mut self, sector: u64, sectors: u32) -> bool {
        let end = sector + u64::from(sectors);
        if let Some(stream) = self.streams.iter_mut().find(|stream| **stream == sector) {
            *stream = end;
            return true;
        }
        self.streams[self.oldest] = end;
        self.oldest = (self.oldest + 1) % STREAMS;
        false
    }

    fn close_unit(&mut self, random: usize, bytes: u64) {
        if random == 1 {
            let more = self.amplification - ONE_PROGRAM;
            self.owed += more.saturating_mul(bytes) / self.unit_bytes;
        }
        let moved = self.bill.moved / self.unit_bytes;
        self.bill.moved %= self.unit_bytes;
        let erases = std::mem::take(&mut self.bill.erased);
        let collections = self.owed / ONE_PROGRAM + moved;
        self.owed %= ONE_PROGRAM;
        let epoch = self.durability.unit_closed();
        self.full.push_back(Unit { collections, erases, bytes, epoch });
    }

    /// Takes what a collection moved and erased for a write: it goes before the next full unit.
    pub(super) const fn owe(&mut self, bill: Bill) {
        self.bill.moved += bill.moved;
        self.bill.erased += bill.erased;
    }

    /// Closes the open units, so that everything in the buffer goes to the dies.
    pub(super) fn close_all(&mut self) {
        for kind in 0..self.open.len() {
            let bytes = std::mem::take(&mut self.open[kind]);
            if bytes > 0 {
                self.close_unit(kind, bytes);
            }
        }
    }

    /// Whether nothing is on its way to a die, so that room would never become free by itself.
    pub(super) fn is_resting(&self) -> bool {
        self.full.is_empty() && self.in_programming == 0
    }

    /// The program for the next free die.
    pub(super) fn next_program(&mut self) -> Option<Program> {
        let unit = self.full.front_mut()?;
        self.in_programming += 1;
        if unit.collections > 0 {
            unit.collections -= 1;
            return Some(Program { work: Work::Move, bytes: 0, epoch: unit.epoch });
        }
        if unit.erases > 0 {
            unit.erases -= 1;
            return Some(Program { work: Work::Erase, bytes: 0, epoch: unit.epoch });
        }
        let Unit { bytes, epoch, .. } = *unit;
        self.full.pop_front();
        Some(Program { work: Work::Host, bytes, epoch })
    }

    /// A program has ended.
    pub(super) fn programmed(&mut self, program: Program) {
        self.in_programming -= 1;
        self.used -= program.bytes;
        if program.bytes > 0 {
            self.durability.unit_programmed(program.epoch);
        }
    }

    /// Command `slot` waits until every closed unit is programmed; false if they all are.
    pub(super) fn wait_durable(&mut self, slot: u32) -> bool {
        self.durability.wait(slot)
    }

    /// The next command that has waited long enough.
    pub(super) fn now_durable(&mut self) -> Option<u32> {
        self.durability.next_done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 16 << 10;

    fn buffer(amplification: u64) -> WriteBuffer {
        WriteBuffer::new(64 << 10, UNIT, amplification, 32)
    }

    fn programs(buffer: &mut WriteBuffer) -> Vec<u64> {
        std::iter::from_fn(|| buffer.next_program().map(|program| program.bytes)).collect()
    }

    /// Does the example above hold? Units of four random writes, amplification 2.5: one collection
    /// before the first unit, two before the second.
    #[test]
    fn random_writes_owe_collections() {
        let mut buffer = buffer(2500);
        for write in 0..8 {
            buffer.take(1000 * write, 8);
        }
        assert_eq!(programs(&mut buffer), [0, UNIT, 0, 0, UNIT]);
    }

    /// Does a stream owe no collection except for its first write? That one counts as 4 KiB of
    /// random, 12 KiB of the stream follow, 16 KiB more fill a unit: one program without
    /// collection; 12 KiB stay open.
    #[test]
    fn streams_owe_nothing() {
        let mut buffer = buffer(2500);
        for write in 0..8 {
            buffer.take(8 * write, 8);
        }
        assert_eq!(programs(&mut buffer), [UNIT]);
        assert_eq!(buffer.open, [12 << 10, 4 << 10]);
    }

    /// Are two streams told apart, and does the ninth replace the first?
    #[test]
    fn so_many_streams_and_no_more() {
        let mut buffer = buffer(1000);
        for stream in 0..9 {
            assert!(!buffer.continues(stream * 1000, 8));
        }
        assert!(buffer.continues(1008, 8) && buffer.continues(2008, 8) && !buffer.continues(8, 8));
    }

    /// Is there room until it is full, again when a unit is programmed, and for anything when
    /// empty? 64 KiB are 16 writes of 4 KiB.
    #[test]
    fn room_comes_back() {
        let mut buffer = buffer(1000);
        assert!(buffer.has_room(1 << 30));
        for write in 0..16 {
            assert!(buffer.has_room(4096));
            buffer.take(1000 * write, 8);
        }
        assert!(!buffer.has_room(4096));
        let program = buffer.next_program().unwrap();
        buffer.programmed(program);
        assert!(buffer.has_room(UNIT) && !buffer.has_room(UNIT + 512));
    }

    /// Does closing charge a partial unit its share of collection? 8 KiB of 16 at amplification 3:
    /// one collection.
    #[test]
    fn a_part_of_a_unit_owes_its_part() {
        let mut buffer = buffer(3000);
        buffer.take(0, 16);
        assert!(buffer.is_resting());
        buffer.close_all();
        assert_eq!(programs(&mut buffer), [0, 8192]);
        assert!(!buffer.is_resting());
    }
}
