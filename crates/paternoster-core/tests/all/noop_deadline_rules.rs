// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of noop, deadline and mq-deadline, one by one: NOOP-1, NOOP-2, DL-1 to DL-10; their
//! attributes and those of the queue; and deadlines in the ticks of a kernel.
//!
//! Each test is named after its rule in `docs/rules` and opens with the question it
//! answers.

use paternoster_core::{
    Action, Bio, Class, ClientId, ClientSpec, Command, Flags, Note, Op, SubmitError,
};

use crate::common::driver::{Rig, disk};

const DEADLINES: [&str; 3] = ["deadline", "mq-deadline", "mq-deadline-6.8"];
const MODERN: [&str; 2] = ["mq-deadline", "mq-deadline-6.8"];

/// A disk of depth 1 with room for many requests.
fn rig(elevator: &str) -> (Rig, ClientId) {
    let mut rig = Rig::new(disk(1), elevator);
    if elevator != "none" {
        rig.set("nr_requests", if elevator.starts_with("mq") { "384" } else { "128" });
    }
    let client = rig.client();
    (rig, client)
}

/// The directions in runs: `R16 W16`.
fn runs(commands: &[Command]) -> String {
    let mut runs: Vec<(char, u32)> = Vec::new();
    for command in commands {
        let letter = if command.op == Op::Read { 'R' } else { 'W' };
        match runs.last_mut() {
            Some((last, count)) if *last == letter => *count += 1,
            _ => runs.push((letter, 1)),
        }
    }
    runs.iter().map(|(letter, count)| format!("{letter}{count} ")).collect()
}

fn aged(rig: &Rig) -> usize {
    let notes = &rig.queue.observer().notes;
    notes.iter().filter(|note| matches!(note, Note::Aged { .. })).count()
}

fn batches(rig: &Rig) -> Vec<(bool, bool)> {
    let notes = rig.queue.observer().notes.iter();
    notes
        .filter_map(|note| match *note {
            Note::BatchBegins { writes, from_fifo } => Some((writes, from_fifo)),
            _ => None,
        })
        .collect()
}

// -------------------------------------------------------------------------------------------- noop

/// Given depth 1 and requests 30, 10, 20, is the order 30, 10, 20? Each leaves before the next
/// enters the sorted list.
#[test]
fn noop_1_first_come_first_served() {
    let (mut rig, client) = rig("noop");
    for sector in [30, 10, 20] {
        rig.read(client, sector, 2);
    }
    assert_eq!(rig.served(), [30, 10, 20]);
}

/// Is `none` what blk-mq is without a scheduler: of a device of depth 1 one request is allocated,
/// the next client sleeps, and has it when that has ended? Under noop both have one.
#[test]
fn none_has_no_requests_but_the_tags() {
    for (name, expected) in [("noop", None), ("none", Some(SubmitError::Busy))] {
        let (mut rig, first) = rig(name);
        let second = rig.client();
        let read = |client| Bio::new(client, Op::Read, 8, 2);
        rig.queue.submit(rig.now, read(first)).expect("the first");
        assert_eq!(rig.queue.submit(rig.now, read(second)).err(), expected, "{name}");
        assert_eq!(rig.queue.elevator_name(), name);
    }
}

/// Given a forced drain, is the dispatch list sorted one way from the boundary? From 0: 10 20 30;
/// from 15: 20 30 10.
#[test]
fn noop_2_a_forced_drain_is_sorted() {
    for (boundary, order) in [(0, [10, 20, 30]), (15, [20, 30, 10])] {
        let (mut rig, client) = rig("noop");
        if boundary != 0 {
            rig.read(client, boundary - 2, 2);
            rig.serve();
        }
        for sector in [30, 10, 20] {
            rig.read(client, sector, 2);
        }
        assert_eq!(rig.queue.dispatch_all(rig.now), 3);
        assert_eq!(rig.served(), order, "boundary {boundary}");
    }
}

/// Are its neighbours those of the list, so that a gap closes only between neighbours? 0, 16, then
/// 8 behind 0: the list is [0, 16), [16, 24): one command. With 100 between them in the list:
/// three.
#[test]
fn noop_neighbours_are_those_of_the_list() {
    for (sectors, expected) in [(&[0, 16, 8][..], 1), (&[0, 100, 16, 8], 3)] {
        let (mut rig, client) = rig("noop");
        for &sector in sectors {
            rig.read(client, sector, 8);
        }
        assert_eq!(rig.serve().len(), expected, "{sectors:?}");
    }
}

