// SPDX-License-Identifier: MIT OR Apache-2.0
//! Way: the path between the kernel's scheduler and the emulated device, also put in front of ours.
//!
//! A command passes the loop driver, the system's FUSE and the emulation's threads, and its answer
//! comes back the same way. That takes tens of microseconds, which no model of the device includes;
//! they are measured (`stage.rs`) and added to ours:
//!
//! ```text
//! scheduler ─▶ waits for a tag ─▶ half the way ─▶ model ─▶ half the way ─▶ scheduler
//!                (at most one)    └────────── holds the tag ───────────┘
//! ```
//!
//! The kernel also has one that waits: a request is first taken from the scheduler and then asks
//! the driver for a tag; as long as one waits for a tag no other is taken. Without a scheduler
//! there is none, because a process that wants a tag sleeps.
//!
//! The way back varies by up to a third of the whole way, evenly spread: on a real machine two
//! processes do not stay in step for ever, as they would if every way took exactly as long.
//!
//! # Invariants
//! I1  At most `tags` commands are in flight and in the model; each is reported once.
//! I2  The same commands take the same ways by the same seed.
//!
//! Source: the recordings of cfq show a third up and down; kernel_results tests of this crate.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use paternoster_core::{Command, Completion, DeviceFacts, Nanos, Refused};
use paternoster_sim::Model;
use paternoster_sim::chance::Chance;

/// How long the way there and back takes, and what a process needs between two I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Costs {
    /// Cost of every command.
    pub(super) command: Nanos,
    /// Added for each KiB.
    pub(super) kib: Nanos,
    /// From a completion to the next submission of the same process.
    pub(super) submit: Nanos,
}

impl Costs {
    /// The whole way of a command of this many sectors.
    fn of(&self, sectors: u32) -> Nanos {
        Nanos(self.command.0 + self.kib.0 * u64::from(sectors) / 2)
    }
}

/// Something that happens at a time; the first comes first, equals in their order.
#[derive(Debug, Clone, Copy)]
struct Timed<T> {
    at: Nanos,
    order: u64,
    what: T,
}

impl<T> Timed<T> {
    const fn key(&self) -> (Nanos, u64) {
        (self.at, self.order)
    }
}

