// SPDX-License-Identifier: MIT OR Apache-2.0
//! power: a disk that can lose power at any event, and shows what is left on the medium.
//!
//! Made for the crash test, not for figures: it behaves as badly as a disk may without breaking its
//! promises. It keeps content (`contents.rs`), completes in any order, drains in any order, and the
//! seed decides what a cut leaves of its cache.
//!
//! ```text
//!           taken        lands                    ends              drained
//! write       |------------|-----------------------|------------------|
//! a cut     absent, torn   | there, absent or torn                     | there
//! leaves    or there       |
//! ```
//!
//! A disk with a volatile cache promises this and nothing else:
//!
//! * A *flush* that ends well has made durable every write that had ended when the flush was taken.
//!   Of a write that ends while the flush is inside, the seed decides whether it was covered: no
//!   caller may rely on it.
//! * A write with *FUA* is durable when it ends, if the disk supports FUA. If not, it ignores the
//!   flag.
//! * Of two writes to one sector that are inside at the same time, either may land later. Data that
//!   are overtaken in the cache never come back.
//!
//! Without a volatile cache a write is durable when it ends. A command that fails promises
//! nothing; a failed write may be there all the same.
//!
//! A disk whose flush cannot be queued refuses a flush while others are inside, and others while
//! a flush is.
//!
//! # Cuts
//! [`VolatileDisk::cut`] does not disturb the run: it draws what the medium would hold had the
//! power failed now. So one run can be checked at each of its events.
//!
//! # Commands and content
//! Commands carry no data. The disk numbers those that it takes; a sector holds the number of the
//! command that wrote it ([`VolatileDisk::last_taken`]), and the caller knows which bios that
//! command carried.
//!
//! # Not here
//! Discards take time and leave the content unchanged. Reads return nothing to compare.
//!
//! Source: FLUSH-1 to FLUSH-3, FLUSH-16.

mod contents;
mod flaw;
#[cfg(test)]
mod tests;

use paternoster_core::{Command, Completion, DeviceFacts, Flags, Nanos, Op, Outcome, Refused, Tag};

use crate::chance::Chance;
use crate::model::Model;

pub use self::contents::{Cached, Contents, Medium, Serial, Survival};
pub use self::flaw::Flaw;

/// A read or write takes this long at least, and at most `SPREAD` more.
const LEAST: Nanos = Nanos::from_micros(40);
const SPREAD: Nanos = Nanos::from_micros(800);
/// A flush takes this much more for each write in the cache.
const FLUSH_EACH: Nanos = Nanos::from_micros(60);
/// The next write is drained within this time.
const DRAIN_WITHIN: Nanos = Nanos::from_millis(4);
/// EIO.
const ERRNO: i32 = 5;

/// A disk's random behaviour, and its flaw.
#[derive(Debug, Clone, Copy, Default)]
pub struct Habits {
    /// Decides times, orders, errors and drains.
    pub seed: u64,
    /// One command in this many fails; 0: none fails.
    pub error_every: u64,
    /// One command in this many is refused, for no reason that a queue could know; 0 for none.
    pub refuse_every: u64,
    /// How the disk breaks its promises, if it does.
    pub flaw: Option<Flaw>,
}

/// A sector of the medium.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    serial: Serial,
    /// The number of its landing.
    landed: u64,
}

/// The medium of a disk that remembers each of its sectors.
#[derive(Debug)]
struct Serials(Vec<Held>);

fn place(sector: u64) -> usize {
    usize::try_from(sector).unwrap_or(usize::MAX)
}

impl Medium for Serials {
    type Load = ();

    fn landed(&self, sector: u64) -> u64 {
        self.0[place(sector)].landed
    }

    fn take(&mut self, sector: u64, write: &Cached<()>) {
        self.0[place(sector)] = Held { serial: write.serial(), landed: write.landed() };
    }
}

