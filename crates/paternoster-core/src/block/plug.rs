// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plugs: requests are held back for a moment, so that adjacent bios find each other.
//!
//! Two generations of Linux, chosen by the attribute `plug`:
//!
//! * **task** (2.6.39 and later): a client that is about to submit several bios plugs itself; its
//!   requests stay in a private list until it unplugs, sleeps, or the list is full (BLK-6).
//! * **device** (until 2.6.38): an empty queue holds its first requests of all clients until four
//!   wait, 3 ms have passed, or a client unplugs or sleeps (BLK-5). Flash that queues commands is
//!   not plugged.
//!
//! ```text
//! task    plug  b0 b1 b2 … b15  b16        unplug
//!               └──── list ───┘  └ the list is full: the 16 go to the elevator first
//! ```
//!
//! This file knows which requests are held; the queue decides what happens to them next.
//!
//! # Invariants
//! I1  A request is in its client's plug exactly while its stage is `Plugged`.
//! I2  A client that sleeps has an empty plug.
//!
//! Source: BLK-5, BLK-6. Differs: a plug has one queue here, so the limits for several do not
//! apply; the elevator decides about merges in a plug too, as about all others.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::block::common::Common;
use crate::client::ClientId;
use crate::elevator::Rules;
use crate::event::{Action, Observer};
use crate::list::{Links, List};
use crate::request::{RequestId, Requests, Stage};
use crate::time::Nanos;

/// A legacy plug list this long is flushed before one more is added (R36, BLK-6).
const LEGACY_PLUG_MAX: u32 = 16;
/// The same under blk-mq.
const MQ_PLUG_MAX: u32 = 32;
/// Under blk-mq a request of this many sectors (128 KiB) ends the plug as well.
const MQ_PLUG_LARGE: u32 = 256;
/// The device plug opens when this many requests wait (BLK-5).
const DEVICE_PLUG_REQUESTS: u32 = 4;
/// The device plug opens after this time (BLK-5).
const DEVICE_PLUG_TIME: Nanos = Nanos::from_millis(3);

/// The plug that holds back all requests of an empty queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DevicePlug {
    /// `Nanos::MAX` while it is open.
    until: Nanos,
}

impl DevicePlug {
    const OPEN: DevicePlug = DevicePlug { until: Nanos::MAX };

    pub(crate) fn is_plugged(&self) -> bool {
        self.until != Nanos::MAX
    }

    /// When it opens by itself; `Nanos::MAX` while it is open.
    pub(crate) const fn deadline(&self) -> Nanos {
        self.until
    }

    fn close(&mut self, now: Nanos) {
        self.until = now + DEVICE_PLUG_TIME;
    }

    /// Whether this many waiting requests open it.
    const fn opens_at(waiting: u32) -> bool {
        waiting >= DEVICE_PLUG_REQUESTS
    }
}

/// Both kinds of plug.
#[derive(Debug)]
pub(crate) struct Plugs {
    pub(crate) device: DevicePlug,
    pub(crate) tasks: TaskPlugs,
    /// The device is plugged, and not each task.
    pub(crate) by_device: bool,
}

impl Plugs {
    pub(crate) fn with_capacity(clients: u32) -> Plugs {
        Plugs {
            device: DevicePlug::OPEN,
            tasks: TaskPlugs::with_capacity(clients),
            by_device: false,
        }
    }

    /// Adds a request to its client's plug.
    pub(crate) fn add<O: Observer>(
        &mut self,
        common: &mut Common<O>,
        client: ClientId,
        id: RequestId,
    ) {
        common.view.requests[id].stage = Stage::Plugged;
        if self.tasks.add(&mut common.links, client, id) {
            common.emit_plug(Action::Plug, client, 0);
        }
    }

    /// The first request of an empty queue plugs the device, with that policy. `dispatched`:
    /// requests on the dispatch list.
    #[inline(never)]
    pub(crate) fn plug_device<O: Observer>(&mut self, common: &mut Common<O>, dispatched: u32) {
        if self.device.is_plugged() {
            return;
        }
        let facts = &common.view.facts;
        let queues_flash = !facts.rotational && facts.depth > 1;
        if !queues_flash && common.elevator.waiting() == 0 && dispatched == 0 {
            self.device.close(common.view.exact);
            common.emit_plug(Action::Plug, ClientId::NOBODY, 0);
        }
    }

    /// Opens the device plug when enough requests wait.
    #[inline(never)]
    pub(crate) fn unplug_if_enough<O: Observer>(
        &mut self,
        common: &mut Common<O>,
        dispatched: u32,
    ) {
        if DevicePlug::opens_at(common.elevator.waiting() + dispatched) {
            self.unplug_device(common, Action::Unplug);
        }
    }

    /// Opens the device plug.
    #[inline(never)]
    pub(crate) fn unplug_device<O: Observer>(&mut self, common: &mut Common<O>, action: Action) {
        if self.device.is_plugged() {
            self.device = DevicePlug::OPEN;
            let waiting = common.elevator.waiting();
            common.emit_plug(action, ClientId::NOBODY, waiting);
        }
    }
}

