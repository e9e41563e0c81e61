// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log replayed: its calls are made on our BFQ, at their times.
//!
//! Everything around the scheduler comes from the log: which process submits and when, which bios
//! were merged, when the driver asked for a request, when a request ended, when the timer rang.
//! Only the scheduler is ours.
//!
//! A call has one time here, that of its first words under the kernel's lock; but see `history.rs`.
//!
//! Linux looks for a queue to merge with each time a bio meets a request that it might join; we do
//! so once for each bio. So here a bio comes to our scheduler if Linux said something about it, and
//! twice if it joined a request.

use std::collections::BTreeMap;

use paternoster_core::elevator::{Admission, Side};
use paternoster_core::testing::{Probe, World};
use paternoster_core::{
    Bio, ClientId, ClientSpec, DeviceFacts, Flags, GroupId, GroupSpec, Hz, Nanos, Ncq, Op,
    RequestId,
};
use paternoster_schedulers::Bfq;
use paternoster_schedulers::conformance::bfq::BfqProbe;
use paternoster_trace::ftrace::{BfqMessage, Call, CallKind, Merge, QueueName, What};

use super::account::{Account, Cause, Pair};
use super::history::History;
use super::journal;
use super::setup::Setup;
use super::words::Word;

/// Requests that may be allocated.
const NR_REQUESTS: u32 = 256;
/// Ticks per second.
const HZ: Hz = Hz::new(250).expect("it divides a second");
/// A call this near to a tick may have come before or after it.
const EDGE: Nanos = Nanos::from_micros(20);

/// A request of the log.
#[derive(Debug, Clone, Copy)]
struct Known {
    id: RequestId,
    sector: u64,
    sectors: u32,
    in_flight: bool,
}

/// A BFQ with the world that a log gives it.
pub(super) struct Replay {
    bfq: Probe<Bfq>,
    setup: Setup,
    /// Clients by process id.
    clients: BTreeMap<u32, ClientId>,
    /// Groups by weight.
    groups: BTreeMap<u32, GroupId>,
    requests: Vec<Known>,
    names: BTreeMap<u32, QueueName>,
    account: Account,
}

impl Replay {
    /// A BFQ without history, on a device as `setup` says, from `start` on.
    pub(super) fn new(setup: Setup, start_ns: u64) -> Replay {
        let facts = DeviceFacts { rotational: setup.rotational, ..DeviceFacts::default() };
        let world = World { facts, ncq: Ncq::Probe, nr_requests: NR_REQUESTS, hz: HZ };
        let mut replay = Replay {
            bfq: Probe::new(world, Box::new(Bfq::new())),
            setup,
            clients: BTreeMap::new(),
            groups: BTreeMap::new(),
            requests: Vec::new(),
            names: BTreeMap::new(),
            account: Account::default(),
        };
        replay.set_time(start_ns);
        replay.bfq.attach();
        replay
    }

    /// Replays the calls of a log; returns its account.
    pub(super) fn run(&mut self, setup: Setup, calls: &[Call]) -> Account {
        self.setup = setup;
        self.bfq.set("low_latency", setup.low_latency.into());
        self.account = Account::default();
        journal::install();
        calls.iter().for_each(|call| self.step(call));
        journal::remove();
        std::mem::take(&mut self.account)
    }

    fn origin_ns(&self) -> u64 {
        1000 * self.setup.phase_us
    }

    fn set_time(&mut self, at_ns: u64) {
        self.bfq.set_time(Nanos(at_ns - self.origin_ns()));
    }

    fn step(&mut self, call: &Call) {
        let mut recorded = said(call);
        let enters = match call.kind {
            CallKind::Plug | CallKind::Issue { .. } | CallKind::Other => false,
            CallKind::Bio { merged, .. } => merged.is_some() || !recorded.is_empty(),
            _ => true,
        };
        if !enters {
            return;
        }
        let us = call.entered_ns / 1000;
        let kind = call.kind.name();
        let (log, seconds, micros) = (self.setup.log, us / 1_000_000, us % 1_000_000);
        let at = format!("{log} {seconds}.{micros:06} {kind}");
        self.set_time(call.entered_ns);
        self.learn_names();
        let (names, history) = (self.names.clone(), History::of(call));
        let origin_ns = self.origin_ns();
        journal::with(|journal| journal.begin(call.pid, names, history, origin_ns));
        if let CallKind::Dispatch { issued: Some(issued), .. } = call.kind
            && issued.sure
        {
            recorded.push(Word::request(issued.sector, issued.sectors));
        }
        self.call(call, &at);
        let (ours, forced) = journal::with(|it| (std::mem::take(&mut it.words), it.forced));
        let differing = self.account.compare(&at, &recorded, &ours);
        let cause = forced.or_else(|| self.cause(&differing));
        self.account.call(kind, &at, cause);
        if let Err(fault) = self.bfq.audit() {
            panic!("{at}: {fault}");
        }
    }

    /// Why a call differs in which nothing was forced.
    fn cause(&self, differing: &[Pair<'_>]) -> Option<Cause> {
        if differing.is_empty() {
            return None;
        }
        let tick = HZ.tick();
        let over = self.bfq.exact_now().0 % tick.0;
        let near = over.min(tick.0 - over) <= EDGE.0;
        let by_tick = |pair: &Pair<'_>| match *pair {
            (Some(recorded), Some(ours)) => recorded.is_a_tick_from(ours),
            _ => false,
        };
        let tick = near && differing.iter().all(by_tick);
        Some(if tick { Cause::Tick } else { Cause::Unexplained })
    }

