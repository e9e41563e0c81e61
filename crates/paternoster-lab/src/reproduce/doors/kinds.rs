// SPDX-License-Identifier: MIT OR Apache-2.0
//! The admission controls ("doors") of the published cases, as state machines.
//!
//! Each does the minimum that the mailing-list thread describes; the gate is the real one. A door
//! is asked for each I/O, says which may go, and is told which have ended.
//!
//! # Invariants
//! I1  Each request goes once, in the order of asking within its class, session or bucket.
//! I2  `wakes_at` is set while a request waits that no completion of another one will release.

use std::collections::{BTreeMap, HashMap, VecDeque};

use paternoster_frame::Failure;
use paternoster_gate::{Ask, ClassId, ClassSpec, Core, Nanos, Next, Op, Rate, Settings, Ticket};

use super::{Door, Io};

/// A token bucket holds this much, in time.
const BURST: u64 = 10_000_000;

/// The state machine of a door.
pub(super) fn open(door: &Door, classes: &[&str]) -> Result<Box<dyn Lets>, Failure> {
    Ok(match door {
        Door::Open => Box::new(Limited::default()),
        Door::Limit { class, most } => {
            Box::new(Limited { limit: Some((*class, *most)), ..Limited::default() })
        }
        Door::Sessions => Box::new(Sessions::default()),
        Door::Buckets(rates) => {
            let bucket = |rate: &u64| Bucket { rate: *rate, paid: 0, line: VecDeque::new() };
            Box::new(Buckets(rates.iter().map(bucket).collect(), 0))
        }
        Door::Ticks(tick) => {
            Box::new(Ticks { tick: *tick, asked: BTreeMap::new(), line: VecDeque::new() })
        }
        Door::Gate { weights, cap } => Box::new(Gated::new(classes, weights, *cap)?),
    })
}

/// What a door does; an I/O is named by a number.
pub(super) trait Lets {
    /// # Errors
    /// There is no room for it.
    fn ask(&mut self, now: u64, io: usize, of: &Io) -> Result<(), Failure>;
    fn next(&mut self, now: u64) -> Option<usize>;
    /// When to ask again at the latest.
    fn wakes_at(&self) -> Option<u64> {
        None
    }
    fn ended(&mut self, now: u64, io: usize);
}

#[derive(Default)]
struct Limited {
    limit: Option<(usize, usize)>,
    free: VecDeque<usize>,
    line: VecDeque<usize>,
    inside: Vec<usize>,
}

impl Lets for Limited {
    fn ask(&mut self, _: u64, io: usize, of: &Io) -> Result<(), Failure> {
        let waits = self.limit.is_some_and(|(class, _)| class == of.own.class);
        if waits {
            self.line.push_back(io);
        } else {
            self.free.push_back(io);
        }
        Ok(())
    }

    fn next(&mut self, _: u64) -> Option<usize> {
        if let Some(io) = self.free.pop_front() {
            return Some(io);
        }
        let (_, most) = self.limit.filter(|(_, most)| self.inside.len() < *most)?;
        debug_assert!(most > 0, "a limit of none lets nothing in");
        let io = self.line.pop_front()?;
        self.inside.push(io);
        Some(io)
    }

    fn ended(&mut self, _: u64, io: usize) {
        self.inside.retain(|other| *other != io);
    }
}

#[derive(Default)]
struct Sessions {
    lines: Vec<VecDeque<usize>>,
    turn: usize,
    is_busy: bool,
}

impl Lets for Sessions {
    fn ask(&mut self, _: u64, io: usize, of: &Io) -> Result<(), Failure> {
        if self.lines.len() <= of.client {
            self.lines.resize(of.client + 1, VecDeque::new());
        }
        self.lines[of.client].push_back(io);
        Ok(())
    }

    fn next(&mut self, _: u64) -> Option<usize> {
        let count = self.lines.len();
        if self.is_busy {
            return None;
        }
        let place = (0..count).map(|by| (self.turn + by) % count);
        let place = place.into_iter().find(|place| !self.lines[*place].is_empty())?;
        self.turn = place + 1;
        self.is_busy = true;
        self.lines[place].pop_front()
    }

