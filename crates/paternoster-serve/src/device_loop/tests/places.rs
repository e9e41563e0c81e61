// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places for requests and their fragments: what a flood of requests leaves to others.

use std::sync::atomic::Ordering;

use crate::config::Tenant;
use crate::device_loop::io_fragment::Step;
use crate::device_loop::rig::{Client, READ, Rig};

/// While the device does nothing, do 30 connections of one tenant that ask for 300 blocks each
/// leave places to another tenant of the same weight, in the loop and in the queue? A loop of a
/// test build has 256 for fragments, as many as its queue has requests: 9,000 would take all of
/// them.
#[test]
fn a_flood_of_requests_leaves_places_to_others() {
    let mut rig = Rig::new("bfq", |config| {
        let tenant = |name, weight| Tenant { weight, ..Tenant::new(name) };
        config.tenants = vec![tenant("flood", 100), tenant("victim", 100)];
    });
    rig.holds.store(true, Ordering::SeqCst);
    let mut floods: Vec<Client> = (0..30).map(|_| rig.connect("flood")).collect();
    for at in 0..300 {
        for (number, flood) in (0..).zip(&mut floods) {
            flood.send(READ, at << 24 | number << 16, 4096, &[]);
        }
        if at % 50 == 49 {
            rig.settle();
        }
    }
    let flooded = rig.device_loop.requests.fragments().len() as usize;
    let mut victim = rig.connect("victim");
    for at in 0..8 {
        victim.send(READ, at << 29, 4096, &[]);
    }
    rig.settle();
    let with_queue = rig
        .device_loop
        .requests
        .fragments()
        .iter()
        .filter(|(_, fragment)| fragment.step == Step::Queued)
        .count();
    assert_eq!(with_queue, flooded + 8, "the queue has the victim's reads");
    rig.holds.store(false, Ordering::SeqCst);
    let (mut done, mut of_flood) = (0, 0);
    for _ in 0..1000 {
        rig.turn(paternoster_core::Nanos::from_millis(10));
        rig.settle();
        done += victim.answers().len();
        of_flood += floods.iter_mut().map(|flood| flood.answers().len()).sum::<usize>();
    }
    assert_eq!((done, of_flood), (8, 30 * 300), "and all are answered at last");
    assert_eq!(rig.device_loop.shared.lent(), [0; 3]);
}
