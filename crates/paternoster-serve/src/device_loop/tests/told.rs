// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports about waiting requests.

use std::sync::atomic::Ordering;

use paternoster_core::Nanos;

use crate::device_loop::rig::{READ, Rig};

/// Does `explain` name the clients that have the device by tenant and connection, never by a number
/// of the queue; and does it say how long a request has waited, to a fraction of a millisecond? One
/// has 40 reads, of which the device takes 32; the other's comes 0.5 ms later.
#[test]
fn an_explanation_names_tenants() {
    let mut rig = Rig::new("bfq", |_| ());
    let (mut one, mut other) = (rig.connect("one"), rig.connect("other"));
    rig.holds.store(true, Ordering::SeqCst);
    for at in 0..40 {
        one.send(READ, at << 24, 4096, &[]);
    }
    rig.settle();
    other.send(READ, 1 << 30, 4096, &[]);
    rig.turn(Nanos::from_micros(500));
    rig.settle();
    rig.turn(Nanos::from_micros(250));
    let told = rig.device_loop.explain(Some("other")).expect("it is known");
    let waits = &told["waiting"][0];
    assert_eq!(waits["for_ms"], 0.25, "{waits}");
    let why = waits["why"].as_str().expect("words");
    assert!(why.contains("one#1") && !why.contains("client"), "{why}");
}
