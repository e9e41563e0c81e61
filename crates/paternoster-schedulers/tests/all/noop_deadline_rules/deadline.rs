// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches, deadlines and directions, under all three: DL-1 to DL-6.

use super::*;

// ------------------------------------------------------------------------------------ DL-1 to DL-3

/// With reads 1 to 40 at once, fifo_batch 16 and no writes, is the order 1 to 40? There are three
/// batches (16 + 16 + 8), each of which begins where the last one stopped.
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

/// With reads and writes always pending, do batches go R16 R16 W16? With writes_starved 2, two
/// batches of reads come before one of writes. Linux 6.8 is "at" sector 0 of the reads when it
/// starts, so its first batch is not chosen and not counted: it begins with one more R16.
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

/// With fifo_batch=1 and writes_starved=1, do reads and writes alternate? (In 6.8 after its first
/// read, as above.)
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

/// Does writes_starved count only while both wait? After reads alone, the writes that come then
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

/// Is a read that comes at t0, at a low sector, dispatched at the first end of a batch after t0 +
/// 500 ms, while there is a stream at higher sectors? Batches end after 16000 and 32000. At exactly
/// 500 ms it has expired under blk-mq (now >= deadline), but not under legacy (now > deadline),
/// where it goes fifo_batch = 16 requests later.
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
        // The first of the stream comes before it in the FIFO, so that the batch runs up the
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
/// [16, 24) comes at 0, 9000 at 100 ms, and [0, 8) at 200 ms; [8, 16) joins them: [0, 24) is the
/// oldest, with a deadline of 500 ms.
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

/// Where does a direction go on after the other's turn? Reads stopped at 6000 with 1000 (older) and
/// 7000 waiting. Legacy and Linux 6.0 begin with the head of the FIFO, 1000; Linux 6.8 goes on with
/// 7000.
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

/// With front_merges=0, does the tree do no front merge, while the one-hit cache still may? If the
/// cache is at 1000, the bio before [16, 24) becomes a request of its own (G); if the cache is at
/// [16, 24), it merges (F).
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

/// And are back merges unaffected? They are.
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
