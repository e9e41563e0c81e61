// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doors: what stands between clients and a device: nothing, a semaphore, token buckets, the gate.

use std::collections::{BTreeMap, VecDeque};

use paternoster_gate::{Ask, ClassId, ClassSpec, Core, Nanos, Next, Op, Settings, Ticket};

/// The most that a bucket holds, as a time.
const BURST: u64 = 10_000_000;

/// An I/O that a client wants to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) class: usize,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A way to ask. The caller names each I/O by a number.
pub(crate) trait Door {
    fn ask(&mut self, now: Nanos, wish: Wish, io: usize);
    /// The next I/O that may go.
    fn next(&mut self, now: Nanos) -> Option<usize>;
    /// When to ask again at the latest.
    fn wakes_at(&self) -> Option<Nanos>;
    fn ended(&mut self, now: Nanos, io: usize);
}

/// First come, first served, a limited number at a time: `usize::MAX` is no door.
pub(crate) struct Semaphore {
    most: usize,
    out: usize,
    line: VecDeque<usize>,
}

impl Semaphore {
    pub(crate) fn new(most: usize) -> Semaphore {
        Semaphore { most, out: 0, line: VecDeque::new() }
    }
}

impl Door for Semaphore {
    fn ask(&mut self, _: Nanos, _: Wish, io: usize) {
        self.line.push_back(io);
    }

    fn next(&mut self, _: Nanos) -> Option<usize> {
        if self.out == self.most {
            return None;
        }
        let io = self.line.pop_front()?;
        self.out += 1;
        Some(io)
    }

    fn wakes_at(&self) -> Option<Nanos> {
        None
    }

    fn ended(&mut self, _: Nanos, _: usize) {
        self.out -= 1;
    }
}

/// One token bucket.
struct Bucket {
    /// Nanoseconds that a byte costs, in 1/2^16.
    price: u64,
    /// Until when past I/Os are paid for.
    paid: u64,
    /// I/Os and their bytes.
    line: VecDeque<(usize, u64)>,
}

/// A bucket for each class, filled with its weight's share of what the device can do.
pub(crate) struct Buckets {
    classes: Vec<Bucket>,
    now: u64,
}

impl Buckets {
    /// `rate` in bytes a second, all classes together.
    pub(crate) fn new(rate: u64, weights: &[u32]) -> Buckets {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let classes = weights.iter().map(|weight| {
            let own = (rate * u64::from(*weight) / total).max(1);
            Bucket { price: (1_000_000_000 << 16) / own, paid: 0, line: VecDeque::new() }
        });
        Buckets { classes: classes.collect(), now: 0 }
    }
}

impl Door for Buckets {
    fn ask(&mut self, _: Nanos, wish: Wish, io: usize) {
        self.classes[wish.class].line.push_back((io, wish.len));
    }

    fn next(&mut self, now: Nanos) -> Option<usize> {
        self.now = now.0;
        for own in &mut self.classes {
            if own.paid <= now.0 + BURST
                && let Some((io, len)) = own.line.pop_front()
            {
                own.paid = own.paid.max(now.0) + ((len * own.price) >> 16);
                return Some(io);
            }
        }
        None
    }

    fn wakes_at(&self) -> Option<Nanos> {
        let waits = self.classes.iter().filter(|own| !own.line.is_empty());
        waits.map(|own| Nanos(own.paid.saturating_sub(BURST).max(self.now + 1))).min()
    }

    fn ended(&mut self, _: Nanos, _: usize) {}
}

/// I/Os that wait, and their bytes.
type Line = VecDeque<(usize, u64)>;

/// A semaphore whose places go to the class that has had least for its weight: a limit that must be
/// given a number of I/Os at a time. By start tags: an I/O costs its bytes, and a class that
/// returns begins where the others are.
pub(crate) struct Fair {
    most: usize,
    out: usize,
    /// For each class: weight, start tag of its first, I/Os and their bytes.
    classes: Vec<(u64, u64, Line)>,
    /// The start tag of the last I/O to go.
    tag: u64,
}

impl Fair {
    pub(crate) fn new(most: usize, weights: &[u32]) -> Fair {
        let classes = weights.iter().map(|weight| (u64::from(*weight), 0, VecDeque::new()));
        Fair { most, out: 0, classes: classes.collect(), tag: 0 }
    }
}

