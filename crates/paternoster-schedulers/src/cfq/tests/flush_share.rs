// SPDX-License-Identifier: MIT OR Apache-2.0
//! What others are owed for a flush: the example of `flush_share.rs`, and who counts as the others.

use super::*;

/// Does the example in `flush_share.rs` hold? Groups 1000 and 500; in the first a queue of level 0
/// (180 ms) and another busy one (100): 2/3 * 9/14, and 28 * (3/2 * 14/9 - 1) = 37.33 ms are due
/// for 28.
#[test]
fn due_of_three_sevenths() {
    each(|mut bench| {
        let root = bench.view.root();
        let [first, second] = [1000, 500].map(|weight| bench.group(root, weight));
        let own = bench.client_in(first, Class::BestEffort, 0);
        let beside = bench.client_in(first, Class::BestEffort, 4);
        let other = bench.client_in(second, Class::BestEffort, 4);
        for (place, client) in [(0, own), (1 << 24, beside), (1 << 25, other)] {
            bench.read(client, place);
        }
        let due = bench.cfq.charge(&mut bench.view, own, Nanos::from_millis(28), None);
        // The ratio has 16 fraction bits, rounded down twice: for 28 ms one unit is 427 ns.
        assert!(due.0.abs_diff(37_333_333) <= 3 * 427, "{due}");
    });
}

/// Is nothing due if there are no others; as much as the flush took, with one other of the same
/// level that was served a moment ago; and not more than for a slice of 100 ms, however long the
/// flush?
#[test]
fn due_beside_nobody_and_one_and_for_a_long_flush() {
    each(|mut bench| {
        let [own, other] = [0, 1 << 24].map(|place| {
            let client = bench.client();
            bench.read(client, place);
            client
        });
        while let Ok(id) = bench.pick() {
            bench.end(id);
        }
        bench.at(1000);
        while let Ok(id) = bench.pick() {
            bench.end(id);
        }
        bench.at(2000);
        let mut due =
            |ms, beside| bench.cfq.charge(&mut bench.view, own, Nanos::from_millis(ms), beside);
        assert_eq!(due(10, None), Nanos::ZERO);
        assert_eq!(due(10, Some(other)), Nanos::from_millis(10));
        assert_eq!(due(9000, Some(other)), Nanos::from_millis(100));
    });
}
