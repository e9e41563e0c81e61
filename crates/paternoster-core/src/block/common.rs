// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common: what every part of the queue may need.
//!
//! The tables of requests, clients and groups (in the view), those of bios, the links of lists of
//! requests, the elevator, the rules that are followed, and the stream of events. A part owns what
//! only it knows and gets this with a call:
//!
//! ```text
//! RequestQueue ─▶ merger.merge(common, …)      finds by its own index, joins bios in the tables,
//!                                              asks the elevator, emits M
//! ```
//!
//! # Invariants
//! I1  A request is on at most one list: all lists of requests have their links here.

use crate::bio::Bio;
use crate::bio_slot::BioRun;
use crate::block::bios::Bios;
use crate::block::chosen::Chosen;
use crate::block::events::Events;
use crate::client::{ClientId, GroupId};
use crate::device::Outcome;
use crate::elevator::{Rules, Side};
use crate::event::{Action, Observer};
use crate::list::Links;
use crate::op::{Flags, Op};
use crate::queue_view::QueueView;
use crate::request::{RequestId, Stage};

/// Tables, elevator, rules and events of one queue.
#[derive(Debug)]
pub(crate) struct Common<O> {
    pub(crate) view: QueueView,
    pub(crate) elevator: Chosen,
    pub(crate) rules: Rules,
    pub(crate) bios: Bios,
    /// Links of all lists of requests: plugs, throttle, flush sequencer, dispatch list.
    pub(crate) links: Links,
    pub(crate) events: Events<O>,
}

impl<O: Observer> Common<O> {
    /// For a queue with this view of it and this elevator.
    pub(crate) fn new(view: QueueView, elevator: Chosen, observer: O) -> Common<O> {
        let limits = view.limits;
        Common {
            rules: elevator.traits().rules,
            bios: Bios::with_capacity(limits.bios),
            links: Links::with_capacity(limits.requests + 1),
            events: Events::new(observer),
            elevator,
            view,
        }
    }

    /// An event about a bio.
    #[inline]
    pub(crate) fn emit_bio(&mut self, action: Action, bio: &Bio) {
        let (what, at) = ((bio.op, bio.flags), (bio.sector, bio.sectors));
        self.events.emit(&mut self.view, action, bio.client, what, at);
    }

    /// An event about a plug, of a client's or the device's, with this many requests in it.
    #[inline]
    pub(crate) fn emit_plug(&mut self, action: Action, client: ClientId, requests: u32) {
        let nothing = (Op::Read, Flags::NONE);
        self.events.emit(&mut self.view, action, client, nothing, (0, requests));
    }

    /// An event about a whole request.
    #[inline]
    pub(crate) fn emit_request(&mut self, action: Action, id: RequestId) {
        self.events.emit_request(&mut self.view, action, id);
    }

    /// All bios in a run have ended with `outcome`.
    pub(crate) fn end_all(&mut self, run: BioRun, outcome: Outcome) {
        #[cfg(feature = "planted-bugs")]
        let run = if self.view.planted.forgets_merged_bio(run.first != run.last) {
            self.bios.only_first(run)
        } else {
            run
        };
        #[cfg(feature = "planted-bugs")]
        if self.view.planted.completes_twice() {
            self.bios.end_again(run.first, outcome);
        }
        self.bios.end_all(run, outcome);
    }

    /// Links the bio to the request's end or start and moves the request's bounds.
    pub(super) fn join(&mut self, id: RequestId, index: u32, bio: &Bio, side: Side) {
        let priority = self.view.priority_of(bio);
        let request = &mut self.view.requests[id];
        self.bios.join(request, id, index, side);
        request.priority = request.priority.better(priority);
        let action = match side {
            Side::Back => Action::BackMerge,
            Side::Front => Action::FrontMerge,
        };
        self.emit_bio(action, bio);
    }

    /// The bios of `gone` go to `survivor`, which ends where it begins.
    pub(super) fn take_over(&mut self, survivor: RequestId, gone: RequestId) {
        self.bios.take_over(&mut self.view.requests, survivor, gone);
        self.emit_request(Action::BackMerge, gone);
    }