impl<T> PartialEq for Timed<T> {
    fn eq(&self, other: &Timed<T>) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Timed<T> {}

impl<T> PartialOrd for Timed<T> {
    fn partial_cmp(&self, other: &Timed<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Timed<T> {
    fn cmp(&self, other: &Timed<T>) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// A model at the end of the way.
#[derive(Debug)]
pub(super) struct Behind {
    inner: Box<dyn Model>,
    costs: Costs,
    tags: u32,
    /// Commands that may wait for a tag.
    room: usize,
    waiting: VecDeque<Command>,
    there: BinaryHeap<Reverse<Timed<Command>>>,
    back: BinaryHeap<Reverse<Timed<Completion>>>,
    /// Sectors of each command, by its tag's index.
    sectors: Vec<u32>,
    /// How many commands hold a tag.
    under_way: u32,
    order: u64,
    chance: Chance,
}

impl Behind {
    /// `inner` with a path of these costs and tags before it. `peeks`: whether a scheduler is asked
    /// for one command more.
    pub(super) fn new(
        inner: Box<dyn Model>,
        costs: Costs,
        (tags, peeks): (u32, bool),
        seed: u64,
    ) -> Behind {
        Behind {
            inner,
            costs,
            tags,
            room: usize::from(peeks),
            waiting: VecDeque::new(),
            there: BinaryHeap::new(),
            back: BinaryHeap::new(),
            sectors: Vec::new(),
            under_way: 0,
            order: 0,
            chance: Chance::new(seed, 0),
        }
    }

    /// How many commands it takes: those with tags, and the one that waits for a tag.
    pub(super) fn depth(tags: u32, peeks: bool) -> u32 {
        tags + u32::from(peeks)
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Gives it a tag and sends it.
    fn send(&mut self, now: Nanos, command: Command) {
        self.under_way += 1;
        let place = command.tag.index() as usize;
        if self.sectors.len() <= place {
            self.sectors.resize(place + 1, 0);
        }
        self.sectors[place] = command.sectors;
        let at = now + Nanos(self.costs.of(command.sectors).0 / 2);
        let order = self.next_order();
        self.there.push(Reverse(Timed { at, order, what: command }));
    }

    /// How long an answer's way is: from a sixth to five sixths of the whole way.
    fn way_back(&mut self, sectors: u32) -> Nanos {
        let whole = self.costs.of(sectors).0;
        Nanos(whole / 6 + self.chance.below(2 * whole / 3 + 1))
    }

    fn arrive(&mut self, at: Nanos) {
        let Some(Reverse(first)) = self.there.pop() else { return };
        if self.inner.submit(at, &first.what).is_err() {
            // A busy model is asked again a little later.
            let order = self.next_order();
            let at = at + Nanos::from_micros(10);
            self.there.push(Reverse(Timed { at, order, what: first.what }));
        }
    }

    fn leave(&mut self, at: Nanos) {
        if let Some(completion) = self.inner.advance(at) {
            let sectors = self.sectors[completion.tag.index() as usize];
            let at = completion.at + self.way_back(sectors);
            let order = self.next_order();
            self.back.push(Reverse(Timed { at, order, what: completion }));
        }
    }

    fn return_one(&mut self) -> Option<Completion> {
        let Reverse(mut first) = self.back.pop()?;
        first.what.at = first.at;
        self.under_way -= 1;
        if let Some(next) = self.waiting.pop_front() {
            self.send(first.at, next);
        }
        Some(first.what)
    }
}

impl Model for Behind {
    fn facts(&self) -> DeviceFacts {
        let depth = self.tags + u32::try_from(self.room).unwrap_or(0);
        DeviceFacts { depth, ..self.inner.facts() }
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        if self.under_way < self.tags {
            self.send(now, *command);
            return Ok(());
        }
        if self.waiting.len() >= self.room {
            return Err(Refused);
        }
        self.waiting.push_back(*command);
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        let there = self.there.peek().map(|Reverse(first)| first.at);
        let back = self.back.peek().map(|Reverse(first)| first.at);
        [there, back, self.inner.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        loop {
            let at = self.next_event().filter(|&at| at <= now)?;
            if self.there.peek().is_some_and(|Reverse(first)| first.at == at) {
                self.arrive(at);
            } else if self.inner.next_event() == Some(at) {
                self.leave(at);
            } else if let Some(completion) = self.return_one() {
                return Some(completion);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::{ClientId, Device, Flags, Op, Tag};
    use paternoster_sim::{Description, Simulated};

    use super::*;

    /// A model with one server of a millisecond.
    fn model() -> Box<dyn Model> {
        let text = "name = \"m\"\nmodel = \"linear\"\nsummary = \"s\"\nvalid = \"v\"\n[facts]\n\
                    capacity = { value = \"1 GiB\", source = \"t\" }\n\
                    depth = { value = 8, source = \"t\" }\n[linear]\n\
                    servers = { value = 1, source = \"t\" }\n\
                    base = { value = \"1 ms\", source = \"t\" }\n\
                    rate = { value = \"0 ns/B\", source = \"t\" }\n";
        Description::parse("t.toml", text).unwrap().model()
    }

    fn command(slot: u32, sectors: u32) -> Command {
        let (op, flags, client) = (Op::Read, Flags::default(), ClientId::NOBODY);
        Command { tag: Tag::of_slot(slot), op, sector: 0, sectors, flags, client }
    }

    fn costs() -> Costs {
        let (command, kib) = (Nanos::from_micros(60), Nanos::from_micros(3));
        Costs { command, kib, submit: Nanos::ZERO }
    }

    /// Does one command take its way and the model's time? 4 KiB: 60 + 4 * 3 = 72 us, of which 36
    /// there and 12 to 60 back: from 1048 to 1096 us in all.
    #[test]
    fn a_way_there_and_back() {
        let mut device = Simulated::new(Behind::new(model(), costs(), (4, true), 0));
        for _ in 0..100 {
            let begin = device.now();
            device.submit(command(0, 8)).unwrap();
            let took = device.wait(None).unwrap().at - begin;
            assert!((1_048_000..=1_096_000).contains(&took.0), "{took:?}");
        }
    }

    /// Do two tags hold two commands, one more wait for a tag, and a fourth be refused; is each
    /// reported once? Without a scheduler none waits.
    #[test]
    fn one_waits_for_a_tag() {
        for (peeks, most) in [(true, 3), (false, 2)] {
            assert_eq!(Behind::depth(2, peeks), most);
            let mut device = Simulated::new(Behind::new(model(), costs(), (2, peeks), 0));
            assert_eq!(device.facts().depth, most);
            let taken = (0..4).filter(|&slot| device.submit(command(slot, 8)).is_ok()).count();
            assert_eq!(taken, most as usize);
            let mut told: Vec<u32> =
                std::iter::from_fn(|| device.wait(None)).map(|done| done.tag.index()).collect();
            told.sort_unstable();
            assert_eq!(told, (0..most).collect::<Vec<_>>());
        }
    }

    /// Does a model that always has one more in line work all the time? Eight of 1 ms one after the
    /// other, four tags: 8 ms, plus the first way there and the last way back, 36 + 12 to 36 + 60
    /// us.
    #[test]
    fn ways_overlap_with_work() {
        let mut device = Simulated::new(Behind::new(model(), costs(), (4, true), 0));
        let (mut sent, mut done) = (0, 0);
        while done < 8 {
            while sent < 8 && device.submit(command(sent % 8, 8)).is_ok() {
                sent += 1;
            }
            done += u32::from(device.wait(None).is_some());
        }
        assert!((8_048_000..=8_096_000).contains(&device.now().0), "{}", device.now());
    }
}
