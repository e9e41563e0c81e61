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
//! arrival behind soft_rt_next      soft rt     3000    for 300 ms, then interactive if that lasts
//!
//! soft_rt_next = max(itself, start of backlog + served/7000 s, end of turn + slice_idle + 4 ticks)
//! ```
//!
//! The last line tells a player from a reader: a queue that asks again sooner than at 7000 sectors
//! per second, or sooner than a greedy reader would, is not soft real time.
//!
//! # Invariants
//! I1  `raised` of the scheduler is the number of busy queues that are raised.
//! I2  The entity's coefficient is that of the queue's state.
//!
//! Source: BFQ-94 to BFQ-109.

use crate::bfq::Bfq;
use crate::bfq::entity::Entity;
use crate::bfq::pattern::SETTLE;
use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::rate;
use paternoster_core::event::Note;
use paternoster_core::time::{Hz, Nanos, scale};
use paternoster_core::{ClientId, QueueView};

const INTERACTIVE: u32 = 30;
const SOFT_REALTIME: u32 = 100 * INTERACTIVE;
/// Soft real time lasts this long after a request.
const SOFT_REALTIME_LASTS: Nanos = Nanos::from_millis(300);
/// Rest needed before a queue is taken for a starting application.
const REST: Nanos = Nanos::from_secs(2);
/// Interactive raising ends after this many sectors.
const INTERACTIVE_SERVICE: u64 = 120_000;
/// The fastest that soft real time may be, in sectors per second.
const SOFT_REALTIME_RATE: u64 = 7000;
/// Time needed between two async requests for the second to raise its queue.
const ASYNC_GAP: Nanos = Nanos::from_millis(500);
/// Weight of a queue that was not configured otherwise.
const DEFAULT_WEIGHT: u32 = 40;
const DURATIONS: [Nanos; 2] = [Nanos::from_millis(2500), Nanos::from_millis(7000)];
const SHORTEST: Nanos = Nanos::from_secs(3);
const LONGEST: Nanos = Nanos::from_secs(25);

/// Why a queue weighs more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// It does not.
    #[default]
    No,
    /// It starts.
    Interactive,
    /// It comes back at its own pace.
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

    pub(super) fn is_raised(&self) -> bool {
        self.kind != Kind::No
    }

    fn has_elapsed(&self, now: Nanos) -> bool {
        now > self.since + self.lasts
    }
}

/// What an arrival at a queue at rest is taken for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) interactive: bool,
    pub(super) soft_realtime: bool,
    /// It is raised, or should be.
    pub(super) deserves: bool,
    /// It belongs to a large burst.
    pub(super) in_burst: bool,
}

/// Four ticks; four milliseconds where time is exact.
fn grace(hz: Hz) -> Nanos {
    Nanos((4 * hz.tick().0).max(if hz == Hz::EXACT { 4_000_000 } else { 0 }))
}

impl Bfq {
    /// How long an interactive period lasts: the slower the device, the longer (BFQ-98).
    pub(super) fn raise_duration(&self, view: &QueueView) -> Nanos {
        let (rotational, hz) = (view.facts().rotational, view.hz());
        let at_reference = DURATIONS[usize::from(rotational)].0 / hz.tick().0;
        let ticks = scale(rate::reference(rotational), at_reference, self.rate.rate());
        let duration = Nanos(ticks.saturating_mul(hz.tick().0));
        duration.clamp(SHORTEST, LONGEST)
    }

    /// Gives a queue another state; its weight follows with its next turn.
    pub(super) fn set_raised(&mut self, view: &mut QueueView, queue: u32, kind: Kind) {
        let home = self.queues.at_mut(queue);
        let before = home.raising.is_raised();
        let changes = home.raising.kind != kind;
        home.raising.kind = kind;
        if home.is_busy {
            self.raised -= u32::from(before);
            self.raised += u32::from(kind != Kind::No);
        }
        self.schedule.set_raise(queue, kind.coefficient());
        if let (true, Some(client)) = (changes, home.made_for) {
            view.note(Note::WeightRaised { client, coefficient: kind.coefficient() });
        }
        self.count_if_never_raised(queue);
    }

    /// A queue left rest when it was to be raised, and is lowered again before that took effect:
    /// its weight was not counted, and would never be. Counts it now. (Linux does not.)
    fn count_if_never_raised(&mut self, queue: u32) {
        let entity = &self.schedule.entities[queue as usize];
        let never = entity.raise == 1 && entity.weight == entity.orig_weight;
        let weight = entity.new_weight;
        if never && !self.queues.at(queue).is_at_rest() && self.schedule.weights.of(queue).is_none()
        {
            self.schedule.weights.add(queue, weight);
        }
    }

