// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log replayed: its calls are made on our CFQ, at their times.
//!
//! Everything around the scheduler comes from the log: which process submits and when, which bios
//! were merged, when the driver asked for a request, when a request ended, when the timer rang.
//! Only the scheduler is ours.
//!
//! # Time
//! A call has one time here, and several in the kernel, whose clock goes on. It is taken from the
//! message of what it decided (`decided_at`), because the first line of a call may be a tenth of a
//! millisecond older.

use std::collections::BTreeMap;

use paternoster_core::elevator::Side;
use paternoster_core::testing::{Probe, World};
use paternoster_core::{
    Bio, ClientId, ClientSpec, DeviceFacts, Flags, GroupId, GroupSpec, Nanos, Ncq, Op, RequestId,
};
use paternoster_schedulers::Cfq;
use paternoster_schedulers::conformance::cfq::CfqProbe;

use super::beside;
use super::calls::{Call, Said, Step};
use super::log::{Extent, Kind};
use super::message::Message;
use super::oracle::{self, Before, CLOCK, WITHIN};
use super::setup::Setup;
use super::tally::Tally;

/// The scheduler was chosen about this long before a log's first line: the limit on async requests,
/// which grows from then on, shows that.
const CHOSEN_BEFORE: Nanos = Nanos::from_millis(26);

/// A CFQ with the clients, groups and requests of a log.
pub(super) struct Replay {
    cfq: Probe<Cfq>,
    setup: Setup,
    /// Clients by process id.
    clients: BTreeMap<u32, ClientId>,
    /// Groups by weight.
    groups: BTreeMap<u32, GroupId>,
    /// By the number in the log: ours, and whether its queue got another name with it.
    requests: BTreeMap<usize, (RequestId, bool)>,
    /// For each group, what was left of its workload when its last turn ended.
    saved: BTreeMap<u32, i64>,
}

impl Replay {
    /// Replays the calls of a log.
    pub(super) fn run(log: &str, setup: Setup, steps: &[Step]) -> Tally {
        let facts = DeviceFacts { rotational: setup.rotational, ..DeviceFacts::default() };
        let world = World { facts, ncq: Ncq::Probe, ..World::default() };
        let mut replay = Replay {
            cfq: Probe::new(world, Box::new(Cfq::linux_4_19())),
            setup,
            clients: BTreeMap::new(),
            groups: BTreeMap::new(),
            requests: BTreeMap::new(),
            saved: BTreeMap::new(),
        };
        let first = Nanos::from_micros(steps.first().map_or(0, |step| step.at));
        replay.cfq.set_time(first - CHOSEN_BEFORE);
        replay.cfq.attach();
        replay.setup.apply(&mut replay.cfq);
        oracle::install(log, replay.setup.goes_on());
        steps.iter().for_each(|step| replay.step(step));
        oracle::remove()
    }

    fn step(&mut self, step: &Step) {
        self.cfq.set_time(Nanos::from_micros(decided_at(step)));
        let picked = match step.call {
            Call::Pick { request: Some(request) } => Some(self.requests[&request].0.index()),
            _ => None,
        };
        let workload_left = self.workload_left(step);
        let before = Before { picked, busy: self.cfq.busy(), workload_left };
        oracle::with(|oracle| oracle.begin(step.at, &step.said, before));
        let (group, left) = (self.cfq.serving(), self.cfq.workload_left());
        self.call(step);
        let expired = |said: &Said| matches!(said.message, Message::Expired { .. });
        if let (Some(group), true) = (group, step.said.iter().any(expired)) {
            self.saved.insert(group, left);
        }
        let call = format!("{:?}", step.call);
        oracle::with(|oracle| oracle.end(&call));
    }

    /// What is left of the workload that the next group would go on with.
    fn workload_left(&self, step: &Step) -> i64 {
        let activated = |said: &&Said| matches!(said.message, Message::SetActive { .. });
        let name = step.said.iter().find(activated).and_then(|said| said.queue);
        let queue = name.and_then(|name| oracle::with(|oracle| oracle.queue(name, None)));
        let group = queue.map(|queue| self.cfq.queue(queue).group);
        let ends_now = self.cfq.active().is_some() && self.cfq.serving() == group;
        let saved = group.filter(|_| !ends_now).and_then(|group| self.saved.get(&group));
        saved.copied().unwrap_or_else(|| self.cfq.workload_left())
    }

