// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bios: which one a step means, and whether a queue should take it.
//!
//! A step says *where* a bio is to be relative to others (after the client's last, before it, after
//! another's), because merges and shared streams need neighbours, and places drawn from the whole
//! device would hardly meet. What no step says (segments, its own priority) follows from the
//! cookie.
//!
//! # Invariants
//! I1  The same people, step and cookie give the same bio: a run shrinks and repeats.
//! I2  Wrong bios are drawn too: beyond the end, too large, a flush with sectors. `is_right` says
//!     which those are, from the documentation and not from the queue's answer.

use paternoster_core::{Bio, Cookie, DeviceFacts, Flags, Op, Priority};

use super::people::Person;
use super::plan::CAPACITY;
use super::step::{What, Where, choose, class};

impl What {
    /// Its operation and flags.
    pub(super) fn op(self) -> (Op, Flags) {
        match self {
            What::Read => (Op::Read, Flags::NONE),
            What::Write => (Op::Write, Flags::NONE),
            What::SyncWrite => (Op::Write, Flags::SYNC),
            What::Discard => (Op::Discard, Flags::NONE),
            What::Flush => (Op::Flush, Flags::NONE),
            What::Fua => (Op::Write, Flags::FUA),
            What::Preflush => (Op::Write, Flags::PREFLUSH),
            What::PreflushFua => (Op::Write, Flags::PREFLUSH | Flags::FUA),
            What::ReadFua => (Op::Read, Flags::FUA),
            What::Alone => (Op::Write, Flags::NOMERGE),
            What::Urgent => (Op::Read, Flags::META | Flags::PRIO | Flags::NOIDLE),
        }
    }
}

/// The bio that a step means, for the person at this index.
pub(super) fn draw(
    (people, index): (&[Person], usize),
    (what, place, sectors): (What, Where, u32),
    cookie: Cookie,
) -> Bio {
    let person = people[index];
    let mut sectors = if sectors == 16 { 2600 } else { sectors };
    let sector = match place {
        Where::Behind => person.last.1,
        Where::Before => person.last.0.saturating_sub(sectors.into()),
        Where::BehindOther(other) => choose(people, other).map_or(0, |p| p.last.1),
        Where::At(at) => u64::from(at) * 8,
        Where::BeyondTheEnd => CAPACITY - 1,
    };
    let (op, flags) = what.op();
    if op == Op::Flush && sectors != 7 {
        sectors = 0;
    }
    let sector = if sectors == 0 { 0 } else { sector };
    let mut bio = Bio::new(person.id, op, sector, sectors).flags(flags).cookie(cookie);
    bio.segments = u16::try_from(cookie % 3).unwrap_or(0) + 1;
    if cookie.is_multiple_of(16) {
        let number = u8::try_from(cookie % 7).unwrap_or(0);
        bio.priority = Some(Priority { class: class(number), level: number });
    }
    bio
}

/// Whether a queue takes such a bio, or lets it wait.
pub(super) fn is_right(bio: &Bio, max_sectors: u32, facts: &DeviceFacts) -> bool {
    (bio.op == Op::Flush) == (bio.sectors == 0)
        && bio.end() <= CAPACITY
        && bio.sectors <= max_sectors
        && bio.segments <= facts.max_segments
}
