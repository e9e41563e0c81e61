// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole drive: when it acknowledges commands, which it refuses, and that it loses nothing.

use super::super::geometry::{Geometry, Zone};
use super::super::read_ahead::ReadAhead;
use super::super::seek::{Curve, SeekTable};
use super::super::segments::Written;
use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// One surface of 100 cylinders, 80 sectors of 0.1 ms a track, 8 ms a turn; seeks of 1 to 3 ms; a
/// controller of 0.1 ms and a link of 1 us a sector; four segments; room for 64 dirty sectors.
fn parameters() -> DriveParameters {
    let zone = Zone {
        cylinders: 100,
        track_sectors: 80,
        sectors: 0,
        track_skew: Nanos(MS),
        cylinder_skew: Nanos(MS),
    };
    let curve = Curve::Points(vec![(1, Nanos(MS)), (100, Nanos(3 * MS))]);
    DriveParameters {
        mechanism: Mechanism {
            geometry: Geometry::new(1, Nanos(8 * MS), &[zone]),
            seek: SeekTable::new(&curve, 100),
            head_switch: Nanos::ZERO,
            write_settle: 0,
            zero_latency: false,
        },
        depth: 8,
        order: Order { window: 8, age_limit: 500 * MS },
        segments: SegmentSizes {
            count: 4,
            sectors: 64,
            read_ahead: ReadAhead::of(32),
            written: Written::Apart,
            keep_before: false,
            almost_hits: true,
            disjoint: false,
        },
        room: WriteRoom { sectors: 64, extents: 8, chunk: 16 },
        drain_delay: Nanos(20 * MS),
        drain_window: 8,
        flush_base: Nanos(5 * MS),
        flush_queueable: false,
        overheads: Overheads::even(Nanos(MS / 10), Nanos(MS / 10)),
        link: Transfer { nanos: 1_000, bytes: 512 },
        write_link: Transfer { nanos: 1_000, bytes: 512 },
        bus: Bus::default(),
    }
}

fn drive() -> Drive<u32> {
    Drive::new(Arc::new(parameters()))
}

fn task(op: Op, sector: u64, sectors: u32) -> Task {
    Task { op, sector, sectors, fua: false }
}

/// All that ends when nothing more comes, in order: name and time in us.
fn ends(drive: &mut Drive<u32>) -> Vec<(u32, u64)> {
    let mut ends = Vec::new();
    while let Some(event) = drive.next_event() {
        while let Some(ended) = drive.advance(event) {
            ends.push((ended.id, ended.at.as_micros()));
        }
    }
    ends
}

/// What does a read cost, from the controller to the link? Sector 40 of the outermost track: the
/// controller has it at 0.1 ms, the sector passes at 4.0 to 4.1 ms, the link takes 1 us.
#[test]
fn a_read_by_hand() {
    let mut drive = drive();
    drive.submit(Nanos::ZERO, 1, task(Op::Read, 40, 1)).unwrap();
    assert_eq!(ends(&mut drive), [(1, 4_101)]);
}

/// Is what the cache holds of a read's beginning passed on while the medium works? The link takes 1
/// ms a sector, and begins when the first has passed. [0, 8) passes from 8.0 on and ends at 16.1;
/// [800, 808), on cylinder 10 (1.18 ms away, angle 2.0), passes from 18.0 on and ends at 26.1. Of
/// [4, 12) four are held: the link has passed them on at 30.2, and gets the others from 32.9 on, as
/// sector 8 passes from 32.8 on.
#[test]
fn what_is_held_goes_first() {
    let mut parameters = parameters();
    parameters.link.nanos = MS;
    parameters.segments.read_ahead = ReadAhead::of(0);
    let mut drive = Drive::new(Arc::new(parameters));
    for (now, sector, end) in [(0, 0, 16_100), (16_100, 800, 26_100), (26_100, 4, 36_900)] {
        drive.submit(Nanos::from_micros(now), 1, task(Op::Read, sector, 8)).unwrap();
        assert_eq!(ends(&mut drive), [(1, end)], "{sector}");
    }
}

