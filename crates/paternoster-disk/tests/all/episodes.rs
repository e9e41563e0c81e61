// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does each episode do what its line says, from when it is added?
//!
//! The device takes 1 ms for everything, any number at a time (`null`).

use paternoster_disk::{Device, Disk, Nanos, Op};

const MILLISECOND: &str = r#"
name = "millisecond"
model = "null"
summary = "1 ms for everything"
valid = "in this test"
[facts]
capacity = { value = "1 MiB", source = "assumed" }
depth = { value = 32, source = "assumed" }
write_cache = { value = true, source = "assumed" }
[null]
latency = { value = "1 ms", source = "assumed" }
"#;

fn disk(episodes: &[&str]) -> Disk {
    let device = Device::parse("millisecond.toml", MILLISECOND).unwrap();
    let mut disk = Disk::new(&device, 1);
    for episode in episodes {
        disk.episode(episode).unwrap();
    }
    disk
}

/// When each of four reads of 4 KiB at time zero ends, in us, and how.
fn reads(disk: &mut Disk) -> Vec<(u64, Result<(), i32>)> {
    let at = disk.now();
    for place in 0..4 {
        disk.submit(at, Op::Read, place * 4096, 4096).unwrap();
    }
    let ends = std::iter::from_fn(|| disk.wait());
    ends.map(|done| ((done.at - at).as_micros(), done.result)).collect()
}

/// Stall, fail-slow, throttle, delay, errno, and an idle device that refuses (3 ms, then again).
#[test]
fn times_and_errors() {
    let ends = |episode| reads(&mut disk(&[episode]));
    let all = |times: [u64; 4]| times.map(|time| (time, Ok(())));
    assert_eq!(ends("stall time=2s op=write"), all([1000; 4]));
    assert_eq!(ends("stall time=50ms count=1"), all([51_000; 4]));
    assert_eq!(ends("slow factor=20 every=4"), all([1000, 1000, 1000, 20_000]));
    assert_eq!(ends("throttle rate=2048000"), all([2000, 4000, 6000, 8000]));
    assert_eq!(ends("delay time=3ms every=4"), all([1000, 1000, 1000, 4000]));
    assert_eq!(ends("refuse count=2"), all([7000; 4]));
    let failed = ends("error errno=28 range=4k-8k");
    assert_eq!(failed.iter().filter(|(_, result)| *result == Err(28)).count(), 1);
}

/// Does an episode added later apply only to later operations, and end when it says so; and does a
/// count survive a crash?
#[test]
fn episodes_begin_and_end() {
    let mut disk = disk(&["slow factor=5 from=10ms to=20ms"]);
    assert_eq!(reads(&mut disk)[0].0, 1000);
    assert_eq!(disk.crash(Nanos::from_millis(10), 1).pieces().count(), 0);
    assert_eq!(reads(&mut disk)[0].0, 5000);
    disk.episode("error count=1").unwrap();
    assert_eq!(reads(&mut disk).iter().filter(|(_, result)| result.is_err()).count(), 1);
    disk.crash(Nanos::from_millis(30), 1);
    assert_eq!(reads(&mut disk), [(1000, Ok(())); 4]);
    let why = disk.episode("slow factr=5").unwrap_err().to_string();
    assert!(why.starts_with("the rule `slow factr=5`: `factr` is not known"), "{why}");
}

/// May a write be found in part exactly if an episode lets it tear? Of 200 power cuts during a
/// write of eight sectors some leave one to seven of them.
#[test]
fn torn_writes() {
    for (episodes, tears) in [(vec![], false), (vec!["torn op=write"], true)] {
        let mut disk = disk(&episodes);
        disk.write(Nanos::ZERO, 0, &[7; 4096], false).unwrap();
        for now in [Nanos::from_micros(500), Nanos::from_micros(1500)] {
            let left = (0..200).map(|seed| {
                let mut found = [0; 4096];
                disk.image_if_crashed(now, seed).read(0, &mut found);
                found.iter().filter(|byte| **byte == 7).count() / 512
            });
            let mut left: Vec<usize> = left.collect();
            assert!(left.contains(&0) && left.contains(&8), "old and new at {now}");
            left.retain(|sectors| (1..8).contains(sectors));
            assert_eq!(!left.is_empty(), tears, "at {now}");
        }
    }
}

/// How many of 200 power cuts at that time lose the write of sevens at byte 0.
fn lost(disk: &mut Disk, now: Nanos) -> usize {
    let is_lost = |seed: &u64| {
        let mut found = [0; 512];
        disk.image_if_crashed(now, *seed).read(0, &mut found);
        found[0] != 7
    };
    (0..200).filter(is_lost).count()
}

