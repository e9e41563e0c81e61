// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knobs: what can be set and seen under `iosched/`, with the kernel's names, units and clamps; one
//! row of [`KNOBS`] each.
//!
//! After the kernel's come settings that no kernel has: mechanisms that can be switched off or
//! exchanged one by one, so that each can be demonstrated, and figures worth seeing.
//!
//! ```text
//! name            unit   what it is        read                     set
//! slice_idle      ms     how long …        tunables.slice_idle      tunables.slice_idle
//! max_budget      …      most service …    tunables.max_budget      the same, and budgets follow
//! peak_rate              what the …        device.rate()            -
//! ```
//!
//! Source: BFQ-186 to BFQ-188; seeds 002 and 004.

use crate::bfq::Bfq;
use crate::bfq::rate;
use crate::bfq::tunables::Inject;
use paternoster_core::QueueView;
use paternoster_core::attribute::Attribute;
use paternoster_core::elevator::KnobTable;
use paternoster_core::knob::{self, IDLE_MAX_MS, Knob, Unit, at_place, place_of, words};
use paternoster_core::time::{Nanos, scale};

const INJECTS: [(&str, Inject); 3] =
    [("off", Inject::Off), ("coefficient", Inject::Coefficient), ("measured", Inject::Measured)];

/// Number of knobs.
const COUNT: usize = 24;

/// An attribute of this elevator.
type Row = Knob<Bfq>;