/// Does a link that is slower than the medium wait for the next track? It takes 0.2 ms a sector. Of
/// [76, 84) the first has passed at 7.7 ms; the next track begins to pass at 9.0, and its four
/// sectors need the link from 9.1 to 9.9. The medium is done at 9.4.
#[test]
fn a_slow_link_waits_at_a_track_s_end() {
    let mut parameters = parameters();
    parameters.link.nanos = MS / 5;
    let mut drive = Drive::new(Arc::new(parameters));
    drive.submit(Nanos::ZERO, 1, task(Op::Read, 76, 8)).unwrap();
    assert_eq!(ends(&mut drive), [(1, 9_900)]);
}

/// Does the arm rest before a write, and the medium wait for a write that follows no other? [800,
/// 808) is 1.18 ms away and passes from 2.0 on; at rest until 1.1 the arm misses it, and it passes
/// from 10.0 on. With 9 ms at least from the command, sector 40 is written at 12.0, after 9.1; [48,
/// 56) follows it and is written at 20.8, before 12.8 + 9.1; [40, 48) does not follow, and its turn
/// at 28.0 comes before 21.6 + 9.1.
#[test]
fn writes_may_have_to_rest() {
    let through = |sector| Task { fua: true, ..task(Op::Write, sector, 8) };
    let mut rests = parameters();
    rests.bus.write_rest = Nanos(MS);
    let mut drive = Drive::new(Arc::new(rests));
    drive.submit(Nanos::ZERO, 1, through(800)).unwrap();
    assert_eq!(ends(&mut drive), [(1, 10_800)]);
    let mut waits = parameters();
    waits.bus.write_least = Nanos(9 * MS);
    let mut drive = Drive::new(Arc::new(waits));
    for (now, sector, end) in [(0, 40, 12_800), (12_800, 48, 21_600), (21_600, 40, 36_800)] {
        drive.submit(Nanos(now * 1_000), 1, through(sector)).unwrap();
        assert_eq!(ends(&mut drive), [(1, end)], "{now}");
    }
}

/// Is a write acknowledged before it is on the medium, a read of it answered by the cache, and a
/// write with FUA not? 0.1 ms and 8 sectors of 1 us; the read queues behind it at controller and
/// link. With FUA sectors 40 to 48 end at 4.8 ms.
#[test]
fn writes_are_promised() {
    let mut drive = drive();
    drive.submit(Nanos::ZERO, 1, task(Op::Write, 40, 8)).unwrap();
    drive.submit(Nanos::ZERO, 2, task(Op::Read, 44, 4)).unwrap();
    assert_eq!(ends(&mut drive), [(1, 108), (2, 212)]);
    let mut drive = self::drive();
    drive.submit(Nanos::ZERO, 3, Task { fua: true, ..task(Op::Write, 40, 8) }).unwrap();
    assert_eq!(ends(&mut drive), [(3, 4_800)]);
}

/// Is a flush refused while any other command is in the drive, and every command while it drains?
/// The write ends at 0.108 ms and the flush begins. After 5 ms of base time, at 5.108 ms, the head
/// waits for sector 40, which comes by at 12.0 ms and has passed at 12.8 ms. A flush of a clean
/// cache takes only the controller's time.
#[test]
fn a_flush_is_alone() {
    let mut drive = drive();
    drive.submit(Nanos::ZERO, 1, task(Op::Write, 40, 8)).unwrap();
    assert_eq!(drive.submit(Nanos::ZERO, 2, task(Op::Flush, 0, 0)), Err(Refused));
    let ended = drive.advance(Nanos(108_000)).expect("the write");
    drive.submit(ended.at, 2, task(Op::Flush, 0, 0)).unwrap();
    assert_eq!(drive.submit(Nanos(MS), 3, task(Op::Read, 0, 8)), Err(Refused));
    assert_eq!(ends(&mut drive), [(2, 12_800)]);
    assert!(drive.writes.is_clean());
    drive.submit(Nanos(20 * MS), 4, task(Op::Flush, 0, 0)).unwrap();
    assert_eq!(ends(&mut drive), [(4, 20_100)]);
}

