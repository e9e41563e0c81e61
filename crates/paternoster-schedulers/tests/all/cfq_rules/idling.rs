// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeping the device free on purpose. CFQ-26 to CFQ-31; idling for groups; the permit of a client
//! that is idled for; 16.3, 16.6.

use paternoster_core::{
    Bio, ClientId, ClientSpec, DeviceFacts, GroupId, GroupSpec, Nanos, Op, SubmitError, Waiting,
};

use super::{FAR, each, ended, idled_for};
use crate::common::closed_loop::{ClosedLoop, Reader};
use crate::common::driver::{Rig, disk};

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// A read of `client` begins and ends, `took` ms later.
fn read_in(rig: &mut Rig, client: ClientId, sector: u64, took: u64) {
    rig.read(client, sector, 8);
    rig.pull();
    rig.now += ms(took);
    rig.complete_oldest();
    rig.pull();
}

/// Do two sequential readers alternate in slices of about 100 ms, while the other's request waits?
/// A request takes 1 ms, the next comes 0.1 ms later. A slice begins with the end of its first
/// request and lasts until one ends after 100 ms.
#[test]
fn cfq_26_readers_take_turns_in_slices() {
    each(1, |preset, rig| {
        let mut run = closed(rig, 2);
        run.run(Nanos::from_secs(2), |_| ms(1));
        let turns = run.turns();
        // 2 s of 101 ms each: 19, and one that has just begun.
        assert!((19..=20).contains(&turns.len()), "{preset}: {}", turns.len());
        for (turn, next) in turns.iter().zip(&turns[1..]) {
            assert_ne!(turn.0, next.0);
            let lasts = (next.1 - turn.1).as_micros();
            assert!((100_000..=103_000).contains(&lasts), "{preset}: {lasts} us");
        }
    });
}

/// If the active reader stops asking, does its slice end after 8 ms, and is the other served then
/// and not before?
#[test]
fn cfq_27_who_stays_away_loses_the_slice() {
    each(1, |preset, mut rig| {
        let [client, other] = [(); 2].map(|()| rig.client());
        rig.read(client, 0, 8);
        rig.pull();
        rig.read(other, FAR, 8);
        rig.at(5);
        rig.complete_oldest();
        assert_eq!(rig.pulled(), []);
        assert_eq!((rig.why, rig.until), (Waiting::Idling, Some(ms(13))), "{preset}");
        assert_eq!(idled_for(&rig), [client]);
        rig.at_us(12_999);
        assert_eq!(rig.pulled(), []);
        rig.at(13);
        assert_eq!(rig.pulled(), [FAR], "{preset}");
        assert_eq!(ended(&rig), [client]);
    });
}

/// For how many requests the device idled while one reader, which comes back in time, had 20.
fn idled(rig: Rig, readers: usize) -> usize {
    let mut run = closed(rig, readers);
    run.run(ms(20), |_| ms(1));
    idled_for(&run.rig).len()
}

fn closed(mut rig: Rig, readers: usize) -> ClosedLoop {
    let place = |number: usize| number as u64 * FAR;
    let readers: Vec<Reader> =
        (0..readers).map(|number| Reader::forward(rig.client(), place(number), 8)).collect();
    ClosedLoop::new(rig, &readers)
}

fn without_group_idle(preset: &str, mut rig: Rig) -> Rig {
    if preset != "cfq" {
        rig.set("group_idle", "0");
    }
    rig
}

/// With slice_idle=0, is the timer never set for a queue, with one reader or two? With 8 ms it is,
/// for each of 18 requests of 1.1 ms in 20 ms (two of them through the other's slice).
#[test]
fn cfq_29_without_slice_idle_the_timer_is_never_set() {
    for readers in [1, 2] {
        each(1, |preset, rig| {
            let mut rig = without_group_idle(preset, rig);
            rig.set("slice_idle", "0");
            assert_eq!(idled(rig, readers), 0, "{preset}");
        });
        each(1, |preset, rig| assert!(idled(rig, readers) >= 16, "{preset}"));
    }
}

