// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunables: what can be set under `iosched/`, with the kernel's names, units and clamps.
//!
//! Behind the kernel's stand what no kernel has: mechanisms that can be switched off or exchanged
//! one by one, so that each can be shown, and figures that one would like to see.
//!
//! ```text
//! inject         off (before seed 002), coefficient (seed 002), measured (5.2 on)
//! merge_window   for how long after a start a queue may be merged (seed 004); 0: always
//! ```
//!
//! Source: spec `bfq.md` section 15 (tunables), BFQ-186 to BFQ-188; seeds 002 and 004.

use crate::attribute::{Attribute, Values};
use crate::time::{Hz, Nanos};

/// What is served while the queue in service is kept although it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Inject {
    /// Nothing: the device runs empty.
    Off,
    /// Up to ten sectors of others for each of its own (seed 002).
    Coefficient,
    /// As many requests as do not prolong its own service (5.2 on).
    #[default]
    Measured,
}

/// What can be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tunables {
    /// Async, sync.
    pub(super) fifo_expire: [Nanos; 2],
    /// In KiB.
    pub(super) back_seek_max: u64,
    pub(super) back_seek_penalty: u64,
    pub(super) slice_idle: Nanos,
    /// In sectors; 0 lets it follow the device's rate.
    pub(super) max_budget: u64,
    /// As asked for; elevators see it in ticks.
    pub(super) timeout_sync: Nanos,
    pub(super) strict_guarantees: bool,
    pub(super) low_latency: bool,
    pub(super) inject: Inject,
    /// Zero: queues may be merged at any time.
    pub(super) merge_window: Nanos,
    pub(super) queue_merging: bool,
    pub(super) stable_merging: bool,
    pub(super) wakers: bool,
    pub(super) tag_shares: bool,
    /// It is asked for a request after each completion.
    pub(super) completion_runs: bool,
    /// The position tree follows a removal of the head request (seed 004, patch 1).
    pub(super) position_update: bool,
    /// An early merge asks whether raising is wanted at all (seed 004, patch 2).
    pub(super) early_merge_check: bool,
    /// Who has been raised for long is not merged (before seed 004, patch 4).
    pub(super) late_raise_check: bool,
}

impl Tunables {
    /// The kernel's defaults; `late` is what came with 5.2 to 5.17.
    pub(super) const fn new(inject: Inject, late: bool) -> Tunables {
        Tunables {
            fifo_expire: [Nanos::from_millis(250), Nanos::from_millis(125)],
            back_seek_max: 16 * 1024,
            back_seek_penalty: 2,
            slice_idle: Nanos::from_millis(8),
            max_budget: 0,
            timeout_sync: Nanos::from_millis(125),
            strict_guarantees: false,
            low_latency: true,
            inject,
            merge_window: Nanos::from_millis(100),
            queue_merging: true,
            stable_merging: late,
            wakers: late,
            tag_shares: late,
            completion_runs: false,
            position_update: true,
            early_merge_check: true,
            late_raise_check: false,
        }
    }

    /// The budget timeout in the ticks that elevators see: 124 ms of the 125 at HZ=250.
    pub(super) fn timeout(&self, hz: Hz) -> Nanos {
        hz.floor(self.timeout_sync).max(hz.tick())
    }

    /// The value of the attribute `name`.
    pub(super) fn get(&self, name: &str, hz: Hz) -> u64 {
        match name {
            "fifo_expire_sync" => self.fifo_expire[1].as_millis(),
            "fifo_expire_async" => self.fifo_expire[0].as_millis(),
            "back_seek_max" => self.back_seek_max,
            "back_seek_penalty" => self.back_seek_penalty,
            "slice_idle" => self.slice_idle.as_millis(),
            "slice_idle_us" => self.slice_idle.as_micros(),
            "max_budget" => self.max_budget,
            "timeout_sync" => self.timeout(hz).as_millis(),
            "strict_guarantees" => self.strict_guarantees.into(),
            "low_latency" => self.low_latency.into(),
            "inject" => self.inject as u64,
            "merge_window" => self.merge_window.as_millis(),
            "queue_merging" => self.queue_merging.into(),
            "stable_merging" => self.stable_merging.into(),
            "wakers" => self.wakers.into(),
            "tag_shares" => self.tag_shares.into(),
            "completion_runs" => self.completion_runs.into(),
            "position_update" => self.position_update.into(),
            "early_merge_check" => self.early_merge_check.into(),
            "late_raise_check" => self.late_raise_check.into(),
            _ => 0,
        }
    }

