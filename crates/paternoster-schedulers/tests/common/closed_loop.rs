// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closed loop: readers (or writers) that ask again once they have been answered, on a device whose
//! time for each command the test sets.
//!
//! The device serves one command at a time, in order of arrival, however many it holds. Time is
//! exact unless the test sets `hz`.

use std::collections::VecDeque;

use paternoster_core::{Bio, ClientId, Command, Nanos, Op};

use super::driver::Rig;

/// A reader's client and pattern.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) client: ClientId,
    pub(crate) sectors: u32,
    /// Reads in flight.
    pub(crate) depth: u32,
    /// Between a completion and the next read.
    pub(crate) think: Nanos,
    /// First sector of its reads.
    pub(crate) from: u64,
    /// Makes random reads in the 8 GiB from there, instead of sequential ones.
    pub(crate) jumps: bool,
    /// Writes in the background instead.
    pub(crate) writes: bool,
}

impl Reader {
    /// A sequential reader with `sectors` per request, which asks again after a tenth of a
    /// millisecond.
    pub(crate) const fn forward(client: ClientId, from: u64, sectors: u32) -> Reader {
        let think = Nanos::from_micros(100);
        Reader { client, sectors, depth: 1, think, from, jumps: false, writes: false }
    }

    /// A random reader.
    pub(crate) const fn random(client: ClientId, from: u64, sectors: u32) -> Reader {
        Reader { jumps: true, ..Reader::forward(client, from, sectors) }
    }
}

/// What a reader got.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Served {
    pub(crate) commands: u64,
    pub(crate) time: Nanos,
}

/// The loop, and what it has seen.
pub(crate) struct ClosedLoop {
    pub(crate) rig: Rig,
    readers: Vec<Reader>,
    next: Vec<u64>,
    dice: u64,
    /// Which reader reads again when, in the order of time.
    due: VecDeque<(Nanos, usize)>,
    busy_until: Option<Nanos>,
    /// Each command with the time at which the device began it.
    pub(crate) begun: Vec<(Nanos, Command)>,
    pub(crate) served: Vec<Served>,
}

impl ClosedLoop {
    pub(crate) fn new(rig: Rig, readers: &[Reader]) -> ClosedLoop {
        let start = rig.now;
        let mut due = VecDeque::new();
        for (number, reader) in readers.iter().enumerate() {
            due.extend((0..reader.depth).map(|_| (start, number)));
        }
        ClosedLoop {
            rig,
            readers: readers.to_vec(),
            next: readers.iter().map(|reader| reader.from).collect(),
            dice: 1,
            due,
            busy_until: None,
            begun: Vec::new(),
            served: vec![Served::default(); readers.len()],
        }
    }

    /// Runs until `end`; each command takes what `service` says.
    pub(crate) fn run(&mut self, end: Nanos, service: impl Fn(&Command) -> Nanos) {
        loop {
            let times = [self.busy_until, self.due.front().map(|&(at, _)| at), self.rig.until];
            let Some(now) = times.into_iter().flatten().min() else { return };
            if now >= end {
                return;
            }
            self.rig.now = self.rig.now.max(now);
            if self.busy_until == Some(self.rig.now) {
                self.rig.complete_oldest();
                self.busy_until = None;
            }
            self.submit_what_is_due();
            self.rig.pull();
            self.answer();
            if let (None, Some(&command)) = (self.busy_until, self.rig.inside.front()) {
                self.begin(command, service(&command));
            }
        }
    }

    fn submit_what_is_due(&mut self) {
        while let Some(&(at, number)) = self.due.front() {
            if at > self.rig.now {
                return;
            }
            self.due.pop_front();
            let Reader { client, sectors, from, jumps, writes, .. } = self.readers[number];
            let sector = if jumps { from + self.roll() * 8 } else { self.next[number] };
            self.next[number] += u64::from(sectors);
            let op = if writes { Op::Write } else { Op::Read };
            let bio = Bio::new(client, op, sector, sectors).cookie(number as u64);
            self.rig.submit(bio);
        }
    }

    /// A random number below 2^21.
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.dice >> 43
    }

    /// A reader that was answered thinks, and reads again.
    fn answer(&mut self) {
        for (cookie, _) in std::mem::take(&mut self.rig.done) {
            let number = usize::try_from(cookie).expect("a reader's number");
            let at = self.rig.now + self.readers[number].think;
            let place = self.due.partition_point(|&(other, _)| other <= at);
            self.due.insert(place, (at, number));
        }
    }

    fn begin(&mut self, command: Command, time: Nanos) {
        self.busy_until = Some(self.rig.now + time);
        self.begun.push((self.rig.now, command));
        let number = self.readers.iter().position(|reader| reader.client == command.client);
        let served = &mut self.served[number.expect("a reader's command")];
        served.commands += 1;
        served.time += time;
    }

    /// Runs of commands of one client: which, from when to when the device got them.
    pub(crate) fn turns(&self) -> Vec<(ClientId, Nanos, Nanos)> {
        let mut turns: Vec<(ClientId, Nanos, Nanos)> = Vec::new();
        for &(at, command) in &self.begun {
            match turns.last_mut() {
                Some(turn) if turn.0 == command.client => turn.2 = at,
                _ => turns.push((command.client, at, at)),
            }
        }
        turns
    }
}
