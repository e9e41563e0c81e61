// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the disk keep the promises of its documentation, and no more than those?

use super::*;
use paternoster_core::{Bio, ClientId, ClientSpec, Output, RequestQueue, Status};

const CUTS: u64 = 64;

/// A disk of 64 sectors and a queue that only hands out commands: the disk sees them at once.
struct Bench {
    disk: VolatileDisk,
    queue: RequestQueue,
    client: ClientId,
    now: Nanos,
}

fn facts(write_cache: bool, fua: bool) -> DeviceFacts {
    DeviceFacts { capacity: 64, depth: 8, write_cache, fua, ..DeviceFacts::default() }
}

impl Bench {
    fn new(facts: DeviceFacts, seed: u64) -> Bench {
        let disk = VolatileDisk::new(facts, Habits { seed, ..Habits::default() });
        // The queue takes the disk for one without a cache: it passes on what it gets, and the
        // tests choose the commands that the disk sees.
        let plain = DeviceFacts { write_cache: false, ..facts };
        let noop = paternoster_schedulers::by_name("noop").unwrap();
        let mut queue = RequestQueue::builder(plain, noop).build().expect("its limits work");
        let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
        Bench { disk, queue, client, now: Nanos::ZERO }
    }

    /// A command as the disk would get it.
    fn command(&mut self, op: Op, sector: u64, flags: Flags) -> Command {
        let bio = Bio::new(self.client, Op::Write, sector, 8).flags(Flags::NOMERGE);
        self.queue.submit(self.now, bio).unwrap();
        let command = loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => break command,
                Output::Done(..) => {}
                other => panic!("{other:?}"),
            }
        };
        // It was needed only for its tag.
        self.queue.complete(self.now, command.tag, Outcome::OK).unwrap();
        let (sector, sectors) = if op == Op::Flush { (0, 0) } else { (sector, 8) };
        Command { op, sector, sectors, flags, ..command }
    }

    fn take(&mut self, op: Op, sector: u64, flags: Flags) -> Result<Serial, Refused> {
        let command = self.command(op, sector, flags);
        self.disk.submit(self.now, &command).map(|()| self.disk.last_taken())
    }

    fn write(&mut self, sector: u64) -> Serial {
        self.take(Op::Write, sector, Flags::NONE).unwrap()
    }

    /// Runs until `count` commands have ended.
    fn run(&mut self, count: usize) -> Vec<Completion> {
        let mut ended = Vec::new();
        while ended.len() < count {
            self.now = self.disk.next_event().expect("something is inside");
            ended.extend(self.disk.advance(self.now));
        }
        ended
    }

    /// Over many cuts: whether all 8 sectors from `sector` always satisfied `asked`, and whether
    /// any ever did.
    fn cuts(&self, sector: usize, asked: impl Fn(Serial) -> bool) -> (bool, bool) {
        let mut image = Vec::new();
        let (mut always, mut ever) = (true, false);
        for seed in 0..CUTS {
            self.disk.cut(seed, &mut image);
            for &held in &image[sector..sector + 8] {
                always &= asked(held);
                ever |= asked(held);
            }
        }
        (always, ever)
    }
}

/// After a cut, may a write that has ended be there or not, until a flush has ended?
#[test]
fn a_flush_covers_what_had_ended() {
    for seed in 0..20 {
        let mut bench = Bench::new(facts(true, false), seed);
        let write = bench.write(8);
        bench.run(1);
        if bench.disk.cached() == 1 {
            assert_eq!(bench.cuts(8, |held| held == write), (false, true), "seed {seed}");
        }
        bench.take(Op::Flush, 0, Flags::NONE).unwrap();
        bench.run(1);
        assert_eq!(bench.cuts(8, |held| held == write), (true, true), "seed {seed}");
        assert!(!bench.disk.is_at_risk());
    }
}

/// Is a write that ends while the flush is inside covered in some runs, and in others not? Both
/// must occur, so that callers learn not to rely on it.
#[test]
fn a_write_beside_a_flush_may_be_covered() {
    let (mut covered, mut left) = (0, 0);
    for seed in 0..200 {
        let mut bench = Bench::new(facts(true, false), seed);
        let write = bench.write(8);
        bench.take(Op::Flush, 0, Flags::NONE).unwrap();
        bench.run(2);
        if bench.cuts(8, |held| held == write).0 {
            covered += 1;
        } else {
            left += 1;
        }
    }
    assert!(covered > 10 && left > 10, "{covered} covered, {left} left");
}

