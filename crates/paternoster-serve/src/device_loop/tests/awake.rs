// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls of a client that asks for one thing after the other, as counted work.

use paternoster_core::Nanos;

use crate::device_loop::busy_poll::BusyPoll;
use crate::device_loop::rig::{BLOCK, Client, READ, Rig};
use crate::tally;

/// A client asks for one block after the other, and gets an answer after each sleep of the loop.
fn one_by_one(rig: &mut Rig, one: &mut Client, requests: u32) {
    for at in 0..u64::from(requests) {
        one.send(READ, at * BLOCK, BLOCK, &[]);
        rig.device_loop.sleep(Some(Nanos(u64::MAX)));
        rig.device_loop.turn();
        assert_eq!(one.answers().len(), 1, "request {at}");
    }
}

/// Does a loop that is awake get the next request of a client of depth 1 by reading at once?
/// Without asking which sockets have data, 100 requests are 100 calls that read them. A request of
/// another client, and a message, are found by a look all the same.
#[test]
fn a_lone_client_is_read_from_at_once() {
    let mut rig = Rig::new("noop", |_| ());
    rig.device_loop.poller.busy_poll = BusyPoll::always();
    let (mut one, mut other) = (rig.connect("one"), rig.connect("other"));
    rig.settle();
    one.send(READ, 0, BLOCK, &[]);
    rig.settle();
    assert_eq!(one.answers().len(), 1);
    let looks = rig.device_loop.poller.looks();
    one_by_one(&mut rig, &mut one, 100);
    assert_eq!(rig.device_loop.poller.looks(), looks);
    other.send(READ, 0, BLOCK, &[]);
    rig.device_loop.sleep(Some(Nanos(u64::MAX)));
    rig.device_loop.turn();
    assert_eq!(other.answers().len(), 1);
    assert_eq!(rig.device_loop.poller.looks(), looks + 1);
}

/// How many system calls of the loop does a request of depth 1 take? If it sleeps three: which
/// socket has something, the request, the answer; if it is awake the last two. The file's own call
/// comes to these.
#[test]
fn a_request_of_depth_one_takes_three_calls_or_two() {
    for (busy_poll, calls) in [(BusyPoll::new(1), 3), (BusyPoll::always(), 2)] {
        let mut rig = Rig::new("bfq", |_| ());
        rig.device_loop.poller.busy_poll = busy_poll;
        let mut one = rig.connect("one");
        one.send(READ, 0, BLOCK, &[]);
        rig.settle();
        assert_eq!(one.answers().len(), 1);
        tally::take();
        one_by_one(&mut rig, &mut one, 100);
        assert_eq!(tally::take().calls, 100 * calls);
    }
}

/// Does a loop for which looking and sleeping are alike, as time stands still, sleep for all
/// requests but those of its trials? Of 1000 these are 16 after each of 3 pauses: 64 + 128 + 256,
/// and 32 that are measured with each make 544; the next trial would begin after 544 + 512 + 16.
#[test]
fn a_loop_looks_for_few_where_it_gains_nothing() {
    let mut rig = Rig::new("noop", |_| ());
    rig.device_loop.poller.busy_poll = BusyPoll::new(2);
    let mut one = rig.connect("one");
    one.send(READ, 0, BLOCK, &[]);
    rig.settle();
    assert_eq!(one.answers().len(), 1);
    let looks = rig.device_loop.poller.looks();
    one_by_one(&mut rig, &mut one, 1000);
    assert_eq!(rig.device_loop.poller.looks() - looks, 1000 - 3 * 16);
}

/// Is a client that has gone found, and forgotten?
#[test]
fn a_lone_client_may_go() {
    let mut rig = Rig::new("bfq", |_| ());
    rig.device_loop.poller.busy_poll = BusyPoll::always();
    let mut one = rig.connect("one");
    one.send(READ, 0, BLOCK, &[]);
    rig.settle();
    drop(one);
    rig.device_loop.sleep(Some(Nanos(u64::MAX)));
    rig.device_loop.turn();
    rig.settle();
    assert!(rig.device_loop.connections.is_empty());
}
