// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about a job's statistics as a whole; the parts answer for themselves.

use super::*;

const INTERVAL: Nanos = Nanos::from_millis(500);

/// A job of `n` reads of 4 KiB, one each ms, 10 us slat and 90 us clat, ended at `n` ms.
fn readers(n: u64) -> JobStatistics {
    let mut statistics = JobStatistics::new(INTERVAL);
    statistics.start(Nanos::ZERO);
    for at in 0..n {
        read_at(&mut statistics, Nanos::from_millis(at), true);
    }
    statistics.cpu(Nanos::from_millis(n / 10));
    statistics.end(Nanos::from_millis(n));
    statistics
}

fn read_at(statistics: &mut JobStatistics, now: Nanos, asynchronous: bool) {
    let (slat, clat) = (Nanos::from_micros(10), Nanos::from_micros(90));
    statistics.issued(1);
    statistics.submitted(1);
    statistics.ended(now, Direction::Read, 4096);
    statistics.latency(Direction::Read, slat, clat, asynchronous);
    statistics.reaped(1);
    statistics.waited();
}

/// Do rates follow from bytes and ms? 1000 * 4096 B in 1000 ms; 100 ms of CPU are 10 %.
#[test]
fn rates_of_a_second() {
    let statistics = readers(1000);
    let read = statistics.direction(Direction::Read);
    assert_eq!((read.ios(), read.runtime_ms(), read.bytes_per_second()), (1000, 1000, 4_096_000));
    assert!((read.ios_per_second() - 1000.0).abs() < 1e-9);
    assert!((statistics.user_per_cent() - 10.0).abs() < 1e-9);
    assert_eq!((statistics.ios(), statistics.context_switches()), (1000, 1000));
    assert_eq!(statistics.direction(Direction::Write).runtime_ms(), 0);
    assert_eq!(read.total().max(), Nanos::from_micros(100));
}

/// Is slat left out for an engine that blocks, but not out of lat?
#[test]
fn blocking_engines_have_no_slat() {
    let mut statistics = JobStatistics::new(INTERVAL);
    read_at(&mut statistics, Nanos(1), false);
    let read = statistics.direction(Direction::Read);
    assert_eq!((read.submission().n(), read.completion().n()), (0, 1));
    assert_eq!(read.total().min(), Nanos::from_micros(100));
}

/// Does the end of a ramp drop all that came before, and count time from there?
#[test]
fn ramp_is_dropped() {
    let mut statistics = readers(700);
    statistics.synced(Nanos(5));
    statistics.start(Nanos::from_secs(1));
    read_at(&mut statistics, Nanos::from_millis(1001), true);
    statistics.end(Nanos::from_millis(1500));
    let read = statistics.direction(Direction::Read);
    assert_eq!((read.ios(), read.runtime_ms(), read.completion_histogram().total()), (1, 500, 1));
    assert_eq!((statistics.sync().n(), statistics.context_switches()), (0, 1));
    assert_eq!(read.samples().bandwidth().count(), 1);
    assert_eq!(statistics.depths().counts, [1, 0, 0, 0, 0, 0, 0]);
}

/// Do clones merge as fio merges them: longest runtime for the rate, sum for `job_runtime`?
/// 1000 + 500 I/Os of 4096 B over 1000 ms = 6144000 B/s; 1 s + 0.5 s = 1.5 s.
#[test]
fn clones_merge() {
    let mut group = readers(1000);
    group.merge(&readers(500));
    let read = group.direction(Direction::Read);
    assert_eq!((read.ios(), read.runtime_ms(), read.bytes_per_second()), (1500, 1000, 6_144_000));
    assert_eq!(group.runtime(), Nanos::from_millis(1500));
    assert_eq!(read.completion_histogram().total(), 1500);
    // Two samples and one of 500 I/Os in half a second each, side by side.
    let iops = read.samples().iops();
    assert_eq!((iops.count(), iops.min(), iops.max()), (3, 2000, 2000));
}

/// Does a runtime below a ms count as one, so that no rate divides by zero?
#[test]
fn runtime_is_at_least_a_millisecond() {
    let mut statistics = JobStatistics::new(INTERVAL);
    read_at(&mut statistics, Nanos(5), true);
    statistics.end(Nanos(10));
    assert_eq!(statistics.direction(Direction::Read).runtime_ms(), 1);
    assert_eq!(bytes_per_second(u64::MAX, 1), u64::MAX);
    assert_eq!(bytes_per_second(5, 0), 0);
}

/// Are syncs separate from the I/Os, with a place among the depths?
#[test]
fn syncs_stand_apart() {
    let mut statistics = readers(10);
    statistics.synced(Nanos::from_millis(2));
    assert_eq!((statistics.ios(), statistics.sync().n()), (10, 1));
    assert_eq!(statistics.depths().shares().next(), Some(("1", 110.0)));
    assert_eq!(statistics.sync_histogram().total(), 1);
}
