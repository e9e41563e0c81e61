// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doors: a program's I/Os through the mechanism in front of its device, in virtual time.
//!
//! The gate's published cases are not about a kernel's scheduler: a program asks a mechanism of its
//! own (a semaphore, a token bucket, a queue of sessions), does the I/O, and reports its end. Here
//! each is a state machine in front of `paternoster-disk`:
//!
//! ```text
//! clients ─ask─▶ door ─may go─▶ disk ─has ended─▶ door, client
//! ```
//!
//! # Invariants
//! I1  An I/O is let in once and ends once; the door learns of both.
//! I2  The clock stands still only while something can go on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use paternoster_disk::{Device as DiskDevice, Disk, Id, Next as DiskNext, Op as DiskOp};
use paternoster_frame::Failure;
use paternoster_gate::Nanos;

use self::kinds::Lets;
use super::experiment::{Device, Measured};

mod kinds;

/// One run: the clients, their requests, and the admission control that these go through.
#[derive(Debug, Clone)]
pub(crate) struct Doors {
    /// The experiment it belongs to, for the line that repeats it by hand.
    pub(crate) experiment: &'static str,
    pub(crate) door: Door,
    /// Names of classes.
    pub(crate) classes: &'static [&'static str],
    pub(crate) clients: Vec<Client>,
    /// A fault of the disk for some time, as a fault rule.
    pub(crate) episode: Option<&'static str>,
    /// Time before measuring, and measured time, in milliseconds.
    pub(crate) times: [u64; 2],
}

/// What is in front of the device.
#[derive(Debug, Clone)]
pub(crate) enum Door {
    /// Every I/O goes at once.
    Open,
    /// At most this many of a class at a time; the others pass.
    Limit { class: usize, most: usize },
    /// Sessions in turn, one at a time.
    Sessions,
    /// A token bucket for each class, with this many bytes a second.
    Buckets(Vec<u64>),
    /// A session that asks within a tick (in ns) of another one waits for the next tick.
    Ticks(u64),
    /// The gate: the weight of each class; a cap in bytes a second on all of them together.
    Gate { weights: Vec<u32>, cap: u64 },
}

/// A requester: a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) class: usize,
    /// I/Os in flight at a time; for a paced client, I/Os each time.
    pub(crate) depth: usize,
    /// Time between two times in ns; 0: at once after each completion.
    pub(crate) every: u64,
    pub(crate) len: u64,
    pub(crate) writes: bool,
}

impl Client {
    /// Reads of 4 KiB at random places, `depth` at a time.
    pub(crate) const fn reads(class: usize, depth: usize) -> Client {
        Client { class, depth, every: 0, len: 4096, writes: false }
    }

    pub(crate) const fn len(mut self, len: u64) -> Client {
        self.len = len;
        self
    }

    pub(crate) const fn every(mut self, ns: u64) -> Client {
        self.every = ns;
        self
    }

    pub(crate) const fn writes(mut self) -> Client {
        self.writes = true;
        self
    }
}

/// One I/O.
#[derive(Debug, Clone, Copy)]
struct Io {
    client: usize,
    own: Client,
    offset: u64,
    asked: u64,
}

/// xorshift*: the same on every machine.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most.max(1)
    }
}

/// Executes the run.
pub(super) fn measure(run: &Doors, device: &Device) -> Result<Measured, Failure> {
    let device = match device {
        Device::Named(name) => DiskDevice::named(name),
        Device::File { name, text } => DiskDevice::parse(name, text),
    };
    let device = device.map_err(|error| Failure::Request(error.to_string()))?.without_data();
    let mut disk = Disk::new(&device, 1);
    if let Some(episode) = run.episode {
        disk.episode(episode).map_err(|error| Failure::Request(error.to_string()))?;
    }
    let mut door = kinds::open(&run.door, run.classes)?;
    let [warm, time] = run.times.map(|ms| ms * 1_000_000);
    let came =
        drive(&mut disk, door.as_mut(), &run.clients, device.capacity(), [warm, warm + time])?;
    Ok(tell(run, came, time))
}

/// For each client: bytes, and how long each took.
type Came = Vec<(u64, Vec<u64>)>;

