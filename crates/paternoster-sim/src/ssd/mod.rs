// SPDX-License-Identifier: MIT OR Apache-2.0
//! ssd: channels, dies, a write buffer and a link.
//!
//! A flash drive is fast because many slow parts work in parallel. A die needs 50 to 100 us to read
//! a page and more for a program, but there are 16 to 64 dies; what they share, the channels and
//! the link, bounds the rate. A write is done once it is in the buffer; its cost comes later, when
//! full pages keep dies busy and reads wait for them:
//!
//! ```text
//!               controller           a die of each piece        its channel   link
//! read    ─────|===29===|───────────|=======tR 75=======|──────|=5=|─────────|=10=|──▶ done
//!                                                       4 KiB of a PM883: 29+75+5.1+10.3 = 119.4
//!         link        controller
//! write   |=10=|─────|===29===|── room in the buffer? ──▶ done                 39.3
//!                                         └─ full unit ──▶ channel ──▶ program 700 on some die
//! flush   |=3=|── with power-loss protection: flush time ──▶ done
//!               └─ without: every unit programmed, then flush time ──▶ done
//! ```
//!
//! # Parts, a file each
//! `layout` (sector to die and channel), `die` (reads, programs, suspend), `wire` (channels and
//! link), `ahead` (streams), `buffer` (write buffer, amplification), `collection` (where pages lie,
//! what collecting them costs), `slc` (a cache of fast cells), `durable` (what flushes wait for),
//! `calendar` (events), `tally` (what is reported at the end),
//! `numbers` (the section of a device file). This file leads a command through them.
//!
//! # Flush
//! A drive whose flush cannot be queued (SATA; the fact `flush_queueable`) refuses a flush while
//! any command is inside, and everything else while it flushes: the driver requeues, as libata
//! does. Without power-loss protection a write with forced unit access ends when its unit is
//! programmed. A flush with nothing written since the last one costs only its transfer over the
//! link, and ends with the last one where that is still under way. A read that comes while the
//! drive flushes may take longer (`flush_read_delay`). A discard that cannot be queued
//! (`discard_queueable`) must be alone, too.
//!
//! # Invariants
//! I1  At most `depth` commands are in the device; each ends exactly once.
//! I2  A resource is granted when it is requested, in order of time: see `calendar`.
//! I3  Everything in the device is in service, and k commands share the passing time: the device
//!     times of all commands add up to the time that at least one was inside.
//! I4  Programs go on while no command is inside, but make no events then: the next command finds
//!     them as far as they have come.
//!
//! # Where it stops being valid
//! See `docs/models/ssd.md`, which compares measured with published figures. In short: no garbage
//! collection in idle time, no reads from the buffer, no mapping misses.
//!
//! Source: own; `docs/rules/devices.md`.

mod ahead;
mod buffer;
mod calendar;
mod collection;
mod die;
mod durable;
mod layout;
mod numbers;
mod slc;
mod tally;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::VecDeque;
use std::ops::Range;

use paternoster_core::device::ServiceClock;
use paternoster_core::{Command, Completion, DeviceFacts, Flags, Nanos, Op, Outcome, Refused};

use crate::chance::Chance;
use crate::model::{Figure, Model};

use self::ahead::{Found, ReadAhead, StreamId};
use self::buffer::{Program, Work, WriteBuffer};
use self::calendar::{Calendar, Happening};
use self::collection::Collection;
use self::die::Die;
use self::layout::{Layout, Piece};
use self::numbers::Numbers;
use self::slc::Slc;
use self::tally::Tally;
use self::wire::{Link, Wire};

/// A command in the device.
#[derive(Debug, Clone, Copy)]
struct Inside {
    command: Command,
    entered: Nanos,
    /// Parts that have not ended; for a read, its pieces.
    parts: u32,
    /// No part of it has gone over the link to the host.
    untold: bool,
    /// A flush that has something to do.
    flushes: bool,
}

