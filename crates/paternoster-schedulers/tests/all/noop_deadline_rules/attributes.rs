// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes of the elevators and of the queue, and deadlines in the ticks of a kernel.

use super::*;

// -------------------------------------------------------------------------------------- attributes

fn listing(rig: &Rig) -> Vec<String> {
    let mut lines = Vec::new();
    rig.queue.for_each_attribute(|path, _, value| lines.push(format!("{path}:{value}")));
    lines
}

/// What does every attribute of the queue start with, for the default device (flash of depth 32)?
#[test]
fn attributes_of_the_queue() {
    let noop = Rig::new(paternoster_core::DeviceFacts::default(), "noop");
    assert_eq!(
        listing(&noop),
        [
            "nr_requests:128",
            "nomerges:0",
            "max_sectors_kb:1280",
            "max_hw_sectors_kb:1280",
            "max_segments:128",
            "read_ahead_kb:128",
            "queue_depth:32",
            "rotational:0",
            "rules:legacy",
            "plug:task",
            "hz:0",
            "write_cache:write through",
            "fua:0",
            "flush_hold:unqueueable",
            "flush_insert:tail",
            "flush_drain:0",
            "flush_elide:1",
            "flush_delay:0",
            "flush_owners:1",
            "flush_ahead:4",
            "ncq:declared",
        ]
    );
    let modern = Rig::new(disk(32), "mq-deadline");
    let changed = ["nr_requests", "rotational", "rules"].map(|name| modern.get(name));
    assert_eq!(changed, ["64", "1", "mq"]);
}

/// What do the elevators' attributes start with, in the order of the listing?
#[test]
fn attributes_of_the_elevators() {
    let of = |elevator: &str| {
        let mut lines = listing(&Rig::new(disk(32), elevator));
        lines.retain(|line| line.starts_with("iosched/"));
        lines
    };
    assert_eq!(of("noop"), [""; 0]);
    assert_eq!(
        of("deadline"),
        [
            "iosched/read_expire:500",
            "iosched/write_expire:5000",
            "iosched/writes_starved:2",
            "iosched/front_merges:1",
            "iosched/fifo_batch:16",
        ]
    );
    for elevator in MODERN {
        assert_eq!(
            of(elevator),
            [
                "iosched/read_expire:500",
                "iosched/write_expire:5000",
                "iosched/writes_starved:2",
                "iosched/front_merges:1",
                // 3 * 64 / 4
                "iosched/async_depth:48",
                "iosched/fifo_batch:16",
                "iosched/prio_aging_expire:10000",
            ]
        );
    }
}

/// Is every number brought into its range, and does every value that is set show?
#[test]
fn attributes_are_clamped() {
    let max = "2147483647";
    let huge = "99999999999";
    let both = [
        ("read_expire", "0", "0"),
        ("read_expire", huge, max),
        ("write_expire", "0", "0"),
        ("write_expire", huge, max),
        ("writes_starved", "0", "0"),
        ("writes_starved", huge, max),
        ("front_merges", "7", "1"),
        ("front_merges", "0", "0"),
        ("fifo_batch", "0", "0"),
        ("fifo_batch", huge, max),
        ("iosched/fifo_batch", " 8\n", "8"),
        ("nomerges", "7", "2"),
        ("rotational", "9", "1"),
        ("max_sectors_kb", "1", "4"),
        ("max_sectors_kb", huge, "1280"),
        ("max_sectors_kb", "512", "512"),
        ("plug", "device", "device"),
        ("plug", "task", "task"),
        ("hz", "1000", "1000"),
        ("hz", "0", "0"),
        ("ncq", "probe", "probe"),
        ("ncq", "declared", "declared"),
    ];
    let modern = [
        ("async_depth", "0", "1"),
        ("async_depth", huge, max),
        ("prio_aging_expire", "0", "0"),
        ("prio_aging_expire", huge, max),
        ("nr_requests", "0", "1"),
        ("nr_requests", "384", "384"),
    ];
    let legacy = [("nr_requests", "1", "4"), ("nr_requests", "64", "64")];
    // A number below the range is brought into it, like any other.
    let negative = [("fifo_batch", "-1", "0")];
    for (elevator, own) in [
        ("deadline", &negative[..]),
        ("deadline", &legacy[..]),
        ("mq-deadline", &modern),
        ("mq-deadline-6.8", &modern),
    ] {
        let (mut rig, _) = rig(elevator);
        for (name, text, shown) in both.iter().chain(own) {
            rig.set(name, text);
            assert_eq!(rig.get(name), *shown, "{elevator}: {name}={text}");
        }
    }
}