/// A command that the disk has taken.
#[derive(Debug, Clone, Copy)]
struct Inside {
    tag: Tag,
    serial: Serial,
    op: Op,
    fua: bool,
    first: u64,
    end: u64,
    /// For a flush: it covers this many writes, the first to end.
    mark: u64,
    /// When a write reaches the cache; `None` once it has, or if it never does.
    lands: Option<Nanos>,
    ends: Nanos,
    fails: bool,
}

/// What is due.
#[derive(Debug, Clone, Copy)]
enum Due {
    Landing(usize),
    Ending(usize),
    Drain,
}

/// A disk with a volatile cache, or without; see the module's documentation.
#[derive(Debug)]
pub struct VolatileDisk {
    facts: DeviceFacts,
    habits: Habits,
    chance: Chance,
    contents: Contents<Serials>,
    inside: Vec<Inside>,
    taken: Serial,
    drains: Option<Nanos>,
    /// Writes that had ended when the last write, and the last flush, was taken (for flaws).
    at_last_write: u64,
    at_last_flush: u64,
    events: u64,
}

impl VolatileDisk {
    /// A new disk. It remembers each of its sectors: `facts.capacity` should be small.
    #[must_use]
    pub fn new(facts: DeviceFacts, habits: Habits) -> VolatileDisk {
        let sectors = usize::try_from(facts.capacity).unwrap_or(usize::MAX);
        VolatileDisk {
            facts,
            habits,
            chance: Chance::new(habits.seed, 0),
            contents: Contents::new(Serials(vec![Held::default(); sectors]))
                .keeping_stale(habits.flaw == Some(Flaw::DrainsStale)),
            inside: Vec::with_capacity(facts.depth as usize),
            taken: 0,
            drains: None,
            at_last_write: 0,
            at_last_flush: 0,
            events: 0,
        }
    }

    /// The number of the command that was taken last.
    #[must_use]
    pub const fn last_taken(&self) -> Serial {
        self.taken
    }

