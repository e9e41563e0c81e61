// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of kyber, one by one: KY-1 to KY-8; its tags (BLK-8), tokens through refusals and
//! changes of elevator, its timer and its attributes.
//!
//! Each test is named after its rule in `docs/rules` (KY, BLK) and opens with the
//! question it answers. Targets are 2 ms for reads and 10 ms for writes; a latency is in bucket
//! `(latency - 1 ns) / (target / 4)`, at most 7, and good below 4. What no queue can bring about
//! (requests of the domain of the rest) is in `src/elevators/kyber/tests.rs`.

use paternoster_core::{
    Action, Bio, ClientId, Command, Flags, Limits, Nanos, Note, Op, Outcome, SubmitError, Waiting,
    elevators,
};

use crate::common::driver::{Rig, disk};

/// A kyber in front of a device that never says no, with more tags than tokens.
struct Kyber {
    rig: Rig,
    client: ClientId,
    /// Where the next request goes: never beside another.
    sector: u64,
}

impl Kyber {
    fn new() -> Kyber {
        let limits = Limits { requests: 1000, bios: 1000, ..Limits::default() };
        let mut rig = Rig::with(disk(1000), limits, elevators::by_name("kyber").unwrap());
        rig.set("nr_requests", "1000");
        let client = rig.client();
        Kyber { rig, client, sector: 0 }
    }

    /// Writes are sync here, so that nothing but tokens holds them back.
    fn submit(&mut self, op: Op, count: u32) {
        for _ in 0..count {
            self.sector += 100;
            let bio = Bio::new(self.client, op, self.sector, 8).flags(Flags::SYNC);
            self.rig.submit(bio);
        }
    }

    fn pass(&mut self, time: Nanos) {
        self.rig.now += time;
    }

    fn complete_all(&mut self) {
        while !self.rig.inside.is_empty() {
            self.rig.complete_oldest();
        }
        self.rig.pull();
    }

    /// `count` requests of one kind end after `total`, of which they were in the device for `io`.
    fn samples(&mut self, op: Op, mut count: u32, total: Nanos, io: Nanos) {
        while count > 0 {
            // No more than there are tokens, or some would wait longer.
            let now = count.min(self.depth(op));
            self.submit(op, now);
            self.pass(total - io);
            assert_eq!(self.rig.pull().len(), now as usize);
            self.pass(io);
            self.complete_all();
            count -= now;
        }
    }

    /// As `samples`, without waiting before the issue.
    fn quick(&mut self, op: Op, count: u32, latency: Nanos) {
        self.samples(op, count, latency, latency);
    }

    /// The timer rings: latencies are looked at.
    fn look(&mut self) {
        self.rig.pull();
        if let Some(until) = self.rig.until {
            self.rig.now = until;
        }
        self.rig.pull();
    }

    /// The depth of a domain by the notes.
    fn depth(&self, op: Op) -> u32 {
        let tokens = match op {
            Op::Read => 256,
            Op::Write => 128,
            _ => 64,
        };
        self.depths(op).last().copied().unwrap_or(tokens)
    }

    /// What a domain's depth was set to so far.
    fn depths(&self, op: Op) -> Vec<u32> {
        let of = |note: &Note| match *note {
            Note::DepthChanged { op: other, depth } if other == op => Some(depth),
            _ => None,
        };
        self.rig.queue.observer().notes.iter().filter_map(of).collect()
    }

    /// What was told of a domain's latencies so far: percent, quarters of the target.
    fn told(&self, op: Op) -> Vec<(u32, u32)> {
        let of = |note: &Note| match *note {
            Note::LatencyTold { op: other, percent, quarters } if other == op => {
                Some((percent, quarters))
            }
            _ => None,
        };
        self.rig.queue.observer().notes.iter().filter_map(of).collect()
    }

    /// Writes that miss their target, and the look at them: congestion. 11 ms of 10: bucket 4.
    fn congestion(&mut self) {
        self.quick(Op::Write, 500, MS11);
        self.look();
    }

