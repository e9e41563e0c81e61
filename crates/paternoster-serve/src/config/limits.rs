// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits: how many of everything, and how large. Whatever grows has its line here.

use std::ops::RangeInclusive;

use paternoster_core::Nanos;

/// Bytes of a configuration file.
pub const FILE_BYTES: usize = 1 << 20;
/// Sockets that clients come to.
pub const LISTENERS: usize = 64;
/// Devices: each has a thread.
pub const DEVICES: usize = 64;
/// Volumes of all devices.
pub const VOLUMES: usize = 1024;
/// Groups of tenants.
pub const GROUPS: usize = 1000;
/// Groups within groups: each level costs every decision of the scheduler something.
pub const GROUP_LEVELS: usize = 8;
/// Tenants.
pub const TENANTS: usize = 10_000;
/// Rules: every new connection goes through them.
pub const RULES: usize = 10_000;
/// Entries of a volume's `allow`, and of its `readonly-for`.
pub const RIGHTS: usize = 64;
/// Clients of one volume at a time.
pub const CLIENTS: RangeInclusive<u32> = 1..=65_536;
/// Attributes of one device.
pub const ATTRIBUTES: usize = 64;
/// Folders from which a reload can add images.
pub const IMAGE_FOLDERS: usize = 64;
/// Users whose ionice may be realtime.
pub const REALTIME_USERS: usize = 1000;
/// Bytes of a name, a pattern or a description.
pub const TEXT_BYTES: usize = 255;
/// Bytes of a unix socket's path: what the system's address has room for (108 with the final
/// zero).
pub const SOCKET_PATH_BYTES: usize = 107;

/// Connections at a time.
pub const CONNECTIONS: RangeInclusive<u32> = 1..=65_536;
/// Processes that are told apart at a time, for each volume; 0: none.
pub const PROCESSES: RangeInclusive<u32> = 0..=65_536;
/// Commands a device is given at a time.
pub const DEPTH: RangeInclusive<u32> = 1..=4096;
/// Weights, as the kernel's cgroups have them.
pub const WEIGHT: RangeInclusive<u32> = 1..=10_000;
/// Levels within a class.
pub const LEVEL: RangeInclusive<u8> = 0..=7;
/// Bytes of a device's memory for data.
pub const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// Bytes of data under way for one connection.
pub const CONNECTION_MEMORY: RangeInclusive<u64> = 64 << 10..=1 << 32;
/// Timeouts.
pub const TIMEOUT: RangeInclusive<Nanos> = Nanos::from_millis(100)..=Nanos::from_secs(3600);
/// Bounds on the time in the queue.
pub const DELAY_BOUND: RangeInclusive<Nanos> = Nanos::from_micros(100)..=Nanos::from_secs(3600);
/// The least and the most that a floor is, in thousandths. What siblings are promised together
/// leaves a tenth to share by weight.
pub const FLOOR: RangeInclusive<u16> = 1..=900;
/// Bytes that offsets and lengths of volumes are multiples of.
pub const SECTOR: u64 = 512;
