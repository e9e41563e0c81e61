// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of the block core, one by one: BLK-1 to BLK-17. What the contract of the queue says
//! beside them is in `queue_contract.rs`.
//!
//! Each test is named after its rule in `docs/rules/block.md` and opens with the question it
//! answers.
//!
//! # Rules without a test
//! * BLK-13 (`rq_affinity`): one thread, no completion CPU to choose.
//! * BLK-8, shared tag sets and several hardware queues: one queue has all the tags.
//! * BLK-9, `dispatch_busy`: a caller pulls one command at a time, there is no round whose size it
//!   would choose.
//! * BLK-6, several queues in one plug, and FLUSH/FUA on it: a plug has one queue here, and what
//!   orders the cache goes to the flush sequencer at once.
//! * BLK-10, positions FRONT and BACK: no caller inserts there; a forced dispatch is what is left
//!   of them.

use std::sync::atomic::Ordering;

use paternoster_core::elevator::Rules;
use paternoster_core::{
    Action, Bio, Class, ClientId, ClientSpec, DeviceFacts, Flags, GroupSpec, Limits, Nanos, Op,
    Priority, SubmitError, Waiting, elevators,
};

use crate::common::driver::{Rig, Scripted, device_plugged, disk, limits, shape};

/// A disk of depth 32 with a write cache and FUA: everything that can forbid a merge.
fn cached_disk() -> DeviceFacts {
    DeviceFacts { write_cache: true, fua: true, ..disk(32) }
}

// ------------------------------------------------------------------------------------------- BLK-1

/// Does a bio that adjoins a waiting request become part of it, behind and before? 8+8+8 = 24
/// sectors from 0, and the cookies come in the order of the sectors.
#[test]
fn blk_1_back_and_front_merge() {
    for elevator in ["noop", "deadline", "mq-deadline", "kyber"] {
        let mut rig = Rig::new(disk(1), elevator);
        let client = rig.client();
        for sector in [8, 16, 0] {
            rig.read(client, sector, 8);
        }
        let commands = rig.pull();
        assert_eq!(shape(&commands), [(Op::Read, 0, 24)], "{elevator}");
        let cookies: Vec<_> = rig.queue.cookies(commands[0].tag).collect();
        assert_eq!(cookies, [0, 8, 16], "{elevator}");
        rig.complete_oldest();
        rig.pull();
        assert_eq!(rig.done.len(), 3, "one end for each bio");
    }
}

/// What forbids a merge of two adjacent bios? One command if nothing does, two if something does.
#[test]
fn blk_1_what_forbids_a_merge() {
    let none = Flags::NONE;
    /// What, the first bio, the second, and how many commands they become.
    type Case = (&'static str, (Op, Flags), (Op, Flags), usize);
    let cases: &[Case] = &[
        ("two reads", (Op::Read, none), (Op::Read, none), 1),
        ("two writes", (Op::Write, none), (Op::Write, none), 1),
        ("two discards", (Op::Discard, none), (Op::Discard, none), 1),
        ("another direction", (Op::Read, none), (Op::Write, none), 2),
        ("a discard behind a write", (Op::Write, none), (Op::Discard, none), 2),
        ("a write behind a discard", (Op::Discard, none), (Op::Write, none), 2),
        ("a bio marked NOMERGE", (Op::Write, none), (Op::Write, Flags::NOMERGE), 2),
        ("a request marked NOMERGE", (Op::Write, Flags::NOMERGE), (Op::Write, none), 2),
        ("a FUA bio", (Op::Write, none), (Op::Write, Flags::FUA), 2),
        ("a FUA request", (Op::Write, Flags::FUA), (Op::Write, none), 2),
        ("two FUA", (Op::Write, Flags::FUA), (Op::Write, Flags::FUA), 2),
    ];
    for elevator in ["noop", "deadline", "mq-deadline", "kyber"] {
        for &(what, first, second, commands) in cases {
            // Behind ([0, 8) first), then before ([8, 16) first).
            for (a, b) in [(0, 8), (8, 0)] {
                let mut rig = Rig::new(cached_disk(), elevator);
                let client = rig.client();
                rig.submit(Bio::new(client, first.0, a, 8).flags(first.1));
                rig.submit(Bio::new(client, second.0, b, 8).flags(second.1));
                assert_eq!(rig.pull().len(), commands, "{elevator}: {what}, {a} then {b}");
            }
        }
    }
}

/// Must they touch exactly? A gap of one sector and an overlap of one are two commands each.
#[test]
fn blk_1_a_gap_or_an_overlap_is_no_merge() {
    for second in [9, 7] {
        let mut rig = Rig::new(disk(2), "deadline");
        let client = rig.client();
        rig.read(client, 0, 8);
        rig.read(client, second, 8);
        assert_eq!(rig.pull().len(), 2, "0..8 and {second}..{}", second + 8);
    }
}

/// Does a request that has started grow no more, in the device and after a refusal (its barrier)?
#[test]
fn blk_1_a_started_request_grows_no_more() {
    for elevator in ["noop", "deadline", "mq-deadline", "kyber"] {
        for refused in [false, true] {
            let mut rig = Rig::new(disk(4), elevator);
            let client = rig.client();
            rig.read(client, 8, 8);
            assert_eq!(rig.pulled(), [8]);
            if refused {
                rig.refuse(8);
            }
            rig.read(client, 16, 8);
            rig.read(client, 0, 8);
            rig.at(3);
            let expected = if refused { 3 } else { 2 };
            let commands = rig.pull();
            assert_eq!(commands.len(), expected, "{elevator}, refused: {refused}");
            assert!(commands.iter().all(|command| command.sectors == 8));
        }
    }
}

/// Do modern rules merge only within a group and a priority, legacy rules across both?
#[test]
fn blk_1_mq_needs_the_same_group_and_priority() {
    for (elevator, strict) in [("deadline", false), ("mq-deadline", true)] {
        let mut rig = Rig::new(disk(32), elevator);
        let [one, two] = [0; 2].map(|_| rig.queue.add_group(GroupSpec::new()).unwrap());
        let a = rig.client_with(ClientSpec::new().group(one));
        let same = rig.client_with(ClientSpec::new().group(one));
        let other = rig.client_with(ClientSpec::new().group(two));
        let level = rig.client_with(ClientSpec::new().group(one).priority(Class::BestEffort, 5));
        let apart = if strict { 2 } else { 1 };
        for (what, second, commands) in
            [("same group", same, 1), ("other group", other, apart), ("other level", level, apart)]
        {
            rig.read(a, 0, 8);
            rig.read(second, 8, 8);
            assert_eq!(rig.serve().len(), commands, "{elevator}: {what}");
        }
        // A priority of the bio's own counts as its client's would.
        let own = Priority { class: Class::BestEffort, level: 3 };
        for (bio_priority, commands) in [(None, 1), (Some(own), apart)] {
            rig.read(a, 0, 8);
            rig.submit(Bio { priority: bio_priority, ..Bio::new(a, Op::Read, 8, 8) });
            assert_eq!(rig.serve().len(), commands, "{elevator}: {bio_priority:?}");
        }
    }
}

// ------------------------------------------------------------------------------------------- BLK-2

/// Does a request grow up to max_sectors and not beyond? Limit 24: 8+8+8 = 24 fits, 32 does not.
#[test]
fn blk_2_max_sectors() {
    let mut rig = Rig::new(DeviceFacts { max_sectors: 24, ..disk(2) }, "noop");
    let client = rig.client();
    for sector in [0, 8, 16, 24] {
        rig.read(client, sector, 8);
    }
    assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 24), (Op::Read, 24, 8)]);
}