/// Does a flush that can be queued end beside a writer that goes on without a pause, and do reads?
/// The writer keeps one extent growing, as fast as it drains. At 5 ms no more than 64 sectors are
/// dirty: 5 ms of base time, and four chunks of 16 with at most a turn before each, 38.4 ms. Drains
/// are nearer than the read, until it has waited for 50 ms.
#[test]
fn a_flush_waits_for_no_later_writes() {
    let mut parameters = parameters();
    parameters.flush_queueable = true;
    parameters.order.age_limit = 50 * MS;
    let mut drive = Drive::new(Arc::new(parameters));
    let (writer, flush, read) = (0, 1, 2);
    let (mut sector, mut ended) = (0, Vec::new());
    let write = |drive: &mut Drive<u32>, now: Nanos, sector: &mut u64| {
        drive.submit(now, writer, task(Op::Write, *sector, 8)).unwrap();
        *sector += 8;
    };
    write(&mut drive, Nanos::ZERO, &mut sector);
    let mut asked = false;
    while ended.len() < 2 {
        let now = drive.next_event().expect("the writer goes on");
        assert!(now < Nanos(700 * MS), "{ended:?}");
        if now >= Nanos(5 * MS) && !asked {
            drive.submit(now, flush, task(Op::Flush, 0, 0)).unwrap();
            drive.submit(now, read, task(Op::Read, 7_000, 8)).unwrap();
            asked = true;
        }
        while let Some(done) = drive.advance(now) {
            if done.id == writer {
                write(&mut drive, now, &mut sector);
            } else {
                ended.push((done.id, done.at.as_micros() / 1000));
            }
        }
    }
    assert!(ended[0].0 == flush && ended[0].1 < 50, "{ended:?}");
    assert!(ended[1].0 == read && ended[1].1 < 100, "{ended:?}");
}

/// Is a command that has waited too long done beside a flush, between two of its extents? Eight
/// extents, each on a cylinder of its own, take 3 ms and more each; a command may wait for 10 ms.
/// Eight reads take their turns then: the fourth comes before the last extent.
#[test]
fn overdue_commands_and_a_flush_take_turns() {
    let mut parameters = parameters();
    parameters.flush_queueable = true;
    parameters.order.age_limit = 10 * MS;
    parameters.segments.read_ahead = ReadAhead::of(0);
    parameters.depth = 16;
    let mut drive = Drive::new(Arc::new(parameters));
    for nth in 0..8 {
        drive.submit(Nanos::ZERO, 0, task(Op::Write, nth * 900, 8)).unwrap();
    }
    while drive.advance(Nanos(MS)).is_some() {}
    drive.submit(Nanos(MS), 1, task(Op::Flush, 0, 0)).unwrap();
    for nth in 0..8 {
        drive.submit(Nanos(MS), 2, task(Op::Read, 450 + nth * 900, 8)).unwrap();
    }
    let order: Vec<u32> = ends(&mut drive).iter().map(|&(id, _)| id).filter(|&id| id > 0).collect();
    let before = order.iter().take_while(|&&id| id == 2).count();
    assert!((4..8).contains(&before), "{order:?}");
    assert_eq!(order.len(), 9);
}

