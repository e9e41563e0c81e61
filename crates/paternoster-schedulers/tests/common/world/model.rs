// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model: what a caller can know of its bios and of the device (W1 to W5), and no more: a map of
//! the bios that have not ended, a list of the commands in the device, and when its cache was last
//! clean.

use std::collections::BTreeMap;

use paternoster_core::{
    Bio, Command, Cookie, DeviceFacts, Flags, Nanos, Op, Outcome, Status, Tag, Ticket, Waiting,
};

/// Where a bio is, as far as a caller can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    Waiting,
    InDevice,
    Withdrawn,
    /// Its data ended with this outcome, at this beat.
    Ended(Outcome, u64),
}

/// A bio that was accepted and has not been handed back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live {
    pub(super) bio: Bio,
    pub(super) ticket: Ticket,
    /// The beat of its submission.
    born: u64,
    pub(super) stand: Stand,
}

#[derive(Debug, Clone)]
pub(super) struct Carried {
    pub(super) command: Command,
    cookies: Vec<Cookie>,
    /// The beat of its issue.
    issued: u64,
}

/// The device's cache, by beats.
#[derive(Debug, Default)]
struct Cache {
    /// When the last flush that succeeded was issued.
    flushed: u64,
    /// When the last write ended that may be in the cache.
    dirtied: u64,
    /// When it was last known to be clean: a flush may be elided then.
    clean: u64,
    /// Flushes that failed, and when.
    failures: Vec<(u64, Outcome)>,
}

impl Cache {
    fn look_whether_clean(&mut self, beat: u64) {
        if self.flushed > self.dirtied {
            self.clean = beat;
        }
    }

    /// Whether a request made at `beat` has had a flush after that, or needed none.
    const fn was_flushed(&self, beat: u64) -> bool {
        self.flushed > beat || self.clean >= beat
    }

    /// Whether a flush after `beat` failed with this outcome.
    fn flush_failed(&self, beat: u64, outcome: Outcome) -> bool {
        self.failures.iter().any(|&(at, failure)| at > beat && failure == outcome)
    }
}

#[derive(Debug)]
pub(super) struct Model {
    facts: DeviceFacts,
    /// Numbers events, for "before" and "after".
    beat: u64,
    pub(super) live: BTreeMap<Cookie, Live>,
    pub(super) commands: Vec<Carried>,
    /// The largest request allowed since the queue was last empty.
    pub(super) largest: u32,
    cache: Cache,
    /// Handles of bios that have ended.
    pub(super) gone: Vec<(Option<Tag>, Option<Ticket>)>,
}

impl Model {
    /// For a device, with `largest` as the largest request now.
    pub(super) fn new(facts: DeviceFacts, largest: u32) -> Model {
        Model {
            facts,
            beat: 0,
            live: BTreeMap::new(),
            commands: Vec::new(),
            largest,
            cache: Cache::default(),
            gone: Vec::new(),
        }
    }

    /// Counts one call more.
    pub(super) fn tick(&mut self) {
        self.beat += 1;
        self.cache.look_whether_clean(self.beat);
    }

    /// A bio was accepted.
    pub(super) fn accepted(&mut self, bio: Bio, ticket: Ticket) -> Result<(), String> {
        let live = Live { bio, ticket, born: self.beat, stand: Stand::Waiting };
        match self.live.insert(bio.cookie, live) {
            Some(_) => Err(format!("the driver used cookie {} twice", bio.cookie)),
            None => Ok(()),
        }
    }

    /// W2 to W4.
    pub(super) fn issued(&mut self, command: Command, cookies: Vec<Cookie>) -> Result<(), String> {
        let facts = self.facts;
        if self.commands.len() >= facts.depth as usize || command.tag.index() >= facts.depth {
            return Err(format!("W2: {command:?} is beyond the depth {}", facts.depth));
        }
        if self.commands.iter().any(|other| other.command.tag.index() == command.tag.index()) {
            return Err(format!("W2: the tag of {command:?} is in use"));
        }
        let fua = command.flags.contains(Flags::FUA);
        if command.flags.contains(Flags::PREFLUSH)
            || (fua && !(facts.fua && facts.write_cache))
            || (command.op == Op::Flush && !facts.write_cache)
        {
            return Err(format!("W4: the device does not know {command:?}"));
        }
        if command.op == Op::Flush {
            let second = self.commands.iter().any(|other| other.command.op == Op::Flush);
            if second || !cookies.is_empty() || command.sectors != 0 {
                return Err(format!("W4: {command:?} beside {:?}", self.commands));
            }
        } else {
            self.carries(&command, &cookies)?;
        }
        self.commands.push(Carried { command, cookies, issued: self.beat });
        Ok(())
    }

