// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drive: a disk that does one command at a time and knows whether its cache is dirty; and a show,
//! a queue in front of it in virtual time.
//!
//! ```text
//! commands that it was given   F W F        costs: dirty flush 10, write 1, clean flush 0.2
//! time                         |---- F 10 ----|W 1|---- F 10 ----|
//! ```
//!
//! A drive that cannot queue a flush refuses it while other commands are in it, and others during
//! it; the queue learns at once, as from a driver.

use std::collections::{BTreeSet, VecDeque};

use paternoster_core::{
    Bio, ClientId, ClientSpec, Command, Cookie, DeviceFacts, Event, Nanos, Op, Outcome, Output,
    RequestQueue, Status, Waiting,
};

use super::word;
use crate::common::driver::Log;

/// What a command takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    pub(crate) data: Nanos,
    pub(crate) dirty: Nanos,
    pub(crate) clean: Nanos,
}

/// As in FLUSH-14: 1, 10 and 0.2 ms.
pub(crate) const COSTS: Costs = Costs {
    data: Nanos::from_millis(1),
    dirty: Nanos::from_millis(10),
    clean: Nanos::from_micros(200),
};

/// The disk.
#[derive(Debug)]
pub(crate) struct Drive {
    facts: DeviceFacts,
    costs: Costs,
    /// With the times when they end, in that order.
    inside: VecDeque<(Nanos, Command)>,
    /// Whether the cache is dirty after all that is inside.
    dirty: bool,
    free: Nanos,
    /// The commands that it took, in order.
    pub(crate) taken: Vec<Command>,
    pub(crate) refused_flushes: u32,
    pub(crate) refused_others: u32,
}

impl Drive {
    fn take(&mut self, now: Nanos, command: Command) -> bool {
        let flush = command.op == Op::Flush;
        let flush_inside = self.inside.iter().any(|(_, other)| other.op == Op::Flush);
        if !self.facts.flush_queueable && (flush_inside || (flush && !self.inside.is_empty())) {
            self.refused_flushes += u32::from(flush);
            self.refused_others += u32::from(!flush);
            return false;
        }
        let cost = match command.op {
            Op::Flush if self.dirty => self.costs.dirty,
            Op::Flush => self.costs.clean,
            _ => self.costs.data,
        };
        self.dirty = match command.op {
            Op::Flush => false,
            Op::Read => self.dirty,
            _ => self.dirty || !command.flags.contains(paternoster_core::Flags::FUA),
        };
        self.free = self.free.max(now) + cost;
        self.inside.push_back((self.free, command));
        self.taken.push(command);
        true
    }
}

/// A queue in front of a drive.
#[derive(Debug)]
pub(crate) struct Show {
    pub(crate) queue: RequestQueue<Log>,
    pub(crate) drive: Drive,
    pub(crate) now: Nanos,
    /// The bios that have ended, with their times.
    pub(crate) ended: Vec<(Cookie, Nanos)>,
    /// When a client has thought, and a cookie: reported as if a bio with this cookie had ended.
    pub(crate) alarms: BTreeSet<(Nanos, Cookie)>,
    until: Option<Nanos>,
    why: Waiting,
}

impl Show {
    /// The cache is dirty at first, from writes before the run.
    pub(crate) fn new(facts: DeviceFacts, costs: Costs, elevator: &str) -> Show {
        let elevator = paternoster_schedulers::by_name(elevator).expect("an elevator of this name");
        let mut queue = RequestQueue::builder(facts, elevator)
            .observer(Log::default())
            .build()
            .expect("its limits work");
        for name in ["flush_elide", "flush_ahead"] {
            queue.set_attribute(Nanos::ZERO, name, "0").expect("it is there");
        }
        Show {
            queue,
            drive: Drive {
                facts,
                costs,
                inside: VecDeque::new(),
                dirty: true,
                free: Nanos::ZERO,
                taken: Vec::new(),
                refused_flushes: 0,
                refused_others: 0,
            },
            now: Nanos::ZERO,
            ended: Vec::new(),
            alarms: BTreeSet::new(),
            until: None,
            why: Waiting::Empty,
        }
    }