    /// How many requests of one kind fit the device now, by trying; they end at once.
    fn fit(&mut self, op: Op) -> usize {
        self.submit(op, 300);
        let fit = self.rig.pull().len();
        assert_eq!(self.rig.why, Waiting::Completion);
        while !self.rig.inside.is_empty() {
            self.complete_all();
        }
        fit
    }
}

const MS1: Nanos = Nanos::from_millis(1);
const MS11: Nanos = Nanos::from_millis(11);

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

// ------------------------------------------------------------------------------------ KY-1 to KY-4

/// Given read depth 256, congestion by writes and read p99 bucket 1 (1 ms of 2), is the depth 256 *
/// 2 / 4 = 128, next 64? And do so many fit the device? Writes, at bucket 4: 128 * 5 / 4 = 160, of
/// 128 at most.
#[test]
fn ky_1_good_reads_give_way_under_congestion() {
    let mut kyber = Kyber::new();
    assert_eq!((kyber.fit(Op::Read), kyber.fit(Op::Write)), (256, 128));
    for (times, depth) in [(1, 128), (2, 64)] {
        let mut kyber = Kyber::new();
        for _ in 0..times {
            kyber.quick(Op::Read, 500, MS1);
            kyber.congestion();
        }
        assert_eq!((kyber.fit(Op::Read), kyber.fit(Op::Write)), (depth, 128));
        assert_eq!(kyber.depths(Op::Read), [128, 64][..times]);
        assert_eq!(kyber.depths(Op::Write), []);
    }
}

/// Is p99 bucket 3 left alone, and does bucket 7 double, up to 256? From 64 (above): 64 * 4 / 4 =
/// 64; then 64 * 8 / 4 = 128, 256, and 512 is 256.
#[test]
fn ky_2_three_quarters_stay_and_more_is_eased() {
    let mut kyber = Kyber::new();
    for _ in 0..2 {
        kyber.quick(Op::Read, 500, MS1);
        kyber.congestion();
    }
    assert_eq!(kyber.depth(Op::Read), 64);
    kyber.quick(Op::Read, 500, Nanos::from_millis(2));
    kyber.congestion();
    assert_eq!(kyber.depth(Op::Read), 64);
    // In the device for 1 ms only: the reads suffer, the device does not.
    for depth in [128, 256, 256] {
        kyber.samples(Op::Read, 500, MS11, MS1);
        kyber.look();
        assert_eq!(kyber.depth(Op::Read), depth);
    }
    assert_eq!(kyber.depths(Op::Read), [128, 64, 128, 256], "no change, no note");
}

/// Is the least depth 1? Bucket 0 takes a quarter: 256, 64, 16, 4, 1, and 1 * 1 / 4 = 0 is 1.
#[test]
fn ky_3_a_depth_is_at_least_one() {
    let mut kyber = Kyber::new();
    for _ in 0..6 {
        kyber.quick(Op::Read, 500, Nanos::from_micros(100));
        kyber.congestion();
    }
    assert_eq!(kyber.depths(Op::Read), [64, 16, 4, 1]);
    assert_eq!(kyber.fit(Op::Read), 1);
}

/// Given no domain bad, does no depth shrink, however good the latencies?
#[test]
fn ky_4_nothing_shrinks_without_congestion() {
    let mut kyber = Kyber::new();
    for _ in 0..3 {
        kyber.quick(Op::Read, 500, Nanos::from_micros(100));
        kyber.quick(Op::Write, 500, Nanos::from_micros(100));
        kyber.quick(Op::Discard, 500, Nanos::from_micros(100));
        kyber.look();
    }
    let looks = kyber.told(Op::Discard).len() / 2;
    assert!(looks >= 3, "{looks}");
    for op in [Op::Read, Op::Write, Op::Discard] {
        assert_eq!(kyber.depths(op), []);
    }
}

/// Does congestion go by the 90th percentile from issue? Of 500 writes 50 at 11 ms: the 450th in
/// order is good. 51: it is bad.
#[test]
fn ky_4_congestion_is_one_in_ten() {
    for (bad, depths) in [(50, &[][..]), (51, &[128])] {
        let mut kyber = Kyber::new();
        kyber.quick(Op::Read, 500, MS1);
        kyber.quick(Op::Write, 500 - bad, MS1);
        kyber.quick(Op::Write, bad, MS11);
        kyber.look();
        assert_eq!(kyber.depths(Op::Read), depths, "{bad} of 500");
    }
}