/// Does a request grow up to max_segments? Limit 4: 2+2 = 4 fits, 5 does not.
#[test]
fn blk_2_max_segments() {
    let mut rig = Rig::new(DeviceFacts { max_segments: 4, ..disk(2) }, "noop");
    let client = rig.client();
    for (sector, segments) in [(0, 2), (8, 2), (16, 1)] {
        rig.submit(Bio { segments, ..Bio::new(client, Op::Read, sector, 8) });
    }
    assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 16), (Op::Read, 16, 8)]);
}

/// Is a request that was too full once never tried again? Limit 24, request [16, 32): 16 more do
/// not fit, the mark stays, and the 8 before it that would fit (24) become a command of their own.
#[test]
fn blk_2_a_full_request_is_never_tried_again() {
    let mut rig = Rig::new(DeviceFacts { max_sectors: 24, ..disk(4) }, "deadline");
    let client = rig.client();
    let first = rig.read(client, 16, 16);
    rig.read(client, 32, 16);
    assert!(rig.queue.request_with(first).unwrap().flags().contains(Flags::NOMERGE));
    rig.read(client, 8, 8);
    let mut commands = shape(&rig.pull());
    commands.sort_unstable();
    assert_eq!(commands, [(Op::Read, 8, 8), (Op::Read, 16, 16), (Op::Read, 32, 16)]);
}

/// Does a full request leave the one-hit cache, so that the stream behind it still merges under
/// nomerges=1? Limit 16: [0, 16) is full when [16, 24) comes, which is cached in its place and
/// takes [24, 32).
#[test]
fn blk_2_a_full_request_leaves_the_cache() {
    let mut rig = Rig::new(DeviceFacts { max_sectors: 16, ..disk(4) }, "noop");
    rig.set("nomerges", "1");
    let client = rig.client();
    for sector in [0, 8, 16, 24] {
        rig.read(client, sector, 8);
    }
    assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 16), (Op::Read, 16, 16)]);
}

/// Are bios beyond the limits refused, with both numbers? And do the limits start as Linux 6 has
/// them, 1280 KiB and 128?
#[test]
fn blk_2_defaults_and_refusals() {
    let mut rig = Rig::new(DeviceFacts::default(), "noop");
    assert_eq!((rig.get("max_sectors_kb"), rig.get("max_segments")), ("1280".into(), "128".into()));
    let client = rig.client();
    rig.read(client, 0, 2560);
    let refused = rig.try_submit(Bio::new(client, Op::Read, 0, 2561));
    assert_eq!(refused, Err(SubmitError::TooLarge { size: 2561, most: 2560 }));
    let bio = Bio { segments: 129, ..Bio::new(client, Op::Read, 0, 1024) };
    assert_eq!(rig.try_submit(bio), Err(SubmitError::TooLarge { size: 129, most: 128 }));
    // A lower max_sectors_kb counts from now on: 512 KiB = 1024 sectors.
    rig.set("max_sectors_kb", "512");
    let refused = rig.try_submit(Bio::new(client, Op::Read, 0, 1025));
    assert_eq!(refused, Err(SubmitError::TooLarge { size: 1025, most: 1024 }));
}

// ------------------------------------------------------------------------------------------- BLK-3

/// Is the one-hit cache tried before the hash? Two requests end at 8; the older is cached, the
/// younger stands first in the hash. The bio at 8 goes to the older: 16 and 8 sectors.
#[test]
fn blk_3_the_cache_comes_first() {
    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    let older = rig.read(client, 0, 8);
    let younger = rig.read(client, 0, 8);
    rig.read(client, 8, 8);
    let sectors = [older, younger].map(|ticket| rig.queue.request_with(ticket).unwrap().sectors());
    assert_eq!(sectors, [16, 8]);
}

/// Is the hash tried before the elevator's order? [8, 16) fits behind [0, 8) and before [16, 24):
/// it is a back merge (M), and the gap it closes is a second M; no F. The cache is elsewhere.
#[test]
fn blk_3_the_hash_comes_before_the_elevator() {
    let mut rig = Rig::new(disk(4), "deadline");
    let client = rig.client();
    for sector in [1000, 0, 16] {
        rig.read(client, sector, 8);
    }
    rig.forget_events();
    rig.read(client, 8, 8);
    assert_eq!(rig.letters(), "QMM");
    assert_eq!(shape(&rig.pull()), [(Op::Read, 1000, 8), (Op::Read, 0, 24)]);
}

/// Does only an elevator with an order find a front merge that is not cached? deadline does, noop
/// does not.
#[test]
fn blk_3_front_lookup_is_the_elevators() {
    for (elevator, letters) in [("deadline", "QF"), ("mq-deadline", "QF"), ("noop", "QGI")] {
        let mut rig = Rig::new(disk(4), elevator);
        let client = rig.client();
        rig.read(client, 1000, 8);
        rig.read(client, 16, 8);
        rig.forget_events();
        rig.read(client, 8, 8);
        assert_eq!(rig.letters(), letters, "{elevator}");
    }
}

