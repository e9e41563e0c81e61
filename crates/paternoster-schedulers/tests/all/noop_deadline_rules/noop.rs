// SPDX-License-Identifier: MIT OR Apache-2.0
//! noop, and none: NOOP-1, NOOP-2.

use super::*;

// -------------------------------------------------------------------------------------------- noop

/// With depth 1 and requests 30, 10, 20, is the order 30, 10, 20? Each leaves before the next
/// enters the sorted list.
#[test]
fn noop_1_first_come_first_served() {
    let (mut rig, client) = rig("noop");
    for sector in [30, 10, 20] {
        rig.read(client, sector, 2);
    }
    assert_eq!(rig.served(), [30, 10, 20]);
}

/// Does `none` behave as blk-mq without a scheduler: on a device of depth 1 one request is
/// allocated, the next client sleeps, and gets a request when the first has ended? Under noop both
/// get one.
#[test]
fn none_has_no_requests_but_the_tags() {
    for (name, expected) in [("noop", None), ("none", Some(SubmitError::Busy))] {
        let (mut rig, first) = rig(name);
        let second = rig.client();
        let read = |client| Bio::new(client, Op::Read, 8, 2);
        rig.queue.submit(rig.now, read(first)).expect("the first");
        assert_eq!(rig.queue.submit(rig.now, read(second)).err(), expected, "{name}");
        assert_eq!(rig.queue.elevator_name(), name);
    }
}

/// After a forced drain, is the dispatch list sorted one way from the boundary? From 0: 10 20 30;
/// from 15: 20 30 10.
#[test]
fn noop_2_a_forced_drain_is_sorted() {
    for (boundary, order) in [(0, [10, 20, 30]), (15, [20, 30, 10])] {
        let (mut rig, client) = rig("noop");
        if boundary != 0 {
            rig.read(client, boundary - 2, 2);
            rig.serve();
        }
        for sector in [30, 10, 20] {
            rig.read(client, sector, 2);
        }
        assert_eq!(rig.queue.dispatch_all(rig.now), 3);
        assert_eq!(rig.served(), order, "boundary {boundary}");
    }
}

/// Are its neighbours those of the list, so that a gap closes only between neighbours? 0, 16, then
/// 8 after 0: the list is [0, 16), [16, 24): one command. With 100 between them in the list: three.
#[test]
fn noop_neighbours_are_those_of_the_list() {
    for (sectors, expected) in [(&[0, 16, 8][..], 1), (&[0, 100, 16, 8], 3)] {
        let (mut rig, client) = rig("noop");
        for &sector in sectors {
            rig.read(client, sector, 8);
        }
        assert_eq!(rig.serve().len(), expected, "{sectors:?}");
    }
}