    /// How many things have happened to it: commands taken, landings, ends, drains.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Whether more than one outcome of a cut is possible.
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.contents.cached() != 0 || self.inside.iter().any(|inside| inside.op == Op::Write)
    }

    /// Writes in the cache that are not wholly on the medium.
    #[must_use]
    pub fn cached(&self) -> usize {
        self.contents.cached()
    }

    /// What would be on the medium had the power failed now: for each sector the number of the
    /// command that wrote it, 0 for none. Another `seed` draws another of the possible outcomes.
    /// Returns how much survived.
    pub fn cut(&self, seed: u64, image: &mut Vec<Serial>) -> Survival {
        let mut chance = Chance::new(seed, 1);
        let survival = Survival::draw(&mut chance);
        let flying = self.inside.iter().filter(|inside| inside.lands.is_some());
        let flying = flying.map(|i| Cached::new(i.serial, i.first, i.end, ()));
        image.clear();
        image.extend(self.contents.medium().0.iter().map(|held| held.serial));
        let tears = |(): &()| true;
        self.contents.cut(survival, flying, tears, &mut chance, |sector, write| {
            image[place(sector)] = write.serial();
        });
        survival
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.habits.flaw == Some(flaw)
    }

    fn refuses(&self, command: &Command) -> bool {
        let full = self.inside.len() >= self.facts.depth as usize;
        let flush_inside = self.inside.iter().any(|inside| inside.op == Op::Flush);
        let alone = !self.facts.flush_queueable && (command.op == Op::Flush || flush_inside);
        full || (alone && !self.inside.is_empty())
    }

    /// The next thing to happen. At one instant landings come before ends, ends before drains.
    fn first_due(&self) -> Option<(Nanos, Due)> {
        let landings = self.inside.iter().enumerate();
        let landings =
            landings.filter_map(|(place, i)| Some((i.lands?, 0, i.serial, Due::Landing(place))));
        let endings = self.inside.iter().enumerate();
        let endings = endings.map(|(place, i)| (i.ends, 1, i.serial, Due::Ending(place)));
        let drain = self.drains.map(|at| (at, 2, 0, Due::Drain));
        landings
            .chain(endings)
            .chain(drain)
            .min_by_key(|&(at, rank, serial, _)| (at, rank, serial))
            .map(|(at, _, _, due)| (at, due))
    }

    fn lasts(&mut self, op: Op) -> Nanos {
        let time = LEAST + Nanos(self.chance.below(SPREAD.0));
        match op {
            Op::Flush => time + Nanos(FLUSH_EACH.0 * self.contents.cached() as u64),
            _ => time,
        }
    }

    fn mark(&mut self, op: Op) -> u64 {
        let now = self.contents.ended();
        let honest = match op {
            Op::Flush if self.has(Flaw::FlushTooEarly) => self.at_last_write,
            Op::Flush if self.has(Flaw::FlushShared) => self.at_last_flush,
            _ => now,
        };
        match op {
            Op::Flush => self.at_last_flush = now,
            Op::Write => self.at_last_write = now,
            _ => {}
        }
        honest
    }

    fn land(&mut self, now: Nanos, place: usize) {
        let inside = &mut self.inside[place];
        inside.lands = None;
        let (serial, first, end) = (inside.serial, inside.first, inside.end);
        self.contents.land(Cached::new(serial, first, end, ()));
        self.plan_drain(now);
    }

    fn plan_drain(&mut self, now: Nanos) {
        if self.contents.cached() == 0 {
            self.drains = None;
        } else if self.drains.is_none() {
            self.drains = Some(now + Nanos(1 + self.chance.below(DRAIN_WITHIN.0)));
        }
    }

    fn drain(&mut self, now: Nanos) {
        self.contents.drain_one(&mut self.chance);
        self.drains = None;
        self.plan_drain(now);
    }

    fn end(&mut self, now: Nanos, place: usize) -> Completion {
        let done = self.inside.swap_remove(place);
        match done.op {
            Op::Write if !done.fails => {
                let fua = done.fua && self.facts.fua && !self.has(Flaw::ForgetsFua);
                self.contents.end(done.serial, fua || !self.facts.write_cache);
            }
            Op::Flush => self.end_flush(&done),
            _ => {}
        }
        self.plan_drain(now);
        let outcome = if done.fails { Outcome::failed(ERRNO) } else { Outcome::OK };
        Completion { tag: done.tag, at: done.ends, outcome }
    }

    fn end_flush(&mut self, done: &Inside) {
        // A flush that fails may have drained anything, or nothing.
        let does_nothing = self.has(Flaw::FlushDoesNothing);
        let mark = if done.fails || does_nothing { 0 } else { done.mark };
        if !does_nothing {
            let misses_one = self.has(Flaw::FlushMissesOne);
            self.contents.flush(mark, misses_one, &mut self.chance);
        }
    }
}

impl Model for VolatileDisk {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        if self.refuses(command) || self.chance.once_in(self.habits.refuse_every) {
            return Err(Refused);
        }
        let lasts = self.lasts(command.op);
        let fails = self.chance.once_in(self.habits.error_every);
        let is_write = command.op == Op::Write;
        let lands = now + Nanos(self.chance.below(lasts.0));
        // Half of the writes that fail never reach the cache.
        let lands = (is_write && !(fails && self.chance.once_in(2))).then_some(lands);
        let mark = self.mark(command.op);
        self.taken += 1;
        self.events += 1;
        self.inside.push(Inside {
            tag: command.tag,
            serial: self.taken,
            op: command.op,
            fua: command.flags.contains(Flags::FUA),
            first: command.sector,
            end: command.end(),
            mark,
            lands,
            ends: now + lasts,
            fails,
        });
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.first_due().map(|(at, _)| at)
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        while let Some((at, due)) = self.first_due().filter(|&(at, _)| at <= now) {
            self.events += 1;
            match due {
                Due::Landing(place) => self.land(at, place),
                Due::Drain => self.drain(at),
                Due::Ending(place) => return Some(self.end(at, place)),
            }
        }
        None
    }
}
