// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pattern: what a queue's requests look like, seen as they arrive.
//!
//! Three things are learned of each queue, and decide whether it pays to keep the device for it:
//! whether it is seeky (seek history), how long its process thinks between a completion and its
//! next request (think time), and whether it does hardly anything but I/O (I/O bound).
//!
//! ```text
//! I/O bound (6.18)   idle at most a fifth of the time, over windows of 100 to 200 ms
//!                    window exceeds 200 ms: both halves are forgotten
//! I/O bound (4.19)   lost when idled for without use, little done; back after 120 arrivals in time
//! ```
//!
//! And of the device: whether it queues commands, and with it whether it is flash that does.
//!
//! Source: BFQ-82 to BFQ-89; BFQ-79, BFQ-80.

use crate::bfq::Bfq;
use crate::bfq::probe_points::{ProbePoint, probe};
use crate::bfq::rate::{self, Dispatched};
use paternoster_core::observe::seek::is_far;
use paternoster_core::time::Nanos;
use paternoster_core::{Ncq, QueueView, RequestId};

/// A queue with more seeks than this among its last 32 requests is seeky.
const SEEKY_MARKS: u32 = 19;
/// The device is not probed with fewer requests than this, waiting and in the driver.
const LOAD: u32 = 4;
/// An observation window longer than this is halved.
const WINDOW: Nanos = Nanos::from_millis(200);
/// Idle at most one part in this many.
const BUSY_PARTS: u64 = 5;
/// For this long after a split nothing is concluded, except about weight raising.
pub(super) const SETTLE: Nanos = Nanos::from_secs(2);
/// Arrivals in time that make a queue I/O bound again (4.19).
const ARRIVALS_IN_TIME: u32 = 120;

/// How much of the time a queue is idle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Intensity {
    since: Nanos,
    idle: Nanos,
}

impl Intensity {
    pub(super) const fn new(now: Nanos) -> Intensity {
        Intensity { since: now, idle: Nanos::ZERO }
    }

    /// The queue was idle for this long until now.
    fn was_idle(&mut self, time: Nanos) {
        self.idle += time;
    }

    /// Whether it has been busy enough, at a moment when it is busy.
    fn is_bound(&mut self, now: Nanos) -> bool {
        let window = now - self.since;
        let bound = self.idle.0.saturating_mul(BUSY_PARTS) <= window.0;
        if window > WINDOW {
            self.since = now - Nanos(window.0 / 2);
            self.idle = Nanos(self.idle.0 / 2);
        }
        bound
    }
}

impl Bfq {
    /// Whether the device is taken to queue commands: yes until it is known not to (BFQ-83).
    pub(super) fn queues_commands(&self, view: &QueueView) -> bool {
        self.known_to_queue(view) != Some(false)
    }

    /// Whether the device queues commands; `None` if that is not known.
    pub(super) fn known_to_queue(&self, view: &QueueView) -> Option<bool> {
        match view.ncq() {
            Ncq::Declared => Some(view.facts().depth > 1),
            Ncq::Probe => self.depth.queues(),
        }
    }

    /// Flash that queues commands: seeks cost nothing, and the drive orders requests itself.
    pub(super) fn is_queueing_flash(&self, view: &QueueView) -> bool {
        !view.facts().rotational && self.queues_commands(view)
    }

    /// A request ends: the number in the device may show that it queues commands (BFQ-82).
    pub(super) fn probe_depth(&mut self) {
        let starved = self.version.probes_not_when_starved
            && self.in_service.is_some_and(|queue| {
                let home = self.queues.at(queue);
                let few = home.in_flight + home.lane.len() < self.version.probing.queueing - 1;
                home.thinks_short && few && self.in_driver < self.version.probing.queueing - 1
            });
        let counts = self.in_driver + self.waiting >= LOAD && !starved;
        self.depth.sample(&self.version.probing, self.in_driver, counts);
    }

    /// Whether a queue is seeky: twenty of its last 32 requests were seeks (BFQ-85).
    pub(super) fn is_seeky(&self, queue: u32) -> bool {
        self.queues.at(queue).seek.marks().count_ones() > SEEKY_MARKS
    }

