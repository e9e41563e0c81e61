// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who pays for a flush.
//!
//! The elevator of these tests serves in order of arrival, records what each client is charged, and
//! demands as much time for the others: each client has half of the device. Reads take 1 ms each.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::*;
use paternoster_core::elevator::{Fault, Pick, Position, Side, Traits};
use paternoster_core::{Elevator, Limits, Nanos, Outcome, QueueView, RequestId, Stage};

pub(super) type Charges = Arc<Mutex<Vec<(ClientId, u64)>>>;

/// noop that records charges.
#[derive(Debug)]
pub(super) struct Halves {
    noop: Box<dyn Elevator>,
    charges: Charges,
    /// Whether it can let a request in past all others.
    first: bool,
}

impl Halves {
    pub(super) fn boxed(charges: &Charges, first: bool) -> Box<dyn Elevator> {
        let noop = paternoster_schedulers::by_name("noop").expect("it is there");
        Box::new(Halves { noop, charges: Arc::clone(charges), first })
    }
}

impl Elevator for Halves {
    fn traits(&self) -> Traits {
        Traits { inserts_at_head: self.first, ..Traits::new("halves", self.noop.traits().rules) }
    }

    fn attach(&mut self, view: &mut QueueView) {
        self.noop.attach(view);
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        self.noop.insert(view, request, position);
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        self.noop.absorbed(view, survivor, gone);
    }

    fn neighbour(&self, view: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        self.noop.neighbour(view, request, side)
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        self.noop.pick(view)
    }

    fn removed(&mut self, view: &mut QueueView, request: RequestId) {
        self.noop.removed(view, request);
    }

    fn charge(
        &mut self,
        _: &mut QueueView,
        who: ClientId,
        cost: Nanos,
        _: Option<ClientId>,
    ) -> Nanos {
        self.charges.lock().expect("one thread").push((who, cost.as_micros()));
        cost
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        self.noop.drain(view)
    }

    fn explain(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        self.noop.explain(view, request, out)
    }

    fn waiting(&self) -> u32 {
        self.noop.waiting()
    }

    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        self.noop.audit(view)
    }
}

/// A rig whose cost of flushing a clean cache is known: 200 us.
pub(super) struct Till {
    pub(super) rig: Rig,
    pub(super) charges: Charges,
}

impl Till {
    /// A rig whose flush costs are not known yet.
    pub(super) fn fresh() -> Till {
        let charges = Charges::default();
        let halves = Halves::boxed(&charges, false);
        // A disk would count the ways to what it drains, too.
        let flash = DeviceFacts { rotational: false, ..cached() };
        Till { rig: every_flush_a_command(Rig::with(flash, Limits::default(), halves)), charges }
    }

    pub(super) fn new() -> Till {
        let mut till = Till::fresh();
        let nobody = till.rig.client();
        till.flush(nobody, 5000, Outcome::OK);
        till.flush(nobody, 200, Outcome::OK);
        till.rig.queue.detach(till.rig.now, nobody).expect("it is here");
        till.charges.lock().expect("one thread").clear();
        till.rig.done.clear();
        till
    }

    pub(super) fn pass(&mut self, us: u64) {
        self.rig.now += Nanos::from_micros(us);
    }

    /// A write of this many sectors that ends at once.
    pub(super) fn write(&mut self, client: ClientId, sector: u64, sectors: u32) {
        self.rig.write(client, sector, sectors);
        assert_eq!(self.rig.pull().len(), 1);
        self.rig.complete_at(sector);
        self.rig.pull();
    }

    /// A read of 1 ms.
    pub(super) fn read(&mut self, client: ClientId, sector: u64) {
        self.rig.read(client, sector, 8);
        assert_eq!(self.rig.pulled_words(), format!("R{sector}"));
        self.pass(1000);
        self.rig.complete_at(sector);
    }

    /// A flush that takes `us`.
    pub(super) fn flush(&mut self, client: ClientId, us: u64, outcome: Outcome) {
        self.rig.flush(client, 1);
        assert_eq!(self.rig.pulled_words(), "F");
        self.pass(us);
        let flush = self.rig.inside.pop_back().expect("the flush");
        self.rig.queue.complete(self.rig.now, flush.tag, outcome).expect("in the device");
        self.rig.pull();
    }