/// Does waiting here make no congestion? Reads that take 11 ms, of which 1 ms in the device: within
/// 2 quarters of 2 ms from issue, beyond from allocation. Good writes keep 128.
#[test]
fn ky_4_waiting_is_no_congestion() {
    let mut kyber = Kyber::new();
    kyber.samples(Op::Read, 500, MS11, MS1);
    kyber.quick(Op::Write, 500, MS1);
    kyber.look();
    assert_eq!(kyber.told(Op::Read), [(90, 2), (99, 8)]);
    assert_eq!(kyber.told(Op::Write), [(90, 1), (99, 1)]);
    assert_eq!(kyber.depths(Op::Write), []);
}

/// And the depth by the 99th from allocation? Of 500 reads 5 at 2 ms (bucket 3): the 495th is in
/// bucket 0, a quarter of 256. 6: it is in bucket 3, and nothing changes.
#[test]
fn ky_4_depth_is_one_in_a_hundred() {
    for (slow, depths) in [(5, &[64][..]), (6, &[])] {
        let mut kyber = Kyber::new();
        kyber.quick(Op::Read, 500 - slow, Nanos::from_micros(100));
        kyber.quick(Op::Read, slow, Nanos::from_millis(2));
        kyber.congestion();
        assert_eq!(kyber.depths(Op::Read), depths, "{slow} of 500");
    }
}

/// Is a domain that tells nothing under congestion judged by what it told last? Reads told bucket 1
/// before: 128. That is used once: at the next congestion they keep it. What they told before the
/// congestion is not what is used if they tell something now: bucket 0 after bucket 1 is 64.
#[test]
fn ky_1_the_last_percentile_is_remembered_once() {
    let mut kyber = Kyber::new();
    kyber.quick(Op::Read, 500, MS1);
    kyber.look();
    assert_eq!((kyber.told(Op::Read), kyber.depths(Op::Read)), (vec![(90, 2), (99, 2)], vec![]));
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [128]);
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [128]);

    let mut kyber = Kyber::new();
    kyber.quick(Op::Read, 500, MS1);
    kyber.look();
    kyber.quick(Op::Read, 500, Nanos::from_micros(100));
    kyber.congestion();
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [64], "and what was told before is forgotten");
}

/// What the essay of kyber promises: 128 writers beside one reader, on a device that serves in
/// order, 50 us each. With n writes in flight a read takes (n + 1) * 50 us: 6.45 ms, and its target
/// is 2. A write takes 6.4 ms in all, bucket 2, however many are in flight: 128 * 3/4 = 96, 72, 54,
/// 40, and 41 * 50 us = 2.05 ms is still too long: 30. Its 1.55 ms are good, and it stays.
#[test]
fn ky_1_reads_meet_their_target_beside_a_flood_of_writes() {
    let mut kyber = Kyber::new();
    kyber.submit(Op::Write, 128);
    kyber.submit(Op::Read, 1);
    let mut slow_reads = 0;
    // 10 s of the device's time.
    for _ in 0..200_000 {
        kyber.rig.pull();
        kyber.pass(Nanos::from_micros(50));
        let head = kyber.rig.inside[0].tag;
        let waited = kyber.rig.now - kyber.rig.queue.request_of(head).unwrap().start();
        let command = kyber.rig.complete_oldest();
        if command.op == Op::Read && waited > Nanos::from_millis(2) {
            slow_reads = kyber.rig.now.as_millis();
        }
        kyber.submit(command.op, 1);
        kyber.rig.queue.observer_mut().events.clear();
        kyber.rig.done.clear();
    }
    assert_eq!(kyber.depths(Op::Write), [96, 72, 54, 40, 30]);
    assert_eq!(kyber.depths(Op::Read), []);
    assert!((5_000..8_000).contains(&slow_reads), "the last slow read was at {slow_reads} ms");
}

