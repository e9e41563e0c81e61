// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workload: what random clients do to a small disk, in a form that shrinks.
//!
//! A [`Plan`] is the world before the first step, [`Step`]s are what happens in it. Numbers choose
//! among what exists, so that any steps make sense in any world, and so does any part of them.

use paternoster_core::{DeviceFacts, Flags, Op};
use paternoster_sim::power::Flaw;
use proptest::prelude::*;

/// Sectors of the disk: few, so that writes meet.
pub(crate) const SECTORS: u64 = 128;

/// Planted faults between queue and disk, to check that the test sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sabotage {
    /// Flushes are answered without the disk, like an elision that elides too much.
    ElidesFlushes,
    /// Every eighth completion never reaches the queue.
    LosesEnds,
}

/// The world before the first step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Determines the disk's random choices, what each cut leaves, and the first attributes.
    pub(crate) seed: u64,
    /// The place of the elevator in the list of all.
    pub(crate) elevator: u8,
    pub(crate) clients: u8,
    pub(crate) depth: u32,
    pub(crate) write_cache: bool,
    pub(crate) fua: bool,
    pub(crate) flush_queueable: bool,
    pub(crate) rotational: bool,
    pub(crate) max_sectors: u32,
    /// Few requests: clients sleep now and then.
    pub(crate) narrow: bool,
    /// One command in this many fails; 0: none fails.
    pub(crate) error_every: u64,
    /// One command in this many is refused.
    pub(crate) refuse_every: u64,
}

impl Plan {
    /// noop, one client, a disk with a cache that keeps its promises and never fails.
    pub(crate) fn plain() -> Plan {
        Plan {
            seed: 0,
            elevator: 0,
            clients: 1,
            depth: 4,
            write_cache: true,
            fua: false,
            flush_queueable: true,
            rotational: false,
            max_sectors: 64,
            narrow: false,
            error_every: 0,
            refuse_every: 0,
        }
    }

    pub(crate) fn facts(&self) -> DeviceFacts {
        DeviceFacts {
            capacity: SECTORS,
            depth: self.depth,
            rotational: self.rotational,
            write_cache: self.write_cache,
            fua: self.fua,
            flush_queueable: self.flush_queueable,
            max_sectors: self.max_sectors,
            ..DeviceFacts::default()
        }
    }
}

/// The faults that a run has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ills {
    pub(crate) flaw: Option<Flaw>,
    pub(crate) sabotage: Option<Sabotage>,
}

/// The kind of a bio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Write,
    SyncWrite,
    /// A write, and when that is acknowledged an empty flush: fsync.
    Synced,
    Fua,
    Preflush,
    PreflushFua,
    Flush,
    Read,
    Alone,
}

impl What {
    pub(crate) fn op(self) -> (Op, Flags) {
        match self {
            What::Write | What::Synced => (Op::Write, Flags::NONE),
            What::SyncWrite => (Op::Write, Flags::SYNC),
            What::Fua => (Op::Write, Flags::FUA),
            What::Preflush => (Op::Write, Flags::PREFLUSH),
            What::PreflushFua => (Op::Write, Flags::PREFLUSH | Flags::FUA),
            What::Flush => (Op::Flush, Flags::NONE),
            What::Read => (Op::Read, Flags::NONE),
            What::Alone => (Op::Write, Flags::NOMERGE | Flags::SYNC),
        }
    }
}

/// The place of a bio.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    At(u8),
    /// Just after the client's last, to be merged with it.
    Behind,
    /// Where the client wrote last, again.
    Again,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Submit {
        who: u8,
        what: What,
        place: Place,
        sectors: u8,
    },
    /// Adjacent writes of 4 KiB.
    Burst {
        who: u8,
        at: u8,
        count: u8,
    },
    /// This many microseconds pass.
    Pass(u16),
    Plug(u8),
    Unplug(u8),
    Cancel(u8),
    Set {
        attribute: u8,
        value: u8,
    },
    Elevator(u8),
}

fn whats() -> impl Strategy<Value = What> {
    prop_oneof![
        8 => Just(What::Write),
        2 => Just(What::SyncWrite),
        4 => Just(What::Synced),
        2 => Just(What::Fua),
        2 => Just(What::Preflush),
        2 => Just(What::PreflushFua),
        2 => Just(What::Flush),
        2 => Just(What::Read),
        1 => Just(What::Alone),
    ]
}

fn places() -> impl Strategy<Value = Place> {
    prop_oneof![
        5 => (0u8..128).prop_map(Place::At),
        2 => Just(Place::Behind),
        3 => Just(Place::Again),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0u8..4, whats(), places(), 1u8..=16)
            .prop_map(|(who, what, place, sectors)| Step::Submit { who, what, place, sectors }),
        4 => (0u8..4, 0u8..128, 2u8..6).prop_map(|(who, at, count)| Step::Burst { who, at, count }),
        30 => (0u16..1500).prop_map(Step::Pass),
        3 => (0u8..4).prop_map(Step::Plug),
        5 => (0u8..4).prop_map(Step::Unplug),
        2 => any::<u8>().prop_map(Step::Cancel),
        4 => (any::<u8>(), any::<u8>())
            .prop_map(|(attribute, value)| Step::Set { attribute, value }),
        1 => any::<u8>().prop_map(Step::Elevator),
    ]
}

/// Random steps, at most `most`.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..=most)
}

/// Random worlds. Most disks have a cache, since without one there is little to lose.
pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    let disk = (1u32..=32, 0u8..5, any::<[bool; 2]>(), 0usize..3);
    let rest = (any::<u8>(), 1u8..=4, any::<bool>(), 0usize..4);
    (any::<u64>(), disk, rest).prop_map(|(seed, disk, rest)| {
        let (depth, caps, [flush_queueable, rotational], largest) = disk;
        let (elevator, clients, narrow, errors) = rest;
        Plan {
            seed,
            elevator,
            clients,
            // Shallow disks are the common ones, and shrink.
            depth: if depth % 4 == 0 { depth } else { 1 + depth % 8 },
            write_cache: caps < 4,
            fua: caps % 2 == 1,
            flush_queueable,
            rotational,
            max_sectors: [64, 16, 24][largest],
            narrow,
            error_every: [0, 25][errors % 2],
            refuse_every: [0, 40][errors / 2],
        }
    })
}
