// SPDX-License-Identifier: MIT OR Apache-2.0
//! Load: a device and the clients that share it, as a value that can be drawn, printed and shrunk.
//!
//! ```text
//! Load ──▶ job file, which `paternoster run` takes as well
//!      ──▶ one line: "seed 7 on hdd-7200: IoUring/randread/4k/8/w300 Psync/read/64k/1/w0"
//!      ──▶ the same load with one client fewer
//! ```

use std::fmt::Write;

use paternoster_sim::{Description, catalog};

/// Each client has a file of its own of this many MiB, if they fit on the device.
const FILE_MIB: u64 = 192;

/// How a client submits I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// Direct, several at a time.
    Libaio,
    /// Direct, several at a time.
    IoUring,
    /// Direct, one at a time.
    Psync,
    /// Through the page cache, one call at a time.
    Buffered,
}

/// What I/O a client submits, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// How the client submits I/O.
    pub engine: Engine,
    /// The kind of I/O, as fio's `rw`.
    pub rw: &'static str,
    /// Size of an I/O, in KiB.
    pub block_kib: u32,
    /// I/Os at a time.
    pub depth: u32,
    /// How long it sleeps after each I/O, in microseconds.
    pub think_us: u32,
    /// It submits at most this many I/Os a second, unless 0.
    pub rate: u32,
    /// It calls fsync after this many writes, unless 0.
    pub fsync: u32,
}

impl Kind {
    /// A kind that always has I/Os to submit.
    #[must_use]
    pub const fn greedy(engine: Engine, rw: &'static str, block_kib: u32, depth: u32) -> Kind {
        Kind { engine, rw, block_kib, depth, think_us: 0, rate: 0, fsync: 0 }
    }

    /// Whether it submits again as soon as an I/O has ended.
    #[must_use]
    pub const fn is_greedy(&self) -> bool {
        self.think_us == 0 && self.rate == 0 && self.fsync == 0
    }

    /// Whether some of its I/Os are reads.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.rw.contains("read") || self.rw.ends_with("rw")
    }

    /// Whether some of its I/Os are writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.rw.contains("write") || self.rw.ends_with("rw")
    }

    /// Whether its I/Os go to the device at once, each by itself.
    #[must_use]
    pub fn is_random_and_direct(&self) -> bool {
        self.engine != Engine::Buffered && self.rw.starts_with("rand")
    }
}

/// A client's priority class, as fio's `prioclass`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Class {
    /// Before all others.
    RealTime = 1,
    /// Best effort, as most clients have.
    #[default]
    BestEffort = 2,
    /// When there is time.
    Idle = 3,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The client's kind of I/O.
    pub kind: Kind,
    /// The path of its cgroup; `None` for the root.
    pub group: Option<String>,
    /// The weight of its cgroup.
    pub weight: u32,
    /// The client's class.
    pub class: Class,
    /// When it begins, in per cent of the run.
    pub begins: u32,
}

impl Client {
    /// A best-effort client that is there from the beginning.
    #[must_use]
    pub const fn new(kind: Kind, group: Option<String>, weight: u32) -> Client {
        Client { kind, group, weight, class: Class::BestEffort, begins: 0 }
    }

    /// In one word: engine, direction, size, depth and weight.
    #[must_use]
    pub fn tell(&self) -> String {
        let Kind { engine, rw, block_kib, depth, think_us, rate, fsync } = self.kind;
        let weight = if self.group.is_some() { self.weight } else { 0 };
        let mut text = format!("{engine:?}/{rw}/{block_kib}k/{depth}/w{weight}");
        for (name, value) in [("think", think_us), ("rate", rate), ("fsync", fsync)] {
            if value > 0 {
                let _ = write!(text, "/{name}{value}");
            }
        }
        if let Some(path) = self.group.as_ref().filter(|path| path.contains('/')) {
            let _ = write!(text, "/in {path}");
        }
        if self.class != Class::BestEffort {
            let _ = write!(text, "/{:?}", self.class);
        }
        if self.begins > 0 {
            let _ = write!(text, "/from {} %", self.begins);
        }
        text
    }
}

