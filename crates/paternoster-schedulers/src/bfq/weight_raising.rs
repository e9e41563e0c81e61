// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raise: a process that starts, or plays, weighs more for a while.
//!
//! A queue that comes back after two seconds of rest is taken for a starting application: it weighs
//! thirty times as much for some seconds, or until it has read 60 MB. One that asks for a little,
//! waits for it, and asks again at its own pace is taken for soft real time: 3000 times, until 300
//! ms after its last request.
//!
//! ```text
//! arrival after 2 s at rest        interactive   30    for 14000 * 7 s / rate, 3 s to 25 s
//! arrival after soft_rt_next       soft rt     3000    for 300 ms, then interactive if that lasts
//! ```
//!
//! A queue's state answers what it should become; [`Schedule::set_raised`] makes it so, and
//! `arrival` says what an arrival is taken for.
//!
//! [`Schedule::set_raised`]: super::schedule::Schedule::set_raised
//!
//! # Invariants
//! I1  The entity's coefficient is that of the queue's state.
//!
//! Source: BFQ-94 to BFQ-109.

use paternoster_core::time::Nanos;

const INTERACTIVE: u32 = 30;
const SOFT_REALTIME: u32 = 100 * INTERACTIVE;
/// Soft real time lasts this long after a request.
const SOFT_REALTIME_LASTS: Nanos = Nanos::from_millis(300);
/// Interactive raising ends after this many sectors.
const INTERACTIVE_SERVICE: u64 = 120_000;
/// Time needed between two async requests for the second to raise its queue.
const ASYNC_GAP: Nanos = Nanos::from_millis(500);

/// Why a queue weighs more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// The arrival raises nothing.
    #[default]
    No,
    /// The process starts.
    Interactive,
    /// The process comes back at its own pace.
    SoftRealtime,
}

impl Kind {
    pub(super) const fn coefficient(self) -> u32 {
        match self {
            Kind::No => 1,
            Kind::Interactive => INTERACTIVE,
            Kind::SoftRealtime => SOFT_REALTIME,
        }
    }
}

/// Whether and since when a queue is raised.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Raising {
    pub(super) kind: Kind,
    pub(super) lasts: Nanos,
    /// When it began, or ended; while not raised also the last arrival.
    pub(super) since: Nanos,
    /// When the interactive period began that soft real time interrupts.
    pub(super) interactive_since: Option<Nanos>,
    /// Service in the interactive period.
    pub(super) service: u64,
    /// An arrival before this time is not soft real time.
    pub(super) soft_realtime_next: Nanos,
    /// `soft_realtime_next` is to be computed when the last request in flight has ended.
    pub(super) is_unsettled: bool,
}

impl Raising {
    pub(super) fn new(now: Nanos) -> Raising {
        Raising { since: now, soft_realtime_next: now, ..Raising::default() }
    }

    #[inline]
    pub(super) fn is_raised(&self) -> bool {
        self.kind != Kind::No
    }

    fn has_elapsed(&self, now: Nanos) -> bool {
        now > self.since + self.lasts
    }

    /// Interactive, for this long.
    pub(super) fn interactive(&mut self, duration: Nanos) -> Kind {
        self.lasts = duration;
        Kind::Interactive
    }

    /// Whether the interactive period that soft real time interrupted is still open.
    fn interactive_goes_on(&self, now: Nanos, duration: impl FnOnce() -> Nanos) -> bool {
        self.interactive_since.is_some_and(|since| now <= since + duration())
    }

    /// Soft real time is over; the interactive period that it interrupted goes on.
    fn back_to_interactive(&mut self, duration: Nanos) -> Kind {
        self.since = self.interactive_since.unwrap_or(Nanos::ZERO);
        self.interactive(duration)
    }

    /// It is raised no longer. `forgets`: what came in the interactive period does not count
    /// against soft real time (6.18).
    pub(super) fn end(&mut self, now: Nanos, forgets: bool) -> Kind {
        if self.kind == Kind::Interactive && forgets {
            self.soft_realtime_next = now;
        }
        self.lasts = Nanos::ZERO;
        self.since = now;
        Kind::No
    }

    /// Its period is over: an interactive one that was interrupted may go on.
    pub(super) fn end_period(
        &mut self,
        now: Nanos,
        forgets: bool,
        duration: impl Fn() -> Nanos,
    ) -> Kind {
        if self.kind == Kind::SoftRealtime && self.interactive_goes_on(now, &duration) {
            self.back_to_interactive(duration())
        } else {
            self.end(now, forgets)
        }
    }

    /// An arrival at a queue that is not busy starts, prolongs, or ends raising (BFQ-98).
    #[inline]
    pub(super) fn arrive(
        &mut self,
        now: Nanos,
        arrival: Arrival,
        duration: impl FnOnce() -> Nanos,
    ) -> Option<Kind> {
        if !self.is_raised() {
            if !arrival.deserves {
                return None;
            }
            self.service = 0;
            if arrival.interactive {
                return Some(self.interactive(duration()));
            }
            self.interactive_since = None;
            self.lasts = SOFT_REALTIME_LASTS;
            return Some(Kind::SoftRealtime);
        }
        if arrival.interactive {
            return Some(self.interactive(duration()));
        }
        if arrival.in_burst {
            return Some(Kind::No);
        }
        if !arrival.soft_realtime {
            return None;
        }
        let becomes = self.kind != Kind::SoftRealtime;
        if becomes {
            self.interactive_since = Some(self.since);
            self.lasts = SOFT_REALTIME_LASTS;
        }
        self.since = now;
        becomes.then_some(Kind::SoftRealtime)
    }

