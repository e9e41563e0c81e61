// SPDX-License-Identifier: MIT OR Apache-2.0
//! What others are owed for a flush: the example of `flush_share.rs`, and who counts as the others.

use super::*;

/// Does the example in `flush_share.rs` hold? Groups A 200 and B 100; in A q1 40 and q2 80 (levels
/// 4 and 0); all have work. q1 has 2/9, so its flush of 3.4 ms is worth 3.4 * (9/2 - 1) = 11.9 to
/// the others; q2 has 4/9: 3.4 * (9/4 - 1) = 4.25; B's queue has 1/3: 3.4 * 2 = 6.8.
#[test]
fn due_of_two_ninths() {
    each(flash(1), |mut bench| {
        let [a, b] = [200, 100].map(|weight| bench.group(weight));
        let members = [(a, 4), (a, 0), (b, 4)];
        let clients =
            members.map(|(group, level)| bench.client_in(group, Class::BestEffort, level));
        for (place, &client) in (1..).zip(&clients) {
            bench.read(client, place * FAR);
        }
        let flush = Nanos::from_micros(3400);
        let due = clients.map(|client| bench.due_for(client, flush, None));
        for (due, us) in due.into_iter().zip([11_900, 4250, 6800]) {
            // The ratio has 16 fraction bits: for 3.4 ms one unit is 52 ns.
            assert!(due.0.abs_diff(us * 1000) <= 104, "{due}, not {us} us");
        }
    });
}

/// Is nothing due if there are no others; as much as the flush took, with one other of the same
/// weight that was served a moment ago; and not more than for one slot of 125 ms, however long the
/// flush?
#[test]
fn due_beside_nobody_and_one_and_for_a_long_flush() {
    each(flash(1), |mut bench| {
        bench.set("slice_idle", 0);
        let [own, other] = [1, 2].map(|place| {
            let client = bench.client();
            bench.read(client, place * FAR);
            bench.serve();
            client
        });
        bench.later(1000);
        let mut due = |ms, beside| bench.due_for(own, Nanos::from_millis(ms), beside);
        assert_eq!(due(10, None), Nanos::ZERO);
        assert_eq!(due(10, Some(other)), ms(10));
        assert_eq!(due(9000, Some(other)), ms(125));
    });
}
