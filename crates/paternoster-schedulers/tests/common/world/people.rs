// SPDX-License-Identifier: MIT OR Apache-2.0
//! People: the clients as a caller sees them, asleep or awake (W6).
//!
//! A client that got `Busy` sleeps and is owed a `Wake`. What it sleeps for (a bio's place, a slot,
//! its pool) is noted when it falls asleep, from what the caller knows to be taken then. A client
//! that was woken may come too late and sleep again; so a sleeper is not owed what is free as long
//! as as many others are awake that have not tried yet.
//!
//! # Invariants
//! I1  No client is woken more often than it fell asleep.
//! I2  None sleeps for something free, beyond what those that are awake may take.

use paternoster_core::{Bio, ClientId, Limits};

#[derive(Debug, Clone, Copy)]
pub(super) struct Person {
    pub(super) id: ClientId,
    /// Got Busy and no Wake since.
    pub(super) owed: bool,
    /// The bio that got Busy.
    pub(super) refused: Option<Bio>,
    /// When it got Busy, all bio slots were taken.
    for_bio: bool,
    /// When it got Busy, requests of both pools together had all slots: only when rules change.
    for_slot: bool,
    /// Got a Wake, and has since submitted nothing that the queue could take or refuse.
    pub(super) has_turn: bool,
    busies: u64,
    wakes: u64,
    /// Start and end of its last bio.
    pub(super) last: (u64, u64),
}

/// How much of a queue is in use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// Asynchronous requests, and others.
    pub(super) requests: (u32, u32),
    pub(super) bios: usize,
    pub(super) legacy: bool,
    /// How many requests there may be; in each pool if the rules are legacy.
    pub(super) nominal: u32,
}

impl Person {
    pub(super) fn new(id: ClientId) -> Person {
        let start = u64::from(id.index()) * 512;
        Person {
            id,
            owed: false,
            refused: None,
            for_bio: false,
            for_slot: false,
            has_turn: false,
            busies: 0,
            wakes: 0,
            last: (start, start),
        }
    }

    /// It got Busy for this bio, with this many requests and bios in use.
    pub(super) fn falls_asleep(&mut self, bio: Bio, requests: u32, bios: usize, limits: &Limits) {
        self.owed = true;
        self.has_turn = false;
        self.busies += 1;
        self.refused = Some(bio);
        self.for_slot = requests >= limits.requests;
        self.for_bio = bios >= limits.bios as usize;
    }

    /// The client got a Wake.
    pub(super) fn wakes(&mut self) -> Result<(), String> {
        self.owed = false;
        self.has_turn = true;
        self.wakes += 1;
        if self.wakes > self.busies {
            return Err(format!("W6: {} is woken more often than it fell asleep", self.id));
        }
        Ok(())
    }
}

/// W6: none sleeps for something free, unless as many others are awake and have not tried again
/// yet.
pub(super) fn sleepers(people: &[Person], limits: &Limits, held: Held) -> Result<(), String> {
    let awake = people.iter().filter(|person| person.has_turn).count();
    let awake = u32::try_from(awake).unwrap_or(u32::MAX);
    let Held { requests: (limited, others), bios, legacy, nominal } = held;
    for person in people.iter().filter(|person| person.owed) {
        let sync = person.refused.is_none_or(|bio| bio.is_sync());
        let forgotten = if person.for_bio {
            bios + (awake as usize) < limits.bios as usize
        } else if legacy && !person.for_slot {
            // A client that finds the pool one short of full sleeps as well, because the last goes
            // to batchers.
            let pool = if sync { others } else { limited };
            pool + awake + 1 < nominal
        } else {
            limited + others + awake == 0
        };
        if forgotten {
            return Err(format!("W6: {person:?} sleeps, {held:?}, {awake} awake, of {limits:?}"));
        }
    }
    Ok(())
}
