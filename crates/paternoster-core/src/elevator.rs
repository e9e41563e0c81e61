// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elevator: the part that decides whose request rides next.
//!
//! An elevator keeps the waiting requests and answers one question: *which one next, or nothing
//! until when?* It is told of everything that happens to its requests, in this order:
//!
//! ```text
//!            admit                      may this client have a request?
//!              │
//!            bind                       the request exists (queues merge and split here)
//!              │
//! requeued   insert ◀─ grown, absorbed  it waits, and may be merged with others
//!    │         │
//!    │       pick                       it is chosen ... or nobody is, for a stated reason
//!    │         │
//!    └────── started                    it is in the device
//!              │
//!           completed                   it has ended, with the device time it took
//!              │
//!           released                    it is free
//! ```
//!
//! [`Elevator::removed`] ends a wait early (cancel); [`Elevator::drain`] empties it for a change
//! of elevator. A request that an elevator did not bind is never shown to it: those that outlive
//! a change of elevator carry the epoch of the old one.
//!
//! # What holds
//! I1  Between `insert` and `pick`/`removed`/`absorbed`/`drain` the elevator holds the request,
//!     once.
//! I2  `Pick::Nothing` means that it holds none. Holding some and picking none has a reason:
//!     `Idle` with the timer set, or `Await` with something in the device.
//! I3  It allocates in `attach` only (its tables have the capacities of `Scene::limits`).

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use crate::attribute::{Attribute, AttributeError};
use crate::client::{ClientId, GroupId};
use crate::request::{Bio, Flags, Op, RequestId};
use crate::scene::Scene;
use crate::time::Nanos;

/// Which of the two block layers of Linux an elevator was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// The single queue until 5.0: request pools with batching, sorted dispatch list, requeue to
    /// its head.
    #[default]
    Legacy,
    /// blk-mq: tags, requeue through the scheduler.
    Mq,
}

/// May a client have a request?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// By the ordinary limits.
    Normal,
    /// Whatever the limits say (as long as there is memory): others wait for this client.
    Must,
    /// One of the first so many requests there are, whatever has the others (0 counts as 1).
    AtMost(u32),
}

/// Where an insertion puts a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Where it belongs.
    Sorted,
    /// Before all others of its kind: it was refused by the device, or is urgent.
    Head,
}

/// Which end of a request a bio was merged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Behind its end.
    Back,
    /// Before its start, which has changed.
    Front,
}

/// Where a picked request goes on the dispatch list (legacy rules; under mq it goes to the device).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Among the others by sector.
    Sorted,
    /// Behind all others.
    Tail,
}

/// The answer to: which one next?
#[must_use = "what an elevator dispatches it holds no longer"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// This one.
    Dispatch(RequestId, Place),
    /// Nothing on purpose, until the timer rings or something changes.
    Idle,
    /// Nothing until something in the device has ended.
    Await,
    /// Nothing waits.
    Nothing,
}

/// An invariant that does not hold, by its name.
pub type Fault = String;

/// A scheduler. Object-safe: a queue changes it at run time.
pub trait Elevator: fmt::Debug + Send {
    /// The name it is chosen by.
    fn name(&self) -> &'static str;

    /// The block layer it was made for.
    fn rules(&self) -> Rules;

    /// Whether it only passes requests on, so that under mq rules they are the device's own tags
    /// and no more of them are useful (BLK-8, a hardware queue without scheduler).
    fn passes_through(&self) -> bool {
        false
    }

    /// Comes to a queue: makes its tables. The clients and groups that are there already follow by
    /// `client_attached` and `group_changed`.
    fn attach(&mut self, scene: &mut Scene);

    /// May `client` have a request for this?
    fn admit(&mut self, scene: &mut Scene, client: ClientId, op: Op, flags: Flags) -> Admission {
        self.would_admit(scene, client, op, flags)
    }

    /// What would [`Elevator::admit`] say now, if nothing changed by that it is asked? Sleepers are
    /// looked at with it when a request has become free, under mq rules.
    fn would_admit(&self, _scene: &Scene, _client: ClientId, _op: Op, _flags: Flags) -> Admission {
        Admission::Normal
    }

    /// Is a request that has become free for those who slept before, under mq rules? Otherwise it
    /// may be one's that comes sooner, be it the one whose request has just ended; but nobody is
    /// passed over so twice.
    fn admits_in_turn(&self) -> bool {
        false
    }

    /// Of two clients that sleep for a request, where requests are had in turn
    /// ([`Elevator::admits_in_turn`]): is one that has become free rather for `one`, though `other`
    /// has slept longer?
    fn wakes_rather(&self, _one: ClientId, _other: ClientId) -> bool {
        false
    }

    /// Should bios be merged before waiting requests too, and not only behind them?
    fn merges_front(&self) -> bool {
        false
    }

    /// A bio looks for a request to become part of, before it gets one of its own: queues may merge
    /// here, so early that it finds one in the queue that its client moves to.
    fn bio_comes(&mut self, _scene: &mut Scene, _bio: &Bio) {}

    /// May `bio` become part of `request`, which it adjoins?
    fn may_merge(&self, _scene: &Scene, _request: RequestId, _bio: &Bio) -> bool {
        true
    }

    /// May `next` become part of `request`, which waits here and which it adjoins? `next` waits
    /// here too, or comes from a plug.
    fn may_absorb(&self, _scene: &Scene, _request: RequestId, _next: RequestId) -> bool {
        true
    }

    /// A request was made. Its scratch is zero.
    fn bind(&mut self, _scene: &mut Scene, _request: RequestId) {}

    /// A request begins to wait.
    fn insert(&mut self, scene: &mut Scene, request: RequestId, position: Position);