/// Is everything else refused, with a message saying what would be right, and nothing changed?
#[test]
fn attributes_are_refused() {
    let (mut rig, _) = rig("mq-deadline");
    for (name, text, words) in [
        (
            "read_expire",
            "soon",
            "attribute `read_expire` cannot be `soon`: it takes a whole number from 0 to \
             2147483647",
        ),
        (
            "fifo_batch",
            "-x",
            "attribute `fifo_batch` cannot be `-x`: it takes a whole number from 0 to 2147483647",
        ),
        (
            "async_depth",
            "",
            "attribute `async_depth` cannot be ``: it takes a whole number from 1 to 2147483647",
        ),
        (
            "front_merges",
            "on",
            "attribute `front_merges` cannot be `on`: it takes a whole number from 0 to 1",
        ),
        (
            "nomerges",
            "1.5",
            "attribute `nomerges` cannot be `1.5`: it takes a whole number from 0 to 2",
        ),
        (
            "max_sectors_kb",
            "512K",
            "attribute `max_sectors_kb` cannot be `512K`: it takes a whole number from 4 up",
        ),
        ("rules", "blk-mq", "attribute `rules` cannot be `blk-mq`: it takes legacy or mq"),
        ("plug", "1", "attribute `plug` cannot be `1`: it takes task or device"),
        ("ncq", "on", "attribute `ncq` cannot be `on`: it takes declared or probe"),
        ("hz", "300", "attribute `hz` cannot be `300`: it takes 0 or 100 or 250 or 1000"),
        ("max_hw_sectors_kb", "64", "attribute `max_hw_sectors_kb` can be read but not set"),
        ("max_segments", "64", "attribute `max_segments` can be read but not set"),
        ("queue_depth", "1", "attribute `queue_depth` can be read but not set"),
        ("nr_requests", "385", "attribute `nr_requests` can be at most 384 in this queue"),
        ("slice_idle", "0", "there is no attribute `slice_idle`"),
        ("iosched/nomerges", "0", "there is no attribute `iosched/nomerges`"),
    ] {
        let before = listing(&rig);
        assert_eq!(rig.refusal(name, text), words);
        assert_eq!(listing(&rig), before, "{name}");
    }
}

/// Do settings of the elevator go with it, while those of the queue stay?
#[test]
fn attributes_and_a_change_of_elevator() {
    let (mut rig, _) = rig("mq-deadline");
    rig.set("fifo_batch", "4");
    rig.set("nomerges", "1");
    rig.set("nr_requests", "96");
    let change = |rig: &mut Rig, name: &str| {
        let elevator = paternoster_schedulers::by_name(name).unwrap();
        rig.queue.change_elevator(rig.now, elevator);
    };
    change(&mut rig, "deadline");
    let values = ["fifo_batch", "nomerges", "nr_requests", "rules"].map(|name| rig.get(name));
    assert_eq!(values, ["16", "1", "96", "legacy"]);
    // Rules that were set stay, whatever the elevator wants.
    rig.set("rules", "legacy");
    change(&mut rig, "mq-deadline");
    assert_eq!(rig.get("rules"), "legacy");
}

// ---------------------------------------------------------------------------------------------- hz

/// From when does a read deadline of 500 ms count that is set at 3.9 ms? hz=250 has ticks of 4 ms:
/// from tick 0, so it is 500 ms. blk-mq takes it at 500 (>=), legacy one tick later, at 504 (>). In
/// exact time it is 503.9 ms.
#[test]
fn hz_rounds_deadlines_down() {
    for (elevator, hz, us, expired) in [
        ("mq-deadline", "250", 499_999, false),
        ("mq-deadline", "250", 500_000, true),
        ("mq-deadline", "0", 503_899, false),
        ("mq-deadline", "0", 503_900, true),
        ("deadline", "250", 503_999, false),
        ("deadline", "250", 504_000, true),
        ("deadline", "0", 503_900, false),
        ("deadline", "0", 503_901, true),
    ] {
        let (mut rig, client) = rig(elevator);
        rig.set("hz", hz);
        rig.set("fifo_batch", "1");
        rig.at_us(3_900);
        // The oldest, 1000, goes first; then 2000 follows it unless the oldest, 8, has expired.
        for sector in [1000, 8, 2000, 3000] {
            rig.read(client, sector, 8);
        }
        assert_eq!(rig.pulled(), [1000]);
        rig.at_us(us);
        rig.complete_oldest();
        let next = if expired { 8 } else { 2000 };
        assert_eq!(rig.pulled(), [next], "{elevator}, hz={hz}, at {us} us");
    }
}

/// Do other ticks round too? 100: 10 ms, so 508 ms counts as 500. 1000: 1 ms, so 503.9 is 503, and
/// 3.9 was 3.
#[test]
fn hz_other_ticks() {
    for (hz, us, expired) in [
        ("100", 499_999, false),
        ("100", 500_000, true),
        ("1000", 502_999, false),
        ("1000", 503_000, true),
    ] {
        let (mut rig, client) = rig("mq-deadline");
        rig.set("hz", hz);
        rig.set("fifo_batch", "1");
        rig.at_us(3_900);
        for sector in [1000, 8, 2000, 3000] {
            rig.read(client, sector, 8);
        }
        assert_eq!(rig.pulled(), [1000]);
        rig.at_us(us);
        rig.complete_oldest();
        assert_eq!(rig.pulled(), [if expired { 8 } else { 2000 }], "hz={hz}, at {us} us");
    }
}
