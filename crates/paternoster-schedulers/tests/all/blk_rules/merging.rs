// SPDX-License-Identifier: MIT OR Apache-2.0
//! What merges with what, where candidates are looked up, and the cache of the last one:
//! BLK-1 to BLK-4, BLK-16.

use super::*;

/// A disk of depth 32 with a write cache and FUA: everything that can forbid a merge.
fn cached_disk() -> DeviceFacts {
    DeviceFacts { write_cache: true, fua: true, ..disk(32) }
}

// ------------------------------------------------------------------------------------------- BLK-1

/// Does a bio that adjoins a waiting request become part of it, after and before? 8+8+8 = 24
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
            // After ([0, 8) first), then before ([8, 16) first).
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

/// Does a started request not grow any more, in the device and after a refusal (its barrier)?
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
        let [one, two] =
            [0; 2].map(|_| rig.queue.add_group(Nanos::ZERO, GroupSpec::new()).unwrap());
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
        // A bio's own priority counts as its client's would.
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

/// Does a full request leave the one-hit cache, so that the stream after it still merges under
/// nomerges=1? Limit 16: [0, 16) is full when [16, 24) comes, which is cached instead and takes
/// [24, 32).
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

/// Are bios beyond the limits refused, with both numbers? And do the limits start as in Linux 6,
/// 1280 KiB and 128?
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
    // A lower max_sectors_kb applies from now on: 512 KiB = 1024 sectors.
    rig.set("max_sectors_kb", "512");
    let refused = rig.try_submit(Bio::new(client, Op::Read, 0, 1025));
    assert_eq!(refused, Err(SubmitError::TooLarge { size: 1025, most: 1024 }));
}

// ------------------------------------------------------------------------------------------- BLK-3

/// Is the one-hit cache tried before the hash? Two requests end at 8; the older is cached, the
/// younger is first in the hash. The bio at 8 goes to the older: 16 and 8 sectors.
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

/// Is the hash tried before the elevator's order? [8, 16) fits after [0, 8) and before [16, 24): it
/// is a back merge (M), and the gap it closes is a second M; no F. Another request is cached.
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

/// And those whose gap a back merge closes? Another request is cached, so [8, 16) goes after [0,
/// 8).
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

/// Do the limits apply to the gap too? Limit 20: 8+4 = 12 fits, 12+12 = 24 does not.
#[test]
fn blk_4_limits_apply() {
    let mut rig = Rig::new(DeviceFacts { max_sectors: 20, ..disk(4) }, "deadline");
    let client = rig.client();
    for (sector, sectors) in [(0, 8), (12, 12), (8, 4)] {
        rig.read(client, sector, sectors);
    }
    assert_eq!(shape(&rig.pull()), [(Op::Read, 0, 12), (Op::Read, 12, 12)]);
}

/// What priority does the survivor have? Legacy: levels 7, 5 and 2 give 2, the best. Modern:
/// unequal ones stay three.
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

// ------------------------------------------------------------------------------------------ BLK-16

/// A1 B1 A2 B2 without a plug: which merge? nomerges=1: A2 (A1 is cached, because it came first),
/// not B2: 3 commands; 0: both, 2 commands; 2: none, 4.
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

/// Is the cache emptied when its request is dispatched, so that the next inserted request takes the
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
