// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls of a client that asks for one thing after the other, as counted work.

use paternoster_core::Nanos;

use crate::device_loop::busy_poll::BusyPoll;
use crate::device_loop::rig::{BLOCK, READ, Rig};

/// Does a loop that is awake get the next request of a client of depth 1 by reading at once?
/// Without asking which sockets have data, 100 requests are 100 calls that read them. A request of
/// another client, and a message, are found by a look all the same.
#[test]
fn a_lone_client_is_read_from_at_once() {
    let mut rig = Rig::new("noop", |_| ());
    rig.device_loop.poller.busy_poll = BusyPoll::new(2);
    let (mut one, mut other) = (rig.connect("one"), rig.connect("other"));
    rig.settle();
    one.send(READ, 0, BLOCK, &[]);
    rig.settle();
    assert_eq!(one.answers().len(), 1);
    rig.device_loop.poller.busy_poll.ended(true);
    let looks = rig.device_loop.poller.looks();
    for at in 0..100 {
        one.send(READ, at * BLOCK, BLOCK, &[]);
        rig.device_loop.sleep(Some(Nanos(u64::MAX)));
        rig.device_loop.turn();
        assert_eq!(one.answers().len(), 1, "request {at}");
    }
    assert_eq!(rig.device_loop.poller.looks(), looks);
    other.send(READ, 0, BLOCK, &[]);
    rig.device_loop.sleep(Some(Nanos(u64::MAX)));
    rig.device_loop.turn();
    assert_eq!(other.answers().len(), 1);
    assert_eq!(rig.device_loop.poller.looks(), looks + 1);
}

/// Is a client that has gone found, and forgotten?
#[test]
fn a_lone_client_may_go() {
    let mut rig = Rig::new("bfq", |_| ());
    rig.device_loop.poller.busy_poll = BusyPoll::new(2);
    let mut one = rig.connect("one");
    one.send(READ, 0, BLOCK, &[]);
    rig.settle();
    drop(one);
    rig.device_loop.poller.busy_poll.ended(true);
    rig.device_loop.sleep(Some(Nanos(u64::MAX)));
    rig.device_loop.turn();
    rig.settle();
    assert!(rig.device_loop.connections.is_empty());
}