    /// The new elevator makes its tables and learns which clients and groups exist.
    pub(crate) fn introduce(&mut self) {
        self.elevator.attach(&mut self.view);
        for index in 0..self.view.limits.groups {
            if self.view.groups.is_live(index) {
                let id = GroupId(self.view.groups.key_at(index));
                self.elevator.tell(|it| it.group_changed(&mut self.view, id));
            }
        }
        for index in 0..self.view.limits.clients {
            if self.view.clients.is_live(index) {
                let id = ClientId(self.view.clients.key_at(index));
                self.elevator.tell(|it| it.client_attached(&mut self.view, id));
            }
        }
    }

    /// Whether request `index` is in its client's plug.
    pub(crate) fn is_plugged(&self, index: u32) -> bool {
        self.view.requests.0.is_live(index) && self.view.slot(index).stage == Stage::Plugged
    }

    /// One Q event per bio, even if it is submitted again after a sleep.
    #[inline]
    pub(crate) fn announce(&mut self, bio: &Bio) {
        if O::LISTENS {
            let client = self.view.clients.at(bio.client.index());
            if client.refused != Some((bio.sector, bio.sectors)) {
                self.emit_bio(Action::Queue, bio);
            }
        }
    }

    /// The present elevator, if it knows of a request, forgets it.
    pub(crate) fn unbind(&mut self, id: RequestId) {
        if self.elevator.has_bound(&self.view.requests[id]) {
            self.elevator.released(&mut self.view, id);
        }
    }

    /// A request begins to belong to the present elevator.
    pub(crate) fn rebind(&mut self, id: RequestId) {
        let request = &mut self.view.requests[id];
        request.epoch = self.elevator.epoch();
        request.scratch = [0; 2];
        self.elevator.bind(&mut self.view, id);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::boxed::Box;
    use alloc::collections::VecDeque;

    use super::*;
    use crate::client::{Client, ClientSpec};
    use crate::device::DeviceFacts;
    use crate::elevator::{Elevator, Pick, Place, Position, Traits};
    use crate::event::NoObserver;
    use crate::queue_view::Limits;

    /// First come, first served.
    #[derive(Debug, Default)]
    struct Fifo(VecDeque<RequestId>);

    impl Elevator for Fifo {
        fn traits(&self) -> Traits {
            Traits { merges_front: true, ..Traits::mq("fifo") }
        }

        fn attach(&mut self, _: &mut QueueView) {}

        fn insert(&mut self, _: &mut QueueView, request: RequestId, at: Position) {
            match at {
                Position::Sorted => self.0.push_back(request),
                Position::Head => self.0.push_front(request),
            }
        }

        fn pick(&mut self, _: &mut QueueView) -> Pick {
            self.0.pop_front().map_or(Pick::Nothing, |id| Pick::Dispatch(id, Place::Tail))
        }

        fn removed(&mut self, _: &mut QueueView, request: RequestId) {
            self.0.retain(|&other| other != request);
        }

        fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
            self.0.pop_front()
        }

        fn neighbour(&self, view: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
            let own = view.request(request);
            let touches = |&&other: &&RequestId| match side {
                Side::Back => view.request(other).sector() == own.end(),
                Side::Front => view.request(other).end() == own.sector(),
            };
            self.0.iter().find(touches).copied()
        }

        fn waiting(&self) -> u32 {
            u32::try_from(self.0.len()).unwrap()
        }
    }

    /// What tests of a part give it: a client and an elevator without a queue.
    pub(crate) fn common() -> Common<NoObserver> {
        let view = QueueView::new(DeviceFacts::default(), Limits::default(), false);
        let mut common = Common::new(view, Chosen::new(Box::new(Fifo::default())), NoObserver);
        let client = Client::of(ClientSpec::new(), common.view.root);
        common.view.clients.0.insert(client).unwrap();
        common.view.groups.0.at_mut(common.view.root.index()).members = 1;
        common
    }

    /// The client that is there.
    pub(crate) fn client(common: &Common<NoObserver>) -> ClientId {
        common.view.client_id(0).unwrap()
    }

    /// A request that carries `bio`, in slot `index`, and waits nowhere yet.
    pub(crate) fn request(common: &mut Common<NoObserver>, index: u32, bio: &Bio) -> RequestId {
        let now = common.view.exact;
        let (key, request) = common.view.requests.0.take().unwrap();
        request.fill(bio, bio.priority.unwrap_or_default(), now);
        (request.bios_first, request.bios_last) = (index, index);
        request.epoch = common.elevator.epoch();
        common.bios.slots.at_mut(index).request = key.index();
        RequestId(key.index())
    }
}