fn flash(depth: u32, preset: &str, ncq: &str) -> Rig {
    let facts = DeviceFacts { depth, rotational: false, ..DeviceFacts::default() };
    let mut rig = Rig::new(facts, preset);
    rig.set("ncq", ncq);
    rig.set("slice_idle", "4");
    rig
}

/// On flash that queues commands, or of which that is not known yet, is the timer never set for a
/// queue; in 3.6 nor for a group? On flash that is known not to it is.
#[test]
fn cfq_30_no_idling_on_flash_that_queues() {
    for preset in ["cfq", "cfq-3.6"] {
        for ncq in ["declared", "probe"] {
            assert_eq!(idled(flash(32, preset, ncq), 1), 0, "{preset} {ncq}");
        }
        assert!(idled(flash(1, preset, "declared"), 1) >= 16, "{preset}");
    }
}

/// In 4.19, is it set there as long as group_idle is (16.3): by the clause of the last of a tree
/// for slice_idle, otherwise for group_idle; and never without both?
#[test]
fn cfq_30_in_4_19_group_idle_keeps_the_timer() {
    for (slice, group, until) in [("4", "8", Some(5)), ("0", "8", Some(9)), ("4", "0", None)] {
        let mut rig = flash(32, "cfq-4.19", "declared");
        rig.set("slice_idle", slice);
        rig.set("group_idle", group);
        let client = rig.client();
        read_in(&mut rig, client, 0, 1);
        assert_eq!(rig.until, until.map(ms), "{slice} {group}");
    }
}

/// While the device idles for the only busy queue, does a page go at once, because `next` is always
/// called, and does the timer run on and end the slice with that request in flight (16.6)? Two
/// pages stop the timer. So does one page with another busy queue.
#[test]
fn cfq_31_a_page_does_not_stop_the_timer() {
    for (sectors, others, stops) in [(8, false, false), (16, false, true), (8, true, true)] {
        each(1, |preset, mut rig| {
            let [client, other] = [(); 2].map(|()| rig.client());
            read_in(&mut rig, client, 0, 5);
            assert_eq!(rig.until, Some(ms(13)));
            if others {
                rig.read(other, FAR, 8);
            }
            rig.at(10);
            rig.read(client, 8, sectors);
            assert_eq!(rig.pulled(), [8], "{preset}");
            assert_eq!(rig.until, (!stops).then_some(ms(13)), "{preset} {sectors} {others}");
            rig.at(13);
            rig.pull();
            assert_eq!(ended(&rig).len(), usize::from(!stops), "{preset} {sectors} {others}");
            assert_eq!(rig.inside.len(), 1);
        });
    }
}

/// Two groups with a reader each, and the first group. slice_idle is 0.
fn two_groups(mut rig: Rig) -> (Rig, [ClientId; 2], GroupId) {
    rig.set("slice_idle", "0");
    let spec = GroupSpec::new().weight(500);
    let groups =
        [(); 2].map(|()| rig.queue.add_group(Nanos::ZERO, spec).expect("room for a group"));
    let clients = groups.map(|group| rig.client_with(ClientSpec::new().group(group)));
    (rig, clients, groups[0])
}

/// From 2.6.37 on, does group_idle reserve the device for the last queue of a group? After 8 ms the
/// other group has its turn. It has it at once in 2.6.34, with group_idle=0, or if the first group
/// has another queue.
#[test]
fn a_group_is_idled_for() {
    for (group_idle, companion) in [(true, false), (false, false), (true, true)] {
        each(1, |preset, rig| {
            let rig = if group_idle { rig } else { without_group_idle(preset, rig) };
            let (mut rig, [client, other], group) = two_groups(rig);
            rig.read(client, 0, 8);
            rig.pull();
            rig.read(other, FAR, 8);
            if companion {
                let companion = rig.client_with(ClientSpec::new().group(group));
                rig.read(companion, 2 * FAR, 8);
            }
            rig.at(5);
            rig.complete_oldest();
            let waits = preset != "cfq" && group_idle && !companion;
            assert_eq!(rig.pulled().is_empty(), waits, "{preset} {group_idle} {companion}");
            assert_eq!(idled_for(&rig).len(), usize::from(waits));
            if waits {
                assert_eq!(rig.until, Some(ms(13)));
                rig.at(13);
                assert_eq!(rig.pulled(), [FAR]);
            }
        });
    }
}