/// Is nothing kept that was not promised: neither by a failed flush, nor by one that had begun when
/// the write ended; and does a flush submitted after the write's end lose none?
#[test]
fn what_no_flush_covers() {
    // The write ends at 1 ms; each flush takes a millisecond.
    for (episode, flush_at, keeps) in
        [(None, 1000, true), (None, 500, false), (Some("error op=flush count=1"), 1000, false)]
    {
        let mut disk = disk(&episode.into_iter().collect::<Vec<_>>());
        disk.write(Nanos::ZERO, 0, &[7; 512], false).unwrap();
        disk.submit(Nanos::from_micros(flush_at), Op::Flush, 0, 0).unwrap();
        let ends: Vec<_> = std::iter::from_fn(|| disk.wait()).collect();
        assert_eq!(ends[0].at, Nanos::from_millis(1), "{episode:?}");
        assert_eq!(ends[1].result.is_err(), episode.is_some());
        let lost = lost(&mut disk, Nanos::from_millis(5));
        assert_eq!(lost == 0, keeps, "{episode:?} at {flush_at} us: {lost} of 200");
    }
}

/// Is a failed write there for some seeds, and not for others?
#[test]
fn a_write_that_failed_may_be_there() {
    let device = Device::parse("millisecond.toml", MILLISECOND).unwrap();
    let is_there = |seed: u64| {
        let mut disk = Disk::new(&device, seed);
        disk.episode("error op=write count=1").unwrap();
        disk.write(Nanos::ZERO, 0, &[7; 512], false).unwrap();
        assert!(disk.wait().unwrap().result.is_err());
        disk.submit(disk.now(), Op::Read, 0, 512).unwrap();
        disk.wait().unwrap();
        disk.data()[0] == 7
    };
    // Heads or tails for each of 100 seeds: 50 in the mean, and sqrt(100 * 0.5 * 0.5) = 5 is the
    // deviation. 20 and 80 are six deviations away: with fair coins 3 draws in 10^10 lie outside.
    let there = (0..100).filter(|seed| is_there(*seed)).count();
    assert!((20..=80).contains(&there), "{there} of 100");
}

/// Does a misdirected write leave its own place unchanged and overwrite another's, while every
/// operation reports success?
#[test]
fn misdirected_writes() {
    let mut disk = disk(&[]);
    for place in 0..256u64 {
        disk.write(disk.now(), place * 4096, &[1; 4096], true).unwrap();
    }
    while disk.wait().is_some() {}
    disk.episode("misdirect op=write count=1").unwrap();
    disk.write(disk.now(), 40 * 4096, &[2; 4096], true).unwrap();
    assert_eq!(disk.wait().unwrap().result, Ok(()));
    let mut found = vec![0; 1 << 20];
    disk.crash(disk.now(), 1).read(0, &mut found);
    assert_eq!(found[40 * 4096], 1);
    let other = found.iter().position(|byte| *byte == 2).unwrap() / 4096;
    assert!(other != 40 && other.abs_diff(40) <= 16, "{other}");
    assert_eq!(found.iter().filter(|byte| **byte == 2).count(), 4096);
}

/// A disk on which a write of twos to block 40 goes elsewhere, and completes at 4 ms.
fn disk_that_misdirects(seed: u64) -> Disk {
    let device = Device::parse("millisecond.toml", MILLISECOND).unwrap();
    let mut disk = Disk::new(&device, seed);
    disk.episode("misdirect op=write").unwrap();
    disk.episode("delay op=write time=3ms").unwrap();
    disk.write(Nanos::ZERO, 40 * 4096, &[2; 4096], false).unwrap();
    disk
}

/// Does a read find a misdirected write under way at its actual place, for some seeds and not for
/// others; and never at the intended one? The write ends at 4 ms, the read at 1 ms.
#[test]
fn misdirected_writes_are_read_where_they_go() {
    let mut found_early = 0;
    for seed in 0..100 {
        let mut ended = disk_that_misdirects(seed);
        assert_eq!(ended.wait().unwrap().at, Nanos::from_millis(4));
        let now = ended.now();
        ended.submit(now, Op::Read, 0, 1 << 20).unwrap();
        ended.wait().unwrap();
        let goes = ended.data().iter().position(|byte| *byte == 2).unwrap() as u64;
        for offset in [goes, 40 * 4096] {
            let mut disk = disk_that_misdirects(seed);
            disk.submit(Nanos::ZERO, Op::Read, offset, 4096).unwrap();
            assert_eq!(disk.wait().unwrap().at, Nanos::from_millis(1));
            let twos = disk.data().iter().filter(|byte| **byte == 2).count();
            assert!([0, 4096].contains(&twos), "seed {seed} at {offset}: {twos} twos");
            assert!(twos == 0 || offset == goes, "seed {seed}: found where it was sent");
            found_early += usize::from(twos > 0);
        }
    }
    assert!((20..=80).contains(&found_early), "{found_early} of 100");
}