    /// Whether an async request that comes now is rare enough to raise its queue (BFQ-106).
    #[inline]
    pub(super) fn is_rare(&self, now: Nanos) -> bool {
        now > self.since + ASYNC_GAP && !self.is_raised()
    }

    /// A request was dispatched: raising may be over (BFQ-103, BFQ-104).
    #[inline]
    pub(super) fn dispatched(
        &mut self,
        now: Nanos,
        in_burst: bool,
        forgets: bool,
        duration: impl Fn() -> Nanos,
    ) -> Option<Kind> {
        if in_burst {
            Some(self.end(now, forgets))
        } else if self.has_elapsed(now) {
            Some(self.end_period(now, forgets, duration))
        } else {
            None
        }
    }

    /// Whether it was served as much as an interactive queue may be (BFQ-105).
    #[inline]
    pub(super) fn is_used_up(&self) -> bool {
        self.kind == Kind::Interactive && self.service > INTERACTIVE_SERVICE
    }

    /// A soft real-time queue goes into service: the time it waited for that, since `stamp`, does
    /// not count as part of its period (BFQ-102).
    #[inline]
    pub(super) fn forgive_waiting(&mut self, now: Nanos, stamp: Option<Nanos>) {
        let Some(stamp) = stamp.filter(|&stamp| now > stamp) else { return };
        if self.kind == Kind::SoftRealtime && now > self.since {
            self.since = now.min(self.since + (now - stamp));
        }
    }

    /// Takes over the state saved from another queue, except when soft real time may begin; the
    /// caller sets its kind (BFQ-136).
    pub(super) fn resume(&mut self, saved: &Raising, with_service: bool) {
        *self = Raising {
            kind: self.kind,
            service: if with_service { saved.service } else { self.service },
            soft_realtime_next: self.soft_realtime_next,
            is_unsettled: self.is_unsettled,
            ..*saved
        };
    }

    /// Once it has been resumed: what it becomes if what was saved is over by now (BFQ-137).
    pub(super) fn end_resumed(
        &mut self,
        now: Nanos,
        saved: &Raising,
        in_burst: bool,
        duration: impl Fn() -> Nanos,
    ) -> Option<Kind> {
        let over = in_burst || saved.has_elapsed(now);
        if saved.kind == Kind::No || !over {
            return None;
        }
        let soft = saved.kind == Kind::SoftRealtime;
        if soft && !in_burst && self.interactive_goes_on(now, &duration) {
            Some(self.back_to_interactive(duration()))
        } else {
            Some(Kind::No)
        }
    }

    /// It takes over another queue's period. Returns the kind that it is to be of.
    pub(super) fn inherit(&mut self, from: &Raising) -> Kind {
        (self.lasts, self.since) = (from.lasts, from.since);
        self.interactive_since = from.interactive_since;
        from.kind
    }
}

/// What an arrival at a queue at rest is taken for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) interactive: bool,
    pub(super) soft_realtime: bool,
    /// Whether the queue is raised, or should be.
    pub(super) deserves: bool,
    /// It belongs to a large burst.
    pub(super) in_burst: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Nanos = Nanos::from_secs(5);
    const NONE: Arrival =
        Arrival { interactive: false, soft_realtime: false, deserves: true, in_burst: false };

    const fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// A state after this arrival, at `now`, and the kind it was told to become.
    fn after(mut raising: Raising, now: Nanos, arrival: Arrival) -> (Raising, Option<Kind>) {
        let kind = raising.arrive(now, arrival, || LONG);
        raising.kind = kind.unwrap_or(raising.kind);
        (raising, kind)
    }

    /// Does soft real time interrupt an interactive period, and does that go on afterwards, if it
    /// still lasts then?
    #[test]
    fn soft_real_time_interrupts() {
        let starts = Arrival { interactive: true, ..NONE };
        let plays = Arrival { soft_realtime: true, ..NONE };
        let (raising, kind) = after(Raising::new(ms(0)), ms(0), starts);
        assert_eq!((kind, raising.lasts), (Some(Kind::Interactive), LONG));
        let (raising, kind) = after(raising, ms(1000), plays);
        assert_eq!((kind, raising.lasts), (Some(Kind::SoftRealtime), ms(300)));
        assert_eq!(after(raising, ms(1200), plays).1, None, "it is already");
        for (at, kind, since) in [
            (1300, None, ms(1000)),
            (1301, Some(Kind::Interactive), ms(0)),
            (5000, Some(Kind::Interactive), ms(0)),
            (5001, Some(Kind::No), ms(5001)),
        ] {
            let mut raising = raising;
            assert_eq!(raising.dispatched(ms(at), false, true, || LONG), kind, "{at}");
            assert_eq!(raising.since, since, "{at}");
        }
    }

    /// Is what does not deserve it left alone, and does a burst end what is raised?
    #[test]
    fn what_an_arrival_does() {
        let rest = Raising::new(ms(0));
        assert_eq!(after(rest, ms(1), Arrival { deserves: false, ..NONE }).1, None);
        let raised = Raising { kind: Kind::Interactive, ..rest };
        assert_eq!(after(raised, ms(1), Arrival { in_burst: true, ..NONE }).1, Some(Kind::No));
        assert_eq!(after(raised, ms(1), NONE).1, None);
    }

    /// Is interactive raising used up after more than 120000 sectors, and soft real time never?
    #[test]
    fn interactive_raising_is_used_up() {
        let used_up = |kind, service| Raising { kind, service, ..Raising::default() }.is_used_up();
        assert_eq!([120_000, 120_001].map(|it| used_up(Kind::Interactive, it)), [false, true]);
        assert!(!used_up(Kind::SoftRealtime, 500_000));
    }
}