// -------------------------------------------------------------------------------------------- KY-5

/// Given reads and writes always pending with tokens, do they go 16 reads, 8 writes, repeating?
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

/// Within a domain, is it first come first served, whatever the sectors?
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

/// Is a batch over when its domain has nothing or no token, and does the next begin anew? 4 reads
/// of a batch, then writes; the reads that come during the writes wait for the end of their batch.
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

// ----------------------------------------------------------------------------------- KY-6 and KY-7

/// Given 499 samples within a second, is there no decision, and with 500 one? The first look at the
/// 499 is within 100 ms of their end; a second behind it they do.
#[test]
fn ky_6_enough_samples_or_a_second() {
    let mut kyber = Kyber::new();
    kyber.quick(Op::Read, 500, MS1);
    kyber.congestion();
    assert_eq!(kyber.told(Op::Read).len(), 2, "500 are enough");

    // Only the end of a request sets the timer again: a discard at 899 ms, so the look is at 999.
    for (after, decisions) in [(899, 0), (900, 2)] {
        let mut kyber = Kyber::new();
        kyber.quick(Op::Read, 499, MS1);
        kyber.look();
        assert_eq!(kyber.told(Op::Read), [], "499 are not");
        kyber.pass(Nanos::from_millis(after));
        kyber.quick(Op::Discard, 1, Nanos::ZERO);
        kyber.look();
        let look = after + 100;
        assert_eq!(kyber.told(Op::Read).len(), decisions, "{look} ms behind the first look");
    }
}

/// Given target 2 ms, is 0.5 ms in bucket 0, 0.500001 in 1, 2 ms in 3 and 3.6 ms in 7? By what
/// congestion makes of depth 64: 64 * 1/4, 2/4, 4/4, 8/4. The depth comes to 64 by bucket 0.
#[test]
fn ky_7_buckets_by_their_effect() {
    for (ns, depth) in [(500_000, 16), (500_001, 32), (2_000_000, 64), (3_600_000, 128)] {
        let mut kyber = Kyber::new();
        kyber.quick(Op::Read, 500, Nanos(1));
        kyber.congestion();
        assert_eq!(kyber.depth(Op::Read), 64);
        kyber.quick(Op::Read, 500, Nanos(ns));
        kyber.congestion();
        assert_eq!(kyber.depth(Op::Read), depth, "{ns} ns");
    }
}

/// Do the targets count that are set? Reads of 1 ms against 8 ms: bucket 0, a quarter. Writes of 11
/// ms against 12 ms: bucket 3, no congestion.
#[test]
fn ky_7_targets_are_those_that_are_set() {
    let mut kyber = Kyber::new();
    kyber.rig.set("read_lat_nsec", "8000000");
    kyber.quick(Op::Read, 500, MS1);
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [64]);
    kyber.rig.set("write_lat_nsec", "12000000");
    kyber.quick(Op::Read, 500, MS1);
    kyber.congestion();
    assert_eq!(kyber.depths(Op::Read), [64]);
}

// -------------------------------------------------------------------------------------------- KY-8

/// Given all tokens of a domain in flight, does the next wait while others continue, and go when
/// one comes back? (The 16 others of the rule are asked in `src/elevators/kyber/tests.rs`.)
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

/// Does a depth that shrinks below what is in flight hold until enough have ended? 200 reads in
/// flight, 50 waiting, depth 256 to 64: the next goes when 63 are left, which is behind 137 ends.
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
/// other? Behind 256 reads: [8, 16), then [16, 24) behind it and [0, 8) before it are one; [40, 48)
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
/// 48 async writes, 16 sync ones beside them.
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

// ------------------------------------------------------------------------------------------ tokens

