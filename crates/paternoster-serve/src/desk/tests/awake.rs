// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls of a client that asks for one thing after the other, as counted work.

use paternoster_core::Nanos;

use crate::desk::rig::{BLOCK, READ, Rig};
use crate::desk::vigil::Vigil;

/// Is a client of depth 1, beside a desk that is awake, asked for its next request by reading it?
/// Without a look at which sockets have something: 100 requests are 100 calls that read them. A
/// request of another client, and a letter, are found by a look all the same.
#[test]
fn a_lone_client_is_read_from_at_once() {
    let mut rig = Rig::new("noop", |_| ());
    rig.desk.vigil = Vigil::new(2);
    let (mut one, mut other) = (rig.connect("one"), rig.connect("other"));
    rig.settle();
    one.send(READ, 0, BLOCK, &[]);
    rig.settle();
    assert_eq!(one.answers().len(), 1);
    rig.desk.vigil.ended(true);
    let looks = rig.desk.looks;
    for at in 0..100 {
        one.send(READ, at * BLOCK, BLOCK, &[]);
        rig.desk.sleep(Some(Nanos(u64::MAX)));
        rig.desk.turn();
        assert_eq!(one.answers().len(), 1, "request {at}");
    }
    assert_eq!(rig.desk.looks, looks);
    other.send(READ, 0, BLOCK, &[]);
    rig.desk.sleep(Some(Nanos(u64::MAX)));
    rig.desk.turn();
    assert_eq!(other.answers().len(), 1);
    assert_eq!(rig.desk.looks, looks + 1);
}

/// Is a client that has gone found, and forgotten?
#[test]
fn a_lone_client_may_go() {
    let mut rig = Rig::new("bfq", |_| ());
    rig.desk.vigil = Vigil::new(2);
    let mut one = rig.connect("one");
    one.send(READ, 0, BLOCK, &[]);
    rig.settle();
    drop(one);
    rig.desk.vigil.ended(true);
    rig.desk.sleep(Some(Nanos(u64::MAX)));
    rig.desk.turn();
    rig.settle();
    assert!(rig.desk.guests.is_empty());
}
