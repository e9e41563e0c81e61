// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of kyber, one by one: KY-1 to KY-8; its tags (BLK-8), tokens through refusals and
//! changes of elevator, its timer and its attributes.
//!
//! Each test is named after its rule in `docs/rules` (KY, BLK) and opens with the question it
//! answers. Targets are 2 ms for reads and 10 ms for writes; a latency is in bucket `(latency - 1
//! ns) / (target / 4)`, at most 7, and good below 4. What no queue can cause (requests of the
//! domain of the rest) is in `src/kyber/tests.rs`.

mod depths;
mod domains;
mod tokens;

use paternoster_core::{
    Action, Bio, ClientId, Command, Flags, Limits, Nanos, Note, Op, Outcome, SubmitError, Waiting,
};

use crate::common::driver::{Rig, disk, runs};

/// A kyber in front of a device that never refuses, with more tags than tokens.
struct Kyber {
    rig: Rig,
    client: ClientId,
    /// Where the next request goes: never next to another.
    sector: u64,
}

impl Kyber {
    fn new() -> Kyber {
        let limits = Limits { requests: 1000, bios: 1000, ..Limits::default() };
        let mut rig =
            Rig::with(disk(1000), limits, paternoster_schedulers::by_name("kyber").unwrap());
        rig.set("nr_requests", "1000");
        let client = rig.client();
        Kyber { rig, client, sector: 0 }
    }

    /// Writes are sync here, so that only tokens hold them back.
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

    /// `count` requests of one kind end after `total`, `io` of it in the device.
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

    /// The timer rings: latencies are checked.
    fn look(&mut self) {
        self.rig.pull();
        if let Some(until) = self.rig.until {
            self.rig.now = until;
        }
        self.rig.pull();
    }

    /// The depth of a domain according to the notes.
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

    /// The latencies noted for a domain so far: percent, quarters of the target.
    fn told(&self, op: Op) -> Vec<(u32, u32)> {
        let of = |note: &Note| match *note {
            Note::LatencyTold { op: other, percent, quarters } if other == op => {
                Some((percent, quarters))
            }
            _ => None,
        };
        self.rig.queue.observer().notes.iter().filter_map(of).collect()
    }

    /// Writes that miss their target, and a check of them: congestion. 11 ms of 10: bucket 4.
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