/// From 2.6.37 on, is a group not left while its last queue has requests in flight, although no
/// queue is idled for?
#[test]
fn a_group_with_requests_in_flight_is_not_left() {
    for preset in super::LATER {
        for (group_idle, gone) in [("8", 0), ("0", 1)] {
            let (mut rig, [client, other], _) = two_groups(Rig::new(disk(4), preset));
            rig.set("group_idle", group_idle);
            rig.read(client, 0, 8);
            rig.pull();
            rig.read(other, FAR, 8);
            assert_eq!(rig.pull().len(), gone, "{preset} {group_idle}");
        }
    }
}

/// Two clients, a group each. The first has had one request served, so that its slice runs from 1
/// to 101 ms, and has another in the device; the other waits.
fn in_the_first_slice(rig: Rig) -> (Rig, [ClientId; 2]) {
    let (mut rig, clients, _) = two_groups(rig);
    let [client, other] = clients;
    rig.set("slice_idle", "8");
    rig.read(client, 0, 8);
    rig.read(client, 100, 8);
    rig.pull();
    rig.read(other, FAR, 8);
    rig.at(1);
    rig.complete_oldest();
    rig.pull();
    (rig, clients)
}

/// Is the sole queue of a group waited for when its slice has just been used up, so that the group
/// keeps its place, and does the next group have its turn as soon as it comes back? The first ends
/// at 1 ms, the slice at 101.
#[test]
fn a_group_keeps_its_place_until_its_queue_is_busy() {
    each(1, |preset, rig| {
        let (mut rig, [client, _]) = in_the_first_slice(rig);
        rig.at(102);
        rig.complete_oldest();
        assert_eq!(rig.pulled(), [], "{preset}");
        assert_eq!((idled_for(&rig), ended(&rig)), (vec![client], vec![]));
        rig.at(104);
        rig.read(client, 200, 8);
        assert_eq!(rig.pulled(), [FAR], "{preset}");
        assert_eq!(ended(&rig), [client]);
    });
}

/// Also when no more than a jiffy is left of its slice, 1 ms where time is exact? The slice ends at
/// 101 ms; the request ends before, the next comes 0.2 ms later.
#[test]
fn a_group_keeps_its_place_in_the_last_jiffy() {
    for (hz, end, next) in [("0", 100_500, FAR), ("0", 99_900, 200), ("1000", 100_000, FAR)] {
        each(1, |preset, mut rig| {
            rig.set("hz", hz);
            let (mut rig, [client, _]) = in_the_first_slice(rig);
            rig.at_us(end);
            rig.complete_oldest();
            assert_eq!(rig.pulled(), []);
            rig.at_us(end + 200);
            rig.read(client, 200, 8);
            assert_eq!(rig.pulled(), [next], "{preset} {hz} {end}");
        });
    }
}

/// May a client that the device idles for get one request beyond `nr_requests`? There are four, and
/// another client holds them all.
#[test]
fn who_is_waited_for_has_a_permit() {
    each(1, |preset, mut rig| {
        rig.set("nr_requests", "4");
        let [client, other, third] = [(); 3].map(|()| rig.client());
        read_in(&mut rig, client, 0, 5);
        for n in 0..4 {
            rig.read(other, FAR + n * 100, 8);
        }
        let bio = |client, sector| Bio::new(client, Op::Read, sector, 8);
        assert_eq!(rig.try_submit(bio(third, 2 * FAR)), Err(SubmitError::Busy), "{preset}");
        assert!(rig.try_submit(bio(client, 100)).is_ok(), "{preset}");
        assert_eq!(rig.try_submit(bio(client, 300)), Err(SubmitError::Busy), "{preset}");
    });
}
