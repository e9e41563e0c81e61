// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elevator: the part that decides which client's request goes next.
//!
//! An elevator keeps the waiting requests and answers one question: *which one next, or nothing
//! until when?* Everything that happens to its requests is reported to it, in this order:
//!
//! ```text
//!            admit                      may this client have a request?
//!              │
//!            bind                       the request exists (queues merge and split here)
//!              │
//! requeued   insert ◀─ grown, absorbed  it waits, and may be merged with others
//!    │         │
//!    │       pick                       it is chosen ... or none is, for a stated reason
//!    │         │
//!    └────── started                    it is in the device
//!              │
//!           completed                   it has ended, with the device time it took
//!              │
//!           released                    it is freed
//! ```
//!
//! [`Elevator::removed`] ends a wait early (cancel); [`Elevator::drain`] empties it for a change of
//! elevator. It never sees a request that it did not bind: requests that outlive a change of
//! elevator carry the epoch of the old one.
//!
//! # Invariants
//! I1  Between `insert` and `pick`/`removed`/`absorbed`/`drain` the elevator holds the request,
//!     once.
//! I2  `Pick::Nothing` means that it holds none. If it holds some and picks none it has a reason:
//!     `Idle` with the timer set, or `Await` with something in the device.
//! I3  It allocates only in `attach` (its tables have the capacities of `QueueView::limits`).

mod extensions;
mod traits;

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

pub use self::extensions::{KnobTable, Knobs, Members};
pub use self::traits::{Rules, Traits};

use crate::bio::Bio;
use crate::client::ClientId;
use crate::op::{Flags, Op};
use crate::queue_view::QueueView;
use crate::request::RequestId;
use crate::time::Nanos;

/// May a client have a request?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Within the ordinary limits.
    Normal,
    /// Whatever the limits say (as long as there is memory): others wait for this client.
    Must,
    /// Only a tag position below this (0 counts as 1), whatever holds the others.
    AtMost(u32),
    /// None now: those that are free are for others. It is asked again whenever a request ends, and
    /// at [`Elevator::admits_from`]. While none is in use it gets one all the same.
    Later,
}

/// Where an insertion puts a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// In its ordinary place.
    Sorted,
    /// Before all others of its kind: the device refused it, or it is urgent.
    Head,
}

/// Which end of a request a bio was merged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// After its end.
    Back,
    /// Before its start, which has changed.
    Front,
}

/// Where a picked request goes on the dispatch list (legacy rules; under mq it goes to the device).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Among the others by sector.
    Sorted,
    /// After all others.
    Tail,
}

/// The answer to: which one next?
#[must_use = "what an elevator dispatches it holds no longer"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// This one.
    Dispatch(RequestId, Place),
    /// Nothing on purpose, until the timer fires or something changes.
    Idle,
    /// Nothing until a command in the device has ended.
    Await,
    /// Nothing waits.
    Nothing,
}

/// An invariant that does not hold, by its name.
pub type Fault = String;

/// A scheduler. Object-safe: a queue changes it at run time.
///
/// Seven core methods are required. All others have a default, in the groups below; rarely called
/// methods are in traits of their own, which it returns if it implements them.
///
/// | group | methods | what the default does |
/// |---|---|---|
/// | core | `traits` `attach` `insert` `pick` `removed` `drain` `waiting` | (required) |
/// | admission | `admit` `would_admit` `admits_from` `wakes_rather` `charge` | all may |
/// | merging | `bio_comes` `may_merge` `may_absorb` | all that is adjacent may merge |
/// | | `grown` `shrunk` `absorbed` `neighbour` | inserts it again, or removes it |
/// | life | `bind` `started` `requeued` `completed` `released` `timer` | nothing |
/// | observation | `explain` `audit` | says how many wait; finds no fault |
/// | extensions | `members` ([`Members`]), `knobs` `knobs_mut` ([`Knobs`]) | none |
pub trait Elevator: fmt::Debug + Send {
    // Core.

    /// Its traits. Read when it joins a queue and when one of its attributes was set.
    fn traits(&self) -> Traits;

    /// Joins a queue: makes its tables. Existing clients and groups follow through [`Members`].
    fn attach(&mut self, view: &mut QueueView);

