// SPDX-License-Identifier: MIT OR Apache-2.0
//! How deep each domain may be, given latencies and targets: KY-1 to KY-4, KY-6, KY-7.

use super::*;

// ------------------------------------------------------------------------------------ KY-1 to KY-4

/// With read depth 256, congestion by writes and read p99 in bucket 1 (1 ms of 2), is the depth 256
/// x 2 / 4 = 128, next 64? And do as many fit the device? Writes, at bucket 4: 128 x 5 / 4 = 160,
/// at most 128.
#[test]
fn ky_1_good_reads_give_way_under_congestion() {
    let mut kyber = Kyber::new();
    assert_eq!((kyber.fit(Op::Read), kyber.fit(Op::Write)), (256, 128));
    for (times, depth) in [(1, 128), (2, 64)] {
        let mut kyber = Kyber::new();
        for _ in 0..times {
            kyber.quick(Op::Read, 500, MS1);
            kyber.congestion();
        }
        assert_eq!((kyber.fit(Op::Read), kyber.fit(Op::Write)), (depth, 128));
        assert_eq!(kyber.depths(Op::Read), [128, 64][..times]);
        assert_eq!(kyber.depths(Op::Write), []);
    }
}

/// Does p99 bucket 3 change nothing, and does bucket 7 double, up to 256? From 64 (above): 64 * 4 /
/// 4 = 64; then 64 * 8 / 4 = 128, 256, and 512 is 256.
#[test]
fn ky_2_three_quarters_stay_and_more_is_eased() {
    let mut kyber = Kyber::new();
    for _ in 0..2 {
        kyber.quick(Op::Read, 500, MS1);
        kyber.congestion();
    }
    assert_eq!(kyber.depth(Op::Read), 64);
    kyber.quick(Op::Read, 500, Nanos::from_millis(2));
    kyber.congestion();
    assert_eq!(kyber.depth(Op::Read), 64);
    // In the device for 1 ms only: the reads suffer, the device does not.
    for depth in [128, 256, 256] {
        kyber.samples(Op::Read, 500, MS11, MS1);
        kyber.look();
        assert_eq!(kyber.depth(Op::Read), depth);
    }
    assert_eq!(kyber.depths(Op::Read), [128, 64, 128, 256], "no change, no note");
}

/// Is the smallest depth 1? Bucket 0 takes a quarter: 256, 64, 16, 4, 1, and 1 * 1 / 4 = 0 is 1.
#[test]
fn ky_3_a_depth_is_at_least_one() {
    let mut kyber = Kyber::new();
    for _ in 0..6 {
        kyber.quick(Op::Read, 500, Nanos::from_micros(100));
        kyber.congestion();
    }
    assert_eq!(kyber.depths(Op::Read), [64, 16, 4, 1]);
    assert_eq!(kyber.fit(Op::Read), 1);
}

/// With no bad domain, does no depth shrink, however good the latencies?
#[test]
fn ky_4_nothing_shrinks_without_congestion() {
    let mut kyber = Kyber::new();
    for _ in 0..3 {
        kyber.quick(Op::Read, 500, Nanos::from_micros(100));
        kyber.quick(Op::Write, 500, Nanos::from_micros(100));
        kyber.quick(Op::Discard, 500, Nanos::from_micros(100));
        kyber.look();
    }
    let looks = kyber.told(Op::Discard).len() / 2;
    assert!(looks >= 3, "{looks}");
    for op in [Op::Read, Op::Write, Op::Discard] {
        assert_eq!(kyber.depths(op), []);
    }
}

/// Does congestion follow the 90th percentile from issue? Of 500 writes 50 at 11 ms: the 450th in
/// order is good. 51: it is bad.
#[test]
fn ky_4_congestion_is_one_in_ten() {
    for (bad, depths) in [(50, &[][..]), (51, &[128])] {
        let mut kyber = Kyber::new();
        kyber.quick(Op::Read, 500, MS1);
        kyber.quick(Op::Write, 500 - bad, MS1);
        kyber.quick(Op::Write, bad, MS11);
        kyber.look();
        assert_eq!(kyber.depths(Op::Read), depths, "{bad} of 500");
    }
}

/// Does waiting here cause no congestion? Reads that take 11 ms, 1 ms of it in the device: within 2
/// quarters of 2 ms from issue, beyond from allocation. Good writes keep 128.
#[test]
fn ky_4_waiting_is_no_congestion() {
    let mut kyber = Kyber::new();
    kyber.samples(Op::Read, 500, MS11, MS1);
    kyber.quick(Op::Write, 500, MS1);
    kyber.look();
    assert_eq!(kyber.told(Op::Read), [(90, 2), (99, 8)]);
    assert_eq!(kyber.told(Op::Write), [(90, 1), (99, 1)]);
    assert_eq!(kyber.depths(Op::Write), []);
}

/// And the depth by the 99th from allocation? Of 500 reads 5 at 2 ms (bucket 3): the 495th is in
/// bucket 0, a quarter of 256. 6: it is in bucket 3, and nothing changes.
#[test]
fn ky_4_depth_is_one_in_a_hundred() {
    for (slow, depths) in [(5, &[64][..]), (6, &[])] {
        let mut kyber = Kyber::new();
        kyber.quick(Op::Read, 500 - slow, Nanos::from_micros(100));
        kyber.quick(Op::Read, slow, Nanos::from_millis(2));
        kyber.congestion();
        assert_eq!(kyber.depths(Op::Read), depths, "{slow} of 500");
    }
}