/// Is FUA durable at its end where the disk supports it, and ignored where not? Is every write
/// durable without a cache?
#[test]
fn fua_is_durable_where_it_is_known() {
    for (write_cache, fua, flags, durable) in [
        (true, true, Flags::FUA, true),
        (true, true, Flags::NONE, false),
        (true, false, Flags::FUA, false),
        (false, false, Flags::NONE, true),
    ] {
        let mut always = true;
        for seed in 0..20 {
            let mut bench = Bench::new(facts(write_cache, fua), seed);
            let write = bench.take(Op::Write, 8, flags).unwrap();
            bench.run(1);
            always &= bench.cuts(8, |held| held == write).0;
        }
        assert_eq!(always, durable, "cache {write_cache}, FUA {fua}, {flags:?}");
    }
}

/// Can a write under way tear, with the durable one beneath it kept elsewhere?
#[test]
fn a_write_under_way_tears() {
    let mut bench = Bench::new(facts(true, true), 1);
    let below = bench.take(Op::Write, 8, Flags::FUA).unwrap();
    bench.run(1);
    let above = bench.write(8);
    let mut image = Vec::new();
    let mut kinds = [false; 3];
    for seed in 0..CUTS {
        bench.disk.cut(seed, &mut image);
        let new = image[8..16].iter().filter(|&&held| held == above).count();
        let old = image[8..16].iter().filter(|&&held| held == below).count();
        assert_eq!(new + old, 8);
        kinds[usize::from(new > 0) + usize::from(new == 8)] = true;
    }
    assert_eq!(kinds, [true; 3], "absent, torn, there");
}

/// Do newer data never make room for older ones? 30 writes to the same sectors, one after the
/// other; at any time each sector holds one that is not older than the last flush.
#[test]
fn a_sector_never_goes_back() {
    for seed in 0..20 {
        let mut bench = Bench::new(facts(true, false), seed);
        let mut flushed = 0;
        for round in 0..30 {
            let write = bench.write(16);
            bench.run(1);
            if round % 5 == 4 {
                bench.take(Op::Flush, 0, Flags::NONE).unwrap();
                bench.run(1);
                flushed = write;
            }
            assert!(bench.cuts(16, |held| held >= flushed).0, "seed {seed}, round {round}");
        }
    }
}

/// Is a flush that cannot be queued alone in the disk?
#[test]
fn a_flush_that_cannot_be_queued_is_alone() {
    let mut bench = Bench::new(DeviceFacts { flush_queueable: false, ..facts(true, false) }, 3);
    bench.write(0);
    assert_eq!(bench.take(Op::Flush, 0, Flags::NONE), Err(Refused));
    bench.run(1);
    bench.take(Op::Flush, 0, Flags::NONE).unwrap();
    assert_eq!(bench.take(Op::Write, 8, Flags::NONE), Err(Refused));
    bench.run(1);
    bench.write(8);
}

/// Do commands end in another order than they came, in some runs? And do errors never occur without
/// `error_every`, and sometimes with it?
#[test]
fn ends_come_in_any_order() {
    let mut reordered = 0;
    for seed in 0..50 {
        let mut bench = Bench::new(facts(true, true), seed);
        bench.write(0);
        bench.write(16);
        let ended = bench.run(2);
        reordered += u32::from(ended[0].tag > ended[1].tag);
        assert!(ended.iter().all(|done| done.outcome.status == Status::Ok));
    }
    assert!((5..45).contains(&reordered), "{reordered} of 50");
    let mut failed = 0;
    for seed in 0..50 {
        let mut bench = Bench::new(facts(true, true), 0);
        let habits = Habits { seed, error_every: 2, ..Habits::default() };
        bench.disk = VolatileDisk::new(facts(true, true), habits);
        bench.write(0);
        failed += bench.run(1).iter().filter(|done| done.outcome.status != Status::Ok).count();
    }
    assert!((5..45).contains(&failed), "{failed} of 50");
}