/// A device that is chosen by name, or drawn; then its file is kept, so that it can be printed.
#[derive(Debug, Clone)]
pub struct Device {
    /// The device's description.
    pub description: Description,
    /// The text of its file, if it is not in the catalog.
    pub file: Option<String>,
}

impl Device {
    /// A device of the catalog.
    ///
    /// # Panics
    /// If there is none of this name.
    #[must_use]
    pub fn named(name: &str) -> Device {
        let known = catalog::by_name(name).unwrap_or_else(|| panic!("no device `{name}`"));
        let description = known.unwrap_or_else(|error| panic!("{error}"));
        Device { description, file: None }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.description.name
    }
}

/// A device and its clients.
#[derive(Debug, Clone)]
pub struct Load {
    /// The seed it was drawn from, which its clients use as well.
    pub seed: u64,
    /// The device that they share.
    pub device: Device,
    /// The clients.
    pub clients: Vec<Client>,
}

impl Load {
    /// One client alone, from the beginning, in no group.
    #[must_use]
    pub fn alone(device: &Device, kind: Kind) -> Load {
        Load { seed: 0, device: device.clone(), clients: vec![Client::new(kind, None, 100)] }
    }

    /// Whether it is quick to simulate: a slow device, and no I/O that memory or a drive's cache
    /// answers.
    #[must_use]
    pub fn is_cheap(&self) -> bool {
        let facts = &self.device.description.facts;
        let slow = facts.rotational && facts.depth <= 64 || facts.depth == 1;
        slow && self.clients.iter().all(|client| client.kind.is_random_and_direct())
    }

    /// The load without one of its clients.
    #[must_use]
    pub fn without(&self, place: usize) -> Load {
        let mut less = self.clone();
        less.clients.remove(place);
        less
    }

    /// The load as a job file.
    #[must_use]
    pub fn job_file(&self, runtime_ms: u64) -> String {
        let each = (self.device.description.facts.capacity >> 11) / (self.clients.len() as u64 + 1);
        let mut text = format!(
            "[global]\ntime_based\nsize={}m\nrandrepeat=0\nrwmixread=70\n",
            each.min(FILE_MIB)
        );
        for (place, client) in self.clients.iter().enumerate() {
            let late_ms = runtime_ms * u64::from(client.begins) / 100;
            let Kind { engine, rw, block_kib, depth, think_us, rate, fsync } = client.kind;
            let (name, direct) = match engine {
                Engine::Libaio => ("libaio", 1),
                Engine::IoUring => ("io_uring", 1),
                Engine::Psync => ("psync", 1),
                Engine::Buffered => ("psync", 0),
            };
            let _ = writeln!(text, "[c{place}]\nruntime={}ms", runtime_ms - late_ms);
            let _ = writeln!(text, "ioengine={name}\ndirect={direct}\nrw={rw}");
            let _ = writeln!(text, "bs={block_kib}k\niodepth={depth}");
            let mut option = |name: &str, value: u64| {
                if value > 0 {
                    let _ = writeln!(text, "{name}={value}");
                }
            };
            option("thinktime", think_us.into());
            option("rate_iops", rate.into());
            option("fsync", fsync.into());
            if late_ms > 0 {
                let _ = writeln!(text, "startdelay={late_ms}ms");
            }
            if client.class != Class::BestEffort {
                let _ = writeln!(text, "prioclass={}", client.class as u32);
            }
            if let Some(group) = &client.group {
                let _ = writeln!(text, "cgroup={group}\ncgroup_weight={}", client.weight);
            }
        }
        text
    }

    /// The load in one line.
    #[must_use]
    pub fn tell(&self) -> String {
        let mut text = format!("seed {} on {}:", self.seed, self.device.name());
        for client in &self.clients {
            let _ = write!(text, " {}", client.tell());
        }
        text
    }
}
