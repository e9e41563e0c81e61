// SPDX-License-Identifier: MIT OR Apache-2.0
//! Q1 which commands?  Q2 what happens to them, and when?  Q3 is chance within its bounds and
//! repeatable?  Q4 is nothing lost?
//!
//! The device has one server and takes 1 ms for everything, or takes 1 ms for each of any number at
//! a time (`parallel`).

use super::*;
use crate::Simulated;
use crate::linear::{Linear, LinearCosts};
use crate::null::Null;
use crate::transfer::Transfer;
use paternoster_core::{Bio, ClientSpec, Device, Limits, Op, Output, RequestQueue};
use proptest::prelude::*;

fn serial() -> Box<dyn Model> {
    let transfer = Transfer { nanos: 0, bytes: 1 };
    let [base, flush] = [Nanos::from_millis(1); 2];
    let costs = LinearCosts { servers: 1, base, transfer, penalty: Nanos::ZERO, flush };
    Box::new(Linear::new(DeviceFacts { write_cache: true, ..DeviceFacts::default() }, costs))
}

fn parallel() -> Box<dyn Model> {
    Box::new(Null::new(DeviceFacts::default(), Nanos::from_millis(1)))
}

/// How an I/O ended: when, in us, and with which errno.
type End = (u64, i32);

/// Runs bios that all come at time zero; the end of each, by its place.
fn run(inner: Box<dyn Model>, rules: &[&str], seed: u64, bios: &[(Op, u64, u32)]) -> Vec<End> {
    let rules: Vec<Rule> = rules.iter().map(|text| text.parse().unwrap()).collect();
    let mut device = Simulated::new(Faulty::new(inner, &rules, seed));
    let noop = paternoster_schedulers::by_name("noop").unwrap();
    let limits = Limits { requests: 8192, bios: 8192, ..Limits::default() };
    let mut queue = RequestQueue::builder(device.facts(), noop)
        .limits(limits)
        .build()
        .expect("its limits work");
    queue.set_attribute(Nanos::ZERO, "nomerges", "2").unwrap();
    queue.set_attribute(Nanos::ZERO, "nr_requests", "2048").unwrap();
    let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
    for (place, &(op, sector, sectors)) in bios.iter().enumerate() {
        let bio = if op == Op::Flush {
            Bio::flush(client)
        } else {
            Bio::new(client, op, sector, sectors)
        };
        queue.submit(Nanos::ZERO, bio.cookie(place as u64)).unwrap();
    }
    let mut ends = vec![None; bios.len()];
    loop {
        let until = loop {
            match queue.next(device.now()) {
                Output::Issue(command) => {
                    if device.submit(command).is_err() {
                        queue.requeue(device.now(), command.tag).unwrap();
                    }
                }
                Output::Done(cookie, outcome) => {
                    let errno = match outcome.status {
                        Status::Failed(errno) => errno,
                        _ => 0,
                    };
                    let place = usize::try_from(cookie).unwrap();
                    assert_eq!(ends[place], None, "told twice");
                    ends[place] = Some((device.now().as_micros(), errno));
                }
                Output::Wake(_) => {}
                Output::Wait { until, .. } => break until,
            }
        };
        match device.wait(until) {
            Some(completion) => {
                assert_eq!(completion.at, device.now());
                queue.complete(completion.at, completion.tag, completion.outcome).unwrap();
            }
            None if until.is_none() => break,
            None => {}
        }
    }
    ends.into_iter().map(|end| end.expect("every I/O ends")).collect()
}

/// `count` reads of 4 KiB, one after the other on the device.
fn reads(count: u64) -> Vec<(Op, u64, u32)> {
    (0..count).map(|place| (Op::Read, place * 8, 8)).collect()
}

fn failed(ends: &[End]) -> Vec<usize> {
    (0..ends.len()).filter(|&place| ends[place].1 != 0).collect()
}

