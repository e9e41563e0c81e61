// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents: what is on the medium, what is only in the cache, and what a cut leaves of it.
//!
//! A write *lands* in the cache at some time, and is *hardened* on the medium at another. Landings
//! are numbered, so that of two writes to one sector the later landing wins, whenever they are
//! hardened. The [`Medium`] decides what a sector holds: the crash test's medium stores no bytes,
//! only the *serial* of the command that wrote it; 0 is the content of a new disk:
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
//! I1  A sector of the medium never goes back to an earlier landing (except by a flaw).
//! I2  A write is in the cache as long as some of its sectors are newer than on the medium.
//! I3  At most `ROOM` writes are in the cache.

use crate::chance::Chance;

/// Numbers the commands that a disk has taken, from 1; 0 is no command.
pub type Serial = u64;

/// Writes in the cache; the oldest is hardened to make room for another.
const ROOM: usize = 256;

/// The durable content, by sector.
pub trait Medium {
    /// The content that a write carries.
    type Load;

    /// The number of the landing that this sector holds, 0 for none.
    fn landed(&self, sector: u64) -> u64;

    /// Stores what `write` carries for the sector.
    fn take(&mut self, sector: u64, write: &Cached<Self::Load>);
}

/// A write that has landed and is not wholly on the medium.
#[derive(Debug, Clone, Copy)]
pub struct Cached<L> {
    serial: Serial,
    landed: u64,
    first: u64,
    end: u64,
    /// How many writes had ended before it; `None` until it ends.
    ended: Option<u64>,
    load: L,
}

impl<L> Cached<L> {
    /// A write of the sectors from `first` up to `end` that has not landed.
    #[must_use]
    pub const fn new(serial: Serial, first: u64, end: u64, load: L) -> Cached<L> {
        Cached { serial, landed: u64::MAX, first, end, ended: None, load }
    }

    /// The command's number.
    #[must_use]
    pub const fn serial(&self) -> Serial {
        self.serial
    }

    /// The number of its landing.
    #[must_use]
    pub const fn landed(&self) -> u64 {
        self.landed
    }

    /// First sector of the write.
    #[must_use]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// The sector after its last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// The content of the write.
    #[must_use]
    pub const fn load(&self) -> &L {
        &self.load
    }

    const fn touches(&self, first: u64, end: u64) -> bool {
        self.first < end && first < self.end
    }
}

/// How much of the volatile data a cut leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// Everything, even writes that have not landed.
    Everything,
    /// Each write is there, absent or torn.
    SomeWrites,
    /// Each sector of each write is there or not.
    SomeSectors,
}

impl Survival {
    /// Every second cut leaves nothing, which is the hardest test of a flush.
    #[must_use]
    pub fn draw(chance: &mut Chance) -> Survival {
        match chance.below(8) {
            0..4 => Survival::Nothing,
            4 => Survival::Everything,
            5 | 6 => Survival::SomeWrites,
            _ => Survival::SomeSectors,
        }
    }

    /// How much of one write is left: all of it, nothing, or some sectors (`None`).
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
#[derive(Debug, Clone)]
pub struct Contents<M: Medium> {
    medium: M,
    /// Cached writes, in the order in which they landed.
    cached: Vec<Cached<M::Load>>,
    landed: u64,
    ended: u64,
    /// The flaw `DrainsStale`: overtaken writes are not forgotten.
    keeps_stale: bool,
}

impl<M: Medium> Contents<M> {
    /// A medium with an empty cache.
    #[must_use]
    pub fn new(medium: M) -> Contents<M> {
        let cached = Vec::with_capacity(ROOM);
        Contents { medium, cached, landed: 0, ended: 0, keeps_stale: false }
    }

    pub(super) fn keeping_stale(mut self, keeps_stale: bool) -> Contents<M> {
        self.keeps_stale = keeps_stale;
        self
    }

    /// The durable content.
    #[must_use]
    pub const fn medium(&self) -> &M {
        &self.medium
    }