    fn ended(&mut self, _: u64, _: usize) {
        self.is_busy = false;
    }
}

struct Bucket {
    rate: u64,
    paid: u64,
    line: VecDeque<(usize, u64)>,
}

struct Buckets(Vec<Bucket>, u64);

impl Lets for Buckets {
    fn ask(&mut self, _: u64, io: usize, of: &Io) -> Result<(), Failure> {
        self.0[of.own.class].line.push_back((io, of.own.len));
        Ok(())
    }

    fn next(&mut self, now: u64) -> Option<usize> {
        self.1 = now;
        let own = self.0.iter_mut().find(|own| own.paid <= now + BURST && !own.line.is_empty())?;
        let (io, len) = own.line.pop_front()?;
        own.paid = own.paid.max(now) + len * 1_000_000_000 / own.rate.max(1);
        Some(io)
    }

    fn wakes_at(&self) -> Option<u64> {
        let waits = self.0.iter().filter(|own| !own.line.is_empty());
        waits.map(|own| own.paid.saturating_sub(BURST).max(self.1 + 1)).min()
    }

    fn ended(&mut self, _: u64, _: usize) {}
}

struct Ticks {
    tick: u64,
    /// When each session asked last.
    asked: BTreeMap<usize, u64>,
    line: VecDeque<(u64, usize)>,
}

impl Lets for Ticks {
    fn ask(&mut self, now: u64, io: usize, of: &Io) -> Result<(), Failure> {
        let others = self.asked.iter().filter(|(session, _)| **session != of.client);
        let is_alone = others.map(|(_, at)| *at).all(|at| at + 2 * self.tick <= now);
        self.asked.insert(of.client, now.max(1));
        let at = if is_alone { now } else { (now / self.tick + 1) * self.tick };
        self.line.push_back((at, io));
        Ok(())
    }

    fn next(&mut self, now: u64) -> Option<usize> {
        let place = self.line.iter().position(|(at, _)| *at <= now)?;
        self.line.remove(place).map(|(_, io)| io)
    }

    fn wakes_at(&self) -> Option<u64> {
        self.line.iter().map(|(at, _)| *at).min()
    }

    fn ended(&mut self, _: u64, _: usize) {}
}

struct Gated {
    core: Core,
    classes: Vec<ClassId>,
    tickets: HashMap<usize, Ticket>,
    ios: HashMap<Ticket, usize>,
}

impl Gated {
    fn new(names: &[&str], weights: &[u32], cap: u64) -> Result<Gated, Failure> {
        let mut core = Core::new(Settings::default());
        let refused = |error: paternoster_gate::ClassError| Failure::Request(error.to_string());
        let host = match cap {
            0 => None,
            _ => Some(core.open(ClassSpec::new("host").cap(Rate::bytes(cap))).map_err(refused)?),
        };
        let mut classes = Vec::new();
        for (name, weight) in names.iter().zip(weights) {
            let spec = ClassSpec::new(name).weight(*weight);
            let spec = host.map_or(spec.clone(), |host| spec.below(host));
            classes.push(core.open(spec).map_err(refused)?);
        }
        Ok(Gated { core, classes, tickets: HashMap::new(), ios: HashMap::new() })
    }
}

impl Lets for Gated {
    fn ask(&mut self, now: u64, io: usize, of: &Io) -> Result<(), Failure> {
        let op = if of.own.writes { Op::Write } else { Op::Read };
        let asked = self.core.ask(Nanos(now), self.classes[of.own.class], Ask::new(op, of.own.len));
        let ticket = asked.map_err(|error| Failure::Request(error.to_string()))?;
        self.tickets.insert(io, ticket);
        self.ios.insert(ticket, io);
        Ok(())
    }

    fn next(&mut self, now: u64) -> Option<usize> {
        match self.core.next(Nanos(now)) {
            Next::Granted(ticket) => self.ios.get(&ticket).copied(),
            // None is asked for by a deadline.
            Next::TooLate(_) | Next::Wait(_) | Next::Idle => None,
        }
    }

    fn wakes_at(&self) -> Option<u64> {
        self.core.wakes_at().map(|at| at.0)
    }

