// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings: the sizes of a gate, the request queue made from them, and the sectors in it of the
//! I/Os that permits are for.
//!
//! ```text
//! with an offset     its sector
//! without            0, 1, 2 ... times 2^20 sectors: far from all others, in order of the asks
//! ```

use alloc::boxed::Box;

use paternoster_core::{DeviceFacts, Limits, Nanos, RequestQueue};
use paternoster_schedulers::Paternoster;

/// Sectors of the space in which I/Os lie: 2^54 bytes.
const CAPACITY: u64 = 1 << 45;
/// The largest I/O in the queue, in sectors: 1 GiB. Larger ones are charged alike, since the charge
/// is time.
const SECTORS_MOST: u32 = 1 << 21;
/// The distance between I/Os without an offset, in sectors: far from all others, and in order of
/// the asks.
const STRIDE: u64 = 1 << 20;
/// Each has a client in the queue, and perhaps a group below the root.
const CLASSES_MOST: u32 = Limits::MOST.groups - 1;

/// The sizes of a gate's tables, which never grow, and its one policy. Nothing here describes the
/// device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// An upper bound for permits that may be out at a time: 256 by default. More than the device
    /// can use at once are useless but harmless.
    pub permits: u32,
    /// Asks that may wait or hold a permit: 4,096 by default, at most 10,240.
    pub asks: u32,
    /// Classes: 255 by default, at most 2^24 - 1.
    pub classes: u32,
    /// A permit that is not given back within this time expires: 30 s by default.
    pub expires_after: Nanos,
    /// Whether seeks cost time, if known: as a disk's `queue/rotational` says. Only if they do, a
    /// class without streams can be served by place.
    pub rotational: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let expires_after = Nanos::from_secs(30);
        Settings { permits: 256, asks: 4096, classes: 255, expires_after, rotational: false }
    }
}

impl Settings {
    /// Asks that may wait or hold a permit.
    pub(super) fn places(&self) -> u32 {
        self.asks.clamp(16, 10_240)
    }

    /// Permits that may be out.
    pub(super) fn depth(&self) -> u32 {
        self.permits.clamp(1, self.places())
    }

    /// The queue, which gives out `used` commands at a time until that is changed.
    pub(super) fn queue(&self, used: u32) -> RequestQueue {
        let (asks, classes) = (self.places(), self.classes.clamp(1, CLASSES_MOST));
        let facts = DeviceFacts {
            capacity: CAPACITY,
            depth: self.depth(),
            rotational: self.rotational,
            max_sectors: SECTORS_MOST,
            ..DeviceFacts::default()
        };
        let limits = Limits {
            requests: asks,
            bios: asks,
            // Each may have a second client, for its floor.
            clients: classes.saturating_mul(2),
            groups: classes.saturating_add(1),
            notes: 0,
        };
        let mut queue = RequestQueue::builder(facts, Box::new(Paternoster::new()))
            .limits(limits)
            .build()
            .expect("they are between the least and the most that work");
        // One permit, one request; and a class may take all places.
        for (name, value) in [
            ("nomerges", 2),
            ("nr_requests", asks),
            ("tag_shares", 0),
            ("bulk_kept", 98),
            ("depth_max", used),
        ] {
            let set = queue.set_value(Nanos::ZERO, name, value);
            debug_assert!(set.is_ok(), "{set:?}");
        }
        queue
    }
}

/// The size in sectors for the queue.
pub(super) fn sectors(len: u64) -> u32 {
    u32::try_from(len.div_ceil(512)).unwrap_or(u32::MAX).clamp(1, SECTORS_MOST)
}

/// The sector of an I/O. An ask without an offset comes after all others.
pub(super) fn place(offset: Option<u64>, len: u64, number: u64) -> u64 {
    let last = CAPACITY - u64::from(sectors(len));
    let next = number.wrapping_mul(STRIDE) % CAPACITY;
    offset.map_or(next, |offset| offset / 512).min(last)
}
