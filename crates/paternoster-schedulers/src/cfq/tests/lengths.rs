// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long slices are. CFQ-6, 14, 15, 16.

use super::*;

/// Are slices and async limits those of the table, at each level?
#[test]
fn cfq_6_the_table_of_slices() {
    each(|bench| {
        // 100 + 20 * (4 - level); 40 + 8 * (4 - level); 2 * 2 * (8 - level).
        let sync = [180, 160, 140, 120, 100, 80, 60, 40];
        let asynchronous = [72, 64, 56, 48, 40, 32, 24, 16];
        let limits = [32, 28, 24, 20, 16, 12, 8, 4];
        for level in 0..8 {
            let place = usize::from(level);
            let ms = |sync| bench.cfq.tunables.level_slice(&bench.view, sync, level).as_millis();
            assert_eq!((ms(true), ms(false)), (sync[place], asynchronous[place]), "level {level}");
            assert_eq!(bench.cfq.tunables.async_limit(level), limits[place], "level {level}");
        }
    });
}

/// Is a fifth rounded down in whole ticks? slice_sync 104 ms at HZ=250 is 26 ticks, a fifth 5:
/// level 0 has 26 + 4 * 5 = 46 ticks = 184 ms, level 7 26 - 15 = 11 ticks = 44 ms.
#[test]
fn cfq_6_in_ticks() {
    each(|mut bench| {
        bench.view.change_hz(paternoster_core::time::Hz::new(250).unwrap());
        bench.cfq.tunables.slice[1] = Nanos::from_millis(104);
        let ms = |level| bench.cfq.tunables.level_slice(&bench.view, true, level).as_millis();
        assert_eq!((ms(0), ms(4), ms(7)), (184, 104, 44));
    });
}

/// The slice of a reader of `level` among `count` busy ones, once the average has settled.
fn settled_slice(bench: &mut Bench, level: u8, count: u64) -> u64 {
    let first = bench.client_of(Class::BestEffort, level);
    bench.read(first, 0);
    for other in 1..count {
        let client = bench.client();
        bench.read(client, other << 16);
    }
    let queue = bench.number(first);
    (0..20).fold(0, |_, _| bench.length(queue).as_millis())
}

/// Given low_latency, is a slice of level 4 the whole 100 ms among up to three, then 300 / count,
/// but not below 16, twice slice_idle? Without it always 100.
#[test]
fn cfq_14_slices_of_many_are_shorter() {
    for (count, ms) in [(1, 100), (2, 100), (3, 100), (4, 75), (6, 50), (10, 30), (30, 16)] {
        each(|mut bench| assert_eq!(settled_slice(&mut bench, 4, count), ms, "{count}"));
        each(|mut bench| {
            bench.cfq.tunables.low_latency = false;
            assert_eq!(settled_slice(&mut bench, 4, count), 100, "{count}");
        });
    }
}

/// Given ten busy, level 0: max(180 * 300/1000 = 54, min(180, 2 * 8 * 180/100 = 28)) = 54? And at
/// 30 the floor: max(180 * 300/3000 = 18, 28) = 28.
#[test]
fn cfq_16_levels_are_scaled_alike() {
    each(|mut bench| assert_eq!(settled_slice(&mut bench, 0, 10), 54));
    each(|mut bench| assert_eq!(settled_slice(&mut bench, 0, 30), 28));
}

fn averages<const N: usize>(bench: &mut Bench) -> [u32; N] {
    [(); N].map(|()| bench.cfq.schedule.groups.average_busy(0, false))
}

/// Ten readers, of which `left` stay once the average has become ten.
fn ten_then(bench: &mut Bench, left: usize) {
    let mut requests = Vec::new();
    for place in 0..10 {
        let client = bench.client();
        requests.push(bench.read(client, place << 16));
    }
    // (3 * 10 + 0 + 2) / 4 = 8, (3 * 10 + 8 + 2) / 4 = 10, (3 * 10 + 10 + 2) / 4 = 10.
    assert_eq!(averages(bench), [8, 10, 10]);
    for id in requests.drain(left..) {
        bench.withdraw(id);
    }
}

/// Does the average of busy queues rise fast and fall slowly, and never quite? From 10 with one
/// busy: (3 * 10 + 1 + 2) / 4 = 8, then 6, 5, 4, 3, and (3 * 3 + 1 + 2) / 4 = 3 for ever.
#[test]
fn cfq_15_the_average_rises_fast_and_falls_slowly() {
    each(|mut bench| {
        ten_then(&mut bench, 1);
        assert_eq!(averages(&mut bench), [8, 6, 5, 4, 3, 3, 3]);
    });
}

/// Does it stay at two more than are busy, so that two readers have 75 ms slices for good after a
/// burst of ten (CFQ-64)? 8, 7, 6, 5, 4, and (3 * 4 + 2 + 2) / 4 = 4.
#[test]
fn cfq_15_the_average_sticks() {
    each(|mut bench| {
        ten_then(&mut bench, 2);
        assert_eq!(averages(&mut bench), [8, 7, 6, 5, 4, 4, 4]);
        let queue = bench.cfq.schedule.groups[0].trees[2].first().expect("two are busy");
        assert_eq!(bench.length(queue).as_millis(), 75);
    });
}