/// All of them, in the order of the listing.
pub(super) static KNOBS: [Row; COUNT] = [
    Row::time(
        "fifo_expire_sync",
        Unit::Ms,
        "after which time a sync request is next in its queue",
        |bfq, _| bfq.tunables.fifo_expire[1],
        |bfq, _, time| bfq.tunables.fifo_expire[1] = time,
    )
    .at_least(1),
    Row::time(
        "fifo_expire_async",
        Unit::Ms,
        "the same for an async request",
        |bfq, _| bfq.tunables.fifo_expire[0],
        |bfq, _, time| bfq.tunables.fifo_expire[0] = time,
    )
    .at_least(1),
    Row::number(
        "back_seek_max",
        "KiB",
        "how far behind the head a request is still near",
        |bfq, _| bfq.tunables.back_seek_max,
        |bfq, _, value| bfq.tunables.back_seek_max = value,
    ),
    Row::number(
        "back_seek_penalty",
        "",
        "how many sectors ahead one sector back is worth",
        |bfq, _| bfq.tunables.back_seek_penalty,
        |bfq, _, value| bfq.tunables.back_seek_penalty = value,
    )
    .at_least(1),
    Row::time(
        "slice_idle",
        Unit::Ms,
        "how long the device idles for the next request of a queue",
        |bfq, _| bfq.tunables.slice_idle,
        |bfq, _, time| bfq.tunables.slice_idle = time,
    )
    .at_most(IDLE_MAX_MS),
    Row::time(
        "slice_idle_us",
        Unit::Us,
        "the same in microseconds",
        |bfq, _| bfq.tunables.slice_idle,
        |bfq, _, time| bfq.tunables.slice_idle = time,
    )
    .at_most(IDLE_MAX_MS * 1000),
    Row::number(
        "max_budget",
        "sectors",
        "most service in one turn; 0 follows the device's rate",
        |bfq, _| bfq.tunables.max_budget,
        |bfq, view, value| {
            bfq.tunables.max_budget = value;
            match value {
                0 => bfq.follow_rate(view),
                _ => bfq.budgets.set(value),
            }
        },
    ),
    Row::time(
        "timeout_sync",
        Unit::Ms,
        "longest turn of a queue",
        |bfq, view| bfq.tunables.timeout(view.hz()),
        |bfq, view, time| {
            bfq.tunables.timeout_sync = view.hz().ceil(time);
            bfq.follow_rate(view);
        },
    )
    .at_least(1),
    Row::switch(
        "strict_guarantees",
        "1 if one request at a time is in the device, in exact order",
        |bfq, _| bfq.tunables.strict_guarantees,
        |bfq, _, on| {
            // It needs idling: at least this long.
            let least = Nanos::from_millis(if on { 8 } else { 0 });
            bfq.tunables.slice_idle = bfq.tunables.slice_idle.max(least);
            bfq.tunables.strict_guarantees = on;
        },
    ),
    Row::switch(
        "low_latency",
        "1 if starting applications and soft real time are raised",
        |bfq, _| bfq.tunables.low_latency,
        |bfq, view, on| {
            bfq.tunables.low_latency = on;
            if !on {
                bfq.end_all_raising(view);
            }
        },
    ),
    Row::choice(
        "inject",
        "",
        &words(&INJECTS),
        "what is served while the device is kept for an empty queue: nothing, up to ten \
         times its own service (2018), or what does not prolong it",
        |bfq, _| place_of(&INJECTS, &bfq.tunables.inject),
        |bfq, _, place| bfq.tunables.inject = at_place(&INJECTS, place).unwrap_or_default(),
    ),
    Row::time(
        "merge_window",
        Unit::Ms,
        "how long after a start queues may merge; 0: always",
        |bfq, _| bfq.tunables.merge_window,
        |bfq, view, time| {
            bfq.tunables.merge_window = time;
            bfq.update_positions(view);
        },
    ),
    Row::switch(
        "queue_merging",
        "1 if queues whose requests lie close to each other are merged",
        |bfq, _| bfq.tunables.queue_merging,
        |bfq, view, on| {
            bfq.tunables.queue_merging = on;
            bfq.update_positions(view);
        },
    ),
    Row::switch(
        "stable_merging",
        "1 if queues that are created together are merged",
        |bfq, _| bfq.tunables.stable_merging,
        |bfq, _, on| bfq.tunables.stable_merging = on,
    ),
    Row::switch(
        "wakers",
        "1 if those that a queue waits for are found out and served for it",
        |bfq, _| bfq.tunables.wakers,
        |bfq, _, on| bfq.tunables.wakers = on,
    ),
    Row::switch(
        "tag_shares",
        "1 if no client may have more requests than its share of them by weight",
        |bfq, _| bfq.tunables.tag_shares,
        |bfq, _, on| bfq.tunables.tag_shares = on,
    ),
    Row::switch(
        "completion_runs",
        "1 if others are let in whenever a request has ended, not as in Linux",
        |bfq, _| bfq.tunables.completion_runs,
        |bfq, _, on| bfq.tunables.completion_runs = on,
    ),
    Row::switch(
        "position_update",
        "1 if a dispatched head moves its queue (a patch of 2017)",
        |bfq, _| bfq.tunables.position_update,
        |bfq, view, on| {
            bfq.tunables.position_update = on;
            bfq.update_positions(view);
        },
    ),
    Row::switch(
        "early_merge_check",
        "1 if an early merge minds low_latency (a patch of 2017)",
        |bfq, _| bfq.tunables.early_merge_check,
        |bfq, _, on| bfq.tunables.early_merge_check = on,
    ),
    Row::switch(
        "late_raise_check",
        "1 if queues raised for 100 ms are not merged (before a patch of 2017)",
        |bfq, _| bfq.tunables.late_raise_check,
        |bfq, _, on| bfq.tunables.late_raise_check = on,
    ),
    Row::text(
        "hw_tag",
        "",
        "1 if the device is taken to queue commands, 0 if not, -1 if not known",
        |bfq, view, out| knob::show_if_known(bfq.device.known_to_queue(view), out),
    ),
    Row::figure("peak_rate", "sectors/s", "what the device can do, as estimated", |bfq, _| {
        scale(bfq.device.rate(), 1_000_000, rate::ONE)
    }),
    Row::figure("max_budget_now", "sectors", "most service in one turn at present", |bfq, _| {
        bfq.budgets.usual()
    }),
    Row::figure(
        "position_changes",
        "",
        "how often a queue was put among positions, or taken out",
        |bfq, _| bfq.cooperation.positions.changes(),
    ),
];

/// The listing.
pub(super) static ATTRIBUTES: [Attribute; COUNT] = knob::attributes(&KNOBS);

impl KnobTable for Bfq {
    fn table(&self) -> (&'static [Knob<Bfq>], &'static [Attribute]) {
        (&KNOBS, &ATTRIBUTES)
    }

    fn was_set(&mut self, _: &mut QueueView) {
        self.runs.ask();
    }
}