    /// Sets the attribute `name`; the value is in its range.
    pub(super) fn set(&mut self, name: &str, value: u64, hz: Hz) {
        let (time, on) = (Nanos::from_millis(value), value == 1);
        match name {
            "fifo_expire_sync" => self.fifo_expire[1] = time,
            "fifo_expire_async" => self.fifo_expire[0] = time,
            "back_seek_max" => self.back_seek_max = value,
            "back_seek_penalty" => self.back_seek_penalty = value,
            "slice_idle" => self.slice_idle = time,
            "slice_idle_us" => self.slice_idle = Nanos::from_micros(value),
            "max_budget" => self.max_budget = value,
            "timeout_sync" => self.timeout_sync = hz.ceil(time),
            "strict_guarantees" => {
                // Whoever wants that is idled for: at least so long.
                let least = Nanos::from_millis(if on { 8 } else { 0 });
                self.slice_idle = self.slice_idle.max(least);
                self.strict_guarantees = on;
            }
            "low_latency" => self.low_latency = on,
            "inject" => {
                self.inject = match value {
                    0 => Inject::Off,
                    1 => Inject::Coefficient,
                    _ => Inject::Measured,
                }
            }
            "merge_window" => self.merge_window = time,
            "queue_merging" => self.queue_merging = on,
            "stable_merging" => self.stable_merging = on,
            "wakers" => self.wakers = on,
            "tag_shares" => self.tag_shares = on,
            "completion_runs" => self.completion_runs = on,
            "position_update" => self.position_update = on,
            "early_merge_check" => self.early_merge_check = on,
            "late_raise_check" => self.late_raise_check = on,
            _ => {}
        }
    }
}

const fn number(name: &'static str, unit: &'static str, min: u64, help: &'static str) -> Attribute {
    // Times stay below twelve days: sums of them never leave 64 bits.
    let max = if unit.len() == 2 { 1_000_000_000 } else { i32::MAX as u64 };
    Attribute { name, unit, values: Values::Number { min, max }, help }
}

/// A time for which the device is held idle: nobody is served meanwhile, so that ten seconds are
/// more than anybody can want.
const fn idle(name: &'static str, help: &'static str) -> Attribute {
    Attribute { name, unit: "ms", values: Values::Number { min: 0, max: IDLE_MAX_MS }, help }
}

const IDLE_MAX_MS: u64 = 10_000;

const fn switch(name: &'static str, help: &'static str) -> Attribute {
    Attribute { name, unit: "", values: Values::Number { min: 0, max: 1 }, help }
}

const fn shown(name: &'static str, unit: &'static str, help: &'static str) -> Attribute {
    Attribute { name, unit, values: Values::ReadOnly, help }
}

/// The names of those that can be read only.
pub(super) const HW_TAG: &str = "hw_tag";
pub(super) const PEAK_RATE: &str = "peak_rate";
pub(super) const PRESENT_MAX_BUDGET: &str = "max_budget_now";
pub(super) const POSITION_CHANGES: &str = "position_changes";

/// All of them, in the order of the listing.
pub(super) static ATTRIBUTES: [Attribute; 24] = [
    number("fifo_expire_sync", "ms", 1, "after which time a sync request is next in its queue"),
    number("fifo_expire_async", "ms", 1, "the same for an async request"),
    number("back_seek_max", "KiB", 0, "how far behind the head a request is still near"),
    number("back_seek_penalty", "", 1, "how many sectors ahead one sector back is worth"),
    idle("slice_idle", "how long the device idles for the next request of a queue"),
    Attribute {
        name: "slice_idle_us",
        unit: "us",
        values: Values::Number { min: 0, max: IDLE_MAX_MS * 1000 },
        help: "the same in microseconds",
    },
    number("max_budget", "sectors", 0, "most service in one turn; 0 follows the device's rate"),
    number("timeout_sync", "ms", 1, "longest turn of a queue"),
    switch("strict_guarantees", "1 if one request at a time is in the device, in exact order"),
    switch("low_latency", "1 if starting applications and soft real time are raised"),
    Attribute {
        name: "inject",
        unit: "",
        values: Values::Choice(&["off", "coefficient", "measured"]),
        help: "what is served while the device is kept for an empty queue: nothing, up to ten \
               times its own service (seed 002), or what does not prolong it",
    },
    number(
        "merge_window",
        "ms",
        0,
        "how long after a start queues may merge (seed 004); 0: always",
    ),
    switch("queue_merging", "1 if queues whose requests lie close to each other are merged"),
    switch("stable_merging", "1 if queues that are created together are merged"),
    switch("wakers", "1 if those that a queue waits for are found out and served for it"),
    switch("tag_shares", "1 if nobody may have more requests than his share of them by weight"),
    switch(
        "completion_runs",
        "1 if others are let in whenever a request has ended, not as in Linux",
    ),
    switch("position_update", "1 if a dispatched head moves its queue (seed 004, patch 1)"),
    switch("early_merge_check", "1 if an early merge minds low_latency (seed 004, patch 2)"),
    switch(
        "late_raise_check",
        "1 if queues raised for 100 ms are not merged (before seed 004, patch 4)",
    ),
    shown(HW_TAG, "", "1 if the device is taken to queue commands, 0 if not, -1 if not known"),
    shown(PEAK_RATE, "sectors/s", "what the device can do, as estimated"),
    shown(PRESENT_MAX_BUDGET, "sectors", "most service in one turn at present"),
    shown(POSITION_CHANGES, "", "how often a queue was put among positions, or taken out"),
];
