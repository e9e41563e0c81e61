// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draw: a device and the clients that load it, by a seed.
//!
//! A third of the loads has clients that are all alike, the others two to four kinds of them. Every
//! client always has something to ask; how many I/Os at a time, how large, which way and through
//! which engine is drawn, and sometimes a weight of three times the others'.

use std::fmt::Write;

use paternoster_sim::chance::Chance;

/// Devices, and how often each is drawn: those that are quick to simulate more often.
const DEVICES: [(&str, u64); 9] = [
    ("flash-card-2010", 4),
    ("hdd-7200", 3),
    ("hdd-7200-no-ncq", 3),
    ("hdd-mhx2300bt", 3),
    ("lab-disk", 3),
    ("lab-flash", 2),
    ("raid0-4-hdd", 2),
    ("ssd-870evo", 1),
    ("nvme-7300", 1),
];
/// Clients of a load.
const CLIENTS: (u64, u64) = (2, 12);

/// How a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Engine {
    /// Direct, several at a time.
    Libaio,
    /// Direct, several at a time.
    IoUring,
    /// Direct, one at a time.
    Psync,
    /// Through the page cache, one call at a time.
    Buffered,
}

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) engine: Engine,
    pub(super) rw: &'static str,
    pub(super) block_kib: u32,
    pub(super) depth: u32,
}

/// One client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) kind: Kind,
    pub(super) weight: u32,
    /// In a cgroup of its own, or all in the root.
    pub(super) grouped: bool,
}

/// A device and its clients.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) seed: u64,
    pub(super) device: &'static str,
    pub(super) clients: Vec<Client>,
}

impl Load {
    /// The load of a seed.
    pub(super) fn draw(seed: u64) -> Load {
        let mut draw = Draw(Chance::new(seed, 0));
        let device = draw.device();
        let count = draw.between(CLIENTS.0, CLIENTS.1);
        let kinds = if draw.one_in(3) { 1 } else { draw.between(2, 4) };
        let kinds: Vec<Kind> = (0..kinds).map(|_| draw.kind()).collect();
        let grouped = draw.one_in(2);
        let weighted = draw.one_in(4);
        let client = |draw: &mut Draw| Client {
            kind: draw.of(&kinds),
            weight: if weighted && draw.one_in(2) { 300 } else { 100 },
            grouped,
        };
        let clients = (0..count).map(|_| client(&mut draw)).collect();
        Load { seed, device, clients }
    }

    /// Whether it is quick to simulate: a slow device, and nothing that memory or a drive's cache
    /// answers.
    pub(super) fn is_cheap(&self) -> bool {
        let slow = !["lab-flash", "ssd-870evo", "nvme-7300"].contains(&self.device);
        let far = |client: &Client| {
            client.kind.rw.starts_with("rand") && client.kind.engine != Engine::Buffered
        };
        slow && self.clients.iter().all(far)
    }

    /// One client of this kind alone.
    pub(super) fn alone(device: &'static str, kind: Kind) -> Load {
        Load { seed: 0, device, clients: vec![Client { kind, weight: 100, grouped: false }] }
    }

    /// What is left when a client stays away.
    pub(super) fn without(&self, place: usize) -> Load {
        let mut less = self.clone();
        less.clients.remove(place);
        less
    }

    /// As a job file.
    pub(super) fn job_file(&self, runtime_ms: u64) -> String {
        let mut text = format!(
            "[global]\ntime_based\nruntime={runtime_ms}ms\nsize=192m\nrandrepeat=0\nrwmixread=70\n"
        );
        for (place, client) in self.clients.iter().enumerate() {
            let Kind { engine, rw, block_kib, depth } = client.kind;
            let (name, direct) = match engine {
                Engine::Libaio => ("libaio", 1),
                Engine::IoUring => ("io_uring", 1),
                Engine::Psync => ("psync", 1),
                Engine::Buffered => ("psync", 0),
            };
            let _ = writeln!(text, "[c{place}]\nioengine={name}\ndirect={direct}\nrw={rw}");
            let _ = writeln!(text, "bs={block_kib}k\niodepth={depth}");
            if client.grouped {
                let _ = writeln!(text, "cgroup=g{place}\ncgroup_weight={}", client.weight);
            }
        }
        text
    }

    /// In one line.
    pub(super) fn tell(&self) -> String {
        let mut text = format!("seed {} on {}:", self.seed, self.device);
        for client in &self.clients {
            let Kind { engine, rw, block_kib, depth } = client.kind;
            let weight = if client.grouped { client.weight } else { 0 };
            let _ = write!(text, " {engine:?}/{rw}/{block_kib}k/{depth}/w{weight}");
        }
        text
    }
}

struct Draw(Chance);

impl Draw {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.0.below(of) == 0
    }

    fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[usize::try_from(self.0.below(choice.len() as u64)).unwrap_or(0)]
    }

    fn device(&mut self) -> &'static str {
        let mut left = self.0.below(DEVICES.iter().map(|(_, parts)| parts).sum());
        for (name, parts) in DEVICES {
            if left < parts {
                return name;
            }
            left -= parts;
        }
        DEVICES[0].0
    }

    fn kind(&mut self) -> Kind {
        let engine = match self.0.below(8) {
            0 => Engine::Buffered,
            1 => Engine::Psync,
            2..=4 => Engine::IoUring,
            _ => Engine::Libaio,
        };
        let deep = matches!(engine, Engine::Libaio | Engine::IoUring);
        Kind {
            engine,
            rw: self.of(&[
                "randread",
                "randread",
                "randwrite",
                "randwrite",
                "read",
                "write",
                "randrw",
            ]),
            // Small calls would mostly be answered by memory.
            block_kib: if engine == Engine::Buffered { 64 } else { self.of(&[4, 4, 16, 64, 128]) },
            depth: if deep { self.of(&[2, 4, 8, 16, 32, 64]) } else { 1 },
        }
    }
}