    /// Whether nothing has happened in a queue for long (BFQ-94).
    pub(super) fn is_idle_for_long(&self, view: &QueueView, queue: u32) -> bool {
        let home = self.queues.at(queue);
        home.in_flight == 0 && home.stamp.is_none_or(|at| view.now() > at + REST)
    }

    /// What an arrival at a queue that is not busy is taken for (BFQ-95 to BFQ-97).
    pub(super) fn judge_arrival(&self, view: &QueueView, queue: u32, client: ClientId) -> Arrival {
        let home = self.queues.at(queue);
        let weight = self.schedule.entities[queue as usize].new_weight;
        let ordinary = !self.version.raises_default_weight_only || weight == DEFAULT_WEIGHT;
        let eligible = !home.in_large_burst && ordinary;
        let seeky = self.version.raises_default_weight_only && self.is_totally_seeky(queue);
        let interactive = eligible && self.is_idle_for_long(view, queue);
        let soft_realtime = eligible
            && view.now() > home.raising.soft_realtime_next
            && home.in_flight == 0
            && !seeky;
        // With the queues it was created with, it may be raised as if it were alone.
        let own = home.owner.is_some() || self.contexts[client.index() as usize].is_stably_merged;
        let wanted = home.is_sync && own && (interactive || soft_realtime);
        let deserves = self.tunables.low_latency && (home.raising.is_raised() || wanted);
        Arrival { interactive, soft_realtime, deserves, in_burst: home.in_large_burst }
    }

    /// An arrival at a queue that is not busy starts, prolongs, or ends raising (BFQ-98).
    pub(super) fn raise_on_arrival(&mut self, view: &mut QueueView, queue: u32, arrival: Arrival) {
        let now = view.now();
        let home = self.queues.at(queue);
        let settled = home.split_at.is_none_or(|at| now > at + SETTLE);
        if !self.tunables.low_latency || !settled {
            return;
        }
        if !home.raising.is_raised() {
            if arrival.deserves {
                self.start_raising(view, queue, arrival.interactive);
            }
        } else if arrival.interactive {
            self.make_interactive(view, queue);
        } else if arrival.in_burst {
            self.set_raised(view, queue, Kind::No);
        } else if arrival.soft_realtime {
            if home.raising.kind != Kind::SoftRealtime {
                let raising = &mut self.queues.at_mut(queue).raising;
                raising.interactive_since = Some(raising.since);
                raising.lasts = SOFT_REALTIME_LASTS;
                self.set_raised(view, queue, Kind::SoftRealtime);
            }
            self.queues.at_mut(queue).raising.since = now;
        }
    }

    /// Its budget becomes small, so that it is served soon and often (BFQ-63).
    fn start_raising(&mut self, view: &mut QueueView, queue: u32, interactive: bool) {
        if interactive {
            self.queues.at_mut(queue).raising.service = 0;
            self.make_interactive(view, queue);
        } else {
            let raising = &mut self.queues.at_mut(queue).raising;
            raising.service = 0;
            raising.interactive_since = None;
            raising.lasts = SOFT_REALTIME_LASTS;
            self.set_raised(view, queue, Kind::SoftRealtime);
        }
        let most = 2 * self.min_budget();
        let entity = &mut self.schedule.entities[queue as usize];
        entity.budget = entity.budget.min(most);
    }

    pub(super) fn make_interactive(&mut self, view: &mut QueueView, queue: u32) {
        self.queues.at_mut(queue).raising.lasts = self.raise_duration(view);
        self.set_raised(view, queue, Kind::Interactive);
    }

    /// Soft real time is over; the interactive period that it interrupted goes on.
    pub(super) fn back_to_interactive(&mut self, view: &mut QueueView, queue: u32) {
        let raising = &mut self.queues.at_mut(queue).raising;
        raising.since = raising.interactive_since.unwrap_or(Nanos::ZERO);
        self.make_interactive(view, queue);
    }

    /// Whether the interactive period that soft real time interrupted is still open.
    pub(super) fn interactive_goes_on(&self, view: &QueueView, queue: u32) -> bool {
        let since = self.queues.at(queue).raising.interactive_since;
        since.is_some_and(|since| view.now() <= since + self.raise_duration(view))
    }

