// SPDX-License-Identifier: MIT OR Apache-2.0
//! World: clients as state machines, a door, and behind it a device in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use paternoster_disk::{Device, Disk, Id, Next};
use paternoster_gate::{Nanos, Op};

use crate::doors::{Door, Wish};
use crate::futures::{Anew, Look};

/// One client: `depth` I/Os at a time, or one at each tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) class: usize,
    /// I/Os under way at a time.
    pub(crate) depth: usize,
    /// Time between two I/Os; 0: the next starts when one has ended.
    pub(crate) every: u64,
    pub(crate) len: u64,
    /// Reads in per cent.
    pub(crate) reads: u64,
    /// Sequential from a place of its own, or random.
    pub(crate) stream: bool,
}

/// The results, in the measured time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Came {
    pub(crate) bytes: Vec<u64>,
    pub(crate) ios: Vec<u64>,
    /// From ask to end, by class, in ns.
    pub(crate) latencies: Vec<Vec<u64>>,
}

impl Came {
    pub(crate) fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The 99th percentile of a class's latency.
    pub(crate) fn p99(&mut self, class: usize) -> u64 {
        let latencies = &mut self.latencies[class];
        latencies.sort_unstable();
        let place = (latencies.len() * 99 / 100).min(latencies.len().saturating_sub(1));
        latencies.get(place).copied().unwrap_or(0)
    }
}

/// xorshift*: the same on every machine.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most.max(1)
    }
}

struct World<'a> {
    disk: Disk,
    door: &'a mut dyn Door,
    clients: &'a [Client],
    chance: Chance,
    /// For each I/O's number: its client, its kind, when it began.
    ios: Vec<(usize, Wish, Nanos)>,
    free: Vec<usize>,
    streams: Vec<u64>,
    under_way: HashMap<Id, usize>,
    ticks: BinaryHeap<Reverse<(u64, usize)>>,
    capacity: u64,
    look: Option<&'a mut Look>,
}

impl World<'_> {
    fn ask(&mut self, now: Nanos, client: usize) {
        let own = self.clients[client];
        let op = if self.chance.below(100) < own.reads { Op::Read } else { Op::Write };
        let blocks = self.capacity / own.len;
        let offset = if own.stream {
            let at = self.streams[client];
            self.streams[client] = (at + own.len) % (blocks * own.len);
            at
        } else {
            self.chance.below(blocks) * own.len
        };
        let wish = Wish { class: own.class, op, offset, len: own.len };
        let io = self.free.pop().unwrap_or(self.ios.len());
        if io == self.ios.len() {
            self.ios.push((client, wish, now));
        } else {
            self.ios[io] = (client, wish, now);
        }
        self.door.ask(now, wish, io);
        let future = self.look.as_mut().and_then(|look| Some((look.asked(now.0, io)?, look.anew)));
        if let Some((number, anew)) = future {
            self.begin_future(number as u64, anew);
        }
    }

    /// From now on everything is drawn differently than in the parent process.
    fn begin_future(&mut self, number: u64, anew: Anew) {
        self.chance = Chance((number + 1) * 0x9e37_79b9_7f4a_7c15);
        (0..8).for_each(|_| _ = self.chance.below(2));
        if anew == Anew::Asks {
            return;
        }
        for io in 0..self.ios.len() {
            let is_inside = self.under_way.values().any(|inside| *inside == io);
            if !is_inside && !self.free.contains(&io) {
                let len = self.ios[io].1.len;
                self.ios[io].1.offset = self.chance.below(self.capacity / len) * len;
            }
        }
    }

    fn is_future(&self) -> bool {
        self.look.as_ref().is_some_and(|look| look.told.is_some())
    }

    fn let_in(&mut self, now: Nanos) {
        while let Some(io) = self.door.next(now) {
            let wish = self.ios[io].1;
            let op = match wish.op {
                Op::Read => paternoster_disk::Op::Read,
                _ => paternoster_disk::Op::Write,
            };
            let id = self.disk.submit(now, op, wish.offset, wish.len).unwrap();
            self.under_way.insert(id, io);
        }
    }
}

/// Runs the clients for `warm` ns and then for `measured` ns.
pub(crate) fn run(
    device: &Device,
    door: &mut dyn Door,
    clients: &[Client],
    seed: u64,
    times: [u64; 2],
) -> Came {
    run_and_look(device, door, clients, seed, times, None)
}

/// The same, and a look into futures on the way. A future ends with the I/O that it is about.
pub(crate) fn run_and_look<'a>(
    device: &Device,
    door: &'a mut dyn Door,
    clients: &'a [Client],
    seed: u64,
    [warm, measured]: [u64; 2],
    look: Option<&'a mut Look>,
) -> Came {
    let disk = Disk::new(device, seed);
    let classes = clients.iter().map(|client| client.class + 1).max().unwrap_or(0);
    let mut came = Came {
        bytes: vec![0; classes],
        ios: vec![0; classes],
        latencies: vec![Vec::new(); classes],
    };
    let capacity = device.capacity();
    let apart = capacity / clients.len() as u64 / (1 << 20) * (1 << 20);
    let mut world = World {
        disk,
        door,
        clients,
        chance: Chance(seed * 2 + 1),
        ios: Vec::new(),
        free: Vec::new(),
        streams: (0..clients.len() as u64).map(|place| place * apart).collect(),
        under_way: HashMap::new(),
        ticks: BinaryHeap::new(),
        capacity,
        look,
    };
    for (client, own) in clients.iter().enumerate() {
        if own.every > 0 {
            world.ticks.push(Reverse((own.every, client)));
        } else {
            (0..own.depth).for_each(|_| world.ask(Nanos(0), client));
        }
    }
    let (mut now, ends) = (Nanos(0), warm + measured);
    while now.0 < ends || world.is_future() {
        let disk_wakes = loop {
            match world.disk.next(now) {
                Next::Done(done) => {
                    let io = world.under_way.remove(&done.id).unwrap();
                    let (client, wish, asked) = world.ios[io];
                    world.door.ended(now, io);
                    if let Some(look) = &mut world.look {
                        look.ended(io, (now - asked).0);
                    }
                    world.free.push(io);
                    if now.0 >= warm {
                        came.bytes[wish.class] += wish.len;
                        came.ios[wish.class] += 1;
                        came.latencies[wish.class].push((now - asked).0);
                    }
                    if clients[client].every == 0 {
                        world.ask(now, client);
                    }
                }
                Next::Wait(at) => break at.0,
                Next::Idle => break u64::MAX,
            }
        };
        while let Some(Reverse((at, client))) = world.ticks.peek().copied() {
            if at > now.0 {
                break;
            }
            world.ticks.pop();
            world.ticks.push(Reverse((at + clients[client].every, client)));
            world.ask(now, client);
        }
        let before = world.under_way.len();
        world.let_in(now);
        if world.under_way.len() != before {
            continue;
        }
        let tick = world.ticks.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let door = world.door.wakes_at().map_or(u64::MAX, |at| at.0.max(now.0 + 1));
        let next = disk_wakes.min(tick).min(door);
        assert!(next > now.0 && next != u64::MAX, "nothing happens any more at {now}");
        now = Nanos(next);
    }
    came
}