/// Does the drive write on its own when nothing came for 20 ms, and not before? The write is
/// acknowledged at 0.108 ms; the decision comes at 20.108 ms.
#[test]
fn draining_waits_for_quiet() {
    let mut drive = drive();
    drive.submit(Nanos::ZERO, 1, task(Op::Write, 40, 8)).unwrap();
    assert!(drive.advance(Nanos(MS)).is_some());
    assert_eq!(drive.next_event(), Some(Nanos(20_108_000)));
    assert!(!drive.writes.is_clean());
    ends(&mut drive);
    assert!(drive.writes.is_clean());
}

/// Does a write that finds no room wait until something has drained? 64 sectors fit; the fifth
/// write of 16 waits for the first chunk, which begins as soon as the mechanism may: the cache is
/// more than half full after the second, at once.
#[test]
fn a_full_cache_stalls_writes() {
    let mut drive = drive();
    for (id, sector) in [(1, 0), (2, 800), (3, 1600), (4, 2400), (5, 3200)] {
        drive.submit(Nanos::ZERO, id, task(Op::Write, sector, 16)).unwrap();
    }
    let ends = ends(&mut drive);
    let acknowledged: Vec<u32> = ends.iter().map(|&(id, _)| id).collect();
    assert_eq!(acknowledged, [1, 2, 3, 4, 5]);
    assert!(ends[3].1 < 500 && ends[4].1 < 1_000, "{ends:?}");
}