    /// Whether all of its last requests were seeks.
    pub(super) fn is_totally_seeky(&self, queue: u32) -> bool {
        self.queues.at(queue).seek.marks() == u32::MAX
    }

    /// A request comes to `queue`: its think time and its seeks (BFQ-34).
    pub(super) fn learn(&mut self, view: &mut QueueView, queue: u32, request: RequestId) {
        self.sample_think_time(view, queue);
        self.judge_think_time(view, queue);
        let (start, sectors) = (view.request(request).sector(), view.request(request).sectors());
        let rotational = view.facts().rotational;
        self.queues.at_mut(queue).seek.sample_far(rotational, start, sectors);
        if self.version.raises_default_weight_only {
            self.end_soft_realtime_if_seeky(view, queue);
        }
    }

    fn sample_think_time(&mut self, view: &QueueView, queue: u32) {
        let longest = Nanos(self.tunables.slice_idle.0.saturating_mul(2));
        let at_rest_only = self.version.thinks_at_rest_only;
        let home = self.queues.at_mut(queue);
        if at_rest_only && !home.is_at_rest() {
            return;
        }
        let gap = home.last_completion.map_or(longest, |end| view.exact_now() - end);
        home.think_time.sample_gap(gap.min(longest), Nanos(1));
    }

    /// BFQ-87.
    fn judge_think_time(&mut self, view: &QueueView, queue: u32) {
        let slice_idle = self.tunables.slice_idle;
        let home = self.queues.at(queue);
        let settled = home.split_at.is_none_or(|at| view.now() > at + SETTLE);
        let idle_class = self.is_idle_class(queue);
        if !home.is_sync || idle_class || slice_idle == Nanos::ZERO || !settled {
            return;
        }
        let limit = if self.version.halves_think_limit { slice_idle.0 / 2 } else { slice_idle.0 };
        let long = home.think_time.is_longer_than(Nanos(limit), Nanos(1));
        let short = home.processes() > 0 && !long;
        let flips = short != home.thinks_short;
        self.queues.at_mut(queue).thinks_short = short;
        if flips {
            self.reset_limit_on_flip(view, queue, short);
        }
    }

    /// 6.18: a request comes to a sync queue. Is it busy with I/O most of the time (BFQ-89)?
    pub(super) fn measure_intensity(&mut self, view: &QueueView, queue: u32) {
        let now = view.exact_now();
        let home = self.queues.at_mut(queue);
        if let (true, 0, Some(end)) = (home.is_empty(), home.in_flight, home.last_completion) {
            home.intensity.was_idle(now - end);
        }
        if !home.is_new {
            home.is_io_bound = home.intensity.is_bound(now);
        }
    }

    /// 4.19: a queue becomes busy again, in time or not (BFQ-88).
    pub(super) fn count_arrival_in_time(&mut self, queue: u32, in_time: bool) {
        let home = self.queues.at_mut(queue);
        if home.is_io_bound {
            return;
        }
        home.in_time = if in_time { home.in_time + 1 } else { 0 };
        home.is_io_bound = home.in_time >= ARRIVALS_IN_TIME;
    }

    /// A request goes to the device: rate and positions are updated (BFQ-75, BFQ-124).
    pub(super) fn learn_rate(&mut self, view: &QueueView, queue: u32, request: RequestId) {
        let (start, sectors) = (view.request(request).sector(), view.request(request).sectors());
        let rotational = view.facts().rotational;
        let dispatched = Dispatched {
            now: view.exact_now(),
            sectors: sectors.into(),
            is_near: !is_far(self.last_position, start, sectors, rotational),
            in_driver: self.in_driver,
        };
        if self.rate.dispatched(dispatched) {
            self.follow_rate(view);
        }
        self.last_position = view.request(request).end();
        if self.in_service == Some(queue) {
            self.in_service_position = self.last_position;
        }
    }

    /// The largest budget follows the estimate, unless it was set by hand.
    pub(super) fn follow_rate(&mut self, view: &QueueView) {
        if self.tunables.max_budget == 0 {
            let timeout = self.tunables.timeout(view.hz());
            self.max_budget = rate::budget_at(self.rate.rate(), timeout);
            probe(None, ProbePoint::MaxBudget { budget: self.max_budget });
        }
    }
}
