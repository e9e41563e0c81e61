// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which client gets a tag that became free, under mq rules: the laws R1 to R6 of
//! `block/admission`, one by one. Their purpose, to avoid loads in which a client gets nothing
//! for ever, is judged by `paternoster-torture/tests/all/drawn_loads`.

use paternoster_core::elevator::Rules;
use paternoster_core::{Bio, ClientId, Limits, Nanos, Op, SubmitError};

use crate::common::driver::{Rig, Scripted, disk};

fn read(client: ClientId, sector: u64) -> Bio {
    Bio::new(client, Op::Read, sector, 8).cookie(sector)
}

fn write(client: ClientId, sector: u64) -> Bio {
    Bio::new(client, Op::Write, sector, 8).cookie(sector)
}

/// Four tags, of which writes may have the first three (DL-9: 3 * 4/4), all taken by reads at
/// sectors 0, 1000, 2000, 3000, which have the positions 3 to 0.
fn full_of_reads() -> Rig {
    let mut rig = Rig::new(disk(8), "mq-deadline");
    rig.set("nr_requests", "4");
    let reader = rig.client();
    for sector in [0, 1000, 2000, 3000] {
        rig.submit(read(reader, sector));
    }
    assert_eq!(rig.pull().len(), 4);
    rig
}

/// R2: is a sleeper skipped if the freed tag is not for it, and the next one woken? And is it first
/// in line when one of its own tags becomes free, with others asleep after it?
#[test]
fn r2_a_freed_tag_goes_to_the_first_that_may_have_it() {
    let mut rig = full_of_reads();
    let [writer, one, other] = [(); 3].map(|()| rig.client());
    assert_eq!(rig.try_submit(write(writer, 5000)), Err(SubmitError::Busy));
    assert_eq!(rig.try_submit(read(one, 6000)), Err(SubmitError::Busy));
    assert_eq!(rig.try_submit(read(other, 7000)), Err(SubmitError::Busy));
    rig.complete_at(0);
    rig.pull();
    assert_eq!(rig.wakes, [one], "position 3 is not for writes");
    rig.submit(read(one, 6000));
    rig.complete_at(1000);
    rig.pull();
    assert_eq!(rig.wakes, [one, writer]);
    rig.submit(write(writer, 5000));
}

/// R2: does a limit apply to positions, not to counts? A write is refused while only position 3 is
/// free, though there are no other writes; once position 0 is free, it is accepted.
#[test]
fn r2_a_limit_is_one_of_positions() {
    let mut rig = full_of_reads();
    let writer = rig.client();
    rig.complete_at(0);
    rig.pull();
    assert_eq!(rig.try_submit(write(writer, 5000)), Err(SubmitError::Busy));
    rig.complete_at(3000);
    rig.pull();
    assert_eq!(rig.wakes, [writer]);
    rig.submit(write(writer, 5000));
}

/// R4: may a client that is awake take a tag between a wake and its answer, but not twice from the
/// same sleeper?
#[test]
fn r4_a_sleeper_is_passed_over_once() {
    for elevator in ["mq-deadline", "bfq", "kyber"] {
        let mut rig = Rig::new(disk(8), elevator);
        rig.set("nr_requests", "1");
        let [quick, slow] = [(); 2].map(|()| rig.client());
        rig.submit(read(quick, 0));
        assert_eq!(rig.try_submit(read(slow, 9000)), Err(SubmitError::Busy));
        rig.pull();
        rig.complete_oldest();
        rig.submit(read(quick, 1000));
        rig.pull();
        assert_eq!(rig.wakes, [slow], "{elevator}");
        assert_eq!(rig.try_submit(read(slow, 9000)), Err(SubmitError::Busy), "{elevator}");
        rig.complete_oldest();
        assert_eq!(rig.try_submit(read(quick, 2000)), Err(SubmitError::Busy), "{elevator}");
        rig.pull();
        // No client holds anything, so all are woken; but the one that waited longest first.
        assert_eq!(rig.wakes, [slow, slow, quick], "{elevator}");
        rig.submit(read(slow, 9000));
    }
}

/// Do several clients that are woken at once, and find only one tag, keep their order? Reversed
/// each time, the last two of three got nothing for ever.
#[test]
fn woken_in_vain_they_keep_their_order() {
    let (elevator, _script) = Scripted::with_script(Rules::Mq);
    let mut rig = Rig::with(disk(1), Limits::default(), elevator);
    rig.set("nr_requests", "1");
    let all = [(); 3].map(|()| rig.client());
    let mut got = [0; 3];
    let place = |client| all.iter().position(|&it| it == client).expect("one of them");
    for (number, &client) in (0..).zip(&all) {
        let _one_of_three = rig.try_submit(read(client, 1000 * number));
    }
    assert_eq!(rig.try_submit(read(all[0], 3000)), Err(SubmitError::Busy));
    for turn in 0..30u64 {
        rig.pull();
        for client in std::mem::take(&mut rig.wakes) {
            if rig.try_submit(read(client, 5000 + 1000 * turn)).is_ok() {
                got[place(client)] += 1;
                // It always has one more.
                let _asleep = rig.try_submit(read(client, 90_000 + 1000 * turn));
            }
        }
        rig.pull();
        rig.complete_oldest();
    }
    assert!(got.iter().all(|&got| got >= 9), "{got:?} of 30");
}

/// R6: is a client that may have none yet, though one is free, woken when it may, without anything
/// that ends? And has it one at once while none is in use?
#[test]
fn r6_what_is_kept_is_not_kept_for_longer() {
    let (elevator, script) = Scripted::with_script(Rules::Mq);
    let mut rig = Rig::with(disk(8), Limits::default(), elevator);
    let [first, late] = [(); 2].map(|()| rig.client());
    let until = Nanos::from_millis(5);
    script.later(late, until);
    rig.submit(read(late, 1000));
    rig.pull();
    rig.complete_oldest();
    rig.submit(read(first, 2000));
    assert_eq!(rig.try_submit(read(late, 3000)), Err(SubmitError::Busy));
    rig.pull();
    assert_eq!((rig.wakes.len(), rig.until), (0, Some(until)));
    rig.at(5);
    rig.pull();
    assert_eq!((&rig.wakes[..], rig.until), (&[late][..], None));
    rig.submit(read(late, 3000));
}

/// R6: does a client get what is free although others are in line, if these may not have it?
#[test]
fn r6_one_behind_those_that_may_have_none_is_woken_at_once() {
    let (elevator, script) = Scripted::with_script(Rules::Mq);
    script.in_turn();
    let mut rig = Rig::with(disk(8), Limits::default(), elevator);
    rig.set("nr_requests", "2");
    let [first, late, last] = [(); 3].map(|()| rig.client());
    rig.submit(read(first, 1000));
    rig.submit(read(first, 2000));
    rig.pull();
    assert_eq!(rig.try_submit(read(late, 3000)), Err(SubmitError::Busy));
    script.later(late, Nanos::from_secs(1));
    rig.complete_oldest();
    rig.pull();
    assert_eq!(rig.wakes, []);
    assert_eq!(rig.try_submit(read(last, 4000)), Err(SubmitError::Busy), "not before the other");
    rig.pull();
    assert_eq!(rig.wakes, [last]);
    rig.submit(read(last, 4000));
}