// ------------------------------------------------------------------------------------ DL-1 to DL-3

/// Given reads 1 to 40 at once, fifo_batch 16 and no writes, is the order 1 to 40? Three batches
/// begin (16 + 16 + 8), the later ones where the last stood.
#[test]
fn dl_1_sorted_reads_stay_sorted() {
    for elevator in DEADLINES {
        let (mut rig, client) = rig(elevator);
        for n in 1..=40 {
            rig.read(client, n * 100, 8);
        }
        let expected: Vec<u64> = (1..=40).map(|n| n * 100).collect();
        assert_eq!(rig.served(), expected, "{elevator}");
        let first = elevator != "mq-deadline-6.8";
        // Linux 6.8 finds the first at its position, sector 0, and needs no new batch for it.
        let expected = if first { &[true, false, false][..] } else { &[false, false] };
        let found: Vec<bool> = batches(&rig).iter().map(|&(_, from_fifo)| from_fifo).collect();
        assert_eq!(found, expected, "{elevator}");
    }
}

/// Given reads and writes always pending, do batches go R16 R16 W16? writes_starved 2: twice reads,
/// then writes. Linux 6.8 is "at" sector 0 of the reads when it starts, so its first batch is not
/// chosen and not counted: R16 more.
#[test]
fn dl_2_two_read_batches_for_a_write_batch() {
    for (elevator, count, expected) in [
        ("deadline", 144, "R32 W16 R32 W16 R32 W16 "),
        ("mq-deadline", 144, "R32 W16 R32 W16 R32 W16 "),
        ("mq-deadline-6.8", 112, "R48 W16 R32 W16 "),
    ] {
        let (mut rig, client) = rig(elevator);
        for n in 0..100 {
            rig.read(client, n * 100, 8);
            rig.write(client, 100_000 + n * 100, 8);
        }
        // At most 3 * 32 = 96 of the 100 reads: neither direction is empty before the end.
        assert_eq!(runs(&rig.serve_some(count)), expected, "{elevator}");
    }
}

/// Given fifo_batch=1 and writes_starved=1, do they alternate? (6.8: behind its first read, as
/// above.)
#[test]
fn dl_3_one_and_one() {
    for (elevator, count, expected) in [
        ("deadline", 6, "R1 W1 R1 W1 R1 W1 "),
        ("mq-deadline", 6, "R1 W1 R1 W1 R1 W1 "),
        ("mq-deadline-6.8", 7, "R2 W1 R1 W1 R1 W1 "),
    ] {
        let (mut rig, client) = rig(elevator);
        rig.set("fifo_batch", "1");
        rig.set("writes_starved", "1");
        for n in 0..10 {
            rig.read(client, n * 100, 8);
            rig.write(client, 100_000 + n * 100, 8);
        }
        assert_eq!(runs(&rig.serve_some(count)), expected, "{elevator}");
    }
}

/// Does writes_starved count only while both wait? Reads alone first: the writes that come then
/// still wait for two batches of reads.
#[test]
fn dl_2_starving_counts_only_when_both_wait() {
    for elevator in DEADLINES {
        let (mut rig, client) = rig(elevator);
        rig.set("fifo_batch", "2");
        for n in 0..20 {
            rig.read(client, n * 100, 8);
        }
        assert_eq!(runs(&rig.serve_some(8)), "R8 ");
        for n in 0..4 {
            rig.write(client, 100_000 + n * 100, 8);
        }
        assert_eq!(runs(&rig.serve_some(12)), "R4 W2 R4 W2 ", "{elevator}");
    }
}

// -------------------------------------------------------------------------------------------- DL-4

