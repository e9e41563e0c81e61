// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which domain is next, and what may have a token or a tag: KY-5, KY-8, BLK-8.

use super::*;

// -------------------------------------------------------------------------------------------- KY-5

/// With reads and writes always pending with tokens, do they go 16 reads, 8 writes, repeating?
#[test]
fn ky_5_sixteen_reads_eight_writes() {
    let mut kyber = Kyber::new();
    kyber.submit(Op::Write, 100);
    kyber.submit(Op::Read, 100);
    let commands = kyber.rig.pull();
    assert_eq!(runs(&commands[..72]), "R16 W8 R16 W8 R16 W8 ");
    // 100 reads are 6 batches and 4; 7 * 8 = 56 writes went by then, 44 follow.
    assert_eq!(runs(&commands), "R16 W8 R16 W8 R16 W8 R16 W8 R16 W8 R16 W8 R4 W52 ");
}

/// Is it first come, first served within a domain, whatever the sectors?
#[test]
fn ky_5_first_come_first_served() {
    let mut rig = Rig::new(disk(1), "kyber");
    rig.set("nr_requests", "64");
    let client = rig.client();
    for sector in [30, 10, 20] {
        rig.read(client, sector, 2);
        rig.write(client, 1000 + sector, 2);
    }
    assert_eq!(rig.served(), [30, 10, 20, 1030, 1010, 1020]);
}

/// Is a batch over when its domain has no request or no token, and does the next start from zero? 4
/// reads of a batch, then writes; the reads that come during the writes wait for the end of their
/// batch.
#[test]
fn ky_5_an_empty_domain_is_passed_over() {
    let mut rig = Rig::new(disk(1), "kyber");
    rig.set("nr_requests", "64");
    let client = rig.client();
    for n in 0..4 {
        rig.read(client, n * 100, 8);
    }
    for n in 0..20 {
        rig.write(client, 100_000 + n * 100, 8);
    }
    assert_eq!(runs(&rig.serve_some(7)), "R4 W3 ");
    for n in 10..30 {
        rig.read(client, n * 100, 8);
    }
    assert_eq!(runs(&rig.serve()), "W5 R16 W8 R4 W4 ");
}

// -------------------------------------------------------------------------------------------- KY-8

/// With all tokens of a domain in flight, does the next wait while others continue, and go when one
/// comes back? (The rule's 16 others are tested in `src/kyber/tests.rs`.)
#[test]
fn ky_8_out_of_tokens() {
    for (op, tokens) in [(Op::Read, 256), (Op::Write, 128), (Op::Discard, 64)] {
        let mut kyber = Kyber::new();
        kyber.submit(op, tokens + 1);
        assert_eq!(kyber.rig.pull().len(), tokens as usize, "{op:?}");
        assert_eq!((kyber.rig.why, kyber.rig.until), (Waiting::Completion, None));
        let other = if op == Op::Read { Op::Write } else { Op::Read };
        kyber.submit(other, 2);
        assert_eq!(kyber.rig.pull().len(), 2);
        kyber.rig.complete_oldest();
        assert_eq!(kyber.rig.pull().iter().map(|command| command.op).collect::<Vec<_>>(), [op]);
        let throttled = |note: &&Note| matches!(note, Note::Throttled { op: of } if *of == op);
        assert_eq!(kyber.rig.queue.observer().notes.iter().filter(throttled).count(), 1);
    }
}

/// If the depth shrinks below the number in flight, does nothing go until enough have ended? 200
/// reads in flight, 50 waiting, depth 256 to 64: the next goes when 63 are left, which is after 137
/// completions.
#[test]
fn ky_8_a_shrinking_depth_waits_for_ends() {
    let mut kyber = Kyber::new();
    kyber.quick(Op::Read, 500, Nanos(1));
    kyber.look();
    kyber.submit(Op::Read, 200);
    assert_eq!(kyber.rig.pull().len(), 200);
    let reads: Vec<Command> = kyber.rig.inside.drain(..).collect();
    kyber.congestion();
    assert_eq!(kyber.depth(Op::Read), 64);
    kyber.submit(Op::Read, 50);
    for (number, read) in reads.iter().enumerate() {
        let expected = usize::from((137..187).contains(&number));
        assert_eq!(kyber.rig.pull().len(), expected, "behind {number} ends");
        kyber.rig.queue.complete(kyber.rig.now, read.tag, Outcome::OK).unwrap();
    }
}

/// Are bios merged on both sides while their domain is out of tokens, and requests not with each
/// other? After 256 reads: [8, 16), then [16, 24) after it and [0, 8) before it are one; [40, 48)
/// and then [24, 32), [32, 40) would close the gap, and stay two.
#[test]
fn ky_8_what_waits_is_merged() {
    let mut kyber = Kyber::new();
    kyber.sector = 1000;
    kyber.submit(Op::Read, 256);
    assert_eq!(kyber.rig.pull().len(), 256);
    for sector in [8, 16, 0, 40, 24, 32] {
        kyber.rig.read(kyber.client, sector, 8);
        assert!(kyber.rig.pull().is_empty());
    }
    for _ in 0..256 {
        kyber.rig.complete_oldest();
    }
    let shapes: Vec<_> = kyber.rig.pull().iter().map(|c| (c.sector, c.sectors)).collect();
    assert_eq!(shapes, [(0, 40), (40, 8)]);
    assert_eq!((kyber.rig.count(Action::BackMerge), kyber.rig.count(Action::FrontMerge)), (3, 1));
}

// ------------------------------------------------------------------------------------------- BLK-8

/// May async requests have three quarters of the tags, and sync ones of either kind all? 64 tags:
/// 48 async writes, plus 16 sync ones.
#[test]
fn blk_8_async_requests_get_three_quarters() {
    let mut rig = Rig::new(disk(32), "kyber");
    let [writer, other] = [0; 2].map(|_| rig.client());
    assert_eq!(rig.get("nr_requests"), "64");
    for n in 0..48 {
        rig.write(writer, n * 100, 8);
    }
    assert_eq!(rig.try_submit(Bio::new(writer, Op::Write, 9000, 8)), Err(SubmitError::Busy));
    for n in 0..8 {
        rig.read(other, 10_000 + n * 100, 8);
        rig.submit(Bio::new(other, Op::Write, 20_000 + n * 100, 8).flags(Flags::SYNC));
    }
    assert_eq!(rig.try_submit(Bio::new(other, Op::Read, 9000, 8)), Err(SubmitError::Busy));
    // The reads went first (8), then a batch of writes (8), then the rest of 32 commands.
    assert_eq!(runs(&rig.pull()), "R8 W24 ");
    rig.complete_oldest();
    rig.pull();
    assert_eq!(rig.wakes, [other], "48 async requests are still there");
}

/// Is it at least one, and does it follow nr_requests? 75 % of 1 is 0, of 2 is 1, of 7 is 5, of 200
/// is 150.
#[test]
fn blk_8_three_quarters_of_few() {
    for (nr_requests, most) in [("1", 1), ("2", 1), ("7", 5), ("200", 150)] {
        let mut rig = Rig::new(disk(1), "kyber");
        rig.set("nr_requests", nr_requests);
        let client = rig.client();
        for n in 0..most {
            rig.write(client, n * 100, 8);
        }
        let more = rig.try_submit(Bio::new(client, Op::Write, 90_000, 8));
        assert_eq!(more, Err(SubmitError::Busy), "{nr_requests}");
    }
}
