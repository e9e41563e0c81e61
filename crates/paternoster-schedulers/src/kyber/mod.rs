// SPDX-License-Identifier: MIT OR Apache-2.0
//! kyber: reads and writes each meet a latency target, by keeping the device's queue short.
//!
//! A fast device with hundreds of commands orders them as it likes; a read that comes last waits
//! for all of them, whatever a scheduler wants. kyber does not order requests. It limits how many
//! of each *domain* (reads, writes, discards, the rest) may be in flight, and adjusts the limits by
//! what it measures:
//!
//! ```text
//!  requests ─▶ line of its domain ─▶ token? ─▶ device ─▶ end
//!              (domain.rs)            ▲                    │ latencies
//!                       depths ───────┴──── throttle.rs ◀──┘ at most every 100 ms
//! ```
//!
//! 128 writers and one reader, on a device that serves in order, 50 us each: the read waits for 128
//! x 50 us = 6.4 ms and misses its 2 ms, so the device is congested. A write takes 6.4 ms of its 10
//! as well, three quarters: their depth goes from 128 to 96, 72, 54, 40. There a read takes 41 x 50
//! us = 2.05 ms, still too long. At 30 it takes 1.55 ms, and the depth stays there; the writes lost
//! nothing, because the device was never idle.
//!
//! Bios are merged into any waiting request, on both sides; requests are not merged with each
//! other. Async requests get at most three quarters of the scheduler's tags, so that a writer never
//! takes them all from readers.
//!
//! # Invariants
//! I1  Each request in flight holds one token of its domain (`domain.rs`).
//! I2  Requests wait although the device has room only while their domain's tokens are used up;
//!     then some of its requests are in flight, and their end is awaited.
//!
//! Source: KY-1 to KY-8, of 6.0.1; BLK-8.
//!
//! Differs: one queue on one thread has one line per domain. Linux has one per CPU and joins them
//! when a token is free, after which nothing is merged into their requests any more; here merging
//! is possible until a request is picked. Three quarters are of all tags, where Linux takes them of
//! each word of its bitmap: the same where all words are full and have at least four bits.

mod domain;
#[cfg(test)]
mod tests;
mod throttle;

use alloc::format;
use core::fmt;

use domain::{Domains, KINDS, Kind, NO_LIMIT, domain_of};
use paternoster_core::attribute::Attribute;
use paternoster_core::elevator::{
    Admission, Elevator, Fault, KnobTable, Knobs, Pick, Place, Position, Side, Traits,
};
use paternoster_core::knob::{self, Knob, Unit};
use paternoster_core::time::Nanos;
use paternoster_core::{ClientId, Flags, Op, QueueView, RequestId, is_sync};
use throttle::Throttle;

/// Latencies are checked at most this long after a completion.
const LOOK_AFTER: Nanos = Nanos::from_millis(100);

/// The part of the scheduler's tags that async requests may have, in percent.
const ASYNC_PERCENT: u64 = 75;

/// An attribute of this elevator.
type Row = Knob<Kyber>;

/// Each is the target of the domain with the same index.
static KNOBS: [Row; 2] = [
    Row::time(
        "read_lat_nsec",
        Unit::Ns,
        "how long a read should take; if reads miss it, the others give way",
        |kyber, _| kyber.throttle.target(0),
        |kyber, _, target| kyber.throttle.set_target(0, target),
    )
    .at_most(u64::MAX),
    Row::time(
        "write_lat_nsec",
        Unit::Ns,
        "how long a write should take",
        |kyber, _| kyber.throttle.target(1),
        |kyber, _, target| kyber.throttle.set_target(1, target),
    )
    .at_most(u64::MAX),
];
static ATTRIBUTES: [Attribute; 2] = knob::attributes(&KNOBS);

/// The kyber scheduler.
#[derive(Debug)]
pub struct Kyber {
    domains: Domains,
    throttle: Throttle,
}

impl Default for Kyber {
    fn default() -> Kyber {
        Kyber::new()
    }
}

impl Kyber {
    /// A kyber with the kernel's targets and no queues.
    #[must_use]
    pub fn new() -> Kyber {
        Kyber { domains: Domains::default(), throttle: Throttle::new() }
    }

