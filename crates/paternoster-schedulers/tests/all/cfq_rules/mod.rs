// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of CFQ, one by one, as a caller of the queue sees them.
//!
//! Each test is named after its rule in `docs/rules/cfq.md` (CFQ-1 to CFQ-54), opens with the
//! question it answers, and holds for the presets `cfq` (2.6.34), `cfq-3.6` and `cfq-4.19` unless
//! it says what differs. Where our recordings of a running 4.19 decide, the rule that they led to
//! is named.
//!
//! What cannot be seen from here is tested inside the crate, or in `paternoster-core` (`core/`):
//!
//! ```text
//! 2             src/client.rs (core)             nice
//! 4 5 7 8 19    src/cfq/tests/order.rs           trees, keys, residuals, workloads
//! 6 14 15 16    src/cfq/tests/lengths.rs         slices, averages (6, 14 here as well)
//! 9 10 11       pick/back_seek.rs (core)         which request is nearer
//! 28 29 38      src/cfq/tests/windows.rs         which are idled for (29 here as well)
//! 35            observe/queue_depth.rs (core)    the device's depth (here as well)
//! 36 37         observe/seek.rs (core)           which are seeky
//! 42 43 48 54   src/cfq/tests/sharing.rs         merges, splits, references
//! 46 47         src/cfq/tests/groups.rs          charges, homes (here as well)
//! 49 50 51      src/cfq/bandwidth.rs             when far queues are merged and split
//! ```
//!
//! Two rules need the models of an array and of a disk:
//!
//! * CFQ-52 has no test of its name: it compares bandwidths that seed 001 published, and
//!   `paternoster reproduce` judges them.
//! * CFQ-53 is in `paternoster-sim/tests/judges/cfq_climb.rs`.
//!
//! Parts of rules that cannot hold here:
//!
//! * CFQ-2, the class by the CPU's policy (SCHED_FIFO is real time): a caller that attaches a
//!   client states its class. Nor does a client hold a file system's lock here, for which it would
//!   be raised.
//! * CFQ-31 is as its last sentence says: `next` is always called, so that a page goes at once.
//! * CFQ-32 in 2.6.34 is true of the slice only: the async workload goes on with what it has left.
//! * CFQ-35, the depth that the SCSI layer adds by looking one request ahead: nothing here
//!   starts a request that the device has not taken.
//! * CFQ-54, the queue for when memory runs out: there is room for every queue from the start.

mod cooperation;
mod detection;
mod dispatch;
mod groups;
mod idling;
mod preemption;
mod requests;
mod slices;
mod tunables;

use paternoster_core::{ClientId, Note, Preemption};

use crate::common::driver::{Rig, disk};

/// All presets.
const PRESETS: [&str; 3] = ["cfq", "cfq-3.6", "cfq-4.19"];
/// Presets with the changes of 2.6.37 and 2.6.38.
const LATER: [&str; 2] = ["cfq-3.6", "cfq-4.19"];
/// Two readers this far apart are not close to each other.
const FAR: u64 = 1 << 24;

/// The same test under each preset, with a disk that takes `depth` commands.
fn each(depth: u32, test: impl Fn(&str, Rig)) {
    for preset in PRESETS {
        test(preset, Rig::new(disk(depth), preset));
    }
}

/// The clients for which the device idled on purpose, in order.
fn idled_for(rig: &Rig) -> Vec<ClientId> {
    let notes = rig.queue.observer().notes.iter();
    notes
        .filter_map(|note| match *note {
            Note::Idling { client, .. } => Some(client),
            _ => None,
        })
        .collect()
}

/// By which rules slices ended early, in order.
fn preemptions(rig: &Rig) -> Vec<Preemption> {
    let notes = rig.queue.observer().notes.iter();
    notes
        .filter_map(|note| match *note {
            Note::Preempted { rule, .. } => Some(rule),
            _ => None,
        })
        .collect()
}

/// The clients whose slices ended, in order.
fn ended(rig: &Rig) -> Vec<ClientId> {
    let notes = rig.queue.observer().notes.iter();
    notes
        .filter_map(|note| match *note {
            Note::SliceEnds { client, .. } => Some(client),
            _ => None,
        })
        .collect()
}

/// A client with so many seeks that its queue is served in turns with others like it. Afterwards
/// the device is empty.
fn seeky_client(rig: &mut Rig, place: u64) -> ClientId {
    let client = rig.client();
    for jump in 0..7 {
        rig.read(client, place * FAR + jump * 100_000, 8);
        rig.serve();
    }
    pass_idling(rig);
    client
}

/// Lets the device's idle time pass, with nothing waiting.
fn pass_idling(rig: &mut Rig) {
    while let Some(until) = rig.until {
        rig.now = until;
        rig.pull();
    }
}
