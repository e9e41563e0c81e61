// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the others are to have for a flush: the example of `due.rs`, and who counts as the others.

use super::*;

/// Does the example of the essay hold? Groups A 200 and B 100; in A q1 40 and q2 80 (levels 4 and
/// 0); all have work. q1 has 2/9, and its flush of 3.4 ms is worth 3.4 * (9/2 - 1) = 11.9 to the
/// others; q2 has 4/9: 3.4 * (9/4 - 1) = 4.25; B's has 1/3: 3.4 * 2 = 6.8.
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
        let due = clients.map(|client| bench.bfq.due_for(&bench.view, client, flush, None));
        for (due, us) in due.into_iter().zip([11_900, 4250, 6800]) {
            // The ratio has 16 fraction bits: 3.4 ms of them are 52 ns.
            assert!(due.0.abs_diff(us * 1000) <= 104, "{due}, not {us} us");
        }
    });
}

/// Is nothing due where nobody else is; as much as the flush has taken, beside one of the same
/// weight who was served a moment ago; and not more than for one slot of 125 ms, however long?
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
        let due = |ms, beside| bench.bfq.due_for(&bench.view, own, Nanos::from_millis(ms), beside);
        assert_eq!(due(10, None), Nanos::ZERO);
        assert_eq!(due(10, Some(other)), ms(10));
        assert_eq!(due(9000, Some(other)), ms(125));
    });
}
