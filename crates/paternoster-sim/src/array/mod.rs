// SPDX-License-Identifier: MIT OR Apache-2.0
//! array: a controller with a cache in front of striped disks, as the HP EVA of seed 001.
//!
//! ```text
//!             ┌ controller ───────────────────────┐
//! host ─link──┤ read:  in the cache? ──▶ link     │   member 0
//!             │        a stream? read ahead ──────┼─▶ member 1
//!             │        else read the sectors ─────┼─▶ …
//!             │ write: room in the buffer? ──▶ end│
//!             │        destaged later ────────────┼─▶ member n-1
//!             └───────────────────────────────────┘
//! ```
//!
//! Such a device differs from a disk. A single sequential reader cannot saturate it, since each
//! read waits for the controller and the link; several together can, though they make the members
//! seek between their streams. And a flush costs nothing, because the write buffer has a battery.
//!
//! Some arrays answer a few commands late for reasons that no request shows (retries of a path or a
//! disk, work of the controller's own). `late_quantiles` says by how much: a time is drawn for each
//! command, which is 0 for nearly all. Only its answer is late; the link is free meanwhile.
//!
//! # Invariants
//! I1  Every command ends once; the link carries one at a time.
//! I2  A read ends after every sector of it has come from a member or the cache.
//! I3  The write buffer never holds more than its size, and every part of it is destaged once.
//!
//! # Not here
//! Parity and mirrors (a member never fails and a write costs one write), several controllers,
//! reads from the write buffer (they go to the members).
//!
//! Source: own; `docs/rules/devices.md`. Where it stops being valid:
//! `docs/models/array.md`.

mod members;
mod prefetch;
pub mod stripe;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use paternoster_core::device::ServiceClock;
use paternoster_core::{Command, Completion, DeviceFacts, Nanos, Op, Outcome, Refused, Tag};

use crate::chance::Chance;
use crate::hdd::{self, DriveParameters};
use crate::model::{Blueprint, Model};
use crate::quantiles::Quantiles;
use crate::sections::{DeviceFileError, Sections};
use crate::transfer::Transfer;
use members::{Members, Part};
use prefetch::{ChunkCache, ChunkState, Streams};
use stripe::Stripe;

/// Bytes of a sector.
const SECTOR: u64 = 512;
/// The place of an array among the users of a run's seed.
const DRAWS: u64 = 0xa44;

/// What an array is made of.
#[derive(Debug, Clone)]
pub struct ArrayParameters {
    /// How it is striped.
    pub stripe: Stripe,
    /// Each of its disks.
    pub member: Arc<DriveParameters>,
    /// What the controller costs a command.
    pub overhead: Nanos,
    /// The link to the host, shared by all commands.
    pub link: Transfer,
    /// Chunks read ahead of a stream.
    pub prefetch: u64,
    /// Streams that the controller follows.
    pub streams: usize,
    /// Chunks that the read cache holds.
    pub cache: usize,
    /// Sectors that the write buffer holds; 0: writes end when the members have them.
    pub write_buffer: u64,
    /// By how much answers are late, if any is.
    late: Option<Quantiles>,
}

/// A command inside the array.
#[derive(Debug, Clone, Copy)]
struct Active {
    command: Command,
    entered: Nanos,
    /// Parts that must arrive before it can go over the link.
    awaited: u32,
    /// Which of its chunks it awaits from the cache, the first one in the lowest bit.
    chunks: u64,
    /// When the controller has decoded it.
    ready: Nanos,
}

/// The array model.
#[derive(Debug)]
pub struct Array {
    facts: DeviceFacts,
    parameters: Arc<ArrayParameters>,
    members: Members,
    active: Vec<Option<Active>>,
    /// Writes that wait for room in the buffer.
    stalled: VecDeque<u32>,
    streams: Streams,
    cache: ChunkCache,
    buffered: u64,
    link_free: Nanos,
    /// Ends that are known: when, in which order they were computed, of which command.
    ends: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    order: u64,
    clock: ServiceClock,
    chance: Chance,
}

impl Array {
    /// An array that has done nothing yet.
    #[must_use]
    pub fn new(facts: DeviceFacts, parameters: Arc<ArrayParameters>) -> Array {
        Array {
            members: Members::new(parameters.stripe.members, &parameters.member),
            active: vec![None; facts.depth as usize],
            stalled: VecDeque::with_capacity(facts.depth as usize),
            streams: Streams::new(parameters.streams),
            cache: ChunkCache::new(parameters.cache),
            buffered: 0,
            link_free: Nanos::ZERO,
            ends: BinaryHeap::with_capacity(facts.depth as usize),
            order: 0,
            clock: ServiceClock::default(),
            chance: Chance::new(0, DRAWS),
            facts,
            parameters,
        }
    }