    /// BLK-8: three quarters of the tags.
    fn async_depth(view: &QueueView) -> u32 {
        let tags = u64::from(view.nr_requests()) * ASYNC_PERCENT / 100;
        u32::try_from(tags).unwrap_or(u32::MAX).max(1)
    }
}

impl Elevator for Kyber {
    fn traits(&self) -> Traits {
        Traits { merges_front: true, ..Traits::mq("kyber") }
    }

    fn attach(&mut self, view: &mut QueueView) {
        // It may have served another queue before; requests it left in a device there hold no token
        // here, and say nothing about this device.
        self.domains = Domains::with_capacity(view.request_slots());
        self.throttle.reset();
    }

    fn would_admit(&self, view: &QueueView, _: ClientId, op: Op, flags: Flags) -> Admission {
        if is_sync(op, flags) {
            Admission::Normal
        } else {
            Admission::AtMost(Self::async_depth(view))
        }
    }

    fn insert(&mut self, view: &mut QueueView, request: RequestId, position: Position) {
        self.domains.insert(view, request, position);
    }

    fn shrunk(&mut self, _: &mut QueueView, _: RequestId, _: Side) {}

    fn absorbed(&mut self, view: &mut QueueView, _: RequestId, gone: RequestId) {
        self.domains.remove(view, gone);
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        match self.domains.take(view, self.throttle.depths()) {
            Some(request) => Pick::Dispatch(request, Place::Tail),
            None if self.domains.waiting() == 0 => Pick::Nothing,
            // Every domain with work is out of tokens; each request that ends returns one.
            None => Pick::Await,
        }
    }

    fn requeued(&mut self, view: &mut QueueView, request: RequestId) {
        self.domains.refused(view, request);
    }

    fn started(&mut self, _: &mut QueueView, request: RequestId) {
        debug_assert!(self.domains.contains(request), "kyber I1: it goes without a token");
    }

    fn completed(&mut self, view: &mut QueueView, request: RequestId, _served: Nanos) {
        let domain = domain_of(view, request);
        let ended = view.request(request);
        let now = view.exact_now();
        if self.throttle.record(domain, now - ended.start(), now - ended.issued()) {
            let look_at = view.now() + LOOK_AFTER;
            if look_at < view.timer() {
                view.set_timer(look_at);
            }
        }
    }

    fn removed(&mut self, view: &mut QueueView, request: RequestId) {
        self.domains.remove(view, request);
    }

    fn released(&mut self, view: &mut QueueView, request: RequestId) {
        self.domains.release(view, request);
    }

    fn timer(&mut self, view: &mut QueueView) {
        self.throttle.judge(view);
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        self.domains.take(view, &NO_LIMIT)
    }

    fn explain(
        &self,
        view: &QueueView,
        request: RequestId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let number = domain_of(view, request);
        let name = KINDS[number].name;
        match self.domains.before(view, request) {
            0 => write!(out, "it is the next {name}")?,
            1 => write!(out, "one {name} came before it")?,
            before => write!(out, "{before} {name}s came before it")?,
        }
        let depths = self.throttle.depths();
        let taken = self.domains.get(number).in_flight.len();
        if taken >= depths[number] {
            return write!(out, "; {taken} of {} tokens for {name}s are taken", depths[number]);
        }
        let (turn, gone) = self.domains.turn();
        let (Kind { name: others, batch, .. }, running) = (&KINDS[turn], self.domains.get(turn));
        let goes_on = !running.waiting.is_empty() && running.in_flight.len() < depths[turn];
        if turn != number && goes_on && gone < *batch {
            write!(out, "; {others}s have their turn, {gone} of {batch} have gone")?;
        }
        Ok(())
    }

    fn waiting(&self) -> u32 {
        self.domains.waiting()
    }

    fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        self.domains.check(view).map_err(|fault| format!("kyber domain {fault}"))?;
        self.throttle.check().map_err(|fault| format!("kyber throttle {fault}"))
    }

    fn knobs(&self) -> Option<&dyn Knobs> {
        Some(self)
    }

    fn knobs_mut(&mut self) -> Option<&mut dyn Knobs> {
        Some(self)
    }
}

impl KnobTable for Kyber {
    fn table(&self) -> (&'static [Knob<Kyber>], &'static [Attribute]) {
        (&KNOBS, &ATTRIBUTES)
    }
}
