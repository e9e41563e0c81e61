// SPDX-License-Identifier: MIT OR Apache-2.0
//! Soak: clients of all kinds and a device with faults, while every setting is changed.
//!
//! ```text
//! careful × 3    writes, flushes and reads its own part; what was acknowledged must be there
//! dying          sends half of something and goes
//! deaf           sends requests and reads no answers, until it is disconnected
//! babbling       sends garbage, during the handshake and after it
//! administrator  weights, classes, schedulers, attributes, drain and resume, traces
//! ```
//!
//! Takes a few seconds; with `PATERNOSTER_SOAK=600` it takes ten minutes and checks the memory of
//! the process too (`--test real_time soak`). At the end nothing is in use, and no client is
//! connected.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use paternoster_core::{Class, Nanos};
use paternoster_serve::config::ServiceClass;
use paternoster_serve::control::order::Order;
use paternoster_serve::device::Backend;
use paternoster_serve::device::faulty::{Effect, Fault, Faulty, Often, Which};
use paternoster_serve::server::Server;

use crate::common::client::{READ, WRITE, ZEROES, request};
use crate::common::watch::{snapshot, until_quiet};
use crate::common::{Client, Folder, config, device, end, start_behind, tenant, volume};

const SIZE: u64 = 8 << 20;
const SEED: u64 = 20_261_122;
const EIO: u32 = 5;
const ESHUTDOWN: u32 = 108;
/// Bytes of a careful client's part.
const PART: usize = 1 << 20;

/// Pseudo-random numbers: a xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn byte(&mut self) -> u8 {
        self.below(256);
        self.0.to_le_bytes()[3]
    }
}

fn faulty(inner: Box<dyn Backend>) -> Box<dyn Backend> {
    let fault = |which, often, effect| Fault { which, often: Often::OneIn(often), effect };
    let faults = [
        fault(Which::Reads, 50, Effect::Fails(libc::EIO)),
        fault(Which::Writes, 50, Effect::FailsAfterwards(libc::EIO)),
        fault(Which::Writes, 50, Effect::Fails(libc::ENOSPC)),
        fault(Which::Flushes, 10, Effect::Fails(libc::EIO)),
        fault(Which::All, 20, Effect::Late(Nanos::from_millis(3))),
        fault(Which::All, 20, Effect::Refused),
    ];
    Box::new(Faulty::new(inner, &faults, SEED))
}

/// What a careful client knows of its region: each byte's content, or that a write to it has
/// failed.
struct Part {
    from: u64,
    known: Vec<Option<u8>>,
}

impl Part {
    fn check(&self, at: usize, data: &[u8]) {
        for (place, (&found, &known)) in data.iter().zip(&self.known[at..]).enumerate() {
            let is_right = known.is_none_or(|known| known == found);
            assert!(is_right, "{found} and not {known:?} at {}", self.from + (at + place) as u64);
        }
    }

    /// Does something, and compares the answer with what is known.
    fn act(&mut self, client: &mut Client, dice: &mut Dice) {
        let most = if dice.below(4) == 0 { 300_000 } else { 9000 };
        let length = usize::try_from(1 + dice.below(most)).unwrap();
        let at = usize::try_from(dice.below((PART - length) as u64)).unwrap();
        let (offset, short) = (self.from + at as u64, u32::try_from(length).unwrap());
        let kind = dice.below(10);
        let (errno, now) = match kind {
            0..4 => {
                let told = client.ask(READ, 0, offset, short).expect("an answer");
                for (from, data) in told.data {
                    self.check(usize::try_from(from - self.from).unwrap(), &data);
                }
                (told.errno, None)
            }
            4..8 => {
                let byte = dice.below(256).to_be_bytes()[7];
                (client.write(0, offset, &vec![byte; length]).expect("an answer"), Some(byte))
            }
            8 => (client.ask(ZEROES, 0, offset, short).expect("an answer").errno, Some(0)),
            _ => (client.flush().expect("an answer"), None),
        };
        assert!([0, EIO, 28, ESHUTDOWN].contains(&errno), "{errno}");
        match now {
            // Refused before it began.
            Some(_) if errno == ESHUTDOWN => {}
            // A block that is only partly written is read first: it is as it was, or as it should
            // be.
            Some(byte) => {
                let known = (errno == 0).then_some(byte);
                self.known[at..at + length].fill(known);
            }
            None => {}
        }
    }
}

struct Soak<'a> {
    socket: &'a Path,
    server: &'a Server,
    over: &'a AtomicBool,
    acts: &'a AtomicU64,
}