    pub(crate) fn set(&mut self, name: &str, text: &str) {
        self.queue.set_attribute(self.now, name, text).expect("an attribute that takes this");
    }

    pub(crate) fn client(&mut self) -> ClientId {
        self.queue.attach(Nanos::ZERO, ClientSpec::new()).expect("room for a client")
    }

    pub(crate) fn submit(&mut self, bio: Bio) {
        self.queue.submit(self.now, bio).expect("a free request");
    }

    /// Gives the drive what it takes. Returns the cookies that have ended.
    pub(crate) fn pump(&mut self) -> Vec<Cookie> {
        let mut ended = Vec::new();
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => {
                    if !self.drive.take(self.now, command) {
                        self.queue.requeue(self.now, command.tag).expect("it was just issued");
                    }
                }
                Output::Done(cookie, outcome) => {
                    assert_eq!(outcome.status, Status::Ok);
                    self.ended.push((cookie, self.now));
                    ended.push(cookie);
                }
                Output::Wake(_) => {}
                Output::Wait { until, why } => {
                    (self.until, self.why) = (until, why);
                    return ended;
                }
            }
        }
    }

    /// Executes the next event, at `end` at the latest. Returns whether there was one.
    fn step(&mut self, end: Nanos) -> bool {
        let command = self.drive.inside.front().map(|&(at, _)| at);
        let timer = self.until.filter(|&until| until > self.now);
        let alarm = self.alarms.first().map(|&(at, _)| at.max(self.now));
        let next = command.into_iter().chain(timer).chain(alarm).min();
        match next {
            Some(at) if at <= end => self.now = at,
            _ => return false,
        }
        if command == Some(self.now)
            && let Some((_, command)) = self.drive.inside.pop_front()
        {
            self.queue.complete(self.now, command.tag, Outcome::OK).expect("it is in the device");
        }
        true
    }

    /// Advances time to `end`; each bio that ends is passed to `react`.
    pub(crate) fn run(&mut self, end: Nanos, mut react: impl FnMut(&mut Show, Cookie)) {
        loop {
            let mut ended = self.pump();
            while self.alarms.first().is_some_and(|&(at, _)| at <= self.now) {
                ended.extend(self.alarms.pop_first().map(|(_, cookie)| cookie));
            }
            while !ended.is_empty() {
                for cookie in ended {
                    react(self, cookie);
                }
                ended = self.pump();
            }
            if !self.step(end) {
                self.now = end;
                return;
            }
        }
    }

    /// Advances time to `end` microseconds.
    pub(crate) fn go_us(&mut self, end: u64) {
        self.run(Nanos::from_micros(end), |_, _| {});
    }

    /// When the bio ended, in microseconds.
    pub(crate) fn end_of(&self, cookie: Cookie) -> u64 {
        let of = |&&(other, _): &&(Cookie, Nanos)| other == cookie;
        self.ended.iter().find(of).expect("it has ended").1.as_micros()
    }

    /// The commands the drive took, as words.
    pub(crate) fn words(&self) -> String {
        self.drive.taken.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn flushes(&self) -> usize {
        self.drive.taken.iter().filter(|command| command.op == Op::Flush).count()
    }

    /// The events so far as text: time in ms, letter, and whose; clients by number.
    pub(crate) fn trace(&self, names: &[(ClientId, &str)]) -> String {
        let line = |event: &Event| {
            let named = names.iter().find(|(client, _)| *client == event.client);
            let name = named.map_or("nobody", |(_, name)| *name);
            let us = event.at.as_micros();
            format!("{:>4}.{} {} {name}\n", us / 1000, us % 1000 / 100, event.action.letter())
        };
        self.queue.observer().events.iter().map(line).collect()
    }
}