/// Q1. Exactly every third, counted from one: the 3rd, 6th and 9th of ten; at most two with
/// `count=2`; with `op=read` only reads count.
#[test]
fn every_nth_exactly() {
    let ends = run(serial(), &["error every=3"], 0, &reads(10));
    assert_eq!(failed(&ends), [2, 5, 8]);
    assert_eq!(ends[2], (3000, 5), "it takes its time all the same");
    assert_eq!(failed(&run(serial(), &["error every=3 count=2"], 0, &reads(10))), [2, 5]);
    let mixed: Vec<_> = (0..10)
        .map(|place| (if place % 2 == 0 { Op::Write } else { Op::Read }, place * 8, 8))
        .collect();
    // The reads are at 1, 3, 5, 7, 9: the second and fourth of them fail.
    assert_eq!(failed(&run(serial(), &["error every=2 op=read errno=7"], 0, &mixed)), [3, 7]);
}

/// Q1. A range is from its first byte up to its end: [1 MiB, 2 MiB) is sectors 2048 to 4095.
#[test]
fn ranges_by_hand() {
    let places = [(2040, 8), (2040, 9), (2048, 1), (4095, 1), (4095, 100), (4096, 8), (2000, 2200)];
    let bios: Vec<_> =
        places.iter().map(|&(sector, sectors)| (Op::Read, sector, sectors)).collect();
    // Up to 2047: no; one sector more: yes; …; from 4096: no; all of it: yes.
    assert_eq!(failed(&run(serial(), &["error range=1m-2m"], 0, &bios)), [1, 2, 3, 4, 6]);
    // A flush has no place.
    let flush = [(Op::Flush, 0, 0)];
    assert_eq!(failed(&run(serial(), &["error range=0-1t"], 0, &flush)), Vec::<usize>::new());
    assert_eq!(failed(&run(serial(), &["error op=flush"], 0, &flush)), [0]);
}

/// Q1. A window of time counts when a command comes to the device: with depth 32 and one server,
/// reads 0 to 31 come at zero and the n-th after them at n - 31 ms; those from 3 to 5 ms are 34
/// and 35.
#[test]
fn windows_of_time() {
    let ends = run(serial(), &["error from=3ms to=5ms"], 0, &reads(40));
    assert_eq!(failed(&ends), [34, 35]);
}

/// Q2. Delays add exactly, and hold up no other command: 1 ms + 10 us + 20 us for the second of
/// three.
#[test]
fn delays_add() {
    let rules = ["delay every=2 time=10us count=1", "delay range=4k-8k time=20us"];
    let ends = run(parallel(), &rules, 0, &reads(3));
    assert_eq!(ends, [(1000, 0), (1030, 0), (1000, 0)]);
    // On one server: the work of the third goes on while the second's answer is held back.
    let ends = run(serial(), &["delay every=2 time=5ms count=1"], 0, &reads(3));
    assert_eq!(ends, [(1000, 0), (7000, 0), (3000, 0)]);
}

/// Q2. A stall holds up everything by its length. The third of four reads stalls the device as it
/// comes, at zero: 1 to 4 ms become 51 to 54. A stall at 1 ms (the 33rd read) spares the first.
#[test]
fn stalls_stop_the_device() {
    let ends = run(serial(), &["stall every=3 time=50ms"], 0, &reads(4));
    assert_eq!(ends, [(51_000, 0), (52_000, 0), (53_000, 0), (54_000, 0)]);
    let ends = run(serial(), &["stall every=33 time=50ms"], 0, &reads(33));
    assert_eq!((ends[0], ends[1], ends[32]), ((1000, 0), (52_000, 0), (83_000, 0)));
    // Two stalls at one instant are one, the longer.
    let rules = ["stall every=1 count=1 time=50ms", "stall every=1 count=1 time=20ms"];
    assert_eq!(run(serial(), &rules, 0, &reads(1)), [(51_000, 0)]);
}