/// A flash drive.
#[derive(Debug)]
pub struct Ssd {
    facts: DeviceFacts,
    numbers: Numbers,
    layout: Layout,
    clock: ServiceClock,
    calendar: Calendar,
    link: Link,
    channels: Vec<Wire>,
    dies: Vec<Die>,
    programs: Vec<Option<Program>>,
    /// Dies without a program, the one idle for longest first.
    resting: VecDeque<u32>,
    buffer: WriteBuffer,
    /// Where pages lie, if the drive collects them.
    collection: Option<Collection>,
    /// Cells of one bit in front of the others, if it has them.
    slc: Option<Slc>,
    /// Streams that it reads ahead, if it does.
    ahead: Option<ReadAhead>,
    /// Since when no command is inside.
    quiet_since: Nanos,
    tally: Tally,
    /// Draws the times of dies, where they vary.
    chance: Chance,
    /// By slots of its own: a queue in front of several devices has tags for all of them.
    inside: Vec<Option<Inside>>,
    free: Vec<u32>,
    /// Writes that found no room.
    blocked: VecDeque<u32>,
    /// A flush or discard that cannot be queued is under way.
    alone: bool,
    written_since_flush: bool,
    /// Flushes under way that have something to do, and the one that began last.
    flushing: u32,
    last_flush: Option<u32>,
    /// Flushes that have nothing to do but to end with another one: that one, and they.
    followers: Vec<(u32, u32)>,
}

impl Ssd {
    /// A drive; `past` is where its pages lie if it collects them.
    fn new(facts: DeviceFacts, numbers: &Numbers, past: Option<Collection>) -> Ssd {
        let Numbers { channels, dies, planes, page, .. } = *numbers;
        let layout = Layout::new(page, planes, dies, channels);
        let unit = layout.unit_bytes();
        let depth = facts.depth as usize;
        Ssd {
            layout,
            clock: ServiceClock::default(),
            calendar: Calendar::with_capacity(depth * 4 + dies as usize),
            link: Link::new(numbers.link),
            channels: vec![Wire::default(); channels as usize],
            dies: vec![Die::default(); dies as usize],
            programs: vec![None; dies as usize],
            resting: (0..dies).collect(),
            buffer: WriteBuffer::new(numbers.buffer, unit, numbers.amplification, facts.depth),
            collection: past,
            slc: numbers.slc.map(Slc::new),
            ahead: ahead(numbers, &layout, &facts),
            quiet_since: Nanos::ZERO,
            tally: Tally::default(),
            chance: Chance::new(0, 0),
            inside: vec![None; depth],
            free: (0..facts.depth).rev().collect(),
            blocked: VecDeque::with_capacity(depth),
            alone: false,
            written_since_flush: false,
            flushing: 0,
            last_flush: None,
            followers: Vec::with_capacity(depth),
            numbers: numbers.clone(),
            facts,
        }
    }

    /// Whether no command is inside.
    fn is_empty(&self) -> bool {
        self.free.len() == self.inside.len()
    }

    /// What happens at `now`; a command that ends with it.
    fn happen(&mut self, now: Nanos, what: Happening) -> Option<Completion> {
        match what {
            Happening::Understood { slot } => return self.understood(now, slot),
            Happening::Sensed { slot, die, sectors } => {
                let channel = self.layout.channel(die) as usize;
                let time = self.numbers.channel.time(u64::from(sectors) * 512);
                let at = self.channels[channel].carry(now, time);
                self.calendar.enter(at, Happening::Collected { slot, sectors });
            }
            Happening::Collected { slot, sectors } => {
                let inside = self.inside[slot as usize].as_mut()?;
                let first = std::mem::take(&mut inside.untold);
                let at = self.link.carry_out(now, u64::from(sectors) * 512, first);
                self.calendar.enter(at, Happening::Ended { slot });
            }
            Happening::Fetched { stream, die, sectors } => {
                let channel = self.layout.channel(die) as usize;
                let time = self.numbers.channel.time(u64::from(sectors) * 512);
                let at = self.channels[channel].carry(now, time);
                self.calendar.enter(at, Happening::Buffered { stream, sectors });
            }
            Happening::Buffered { stream, sectors } => {
                let ahead = self.ahead.as_mut()?;
                ahead.come(stream, sectors);
                while let Some((slot, sectors)) = ahead.ready() {
                    self.calendar.enter(now, Happening::Collected { slot, sectors });
                }
            }
            Happening::Ended { slot } => return self.part_ended(now, slot),
            Happening::Programmed { die } => self.programmed(now, die),
        }
        None
    }