    /// A request begins to wait.
    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position);

    /// Which one next? It no longer holds what it dispatches.
    fn pick(&mut self, view: &mut QueueView) -> Pick;

    /// A waiting request is withdrawn.
    fn removed(&mut self, view: &mut QueueView, request: RequestId);

    /// Gives up one of the waiting requests, in the order of a forced dispatch; `None` when it
    /// holds none.
    #[must_use = "what an elevator gives up it holds no longer"]
    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId>;

    /// How many requests wait in it.
    fn waiting(&self) -> u32;

    // Admission: which client gets a request, and what it owes.

    /// May `client` have a request for this?
    fn admit(&mut self, view: &mut QueueView, client: ClientId, op: Op, flags: Flags) -> Admission {
        self.would_admit(view, client, op, flags)
    }

    /// What would [`Elevator::admit`] return now? Asking changes nothing. Under mq rules it is used
    /// to examine sleepers when a request has become free.
    fn would_admit(
        &self,
        _view: &QueueView,
        _client: ClientId,
        _op: Op,
        _flags: Flags,
    ) -> Admission {
        Admission::Normal
    }

    /// When a client that may have none now ([`Admission::Later`], or a limit) is to be asked
    /// again, if no request ends before; `Nanos::MAX`: only then.
    fn admits_from(&self, _view: &QueueView, _client: ClientId) -> Nanos {
        Nanos::MAX
    }

    /// Of two clients that sleep for a request, where requests are granted in turn
    /// ([`Traits::admits_in_turn`]): should a free one go to `one`, although `other` has slept
    /// longer?
    fn wakes_rather(&self, _view: &QueueView, _one: ClientId, _other: ClientId) -> bool {
        false
    }

    /// Device time was spent for `client` outside its turns, on a flush: how much must the others
    /// get before it is served again? If its share is f, `cost * (1 - f) / f`, where `cost` counts
    /// as at most one slot; nothing if there are no others. `beside` is a client that was served a
    /// moment ago and may count as present.
    fn charge(
        &mut self,
        _view: &mut QueueView,
        _client: ClientId,
        _cost: Nanos,
        _beside: Option<ClientId>,
    ) -> Nanos {
        Nanos::ZERO
    }

    /// A flush took `cost` ns of the device for `client`, and such flushes drain data of clients,
    /// too, that call for none. Whether the elevator has charged the client, so that its next
    /// requests wait in the elevator until others have had as much; if not,
    /// [`charge`](Elevator::charge) is asked, and the client is throttled in front of it.
    fn charge_at_once(&mut self, _view: &mut QueueView, _client: ClientId, _cost: Nanos) -> bool {
        false
    }

    // Merging.

    /// A bio looks for a request to join, before it gets one of its own: queues may merge here,
    /// early enough for it to find one in the queue that its client moves to.
    fn bio_comes(&mut self, _view: &mut QueueView, _bio: &Bio) {}

    /// May `bio` join `request`, to which it is adjacent?
    fn may_merge(&self, _view: &QueueView, _request: RequestId, _bio: &Bio) -> bool {
        true
    }

    /// May `next` become part of `request`, which waits here and to which it is adjacent? `next`
    /// waits here too, or comes from a plug.
    fn may_absorb(&self, _view: &QueueView, _request: RequestId, _next: RequestId) -> bool {
        true
    }

    /// A bio was merged into a waiting request.
    fn grown(&mut self, _view: &mut QueueView, _request: RequestId, _side: Side) {}

    /// A bio at one end of a waiting request was withdrawn; on `Side::Front` its start has changed.
    /// An elevator with more than an order by sector should keep the request's turn too.
    fn shrunk(&mut self, view: &mut QueueView, request: RequestId, _side: Side) {
        self.removed(view, request);
        self.insert(view, request, Position::Sorted);
    }

    /// `gone`, which waited here, is now part of `survivor`, which waits here too.
    fn absorbed(&mut self, view: &mut QueueView, _survivor: RequestId, gone: RequestId) {
        self.removed(view, gone);
    }

    /// The request that waits directly before `request` (`Side::Front`) or after it, in the order
    /// used for merging.
    fn neighbour(&self, _view: &QueueView, _request: RequestId, _side: Side) -> Option<RequestId> {
        None
    }

    // The life of a request.

    /// A request was created. Its scratch is zero.
    fn bind(&mut self, _view: &mut QueueView, _request: RequestId) {}

    /// A request that it picked goes to the device.
    fn started(&mut self, _view: &mut QueueView, _request: RequestId) {}

    /// The device refused a request that had started. It comes again: through `insert` at the head
    /// under mq rules, through `started` alone under legacy ones.
    fn requeued(&mut self, _view: &mut QueueView, _request: RequestId) {}

    /// A request has ended in the device, which spent `served` on it.
    fn completed(&mut self, _view: &mut QueueView, _request: RequestId, _served: Nanos) {}

    /// A request that it had bound is freed.
    fn released(&mut self, _view: &mut QueueView, _request: RequestId) {}

    /// The time set with `QueueView::set_timer` has come; the timer is no longer set.
    fn timer(&mut self, _view: &mut QueueView) {}

    // Observation.

    /// Why `request`, which waits here, still waits: a clause that continues "it waits because …".
    ///
    /// # Errors
    /// Only what `out` reports.
    fn explain(
        &self,
        _view: &QueueView,
        _request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        write!(out, "{} requests wait here, and it was not picked yet", self.waiting())
    }

    /// Verifies its invariants; the time may grow with what it holds.
    ///
    /// # Errors
    /// The invariant that does not hold, with its numbers.
    fn audit(&self, _view: &QueueView) -> Result<(), Fault> {
        Ok(())
    }

    // Extensions.

    /// The part to inform of clients and groups, if it has one.
    fn members(&mut self) -> Option<&mut dyn Members> {
        None
    }

    /// Its attributes, for reading, if it has any.
    fn knobs(&self) -> Option<&dyn Knobs> {
        None
    }

    /// Its attributes, for setting, if it has any.
    fn knobs_mut(&mut self) -> Option<&mut dyn Knobs> {
        None
    }
}

/// Makes an elevator by its name.
pub type Make = fn() -> Box<dyn Elevator>;

/// One elevator that can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name it is chosen by: that of its [`Traits`].
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Makes one.
    pub make: Make,
}