/// What does nomerges leave? 0 everything, 1 the cache alone, 2 nothing. A cached request [0, 8)
/// and another [100, 108) get a back merge each, and [200, 208), not cached, a front merge: 3, then
/// 5 (only the first merges), then 6 commands.
#[test]
fn blk_3_nomerges() {
    for (nomerges, commands) in [("0", 3), ("1", 5), ("2", 6)] {
        for elevator in ["deadline", "mq-deadline"] {
            let mut rig = Rig::new(disk(32), elevator);
            rig.set("nomerges", nomerges);
            let client = rig.client();
            for sector in [0, 100, 200, 8, 108, 192] {
                rig.read(client, sector, 8);
            }
            assert_eq!(rig.pull().len(), commands, "{elevator}, nomerges={nomerges}");
        }
    }
}

// ------------------------------------------------------------------------------------------- BLK-4

/// Do two requests whose gap a front merge closes become one, with the earlier start? [16, 24) at 0
/// ms, [0, 8) at 5 ms, [8, 16) at 7 ms: one command of 24 that started at 0.
#[test]
fn blk_4_a_front_merge_closes_a_gap() {
    for elevator in ["deadline", "mq-deadline"] {
        let mut rig = Rig::new(disk(4), elevator);
        let client = rig.client();
        rig.read(client, 16, 8);
        rig.at(5);
        let survivor = rig.read(client, 0, 8);
        assert_eq!(rig.queue.request_with(survivor).unwrap().start(), Nanos::from_millis(5));
        rig.at(7);
        // The cache holds [16, 24): a front merge, which closes the gap on the other side.
        rig.read(client, 8, 8);
        assert_eq!(rig.queue.request_with(survivor).unwrap().start(), Nanos::ZERO);
        assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 24)], "{elevator}");
        assert_eq!((rig.count(Action::FrontMerge), rig.count(Action::BackMerge)), (1, 1));
    }
}

/// And those whose gap a back merge closes? The cache is elsewhere, so [8, 16) goes behind [0, 8).
#[test]
fn blk_4_a_back_merge_closes_a_gap() {
    let mut rig = Rig::new(disk(4), "deadline");
    let client = rig.client();
    rig.read(client, 1000, 8);
    rig.read(client, 16, 8);
    rig.at(5);
    let survivor = rig.read(client, 0, 8);
    rig.at(7);
    rig.read(client, 8, 8);
    assert_eq!(rig.queue.request_with(survivor).unwrap().start(), Nanos::ZERO);
    assert_eq!((rig.count(Action::FrontMerge), rig.count(Action::BackMerge)), (0, 2));
    assert_eq!(shape(&rig.pull()), [(Op::Read, 1000, 8), (Op::Read, 0, 24)]);
}

/// Do the limits count for the gap too? Limit 20: 8+4 = 12 fits, 12+12 = 24 does not.
#[test]
fn blk_4_limits_apply() {
    let mut rig = Rig::new(DeviceFacts { max_sectors: 20, ..disk(4) }, "deadline");
    let client = rig.client();
    for (sector, sectors) in [(0, 8), (12, 12), (8, 4)] {
        rig.read(client, sector, sectors);
    }
    assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 12), (Op::Read, 12, 12)]);
}

/// What priority has the survivor? Legacy: levels 7, 5 and 2 give 2, the best. Modern: unequal ones
/// stay three.
#[test]
fn blk_4_the_better_priority_or_none() {
    for (elevator, levels) in [("deadline", &[2][..]), ("mq-deadline", &[7, 5, 2])] {
        let mut rig = Rig::new(disk(4), elevator);
        let [a, b, c] = [7, 5, 2]
            .map(|level| rig.client_with(ClientSpec::new().priority(Class::BestEffort, level)));
        for (client, sector) in [(a, 0), (c, 16), (b, 8)] {
            rig.read(client, sector, 8);
        }
        let mut commands = rig.pull();
        commands.sort_by_key(|command| command.sector);
        let found: Vec<u8> = commands
            .iter()
            .map(|command| rig.queue.request_of(command.tag).unwrap().priority().level)
            .collect();
        assert_eq!(found, levels, "{elevator}");
    }
}

// ------------------------------------------------------------------------------------------- BLK-5

/// Does the plug of an empty queue hold three requests and open at the fourth?
#[test]
fn blk_5_four_waiting_requests_unplug() {
    let (mut rig, client) = device_plugged(disk(4));
    for sector in [0, 100, 200] {
        rig.read(client, sector, 8);
        assert!(rig.pull().is_empty());
        assert_eq!((rig.why, rig.until), (Waiting::Plugged, Some(Nanos::from_millis(3))));
    }
    rig.read(client, 300, 8);
    assert_eq!(rig.pulled(), [0, 100, 200, 300]);
    assert_eq!((rig.count(Action::Plug), rig.count(Action::Unplug)), (1, 1));
}

/// Does the count leave out what is in the device (allocated - in flight)? Three there and three
/// waiting stay plugged.
#[test]
fn blk_5_what_is_in_flight_does_not_count() {
    let (mut rig, client) = device_plugged(disk(8));
    for sector in [0, 100, 200, 300] {
        rig.read(client, sector, 8);
    }
    assert_eq!(rig.pull().len(), 4);
    for sector in [400, 500, 600] {
        rig.read(client, sector, 8);
        assert!(rig.pull().is_empty(), "7 allocated - 4 in flight = 3 < 4");
    }
    rig.read(client, 700, 8);
    assert_eq!(rig.pull().len(), 4);
}

/// Does the timer open it 3 ms after the first request, and not before?
#[test]
fn blk_5_the_timer_unplugs() {
    let (mut rig, client) = device_plugged(disk(1));
    rig.at(10);
    rig.read(client, 0, 8);
    rig.at(12);
    rig.read(client, 8, 8);
    rig.at_us(12_999);
    assert!(rig.pull().is_empty());
    rig.at(13);
    assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 16)], "10 + 3 ms, merged meanwhile");
    assert_eq!((rig.count(Action::UnplugTimer), rig.count(Action::Unplug)), (1, 0));
}