    fn ended(&mut self, now: u64, io: usize) {
        if let Some(ticket) = self.tickets.remove(&io) {
            self.ios.remove(&ticket);
            let given = self.core.give_back(Nanos(now), ticket);
            debug_assert!(given.is_ok(), "it was out");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chance, Client};
    use super::*;

    fn io(client: usize, class: usize, len: u64) -> Io {
        Io {
            client,
            own: Client { class, ..Client::reads(class, 1).len(len) },
            offset: 0,
            asked: 0,
        }
    }

    /// Requests eight I/Os at time 0, two for each of four clients in two classes; which go at 0?
    fn at_once(door: &mut dyn Lets) -> Vec<usize> {
        for place in 0..8 {
            door.ask(0, place, &io(place / 2, place / 4, 1000)).expect("a place");
        }
        std::iter::from_fn(|| door.next(0)).collect()
    }

    /// Does each door do what its name says, when eight ask at once?
    #[test]
    fn doors_are_what_they_are_called() {
        let of = |door| at_once(open(&door, &["a", "b"]).expect("a door").as_mut());
        assert_eq!(of(Door::Open), [0, 1, 2, 3, 4, 5, 6, 7]);
        // The other class passes first, then as many as are let in.
        assert_eq!(of(Door::Limit { class: 0, most: 2 }), [4, 5, 6, 7, 0, 1]);
        assert_eq!(of(Door::Sessions), [0]);
        // 10 ms of 100,000 bytes a second are one of 1000 bytes; one paid for at 10 ms still goes.
        assert_eq!(of(Door::Buckets(vec![100_000, 100])), [0, 1, 4]);
        // The first is alone; each of the others finds another session's request.
        assert_eq!(of(Door::Ticks(1000)), [0, 1]);
    }

    /// Do sessions go in turn, whatever each has requested?
    #[test]
    fn sessions_take_turns() {
        let mut door = open(&Door::Sessions, &["a", "b"]).expect("a door");
        let mut order = at_once(door.as_mut());
        while order.len() < 8 {
            door.ended(0, order[order.len() - 1]);
            order.extend(door.next(0));
        }
        assert_eq!(order, [0, 2, 4, 6, 1, 3, 5, 7]);
    }

    /// With random requests at random times: does each go once and none before it asked, through
    /// every door, and are never more inside than a limit allows?
    #[test]
    fn what_asks_goes_once() {
        let gate = |cap| Door::Gate { weights: vec![100, 400], cap };
        let limit = Door::Limit { class: 1, most: 3 };
        let doors = [Door::Open, limit, Door::Sessions, Door::Ticks(5000), gate(0), gate(1 << 20)];
        for (number, door) in doors.into_iter().chain([Door::Buckets(vec![1 << 20; 2])]).enumerate()
        {
            let mut chance = Chance(number as u64 + 1);
            let mut state = open(&door, &["a", "b"]).expect("a door");
            let mut class_of = Vec::new();
            let (mut went, mut inside, mut now) = (Vec::new(), Vec::new(), 0);
            while went.len() < 500 {
                if class_of.len() < 500 && chance.below(3) > 0 {
                    let client = usize::try_from(chance.below(6)).expect("small");
                    let io = io(client, client / 3, 512 * (1 + chance.below(64)));
                    state.ask(now, class_of.len(), &io).expect("a place");
                    class_of.push(io.own.class);
                }
                while let Some(io) = state.next(now) {
                    assert!(io < class_of.len(), "{door:?}: {io} has not asked");
                    went.push(io);
                    inside.push(io);
                }
                if let Door::Limit { class, most } = door {
                    let of_class = inside.iter().filter(|io| class_of[**io] == class);
                    assert!(of_class.count() <= most, "{inside:?}");
                }
                if !inside.is_empty() && chance.below(2) > 0 {
                    let place = usize::try_from(chance.below(inside.len() as u64)).expect("small");
                    state.ended(now, inside.swap_remove(place));
                }
                now += chance.below(100_000_000);
            }
            went.sort_unstable();
            assert_eq!(went, (0..500).collect::<Vec<_>>(), "{door:?}");
        }
    }
}