/// Does a refused request bring its token back, go first in its domain, and take one again? 65
/// discards for 64 tokens: the refused one goes before the 65th, which waits on.
#[test]
fn tokens_of_refused_requests() {
    for rules in ["mq", "legacy"] {
        let mut kyber = Kyber::new();
        kyber.rig.set("rules", rules);
        kyber.submit(Op::Discard, 65);
        kyber.rig.pull();
        kyber.rig.refuse(2000);
        kyber.pass(Nanos::from_millis(3));
        assert_eq!((kyber.rig.pulled(), kyber.rig.why), (vec![], Waiting::Refused));
        kyber.rig.complete_at(100);
        assert_eq!(kyber.rig.pulled(), [2000, 6500], "{rules}: one token free, one brought back");
        assert!(kyber.rig.pull().is_empty());
        kyber.rig.queue.audit().unwrap();
    }
}

/// Do requests that outlive a change of elevator hold no tokens, and say nothing of latencies? 256
/// reads picked by another kyber are in the device; 256 more go, the 257th waits, also when the old
/// ones end, after 11 ms.
#[test]
fn tokens_and_a_change_of_elevator() {
    let mut kyber = Kyber::new();
    kyber.submit(Op::Read, 257);
    assert_eq!(kyber.rig.pull().len(), 256);
    kyber.rig.queue.change_elevator(kyber.rig.now, elevators::by_name("kyber").unwrap());
    kyber.submit(Op::Read, 256);
    assert_eq!(kyber.rig.pull().len(), 256);
    kyber.pass(MS11);
    for _ in 0..256 {
        kyber.rig.complete_oldest();
    }
    assert!(kyber.rig.pull().is_empty());
    assert_eq!(kyber.rig.until, None, "no timer");
    kyber.rig.complete_oldest();
    assert_eq!(kyber.rig.pull().len(), 1);
    kyber.complete_all();
    assert_eq!(kyber.rig.queue.allocated(), (0, 0));
}

/// Is a kyber that comes back to a queue as new, but for its targets? Depth 64 is 256 again.
#[test]
fn tokens_of_a_kyber_that_comes_back() {
    let mut kyber = Kyber::new();
    kyber.rig.set("read_lat_nsec", "8000000");
    kyber.quick(Op::Read, 500, MS1);
    kyber.congestion();
    assert_eq!(kyber.fit(Op::Read), 64);
    let old =
        kyber.rig.queue.change_elevator(kyber.rig.now, elevators::by_name("mq-deadline").unwrap());
    kyber.rig.queue.change_elevator(kyber.rig.now, old);
    assert_eq!((kyber.fit(Op::Read), kyber.rig.get("read_lat_nsec")), (256, "8000000".into()));
}

/// Does a forced dispatch ask for no tokens, and count them? 300 reads go; 300 - 256 + 1 = 45 have
/// to end before the next.
#[test]
fn tokens_and_a_forced_dispatch() {
    let mut kyber = Kyber::new();
    kyber.submit(Op::Read, 300);
    assert_eq!(kyber.rig.queue.dispatch_all(kyber.rig.now), 300);
    assert_eq!(kyber.rig.pull().len(), 300);
    kyber.submit(Op::Read, 1);
    for ends in 0..45 {
        assert!(kyber.rig.pull().is_empty(), "behind {ends} ends");
        kyber.rig.complete_oldest();
    }
    assert_eq!(kyber.rig.pull().len(), 1);
}

/// Is a withdrawn request gone without a trace, and does one that loses a bio keep its turn?
#[test]
fn tokens_and_cancel() {
    let mut rig = Rig::new(disk(1), "kyber");
    rig.set("nr_requests", "64");
    let client = rig.client();
    let [first, _, third] = [0, 8, 100].map(|sector| rig.read(client, sector, 8));
    rig.read(client, 200, 8);
    rig.queue.cancel(rig.now, first).unwrap();
    rig.queue.cancel(rig.now, third).unwrap();
    assert_eq!(rig.served(), [8, 200]);
    assert_eq!(rig.queue.allocated(), (0, 0));
}

// ------------------------------------------------------------------------------------------- timer

