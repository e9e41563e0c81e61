// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watchdog: an elevator from outside, between its queue and what an elevator promises.
//!
//! ```text
//! queue ──▶ Watched ──▶ the elevator of others          a law is broken
//!              │  book of what it was given     ──────▶ it is asked nothing any more; the book is
//!              └─ Verdict ──▶ loop                      served, the oldest first, until the loop
//!                                                       has given the queue bfq (one round later)
//! ```
//!
//! What waits is in the book, not only in the elevator: so whatever it has lost is handed over to
//! the next one. Ours are not watched: tests hold them to the same laws, and more.
//!
//! # Laws
//! W1  It dispatches and gives up what it holds, once.
//! W2  It counts as many as it was given; `Nothing` means none.
//! W3  `Idle` has a timer, `Await` something in the device.
//! W4  While requests wait the device is not kept idle for longer than [`IDLE`].
//! W5  A request is not passed over for ever: once it has waited [`PATIENCE`], by no more than
//!     [`PASSES`] times the number before it, divided by its client's share. Passes by a more
//!     urgent class are not counted.
//! W6  Its own audit holds, where enabled (debug builds), and it does not panic.
//!
//! Invariants: I1 while no law is broken the queue behaves as without it; I2 the book has exactly
//! what waits; I3 no clock but the queue's, and nothing is allocated after `attach`.
//!
//! Not caught: a call that never returns, and a process that is ended from within. Of the view an
//! elevator can change nothing but the scratch of requests, its timer and its notes.

mod book;

use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use paternoster_base::schedulers;
use paternoster_core::elevator::{
    Admission, Fault, Knobs, Members, Pick, Place, Position, Side, Traits,
};
use paternoster_core::{
    Attribute, AttributeError, Bio, ClientId, Elevator, Flags, GroupId, Nanos, Op, QueueView,
    RequestId,
};

pub use book::{IDLE, PASSES, PATIENCE};

use book::Book;

/// Which law was broken, once one is.
#[derive(Debug, Clone, Default)]
pub struct Verdict(Arc<OnceLock<String>>);

impl Verdict {
    /// In words that continue "the scheduler …"; `None`: all is well.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    fn is_broken(&self) -> bool {
        self.0.get().is_some()
    }

    /// The first one counts.
    fn breaks(&self, why: String) {
        let _first = self.0.set(why);
    }
}

/// Makes the elevator of this name, as the server runs it: one that is not ours is watched.
#[must_use]
pub fn by_name(name: &str) -> Option<(Box<dyn Elevator>, Option<Verdict>)> {
    if let Some(ours) = paternoster_schedulers::by_name(name).filter(|_| !watches_ours()) {
        return Some((ours, None));
    }
    let (watched, verdict) = Watched::new(schedulers::by_name(name)?);
    Some((Box::new(watched), Some(verdict)))
}

#[cfg(test)]
thread_local! {
    /// Ours are watched, too, on this thread.
    pub(crate) static WATCHES_OURS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn watches_ours() -> bool {
    #[cfg(test)]
    return WATCHES_OURS.get();
    #[cfg(not(test))]
    false
}

/// An elevator that is watched.
pub struct Watched {
    /// Taken only to be dropped.
    inner: Option<Box<dyn Elevator>>,
    verdict: Verdict,
    traits: Traits,
    attributes: &'static [Attribute],
    book: Book,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("name", &self.traits.name).finish_non_exhaustive()
    }
}

impl Watched {
    /// Watches `inner`; the verdict is known to both.
    #[must_use]
    pub fn new(inner: Box<dyn Elevator>) -> (Watched, Verdict) {
        let verdict = Verdict::default();
        let (traits, attributes) = (inner.traits(), inner.knobs().map(Knobs::attributes));
        let attributes = attributes.unwrap_or_default();
        let book = Book::default();
        let watched =
            Watched { inner: Some(inner), verdict: verdict.clone(), traits, attributes, book };
        (watched, verdict)
    }