    /// What was charged to each of these since the last call, in us.
    pub(super) fn charged<const N: usize>(&mut self, clients: [ClientId; N]) -> [u64; N] {
        let charges: Vec<_> = self.charges.lock().expect("one thread").drain(..).collect();
        clients.map(|client| charges.iter().filter(|c| c.0 == client).map(|c| c.1).sum())
    }

    pub(super) fn stage(&self, ticket: Ticket) -> Option<Stage> {
        self.rig.queue.request_with(ticket).map(|request| request.stage())
    }
}

/// Is it as in the example of the module? A wrote 12 KiB and B 4 KiB; C asks for a flush, which
/// takes 3.4 ms (0.2 with a clean cache). A pays 3.2 * 12/16 = 2.4, B 3.2 * 4/16 = 0.8, C 0.2.
#[test]
fn owners_pay_by_bytes_and_askers_the_rest() {
    let mut till = Till::new();
    let [a, b, c] = [0; 3].map(|_| till.rig.client());
    till.write(a, 0, 24);
    till.write(b, 800, 8);
    till.flush(c, 3400, Outcome::OK);
    assert_eq!(till.charged([a, b, c]), [2400, 800, 200]);
    till.flush(c, 200, Outcome::OK);
    assert_eq!(till.charged([a, b, c]), [0, 0, 200], "once");
}

/// Do bytes of writes that end during a flush count for the next one? A's end before it, B's during
/// it: of the first flush A pays 3.2 and C 0.2, of the second B 3.2 and C 0.2.
#[test]
fn owners_have_two_epochs() {
    let mut till = Till::new();
    let [a, b, c] = [0; 3].map(|_| till.rig.client());
    till.write(a, 0, 8);
    till.rig.flush(c, 1);
    till.rig.pull();
    till.write(b, 800, 8);
    till.pass(3400);
    till.rig.complete_flush();
    till.rig.pull();
    assert_eq!(till.charged([a, b, c]), [3200, 0, 200]);
    till.flush(c, 3400, Outcome::OK);
    assert_eq!(till.charged([a, b, c]), [0, 3200, 200]);
}

/// Does each client of a merged request pay for its own bytes? A has 8 sectors, B 16 and C 8 of one
/// command of 32: 3.2 ms in quarters.
#[test]
fn owners_of_a_merged_request_pay_each() {
    let mut till = Till::new();
    let [a, b, c] = [0; 3].map(|_| till.rig.client());
    till.rig.write(a, 0, 8);
    till.rig.write(b, 8, 16);
    till.rig.write(c, 24, 8);
    assert_eq!(till.rig.pull()[0].sectors, 32);
    till.rig.complete_at(0);
    till.flush(a, 3400, Outcome::OK);
    assert_eq!(till.charged([a, b, c]), [800 + 200, 1600, 800]);
}

/// Do several clients that ask for a flush share the rest? 0.2 ms among four requests, three of
/// them A's.
#[test]
fn askers_share_the_rest() {
    let mut till = Till::new();
    let [a, b] = [0; 2].map(|_| till.rig.client());
    till.write(b, 0, 8);
    till.rig.set("flush_delay", "1000");
    till.rig.read(b, 80, 8);
    till.rig.pull();
    for (client, cookie) in [(a, 1), (a, 2), (a, 3), (b, 4)] {
        till.rig.flush(client, cookie);
    }
    till.rig.complete_at(80);
    assert_eq!(till.rig.pulled_words(), "F");
    till.pass(3400);
    till.rig.complete_flush();
    assert_eq!(till.charged([a, b]), [150, 3200 + 50]);
}

/// Do reads, discards and FUA writes pay nothing? C pays for the whole flush.
#[test]
fn owners_are_writers_into_the_cache() {
    for flags in [None, Some(Op::Read), Some(Op::Discard)] {
        let mut till = Till::fresh();
        let facts = DeviceFacts { fua: true, ..cached() };
        let halves = Halves::boxed(&till.charges, false);
        till.rig = Rig::with(facts, Limits::default(), halves);
        let [a, c] = [0; 2].map(|_| till.rig.client());
        match flags {
            None => drop(till.rig.ordered(a, 0, Flags::FUA)),
            Some(op) => drop(till.rig.submit(Bio::new(a, op, 0, 8))),
        }
        till.rig.serve();
        till.flush(c, 1000, Outcome::OK);
        assert_eq!(till.charged([a, c]), [0, 1000], "{flags:?}");
    }
}

