// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of BFQ, one by one, and what it guarantees.
//!
//! `engine` calls the engine directly; for everything else a [`Bench`] is a BFQ in a view of its
//! own, which binds, inserts, picks and ends requests as a queue would, and audits after each step.
//! What a caller of the queue can see is in `tests/all/bfq_rules/`.
//!
//! Unless a test says otherwise no queue is raised (`low_latency=0`), queues that are created
//! together stay apart (`stable_merging=0`), and time is exact. Readers are far from each other.

use alloc::vec::Vec;

use super::entity::{Entity, Standing};
use super::inject::Limit;
use super::knobs::ATTRIBUTES;
use super::queue::Queue;
use super::weight_raising::{Arrival, Kind};
use super::*;
use paternoster_core::device::DeviceFacts;
use paternoster_core::event::{Expiry, Note, Preemption};
use paternoster_core::observe::seek::SeekHistory;
use paternoster_core::time::Hz;
use paternoster_core::{Bio, Class, ClientSpec, GroupSpec, Limits, Ncq, Priority, Stage};

mod budgets;
mod bursts;
mod charges;
mod engine;
mod engine_classes;
mod engine_order;
mod exact;
mod flush_share;
mod groups;
mod guarantees;
mod idling;
mod injection;
mod measured;
mod merging;
mod pattern;
mod raising;
mod rates;
mod requests;
mod rules;
mod runs;
mod shares;
mod splitting;
mod storm;
mod tags;
mod turns;
mod wakers;

/// Two readers this far apart are not close to each other.
const FAR: u64 = 1 << 24;

fn disk(depth: u32) -> DeviceFacts {
    DeviceFacts { depth, rotational: true, ..DeviceFacts::default() }
}

fn flash(depth: u32) -> DeviceFacts {
    DeviceFacts { depth, rotational: false, ..DeviceFacts::default() }
}

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// A BFQ in a view, and what a queue would do with it.
struct Bench {
    view: QueueView,
    bfq: Bfq,
}

/// The same test under each preset.
fn each(facts: DeviceFacts, test: impl Fn(Bench)) {
    for version in [LINUX_4_19, LINUX_6_18] {
        test(Bench::new(version, facts));
    }
}

impl Bench {
    fn new(version: Version, facts: DeviceFacts) -> Bench {
        let limits = Limits { clients: 24, ..Limits::default() };
        let mut view = QueueView::alone(facts, limits);
        view.set_nr_requests(256);
        let mut bfq = Bfq::of(version);
        bfq.attach(&mut view);
        // Each call of `pick` counts: `runs` tests when the block layer makes one.
        bfq.tunables.completion_runs = true;
        let mut bench = Bench { view, bfq };
        bench.set("low_latency", 0);
        bench.set("stable_merging", 0);
        bench.at(1000);
        bench
    }

    fn is(&self, version: Version) -> bool {
        self.bfq.version.name == version.name
    }

    fn set(&mut self, name: &str, value: u64) {
        let place = ATTRIBUTES.iter().position(|attribute| attribute.name == name);
        let place = place.expect("an attribute of this name");
        self.bfq.set(&mut self.view, place, value).expect("it can be set");
        self.audit();
    }

    /// Time advances to `at`; a timer that is due on the way rings.
    fn go(&mut self, at: Nanos) {
        while self.view.rings() <= at {
            self.pass(self.view.rings());
            self.view.cancel_timer();
            self.bfq.timer(&mut self.view);
            self.audit();
        }
        self.pass(at);
    }

    fn pass(&mut self, at: Nanos) {
        self.view.turn_clock(at);
    }

    /// Sets the time to `ms` milliseconds.
    fn at(&mut self, ms: u64) {
        self.go(Nanos::from_millis(ms));
    }

    /// Time advances by this many microseconds.
    fn later_us(&mut self, us: u64) {
        self.go(self.view.exact_now() + Nanos::from_micros(us));
    }

    /// Time advances by this many milliseconds.
    fn later(&mut self, ms: u64) {
        self.later_us(1000 * ms);
    }

    /// Elevators see time in ticks of a kernel with HZ=250.
    fn ticks(mut self) -> Bench {
        self.view.change_hz(Hz::new(250).expect("a divisor"));
        self.pass(self.view.exact_now());
        self
    }

    fn group(&mut self, weight: u32) -> GroupId {
        let id = self.view.add_group(GroupSpec::new().weight(weight));
        self.bfq.group_changed(&mut self.view, id);
        id
    }

    fn client_in(&mut self, group: GroupId, class: Class, level: u8) -> ClientId {
        let id = self.view.add_client(ClientSpec::new().group(group).priority(class, level));
        self.bfq.client_attached(&mut self.view, id);
        id
    }