    /// A bio was merged into a waiting request.
    fn grown(&mut self, _scene: &mut Scene, _request: RequestId, _side: Side) {}

    /// A bio at one end of a waiting request was withdrawn; on `Side::Front` its start has changed.
    /// Who keeps more than an order by sector should keep the request's turn too.
    fn shrunk(&mut self, scene: &mut Scene, request: RequestId, _side: Side) {
        self.removed(scene, request);
        self.insert(scene, request, Position::Sorted);
    }

    /// `gone`, which waited here, is now part of `survivor`, which waits here too.
    fn absorbed(&mut self, scene: &mut Scene, survivor: RequestId, gone: RequestId);

    /// The request that waits before `request` in the order that merges go by.
    fn former(&self, _scene: &Scene, _request: RequestId) -> Option<RequestId> {
        None
    }

    /// The request that waits behind `request` in the order that merges go by.
    fn latter(&self, _scene: &Scene, _request: RequestId) -> Option<RequestId> {
        None
    }

    /// Which one next? What it dispatches it holds no longer.
    fn pick(&mut self, scene: &mut Scene) -> Pick;

    /// A request that it picked goes to the device.
    fn started(&mut self, _scene: &mut Scene, _request: RequestId) {}

    /// The device refused a request that had started. It comes again: by `insert` at the head
    /// under mq rules, by `started` alone under legacy ones.
    fn requeued(&mut self, _scene: &mut Scene, _request: RequestId) {}

    /// A request has ended in the device, which spent `served` on it.
    fn completed(&mut self, _scene: &mut Scene, _request: RequestId, _served: Nanos) {}

    /// A waiting request is withdrawn.
    fn removed(&mut self, scene: &mut Scene, request: RequestId);

    /// A request that it had bound ends its life.
    fn released(&mut self, _scene: &mut Scene, _request: RequestId) {}

    /// The time asked for with `Scene::set_timer` has come; the timer is no longer set.
    fn timer(&mut self, _scene: &mut Scene) {}

    /// A client came.
    fn client_attached(&mut self, _scene: &mut Scene, _client: ClientId) {}

    /// A client's class, level, weight or group changed.
    fn client_changed(&mut self, _scene: &mut Scene, _client: ClientId) {}

    /// A client has gone; it has no requests left.
    fn client_detached(&mut self, _scene: &mut Scene, _client: ClientId) {}

    /// A group came or its weight changed.
    fn group_changed(&mut self, _scene: &mut Scene, _group: GroupId) {}

    /// A group has gone; it has no members left.
    fn group_removed(&mut self, _scene: &mut Scene, _group: GroupId) {}

    /// Device time was spent for `client` outside its turns, on a flush: how much are the others to
    /// have before it comes again? With a share of f for it `cost * (1 - f) / f`, where `cost`
    /// counts as one slot at most; nothing if nobody else is there. `beside` is somebody who was
    /// served a moment ago and may count as being there.
    fn charge(
        &mut self,
        _scene: &mut Scene,
        _client: ClientId,
        _cost: Nanos,
        _beside: Option<ClientId>,
    ) -> Nanos {
        Nanos::ZERO
    }

    /// Whether what [`Elevator::charge`] answers is for the other owners of flushes, too, because
    /// it counts clients that have nothing waiting.
    fn charges_for_owners(&self) -> bool {
        false
    }

    /// Whether a fresh request may be inserted at the head, past its client's turn.
    fn lets_in_first(&self) -> bool {
        false
    }

    /// Gives up one of the waiting requests, in the order of a forced dispatch; `None` when it
    /// holds none.
    #[must_use = "what an elevator gives up it holds no longer"]
    fn drain(&mut self, scene: &mut Scene) -> Option<RequestId>;

    /// Where a forced dispatch puts what `drain` gives up (legacy rules; under mq it is the tail).
    fn drain_place(&self) -> Place {
        Place::Sorted
    }

    /// Why `request`, which waits here, still waits: a clause that continues "it waits because …".
    ///
    /// # Errors
    /// Only what `out` reports.
    fn explain(&self, scene: &Scene, request: RequestId, out: &mut dyn fmt::Write) -> fmt::Result;

    /// How many requests wait here.
    fn waiting(&self) -> u32;

    /// Verifies its invariants, in time that may grow with what it holds.
    ///
    /// # Errors
    /// The invariant that does not hold, with its numbers.
    fn audit(&self, scene: &Scene) -> Result<(), Fault>;

    /// What can be set, in the order of the listing.
    fn attributes(&self) -> &'static [Attribute] {
        &[]
    }

    /// The value of the attribute at `place` of `attributes`; `None` if it is not one number, or
    /// there is none.
    fn get(&self, _scene: &Scene, _place: usize) -> Option<u64> {
        None
    }

    /// Sets the attribute at `place`; the value is in its range.
    ///
    /// # Errors
    /// What a [`Knob`](crate::Knob) refuses; nothing has changed then.
    fn set(&mut self, _scene: &mut Scene, place: usize, _value: u64) -> Result<(), AttributeError> {
        match self.attributes().get(place) {
            Some(attribute) => Err(AttributeError::ReadOnly { name: attribute.name }),
            None => Ok(()),
        }
    }

    /// Writes the attribute at `place` as sysfs shows it; for those that are not one number.
    ///
    /// # Errors
    /// Only what `out` reports.
    fn show(&self, scene: &Scene, place: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        match (self.attributes().get(place), self.get(scene, place)) {
            (Some(attribute), Some(value)) => attribute.show(value, out),
            _ => Ok(()),
        }
    }
}

/// Makes an elevator by its name.
pub type Make = fn() -> Box<dyn Elevator>;