/// Under congestion, is a domain without a percentile judged by its last one? Reads had bucket 1
/// before: 128. That is used once: at the next congestion they keep it. The one from before the
/// congestion is not used if there is a new one: bucket 0 after bucket 1 is 64.
#[test]
fn ky_1_the_last_percentile_is_remembered_once() {
    let mut kyber = Kyber::new();
    kyber.quick(Op::Read, 500, MS1);
    kyber.look();
    assert_eq!((kyber.told(Op::Read), kyber.depths(Op::Read)), (vec![(90, 2), (99, 2)], vec![]));
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [128]);
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [128]);

    let mut kyber = Kyber::new();
    kyber.quick(Op::Read, 500, MS1);
    kyber.look();
    kyber.quick(Op::Read, 500, Nanos::from_micros(100));
    kyber.congestion();
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [64], "and what was told before is forgotten");
}

/// What kyber's module comment promises: 128 writers and one reader, on a device that serves in
/// order, 50 us each. With n writes in flight a read takes (n + 1) * 50 us: 6.45 ms, and its target
/// is 2. A write takes 6.4 ms in all, bucket 2, however many are in flight: 128 * 3/4 = 96, 72, 54,
/// 40, and 41 * 50 us = 2.05 ms is still too long: 30. Its 1.55 ms are good, and it stays.
#[test]
fn ky_1_reads_meet_their_target_beside_a_flood_of_writes() {
    let mut kyber = Kyber::new();
    kyber.submit(Op::Write, 128);
    kyber.submit(Op::Read, 1);
    let mut slow_reads = 0;
    // 10 s of the device's time.
    for _ in 0..200_000 {
        kyber.rig.pull();
        kyber.pass(Nanos::from_micros(50));
        let head = kyber.rig.inside[0].tag;
        let waited = kyber.rig.now - kyber.rig.queue.request_of(head).unwrap().start();
        let command = kyber.rig.complete_oldest();
        if command.op == Op::Read && waited > Nanos::from_millis(2) {
            slow_reads = kyber.rig.now.as_millis();
        }
        kyber.submit(command.op, 1);
        kyber.rig.queue.observer_mut().events.clear();
        kyber.rig.done.clear();
    }
    assert_eq!(kyber.depths(Op::Write), [96, 72, 54, 40, 30]);
    assert_eq!(kyber.depths(Op::Read), []);
    assert!((5_000..8_000).contains(&slow_reads), "the last slow read was at {slow_reads} ms");
}

// ----------------------------------------------------------------------------------- KY-6 and KY-7

/// With 499 samples within a second, is there no decision, and with 500 one? The first check of the
/// 499 is within 100 ms of their end; a second later they do count.
#[test]
fn ky_6_enough_samples_or_a_second() {
    let mut kyber = Kyber::new();
    kyber.quick(Op::Read, 500, MS1);
    kyber.congestion();
    assert_eq!(kyber.told(Op::Read).len(), 2, "500 are enough");

    // Only the end of a request sets the timer again: a discard at 899 ms, so the check is at 999.
    for (after, decisions) in [(899, 0), (900, 2)] {
        let mut kyber = Kyber::new();
        kyber.quick(Op::Read, 499, MS1);
        kyber.look();
        assert_eq!(kyber.told(Op::Read), [], "499 are not");
        kyber.pass(Nanos::from_millis(after));
        kyber.quick(Op::Discard, 1, Nanos::ZERO);
        kyber.look();
        let look = after + 100;
        assert_eq!(kyber.told(Op::Read).len(), decisions, "{look} ms behind the first look");
    }
}

/// With target 2 ms, is 0.5 ms in bucket 0, 0.500001 in 1, 2 ms in 3 and 3.6 ms in 7? Shown by what
/// congestion makes of depth 64: 64 * 1/4, 2/4, 4/4, 8/4. Bucket 0 brings the depth to 64.
#[test]
fn ky_7_buckets_by_their_effect() {
    for (ns, depth) in [(500_000, 16), (500_001, 32), (2_000_000, 64), (3_600_000, 128)] {
        let mut kyber = Kyber::new();
        kyber.quick(Op::Read, 500, Nanos(1));
        kyber.congestion();
        assert_eq!(kyber.depth(Op::Read), 64);
        kyber.quick(Op::Read, 500, Nanos(ns));
        kyber.congestion();
        assert_eq!(kyber.depth(Op::Read), depth, "{ns} ns");
    }
}

/// Do targets that are set apply? Reads of 1 ms against 8 ms: bucket 0, a quarter. Writes of 11 ms
/// against 12 ms: bucket 3, no congestion.
#[test]
fn ky_7_targets_are_those_that_are_set() {
    let mut kyber = Kyber::new();
    kyber.rig.set("read_lat_nsec", "8000000");
    kyber.quick(Op::Read, 500, MS1);
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [64]);
    kyber.rig.set("write_lat_nsec", "12000000");
    kyber.quick(Op::Read, 500, MS1);
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [64]);
}
