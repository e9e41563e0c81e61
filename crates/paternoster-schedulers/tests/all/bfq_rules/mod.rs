// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of BFQ, as a caller of the queue sees them: attributes, groups, refusals, and the
//! scenarios (BFQ-S1 to BFQ-S18) that need no model of a device.
//!
//! Each test is named after its rule (`bfq_180_…`) or scenario (`bfq_scenario_6_…`), opens with the
//! question it answers, and holds for the presets `bfq` (6.18) and `bfq-4.19` unless it says what
//! differs. Most rules are tested inside the library, where there is a list of all of them:
//! `src/bfq/tests/rules.rs`. Shares and rates on models of devices are in
//! `paternoster/tests/judges/bfq_shares.rs`.

mod journal;
mod requests;
mod scenarios;
mod shares;
mod tunables;

use paternoster_core::{ClientId, DeviceFacts, Nanos, Note};

use crate::common::driver::Rig;

const PRESETS: [&str; 2] = ["bfq-4.19", "bfq"];
/// Two readers this far apart are not close to each other.
const FAR: u64 = 1 << 24;

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn flash(depth: u32) -> DeviceFacts {
    DeviceFacts { depth, rotational: false, ..DeviceFacts::default() }
}

/// A queue that has more requests than twice what the device takes.
fn rig(facts: DeviceFacts, preset: &str) -> Rig {
    let mut rig = Rig::new(facts, preset);
    rig.set("nr_requests", "128");
    rig
}

/// The same test under each preset.
fn each(facts: DeviceFacts, test: impl Fn(&str, Rig)) {
    for preset in PRESETS {
        test(preset, rig(facts, preset));
    }
}

/// How often the device idled on purpose.
fn idled(rig: &Rig) -> usize {
    let notes = rig.queue.observer().notes.iter();
    notes.filter(|note| matches!(note, Note::Idling { .. })).count()
}

/// By how much a client was raised last, if at all.
fn raised(rig: &Rig, whose: ClientId) -> u32 {
    let notes = rig.queue.observer().notes.iter().rev();
    let of = |note: &Note| match *note {
        Note::WeightRaised { client, coefficient } if client == whose => Some(coefficient),
        _ => None,
    };
    notes.filter_map(of).next().unwrap_or(1)
}