    /// An async request comes to an async queue that is busy (BFQ-106).
    pub(super) fn raise_if_rare(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at(queue);
        let rare = view.now() > home.raising.since + ASYNC_GAP;
        if self.tunables.low_latency && !home.is_sync && !home.raising.is_raised() && rare {
            self.make_interactive(view, queue);
        }
    }

    /// A request of the queue in service was dispatched: raising may be over (BFQ-103 to 105).
    pub(super) fn check_raising(&mut self, view: &mut QueueView, queue: u32) {
        let home = self.queues.at(queue);
        let raising = home.raising;
        if raising.is_raised() {
            self.probe_raised(view, queue);
            let soft = raising.kind == Kind::SoftRealtime;
            if home.in_large_burst {
                self.end_raising(view, queue);
            } else if raising.has_elapsed(view.now()) {
                if soft && self.interactive_goes_on(view, queue) {
                    self.back_to_interactive(view, queue);
                } else {
                    self.end_raising(view, queue);
                }
            }
            let raising = &self.queues.at(queue).raising;
            if raising.kind == Kind::Interactive && raising.service > INTERACTIVE_SERVICE {
                self.end_raising(view, queue);
            }
        }
        let entity = &self.schedule.entities[queue as usize];
        if (entity.weight > entity.orig_weight) != (entity.raise > 1) {
            // At once, so that this turn's times are computed with its weight.
            self.schedule.take_over_changes(queue, false);
        }
    }

    fn probe_raised(&self, view: &QueueView, queue: u32) {
        let Raising { kind, since, lasts, .. } = self.queues.at(queue).raising;
        let Entity { weight, orig_weight: original, changed, .. } =
            self.schedule.entities[queue as usize];
        let (elapsed, coefficient) = (view.now() - since, kind.coefficient());
        probe(Some(queue), ProbePoint::Raised { elapsed, lasts, coefficient, weight, original });
        if changed {
            probe(Some(queue), ProbePoint::Pending);
        }
    }

    pub(super) fn end_raising(&mut self, view: &mut QueueView, queue: u32) {
        let now = view.now();
        let raising = &mut self.queues.at_mut(queue).raising;
        if raising.kind == Kind::Interactive && self.version.raises_default_weight_only {
            raising.soft_realtime_next = now;
        }
        raising.lasts = Nanos::ZERO;
        raising.since = now;
        self.set_raised(view, queue, Kind::No);
    }

    /// `low_latency` is switched off (BFQ-108).
    pub(super) fn end_all_raising(&mut self, view: &mut QueueView) {
        for queue in 0..self.queues.capacity() {
            if self.queues.is_live(queue) && self.queues.at(queue).raising.is_raised() {
                self.end_raising(view, queue);
            }
        }
    }

    /// 6.18: a queue that is totally seeky is not soft real time (BFQ-107).
    pub(super) fn end_soft_realtime_if_seeky(&mut self, view: &mut QueueView, queue: u32) {
        let soft = self.queues.at(queue).raising.kind == Kind::SoftRealtime;
        if !soft || !self.is_totally_seeky(queue) {
            return;
        }
        if self.interactive_goes_on(view, queue) {
            self.back_to_interactive(view, queue);
        } else {
            self.end_raising(view, queue);
        }
    }

    /// The earliest time at which the next arrival counts as soft real time (BFQ-99).
    pub(super) fn soft_realtime_next(&self, view: &QueueView, queue: u32) -> Nanos {
        let home = self.queues.at(queue);
        let hz = view.hz();
        let ticks = scale(home.backlog_service, 1_000_000_000, SOFT_REALTIME_RATE);
        let by_rate = home.backlog_began + hz.floor(Nanos(ticks));
        let by_greed = view.now() + hz.floor(self.tunables.slice_idle) + grace(hz);
        home.raising.soft_realtime_next.max(by_rate).max(by_greed)
    }

    /// A soft real-time queue goes into service: the time it waited for that does not count as part
    /// of its period (BFQ-102).
    pub(super) fn forgive_waiting(&mut self, view: &QueueView, queue: u32) {
        let now = view.now();
        let home = self.queues.at_mut(queue);
        let raising = &mut home.raising;
        let Some(stamp) = home.stamp.filter(|&stamp| now > stamp) else { return };
        if raising.kind == Kind::SoftRealtime && now > raising.since {
            raising.since = now.min(raising.since + (now - stamp));
        }
    }
}
