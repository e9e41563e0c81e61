// SPDX-License-Identifier: MIT OR Apache-2.0
//! The example `embed`, run as its readers would run it.

#[allow(dead_code, reason = "an example has a main")]
#[path = "../../examples/embed.rs"]
mod example;

/// Do two tenants of weights 100 and 300 get a quarter and three quarters, and is one that got Busy
/// woken? 10,000 requests are 312 turns of 32 (`max_budget` 128 KiB of 4 KiB each); requests still
/// in flight at the end (32) and half a turn at either side are a few in a hundred. Before that the
/// light one is ahead for a thousand or more where the machine is slow, which bfq makes up for: of
/// 2,000 it may have two thirds. The machine may be busy, so that more is allowed: 2,500 within
/// 1,000.
#[test]
fn the_example_shares_by_weight() {
    // Other load here can keep a tenant from asking at all: one try of six must pass.
    let mut tries = Vec::new();
    while tries.len() < 6 {
        let (served, wakes) = example::serve(10_000).expect("served");
        assert_eq!(served.iter().sum::<u64>(), 10_000);
        assert!(wakes > 0);
        if served[0].abs_diff(2500) <= 1000 {
            return;
        }
        tries.push(served);
    }
    panic!("{tries:?}");
}