/// Given a read at t0 at a low sector and a stream of higher ones, is it dispatched at the first
/// batch end after t0 + 500 ms? Batches end behind 16000 and 32000. At 500 ms sharp it has expired
/// for blk-mq (now >= deadline), not for legacy (now > deadline), where it goes fifo_batch = 16
/// requests later.
#[test]
fn dl_4_a_low_read_waits_at_most_a_batch_longer() {
    for (elevator, ms, before) in [
        ("deadline", 500, 32),
        ("deadline", 501, 16),
        ("mq-deadline", 499, 32),
        ("mq-deadline", 500, 16),
        ("mq-deadline-6.8", 499, 32),
        ("mq-deadline-6.8", 500, 16),
    ] {
        let (mut rig, client) = rig(elevator);
        rig.read(client, 1000, 8);
        assert_eq!(rig.pulled(), [1000]);
        rig.complete_oldest();
        // The first of the stream stands before it in the FIFO, so that the batch runs up the
        // stream.
        rig.read(client, 2000, 8);
        rig.read(client, 8, 8);
        for n in 3..60 {
            rig.read(client, n * 1000, 8);
        }
        // Legacy and 6.0: nothing follows 1000, so a batch begins with the oldest, 2000. 6.8 is at
        // 1000, in its batch.
        let first = if elevator == "mq-deadline-6.8" { 15 } else { 16 };
        let mut order: Vec<u64> = rig.serve_some(first).iter().map(|c| c.sector).collect();
        rig.at(ms);
        order.extend(rig.serve_some(1).iter().map(|c| c.sector));
        rig.at(501);
        order.extend(rig.serve_some(20).iter().map(|c| c.sector));
        let place = order.iter().position(|&sector| sector == 8);
        assert_eq!(place, Some(before + first - 16), "{elevator} at {ms} ms");
    }
}

/// Is the deadline 500 ms for reads and 5 s for writes, or what the attributes say?
#[test]
fn dl_4_expiry_by_direction() {
    for (op, setting, ms) in [
        (Op::Read, None, 500),
        (Op::Write, None, 5000),
        (Op::Read, Some(("read_expire", "70")), 70),
        (Op::Write, Some(("write_expire", "90")), 90),
    ] {
        for elevator in DEADLINES {
            let (mut rig, client) = rig(elevator);
            if let Some((name, text)) = setting {
                rig.set(name, text);
            }
            let ticket = rig.submit(Bio::new(client, op, 0, 8));
            let end = format!("its deadline is in {}", paternoster_core::Nanos::from_millis(ms));
            assert!(rig.explain(ticket).ends_with(&end), "{elevator} {op:?}");
        }
    }
}

/// Does the survivor of two merged requests inherit the earlier deadline and its place in the FIFO?
/// [16, 24) at 0, 9000 at 100 ms, [0, 8) at 200 ms, joined by [8, 16): [0, 24) is the oldest, its
/// deadline 500 ms.
#[test]
fn dl_4_the_survivor_inherits_the_deadline() {
    for elevator in ["deadline", "mq-deadline"] {
        let (mut rig, client) = rig(elevator);
        rig.read(client, 16, 8);
        rig.at(100);
        rig.read(client, 9000, 8);
        rig.at(200);
        let survivor = rig.read(client, 0, 8);
        rig.read(client, 8, 8);
        assert!(rig.explain(survivor).ends_with("its deadline is in 300 ms"), "{elevator}");
        assert_eq!(rig.served(), [0, 9000], "{elevator}");
    }
}

// -------------------------------------------------------------------------------------------- DL-5

/// Where does a direction go on after the other had its turn? Reads stood at 6000 with 1000 (older)
/// and 7000 waiting. Legacy and Linux 6.0 begin with the head of the FIFO, 1000; Linux 6.8 goes on
/// with 7000.
#[test]
fn dl_5_where_reads_go_on() {
    for (elevator, last) in [
        ("deadline", [1000, 7000]),
        ("mq-deadline", [1000, 7000]),
        ("mq-deadline-6.8", [7000, 1000]),
    ] {
        let (mut rig, client) = rig(elevator);
        rig.set("fifo_batch", "2");
        rig.set("writes_starved", "0");
        rig.read(client, 5000, 8);
        rig.read(client, 6000, 8);
        assert_eq!(rig.pulled(), [5000]);
        for sector in [1000, 7000] {
            rig.read(client, sector, 8);
        }
        for sector in [5500, 5600] {
            rig.write(client, sector, 8);
        }
        rig.complete_oldest();
        let order = rig.served();
        assert_eq!(order[..3], [6000, 5500, 5600], "{elevator}");
        assert_eq!(order[3..], last, "{elevator}");
    }
}

// -------------------------------------------------------------------------------------------- DL-6