/// Q2. A refused command is issued again, and nothing is lost. With nothing else in the device the
/// retry comes after 3 ms (BLK-9): 3 refusals and 1 ms of work.
#[test]
fn refused_commands_come_again() {
    assert_eq!(run(serial(), &["refuse count=3"], 0, &reads(1)), [(10_000, 0)]);
    let ends = run(serial(), &["refuse every=2"], 0, &reads(20));
    assert!(failed(&ends).is_empty());
}

/// Q2. A slow command takes that many times as long, counted from its arrival, and the larger
/// factor counts: on one server reads that come at zero end after 1, 2 and 3 ms; the second
/// completes at 2 * 5.
#[test]
fn slow_is_a_multiple() {
    let rules = ["slow factor=3 every=2", "slow factor=5 every=2"];
    assert_eq!(run(serial(), &rules, 0, &reads(3)), [(1000, 0), (10_000, 0), (3000, 0)]);
    // At depth 32 the places stay taken: the 33rd begins when the first completes, at 10 ms.
    let ends = run(parallel(), &["slow factor=10"], 0, &reads(33));
    assert_eq!((ends[0], ends[31], ends[32]), ((10_000, 0), (10_000, 0), (20_000, 0)));
}

/// Q2. A throttle of 2,048,000 bytes a second releases 4 KiB every 2 ms, and makes nothing earlier:
/// the first is released at 2 ms, the n-th at 2n, though the device takes 1 ms.
#[test]
fn a_throttle_is_a_rate() {
    let ends = run(parallel(), &["throttle rate=2048000"], 0, &reads(4));
    assert_eq!(ends, [(2000, 0), (4000, 0), (6000, 0), (8000, 0)]);
    let ends = run(parallel(), &["throttle rate=1g"], 0, &reads(2));
    assert_eq!(ends, [(1000, 0), (1000, 0)], "fast enough for the device");
}

/// Q2. The first error is the error.
#[test]
fn the_first_error_counts() {
    let ends = run(serial(), &["error errno=28 every=2", "error errno=5"], 0, &reads(2));
    assert_eq!(ends, [(1000, 5), (2000, 28)]);
}

/// Q3. One in ten of 2000, by chance: 200 within four standard deviations (13.4 each), the same on
/// every run of a seed, others on another seed; and a count is an upper bound.
#[test]
fn chance_is_fair_and_repeatable() {
    let rule = ["error probability=0.1"];
    let once = failed(&run(parallel(), &rule, 7, &reads(2000)));
    assert!((147..=253).contains(&once.len()), "{} of 2000", once.len());
    assert_eq!(once, failed(&run(parallel(), &rule, 7, &reads(2000))));
    assert_ne!(once, failed(&run(parallel(), &rule, 8, &reads(2000))));
    let capped = failed(&run(parallel(), &["error probability=0.1 count=5"], 7, &reads(2000)));
    assert_eq!(capped, once[..5]);
}

proptest! {
    /// Q4. Whatever the rules: every I/O ends once (the run asserts it), never before it came, and
    /// only with errors of the rules.
    #[test]
    fn nothing_is_lost(
        rules in prop::collection::vec(prop::sample::select(vec![
            "error every=3", "error probability=0.2 errno=9", "delay every=2 time=700us",
            "delay probability=0.5 time=3ms", "stall every=5 time=2ms", "stall every=7 time=9ms",
            "refuse every=4", "refuse probability=0.3", "refuse to=4ms",
            "error range=0-64k op=write", "slow factor=3 every=2", "throttle rate=10m",
        ]), 0..5),
        seed in any::<u64>(), count in 1u64..80, one_server in any::<bool>()
    ) {
        let device = if one_server { serial() } else { parallel() };
        let ends = run(device, &rules, seed, &reads(count));
        prop_assert!(ends.iter().all(|&(at, errno)| at >= 1000 && [0, 5, 9].contains(&errno)));
    }
}
