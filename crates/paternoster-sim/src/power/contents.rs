// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents: what is on the medium, what is only in the cache, and what a cut leaves of it.
//!
//! Contents have no bytes. Each sector holds the *serial* of the command that wrote it; 0 is what
//! was there when the disk was new. A write *lands* in the cache at some time, and is *hardened*
//! on the medium at another. Landings are numbered, so that of two writes to one sector the later
//! landing wins, whenever they are hardened:
//!
//! ```text
//! sector      0 1 2 3 4 5 6 7
//! medium      4 4 4 4 0 0 0 0     hardened
//! cache 7         7 7 7 7         landed third
//! cache 9             9 9 9 9     landed fourth
//!
//! a cut may leave  4 4 4 4 0 0 0 0     nothing of the cache
//!                  4 4 7 7 9 9 9 9     everything
//!                  4 4 4 4 9 9 9 9     some writes
//!                  4 4 7 4 0 9 0 9     some sectors: torn
//! ```
//!
//! # Invariants
//! I1  A sector of the medium never goes back to an earlier landing (but for a flaw).
//! I2  A write is in the cache as long as it landed later than the medium in some of its sectors.
//! I3  At most `ROOM` writes are in the cache.

use crate::chance::Chance;

/// Numbers the commands that a disk has taken, from 1; 0 is no command.
pub type Serial = u64;

/// Writes in the cache; the oldest is hardened for one more.
const ROOM: usize = 256;

/// A sector of the medium.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    serial: Serial,
    /// The number of its landing.
    landed: u64,
}

/// A write that has landed and is not wholly on the medium.
#[derive(Debug, Clone, Copy)]
struct Cached {
    serial: Serial,
    landed: u64,
    first: usize,
    end: usize,
    /// How many writes had ended before it; none while it has not.
    ended: Option<u64>,
}

/// How much of what is volatile a cut leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// Everything, also what is still on its way.
    Everything,
    /// Each write is there, absent or torn.
    SomeWrites,
    /// Each sector of each write is there or not.
    SomeSectors,
}

impl Survival {
    /// Every second cut leaves nothing, which asks most of a flush.
    pub(super) fn draw(chance: &mut Chance) -> Survival {
        match chance.below(8) {
            0..4 => Survival::Nothing,
            4 => Survival::Everything,
            5 | 6 => Survival::SomeWrites,
            _ => Survival::SomeSectors,
        }
    }

    /// How much of one write is left: all, nothing, or some sectors (`None`).
    fn of_write(self, chance: &mut Chance) -> Option<bool> {
        match self {
            Survival::Nothing => Some(false),
            Survival::Everything => Some(true),
            Survival::SomeSectors => None,
            Survival::SomeWrites => match chance.below(3) {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
        }
    }
}

/// What the disk holds.
#[derive(Debug)]
pub(super) struct Contents {
    medium: Vec<Held>,
    /// In the order of their landings.
    cached: Vec<Cached>,
    landed: u64,
    ended: u64,
    /// The flaw `DrainsStale`: what was overtaken is not forgotten.
    keeps_stale: bool,
}

impl Contents {
    pub(super) fn new(sectors: usize, keeps_stale: bool) -> Contents {
        Contents {
            medium: vec![Held::default(); sectors],
            cached: Vec::with_capacity(ROOM),
            landed: 0,
            ended: 0,
            keeps_stale,
        }
    }

    /// How many writes have ended: what a flush that begins now has to cover.
    pub(super) const fn ended(&self) -> u64 {
        self.ended
    }

    /// Writes in the cache.
    pub(super) fn cached(&self) -> usize {
        self.cached.len()
    }

    /// A write reaches the cache.
    pub(super) fn land(&mut self, serial: Serial, first: usize, end: usize) {
        if self.cached.len() == ROOM {
            self.harden(0);
        }
        self.landed += 1;
        self.cached.push(Cached { serial, landed: self.landed, first, end, ended: None });
    }

    /// A write has ended well; hardened, if it is to be.
    pub(super) fn end(&mut self, serial: Serial, durable: bool) {
        let place = self.cached.iter().position(|cached| cached.serial == serial);
        if let Some(place) = place {
            self.cached[place].ended = Some(self.ended);
            if durable {
                self.harden(place);
            }
        }
        // Also if it is on the medium by now, or overtaken.
        self.ended += 1;
    }

    /// Hardens the write in `place` of the cache, except where the medium is newer.
    fn harden(&mut self, place: usize) {
        let write = self.cached.remove(place);
        for held in &mut self.medium[write.first..write.end] {
            if held.landed < write.landed {
                *held = Held { serial: write.serial, landed: write.landed };
            }
        }
        if !self.keeps_stale {
            let medium = &self.medium;
            self.cached.retain(|cached| {
                medium[cached.first..cached.end].iter().any(|held| held.landed < cached.landed)
            });
        }
    }

    /// Drains one write, whichever, in the background.
    pub(super) fn drain_one(&mut self, chance: &mut Chance) {
        let Some(place) = self.draw_one(chance) else { return };
        if self.keeps_stale {
            let write = self.cached[place];
            self.medium[write.first..write.end]
                .fill(Held { serial: write.serial, landed: write.landed });
        }
        self.harden(place);
    }

    fn draw_one(&self, chance: &mut Chance) -> Option<usize> {
        usize::try_from(chance.below(self.cached.len() as u64))
            .ok()
            .filter(|&place| place < self.cached.len())
    }

    /// What a flush has done at its end: every write is on the medium that was among the first
    /// `mark` to end; of the others, which came while it was under way, some are by chance.
    pub(super) fn flush(&mut self, mark: u64, misses_one: bool, chance: &mut Chance) {
        let covered = |cached: &&Cached| cached.ended.is_some_and(|ended| ended < mark);
        let count = self.cached.iter().filter(covered).count() as u64;
        let spared = misses_one.then(|| usize::try_from(chance.below(count)).unwrap_or(0));
        let mut due: Vec<Serial> = Vec::with_capacity(self.cached.len());
        due.extend(self.cached.iter().filter(covered).map(|cached| cached.serial));
        if let Some(spared) = spared.filter(|&spared| spared < due.len()) {
            due.remove(spared);
        }
        for cached in self.cached.iter().filter(|cached| !covered(cached)) {
            if chance.once_in(4) {
                due.push(cached.serial);
            }
        }
        for serial in due {
            // It may have left with one that overtook it.
            if let Some(place) = self.cached.iter().position(|cached| cached.serial == serial) {
                self.harden(place);
            }
        }
    }

    /// The medium behind a cut. `flying` are writes that have not landed.
    pub(super) fn cut(
        &self,
        survival: Survival,
        flying: impl Iterator<Item = (Serial, usize, usize)>,
        chance: &mut Chance,
        image: &mut Vec<Serial>,
    ) {
        image.clear();
        image.extend(self.medium.iter().map(|held| held.serial));
        for write in &self.cached {
            let left = survival.of_write(chance);
            let sectors = write.first..write.end;
            for (left_there, held) in image[sectors.clone()].iter_mut().zip(&self.medium[sectors]) {
                let newer = held.landed < write.landed;
                if left.unwrap_or_else(|| chance.once_in(2)) && newer {
                    *left_there = write.serial;
                }
            }
        }
        for (serial, first, end) in flying {
            let left = survival.of_write(chance);
            for held in &mut image[first..end] {
                if left.unwrap_or_else(|| chance.once_in(2)) {
                    *held = serial;
                }
            }
        }
    }
}