impl Door for Fair {
    fn ask(&mut self, _: Nanos, wish: Wish, io: usize) {
        let (_, start, line) = &mut self.classes[wish.class];
        if line.is_empty() {
            *start = (*start).max(self.tag);
        }
        line.push_back((io, wish.len));
    }

    fn next(&mut self, _: Nanos) -> Option<usize> {
        if self.out == self.most {
            return None;
        }
        let waits = self.classes.iter_mut().filter(|(_, _, line)| !line.is_empty());
        let (weight, start, line) = waits.min_by_key(|(_, start, line)| (*start, line.len()))?;
        let (io, len) = line.pop_front()?;
        self.tag = *start;
        *start += len * 1000 / *weight;
        self.out += 1;
        Some(io)
    }

    fn wakes_at(&self) -> Option<Nanos> {
        None
    }

    fn ended(&mut self, _: Nanos, _: usize) {
        self.out -= 1;
    }
}

/// The gate.
pub(crate) struct Gated {
    pub(crate) core: Core,
    classes: Vec<ClassId>,
    places: bool,
    /// Which I/O a ticket is for, by its index.
    ios: Vec<usize>,
    tickets: Vec<Option<Ticket>>,
    /// For each I/O: when it was requested, and its estimated end.
    etas: Vec<(u64, u64)>,
    /// Estimates are checked from then on: how many were within a quarter, of how many.
    pub(crate) from: Nanos,
    pub(crate) told: (u64, u64),
    /// By what an estimate may know at the ask: how long such I/Os took.
    pub(crate) took: BTreeMap<Known, Vec<u64>>,
    known: Vec<Known>,
}

/// Class, kind, how many of the class wait, how many permits are out.
pub(crate) type Known = (usize, Op, u64, u32);

impl Gated {
    pub(crate) fn new(settings: Settings, weights: &[u32], places: bool) -> Gated {
        let mut core = Core::new(settings);
        let classes = weights.iter().enumerate().map(|(place, weight)| {
            core.open(ClassSpec::new(&format!("class-{place}")).weight(*weight)).unwrap()
        });
        let classes = classes.collect();
        Gated {
            core,
            classes,
            places,
            ios: Vec::new(),
            tickets: Vec::new(),
            etas: Vec::new(),
            from: Nanos::MAX,
            told: (0, 0),
            took: BTreeMap::new(),
            known: Vec::new(),
        }
    }
}

fn put<T: Clone>(table: &mut Vec<T>, place: usize, value: T) {
    if table.len() <= place {
        table.resize(place + 1, value.clone());
    }
    table[place] = value;
}

impl Door for Gated {
    fn ask(&mut self, now: Nanos, wish: Wish, io: usize) {
        let mut ask = Ask::new(wish.op, wish.len);
        if self.places {
            ask = ask.at(wish.offset);
        }
        let class = self.classes[wish.class];
        let eta = self.core.eta(now, class, wish.op, wish.len).unwrap();
        put(&mut self.etas, io, (now.0, eta.done.0));
        let counts = self.core.counts(class).unwrap();
        let waiting = counts.asked - counts.granted - counts.withdrawn - counts.too_late;
        put(&mut self.known, io, (wish.class, wish.op, waiting, self.core.in_all().1));
        let ticket = self.core.ask(now, class, ask).unwrap();
        put(&mut self.ios, ticket.index() as usize, io);
        put(&mut self.tickets, io, Some(ticket));
    }

    fn next(&mut self, now: Nanos) -> Option<usize> {
        match self.core.next(now) {
            Next::Granted(ticket) => Some(self.ios[ticket.index() as usize]),
            _ => None,
        }
    }

    fn wakes_at(&self) -> Option<Nanos> {
        self.core.wakes_at()
    }

    fn ended(&mut self, now: Nanos, io: usize) {
        let (asked, told) = self.etas[io];
        if asked >= self.from.0 {
            let took = now.0 - asked;
            self.told.0 += u64::from(told.abs_diff(now.0) * 4 <= took);
            self.told.1 += 1;
            self.took.entry(self.known[io]).or_default().push(took);
        }
        let ticket = self.tickets[io].take().expect("it was asked for");
        self.core.give_back(now, ticket).unwrap();
    }
}