    /// Calls the elevator, as long as it keeps the laws.
    fn ask<T>(&mut self, call: impl FnOnce(&mut (dyn Elevator + 'static)) -> T) -> Option<T> {
        let inner = self.inner.as_deref_mut().filter(|_| !self.verdict.is_broken())?;
        caught(&self.verdict, || call(inner))
    }

    /// Calls the elevator for a question that changes nothing; see [`Watched::ask`].
    fn look<T>(&self, call: impl FnOnce(&(dyn Elevator + 'static)) -> T) -> Option<T> {
        let inner = self.inner.as_deref().filter(|_| !self.verdict.is_broken())?;
        caught(&self.verdict, || call(inner))
    }

    /// Sets one of its attributes, if it has any: its traits may be others then.
    fn change(
        &mut self,
        set: impl FnOnce(&mut dyn Knobs) -> Result<(), AttributeError>,
    ) -> Result<(), AttributeError> {
        let changed = self.ask(|it| (it.knobs_mut().map_or(Ok(()), set), it.traits()));
        let Some((result, traits)) = changed else { return Ok(()) };
        self.traits = traits;
        result
    }

    /// Tells the elevator of a client or a group, if it has `Members`.
    fn tell(&mut self, what: impl FnOnce(&mut dyn Members)) {
        self.ask(|it| it.members().map(what));
    }

    /// The request that the elevator named, if it holds it.
    fn own(&self, named: Option<RequestId>, what: &str) -> Option<RequestId> {
        let named = named?;
        if self.book.has(named) {
            return Some(named);
        }
        self.verdict.breaks(format!("{what} a request that it does not hold"));
        None
    }

    /// Without the elevator: the oldest.
    fn oldest(&mut self) -> Option<RequestId> {
        let id = self.book.oldest()?;
        self.book.goes(id);
        Some(id)
    }

    /// What a pick says is held against the laws.
    fn judge(&mut self, view: &QueueView, pick: Pick) -> Result<(), String> {
        let (given, counted) = (self.book.len(), self.look(Elevator::waiting));
        if let Some(counted) = counted.filter(|counted| *counted != given) {
            return Err(format!("says that {counted} requests wait, and {given} do"));
        }
        let in_device = view.in_device().requests;
        match pick {
            Pick::Nothing if given != 0 => {
                return Err(format!("says that nothing waits, and {given} requests do"));
            }
            Pick::Idle if given != 0 && view.timer() == Nanos::MAX => {
                return Err(format!("idles without a timer while {given} requests wait"));
            }
            Pick::Await if given != 0 && in_device == 0 => {
                return Err(format!("awaits the end of nothing while {given} requests wait"));
            }
            _ => {}
        }
        let keeps_idle = matches!(pick, Pick::Idle | Pick::Await) && given != 0 && in_device == 0;
        self.book.keeps_idle(view.exact_now(), keeps_idle)?;
        self.book.check_waits(view)
    }
}

/// Does what may panic; that it did is the verdict then.
fn caught<T>(verdict: &Verdict, call: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => Some(done),
        Err(payload) => {
            verdict.breaks(format!("panicked: {}", words(&*payload)));
            // It is a stranger's: what its end does is not known.
            mem::forget(payload);
            None
        }
    }
}

fn words(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

impl Drop for Watched {
    fn drop(&mut self) {
        let inner = self.inner.take();
        let _dropped = caught(&self.verdict, || drop(inner));
    }
}

impl Elevator for Watched {
    fn traits(&self) -> Traits {
        self.traits
    }

    fn attach(&mut self, view: &mut QueueView) {
        self.book = Book::new(view);
        self.ask(|it| it.attach(view));
    }

    fn admit(&mut self, view: &mut QueueView, client: ClientId, op: Op, flags: Flags) -> Admission {
        self.ask(|it| it.admit(view, client, op, flags)).unwrap_or(Admission::Normal)
    }

    fn would_admit(&self, view: &QueueView, client: ClientId, op: Op, flags: Flags) -> Admission {
        self.look(|it| it.would_admit(view, client, op, flags)).unwrap_or(Admission::Normal)
    }

    fn admits_from(&self, view: &QueueView, client: ClientId) -> Nanos {
        self.look(|it| it.admits_from(view, client)).unwrap_or(Nanos::MAX)
    }

    fn wakes_rather(&self, view: &QueueView, one: ClientId, other: ClientId) -> bool {
        self.look(|it| it.wakes_rather(view, one, other)).unwrap_or(false)
    }

    fn bio_comes(&mut self, view: &mut QueueView, bio: &Bio) {
        self.ask(|it| it.bio_comes(view, bio));
    }

    fn may_merge(&self, view: &QueueView, request: RequestId, bio: &Bio) -> bool {
        self.look(|it| it.may_merge(view, request, bio)).unwrap_or(false)
    }

    fn may_absorb(&self, view: &QueueView, request: RequestId, next: RequestId) -> bool {
        self.look(|it| it.may_absorb(view, request, next)).unwrap_or(false)
    }

    fn bind(&mut self, view: &mut QueueView, request: RequestId) {
        self.ask(|it| it.bind(view, request));
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        self.book.comes(view, request, position);
        self.ask(|it| it.insert(view, request, position));
    }

    fn grown(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        self.ask(|it| it.grown(view, request, side));
    }

    fn shrunk(&mut self, view: &mut QueueView, request: RequestId, side: Side) {
        self.ask(|it| it.shrunk(view, request, side));
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        self.book.leaves(gone);
        self.ask(|it| it.absorbed(view, survivor, gone));
    }

    fn neighbour(&self, view: &QueueView, request: RequestId, side: Side) -> Option<RequestId> {
        self.own(self.look(|it| it.neighbour(view, request, side)).flatten(), "would merge")
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        let picked = self.ask(|it| it.pick(view));
        // Whatever else is wrong, what it gave up rightly goes.
        let goes = match picked {
            Some(Pick::Dispatch(id, _)) => self.own(Some(id), "dispatched").is_some_and(|id| {
                self.book.goes(id);
                true
            }),
            _ => false,
        };
        if let Some(pick) = picked {
            if let Err(why) = self.judge(view, pick) {
                self.verdict.breaks(why);
            }
            if goes || !self.verdict.is_broken() {
                return pick;
            }
        }
        match self.oldest() {
            Some(id) => Pick::Dispatch(id, Place::Tail),
            None => Pick::Nothing,
        }
    }

    fn started(&mut self, view: &mut QueueView, request: RequestId) {
        self.ask(|it| it.started(view, request));
    }

    fn requeued(&mut self, view: &mut QueueView, request: RequestId) {
        self.ask(|it| it.requeued(view, request));
    }

    fn completed(&mut self, view: &mut QueueView, request: RequestId, served: Nanos) {
        self.ask(|it| it.completed(view, request, served));
    }

    fn removed(&mut self, view: &mut QueueView, request: RequestId) {
        self.book.leaves(request);
        self.ask(|it| it.removed(view, request));
    }

    fn released(&mut self, view: &mut QueueView, request: RequestId) {
        self.ask(|it| it.released(view, request));
    }

    fn timer(&mut self, view: &mut QueueView) {
        self.ask(|it| it.timer(view));
    }

    fn charge(
        &mut self,
        view: &mut QueueView,
        client: ClientId,
        cost: Nanos,
        beside: Option<ClientId>,
    ) -> Nanos {
        self.ask(|it| it.charge(view, client, cost, beside)).unwrap_or(Nanos::ZERO)
    }

    fn charge_at_once(&mut self, view: &mut QueueView, client: ClientId, cost: Nanos) -> bool {
        self.ask(|it| it.charge_at_once(view, client, cost)).unwrap_or(false)
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        let given_up = self.ask(|it| it.drain(view)).flatten();
        match self.own(given_up, "gave up") {
            Some(id) => {
                self.book.goes(id);
                Some(id)
            }
            None if self.book.len() == 0 => None,
            None => {
                self.verdict.breaks(format!("did not give up {} requests", self.book.len()));
                self.oldest()
            }
        }
    }

    fn explain(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        self.look(|it| it.explain(view, request, out))
            .unwrap_or_else(|| out.write_str("its scheduler has failed, and another takes over"))
    }

    fn waiting(&self) -> u32 {
        self.book.len()
    }

    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        if let Some(Err(fault)) = self.look(|it| it.audit(view)) {
            self.verdict.breaks(format!("fails its own audit: {fault}"));
        }
        self.book.audit()
    }

    fn members(&mut self) -> Option<&mut dyn Members> {
        Some(self)
    }

    fn knobs(&self) -> Option<&dyn Knobs> {
        Some(self)
    }

    fn knobs_mut(&mut self) -> Option<&mut dyn Knobs> {
        Some(self)
    }
}

impl Members for Watched {
    fn client_attached(&mut self, view: &mut QueueView, client: ClientId) {
        self.tell(|it| it.client_attached(view, client));
    }

    fn client_changed(&mut self, view: &mut QueueView, client: ClientId) {
        self.tell(|it| it.client_changed(view, client));
    }

    fn client_detached(&mut self, view: &mut QueueView, client: ClientId) {
        self.tell(|it| it.client_detached(view, client));
    }

    fn group_changed(&mut self, view: &mut QueueView, group: GroupId) {
        self.tell(|it| it.group_changed(view, group));
    }

    fn group_removed(&mut self, view: &mut QueueView, group: GroupId) {
        self.tell(|it| it.group_removed(view, group));
    }
}

impl Knobs for Watched {
    fn attributes(&self) -> &'static [Attribute] {
        self.attributes
    }

    fn get(&self, view: &QueueView, place: usize) -> Option<u64> {
        self.look(|it| it.knobs()?.get(view, place)).flatten()
    }

    fn set(
        &mut self,
        view: &mut QueueView,
        place: usize,
        value: u64,
    ) -> Result<(), AttributeError> {
        self.change(|knobs| knobs.set(view, place, value))
    }

    fn set_text(
        &mut self,
        view: &mut QueueView,
        place: usize,
        text: &str,
    ) -> Result<(), AttributeError> {
        self.change(|knobs| knobs.set_text(view, place, text))
    }

    fn check_text(&self, place: usize, text: &str) -> Result<(), AttributeError> {
        self.look(|it| it.knobs().map_or(Ok(()), |knobs| knobs.check_text(place, text)))
            .unwrap_or(Ok(()))
    }

    fn show(&self, view: &QueueView, place: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        self.look(|it| it.knobs().map_or(Ok(()), |knobs| knobs.show(view, place, out)))
            .unwrap_or(Ok(()))
    }
}