    /// The controller begins with a command.
    fn understood(&mut self, now: Nanos, slot: u32) -> Option<Completion> {
        let command = self.inside[slot as usize]?.command;
        match command.op {
            Op::Read => self.sense(now, slot, &command),
            Op::Write if self.blocked.is_empty() && self.buffer.has_room(bytes(&command)) => {
                return self.store(now, slot).then(|| self.end(now, slot)).flatten();
            }
            Op::Write => {
                self.blocked.push_back(slot);
                self.make_room(now);
            }
            Op::Flush => self.flush(now, slot),
            _ => self.discard(now, slot, &command),
        }
        None
    }

    /// Sends every piece of a read to its die, and after them what is fetched of its stream.
    fn sense(&mut self, now: Nanos, slot: u32, command: &Command) {
        let (mut parts, mut sector, mut sectors) = (0, command.sector, command.sectors);
        let mut fetch = None;
        if self.ahead.is_some() {
            let (found, next) = self.find_ahead(now, slot, command);
            parts += u32::from(found > 0);
            sector += u64::from(found);
            sectors -= found;
            fetch = next;
        }
        for piece in self.layout.pieces(sector, sectors) {
            let at = self.read_die(now, &piece);
            let (die, sectors) = (piece.die, piece.sectors);
            self.calendar.enter(at, Happening::Sensed { slot, die, sectors });
            parts += 1;
        }
        if let Some(inside) = self.inside[slot as usize].as_mut() {
            inside.parts = parts;
        }
        if let Some((stream, range)) = fetch {
            self.fetch(now, stream, range);
        }
    }