impl Soak<'_> {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn connect(&self, volume: &str) -> Client {
        Client::connect(self.socket, volume).expect("a connection")
    }

    fn careful(&self, number: u64) {
        let mut dice = Dice(SEED + number);
        let from = number * PART as u64;
        let mut part = Part { from, known: vec![Some(0); PART] };
        while !self.is_over() {
            let mut client = self.connect("disk");
            for _ in 0..50 {
                part.act(&mut client, &mut dice);
                self.acts.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The dying client writes to a part that no other client reads.
    fn dying(&self) {
        let mut dice = Dice(SEED + 10);
        while !self.is_over() {
            let mut client = self.connect("other");
            let mut bytes = Vec::new();
            for _ in 0..dice.below(40) {
                let at = dice.below(SIZE / 2);
                let length = u32::try_from(1 + dice.below(20_000)).unwrap();
                let kind = [READ, WRITE, ZEROES][usize::try_from(dice.below(3)).unwrap()];
                let payload = vec![1; if kind == WRITE { length as usize } else { 0 }];
                bytes.extend(request(kind, 0, 1, at, length, &payload));
            }
            bytes.truncate(usize::try_from(dice.below(bytes.len() as u64 + 1)).unwrap());
            client.stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
            // This may block, since it reads no answers.
            let _blocked = client.stream.write_all(&bytes);
        }
    }

    fn deaf(&self) {
        while !self.is_over() {
            let mut client = self.connect("other");
            client.stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
            let bytes = request(READ, 0, 1, 0, 100_000, &[]).repeat(100);
            while !self.is_over() {
                match client.stream.write_all(&bytes) {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => break,
                    Ok(()) => {}
                }
            }
        }
    }

    fn babbling(&self) {
        let mut dice = Dice(SEED + 20);
        while !self.is_over() {
            let mut client = if dice.below(2) == 0 {
                Client::greet(self.socket).expect("a greeting")
            } else {
                self.connect("other")
            };
            let bytes: Vec<u8> = (0..dice.below(500)).map(|_| dice.byte()).collect();
            // The server may have hung up already.
            let _closed = client.stream.write_all(&bytes);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Gives every kind of order, one after the other.
    fn administrator(&self, folder: &Folder) {
        let mut dice = Dice(SEED + 30);
        let mut pick =
            |all: &[&str]| all[usize::try_from(dice.below(all.len() as u64)).unwrap()].to_owned();
        let other = || "other".to_owned();
        let traces = folder.path("trace");
        while !self.is_over() {
            let weight = 1 + u32::try_from(self.acts.load(Ordering::Relaxed) % 1000).unwrap();
            let background = ServiceClass::Background { minimum: 50 };
            let orders = [
                Order::Weight { name: pick(&["disk", "other"]), weight },
                Order::Class { name: other(), class: background, level: 4 },
                Order::Scheduler { name: pick(&["bfq", "cfq", "mq-deadline", "noop", "kyber"]) },
                Order::Attribute { name: "nr_requests".into(), value: Some(pick(&["8", "64"])) },
                Order::Trace { prefix: Some(traces.clone()) },
                Order::Drain { volume: other() },
                Order::Explain { tenant: None },
                Order::Resume { volume: other() },
                Order::Trace { prefix: None },
                Order::Class { name: other(), class: ServiceClass::Kernel(Class::Idle), level: 0 },
                Order::Class {
                    name: other(),
                    class: ServiceClass::Kernel(Class::BestEffort),
                    level: 4,
                },
                Order::Attributes,
            ];
            for order in orders {
                let told = self.server.device_loops()[0].ask(order.clone());
                assert!(told.is_ok(), "{order:?}: {told:?}");
                let now = snapshot(self.server);
                assert!(now.memory_used <= now.memory, "{now:?}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Anonymous memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

/// Is everything right at the end, whatever was done?
#[test]
fn all_of_it_at_once() {
    let asked = std::env::var("PATERNOSTER_SOAK").ok().and_then(|text| text.parse().ok());
    let seconds: u64 = asked.unwrap_or(4);
    let folder = Folder::in_memory("soak");
    let (disk, other) = (folder.file("disk", SIZE), folder.file("other", SIZE));
    let mut dev = device("bfq", &[("disk", &disk)]);
    dev.volumes.push(volume("other", &other));
    let mut config = config(&folder, dev);
    config.server.stall_timeout = Nanos::from_millis(500);
    config.tenants = vec![tenant("disk", 100), tenant("other", 100)];
    let server = start_behind(config, faulty);
    let (over, acts) = (AtomicBool::new(false), AtomicU64::new(0));
    let socket = folder.path("nbd.sock");
    let soak = Soak { socket: &socket, server: &server, over: &over, acts: &acts };
    let mut sizes = Vec::new();
    std::thread::scope(|scope| {
        let soak = &soak;
        let mut threads: Vec<_> =
            (0..3).map(|number| scope.spawn(move || soak.careful(number))).collect();
        threads.push(scope.spawn(|| soak.dying()));
        threads.push(scope.spawn(|| soak.deaf()));
        threads.push(scope.spawn(|| soak.babbling()));
        threads.push(scope.spawn(|| soak.administrator(&folder)));
        let begun = Instant::now();
        // If one thread fails, all end.
        while begun.elapsed().as_secs() < seconds && !threads.iter().any(|one| one.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            sizes.push(resident());
        }
        over.store(true, Ordering::Relaxed);
    });
    until_quiet(&server, 0);
    let acts = acts.load(Ordering::Relaxed);
    println!("{acts} acts in {seconds} s; {:?} … {:?} KiB", sizes.first(), sizes.last());
    assert!(acts > 0);
    if seconds >= 120 {
        // Memory stays flat: the second half needs no more than the first, except what an allocator
        // keeps.
        let (first, second) = sizes.split_at(sizes.len() / 2);
        let (first, second) = (first.iter().max(), second.iter().max());
        let grown = second.unwrap().saturating_sub(*first.unwrap());
        assert!(grown < 8 << 10, "{grown} KiB more in the second half: {first:?} {second:?}");
    }
    end(&server);
}
