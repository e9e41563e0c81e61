// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule C5: learned costs of request kinds, compared with a device whose costs are known.

use super::*;

/// Reads and writes of 4 KiB, and reads of 128 KiB.
const KIND: [usize; 3] = [3, SIZES + 3, 8];

/// Costs of an SSD.
fn charged() -> Costs {
    let mut costs = Costs::new(64, false);
    costs.switch(true, true);
    costs
}

/// A full device whose requests of each of [`KIND`] take `cost` ns a sector, with as many clients
/// with equal accounts. In each epoch each client is charged the same; a client that is `fixed`
/// does the same work whatever the charge. The time that passes varies by `noise` in 1000.
fn go_on(costs: &mut Costs, cost: [u64; 3], fixed: bool, noise: u64, epochs: u64) {
    for epoch in 0..epochs {
        let charged = KIND.map(|kind| if fixed { 1 << 24 } else { costs.charged[kind] });
        // Enough sectors that nothing is lost to rounding.
        let sectors = charged.map(|charged| (1 << 44) / charged);
        let time: u64 = sectors.iter().zip(cost).map(|(sectors, cost)| sectors * cost).sum();
        let time = time * (1000 + noise * (epoch * 7 % 3) - noise) / 1000;
        for (kind, sectors) in KIND.into_iter().zip(sectors) {
            costs.sectors[kind] = sectors;
        }
        (costs.ended, costs.latency, costs.least) = (100, 1000, 100);
        let now = costs.began + Nanos(time);
        costs.end_epoch(now);
    }
}

/// The cost of a request of one of [`KIND`], in percent of a read of 4 KiB.
fn percent(costs: &Costs, place: usize) -> u64 {
    let of = |kind: usize| costs.known[kind] << (kind % SIZES);
    of(KIND[place]) * 100 / of(KIND[0])
}

/// Are costs found that are far from the guess, which is that of a read, and 16.5 times that? A
/// read of 4 KiB takes 1,600 ns, a write 12,800 ns, 128 KiB 12,800 ns. Also, within 15 %, if each
/// epoch lasts up to 3 % more or less than the work in it?
#[test]
fn c5_costs_are_found_out() {
    for (noise, off) in [(0, 40), (30, 120)] {
        let mut costs = charged();
        go_on(&mut costs, [200, 1600, 50], false, noise, 120);
        for place in [1, 2] {
            let found = percent(&costs, place);
            assert!(found.abs_diff(800) <= off, "{place}: {found} % with noise of {noise}");
        }
        // What was charged is the time that passed.
        let read = costs.known[KIND[0]] >> POINT;
        assert!(read.abs_diff(200) <= 200 * off / 800, "{read}");
    }
}

/// Do costs keep their proportions if clients do the same whatever they are charged? Then their
/// work proves nothing.
#[test]
fn c5_nothing_is_learned_of_what_does_not_give_way() {
    let mut costs = charged();
    go_on(&mut costs, [200, 1600, 50], true, 0, 120);
    let found = [percent(&costs, 1), percent(&costs, 2)];
    // Rounded down.
    assert!(found == [100, 1650] || found == [100, 1649], "{found:?}");
}

/// Do trials become rare once costs are known? Then 16 epochs of each eight are counted between two
/// trials of four: of 4,000 that are counted 4 * 200 are of trials, and of the time 4 of 132 parts.
#[test]
fn c5_trials_become_rare() {
    let mut costs = charged();
    go_on(&mut costs, [200, 1600, 50], false, 0, 400);
    let before = costs.trials;
    go_on(&mut costs, [200, 1600, 50], false, 0, 4000);
    assert!(costs.trials - before <= 210, "{}", costs.trials - before);
}

/// Is device time charged, and nothing counted, before `prices` is 1, on a device that rotates or
/// takes one command, and once `prices` is 0 again?
#[test]
fn c5_is_off_where_it_does_not_fit() {
    let is_off = |costs: &Costs| !costs.is_full && costs.began == Nanos::MAX;
    assert!(is_off(&Costs::new(64, false)));
    for (depth, rotational) in [(32, true), (1, false)] {
        let mut costs = Costs::new(depth, rotational);
        costs.switch(true, true);
        assert!(is_off(&costs));
    }
    let mut costs = charged();
    go_on(&mut costs, [200, 1600, 50], false, 0, 2);
    assert!(costs.is_full);
    costs.switch(false, true);
    assert!(is_off(&costs));
}

/// Are costs learned only where requests take at most 12.5 ms, 8 times which is an epoch of 100 ms,
/// and in epochs without a flush? Told costs are charged in any case.
#[test]
fn c5_a_device_that_is_slow_or_flushes_is_charged_its_time() {
    for (latency, flushes, is_full) in
        [(12_500_000, false, true), (12_500_000, true, false), (12_500_001, false, false)]
    {
        for learns in [true, false] {
            let mut costs = Costs::new(64, false);
            costs.switch(true, learns);
            (costs.ended, costs.latency, costs.least) = (100, 100 * latency, 100_000);
            if flushes {
                costs.flushed();
            }
            costs.end_epoch(Nanos(1 << 30));
            assert_eq!(costs.is_full, is_full || !learns, "{latency}, a flush: {flushes}");
            assert!(!costs.has_flushed);
        }
    }
}