    /// Queues that are not shared are named after their process.
    fn learn_names(&mut self) {
        self.names.retain(|&queue, _| self.bfq.is_kept(queue));
        for queue in self.bfq.queues() {
            if queue.is_shared {
                self.names.insert(queue.number, QueueName::Shared { sync: true });
            } else if let Some(pid) = queue.pid {
                self.names.insert(queue.number, QueueName::Process { pid, sync: true });
            }
        }
    }

    fn call(&mut self, call: &Call, at: &str) {
        match call.kind {
            CallKind::Bio { sector, sectors, merged } => {
                self.bio(call.pid, sector, sectors, merged);
            }
            CallKind::Allocate { .. } => self.allocate(call.pid),
            CallKind::Insert { sector, sectors, .. } => self.insert(call.pid, sector, sectors),
            CallKind::Dispatch { issued, .. } => self.dispatch(issued.is_none_or(|it| it.sure)),
            CallKind::Complete { sector, sectors, .. } => self.complete(at, sector, sectors),
            CallKind::Timer => self.bfq.ring(),
            CallKind::Exit { .. } => {
                if let Some(client) = self.clients.remove(&call.pid) {
                    self.bfq.client_leaves(client);
                }
            }
            CallKind::Plug | CallKind::Issue { .. } | CallKind::Other => {}
            CallKind::Requeue { .. } | CallKind::Lost { .. } => panic!("{at}: in no log"),
        }
    }

    /// The process as a client, known since its first bio.
    fn client(&mut self, pid: u32) -> ClientId {
        if let Some(&client) = self.clients.get(&pid) {
            return client;
        }
        let mut spec = ClientSpec::new().pid(pid);
        if let Some((_, weight)) = self.setup.weights.iter().find(|(of, _)| *of == pid) {
            spec = spec.group(self.group(*weight));
        }
        let client = self.bfq.add_client(spec, self.bfq.exact_now());
        self.clients.insert(pid, client);
        client
    }

    /// The group of that weight; the logs have no two of the same.
    fn group(&mut self, weight: u32) -> GroupId {
        if let Some(&group) = self.groups.get(&weight) {
            return group;
        }
        let group = self.bfq.add_group(GroupSpec::new().weight(weight));
        self.groups.insert(weight, group);
        group
    }

    /// All bios of the logs are reads.
    fn bio(&mut self, pid: u32, sector: u64, sectors: u32, merged: Option<Merge>) {
        let client = self.client(pid);
        let bio = Bio::new(client, Op::Read, sector, sectors);
        self.bfq.bio_comes(&bio);
        let Some(merged) = merged else { return };
        self.bfq.bio_comes(&bio);
        let side = match merged {
            Merge::Back => Side::Back,
            Merge::Front => Side::Front,
        };
        let joins = |known: &&mut Known| {
            let touches = match side {
                Side::Back => known.sector + u64::from(known.sectors) == sector,
                Side::Front => known.sector == sector + u64::from(sectors),
            };
            touches && !known.in_flight
        };
        let known = self.requests.iter_mut().find(joins).expect("what the bio joined");
        known.sectors += sectors;
        if side == Side::Front {
            known.sector = sector;
        }
        let id = known.id;
        assert!(self.bfq.may_merge(id, &bio), "{bio:?} may not join {id:?}");
        self.bfq.grow(id, sectors, side, true);
    }

    fn allocate(&mut self, pid: u32) {
        let client = self.client(pid);
        let depth = match self.bfq.admit(client, Op::Read, Flags::NONE) {
            Admission::AtMost(depth) => depth,
            _ => NR_REQUESTS,
        };
        let word = Word::depth(self.bfq.raised(), depth);
        journal::with(|journal| journal.words.push(word));
    }

    fn insert(&mut self, pid: u32, sector: u64, sectors: u32) {
        let client = self.client(pid);
        let bio = Bio::new(client, Op::Read, sector, sectors);
        let id = self.bfq.bind(&bio);
        self.bfq.insert(id);
        self.requests.push(Known { id, sector, sectors, in_flight: false });
    }

    /// If it is unknown which request the kernel chose here, that shows when it ends.
    fn dispatch(&mut self, sure: bool) {
        self.bfq.ask();
        let Some(picked) = self.bfq.pick() else { return };
        let known = self.requests.iter_mut().find(|known| known.id == picked);
        let known = known.expect("one that was inserted");
        known.in_flight = true;
        if sure {
            let word = Word::request(known.sector, known.sectors);
            journal::with(|journal| journal.words.push(word));
        }
    }

    fn complete(&mut self, at: &str, sector: u64, sectors: u32) {
        let ended =
            |known: &Known| known.in_flight && (known.sector, known.sectors) == (sector, sectors);
        let Some(place) = self.requests.iter().position(ended) else {
            panic!("{at}: {sector} + {sectors} ends, which we did not dispatch");
        };
        let id = self.requests.remove(place).id;
        self.bfq.complete(id);
    }
}

/// What Linux says in a call.
fn said(call: &Call) -> Vec<Word> {
    let mut words = Vec::new();
    for record in &call.records {
        let What::Message { queue, message } = &record.what else { continue };
        if let (BfqMessage::SetInService { .. }, Some(queue)) = (message, queue) {
            words.push(Word::turn(*queue));
        }
        words.extend(Word::recorded(*queue, message));
    }
    words
}