/// Is a timer that is due at the instant of a submission first, as the order at one instant says?
#[test]
fn timers_come_before_submissions() {
    let (mut rig, client) = device_plugged(disk(1));
    rig.at(10);
    rig.read(client, 0, 8);
    rig.at(13);
    rig.read(client, 800, 8);
    // Opened by the timer first: the second request finds a queue that is not empty and no plug.
    assert_eq!((rig.count(Action::UnplugTimer), rig.count(Action::Plug)), (1, 1));
    assert_eq!(rig.pulled(), [0]);
}

/// Does an explicit unplug open it at once?
#[test]
fn blk_5_an_explicit_unplug() {
    let (mut rig, client) = device_plugged(disk(1));
    rig.read(client, 0, 8);
    assert!(rig.pull().is_empty());
    rig.unplug(client);
    assert_eq!(rig.pulled(), [0]);
}

/// Does a client that sleeps for a request open it? Of 4 nominal requests 4 are in the device; the
/// batcher's fifth is plugged alone; the next client sleeps, and the fifth can go once there is
/// room.
#[test]
fn blk_5_a_sleeper_unplugs() {
    let (mut rig, a) = device_plugged(disk(5));
    rig.set("nr_requests", "4");
    let b = rig.client();
    for sector in [0, 100, 200, 300] {
        rig.read(a, sector, 8);
    }
    assert_eq!(rig.pull().len(), 4);
    rig.read(a, 400, 8);
    assert!(rig.pull().is_empty());
    assert_eq!(rig.why, Waiting::Plugged);
    assert_eq!(rig.try_submit(Bio::new(b, Op::Read, 500, 8)), Err(SubmitError::Busy));
    assert_eq!(rig.pulled(), [400]);
}

/// Which devices are plugged? All but flash that queues commands; what `rotational` says counts.
#[test]
fn blk_5_queueing_flash_is_not_plugged() {
    let flash = |depth| DeviceFacts { depth, ..DeviceFacts::default() };
    for (what, facts, plugs) in [
        ("disk, depth 1", disk(1), true),
        ("disk, depth 32", disk(32), true),
        ("flash, depth 1", flash(1), true),
        ("flash, depth 32", flash(32), false),
    ] {
        let (mut rig, client) = device_plugged(facts);
        rig.read(client, 0, 8);
        assert_eq!(rig.pull().is_empty(), plugs, "{what}");
    }
    let (mut rig, client) = device_plugged(flash(32));
    rig.set("rotational", "1");
    rig.read(client, 0, 8);
    assert!(rig.pull().is_empty(), "flash that is called rotational");
}

// ------------------------------------------------------------------------------------------- BLK-6

/// When is a legacy plug list full? 16 stay, the 17th sends them to the elevator first.
#[test]
fn blk_6_legacy_lists_hold_16() {
    let mut rig = Rig::new(disk(32), "deadline");
    let client = rig.client();
    rig.plug(client);
    for n in 0..16 {
        rig.read(client, n * 100, 8);
    }
    assert_eq!(rig.count(Action::Insert), 0);
    assert!(rig.pull().is_empty());
    assert_eq!(rig.why, Waiting::Plugged);
    rig.read(client, 1600, 8);
    assert_eq!(rig.count(Action::Insert), 16);
    rig.unplug(client);
    assert_eq!(rig.count(Action::Insert), 17);
    assert_eq!(rig.pull().len(), 17);
}

/// When is a list full under blk-mq? 32 stay, the 33rd sends them.
#[test]
fn blk_6_mq_lists_hold_32() {
    let mut rig = Rig::new(disk(64), "mq-deadline");
    let client = rig.client();
    rig.plug(client);
    for n in 0..32 {
        rig.read(client, n * 100, 8);
    }
    assert_eq!(rig.count(Action::Insert), 0);
    rig.read(client, 3200, 8);
    assert_eq!(rig.count(Action::Insert), 32);
}

/// Does a large newest request end a list under blk-mq? 128 KiB = 256 sectors do, 255 do not;
/// legacy does not care.
#[test]
fn blk_6_mq_lists_end_at_128_kib() {
    for (elevator, sectors, inserted) in
        [("mq-deadline", 256, 2), ("mq-deadline", 255, 0), ("deadline", 256, 0)]
    {
        let mut rig = Rig::new(disk(64), elevator);
        let client = rig.client();
        rig.plug(client);
        rig.read(client, 0, 8);
        rig.read(client, 1000, sectors);
        assert_eq!(rig.count(Action::Insert), 0);
        rig.read(client, 5000, 8);
        assert_eq!(rig.count(Action::Insert), inserted, "{elevator}, {sectors} sectors");
    }
}

/// Is a list flushed when its client sleeps? Of 2 tags (depth 1) both are in the plug, the third
/// bio sleeps.
#[test]
fn blk_6_a_sleeper_flushes_its_plug() {
    let mut rig = Rig::new(disk(1), "mq-deadline");
    let client = rig.client();
    rig.plug(client);
    rig.read(client, 0, 8);
    rig.read(client, 100, 8);
    assert!(rig.pull().is_empty());
    assert_eq!(rig.try_submit(Bio::new(client, Op::Read, 200, 8)), Err(SubmitError::Busy));
    assert_eq!(rig.pulled(), [0]);
    rig.complete_oldest();
    assert_eq!(rig.pulled(), [100]);
    assert_eq!(rig.wakes, [client]);
}

/// Does a client merge with its own plug first, on both sides, and with nobody else's?
#[test]
fn blk_6_plugs_are_private() {
    for elevator in ["deadline", "mq-deadline"] {
        let mut rig = Rig::new(disk(8), elevator);
        let [a, b] = [0; 2].map(|_| rig.client());
        rig.plug(a);
        rig.plug(b);
        rig.read(a, 8, 8);
        rig.read(a, 16, 8);
        rig.read(a, 0, 8);
        rig.read(b, 24, 8);
        // [0, 24) of a and [24, 32) of b.
        assert_eq!((rig.count(Action::Get), rig.count(Action::Insert)), (2, 0), "{elevator}");
    }
}