/// Does the timer ring at most 100 ms after an end, once, and not for ever? Ends at 5 and 50 ms:
/// 105 ms. Nothing ends after that: nothing to look at.
#[test]
fn timer_rings_once_after_an_end() {
    let mut rig = Rig::new(disk(2), "kyber");
    let client = rig.client();
    rig.read(client, 0, 8);
    rig.read(client, 100, 8);
    rig.pull();
    assert_eq!(rig.until, None);
    for ms in [5, 50] {
        rig.at(ms);
        rig.complete_oldest();
        rig.pull();
        assert_eq!(rig.until, Some(Nanos::from_millis(105)));
    }
    rig.at(105);
    rig.pull();
    assert_eq!((rig.until, rig.why), (None, Waiting::Empty));
}

/// In ticks, does it ring at one? hz=250: 5.9 ms is tick 4 ms, so 104 ms. Latencies stay exact: 0.5
/// ms and a nanosecond is in bucket 1.
#[test]
fn timer_in_ticks() {
    let mut kyber = Kyber::new();
    kyber.rig.set("hz", "250");
    kyber.rig.at_us(5_400);
    kyber.quick(Op::Read, 250, Nanos(500_001));
    kyber.quick(Op::Read, 250, Nanos(500_001));
    assert_eq!(kyber.rig.until, Some(Nanos::from_millis(104)));
    kyber.look();
    assert_eq!(kyber.told(Op::Read), [(90, 2), (99, 2)]);
}

// -------------------------------------------------------------------------- attributes and explain

/// What can be set, to what, and what is refused?
#[test]
fn attributes_of_kyber() {
    let mut rig = Rig::new(disk(32), "kyber");
    let mut lines = Vec::new();
    rig.queue.for_each_attribute(|path, _, value| lines.push(format!("{path}:{value}")));
    lines.retain(|line| line.starts_with("iosched/"));
    assert_eq!(lines, ["iosched/read_lat_nsec:2000000", "iosched/write_lat_nsec:10000000"]);
    for (text, shown) in [("0", "0"), ("-1", "0"), (" 75000\n", "75000")] {
        rig.set("write_lat_nsec", text);
        assert_eq!(
            (rig.get("write_lat_nsec"), rig.get("read_lat_nsec")),
            (shown.into(), "2000000".into())
        );
    }
    assert_eq!(
        rig.refusal("read_lat_nsec", "2ms"),
        "attribute `read_lat_nsec` cannot be `2ms`: it takes a whole number from 0 up"
    );
}

/// Why does a request wait: its line, its tokens, or the turn of others?
#[test]
fn explain_names_line_tokens_and_turn() {
    let mut kyber = Kyber::new();
    kyber.submit(Op::Discard, 64);
    kyber.submit(Op::Write, 3);
    assert_eq!(kyber.rig.pull().len(), 67);
    let bio = |kyber: &Kyber, op, sector| Bio::new(kyber.client, op, sector, 8).flags(Flags::SYNC);
    let tickets = [(Op::Discard, 1), (Op::Discard, 20), (Op::Write, 40), (Op::Write, 60)]
        .map(|(op, sector)| kyber.rig.submit(bio(&kyber, op, sector)));
    let read = kyber.rig.submit(bio(&kyber, Op::Read, 80));
    let why = |ticket| {
        let text = kyber.rig.explain(ticket);
        text.strip_prefix("it waits for 0 s in kyber because ").unwrap().to_owned()
    };
    assert_eq!(why(tickets[0]), "it is the next discard; 64 of 64 tokens for discards are taken");
    assert_eq!(
        why(tickets[1]),
        "one discard came before it; 64 of 64 tokens for discards are taken"
    );
    // The discards, which were the last to go, are out of tokens, and so no obstacle.
    assert_eq!(why(tickets[3]), "one write came before it");
    assert_eq!(why(read), "it is the next read");

    let mut rig = Rig::new(disk(1), "kyber");
    rig.set("nr_requests", "64");
    let client = rig.client();
    for n in 0..9 {
        rig.read(client, n * 100, 8);
    }
    let write = rig.write(client, 5000, 8);
    assert_eq!(runs(&rig.serve_some(3)), "R3 ");
    let why = "it is the next write; reads have their turn, 3 of 16 have gone";
    assert!(rig.explain(write).ends_with(why), "{}", rig.explain(write));
}