    fn carries(&mut self, command: &Command, cookies: &[Cookie]) -> Result<(), String> {
        let facts = self.facts;
        let (mut at, mut segments) = (command.sector, 0);
        for cookie in cookies {
            let Some(live) = self.live.get_mut(cookie) else {
                return Err(format!("W3: {command:?} carries {cookie}, which is not here"));
            };
            let bio = live.bio;
            if live.stand != Stand::Waiting {
                return Err(format!("W3: {command:?} carries {cookie}: {live:?}"));
            }
            if bio.op != command.op || bio.sector != at {
                return Err(format!("W2: {command:?} should go on at {at} with {bio:?}"));
            }
            if facts.write_cache {
                if bio.flags.contains(Flags::PREFLUSH) && !self.cache.was_flushed(live.born) {
                    return Err(format!("W4: no flush went before {bio:?}"));
                }
                let fua = bio.flags.contains(Flags::FUA);
                if fua && facts.fua && !command.flags.contains(Flags::FUA) {
                    return Err(format!("W4: {command:?} does not force {bio:?}"));
                }
            }
            live.stand = Stand::InDevice;
            at = bio.end();
            segments += bio.segments;
        }
        if at != command.end() || cookies.is_empty() || command.sectors == 0 {
            return Err(format!("W2: {command:?} covers more or less than {cookies:?}"));
        }
        if command.sectors > self.largest || segments > facts.max_segments {
            let largest = self.largest;
            return Err(format!("W2: {command:?} of {segments} segments, {largest} allowed"));
        }
        Ok(())
    }

    /// A command that ends, or is refused, chosen by a random number.
    pub(super) fn take_command(&mut self, which: u8) -> Option<Carried> {
        match self.commands.len() {
            0 => None,
            len => Some(self.commands.remove(usize::from(which) % len)),
        }
    }

    /// The device has ended a command.
    pub(super) fn completed(&mut self, carried: &Carried, outcome: Outcome) {
        self.leaves(carried, Stand::Ended(outcome, self.beat));
        let Command { op, flags, .. } = carried.command;
        if op != Op::Read && op != Op::Flush && !flags.contains(Flags::FUA) {
            self.cache.dirtied = self.beat;
        }
        if op == Op::Flush {
            match outcome.status {
                Status::Ok => self.cache.flushed = carried.issued,
                _ => self.cache.failures.push((self.beat, outcome)),
            }
        }
        self.cache.look_whether_clean(self.beat);
    }

    /// The device has refused a command.
    pub(super) fn refused(&mut self, carried: &Carried) {
        self.leaves(carried, Stand::Waiting);
    }

    fn leaves(&mut self, carried: &Carried, stand: Stand) {
        self.gone.push((Some(carried.command.tag), None));
        for cookie in &carried.cookies {
            if let Some(live) = self.live.get_mut(cookie) {
                live.stand = stand;
            }
        }
    }

    /// W1, W4.
    pub(super) fn ended(&mut self, cookie: Cookie, outcome: Outcome) -> Result<(), String> {
        let Some(live) = self.live.remove(&cookie) else {
            return Err(format!("W1: {cookie} ends, and is not here (any more)"));
        };
        self.gone.push((None, Some(live.ticket)));
        let facts = self.facts;
        let failed_behind = |beat: u64| self.cache.flush_failed(beat, outcome);
        let is_flushed = |beat: u64| !facts.write_cache || self.cache.was_flushed(beat);
        let ok = outcome.status == Status::Ok;
        let bio = live.bio;
        let right = match live.stand {
            Stand::Withdrawn => outcome.status == Status::Cancelled,
            Stand::InDevice => false,
            Stand::Waiting if bio.op == Op::Flush => {
                (ok && is_flushed(live.born)) || failed_behind(live.born)
            }
            // Its data never went out: only a flush before it can have failed.
            Stand::Waiting => bio.flags.contains(Flags::PREFLUSH) && failed_behind(live.born),
            Stand::Ended(data, at) => {
                let flush_follows = facts.write_cache
                    && !facts.fua
                    && bio.flags.contains(Flags::FUA)
                    && data.status == Status::Ok;
                if flush_follows {
                    (ok && is_flushed(at)) || failed_behind(at)
                } else {
                    data == outcome
                }
            }
        };
        if right { Ok(()) } else { Err(format!("W1: {live:?} ends with {outcome:?}")) }
    }

    /// W5.
    pub(super) fn waits(
        &self,
        now: Nanos,
        until: Option<Nanos>,
        why: Waiting,
    ) -> Result<(), String> {
        let inside = self.commands.len();
        let outside = self.live.values().any(|live| live.stand != Stand::InDevice);
        let depth = self.facts.depth as usize;
        if until.is_some_and(|until| until <= now) {
            return Err(format!("until {until:?}, and it is {}", now.0));
        }
        let right = match why {
            Waiting::Empty => self.live.is_empty() && inside == 0,
            Waiting::InDevice => inside > 0 && !outside,
            Waiting::DeviceFull => inside == depth,
            Waiting::Idling => until.is_some() && outside,
            Waiting::Completion => inside > 0 && outside,
            // A flush is in the device, or waits for data in flight, or for others (delayed).
            Waiting::Flush => outside && (inside > 0 || until.is_some()),
            Waiting::Throttled => outside && (inside > 0 || until.is_some()),
            // The device's plug opens with time, even when what it held back was withdrawn.
            Waiting::Plugged => outside || until.is_some(),
            Waiting::Refused => inside > 0 || until.is_some(),
        };
        if right {
            return Ok(());
        }
        Err(format!("until {until:?}, {inside} in the device, {:?}", self.live))
    }
}