    fn client_of(&mut self, class: Class, level: u8) -> ClientId {
        self.client_in(self.view.root(), class, level)
    }

    fn client(&mut self) -> ClientId {
        self.client_of(Class::BestEffort, 4)
    }

    fn member(&mut self, group: GroupId) -> ClientId {
        self.client_in(group, Class::BestEffort, 4)
    }

    /// Clients with a waiting read each.
    fn readers<const N: usize>(&mut self) -> [ClientId; N] {
        let mut place = 0;
        [(); N].map(|()| {
            place += 1;
            let client = self.client();
            self.read(client, place * FAR);
            client
        })
    }

    /// A request that is bound and does not wait yet.
    fn bound(&mut self, client: ClientId, op: Op, flags: Flags, at: (u64, u32)) -> RequestId {
        let bio = Bio::new(client, op, at.0, at.1).flags(flags);
        let id = self.view.add_request(&bio, self.view.exact_now());
        self.view.set_stage(id, Stage::Waiting);
        self.bfq.bind(&mut self.view, id);
        id
    }

    /// A bound request begins to wait.
    fn wait(&mut self, id: RequestId) -> RequestId {
        self.bfq.insert(&mut self.view, id, Position::Sorted);
        self.audit();
        id
    }

    fn ask(&mut self, client: ClientId, op: Op, flags: Flags, at: (u64, u32)) -> RequestId {
        let id = self.bound(client, op, flags, at);
        self.wait(id)
    }

    /// A read of `sectors`.
    fn read_of(&mut self, client: ClientId, sector: u64, sectors: u32) -> RequestId {
        self.ask(client, Op::Read, Flags::NONE, (sector, sectors))
    }

    /// A read of 8 sectors.
    fn read(&mut self, client: ClientId, sector: u64) -> RequestId {
        self.read_of(client, sector, 8)
    }

    /// A background write of 8 sectors.
    fn write(&mut self, client: ClientId, sector: u64) -> RequestId {
        self.ask(client, Op::Write, Flags::NONE, (sector, 8))
    }

    fn pick(&mut self) -> Result<RequestId, Pick> {
        let answer = match self.bfq.pick(&mut self.view) {
            Pick::Dispatch(id, _) => {
                self.view.set_stage(id, Stage::InDevice);
                self.bfq.started(&mut self.view, id);
                Ok(id)
            }
            nothing => Err(nothing),
        };
        self.audit();
        answer
    }

    /// The next request goes to the device. Returns it and its client.
    fn picked(&mut self) -> (ClientId, RequestId) {
        let id = self.pick().expect("something to do");
        (self.view.request(id).client(), id)
    }

    fn end(&mut self, id: RequestId) {
        self.bfq.completed(&mut self.view, id, Nanos::ZERO);
        self.audit();
        self.free(id);
    }

    /// The next request goes to the device, and ends 1 ms later. Returns its client.
    fn serve(&mut self) -> ClientId {
        let (client, id) = self.picked();
        self.later(1);
        self.end(id);
        client
    }

    fn withdraw(&mut self, id: RequestId) {
        self.bfq.removed(&mut self.view, id);
        self.free(id);
    }

    fn free(&mut self, id: RequestId) {
        self.bfq.released(&mut self.view, id);
        self.view.free_request(id);
        self.audit();
    }

    fn audit(&self) {
        self.bfq.audit(&self.view).expect("the audit holds");
    }

    /// The number of a client's sync queue.
    fn number(&self, client: ClientId) -> u32 {
        self.bfq.contexts.at(client).slots[1].expect("it has a sync queue")
    }

    fn queue(&self, client: ClientId) -> &Queue {
        self.bfq.queues.at(self.number(client))
    }

    fn queue_mut(&mut self, client: ClientId) -> &mut Queue {
        let number = self.number(client);
        self.bfq.queues.at_mut(number)
    }

    fn entity(&self, client: ClientId) -> Entity {
        self.bfq.schedule.entities[self.number(client) as usize]
    }

    fn entity_mut(&mut self, client: ClientId) -> &mut Entity {
        let number = self.number(client);
        &mut self.bfq.schedule.entities[number as usize]
    }

    /// The async queue of a client.
    fn shared(&self, client: ClientId) -> u32 {
        self.bfq.contexts.at(client).slots[0].expect("it has an async queue")
    }

    /// The queue in service.
    fn in_service(&self) -> Option<u32> {
        self.bfq.service.queue()
    }