    /// How many sectors at the beginning of a read were fetched ahead or are on their way, and what
    /// is to be fetched next.
    #[inline(never)]
    fn find_ahead(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> (u32, Option<(StreamId, Range<u64>)>) {
        let Some(ahead) = self.ahead.as_mut() else { return (0, None) };
        let Found { sectors, is_here, fetch } = ahead.read(slot, command.sector, command.sectors);
        if sectors > 0 && is_here {
            self.calendar.enter(now, Happening::Collected { slot, sectors });
        }
        (sectors, fetch)
    }

    /// Reads what no command has asked for yet.
    #[inline(never)]
    fn fetch(&mut self, now: Nanos, stream: StreamId, range: Range<u64>) {
        let all = u32::try_from(range.end - range.start).unwrap_or(0);
        for piece in self.layout.pieces(range.start, all) {
            let at = self.read_die(now, &piece);
            let (die, sectors) = (piece.die, piece.sectors);
            self.calendar.enter(at, Happening::Fetched { stream, die, sectors });
        }
    }

    /// A die reads a piece; when it is in its register.
    #[inline]
    fn read_die(&mut self, now: Nanos, piece: &Piece) -> Nanos {
        let Numbers { times, read_spread, .. } = &self.numbers;
        let time = match read_spread {
            Some(spread) => spread.draw(&mut self.chance),
            None => times.read(piece),
        };
        self.dies[piece.die as usize].read(now, time, times.suspend)
    }

    /// A write goes into the buffer. Returns whether that is all: it need not wait for durability.
    fn store(&mut self, now: Nanos, slot: u32) -> bool {
        let Some(Inside { command, .. }) = self.inside[slot as usize] else { return false };
        if let Some(collection) = self.collection.as_mut() {
            self.buffer.owe(collection.write(command.sector, command.sectors));
        }
        self.tally.host += bytes(&command);
        self.buffer.take(command.sector, command.sectors);
        self.written_since_flush = true;
        let durable = command.flags.contains(Flags::FUA) && !self.numbers.power_loss_protection;
        if durable {
            self.buffer.close_all();
        }
        let waits = durable && self.buffer.wait_durable(slot);
        self.feed(now);
        !waits
    }

    fn flush(&mut self, now: Nanos, slot: u32) {
        let nothing_new = !std::mem::take(&mut self.written_since_flush);
        if nothing_new {
            // What was written before it may still be on its way, for the flush before it.
            match self.last_flush {
                Some(last) => self.followers.push((last, slot)),
                None => self.calendar.enter(now, Happening::Ended { slot }),
            }
            return;
        }
        self.flushing += 1;
        self.last_flush = Some(slot);
        if let Some(inside) = self.inside[slot as usize].as_mut() {
            inside.flushes = true;
        }
        if self.numbers.power_loss_protection {
            self.calendar.enter(now + self.numbers.flush, Happening::Ended { slot });
        } else {
            self.buffer.close_all();
            if self.buffer.wait_durable(slot) {
                self.feed(now);
            } else {
                self.calendar.enter(now + self.numbers.flush, Happening::Ended { slot });
            }
        }
    }

    /// Trims pages: they need not be moved any more.
    fn discard(&mut self, now: Nanos, slot: u32, command: &Command) {
        if let (Op::Discard, Some(collection)) = (command.op, self.collection.as_mut()) {
            collection.trim(command.sector, command.sectors);
        }
        self.calendar.enter(now + self.numbers.discard, Happening::Ended { slot });
    }

    /// Gives programs to dies that have none.
    fn feed(&mut self, now: Nanos) {
        while let Some(&die) = self.resting.front() {
            let Some(program) = self.buffer.next_program() else { return };
            self.resting.pop_front();
            // The next unit crosses the channel while the last one is programmed (a die has a
            // register for each), so that it costs the channel's time and not the die's.
            let (moved, time) = self.work(&program);
            let channel = self.layout.channel(die) as usize;
            self.channels[channel].carry(now, self.numbers.channel.time(moved));
            let at = self.dies[die as usize].program(now, time);
            self.programs[die as usize] = Some(program);
            self.calendar.enter(at, Happening::Programmed { die });
        }
    }

    /// What a program carries over the channel, and how long it keeps the die busy.
    fn work(&mut self, program: &Program) -> (u64, Nanos) {
        let unit = self.layout.unit_bytes();
        let program_time = match &self.numbers.program_spread {
            Some(spread) => spread.draw(&mut self.chance),
            None => self.numbers.times.program,
        };
        match (program.work, &self.numbers.collection) {
            (Work::Host, _) => {
                let unused = self.collection.as_ref().map(Collection::unused_bytes);
                let slc = self.slc.as_mut().and_then(|slc| slc.take(program.bytes, unused));
                (program.bytes, slc.unwrap_or(program_time))
            }
            // The factor is fitted to measured results, which include the reads of collection.
            (Work::Move, None) => (unit, program_time),
            (Work::Move, Some(_)) => {
                self.tally.moved += unit;
                // Read on one die, out over the channel, in again: here all on the same one.
                (2 * unit, program_time + self.numbers.times.slowest_read())
            }
            (Work::Erase, of) => {
                self.tally.erases += 1;
                (0, of.as_ref().map_or(Nanos::ZERO, |of| of.erase))
            }
        }
    }

    fn programmed(&mut self, now: Nanos, die: u32) {
        let at = self.dies[die as usize].program_until();
        if at > now {
            // Reads have delayed it.
            self.calendar.enter(at, Happening::Programmed { die });
            return;
        }
        let Some(program) = self.programs[die as usize].take() else { return };
        self.resting.push_back(die);
        self.buffer.programmed(program);
        while let Some(slot) = self.buffer.now_durable() {
            self.calendar.enter(now + self.after_durable(slot), Happening::Ended { slot });
        }
        self.make_room(now);
        self.feed(now);
    }

    /// How long a command still takes once everything it waited for is programmed.
    fn after_durable(&self, slot: u32) -> Nanos {
        let is_flush =
            self.inside[slot as usize].is_some_and(|inside| inside.command.op == Op::Flush);
        if is_flush { self.numbers.flush } else { Nanos::ZERO }
    }

    /// Admits blocked writes, in their order, while there is room.
    fn make_room(&mut self, now: Nanos) {
        while let Some(&slot) = self.blocked.front() {
            let Some(Inside { command, .. }) = self.inside[slot as usize] else { return };
            if !self.buffer.has_room(bytes(&command)) {
                if self.buffer.is_resting() {
                    // Open units fill the buffer: nothing would ever become free.
                    self.buffer.close_all();
                    self.feed(now);
                }
                return;
            }
            self.blocked.pop_front();
            if self.store(now, slot) {
                self.calendar.enter(now, Happening::Ended { slot });
            }
        }
    }

    /// A flush that had something to do has ended, and those that waited for it end, too.
    fn flush_ended(&mut self, now: Nanos, slot: u32) {
        self.flushing -= 1;
        self.last_flush = self.last_flush.filter(|last| *last != slot);
        let calendar = &mut self.calendar;
        self.followers.retain(|&(awaited, follower)| {
            if awaited == slot {
                calendar.enter(now, Happening::Ended { slot: follower });
            }
            awaited != slot
        });
    }

    fn part_ended(&mut self, now: Nanos, slot: u32) -> Option<Completion> {
        let inside = self.inside[slot as usize].as_mut()?;
        inside.parts = inside.parts.saturating_sub(1);
        if inside.parts > 0 { None } else { self.end(now, slot) }
    }

    fn end(&mut self, now: Nanos, slot: u32) -> Option<Completion> {
        let Inside { command, entered, flushes, .. } = self.inside[slot as usize].take()?;
        if flushes {
            self.flush_ended(now, slot);
        }
        self.free.push(slot);
        self.quiet_since = now;
        self.alone = false;
        let served = self.clock.leave(now, entered);
        Some(Completion { tag: command.tag, at: now, outcome: Outcome::OK.served(served) })
    }
}

/// The read-ahead, if the drive has any.
fn ahead(numbers: &Numbers, layout: &Layout, facts: &DeviceFacts) -> Option<ReadAhead> {
    let (sectors, unit) = (numbers.read_ahead / 512, layout.unit_bytes() / 512);
    (sectors > 0).then(|| ReadAhead::new(sectors, unit, facts.capacity, facts.depth))
}

const fn bytes(command: &Command) -> u64 {
    command.sectors as u64 * 512
}

impl Model for Ssd {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        let alone = match command.op {
            Op::Flush => !self.facts.flush_queueable,
            Op::Read | Op::Write => false,
            _ => !self.numbers.discard_queueable,
        };
        if self.alone || (alone && !self.is_empty()) {
            return Err(Refused);
        }
        if self.is_empty() {
            // Programs have gone on while no command was inside, so no command can end here.
            while let Some((at, what)) = self.calendar.due(now) {
                let _none_inside = self.happen(at, what);
            }
            if let Some(slc) = self.slc.as_mut() {
                slc.quiet(now - self.quiet_since);
            }
        }
        let slot = self.free.pop().ok_or(Refused)?;
        let entered = self.clock.enter(now);
        let inside = Inside { command: *command, entered, parts: 1, untold: true, flushes: false };
        self.inside[slot as usize] = Some(inside);
        self.alone = alone;
        // A read pays for the link with its data, on the way back.
        let arrives = match command.op {
            Op::Read => now,
            Op::Write => self.link.carry_in(now, bytes(command)),
            _ => self.link.carry_in(now, 0),
        };
        let controller = match command.op {
            Op::Flush => Nanos::ZERO,
            Op::Read if self.flushing > 0 => {
                self.numbers.controller + self.numbers.flush_read_delay
            }
            _ => self.numbers.controller,
        };
        self.calendar.enter(arrives + controller, Happening::Understood { slot });
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let occupied = self.collection.as_ref().map(Collection::occupied);
        self.tally.figures(occupied, self.slc.as_ref().map(Slc::bytes))
    }

    fn next_event(&self) -> Option<Nanos> {
        if self.is_empty() { None } else { self.calendar.next() }
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        while !self.is_empty() {
            let (at, what) = self.calendar.due(now)?;
            let completion = self.happen(at, what);
            if completion.is_some() {
                return completion;
            }
        }
        None
    }
}