/// Does a failed flush cost what it took, and do the bytes count for the next one?
#[test]
fn a_failed_flush_keeps_the_bytes() {
    let mut till = Till::new();
    let [a, b, c] = [0; 3].map(|_| till.rig.client());
    till.write(a, 0, 8);
    till.flush(c, 3400, Outcome::failed(5));
    assert_eq!(till.charged([a, b, c]), [3200, 0, 200]);
    till.write(b, 800, 24);
    till.flush(c, 3400, Outcome::OK);
    assert_eq!(till.charged([a, b, c]), [800, 2400, 200], "8 of 32 sectors are still A's");
}

/// Do the bytes still count after a flush was refused?
#[test]
fn a_refused_flush_keeps_the_bytes() {
    let mut till = Till::new();
    let [a, c] = [0; 2].map(|_| till.rig.client());
    till.write(a, 0, 8);
    till.rig.flush(c, 1);
    till.rig.pull();
    till.rig.refuse(0);
    till.pass(3000);
    assert_eq!(till.rig.pulled_words(), "F");
    till.pass(3400);
    till.rig.complete_flush();
    assert_eq!(till.charged([a, c]), [3200, 200]);
}

/// Do a client's bytes count half as much after each second without a write? A's 32 sectors count
/// as 32, 16, 8 and, after 6 seconds, 0 against B's 8 fresh ones. A pays 3.2 * 32/40, 16/24, 8/16,
/// 0 ms.
#[test]
fn bytes_halve_by_the_second() {
    let cases = [(999, 2560), (1000, 2133), (1999, 2133), (2000, 1600), (6000, 0)];
    for (ms, share) in cases {
        let mut till = Till::new();
        let [a, b, c] = [0; 3].map(|_| till.rig.client());
        till.write(a, 0, 32);
        till.pass(ms * 1000);
        till.write(b, 800, 8);
        till.flush(c, 3400, Outcome::OK);
        let [of_a, of_b, of_c] = till.charged([a, b, c]);
        assert_eq!(of_a, share, "after {ms} ms");
        assert!((3399..=3400).contains(&(of_a + of_b + of_c)), "rounded down");
    }
}

/// Does a client that leaves take its debts and bytes with it? Those still here pay for the rest,
/// and a newcomer in its slot owes nothing.
#[test]
fn a_client_that_leaves_owns_nothing() {
    let mut till = Till::new();
    let [a, b, c] = [0; 3].map(|_| till.rig.client());
    till.write(a, 0, 24);
    till.write(b, 800, 8);
    till.flush(a, 3400, Outcome::OK);
    till.write(b, 800, 8);
    till.rig.queue.detach(till.rig.now, a).expect("it is here");
    let newcomer = till.rig.client();
    assert_eq!(newcomer.index(), a.index());
    till.charged([]);
    till.flush(c, 3400, Outcome::OK);
    assert_eq!(till.charged([newcomer, b, c]), [0, 3200, 200]);
    till.rig.queue.audit().expect("the lists hold");
    let ticket = till.rig.write(newcomer, 1600, 8);
    assert_eq!(till.stage(ticket), Some(Stage::Waiting), "not throttled");
}

/// Is the very first flush, of what was written before the queue was made, no measure for a clean
/// cache? It takes 10 ms; then A writes, and a flush of 10 ms is A's.
#[test]
fn a_flush_of_unknown_dirt_is_no_measure() {
    let mut till = Till::fresh();
    let [a, c] = [0; 2].map(|_| till.rig.client());
    till.flush(c, 10_000, Outcome::OK);
    till.charged([]);
    till.write(a, 0, 8);
    till.flush(c, 10_000, Outcome::OK);
    assert_eq!(till.charged([a, c]), [10_000, 0], "what a clean one costs is not known");
}

/// Is no client charged with `flush_owners=0`, even for what was written before it was set?
#[test]
fn without_owners_nobody_pays() {
    let mut till = Till::new();
    let [a, c] = [0; 2].map(|_| till.rig.client());
    till.write(a, 0, 8);
    till.rig.set("flush_owners", "0");
    till.flush(c, 3400, Outcome::OK);
    assert_eq!(till.charged([a, c]), [0, 0]);
    let ticket = till.rig.write(a, 0, 8);
    assert_eq!(till.stage(ticket), Some(Stage::Waiting));
}