/// Does a legacy plug's request that continues a waiting one become part of it at insertion? [8,
/// 16) is plugged before [0, 8) comes to the elevator, so that only the insertion can find it.
#[test]
fn blk_6_legacy_merges_at_insertion() {
    for (nomerges, commands) in [("0", 1), ("1", 1), ("2", 2)] {
        let mut rig = Rig::new(disk(8), "deadline");
        rig.set("nomerges", nomerges);
        let [a, b] = [0; 2].map(|_| rig.client());
        rig.plug(a);
        rig.read(a, 8, 8);
        // [0, 8) is the first in the elevator, so it is cached: nomerges=1 finds it as well.
        rig.read(b, 0, 8);
        rig.unplug(a);
        assert_eq!(rig.pull().len(), commands, "nomerges={nomerges}");
    }
    // Not cached: nomerges=1 does not find it, 0 does.
    for (nomerges, commands) in [("0", 2), ("1", 3)] {
        let mut rig = Rig::new(disk(8), "deadline");
        rig.set("nomerges", nomerges);
        let [a, b] = [0; 2].map(|_| rig.client());
        rig.plug(a);
        rig.read(a, 8, 8);
        rig.read(b, 1000, 8);
        rig.read(b, 0, 8);
        rig.unplug(a);
        assert_eq!(rig.pull().len(), commands, "not cached, nomerges={nomerges}");
    }
}

// ------------------------------------------------------------------------------------------- BLK-7

/// Writes 8 sectors at a place that adjoins nothing. Whether there was a request.
fn scattered(rig: &mut Rig, client: ClientId, place: &mut u64) -> bool {
    *place += 100;
    rig.try_submit(Bio::new(client, Op::Write, *place, 8).cookie(*place)).is_ok()
}

/// A rig with `clients` clients on a disk of depth 32, and 128 async requests of the first, who
/// filled the pool.
fn full_pool(clients: u32) -> (Rig, Vec<ClientId>, u64) {
    let elevator = elevators::by_name("noop").unwrap();
    let mut rig = Rig::with(disk(32), limits(clients), elevator);
    let clients: Vec<_> = (0..clients).map(|_| rig.client()).collect();
    let mut place = 0;
    for _ in 0..128 {
        assert!(scattered(&mut rig, clients[0], &mut place));
    }
    assert_eq!(rig.queue.allocated(), (128, 0));
    (rig, clients, place)
}

/// When is a pool congested? On at 128-16+1 = 113, off below 128-16-8-1 = 103.
#[test]
fn blk_7_congestion() {
    let mut rig = Rig::new(disk(32), "noop");
    let client = rig.client();
    let mut place = 0;
    for count in 1..=113 {
        assert!(!rig.queue.is_congested(false), "before the {count}th");
        assert!(scattered(&mut rig, client, &mut place));
    }
    assert!(rig.queue.is_congested(false), "the 113th");
    assert!(!rig.queue.is_congested(true), "the pools are separate");
    while rig.queue.allocated().0 > 103 {
        rig.pull();
        rig.complete_oldest();
    }
    assert!(rig.queue.is_congested(false), "103");
    rig.pull();
    rig.complete_oldest();
    assert!(!rig.queue.is_congested(false), "102");
}

/// Does he who fills the pool finish a batch of 32 while others sleep? 127 + 32 = 159 for him, none
/// for the other.
#[test]
fn blk_7_a_batcher_has_32_requests() {
    let (mut rig, clients, mut place) = full_pool(2);
    assert!(!scattered(&mut rig, clients[1], &mut place), "the other sleeps at 128");
    while scattered(&mut rig, clients[0], &mut place) {}
    assert_eq!(rig.queue.allocated(), (159, 0));
}

/// Does a batch end after 20 ms? At 19.999 ms there is one more, at 20 ms none, though 30 of 32 are
/// left.
#[test]
fn blk_7_a_batch_lasts_20_ms() {
    let (mut rig, clients, mut place) = full_pool(1);
    rig.at_us(19_999);
    assert!(scattered(&mut rig, clients[0], &mut place));
    rig.at(20);
    assert!(!scattered(&mut rig, clients[0], &mut place));
}

/// Are sleepers woken in their order, one for each request that becomes free below 128?
#[test]
fn blk_7_sleepers_wake_in_order() {
    let (mut rig, clients, mut place) = full_pool(4);
    for &client in &clients[1..] {
        assert!(!scattered(&mut rig, client, &mut place));
    }
    for woken in 1..4 {
        rig.pull();
        assert_eq!(rig.wakes, clients[1..woken], "128 - {woken} + 1 allocated");
        rig.complete_oldest();
    }
    rig.pull();
    assert_eq!(rig.wakes, clients[1..]);
}

/// Is nobody woken while batchers hold more than the pool has? From 159 the 32nd completion (127
/// left) wakes the first.
#[test]
fn blk_7_no_wake_above_128() {
    let (mut rig, clients, mut place) = full_pool(2);
    assert!(!scattered(&mut rig, clients[1], &mut place));
    while scattered(&mut rig, clients[0], &mut place) {}
    for _ in 0..31 {
        rig.pull();
        rig.complete_oldest();
    }
    rig.pull();
    assert_eq!((rig.queue.allocated().0, rig.wakes.len()), (128, 0));
    rig.complete_oldest();
    rig.pull();
    assert_eq!(rig.wakes, [clients[1]]);
}

/// Is a woken client a batcher, and do even batchers stop at 128*3/2 = 192? Three were woken; each
/// may take 32, which would be 125 + 96 = 221.
#[test]
fn blk_7_the_woken_are_batchers_up_to_192() {
    let (mut rig, clients, mut place) = full_pool(4);
    for &client in &clients[1..] {
        assert!(!scattered(&mut rig, client, &mut place));
    }
    rig.pull();
    for _ in 0..3 {
        rig.complete_oldest();
    }
    rig.pull();
    assert_eq!((rig.queue.allocated().0, rig.wakes.len()), (125, 3));
    for &client in &clients[1..] {
        while scattered(&mut rig, client, &mut place) {}
        assert!(rig.queue.allocated().0 > 128, "he passed the nominal limit");
    }
    assert_eq!(rig.queue.allocated(), (192, 0));
}