/// The clients' plugs, each a list of what its client has submitted since it plugged itself.
#[derive(Debug)]
pub(crate) struct TaskPlugs {
    lists: Vec<List>,
    /// Requests in all plugs.
    held: u32,
}

impl TaskPlugs {
    pub(crate) fn with_capacity(clients: u32) -> TaskPlugs {
        TaskPlugs { lists: vec![List::new(); clients as usize], held: 0 }
    }

    /// The number of requests held, in all plugs.
    pub(crate) const fn held(&self) -> u32 {
        self.held
    }

    /// The requests in the client's plug.
    pub(crate) fn of(&self, client: ClientId) -> &List {
        &self.lists[client.index() as usize]
    }

    fn list(&mut self, client: ClientId) -> &mut List {
        &mut self.lists[client.index() as usize]
    }

    /// Whether a plug has to be flushed before one more request is added (BLK-6).
    pub(crate) fn is_full(
        &self,
        client: ClientId,
        rules: Rules,
        requests: &Requests,
        merges: bool,
    ) -> bool {
        let list = self.of(client);
        match rules {
            Rules::Legacy => list.len() >= LEGACY_PLUG_MAX,
            Rules::Mq => {
                let large = |index| requests.0.at(index).sectors >= MQ_PLUG_LARGE;
                list.len() >= MQ_PLUG_MAX || (merges && list.last().is_some_and(large))
            }
        }
    }

    /// Adds a request; whether it is the plug's first.
    pub(crate) fn add(&mut self, links: &mut Links, client: ClientId, id: RequestId) -> bool {
        let first = self.of(client).is_empty();
        self.list(client).push_back(links, id.0);
        self.held += 1;
        first
    }

    /// Takes the oldest request out of a plug.
    pub(crate) fn pop(&mut self, links: &mut Links, client: ClientId) -> Option<RequestId> {
        let index = self.list(client).pop_front(links)?;
        self.held -= 1;
        Some(RequestId(index))
    }

    /// Takes one request out of a plug, because its bio is withdrawn.
    pub(crate) fn remove(&mut self, links: &mut Links, client: ClientId, id: RequestId) {
        self.list(client).remove(links, id.0);
        self.held -= 1;
    }

    /// Verifies the lists and their count.
    pub(crate) fn audit(&self, links: &Links) -> Result<(), String> {
        let mut held = 0;
        for list in &self.lists {
            list.check(links)?;
            held += list.len();
        }
        if held != self.held {
            let counted = self.held;
            return Err(alloc::format!("plug: {held} requests are held, counted {counted}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bio::Bio;
    use crate::block::common::tests::{client, common, request};
    use crate::elevator::Position;
    use crate::op::Op;

    /// Does an empty disk's plug hold the first requests until the fourth waits, and at most 3 ms
    /// (BLK-5)? Is flash that queues commands not plugged?
    #[test]
    fn blk_5_the_device_plug_opens_at_the_fourth_request() {
        let mut common = common();
        let mut plugs = Plugs::with_capacity(1);
        plugs.plug_device(&mut common, 0);
        assert!(!plugs.device.is_plugged(), "flash, 32 commands");
        common.view.facts.rotational = true;
        plugs.plug_device(&mut common, 1);
        assert!(!plugs.device.is_plugged(), "not empty");
        plugs.plug_device(&mut common, 0);
        assert_eq!(plugs.device.deadline(), Nanos::from_millis(3));
        for waiting in 1..=4 {
            let bio = Bio::new(client(&common), Op::Read, 8 * waiting, 8);
            let index = common.bios.take(&bio).unwrap().index();
            let id = request(&mut common, index, &bio);
            common.elevator.insert(&mut common.view, id, Position::Sorted);
            plugs.unplug_if_enough(&mut common, 0);
            assert_eq!(plugs.device.is_plugged(), waiting < 4);
        }
    }

    /// Is a legacy plug full with 16 requests, and does it give them back in their order (BLK-6)?
    #[test]
    fn blk_6_a_task_plug_holds_sixteen() {
        let mut common = common();
        let mut plugs = Plugs::with_capacity(1);
        let client = client(&common);
        let is_full = |plugs: &Plugs, requests: &Requests| {
            plugs.tasks.is_full(client, Rules::Legacy, requests, true)
        };
        for place in 0..16 {
            assert!(!is_full(&plugs, &common.view.requests), "{place}");
            let bio = Bio::new(client, Op::Read, 8 * place, 8);
            let index = common.bios.take(&bio).unwrap().index();
            let id = request(&mut common, index, &bio);
            plugs.add(&mut common, client, id);
            assert_eq!(common.view.requests[id].stage, Stage::Plugged);
        }
        assert!(is_full(&plugs, &common.view.requests));
        plugs.tasks.audit(&common.links).unwrap();
        for place in 0..16 {
            let id = plugs.tasks.pop(&mut common.links, client).unwrap();
            assert_eq!(common.view.requests[id].sector, 8 * place);
        }
        assert_eq!(plugs.tasks.held(), 0);
    }
}