    /// Reads the sections `[array]` and `[member]` of a device file.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        facts: &DeviceFacts,
    ) -> Result<Arc<dyn Blueprint>, DeviceFileError> {
        let mut fields = sections.open("array");
        let members = fields.number("members", None, 1..=1024)?;
        let chunk = fields.size("chunk", None)?;
        if !chunk.is_multiple_of(4096) || !(4096..=1 << 30).contains(&chunk) {
            return Err(fields.wrong("chunk", "a multiple of 4 KiB, at most 1 GiB"));
        }
        let chunks = |bytes: u64| bytes.div_ceil(chunk);
        let scatter = fields.switch("scatter", false)?;
        let overhead = fields.time("overhead", None)?;
        let link = fields.rate("link", None)?;
        let prefetch = chunks(fields.size("prefetch", Some(0))?);
        if prefetch > 1 << 16 {
            return Err(fields.wrong("prefetch", "at most 65536 chunks"));
        }
        let streams = fields.number("streams", Some(64), 1..=4096)?;
        let cache = chunks(fields.size("cache", Some(0))?).max(2 * prefetch);
        let cache = usize::try_from(cache).ok().filter(|&cache| cache <= 1 << 20);
        let cache = cache.ok_or_else(|| fields.wrong("cache", "at most a million chunks"))?;
        let write_buffer = fields.size("write_buffer", Some(0))? / SECTOR;
        let late = Quantiles::read(&mut fields, "late_quantiles")?;
        let depth = fields.number("member_depth", Some(8), 1..=256)?;
        fields.finish()?;
        let stripe = Stripe { members, chunk: chunk / SECTOR, scatter };
        let rows = facts.capacity.div_ceil(stripe.chunk * u64::from(members));
        let own = DeviceFacts {
            capacity: rows * stripe.chunk,
            depth,
            write_cache: false,
            flush_queueable: true,
            ..*facts
        };
        let member = Arc::new(hdd::read_parameters(sections, "member", &own)?);
        let streams = streams as usize;
        let parameters = ArrayParameters {
            stripe,
            member,
            overhead,
            link,
            prefetch,
            streams,
            cache,
            write_buffer,
            late,
        };
        Ok(Arc::new(Plan(Arc::new(parameters))))
    }

    fn begin_read(&mut self, now: Nanos, slot: u32, command: &Command) {
        let stripe = self.parameters.stripe;
        let (mut awaited, mut chunks) = (0, 0);
        let mut bit = 1u64;
        for piece in stripe.pieces(command.sector, command.sectors.into()) {
            match self.cache.state(piece.chunk) {
                Some(ChunkState::There) => {}
                Some(ChunkState::Reading) if bit != 0 => {
                    awaited += 1;
                    chunks |= bit;
                }
                // Also chunks being read beyond the 64th of a command.
                _ => {
                    awaited += 1;
                    self.members.submit(now, Part::Demand(slot), Op::Read, piece);
                }
            }
            bit <<= 1;
        }
        self.set_awaited(slot, awaited, chunks);
        let window = self.parameters.prefetch;
        let (first, end) = self.streams.follow(command.sector, command.end(), stripe.chunk, window);
        let last = stripe.chunk_of(self.facts.capacity - 1);
        for chunk in first..end.min(last + 1) {
            if let (None, Some(piece)) = (self.cache.state(chunk), stripe.whole(chunk)) {
                self.cache.begin(chunk);
                self.members.submit(now, Part::Chunk(chunk), Op::Read, piece);
            }
        }
        if awaited == 0 {
            self.send(now, slot);
        }
    }

    fn set_awaited(&mut self, slot: u32, awaited: u32, chunks: u64) {
        if let Some(active) = &mut self.active[slot as usize] {
            (active.awaited, active.chunks) = (awaited, chunks);
        }
    }

    /// Everything that a command waited for has arrived: sends it over the link.
    fn send(&mut self, now: Nanos, slot: u32) {
        let Some(active) = self.active[slot as usize] else { return };
        let bytes = u64::from(active.command.sectors) * SECTOR;
        let begin = now.max(active.ready).max(self.link_free);
        self.link_free = begin + self.parameters.link.time(bytes);
        let late = self.parameters.late.as_ref().map(|late| late.draw(&mut self.chance));
        self.end_at(self.link_free + late.unwrap_or_default(), slot);
    }

    fn end_at(&mut self, at: Nanos, slot: u32) {
        self.ends.push(Reverse((at, self.order, slot)));
        self.order += 1;
    }

    /// A write goes into the buffer if it has room, or queues behind the writes that wait for room.
    fn begin_write(&mut self, now: Nanos, slot: u32, command: &Command) {
        let sectors = u64::from(command.sectors);
        if self.parameters.write_buffer == 0 {
            let pieces = self.parameters.stripe.pieces(command.sector, sectors);
            let mut awaited = 0;
            for piece in pieces {
                awaited += 1;
                self.members.submit(now, Part::Demand(slot), Op::Write, piece);
            }
            self.set_awaited(slot, awaited, 0);
        } else if self.stalled.is_empty() && self.has_room(sectors) {
            self.buffer(now, slot, command);
        } else {
            self.stalled.push_back(slot);
        }
    }

    fn has_room(&self, sectors: u64) -> bool {
        // A write larger than the buffer goes through it alone.
        self.buffered == 0 || self.buffered + sectors <= self.parameters.write_buffer
    }

    fn buffer(&mut self, now: Nanos, slot: u32, command: &Command) {
        let sectors = u64::from(command.sectors);
        self.buffered += sectors;
        for piece in self.parameters.stripe.pieces(command.sector, sectors) {
            self.members.submit(now, Part::Destage(piece.sectors), Op::Write, piece);
        }
        self.send(now, slot);
    }

    fn part_ended(&mut self, at: Nanos, part: Part) {
        match part {
            Part::Demand(slot) => self.part_came(at, slot),
            Part::Chunk(chunk) => {
                self.cache.arrive(chunk);
                self.chunk_came(at, chunk);
            }
            Part::Destage(sectors) => {
                self.buffered -= u64::from(sectors);
                while let Some(&slot) = self.stalled.front() {
                    let Some(active) = self.active[slot as usize] else { return };
                    if !self.has_room(active.command.sectors.into()) {
                        return;
                    }
                    self.stalled.pop_front();
                    self.buffer(at, slot, &active.command);
                }
            }
        }
    }

    fn part_came(&mut self, at: Nanos, slot: u32) {
        let Some(active) = &mut self.active[slot as usize] else { return };
        active.awaited -= 1;
        if active.awaited == 0 {
            self.send(at, slot);
        }
    }

    /// A chunk that was read ahead has arrived: completes the commands that wait for it.
    fn chunk_came(&mut self, at: Nanos, chunk: u64) {
        for slot in 0..self.facts.depth {
            let Some(active) = &mut self.active[slot as usize] else { continue };
            let first = self.parameters.stripe.chunk_of(active.command.sector);
            let bit = chunk.checked_sub(first).filter(|&place| place < 64).map_or(0, |p| 1 << p);
            if active.chunks & bit != 0 {
                active.chunks &= !bit;
                self.part_came(at, slot);
            }
        }
    }

    fn next_end(&self) -> Option<Nanos> {
        self.ends.peek().map(|&Reverse((at, ..))| at)
    }

    fn end(&mut self, at: Nanos, slot: u32) -> Option<Completion> {
        let active = self.active[slot as usize].take()?;
        let served = self.clock.leave(at, active.entered);
        let tag: Tag = active.command.tag;
        Some(Completion { tag, at, outcome: Outcome::OK.served(served) })
    }
}

