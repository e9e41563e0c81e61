// SPDX-License-Identifier: MIT OR Apache-2.0
//! Laws, for random calls: nothing is lost, nothing granted twice, counters equal what they count,
//! no ask waits beyond a bound.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use paternoster_gate::{
    Ask, AskError, ClassId, ClassSpec, Core, Kind, Nanos, Next, Op, Rate, ReplayError, Settings,
    Ticket,
};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    Open {
        weight: u32,
        kind: u8,
        below: usize,
    },
    Close {
        class: usize,
    },
    Weigh {
        class: usize,
        weight: u32,
    },
    Rates {
        class: usize,
        cap: u64,
        floor: u64,
    },
    Ask {
        class: usize,
        op: u8,
        len: u64,
        at: Option<u64>,
        holder: u64,
        by: u64,
        until: u64,
    },
    Withdraw {
        which: usize,
    },
    GiveBack {
        which: usize,
    },
    /// A ticket given back or withdrawn long ago.
    Stale {
        which: usize,
    },
    Pass {
        time: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let class = 0..12_usize;
    let which = 0..64_usize;
    let at = prop::option::of((0..1_u64 << 40).prop_map(|at| at * 512));
    let ask = (class.clone(), 0..4_u8, 0..1_u64 << 21, at, 0..6_u64, 0..50_u64, 0..50_u64);
    prop_oneof![
        1 => (1..500_u32, 0..8_u8, class.clone())
            .prop_map(|(weight, kind, below)| Step::Open { weight, kind, below }),
        1 => class.clone().prop_map(|class| Step::Close { class }),
        1 => (class.clone(), 0..8000_u64, 0..8000_u64)
            .prop_map(|(class, cap, floor)| Step::Rates { class, cap, floor }),
        1 => (class, 0..20_000_u32).prop_map(|(class, weight)| Step::Weigh { class, weight }),
        12 => ask.prop_map(|(class, op, len, at, holder, by, until)| Step::Ask {
            class, op, len, at, holder, by, until,
        }),
        2 => which.clone().prop_map(|which| Step::Withdraw { which }),
        10 => which.clone().prop_map(|which| Step::GiveBack { which }),
        1 => which.prop_map(|which| Step::Stale { which }),
        6 => (0..3_000_000_u64).prop_map(|time| Step::Pass { time }),
        1 => (0..300_000_000_u64).prop_map(|time| Step::Pass { time }),
    ]
}

/// A recording in memory.
#[derive(Debug, Clone, Default)]
struct Recording(Arc<Mutex<String>>);

impl fmt::Write for Recording {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.lock().expect("no test has failed").push_str(text);
        Ok(())
    }
}

/// What a caller knows about the gate.
struct World {
    gate: Core,
    recording: Recording,
    now: u64,
    classes: Vec<ClassId>,
    waiting: BTreeMap<Ticket, ClassId>,
    /// Since when.
    out: BTreeMap<Ticket, u64>,
    ended: Vec<Ticket>,
    expires_after: u64,
}

fn pick<T: Copy>(items: impl ExactSizeIterator<Item = T>, which: usize) -> Option<T> {
    let count = items.len();
    let mut items = items;
    if count == 0 { None } else { items.nth(which % count) }
}

impl World {
    fn new(permits: u32) -> World {
        let expires_after = Nanos::from_millis(400);
        let settings =
            Settings { permits, asks: 64, classes: 8, expires_after, ..Settings::default() };
        let recording = Recording::default();
        World {
            gate: Core::recorded(settings, Box::new(recording.clone())),
            recording,
            now: 0,
            classes: Vec::new(),
            waiting: BTreeMap::new(),
            out: BTreeMap::new(),
            ended: Vec::new(),
            expires_after: expires_after.0,
        }
    }

    /// Does each call have the same answer when the recording is replayed; is a line with a changed
    /// answer reported, and a cut-off last one skipped?
    fn is_done_again(&self) {
        let text = self.recording.0.lock().expect("no test has failed").clone();
        let lines = text.lines().count();
        let (again, read) = Core::replay(&text, usize::MAX).expect("the same answers");
        assert_eq!((read, again.in_all()), (lines, self.gate.in_all()));
        let figures = |gate: &Core| {
            let mut text = String::new();
            gate.metrics(&mut text).expect("a string takes everything");
            text
        };
        assert_eq!(figures(&again), figures(&self.gate));
        if let Some(place) = text.rfind(" = Ok(()") {
            let place = place + 3;
            let changed = format!("{}Err(NotOut){}", &text[..place], &text[place + 6..]);
            let number = text[..place].lines().count();
            let told = Core::replay(&changed, usize::MAX).map(drop);
            assert!(matches!(told, Err(ReplayError::Differs(at, _)) if at == number), "{told:?}");
        }
        assert!(
            Core::replay(&text[..text.len() - 1], usize::MAX).is_ok_and(|(_, all)| all < lines)
        );
        assert_eq!(Core::replay("nonsense\n", 1).map(drop), Err(ReplayError::Unreadable(1)));
    }