/// Does an elevator that says MUST get its client past a full pool, up to the hard stop?
#[test]
fn blk_7_must_passes_a_full_pool() {
    let (elevator, script) = Scripted::with_script(Rules::Legacy);
    let mut rig = Rig::with(disk(32), Limits::default(), elevator);
    let [a, b] = [0; 2].map(|_| rig.client());
    let mut place = 0;
    for _ in 0..128 {
        assert!(scattered(&mut rig, a, &mut place));
    }
    assert!(!scattered(&mut rig, b, &mut place));
    script.must(true);
    while scattered(&mut rig, b, &mut place) {}
    assert_eq!(rig.queue.allocated(), (192, 0));
}

// ------------------------------------------------------------------------------------------- BLK-8

/// How many requests does a blk-mq queue start with? 2*min(depth, 128) with a scheduler, depth
/// without.
#[test]
fn blk_8_nr_requests_by_depth() {
    for (depth, scheduled, bare) in [(1, "2", "1"), (32, "64", "32"), (200, "256", "200")] {
        let mut rig = Rig::new(disk(depth), "mq-deadline");
        assert_eq!(rig.get("nr_requests"), scheduled, "depth {depth}");
        rig.queue.change_elevator(Nanos::ZERO, elevators::by_name("none").unwrap());
        assert_eq!(rig.get("nr_requests"), bare, "depth {depth}");
    }
    // The most is 10240, of a queue that was made for so many.
    let limits = Limits { requests: 20_000, bios: 20_000, ..Limits::default() };
    let mut rig = Rig::with(disk(32), limits, elevators::by_name("mq-deadline").unwrap());
    rig.set("nr_requests", "99999");
    assert_eq!(rig.get("nr_requests"), "10240");
}

/// Do the tags bound what is allocated, and the driver's tags what is in the device? Depth 4: 8
/// requests, 4 commands.
#[test]
fn blk_8_tags_at_allocation_and_at_dispatch() {
    let mut rig = Rig::new(disk(4), "mq-deadline");
    let [a, b] = [0; 2].map(|_| rig.client());
    for n in 0..8 {
        rig.read(a, n * 100, 8);
    }
    assert_eq!(rig.try_submit(Bio::new(b, Op::Read, 5000, 8)), Err(SubmitError::Busy));
    assert_eq!((rig.pull().len(), rig.why), (4, Waiting::DeviceFull));
    assert_eq!(rig.queue.in_device(), 4);
    rig.complete_oldest();
    assert_eq!(rig.pull().len(), 1);
    assert_eq!(rig.wakes, [b]);
    rig.read(b, 5000, 8);
}

/// Does an elevator's own limit hold some kinds of I/O back, with 0 as 1, and wake them in time?
#[test]
fn blk_8_at_most() {
    for (most, admitted) in [(3, 3), (0, 1)] {
        let (elevator, script) = Scripted::with_script(Rules::Mq);
        let mut rig = Rig::with(disk(32), Limits::default(), elevator);
        script.at_most(most);
        let [a, b] = [0; 2].map(|_| rig.client());
        let mut place = 0;
        for _ in 0..admitted {
            assert!(scattered(&mut rig, a, &mut place));
        }
        assert!(!scattered(&mut rig, b, &mut place), "at most {most}");
        rig.pull();
        assert!(rig.wakes.is_empty());
        rig.complete_oldest();
        rig.pull();
        assert_eq!(rig.wakes, [b]);
        assert!(scattered(&mut rig, b, &mut place));
    }
}

// ------------------------------------------------------------------------------------------- BLK-9

/// Is a device that refused with nothing under way asked again after 3 ms? Refused at 1 ms: at 4,
/// not at 3.999.
#[test]
fn blk_9_retry_after_3_ms() {
    for elevator in ["noop", "mq-deadline"] {
        let mut rig = Rig::new(disk(4), elevator);
        let client = rig.client();
        rig.at(1);
        rig.read(client, 0, 8);
        assert_eq!(rig.pulled(), [0]);
        rig.refuse(0);
        assert!(rig.pull().is_empty());
        assert_eq!((rig.why, rig.until), (Waiting::Refused, Some(Nanos::from_millis(4))));
        rig.at_us(3_999);
        assert!(rig.pull().is_empty());
        rig.at(4);
        assert_eq!(rig.pulled(), [0], "{elevator}");
    }
}

/// With something under way, is its end the moment to try again, however late or early? No timer
/// runs; at 0.5 ms it ends.
#[test]
fn blk_9_retry_at_the_next_completion() {
    for elevator in ["noop", "mq-deadline"] {
        let mut rig = Rig::new(disk(4), elevator);
        let client = rig.client();
        rig.read(client, 0, 8);
        rig.read(client, 100, 8);
        assert_eq!(rig.pulled(), [0, 100]);
        rig.refuse(100);
        assert!(rig.pull().is_empty());
        assert_eq!((rig.why, rig.until), (Waiting::Refused, None));
        rig.at_us(500);
        rig.complete_oldest();
        assert_eq!(rig.pulled(), [100], "{elevator}");
    }
}

// ------------------------------------------------------------------------------------------ BLK-10

/// Does a forced dispatch empty an elevator that idles on purpose?
#[test]
fn blk_10_a_forced_dispatch_asks_nobody() {
    let (elevator, script) = Scripted::with_script(Rules::Legacy);
    let mut rig = Rig::with(disk(1), Limits::default(), elevator);
    let client = rig.client();
    script.hold(true);
    for sector in [300, 100, 200] {
        rig.read(client, sector, 8);
    }
    assert!(rig.pull().is_empty());
    assert_eq!(rig.why, Waiting::Idling);
    assert_eq!(rig.queue.dispatch_all(rig.now), 3);
    assert_eq!(rig.served(), [100, 200, 300]);
    assert_eq!(rig.queue.dispatch_all(rig.now), 0);
}

/// Is what a forced dispatch brings sorted only where BLK-12 says so (noop, cfq)? deadline's own
/// order stays: the oldest first, 300, nothing above it; then the oldest again, 100, and up to 200.
/// So it does under blk-mq.
#[test]
fn blk_10_deadline_keeps_its_own_order() {
    for (elevator, order) in
        [("noop", [100, 200, 300]), ("deadline", [300, 100, 200]), ("mq-deadline", [300, 100, 200])]
    {
        let mut rig = Rig::new(disk(1), elevator);
        rig.set("nr_requests", "8");
        let client = rig.client();
        for sector in [300, 100, 200] {
            rig.read(client, sector, 8);
        }
        assert_eq!(rig.queue.dispatch_all(rig.now), 3);
        assert_eq!(rig.served(), order, "{elevator}");
    }
}