    /// How many writes have ended: what a flush that begins now has to cover.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.ended
    }

    /// Writes in the cache.
    #[must_use]
    pub fn cached(&self) -> usize {
        self.cached.len()
    }

    /// The writes in the cache that touch these sectors, in the order of their landings.
    pub fn touching(&self, first: u64, end: u64) -> impl Iterator<Item = &Cached<M::Load>> {
        self.cached.iter().filter(move |cached| cached.touches(first, end))
    }

    /// A write reaches the cache.
    pub fn land(&mut self, write: Cached<M::Load>) {
        if self.cached.len() == ROOM {
            self.harden(0);
        }
        self.landed += 1;
        self.cached.push(Cached { landed: self.landed, ended: None, ..write });
    }

    /// A write has ended well, and is hardened if `durable`.
    pub fn end(&mut self, serial: Serial, durable: bool) {
        let place = self.cached.iter().position(|cached| cached.serial == serial);
        if let Some(place) = place {
            self.cached[place].ended = Some(self.ended);
            if durable {
                self.harden(place);
            }
        }
        // Even if it is on the medium by now, or overtaken.
        self.ended += 1;
    }

    /// Hardens the write in `place` of the cache, except where the medium is newer.
    fn harden(&mut self, place: usize) {
        let write = self.cached.remove(place);
        for sector in write.first..write.end {
            if self.medium.landed(sector) < write.landed {
                self.medium.take(sector, &write);
            }
        }
        if !self.keeps_stale {
            let medium = &self.medium;
            // I2 held before, so only writes that this one touches can be overtaken by it.
            self.cached.retain(|cached| {
                !cached.touches(write.first, write.end)
                    || (cached.first..cached.end).any(|at| medium.landed(at) < cached.landed)
            });
        }
    }

    /// Drains one write, any of them, in the background.
    pub fn drain_one(&mut self, chance: &mut Chance) {
        let Some(place) = self.draw_one(chance) else { return };
        if self.keeps_stale {
            let write = &self.cached[place];
            for sector in write.first..write.end {
                self.medium.take(sector, write);
            }
        }
        self.harden(place);
    }

    fn draw_one(&self, chance: &mut Chance) -> Option<usize> {
        usize::try_from(chance.below(self.cached.len() as u64))
            .ok()
            .filter(|&place| place < self.cached.len())
    }

    /// What a flush has done at its end: each of the first `mark` writes to end is on the medium;
    /// of the others, which ended while the flush was under way, some are, by chance. `misses_one`
    /// is the flaw `FlushMissesOne`.
    pub fn flush(&mut self, mark: u64, misses_one: bool, chance: &mut Chance) {
        let covered = |cached: &&Cached<M::Load>| cached.ended.is_some_and(|ended| ended < mark);
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
            // A write that overtook it may have removed it.
            if let Some(place) = self.cached.iter().position(|cached| cached.serial == serial) {
                self.harden(place);
            }
        }
    }

    /// What a cut leaves in addition to the medium: calls `left` for each sector that takes a
    /// write's data, in order. `flying` are writes that have not landed. Of a write that `tears`
    /// only some sectors may be left; any other is left whole, or not at all.
    pub fn cut(
        &self,
        survival: Survival,
        flying: impl Iterator<Item = Cached<M::Load>>,
        tears: impl Fn(&M::Load) -> bool,
        chance: &mut Chance,
        mut left: impl FnMut(u64, &Cached<M::Load>),
    ) {
        let mut write_is_cut = |write: &Cached<M::Load>| {
            let mut all = survival.of_write(chance);
            if all.is_none() && !tears(&write.load) {
                all = Some(chance.once_in(2));
            }
            for sector in write.first..write.end {
                let newer = self.medium.landed(sector) < write.landed;
                if all.unwrap_or_else(|| chance.once_in(2)) && newer {
                    left(sector, write);
                }
            }
        };
        self.cached.iter().for_each(&mut write_is_cut);
        flying.for_each(|write| write_is_cut(&write));
    }
}