fn drive(
    disk: &mut Disk,
    door: &mut dyn Lets,
    clients: &[Client],
    capacity: u64,
    [from, ends]: [u64; 2],
) -> Result<Came, Failure> {
    let (mut ios, mut free): (Vec<Io>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut came: Came = vec![(0, Vec::new()); clients.len()];
    let mut under_way: HashMap<Id, usize> = HashMap::new();
    let mut ticks: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut chance = Chance(3);
    // Asks that are due now.
    let mut due: Vec<usize> = Vec::new();
    for (client, own) in clients.iter().enumerate() {
        match own.every {
            0 => due.extend((0..own.depth).map(|_| client)),
            every => ticks.push(Reverse((1 + chance.below(every), client))),
        }
    }
    let mut now = 0;
    loop {
        while let Some(Reverse((at, client))) = ticks.peek().copied().filter(|t| t.0.0 <= now) {
            ticks.pop();
            ticks.push(Reverse((at + clients[client].every, client)));
            due.extend((0..clients[client].depth).map(|_| client));
        }
        for client in due.drain(..) {
            let own = clients[client];
            let offset = chance.below(capacity / own.len) * own.len;
            let io = Io { client, own, offset, asked: now };
            let place = free.pop().unwrap_or(ios.len());
            match ios.get_mut(place) {
                Some(old) => *old = io,
                None => ios.push(io),
            }
            door.ask(now, place, &io)?;
        }
        while let Some(io) = door.next(now) {
            let Io { own, offset, .. } = ios[io];
            let op = if own.writes { DiskOp::Write } else { DiskOp::Read };
            let taken = disk.submit(Nanos(now), op, offset, own.len);
            let id = taken.map_err(|refusal| Failure::Request(format!("{refusal:?}")))?;
            under_way.insert(id, io);
        }
        let disk_wakes = match disk.next(Nanos(now)) {
            DiskNext::Done(done) => {
                let Some(io) = under_way.remove(&done.id) else { continue };
                door.ended(now, io);
                free.push(io);
                let Io { client, own, asked, .. } = ios[io];
                if now >= from {
                    came[client].0 += own.len;
                    came[client].1.push(now - asked);
                }
                due.extend((own.every == 0).then_some(client));
                continue;
            }
            DiskNext::Wait(at) => at.0,
            DiskNext::Idle => u64::MAX,
        };
        let tick = ticks.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let next = disk_wakes.min(tick).min(door.wakes_at().unwrap_or(u64::MAX).max(now + 1));
        if next >= ends {
            return Ok(came);
        }
        now = next;
    }
}

/// `CLASS MB/s` (10^6), `CLASS IOPS`, `CLASS share %` of bytes, `CLASS p50 us`, `p99`, `p99.9`; for
/// all together `all MB/s`.
#[expect(clippy::cast_precision_loss, reason = "printed figures")]
fn tell(run: &Doors, came: Came, time: u64) -> Measured {
    let mut measured = Measured::default();
    let mut add = |name: String, value: f64| {
        measured.numbers.insert(name, value);
    };
    let all: u64 = came.iter().map(|(bytes, _)| bytes).sum();
    let seconds = time as f64 / 1e9;
    add("all MB/s".to_owned(), all as f64 / seconds / 1e6);
    for (class, name) in run.classes.iter().enumerate() {
        let own = || came.iter().zip(&run.clients).filter(|(_, of)| of.class == class);
        let bytes: u64 = own().map(|((bytes, _), _)| bytes).sum();
        let mut times: Vec<u64> = own().flat_map(|((_, times), _)| times.iter().copied()).collect();
        times.sort_unstable();
        add(format!("{name} MB/s"), bytes as f64 / seconds / 1e6);
        add(format!("{name} IOPS"), times.len() as f64 / seconds);
        if all > 0 {
            add(format!("{name} share %"), 100.0 * bytes as f64 / all as f64);
        }
        for (what, thousandths) in [("p50", 500), ("p99", 990), ("p99.9", 999)] {
            let place = (times.len() * thousandths / 1000).min(times.len().saturating_sub(1));
            if let Some(time) = times.get(place) {
                add(format!("{name} {what} us"), *time as f64 / 1e3);
            }
        }
    }
    measured
}
