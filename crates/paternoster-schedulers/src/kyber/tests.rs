// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of kyber that cannot be reached through a queue: the domain of the rest. Flushes go
//! through the flush sequencer and there is no other operation yet, so these tests call the
//! elevator directly.

use alloc::vec::Vec;

use super::*;
use paternoster_core::device::DeviceFacts;
use paternoster_core::{Bio, Limits, Stage};

/// A kyber, and requests that are inserted and released as a queue would.
struct Bench {
    view: QueueView,
    kyber: Kyber,
}

impl Bench {
    fn new() -> Bench {
        let mut view = QueueView::alone(DeviceFacts::default(), Limits::default());
        let mut kyber = Kyber::new();
        kyber.attach(&mut view);
        Bench { view, kyber }
    }

    fn insert(&mut self, op: Op, count: u32) {
        for _ in 0..count {
            let bio = Bio::new(ClientId::NOBODY, op, 0, 0);
            let id = self.view.add_request(&bio, Nanos::ZERO);
            self.view.set_stage(id, Stage::Waiting);
            self.kyber.insert(&mut self.view, id, Position::Sorted);
        }
    }

    /// Picks once; returns what went, or why nothing did.
    fn pick(&mut self) -> Result<(RequestId, Op), Pick> {
        match self.kyber.pick(&mut self.view) {
            Pick::Dispatch(id, _) => {
                self.view.set_stage(id, Stage::InDevice);
                self.kyber.started(&mut self.view, id);
                self.kyber.audit(&self.view).unwrap();
                Ok((id, self.view.request(id).op()))
            }
            nothing => Err(nothing),
        }
    }

    fn end(&mut self, id: RequestId) {
        self.kyber.completed(&mut self.view, id, Nanos::ZERO);
        self.kyber.released(&mut self.view, id);
        self.view.free_request(id);
        self.kyber.audit(&self.view).unwrap();
    }
}

/// KY-8: given 16 others in flight, does the 17th wait while reads continue? And does it go when
/// one of the 16 ends, and not when a read does? Others have no target: their end sets no timer.
#[test]
fn ky_8_the_seventeenth_of_the_rest_waits() {
    let mut bench = Bench::new();
    bench.insert(Op::Flush, 17);
    let first = bench.pick().unwrap();
    for _ in 1..16 {
        assert_eq!(bench.pick().map(|(_, op)| op), Ok(Op::Flush));
    }
    assert_eq!(bench.pick(), Err(Pick::Await));
    bench.insert(Op::Read, 2);
    let read = bench.pick().unwrap();
    assert_eq!(read.1, Op::Read);
    assert_eq!(bench.pick().map(|(_, op)| op), Ok(Op::Read));
    assert_eq!(bench.pick(), Err(Pick::Await));
    bench.end(read.0);
    assert_eq!(bench.pick(), Err(Pick::Await), "a read's token is none for others");
    let timer = bench.view.timer();
    bench.view.cancel_timer();
    bench.end(first.0);
    assert_eq!((timer, bench.view.timer()), (LOOK_AFTER, Nanos::MAX));
    assert_eq!(bench.pick().map(|(_, op)| op), Ok(Op::Flush));
}

/// KY-5, all four: reads, writes, discards and others always waiting go 16, 8, 1, 1.
#[test]
fn ky_5_batches_of_all_domains() {
    let mut bench = Bench::new();
    for (op, count) in [(Op::Flush, 9), (Op::Discard, 9), (Op::Write, 24), (Op::Read, 40)] {
        bench.insert(op, count);
    }
    let row = |op, count| core::iter::repeat_n(op, count);
    for _ in 0..2 {
        let batches = row(Op::Read, 16).chain(row(Op::Write, 8));
        for op in batches.chain([Op::Discard, Op::Flush]) {
            assert_eq!(bench.pick().map(|(_, op)| op), Ok(op));
        }
    }
}

/// BLK-9: does a discard that the device refused go before the reads of a batch, and they after it?
/// Of 40 reads one has gone when the discard comes; 15 more are due, then the discard. It is
/// refused while they are in the device, and goes again, however often, before any other.
#[test]
fn blk_9_what_was_refused_goes_first() {
    let mut bench = Bench::new();
    bench.insert(Op::Read, 40);
    assert_eq!(bench.pick().map(|(_, op)| op), Ok(Op::Read));
    bench.insert(Op::Discard, 1);
    let picked: Vec<Op> = (0..16).map(|_| bench.pick().unwrap().1).collect();
    assert_eq!(picked, [[Op::Read; 15].as_slice(), &[Op::Discard]].concat());
    let is_discard = |id: &RequestId| bench.view.request(*id).op() == Op::Discard;
    let discard = (0..41).map(RequestId::from_index).find(is_discard).unwrap();
    for _ in 0..3 {
        bench.view.set_stage(discard, Stage::Waiting);
        bench.kyber.requeued(&mut bench.view, discard);
        bench.kyber.insert(&mut bench.view, discard, Position::Head);
        assert_eq!(bench.pick(), Ok((discard, Op::Discard)));
    }
    assert_eq!(bench.pick().map(|(_, op)| op), Ok(Op::Read));
}

/// BLK-9: do data that follow a preflush, which are put at the head of their domain, leave the turn
/// as it is? A batch of reads goes on; otherwise a client that makes each write durable would have
/// the device for itself.
#[test]
fn data_behind_a_preflush_take_no_turn() {
    let mut bench = Bench::new();
    bench.insert(Op::Read, 40);
    bench.insert(Op::Write, 1);
    let is_write = |id: &RequestId| bench.view.request(*id).op() == Op::Write;
    let write = (0..41).map(RequestId::from_index).find(is_write).unwrap();
    bench.kyber.removed(&mut bench.view, write);
    assert_eq!(bench.pick().map(|(_, op)| op), Ok(Op::Read));
    bench.kyber.insert(&mut bench.view, write, Position::Head);
    let picked: Vec<Op> = (0..16).map(|_| bench.pick().unwrap().1).collect();
    assert_eq!(picked, [[Op::Read; 15].as_slice(), &[Op::Write]].concat());
}

/// Does the audit find invariants that are broken by hand? A token whose request has ended, and one
/// whose request waits.
#[test]
fn the_audit_finds_a_lost_token() {
    let mut bench = Bench::new();
    bench.insert(Op::Read, 1);
    let (id, _) = bench.pick().unwrap();
    bench.view.set_stage(id, Stage::Waiting);
    let found = bench.kyber.audit(&bench.view).unwrap_err();
    assert_eq!(found, "kyber domain I2: request 0 is Waiting as a read");
    bench.view.free_request(id);
    let found = bench.kyber.audit(&bench.view).unwrap_err();
    assert_eq!(found, "kyber domain I2: request 0 has ended as a read");
}