    fn act(&mut self, step: Step) {
        let now = Nanos(self.now);
        match step {
            Step::Open { weight, kind, below } => {
                let kinds = [Kind::Urgent, Kind::Background, Kind::Idle];
                let kind = kinds.get(usize::from(kind)).copied().unwrap_or(Kind::Normal);
                let mut spec = ClassSpec::new("some").weight(weight).kind(kind);
                if let Some(class) = self.classes.get(below) {
                    spec = spec.below(*class);
                }
                self.classes.extend(self.gate.open(spec));
            }
            Step::Close { class } => {
                if let Some(id) = self.classes.get(class).copied()
                    && self.gate.close(now, id).is_ok()
                {
                    self.classes.remove(class);
                    let asked = self.gate.ask(now, id, Ask::new(Op::Read, 1));
                    assert_eq!(asked, Err(AskError::NoClass));
                }
            }
            Step::Weigh { class, weight } => {
                if let Some(id) = self.classes.get(class) {
                    self.gate.set_weight(now, *id, weight).unwrap();
                }
            }
            Step::Rates { class, cap, floor } => {
                let Some(id) = self.classes.get(class).copied() else { return };
                // One of four limits: none, one of requests, one of bytes, one of both.
                let rate = |number: u64| Rate {
                    bytes: if number & 1 == 1 { number * 1000 } else { 0 },
                    requests: if number & 2 == 2 { number / 8 } else { 0 },
                };
                let set = self.gate.set_rates(now, id, rate(cap), rate(floor));
                assert!(set.is_ok() || floor > 0, "{set:?}");
            }
            Step::Ask { class, op, len, at, holder, by, until } => {
                let Some(id) = self.classes.get(class).copied() else { return };
                let op = [Op::Read, Op::Write, Op::Flush, Op::Discard][usize::from(op)];
                let mut ask = Ask::new(op, len).holder(holder);
                if let Some(at) = at {
                    ask = ask.at(at);
                }
                if by < 10 {
                    ask = ask.by(now + Nanos::from_millis(by));
                }
                if until < 20 {
                    ask = ask.until(now + Nanos::from_millis(until));
                }
                match self.gate.ask(now, id, ask) {
                    Ok(ticket) => {
                        let new = self.waiting.insert(ticket, id).is_none();
                        assert!(new && !self.out.contains_key(&ticket), "a ticket of another");
                    }
                    Err(AskError::Full) => assert!(self.waiting.len() + self.out.len() >= 64),
                    Err(AskError::TooLate(eta)) => assert!(by < 10 && eta.done > now),
                    Err(other) => panic!("{other}"),
                }
            }
            Step::Withdraw { which } => {
                if let Some(ticket) = pick(self.waiting.keys().copied(), which) {
                    assert!(self.gate.withdraw(now, ticket));
                    self.waiting.remove(&ticket);
                    self.ended.push(ticket);
                }
            }
            Step::GiveBack { which } => {
                if let Some((ticket, since)) = pick(self.out.iter(), which).map(|(t, s)| (*t, *s)) {
                    let expired = self.now >= since + self.expires_after;
                    assert!(self.gate.give_back(now, ticket).is_ok() || expired);
                    self.out.remove(&ticket);
                    self.ended.push(ticket);
                }
            }
            Step::Stale { which } => {
                if let Some(ticket) = pick(self.ended.iter().copied(), which) {
                    assert!(self.gate.give_back(now, ticket).is_err());
                    assert!(!self.gate.withdraw(now, ticket));
                }
            }
            Step::Pass { time } => self.pass(time),
        }
        self.listen();
    }

    /// Time passes from one event to the next.
    fn pass(&mut self, time: u64) {
        let until = self.now + time;
        while let Some(at) = self.gate.wakes_at().filter(|at| at.0 <= until) {
            assert!(at.0 >= self.now || self.gate.in_all().1 > 0, "it rings for the past");
            self.now = self.now.max(at.0);
            let before = self.gate.wakes_at();
            self.listen();
            assert!(self.gate.wakes_at() != before, "it rings for nothing at {at}");
        }
        self.now = until;
    }

