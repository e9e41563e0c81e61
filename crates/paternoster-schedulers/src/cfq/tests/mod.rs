// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of CFQ that only show inside: keys, averages, slices, workloads, references.
//!
//! What a caller of the queue can see is in `tests/all/cfq_rules/`. These tests call the elevator
//! directly, in a view of its own: a [`Bench`] binds, inserts, picks and ends requests as a queue
//! would, and audits after each step.

use super::queue::Queue;
use super::workload::Serving;
use super::*;
use alloc::vec::Vec;
use paternoster_core::device::DeviceFacts;
use paternoster_core::event::Note;
use paternoster_core::{Bio, Class, ClientSpec, GroupSpec, Limits, Priority, Stage};

mod flush_share;
mod groups;
mod lengths;
mod order;
mod sharing;
mod windows;

/// Nanoseconds of a millisecond, for keys and residuals.
const MS: i64 = 1_000_000;

/// A disk that takes `depth` commands.
fn disk(depth: u32) -> DeviceFacts {
    DeviceFacts { depth, rotational: true, ..DeviceFacts::default() }
}

/// A CFQ in a view, and what a queue would do with it.
struct Bench {
    view: QueueView,
    cfq: Cfq,
}

/// The same test under each preset, on a disk that takes one command.
fn each(test: impl Fn(Bench)) {
    for version in [LINUX_2_6_34, LINUX_3_6, LINUX_4_19] {
        test(Bench::new(version, disk(1)));
    }
}

impl Bench {
    fn new(version: Version, facts: DeviceFacts) -> Bench {
        let mut view = QueueView::alone(facts, Limits::default());
        let mut cfq = Cfq::of(version);
        cfq.attach(&mut view);
        let root = view.root();
        cfq.group_changed(&mut view, root);
        Bench { view, cfq }
    }

    fn is(&self, version: Version) -> bool {
        self.cfq.version.name == version.name
    }

    /// Sets the time to `ms` milliseconds; a timer that is due rings.
    fn at(&mut self, ms: u64) {
        self.view.turn_clock(Nanos::from_millis(ms));
        if self.view.timer() <= self.view.now() {
            self.view.cancel_timer();
            self.cfq.timer(&mut self.view);
        }
    }

    fn group(&mut self, parent: GroupId, weight: u32) -> GroupId {
        let id = self.view.add_group(GroupSpec::new().weight(weight).parent(parent));
        self.cfq.group_changed(&mut self.view, id);
        id
    }

    fn client_in(&mut self, group: GroupId, class: Class, level: u8) -> ClientId {
        let id = self.view.add_client(ClientSpec::new().group(group).priority(class, level));
        self.cfq.client_attached(&mut self.view, id);
        id
    }

    fn client_of(&mut self, class: Class, level: u8) -> ClientId {
        self.client_in(self.view.root(), class, level)
    }

    fn client(&mut self) -> ClientId {
        self.client_of(Class::BestEffort, 4)
    }

    /// A request of 8 sectors that is bound and does not wait yet.
    fn bound(&mut self, client: ClientId, op: Op, flags: Flags, sector: u64) -> RequestId {
        let bio = Bio::new(client, op, sector, 8).flags(flags);
        let id = self.view.add_request(&bio, self.view.now());
        self.view.set_stage(id, Stage::Waiting);
        self.cfq.bind(&mut self.view, id);
        id
    }

    /// A bound request begins to wait.
    fn wait(&mut self, id: RequestId) -> RequestId {
        self.cfq.insert(&mut self.view, id, Position::Sorted);
        self.audit();
        id
    }

    fn read(&mut self, client: ClientId, sector: u64) -> RequestId {
        let id = self.bound(client, Op::Read, Flags::NONE, sector);
        self.wait(id)
    }

    fn write(&mut self, client: ClientId, sector: u64) -> RequestId {
        let id = self.bound(client, Op::Write, Flags::NONE, sector);
        self.wait(id)
    }

    /// A read of a queue that is not idled for: it is in the tree of those from the start.
    fn read_unidled(&mut self, client: ClientId, sector: u64) -> RequestId {
        let id = self.bound(client, Op::Read, Flags::NONE, sector);
        let queue = self.number(client);
        self.cfq.queues.at_mut(queue).idle_window = false;
        self.wait(id)
    }

    fn pick(&mut self) -> Result<RequestId, Pick> {
        let picked = self.cfq.pick(&mut self.view);
        let answer = match picked {
            Pick::Dispatch(id, _) => {
                self.view.set_stage(id, Stage::InDevice);
                self.cfq.started(&mut self.view, id);
                Ok(id)
            }
            nothing => Err(nothing),
        };
        self.audit();
        answer
    }

    fn end(&mut self, id: RequestId) {
        self.cfq.completed(&mut self.view, id, Nanos::ZERO);
        self.free(id);
    }

    fn withdraw(&mut self, id: RequestId) {
        self.cfq.removed(&mut self.view, id);
        self.free(id);
    }

    fn free(&mut self, id: RequestId) {
        self.cfq.released(&mut self.view, id);
        self.view.free_request(id);
        self.audit();
    }

    fn audit(&self) {
        self.cfq.audit(&self.view).expect("the audit holds");
    }

    /// The number of a client's sync queue.
    fn number(&self, client: ClientId) -> u32 {
        self.cfq.contexts.slot(client, true).expect("it has a sync queue")
    }

    fn queue(&self, client: ClientId) -> &Queue {
        self.cfq.queues.at(self.number(client))
    }

    /// The async queue of a client.
    fn shared(&self, client: ClientId) -> u32 {
        self.cfq.contexts.slot(client, false).expect("it has an async queue")
    }

    /// The slice that a queue gets now.
    fn length(&mut self, queue: u32) -> Nanos {
        let Cfq { queues, schedule, tunables, .. } = &mut self.cfq;
        length::length(&self.view, tunables, &mut schedule.groups, queue, queues.at(queue))
    }

    /// A queue's turn has cost so much.
    fn charge(&mut self, queue: u32, used: Nanos) {
        let charging = self.cfq.charging(&self.view);
        self.cfq.schedule.charge(&self.view, charging, self.cfq.queues.at(queue), used);
    }

    /// Puts a queue into its tree again.
    fn stand(&mut self, queue: u32, front: bool) {
        let charging = self.cfq.charging(&self.view);
        let Cfq { queues, schedule, tunables, .. } = &mut self.cfq;
        let home = queues.at_mut(queue);
        schedule.stand(&self.view, tunables, charging, queue, home, front);
        self.cfq.update_position(&self.view, queue);
    }

    /// The key of a queue, in nanoseconds.
    fn key(&self, queue: u32) -> i64 {
        self.cfq.schedule.key_of(queue).expect("it stands in a tree")
    }

    /// The tree of a client's sync queue.
    fn tree(&self, client: ClientId) -> usize {
        self.queue(client).stand.expect("it stands somewhere").tree
    }

    fn notes(&mut self) -> Vec<Note> {
        self.view.take_notes()
    }
}
