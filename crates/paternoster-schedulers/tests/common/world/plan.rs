// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plan: the randomly drawn world before the first step: a device, capacities, an elevator.
//!
//! Everything is small, so that it fills: a device of 4096 sectors, at most 64 requests and six
//! clients. Queues go wrong at their limits, and a small plan can be read when it fails. Every
//! elevator of the library has its turn, a fixture under both rules of requests, and one with only
//! the required methods of the trait, because a caller's own may be like that.
//!
//! # Invariants
//! I1  A plan that is drawn can be built: refusals are not tested here.
//! I2  A plan is a value: with the steps it is the whole of a run.

use paternoster_core::elevator::Rules;
use paternoster_core::planted::Bug;
use paternoster_core::{DeviceFacts, Elevator, Limits};
use proptest::prelude::*;

use crate::common::bare::Bare;
use crate::common::slices::Slices;

/// Sectors of the device: few, so that bios meet.
pub(super) const CAPACITY: u64 = 4096;

/// How many elevators there are to choose from: the library's, the fixture under both rules, and
/// one with only the required methods of the trait.
pub(crate) fn choices() -> usize {
    paternoster_schedulers::ALL.len() + 3
}

/// One of the elevators.
pub(crate) fn make(choice: usize) -> Box<dyn Elevator> {
    let choice = choice % choices();
    match paternoster_schedulers::ALL.get(choice) {
        Some(entry) => (entry.make)(),
        None => match choice - paternoster_schedulers::ALL.len() {
            0 => Box::new(Slices::new()),
            1 => Box::new(Slices::with_rules(Rules::Mq)),
            _ => Box::new(Bare::default()),
        },
    }
}

/// The world before the first step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) elevator: usize,
    /// The elevator stays: steps that would change it do nothing.
    pub(crate) faithful: bool,
    pub(crate) facts: DeviceFacts,
    pub(crate) limits: Limits,
    /// Clients from the start.
    pub(crate) people: u32,
    /// Whether a woken client tries again at once, or when its next turn comes.
    pub(crate) eager: bool,
    /// A bug to be planted, and after how many opportunities it strikes.
    pub(crate) bug: Option<(Bug, u32)>,
    /// Whether the audit runs. Without it only what a caller can see is left.
    pub(crate) audits: bool,
}

/// Random worlds.
pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    let device = (any::<u8>(), 1u32..=32, 0usize..4, 0usize..3);
    let limits = (12u32..=64, 16u32..=64, 1u32..=6, 1u32..=4, 0u32..=4);
    (0..choices(), device, limits, any::<bool>()).prop_map(
        |(elevator, (bits, depth, largest, segments), limits, eager)| {
            let (requests, bios, clients, groups, notes) = limits;
            let facts = DeviceFacts {
                capacity: CAPACITY,
                // Shallow devices are the ones that fill.
                depth: if bits & 16 == 0 { 1 + depth % 4 } else { depth },
                rotational: bits & 1 != 0,
                write_cache: bits & 2 != 0,
                fua: bits & 4 != 0,
                flush_queueable: bits & 8 != 0,
                max_sectors: [2560, 16, 24, 64][largest],
                max_segments: [128, 2, 5][segments],
            };
            let limits = Limits { requests, bios, clients, groups, notes };
            Plan {
                elevator,
                faithful: false,
                facts,
                limits,
                people: clients,
                eager,
                bug: None,
                audits: true,
            }
        },
    )
}