    fn listen(&mut self) {
        loop {
            let is_due = self.gate.is_due(Nanos(self.now));
            let next = self.gate.next(Nanos(self.now));
            let tells = matches!(next, Next::Granted(_) | Next::TooLate(_));
            assert!(is_due || !tells, "nothing was due: {next:?}");
            match next {
                Next::Granted(ticket) => {
                    assert!(self.waiting.remove(&ticket).is_some(), "granted twice, or unasked");
                    self.out.insert(ticket, self.now);
                }
                Next::TooLate(ticket) => {
                    assert!(self.waiting.remove(&ticket).is_some(), "it did not wait");
                    self.ended.push(ticket);
                }
                Next::Wait(at) => {
                    assert!(at.0 > self.now, "it wants to be asked at {at}, which is now");
                    assert!(!self.gate.is_due(Nanos(self.now)), "it is due, and waits until {at}");
                    break;
                }
                Next::Idle => {
                    assert!(!self.gate.is_due(Nanos(self.now)), "it is due, and idle");
                    break;
                }
            }
        }
        while self.gate.report().is_some() {}
        let (now, expires_after) = (self.now, self.expires_after);
        self.out.retain(|_, since| now < *since + expires_after);
        let counted = self.gate.in_all();
        let known = (self.waiting.len(), self.out.len());
        assert_eq!((counted.0 as usize, counted.1 as usize), known, "waiting, out");
        self.gate.check().unwrap();
    }

    /// Removes all caps, stops asking, and holds each granted permit for a millisecond, until
    /// everything has ended. Nothing waits for longer than this: one after the other, each takes a
    /// millisecond, and the idle class may wait 200 ms for it.
    fn drain(&mut self) {
        for class in &self.classes {
            self.gate.set_rates(Nanos(self.now), *class, Rate::NONE, Rate::NONE).unwrap();
        }
        let most = (self.waiting.len() + self.out.len() + 1) as u64 * 201_000_000;
        let ends = self.now + most;
        while !(self.waiting.is_empty() && self.out.is_empty()) {
            assert!(self.now <= ends, "{} wait for ever", self.waiting.len());
            self.pass(1_000_000);
            for ticket in self.out.keys().copied().collect::<Vec<_>>() {
                self.gate.give_back(Nanos(self.now), ticket).unwrap();
                self.out.remove(&ticket);
            }
            self.listen();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Do random calls keep the laws of this file?
    #[test]
    fn whatever_is_called(
        permits in 1..9_u32,
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let mut world = World::new(permits);
        for _ in 0..3 {
            world.act(Step::Open { weight: 100, kind: 7, below: 99 });
        }
        for step in steps {
            world.act(step);
        }
        world.drain();
        world.is_done_again();
    }

    /// Is a permit granted within a bound set by weights, however much the others ask for? Each is
    /// held for a millisecond, one at a time; of the total weight W a class of weight w that asks
    /// for one after the other gets every (W / w)-th, and waits for at most twice as many and 16
    /// more, plus one of each other class.
    #[test]
    fn nobody_waits_beyond_its_weight(
        weights in prop::collection::vec((20..400_u32, 1..9_usize), 2..7),
    ) {
        let mut gate = Core::new(Settings { permits: 1, ..Settings::default() });
        let total: u64 = weights.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let mut asked = BTreeMap::new();
        let classes: Vec<_> = weights.iter().enumerate().map(|(place, (weight, depth))| {
            let class = gate.open(ClassSpec::new("some").weight(*weight)).unwrap();
            for _ in 0..if place == 0 { 1 } else { *depth } {
                asked.insert(gate.ask(Nanos(0), class, Ask::new(Op::Read, 4096)).unwrap(), place);
            }
            class
        }).collect();
        let most = 2 * total / u64::from(weights[0].0) + weights.len() as u64 + 16;
        let (mut now, mut since) = (0, 0);
        for _ in 0..600 {
            let ticket = loop {
                match gate.next(Nanos(now)) {
                    Next::Granted(ticket) => break ticket,
                    Next::Wait(at) => now = at.0,
                    other => panic!("{other:?}"),
                }
            };
            let place = asked.remove(&ticket).unwrap();
            if place == 0 {
                let waited = (now - since) / 1_000_000;
                prop_assert!(waited <= most, "{waited} of {most} ms");
            }
            now += 1_000_000;
            gate.give_back(Nanos(now), ticket).unwrap();
            let again = gate.ask(Nanos(now), classes[place], Ask::new(Op::Read, 4096)).unwrap();
            asked.insert(again, place);
            if place == 0 {
                since = now;
            }
        }
    }
}