    /// The turn of a client's queue ends.
    fn expire(&mut self, client: ClientId, why: Expiry) {
        let queue = self.number(client);
        assert_eq!(self.in_service(), Some(queue));
        self.bfq.expire(&mut self.view, queue, false, why);
        self.audit();
    }

    fn notes(&mut self) -> Vec<Note> {
        self.view.take_notes()
    }

    /// Why turns ended, since the last call.
    fn endings(&mut self) -> Vec<Expiry> {
        let why = |note| match note {
            Note::Expired { why, .. } => Some(why),
            _ => None,
        };
        self.notes().into_iter().filter_map(why).collect()
    }

    /// By which rules turns ended early, since the last call.
    fn preemptions(&mut self) -> Vec<Preemption> {
        let rule = |note| match note {
            Note::Preempted { rule, .. } => Some(rule),
            _ => None,
        };
        self.notes().into_iter().filter_map(rule).collect()
    }

    /// Marks the last `marks` of a client's last 32 requests as seeks.
    fn marks(&mut self, client: ClientId, marks: u32) {
        let mut seek = SeekHistory::default();
        let mut end = 1000;
        for place in 0..=32 {
            let start = if place + marks > 32 { end + 100_000 } else { end };
            seek.sample_far(true, start, 8);
            end = start + 8;
        }
        assert_eq!(seek.marks().count_ones(), marks);
        self.queue_mut(client).pattern.seek = seek;
    }

    /// Gives a queue another state.
    fn set_raised(&mut self, queue: u32, kind: Kind) {
        let home = self.bfq.queues.at_mut(queue);
        self.bfq.schedule.set_raised(&mut self.view, queue, home, kind);
    }

    /// A queue is raised no longer.
    fn end_raising(&mut self, queue: u32) {
        let forgets = self.bfq.version.raises_default_weight_only;
        let kind = self.bfq.queues.at_mut(queue).raising.end(self.view.now(), forgets);
        self.set_raised(queue, kind);
    }

    /// What a request of a client is taken for, if its queue is at rest.
    fn judged(&self, client: ClientId) -> Arrival {
        let (number, now, bfq) = (self.number(client), self.view.now(), &self.bfq);
        let weight = bfq.schedule.entities[number as usize].new_weight;
        let is_stable = bfq.contexts.at(client).is_stably_merged;
        let home = bfq.queues.at(number);
        arrival::judge(now, home, weight, is_stable, &bfq.version, &bfq.tunables)
    }

    /// What a request of `queue` costs.
    fn charge_of(&self, queue: u32, request: RequestId) -> u64 {
        self.bfq.schedule.charge_of(&self.view, queue, self.bfq.queues.at(queue), request)
    }

    /// All processes of `queue` are to move to `other`.
    fn schedule_merge(&mut self, queue: u32, other: u32) -> Option<u32> {
        let Bfq { queues, schedule, .. } = &mut self.bfq;
        cooperate::schedule_merge(&mut self.view, queues, schedule, queue, other)
    }

    /// Whether `queue` is no longer merged.
    fn is_too_late(&self, queue: u32) -> bool {
        let window = self.bfq.tunables.merge_window;
        cooperate::is_too_late(&self.view, self.bfq.queues.at(queue), window)
    }

    /// The first request of a new queue comes.
    fn judge_burst(&mut self, queue: u32) {
        let Bfq { queues, schedule, bursts, .. } = &mut self.bfq;
        let group = schedule.entities[queue as usize].group;
        let idle = schedule.symmetry.busy() == 0;
        bursts.judge(&self.view, queues, queue, group, idle);
    }

    /// A raised queue goes into service.
    fn forgive_waiting(&mut self, queue: u32) {
        let home = self.bfq.queues.at_mut(queue);
        home.raising.forgive_waiting(self.view.now(), home.stamp);
    }

    /// The device time that others are owed for `cost` of `client`'s.
    fn due_for(&mut self, client: ClientId, cost: Nanos, beside: Option<ClientId>) -> Nanos {
        self.bfq.charge(&mut self.view, client, cost, beside)
    }

    /// How much others may do in the time of a client's queue.
    fn limit(&self, client: ClientId) -> Limit {
        self.bfq.injection.limit(self.number(client))
    }

    fn limit_mut(&mut self, client: ClientId) -> &mut Limit {
        let number = self.number(client);
        self.bfq.injection.limit_mut(number)
    }

    /// Requests of the queue in service, if the device may be kept empty for it.
    fn of_starved(&self) -> Option<u32> {
        let served = self.in_service().filter(|_| self.bfq.version.probes_not_when_starved);
        self.bfq.queues.of_starved(served)
    }
}