/// An array's parameters, shared by all that are made of them.
#[derive(Debug)]
struct Plan(Arc<ArrayParameters>);

impl Blueprint for Plan {
    fn build(&self, facts: DeviceFacts) -> Box<dyn Model> {
        self.build_seeded(facts, 0)
    }

    fn build_seeded(&self, facts: DeviceFacts, seed: u64) -> Box<dyn Model> {
        let mut array = Array::new(facts, Arc::clone(&self.0));
        array.chance = Chance::new(seed, DRAWS);
        Box::new(array)
    }
}

impl Model for Array {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        let slot = command.tag.index();
        let free = self.active.get(slot as usize).is_some_and(Option::is_none);
        if !free {
            return Err(Refused);
        }
        let entered = self.clock.enter(now);
        let ready = now + self.parameters.overhead;
        let active = Active { command: *command, entered, awaited: 0, chunks: 0, ready };
        self.active[slot as usize] = Some(active);
        match command.op {
            Op::Read => self.begin_read(now, slot, command),
            Op::Write => self.begin_write(now, slot, command),
            // The buffer has a battery; a discard only changes tables.
            _ => self.end_at(ready, slot),
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        match (self.next_end(), self.members.next_event()) {
            (Some(end), Some(event)) => Some(end.min(event)),
            (end, event) => end.or(event),
        }
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        loop {
            let event = self.members.next_event().filter(|&event| event <= now);
            let end = self.next_end().filter(|&end| end <= now);
            match (end, event) {
                (Some(end), event) if event.is_none_or(|event| end <= event) => {
                    let Reverse((at, _, slot)) = self.ends.pop()?;
                    if let Some(completion) = self.end(at, slot) {
                        return Some(completion);
                    }
                }
                (_, Some(event)) => {
                    let must_destage = 4 * self.buffered > 3 * self.parameters.write_buffer;
                    while let Some((at, part)) = self.members.advance(event, must_destage) {
                        self.part_ended(at, part);
                    }
                }
                _ => return None,
            }
        }
    }
}