// ------------------------------------------------------------------------------------------ BLK-11

/// Does a refused request (legacy) go to the head of the dispatch list, unsorted, before everything
/// else? [500] was refused; 100 waits in the elevator, 200 and 300 come by force behind it.
#[test]
fn blk_11_legacy_requeues_at_the_head() {
    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    rig.read(client, 500, 8);
    assert_eq!(rig.pulled(), [500]);
    rig.read(client, 300, 8);
    rig.read(client, 200, 8);
    rig.refuse(500);
    assert_eq!(rig.queue.dispatch_all(rig.now), 2);
    rig.read(client, 100, 8);
    rig.at(3);
    assert_eq!(rig.served(), [500, 200, 300, 100]);
    assert_eq!(rig.count(Action::Requeue), 1);
}

/// Does a refused request (blk-mq) wait in the elevator again, at the head of its class? 900 was
/// refused; 100 and 200 are lower and older in the batch, yet it comes first.
#[test]
fn blk_11_mq_requeues_through_the_elevator() {
    let mut rig = Rig::new(disk(1), "mq-deadline");
    rig.set("nr_requests", "8");
    let client = rig.client();
    let ticket = rig.read(client, 900, 8);
    assert_eq!(rig.pulled(), [900]);
    rig.read(client, 100, 8);
    rig.read(client, 200, 8);
    rig.refuse(900);
    assert!(rig.explain(ticket).ends_with("the device refused it, it goes first in its class"));
    // A higher class still goes before it: the head is the head of the class.
    let urgent = rig.client_with(ClientSpec::new().priority(Class::Realtime, 0));
    rig.read(urgent, 700, 8);
    rig.at(3);
    assert_eq!(rig.served(), [700, 900, 100, 200]);
}

/// Does the last of several refused requests come first again, under both rules? 1 and 2 refused in
/// this order: 2, 1.
#[test]
fn blk_11_the_last_refused_comes_first() {
    for elevator in ["noop", "mq-deadline"] {
        let mut rig = Rig::new(disk(2), elevator);
        let client = rig.client();
        rig.read(client, 100, 8);
        rig.read(client, 200, 8);
        assert_eq!(rig.pulled(), [100, 200]);
        rig.refuse(100);
        rig.refuse(200);
        rig.at(3);
        assert_eq!(rig.served(), [200, 100], "{elevator}");
    }
}

/// Does a refused request that an earlier elevator had picked keep its precedence? The new one is
/// not asked.
#[test]
fn blk_11_a_request_of_an_earlier_elevator() {
    let mut rig = Rig::new(disk(1), "mq-deadline");
    let client = rig.client();
    rig.read(client, 900, 8);
    rig.read(client, 100, 8);
    // The elevator gives 900 first, for it is the oldest.
    assert_eq!(rig.pulled(), [900]);
    let (elevator, script) = Scripted::with_script(Rules::Mq);
    rig.queue.change_elevator(rig.now, elevator);
    rig.refuse(900);
    rig.at(3);
    assert_eq!(rig.pulled(), [900]);
    assert_eq!(script.picks(), 0);
    rig.complete_oldest();
    assert_eq!(rig.served(), [100]);
}

// ------------------------------------------------------------------------------------------ BLK-12

/// Is the dispatch list sorted one way from the end of the last started request? Boundary 50, then
/// 30 70 20 60: 60 and 70 lie behind it, 20 and 30 are wrapped.
#[test]
fn blk_12_one_way_from_the_boundary() {
    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    rig.read(client, 42, 8);
    assert_eq!(rig.served(), [42]);
    for sector in [30, 70, 20, 60] {
        rig.read(client, sector, 2);
    }
    assert_eq!(rig.queue.dispatch_all(rig.now), 4);
    assert_eq!(rig.served(), [60, 70, 20, 30]);
}

/// Is nothing sorted across another direction, a discard, or what has started?
#[test]
fn blk_12_fences() {
    let order = |fence: Op| {
        let mut rig = Rig::new(disk(1), "noop");
        let client = rig.client();
        rig.write(client, 600, 8);
        rig.submit(Bio::new(client, fence, 100, 8));
        rig.write(client, 400, 8);
        rig.write(client, 300, 8);
        rig.queue.dispatch_all(rig.now);
        rig.served()
    };
    assert_eq!(order(Op::Read), [600, 100, 300, 400], "a read among writes");
    assert_eq!(order(Op::Discard), [600, 100, 300, 400], "a discard among writes");
    assert_eq!(order(Op::Write), [100, 300, 400, 600], "no fence");

    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    rig.write(client, 600, 8);
    assert_eq!(rig.pulled(), [600]);
    rig.refuse(600);
    rig.write(client, 100, 8);
    rig.queue.dispatch_all(rig.now);
    rig.at(3);
    assert_eq!(rig.served(), [600, 100], "it has started");
}

// ------------------------------------------------------------------------------------------ BLK-14

/// Given nr_requests=128 and 300 async writers, are never more than 192 async requests allocated,
/// and sync ones as if there were none?
#[test]
fn blk_14_300_async_writers() {
    let elevator = elevators::by_name("noop").unwrap();
    let mut rig = Rig::with(disk(32), limits(301), elevator);
    let writers: Vec<_> = (0..300).map(|_| rig.client()).collect();
    let reader = rig.client();
    let mut place = 0;
    let accepted = writers.iter().filter(|&&w| scattered(&mut rig, w, &mut place)).count();
    assert_eq!(accepted, 128, "one each; the 128th is the only batcher");
    let mut most = 0;
    for _ in 0..100 {
        rig.pull();
        for _ in 0..8 {
            rig.complete_oldest();
        }
        rig.pull();
        for client in std::mem::take(&mut rig.wakes) {
            while scattered(&mut rig, client, &mut place) {}
        }
        most = most.max(rig.queue.allocated().0);
    }
    assert_eq!(most, 192);
    assert_eq!(rig.queue.allocated().1, 0);
    for n in 0..128 {
        rig.read(reader, (1 << 24) + n * 100, 8);
    }
    assert_eq!(rig.queue.allocated().1, 128);
}

