// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perfetto: a run as a trace for ui.perfetto.dev, written while it lasts.
//!
//! ```text
//! bfq
//! ├ commands in the device   ▁▂▂▁▂▂            a number over time
//! ├ in the device            ▇▇ ▇▇▇ ▇          "pg-read: read", "backup: read", "pg-wal: flush"
//! ├ scheduler                ▇▇▇▇▇▇ ▇▇         "turn of pg-read", in it "kept idle for pg-read"
//! ├ pg-read                  ▇▇▇▇▇▇            "read"; in it its way, in parts:
//! │                          ░░▒▒██               for a free request │ held back │
//! └ backup                   …                    in the scheduler │ in the device
//! ```
//!
//! A client with several requests at a time has as many tracks of its name, which the viewer shows
//! as one: slices of one track do not overlap. A request is written when it has ended, on the first
//! track whose last slice had ended when the request was submitted.
//!
//! # Invariants
//! I1  Equal runs give equal bytes.
//! I2  Slices of a track are one after the other or nested; each that begins ends.
//! I3  The parts of a request sum to it.
//! I4  At most [`REQUESTS_MAX`] requests of a run are written, the first ones.

mod packets;
mod wire;

use std::collections::BTreeMap;
use std::io::{self, Write};

use paternoster_core::{Action, ClientId, Event, Nanos, Note, Observer, Op};

use crate::html::{had, name};
use crate::record::{Turn, Turns, slot};
use packets::{Annotation, Packets, Track};

/// At most this many requests of a run are written, about 250 bytes each.
pub const REQUESTS_MAX: u64 = 1 << 20;
/// The device's own lanes, where clients have theirs by index.
const DEVICE: u64 = u64::MAX;

/// A track of slices that do not overlap.
#[derive(Debug)]
struct Lane {
    track: Track,
    ended: Nanos,
}

/// Writes a run.
#[derive(Debug)]
pub struct Perfetto<W> {
    out: Packets<W>,
    clients: Vec<String>,
    turns: Turns,
    run: Track,
    /// The commands in the device, and how many they are.
    commands: (Track, u64),
    scheduler: Scheduler,
    lanes: BTreeMap<u64, Vec<Lane>>,
    written: u64,
    left_out: u64,
    now: Nanos,
}

/// The scheduler's track, and what has begun on it.
#[derive(Debug)]
struct Scheduler {
    track: Track,
    in_turn: bool,
    /// The device is kept idle until then.
    idle: Option<Nanos>,
}

impl<W: Write> Perfetto<W> {
    /// A run of this label and of clients of these names; runs of one file count from 0.
    pub fn new(out: W, run: u32, label: &str, clients: Vec<String>) -> Perfetto<W> {
        let mut out = Packets::new(out, run);
        let run = out.track(label, None);
        let commands = (out.counter("commands in the device", (run, 0)), 0);
        let track = out.track("scheduler", Some((run, 2)));
        let scheduler = Scheduler { track, in_turn: false, idle: None };
        let (turns, lanes) = (Turns::default(), BTreeMap::new());
        let (written, left_out, now) = (0, 0, Nanos::ZERO);
        Perfetto { out, clients, turns, run, commands, scheduler, lanes, written, left_out, now }
    }