/// Given front_merges=0, is there no front merge by the tree, while the one-hit cache may still do
/// one? With the cache on 1000 the bio before [16, 24) is a request of its own (G); with the cache
/// on [16, 24) it merges (F).
#[test]
fn dl_6_front_merges() {
    for elevator in DEADLINES {
        for (front_merges, cached, letters) in
            [("1", false, "QF"), ("0", false, "QGI"), ("0", true, "QF")]
        {
            let (mut rig, client) = rig(elevator);
            rig.set("front_merges", front_merges);
            let sectors = if cached { [16, 1000] } else { [1000, 16] };
            for sector in sectors {
                rig.read(client, sector, 8);
            }
            rig.forget_events();
            rig.read(client, 8, 8);
            let what = format!("{elevator}, front_merges={front_merges}, cached: {cached}");
            assert_eq!(rig.letters(), letters, "{what}");
        }
    }
}

/// And back merges, do they care? They do not.
#[test]
fn dl_6_back_merges_stay() {
    for elevator in DEADLINES {
        let (mut rig, client) = rig(elevator);
        rig.set("front_merges", "0");
        for sector in [1000, 0, 8] {
            rig.read(client, sector, 8);
        }
        assert_eq!(rig.count(Action::BackMerge), 1, "{elevator}");
    }
}

// ----------------------------------------------------------------------------------- DL-7 to DL-10

fn of_class(rig: &mut Rig, class: Class) -> ClientId {
    rig.client_with(ClientSpec::new().priority(class, 4))
}

/// Does a lower class wait until a higher one has nothing in the device either? Depth 2, so there
/// is room.
#[test]
fn dl_7_what_is_in_flight_counts() {
    for elevator in MODERN {
        for (higher, lower) in [
            (Class::Realtime, Class::BestEffort),
            (Class::Realtime, Class::Idle),
            (Class::BestEffort, Class::Idle),
        ] {
            let mut rig = Rig::new(disk(2), elevator);
            let [high, low] = [higher, lower].map(|class| of_class(&mut rig, class));
            rig.read(high, 0, 8);
            assert_eq!(rig.pulled(), [0]);
            rig.read(low, 1000, 8);
            assert!(rig.pull().is_empty());
            assert_eq!(rig.why, paternoster_core::Waiting::Completion);
            rig.at(9000);
            assert!(rig.pull().is_empty());
            rig.complete_oldest();
            assert_eq!(rig.pulled(), [1000], "{elevator}: {higher:?} before {lower:?}");
        }
    }
}

/// Does the class of the bio count before that of its client?
#[test]
fn dl_7_a_bios_own_class() {
    let (mut rig, client) = rig("mq-deadline");
    rig.read(client, 0, 8);
    let priority = Some(paternoster_core::Priority { class: Class::Realtime, level: 0 });
    rig.submit(Bio { priority, ..Bio::new(client, Op::Read, 1000, 8) });
    assert_eq!(rig.served(), [1000, 0]);
}

/// Given continuous RT and a BE request, is it dispatched next once it is 10 s old, and not at 9.9
/// s? From 20 s: at 29.9 not, at 30 it is.
#[test]
fn dl_8_aging() {
    for elevator in MODERN {
        let (mut rig, _) = rig(elevator);
        let urgent = of_class(&mut rig, Class::Realtime);
        let low = of_class(&mut rig, Class::BestEffort);
        rig.at(20_000);
        rig.read(low, 1000, 8);
        for n in 0..10 {
            rig.read(urgent, 5000 + n * 100, 8);
        }
        rig.at(29_900);
        assert_eq!(rig.pulled(), [5000], "9.9 s");
        rig.complete_oldest();
        rig.at(30_000);
        assert_eq!(rig.pulled(), [1000], "{elevator}: 10 s");
        assert_eq!(aged(&rig), 1);
        rig.complete_oldest();
        assert_eq!(rig.pulled(), [5100]);
    }
}

/// Of two aged classes, is BE tried before IDLE, and is another prio_aging_expire obeyed? 2 s
/// instead of 10.
#[test]
fn dl_8_aging_prefers_best_effort() {
    let (mut rig, _) = rig("mq-deadline");
    rig.set("prio_aging_expire", "2000");
    let [urgent, low, idle] =
        [Class::Realtime, Class::BestEffort, Class::Idle].map(|class| of_class(&mut rig, class));
    rig.at(20_000);
    rig.read(idle, 100, 8);
    rig.read(low, 200, 8);
    rig.read(urgent, 300, 8);
    rig.read(urgent, 400, 8);
    rig.at(21_999);
    assert_eq!(rig.pulled(), [300]);
    rig.complete_oldest();
    rig.at(22_000);
    assert_eq!(rig.served(), [200, 100, 400]);
    assert_eq!(aged(&rig), 2);
}

