// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved state: what a queue was like, kept of its process over a merge and until a split.
//!
//! While a process shares a queue, BFQ observes the shared queue. When the process leaves, its new
//! queue starts from what its own was like when it was merged:
//!
//! ```text
//! P alone (raised, thinks short) ── merge ──▶ shared with Q ── split ──▶ P alone (as before)
//!                                saved here                  resumed here
//! ```
//!
//! A queue merged with its very first request was never observed: what is saved is what it would
//! have been given, which is to be raised, *if raising is wanted at all* (seed 004, patch 2;
//! without that check, `early_merge_check=0`, a split raises it in spite of `low_latency=0`).
//!
//! Source: BFQ-133 to BFQ-137, BFQ-143; seed 004.

use crate::bfq::Bfq;
use crate::bfq::inject::Limit;
use crate::bfq::pattern::Intensity;
use crate::bfq::weight_raising::{Kind, Raising};
use paternoster_core::observe::think_time::ThinkTime;
use paternoster_core::{ClientId, QueueView};

/// What a process's queue was like.
#[derive(Debug, Clone, Copy)]
pub(super) struct SavedState {
    think_time: ThinkTime,
    thinks_short: bool,
    is_io_bound: bool,
    intensity: Intensity,
    pub(super) in_large_burst: bool,
    was_listed: bool,
    raising: Raising,
    limit: Limit,
    pub(super) weight: u32,
}

impl Bfq {
    /// Saves the state of `queue` for its owner. A queue without an owner is shared already.
    pub(super) fn save_state(&mut self, view: &QueueView, queue: u32) {
        let home = self.queues.at(queue);
        let Some(owner) = home.owner else { return };
        let mut raising = home.raising;
        let wanted = self.tunables.low_latency || !self.tunables.early_merge_check;
        if home.is_new && !home.in_large_burst && wanted {
            raising.kind = Kind::Interactive;
            raising.lasts = self.raise_duration(view);
            raising.since = view.now();
            raising.interactive_since = None;
        }
        let saved = SavedState {
            think_time: home.think_time,
            thinks_short: home.thinks_short,
            is_io_bound: home.is_io_bound,
            intensity: home.intensity,
            in_large_burst: home.in_large_burst,
            was_listed: self.burst_links.contains(queue),
            raising,
            limit: home.limit,
            weight: self.schedule.entities[queue as usize].new_weight,
        };
        self.contexts[owner.index() as usize].saved = Some(saved);
    }

    /// A process has a queue to itself again, which continues where its own had stopped.
    pub(super) fn resume_state(&mut self, view: &mut QueueView, client: ClientId, queue: u32) {
        let Some(saved) = self.contexts[client.index() as usize].saved else { return };
        let home = self.queues.at_mut(queue);
        home.think_time = saved.think_time;
        home.thinks_short = saved.thinks_short;
        home.is_io_bound = saved.is_io_bound;
        if self.version.measures_idleness {
            (home.intensity, home.limit) = (saved.intensity, saved.limit);
            self.schedule.set_weight(queue, saved.weight);
        }
        self.resume_raising(view, queue, saved.raising);
        self.schedule.entities[queue as usize].changed = true;
    }

    /// BFQ-136, BFQ-137.
    fn resume_raising(&mut self, view: &mut QueueView, queue: u32, saved: Raising) {
        let wanted = self.tunables.low_latency || !self.version.resumes_raise_if_wanted;
        let home = self.queues.at_mut(queue);
        let own = home.raising;
        home.raising = Raising {
            kind: own.kind,
            service: if self.version.measures_idleness { saved.service } else { own.service },
            soft_realtime_next: own.soft_realtime_next,
            is_unsettled: own.is_unsettled,
            ..saved
        };
        if !wanted {
            return;
        }
        let burst = home.in_large_burst;
        self.set_raised(view, queue, saved.kind);
        let over = burst || view.now() > saved.since + saved.lasts;
        if saved.kind == Kind::No || !over {
            return;
        }
        if saved.kind == Kind::SoftRealtime && !burst && self.interactive_goes_on(view, queue) {
            self.back_to_interactive(view, queue);
        } else {
            self.set_raised(view, queue, Kind::No);
        }
    }

    /// A queue made for a process that left a shared one belongs to the burst that the process's
    /// first belonged to (BFQ-143).
    pub(super) fn resume_burst(&mut self, view: &QueueView, client: ClientId, queue: u32) {
        let saved = self.contexts[client.index() as usize].saved;
        let listed = saved.is_some_and(|saved| saved.was_listed);
        let marked = saved.is_some_and(|saved| saved.in_large_burst);
        if marked || (listed && self.burst.is_large) {
            self.queues.at_mut(queue).in_large_burst = true;
        } else if listed {
            self.burst.list.push_front(&mut self.burst_links, queue);
        }
        self.queues.at_mut(queue).split_at = Some(view.now());
    }
}