// ------------------------------------------------------------------------------------------ BLK-15

/// Do 20 contiguous bios of 4 KiB under one plug become one request of 80 KiB = 160 sectors,
/// touching nothing but the plug?
#[test]
fn blk_15_twenty_contiguous() {
    for elevator in ["deadline", "mq-deadline"] {
        let mut rig = Rig::new(disk(32), elevator);
        let client = rig.client();
        rig.plug(client);
        for n in 0..20 {
            rig.read(client, n * 8, 8);
        }
        assert_eq!((rig.count(Action::Get), rig.count(Action::Insert)), (1, 0), "{elevator}");
        rig.unplug(client);
        assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 160)], "{elevator}");
    }
}

/// And 20 that are not? Legacy sends the first 16 when the 17th is added; blk-mq holds all 20 (its
/// limit is 32).
#[test]
fn blk_15_twenty_scattered() {
    for (elevator, early) in [("deadline", [0, 16]), ("mq-deadline", [0, 0])] {
        let mut rig = Rig::new(disk(32), elevator);
        let client = rig.client();
        rig.plug(client);
        let mut inserted = [0; 2];
        for n in 0..20 {
            rig.read(client, n * 100, 8);
            match n {
                15 => inserted[0] = rig.count(Action::Insert),
                16 => inserted[1] = rig.count(Action::Insert),
                _ => {}
            }
        }
        assert_eq!(inserted, early, "{elevator}");
    }
}

// ------------------------------------------------------------------------------------------ BLK-16

/// A1 B1 A2 B2 without a plug: which merge? nomerges=1: A2 (A1 is cached, for it came first), not
/// B2: 3 commands; 0: both, 2 commands; 2: none, 4.
#[test]
fn blk_16_what_the_cache_holds() {
    for (nomerges, expected) in [
        ("0", &[(0, 16), (100, 16)][..]),
        ("1", &[(0, 16), (100, 8), (108, 8)]),
        ("2", &[(0, 8), (100, 8), (8, 8), (108, 8)]),
    ] {
        let mut rig = Rig::new(disk(32), "noop");
        rig.set("nomerges", nomerges);
        let client = rig.client();
        for sector in [0, 100, 8, 108] {
            rig.read(client, sector, 8);
        }
        let commands: Vec<_> = rig.pull().iter().map(|c| (c.sector, c.sectors)).collect();
        assert_eq!(commands, expected, "nomerges={nomerges}");
    }
}

/// Is the cache emptied when its request is dispatched, so that the next one inserted takes the
/// place?
#[test]
fn blk_16_dispatch_empties_the_cache() {
    let mut rig = Rig::new(disk(1), "noop");
    rig.set("nomerges", "1");
    let client = rig.client();
    rig.read(client, 0, 8);
    assert_eq!(rig.pulled(), [0]);
    rig.read(client, 100, 8);
    rig.read(client, 108, 8);
    rig.complete_oldest();
    assert_eq!(shape(&rig.serve()), [(Op::Read, 100, 16)]);
}

/// Is the survivor of a merge cached? Under nomerges=0 B2 merges by the hash and is cached then:
/// what continues B merges even when nomerges is 1 by now, and what continues A does not.
#[test]
fn blk_16_the_survivor_is_cached() {
    let mut rig = Rig::new(disk(32), "noop");
    let client = rig.client();
    for sector in [0, 100, 108] {
        rig.read(client, sector, 8);
    }
    rig.set("nomerges", "1");
    rig.read(client, 116, 8);
    rig.read(client, 8, 8);
    let shapes = shape(&rig.pull());
    assert_eq!(shapes, [(Op::Read, 0, 8), (Op::Read, 100, 24), (Op::Read, 8, 8)]);
}

// ------------------------------------------------------------------------------------------ BLK-17

/// Is the elevator asked for one request only, and only when the dispatch list is empty? Three by
/// force: no question. Then two waiting on a device of depth 2: two questions, no third.
#[test]
fn blk_17_the_device_pulls() {
    let (elevator, script) = Scripted::with_script(Rules::Legacy);
    let mut rig = Rig::with(disk(3), Limits::default(), elevator);
    let client = rig.client();
    for sector in [0, 100, 200] {
        rig.read(client, sector, 8);
    }
    rig.queue.dispatch_all(rig.now);
    assert_eq!((rig.pull().len(), script.picks()), (3, 0));
    rig.read(client, 300, 8);
    rig.read(client, 400, 8);
    rig.read(client, 500, 8);
    assert_eq!((rig.pull().len(), script.picks()), (0, 0), "the device is full");
    rig.complete_oldest();
    rig.complete_oldest();
    assert_eq!((rig.pull().len(), script.picks()), (2, 2));
    // One of them is refused: it goes out again before the elevator is asked.
    rig.refuse(300);
    rig.complete_at(400);
    assert_eq!((rig.pulled(), script.picks()), (vec![300, 500], 3));
}

/// Does a refusal of the elevator stop the feed until something asks again: an insert, a
/// completion, a timer?
#[test]
fn blk_17_a_hold_stops_the_feed() {
    let (elevator, script) = Scripted::with_script(Rules::Legacy);
    let mut rig = Rig::with(disk(4), Limits::default(), elevator);
    let client = rig.client();
    rig.read(client, 0, 8);
    assert_eq!(rig.pulled(), [0]);
    script.hold(true);
    rig.read(client, 100, 8);
    assert!(rig.pull().is_empty());
    // It set its timer 8 ms from now.
    assert_eq!((rig.why, rig.until), (Waiting::Idling, Some(Nanos::from_millis(8))));
    let asked = script.picks.load(Ordering::Relaxed);
    rig.complete_oldest();
    assert!(rig.pull().is_empty());
    rig.read(client, 200, 8);
    assert!(rig.pull().is_empty());
    rig.at(8);
    script.hold(false);
    assert_eq!(rig.pulled(), [100, 200]);
    // The completion, the insert, then two requests and "nothing".
    assert_eq!(script.picks() - asked, 5);
}