/// Is draining while writes wait for room charged to the first of them? There is room for one
/// extent. Write 1 is acknowledged at 0.108 ms, and sectors 40 to 48 drain until 4.8 ms; write 2
/// takes that room from 1 to 1.108 ms. Write 3 comes at 1.2 ms and waits until 4.8 ms; then sectors
/// 60 to 68 drain until 6.8 ms, and that is done for write 4, which came at 2 ms. Both are in
/// service while 3 is answered, 0.108 ms, of which each has half. Write 3 has 3.6 + 0.054 ms, write
/// 4 0.054 + (6.8 - 4.908) + 0.108 ms = 2.054 ms.
#[test]
fn a_full_cache_drains_for_who_waits() {
    let mut parameters = parameters();
    parameters.room = WriteRoom { sectors: 16, extents: 1, chunk: 16 };
    let mut drive = Drive::new(Arc::new(parameters));
    let mut ended: Vec<Ended<u32>> = Vec::new();
    for (id, us, sector) in [(1, 0, 40), (2, 1000, 60), (3, 1200, 20), (4, 2000, 70)] {
        let now = Nanos::from_micros(us);
        ended.extend(std::iter::from_fn(|| drive.advance(now)));
        drive.submit(now, id, task(Op::Write, sector, 8)).unwrap();
    }
    let end = Nanos::from_micros(100_000);
    ended.extend(std::iter::from_fn(|| drive.advance(end)));
    let told = ended.iter().map(|one| (one.id, one.at.as_micros(), one.served.as_micros()));
    let expected = [(1, 108, 108), (2, 1_108, 108), (3, 4_908, 3_654), (4, 6_908, 2_054)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    // In service from 0 to 0.108 ms, from 1 to 1.108 ms, from 1.2 to 6.908 ms (I4).
    assert_eq!(drive.clock.busy().as_micros(), 108 + 108 + 5_708);
}

/// Is a write that waits for room passed over for longer than any command may be? There is room for
/// one extent, far away, and reads in order of sectors, of which the next is always nearer. At the
/// limit a way of 3 ms and a turn of 8, and the read that is under way: at most 20 ms more.
#[test]
fn a_stalled_write_is_not_passed_over_for_ever() {
    for limit in [100, 500] {
        let mut parameters = parameters();
        parameters.room = WriteRoom { sectors: 16, extents: 1, chunk: 16 };
        parameters.order.age_limit = limit * MS;
        parameters.segments.read_ahead = ReadAhead::of(0);
        let mut drive = Drive::new(Arc::new(parameters));
        let (read, write) = (0, 1);
        for place in 0..2 {
            drive.submit(Nanos::ZERO, read, task(Op::Read, place * 16, 8)).unwrap();
        }
        // The controller has the reads, and the first is under way.
        assert!(drive.advance(Nanos(MS)).is_none());
        for sector in [7_800, 7_900] {
            drive.submit(Nanos(MS), write, task(Op::Write, sector, 8)).unwrap();
        }
        let (mut place, mut written) = (2, Vec::new());
        while written.len() < 2 {
            let now = drive.next_event().expect("something is inside");
            while let Some(ended) = drive.advance(now) {
                if ended.id == write {
                    written.push(ended.at.as_micros() / 1000);
                    continue;
                }
                drive.submit(now, read, task(Op::Read, place % 400 * 16, 8)).unwrap();
                place += 1;
            }
        }
        assert!(written[0] == 1 && (limit..limit + 20).contains(&written[1]), "{written:?}");
    }
}

/// Does a sequential reader get the rate of the medium? 40 reads of 8 sectors, each 10 us after the
/// last: 320 sectors of 0.1 ms and three switches of 1 ms; the first waits for its controller and
/// misses sector 0, which costs it a turn of 8 ms.
#[test]
fn a_sequential_reader_gets_the_medium() {
    let (mut drive, mut now) = (drive(), Nanos::ZERO);
    for place in 0..40 {
        drive.submit(now, place, task(Op::Read, u64::from(place) * 8, 8)).unwrap();
        let (_, us) = ends(&mut drive)[0];
        now = Nanos::from_micros(us + 10);
    }
    let expected = 8_000 + 32_000 + 3_000;
    assert!(now.as_micros().abs_diff(expected) < 200, "{now}");
}

fn steps() -> impl Strategy<Value = Vec<(u64, u8, u64, u32)>> {
    prop::collection::vec((0u64..30, 0u8..12, 0u64..7_900, 1u32..40), 1..80)
}

proptest! {
    /// Whatever tasks come, does each one that was taken end once, in order of time; is everything
    /// written before a flush clean at its end (I3); and do the device times add up to the busy
    /// time, to a nanosecond for each time that one is in service (I4)?
    #[test]
    fn nothing_is_lost(steps in steps(), queueable in any::<bool>(), cache in any::<bool>()) {
        let mut parameters = parameters();
        parameters.flush_queueable = queueable;
        if !cache {
            parameters.room.sectors = 0;
            parameters.segments.count = 0;
        }
        let mut drive = Drive::new(Arc::new(parameters));
        let (mut now, mut taken, mut ended, mut served) = (0u64, 0u32, Vec::new(), 0);
        let mut last = 0;
        let mut settle = |drive: &mut Drive<u32>, now: u64| {
            while let Some(done) = drive.advance(Nanos(now)) {
                assert!(done.at.0 >= last && done.at.0 <= now, "ends come in order");
                last = done.at.0;
                served += done.served.0;
                ended.push(done.id);
            }
            drive.writes.check();
        };
        for (passed, what, sector, sectors) in steps {
            now += passed * MS / 4;
            settle(&mut drive, now);
            let op = match what {
                0..5 => Op::Read,
                5..10 => Op::Write,
                10 => Op::Flush,
                _ => Op::Discard,
            };
            let sectors = if op == Op::Flush { 0 } else { sectors };
            let fua = op == Op::Write && (what == 5 || !cache);
            if drive.submit(Nanos(now), taken, Task { op, sector, sectors, fua }).is_ok() {
                taken += 1;
            }
        }
        while let Some(event) = drive.next_event() {
            prop_assert!(event.0 >= now, "time does not step back");
            now = event.0;
            settle(&mut drive, now);
        }
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..taken).collect::<Vec<u32>>());
        prop_assert!(drive.writes.is_clean());
        let busy = drive.clock.busy().0;
        // A write that waits for room is in service once for each drain that it waits for.
        prop_assert!(busy.abs_diff(served) <= u64::from(taken) * 8, "{} and {}", busy, served);
    }
}
