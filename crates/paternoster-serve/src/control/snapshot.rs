// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots: a loop's state, as numbers since its start.
//!
//! Counters only go up; for rates take the difference of two.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Snapshot {
    /// The device's name.
    pub device: String,
    /// How commands are carried out, in words.
    pub backend: String,
    /// The scheduler's name.
    pub scheduler: String,
    /// Which one has failed and how, if this one took over from it; else empty.
    #[serde(default)]
    pub scheduler_failed: String,
    /// How often a scheduler has failed.
    #[serde(default)]
    pub scheduler_failures: u64,
    /// Commands it takes at a time.
    pub depth: u32,
    /// Nanoseconds since the loop began.
    pub now_ns: u64,
    /// Nanoseconds that at least one command was in the device.
    pub busy_ns: u64,
    /// Commands in the device.
    pub in_device: u32,
    /// Requests waiting in the queue.
    pub waiting: u32,
    /// Bytes of memory for data under way, and in use.
    pub memory: u64,
    /// Bytes of the memory that are in use.
    pub memory_used: u64,
    /// A trace is being written.
    pub tracing: bool,
    /// Volumes.
    pub volumes: Vec<VolumeLine>,
    /// Groups and tenants, parents before children.
    pub tenants: Vec<TenantLine>,
    /// Connections.
    pub connections: Vec<ConnectionLine>,
    /// Departed tenants without configuration: the last ones, by name.
    pub departed: Vec<TenantLine>,
    /// Sums for the tenants that left before those, by volume. Volumes after the first 1,024 share
    /// one sum without a name.
    pub earlier: Vec<EarlierLine>,
    /// The server stops.
    pub stopping: bool,
    /// A flush failed: data that were acknowledged may be lost.
    pub lost: bool,
    /// Commands that the device failed, by errno of Linux.
    pub errors: BTreeMap<i32, u64>,
    /// The last one.
    pub last_error: Option<LastError>,
    /// How long the oldest command is in the device, ns; 0: none is.
    pub oldest_command_ns: u64,
}

/// The last command that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct LastError {
    /// Nanoseconds ago.
    pub ago_ns: u64,
    /// What has failed and why, in words.
    pub what: String,
}

/// Tenants that have gone, all that used one volume last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct EarlierLine {
    /// The volume.
    pub volume: String,
    /// Number of tenants in this sum.
    pub tenants: u64,
    /// The sum of their figures.
    pub figures: Figures,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct VolumeLine {
    /// The volume's name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Writes are refused.
    pub readonly: bool,
    /// Takes no requests now.
    pub drained: bool,
}

/// A tenant or a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct TenantLine {
    /// Name of the tenant or group.
    pub name: String,
    /// The group above; empty for the root.
    pub parent: String,
    /// Whether it is a group of tenants.
    pub is_group: bool,
    /// The weight, as configured or ordered.
    pub weight: u32,
    /// The effective weight, which the elevator uses: floors and background tenants are in it.
    pub effective_weight: u32,
    /// `best-effort`, `realtime`, `idle`, `background`.
    pub class: String,
    /// 0 to 7.
    pub level: u8,
    /// Present connections.
    pub connections: u32,
    /// Figures of all its connections, including those that have gone.
    pub figures: Figures,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ConnectionLine {
    /// Numbers connections since the start.
    pub id: u64,
    /// Name of its tenant.
    pub tenant: String,
    /// Name of its volume.
    pub volume: String,
    /// The peer, in words: `unix uid 1000 pid 4711`, `10.0.0.3:4000`.
    pub peer: String,
    /// Requests taken and not answered.
    pub under_way: u32,
    /// Figures.
    pub figures: Figures,
}

/// What a client or a tenant has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Figures {
    /// Reads answered.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes, zeroes and trims answered.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Flushes answered.
    pub flushes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Device time, ns.
    pub served_ns: u64,
    /// From arrival to answer, ns, of all requests together.
    pub latency_ns: u64,
    /// Requests by latency: bucket i holds those below 2^i microseconds, the last all others.
    pub latency_log2_us: Vec<u64>,
}

impl Figures {
    /// Adds what another client or tenant got.
    pub fn add(&mut self, other: &Figures) {
        let Figures {
            reads,
            read_bytes,
            writes,
            write_bytes,
            flushes,
            errors,
            served_ns,
            latency_ns,
            latency_log2_us,
        } = other;
        self.reads += reads;
        self.read_bytes += read_bytes;
        self.writes += writes;
        self.write_bytes += write_bytes;
        self.flushes += flushes;
        self.errors += errors;
        self.served_ns += served_ns;
        self.latency_ns += latency_ns;
        let buckets = self.latency_log2_us.len().max(latency_log2_us.len());
        self.latency_log2_us.resize(buckets, 0);
        for (sum, more) in self.latency_log2_us.iter_mut().zip(latency_log2_us) {
            *sum += more;
        }
    }
}