/// How old is a refused request? Its FIFO time is that of the refusal, so it counts as inserted
/// read_expire = 500 ms before: refused at 20 s it has aged at 20 - 0.5 + 10 = 29.5 s.
#[test]
fn dl_8_a_refused_request_ages_from_its_refusal() {
    for (ms, first) in [(29_499, 5000), (29_500, 1000)] {
        let (mut rig, client) = rig("mq-deadline");
        let urgent = of_class(&mut rig, Class::Realtime);
        rig.at(20_000);
        rig.read(client, 1000, 8);
        assert_eq!(rig.pulled(), [1000]);
        rig.refuse(1000);
        rig.read(urgent, 5000, 8);
        rig.at(ms);
        assert_eq!(rig.pulled(), [first], "at {ms} ms");
    }
}

/// Given nr_requests 256, is async_depth 192, and do writes, sync or not, never hold more? Reads
/// take what is left, 64.
#[test]
fn dl_9_async_depth() {
    for elevator in MODERN {
        for flags in [Flags::NONE, Flags::SYNC] {
            // Depth 128: nr_requests = 2 * min(128, 128) = 256; 3 * 256 / 4 = 192.
            let mut rig = Rig::new(disk(128), elevator);
            assert_eq!(
                (rig.get("nr_requests"), rig.get("async_depth")),
                ("256".into(), "192".into())
            );
            let [writer, reader] = [0; 2].map(|_| rig.client());
            let write = |n: u64| Bio::new(writer, Op::Write, n * 100, 8).cookie(n).flags(flags);
            for n in 0..192 {
                rig.submit(write(n));
            }
            assert_eq!(rig.try_submit(write(192)), Err(SubmitError::Busy), "{elevator}");
            for n in 0..64 {
                rig.read(reader, 1_000_000 + n * 100, 8);
            }
            let more = Bio::new(reader, Op::Read, 2_000_000, 8);
            assert_eq!(rig.try_submit(more), Err(SubmitError::Busy), "192 + 64 = 256");
        }
    }
}

/// Does async_depth follow nr_requests until it is set, is it at least 1, and does it hold when
/// set?
#[test]
fn dl_9_async_depth_follows_until_set() {
    let (mut rig, client) = rig("mq-deadline");
    // 3 * n / 4, and 1 for 1.
    for (nr_requests, depth) in [("384", "288"), ("3", "2"), ("1", "1")] {
        rig.set("nr_requests", nr_requests);
        assert_eq!(rig.get("async_depth"), depth);
    }
    rig.set("nr_requests", "64");
    rig.set("async_depth", "0");
    assert_eq!(rig.get("async_depth"), "1");
    rig.set("nr_requests", "128");
    assert_eq!(rig.get("async_depth"), "1", "set once, it stays");
    rig.write(client, 0, 8);
    assert_eq!(rig.try_submit(Bio::new(client, Op::Write, 1000, 8)), Err(SubmitError::Busy));
}

/// Given only one class with requests, is aging not looked at, however old they are? And is it with
/// two?
#[test]
fn dl_10_one_class_does_not_age() {
    for (second, expected) in [(false, 0), (true, 1)] {
        let mut rig = Rig::new(disk(2), "mq-deadline");
        let low = of_class(&mut rig, Class::BestEffort);
        let idle = of_class(&mut rig, Class::Idle);
        rig.at(20_000);
        rig.read(low, 0, 8);
        rig.at(40_000);
        if second {
            rig.read(idle, 1000, 8);
        }
        assert_eq!(rig.pulled(), [0]);
        assert_eq!(aged(&rig), expected);
    }
}

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
    // A number below the range is brought into it, as any other.
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

/// Is everything else refused, in words that say what would be right, and nothing changed?
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
        let elevator = paternoster_core::elevators::by_name(name).unwrap();
        rig.queue.change_elevator(rig.now, elevator);
    };
    change(&mut rig, "deadline");
    let values = ["fifo_batch", "nomerges", "nr_requests", "rules"].map(|name| rig.get(name));
    assert_eq!(values, ["16", "1", "96", "legacy"]);
    // Rules that were set stay, whatever the elevator asks for.
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