    fn call(&mut self, step: &Step) {
        let cfq = &mut self.cfq;
        match step.call {
            Call::Bind { request, kind, at, since } => self.bind(step, request, kind, at, since),
            Call::Insert { request } => self.insert(step, request),
            Call::Merge { request, bio, front, waits } => self.merge(request, bio, front, waits),
            Call::Pick { request } => self.pick(step, request),
            Call::Start { request } => {
                cfq.start(self.requests[&request].0);
                beside::in_driver(step, cfq);
            }
            Call::Requeue { request } => cfq.requeue(self.requests[&request].0),
            Call::Complete { request } => {
                let Some((id, _)) = self.requests.remove(&request) else { return };
                cfq.complete(id);
                beside::depth(step, cfq);
            }
            Call::Timer => cfq.ring(),
            Call::Leave => {
                if let Some(client) = self.clients.remove(&step.pid) {
                    cfq.client_leaves(client);
                }
            }
        }
    }

    fn bind(&mut self, step: &Step, request: usize, kind: Kind, at: Extent, since: u64) {
        let client = self.client(step.pid, since);
        let (op, flags) = match kind {
            Kind::Read => (Op::Read, Flags::NONE),
            Kind::SyncWrite => (Op::Write, Flags::SYNC),
            _ => (Op::Write, Flags::NONE),
        };
        let bio = Bio::new(client, op, at.sector, at.sectors).flags(flags);
        let slot = self.cfq.queue_of_client(client, bio.is_sync());
        let before = slot.map(|queue| (queue, self.cfq.queue(queue)));
        let id = self.cfq.bind(&bio);
        let queue = self.cfq.queue_of(id);
        let renamed = beside::coming(step, &self.cfq, before, queue);
        self.requests.insert(request, (id, renamed));
    }

    /// The process as a client, known since its first bio.
    fn client(&mut self, pid: u32, since: u64) -> ClientId {
        if let Some(&client) = self.clients.get(&pid) {
            return client;
        }
        let priority = self.setup.priority(pid);
        let mut spec = ClientSpec::new().pid(pid).priority(priority.class, priority.level);
        if let Some(weight) = self.setup.weight(pid) {
            spec = spec.group(self.group(weight));
        }
        let client = self.cfq.add_client(spec, Nanos::from_micros(since));
        self.clients.insert(pid, client);
        client
    }

    /// The group of that weight; the recordings have no two of the same.
    fn group(&mut self, weight: u32) -> GroupId {
        if let Some(&group) = self.groups.get(&weight) {
            return group;
        }
        let group = self.cfq.add_group(GroupSpec::new().weight(weight));
        self.groups.insert(weight, group);
        group
    }

    fn insert(&mut self, step: &Step, request: usize) {
        let (id, renamed) = self.requests[&request];
        let queue = self.cfq.queue_of(id);
        beside::queue_of_request(step, &self.cfq, queue, renamed);
        self.cfq.insert(id);
        beside::learned(step, self.cfq.queue(queue));
        beside::thought(step, &mut self.cfq, id);
    }

    fn merge(&mut self, request: usize, bio: Extent, front: bool, waits: bool) {
        let side = if front { Side::Front } else { Side::Back };
        self.cfq.grow(self.requests[&request].0, bio.sectors, side, waits);
    }

    fn pick(&mut self, step: &Step, recorded: Option<usize>) {
        beside::merge(step, &self.cfq);
        let candidates = self.cfq.waiting();
        let theirs = recorded.map(|request| self.requests[&request].0);
        let ours = self.cfq.pick();
        let (went_on, differed) = oracle::with(|it| (it.workload_went_on, it.differed));
        if went_on {
            // It was not over yet there: by how little is not logged.
            self.cfq.prolong_workload(Nanos(CLOCK.unsigned_abs()));
        }
        if candidates > 1 || ours != theirs {
            let class = if theirs.is_some() { "dispatch" } else { "no dispatch" };
            let text = format!("ours {ours:?}, recorded {theirs:?}, of {candidates}");
            let same = ours == theirs && !differed;
            oracle::with(|oracle| oracle.compare(class, same, WITHIN, &text));
        }
    }
}

/// When the kernel looked at its clock in a call: about when it wrote the message of what it
/// decided.
fn decided_at(step: &Step) -> u64 {
    let of = |wanted: fn(&Message) -> bool| {
        step.said.iter().find(|said| wanted(&said.message)).map(|said| said.at)
    };
    // Between these two the group is charged, and what is left of its workload is saved.
    let charged = || {
        let before = of(|message| matches!(message, Message::Expired { .. }));
        let after = of(|message| matches!(message, Message::Served { .. }));
        before.zip(after).map(|(before, after)| before.midpoint(after))
    };
    let told = match step.call {
        Call::Complete { .. } => of(|message| matches!(message, Message::MayArm { .. }))
            .or_else(charged)
            .or_else(|| of(|message| matches!(message, Message::SetSlice(_)))),
        Call::Insert { .. } => charged(),
        _ => None,
    };
    told.or_else(|| step.said.first().map(|said| said.at)).unwrap_or(step.at)
}