    /// Writes the rest; returns how many requests were too many to be written.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> io::Result<u64> {
        self.settle(self.now);
        self.end_turn(self.now);
        self.out.finish()?;
        Ok(self.left_out)
    }

    fn is_full(&self) -> bool {
        self.written >= REQUESTS_MAX
    }

    /// Lets time pass: the device is kept idle no longer than was said.
    fn settle(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        if let Some(until) = self.scheduler.idle.filter(|until| *until <= self.now) {
            self.end_idle(until);
        }
    }

    fn end_idle(&mut self, at: Nanos) {
        if self.scheduler.idle.take().is_some() {
            self.out.end(self.scheduler.track, at);
        }
    }

    fn end_turn(&mut self, at: Nanos) {
        self.end_idle(at);
        if core::mem::take(&mut self.scheduler.in_turn) {
            self.out.end(self.scheduler.track, at);
        }
    }

    fn begin_turn(&mut self, client: ClientId) {
        self.end_turn(self.now);
        self.scheduler.in_turn = true;
        let name = format!("turn of {}", self.name(client.index()));
        self.out.begin(self.scheduler.track, self.now, &name, &[]);
    }

    fn name(&self, client: u32) -> String {
        name(client, &self.clients)
    }

    fn count(&mut self, at: Nanos, commands: u64) {
        let (track, before) = self.commands;
        if before != commands && !self.is_full() {
            self.out.count(track, at, commands);
        }
        self.commands.1 = commands;
    }

    /// The first lane of `whose` that is free from `from` on, taken until `until`.
    fn lane(&mut self, whose: u64, (from, until): (Nanos, Nanos)) -> Track {
        let lanes = self.lanes.entry(whose).or_default();
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.ended <= from) {
            lane.ended = until;
            return lane.track;
        }
        let client = u32::try_from(whose).ok();
        let (name, rank) = match client {
            Some(client) => (name(client, &self.clients), client.saturating_add(3)),
            None => ("in the device".to_owned(), 1),
        };
        // Ranks are signed in the format.
        let rank = rank.min(i32::MAX.unsigned_abs());
        let track = self.out.track(&name, Some((self.run, rank)));
        self.lanes.entry(whose).or_default().push(Lane { track, ended: until });
        track
    }

    /// A request that has ended: on its client's track in parts, and on the device's.
    fn request(&mut self, turn: &Turn) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        self.written += 1;
        let kind = match turn.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            _ => "discard",
        };
        let mut place: Vec<Annotation> = Vec::new();
        if turn.sectors > 0 {
            place.push(("sector".to_owned(), turn.sector));
            place.push(("bytes".to_owned(), u64::from(turn.sectors) * 512));
        }
        let track = self.lane(u64::from(turn.client), (turn.asked, turn.ended));
        self.out.begin(track, turn.asked, kind, &place);
        for (what, (from, to), beside) in self.parts(turn) {
            if from < to {
                self.out.begin(track, from, what, &beside);
                self.out.end(track, to);
            }
        }
        self.out.end(track, turn.ended);
        let name = format!("{}: {kind}", self.name(turn.client));
        let track = self.lane(DEVICE, (turn.issued, turn.ended));
        self.out.begin(track, turn.issued, &name, &place);
        self.out.end(track, turn.ended);
    }

    /// What a request's time was spent on, in order of time.
    fn parts(&self, turn: &Turn) -> [(&'static str, (Nanos, Nanos), Vec<Annotation>); 4] {
        let own = slot(turn.client);
        let charges = turn.charges.iter().enumerate().filter(|(_, time)| **time > 0);
        let meanwhile = charges
            .map(|(nth, &time)| (format!("{}, ns", had(nth, own, &self.clients)), time))
            .collect();
        let before = vec![("commands there before".to_owned(), u64::from(turn.before))];
        [
            ("waits for a free request", (turn.asked, turn.got), Vec::new()),
            ("held back: plugged, or behind a flush", (turn.got, turn.inserted), Vec::new()),
            ("in the scheduler", (turn.inserted, turn.issued), meanwhile),
            ("in the device", (turn.issued, turn.ended), before),
        ]
    }
}

impl<W: Write> Observer for Perfetto<W> {
    fn event(&mut self, event: &Event) {
        self.settle(event.at);
        match event.action {
            Action::Issue => {
                self.end_idle(event.at);
                self.count(event.at, self.commands.1 + 1);
            }
            Action::Complete | Action::Requeue => {
                self.count(event.at, self.commands.1.saturating_sub(1));
            }
            _ => {}
        }
        if let Some(turn) = self.turns.event(event) {
            self.request(&turn);
        }
    }

    fn note(&mut self, at: Nanos, _: u64, note: &Note) {
        self.settle(at);
        if self.is_full() {
            return self.end_turn(self.now);
        }
        let now = self.now;
        match *note {
            Note::SliceBegins { client, .. } | Note::BudgetGranted { client, .. } => {
                self.begin_turn(client);
            }
            Note::SliceEnds { .. } | Note::Expired { .. } => self.end_turn(now),
            Note::Idling { client, until } => {
                self.end_idle(now);
                if until > now {
                    let name = format!("kept idle for {}", self.name(client.index()));
                    self.out.begin(self.scheduler.track, now, &name, &[]);
                    self.scheduler.idle = Some(until);
                }
            }
            Note::Preempted { client, by, .. } => {
                let (whose, by) = (self.name(client.index()), self.name(by.index()));
                let said = format!("the turn of {whose} ends for {by}");
                self.out.instant(self.scheduler.track, now, &said);
            }
            Note::Injected { client, into } => {
                let (whose, into) = (self.name(client.index()), self.name(into.index()));
                let said = format!("a request of {whose} in the turn of {into}");
                self.out.instant(self.scheduler.track, now, &said);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
