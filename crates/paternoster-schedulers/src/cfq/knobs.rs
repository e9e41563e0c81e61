// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knobs: what can be set and seen under `iosched/`, with the kernel's names, units and clamps, one
//! [`Knob`] for each.
//!
//! Times are milliseconds to the user and nanoseconds inside. A kernel keeps them in ticks: a
//! default of 125 ms is 31 ticks at HZ=250 and reads back as 124; a value that is written is
//! rounded up to whole ticks.
//!
//! Attributes that no kernel has come last: how seeks are detected, seed 001's experiments, and
//! three figures to look at.
//!
//! Source: CFQ-1, CFQ-48 to CFQ-53; seed 001's listing.

use crate::cfq::Cfq;
use crate::cfq::climb::Climber;
use crate::cfq::tunables::OptimisticMerge;
use paternoster_core::QueueView;
use paternoster_core::attribute::Attribute;
use paternoster_core::elevator::KnobTable;
use paternoster_core::knob::{self, IDLE_MAX_MS, Knob, Unit, at_place, count, place_of, words};
use paternoster_core::observe::seek::SeekDetection;
use paternoster_core::time::Nanos;

const DETECTIONS: [(&str, SeekDetection); 4] = [
    ("mean", SeekDetection::Mean),
    ("distance", SeekDetection::Distance),
    ("size", SeekDetection::Size),
    ("auto", SeekDetection::Auto),
];
const MERGES: [(&str, OptimisticMerge); 5] = [
    ("off", OptimisticMerge::Off),
    ("measure", OptimisticMerge::Measure),
    ("plain", OptimisticMerge::Plain),
    ("sampled", OptimisticMerge::Sampled),
    ("corrected", OptimisticMerge::Corrected),
];

/// A time as a kernel shows it: in whole ticks.
fn ticks(view: &QueueView, time: Nanos) -> Nanos {
    view.hz().floor(time)
}

/// A time as a kernel keeps it once set.
fn kept(view: &QueueView, time: Nanos) -> Nanos {
    view.hz().ceil(time)
}

/// An attribute of this elevator.
type Row = Knob<Cfq>;

const QUANTUM: Row = Row::number(
    "quantum",
    "requests",
    "requests of one queue that may be in flight",
    |cfq, _| cfq.tunables.quantum.into(),
    |cfq, _, value| cfq.tunables.quantum = count(value),
)
.at_least(1);
const FIFO_SYNC: Row = Row::time(
    "fifo_expire_sync",
    Unit::Ms,
    "after which time a sync request opens its queue's slice",
    |cfq, view| ticks(view, cfq.tunables.fifo_expire[1]),
    |cfq, view, time| cfq.tunables.fifo_expire[1] = kept(view, time),
)
.at_least(1);
const FIFO_ASYNC: Row = Row::time(
    "fifo_expire_async",
    Unit::Ms,
    "the same for an async request",
    |cfq, view| ticks(view, cfq.tunables.fifo_expire[0]),
    |cfq, view, time| cfq.tunables.fifo_expire[0] = kept(view, time),
)
.at_least(1);
const BACK_MAX: Row = Row::number(
    "back_seek_max",
    "KiB",
    "how far behind the head a request is still near",
    |cfq, _| cfq.tunables.back_seek_max,
    |cfq, _, value| cfq.tunables.back_seek_max = value,
);
const BACK_PENALTY: Row = Row::number(
    "back_seek_penalty",
    "",
    "how many sectors ahead one sector back is worth",
    |cfq, _| cfq.tunables.back_seek_penalty.into(),
    |cfq, _, value| cfq.tunables.back_seek_penalty = count(value),
)
.at_least(1);
const SLICE_SYNC: Row = Row::time(
    "slice_sync",
    Unit::Ms,
    "time slice of a sync queue at level 4",
    |cfq, view| ticks(view, cfq.tunables.slice[1]),
    |cfq, view, time| cfq.tunables.slice[1] = kept(view, time),
)
.at_least(1);
const SLICE_ASYNC: Row = Row::time(
    "slice_async",
    Unit::Ms,
    "time slice of an async queue at level 4",
    |cfq, view| ticks(view, cfq.tunables.slice[0]),
    |cfq, view, time| cfq.tunables.slice[0] = kept(view, time),
)
.at_least(1);
const SLICE_ASYNC_RQ: Row = Row::number(
    "slice_async_rq",
    "requests",
    "bounds the requests of an async slice: 2 * this * (8 - level)",
    |cfq, _| cfq.tunables.slice_async_rq.into(),
    |cfq, _, value| cfq.tunables.slice_async_rq = count(value),
)
.at_least(1);
const SLICE_IDLE: Row = Row::time(
    "slice_idle",
    Unit::Ms,
    "how long the device idles for the next request of a queue",
    |cfq, view| ticks(view, cfq.tunables.slice_idle),
    |cfq, view, time| cfq.tunables.slice_idle = kept(view, time),
)
.at_most(IDLE_MAX_MS);
const GROUP_IDLE: Row = Row::time(
    "group_idle",
    Unit::Ms,
    "how long it idles for a group whose queues are not idled for",
    |cfq, view| ticks(view, cfq.tunables.group_idle),
    |cfq, view, time| cfq.tunables.group_idle = kept(view, time),
)
.at_most(IDLE_MAX_MS);
const LOW_LATENCY: Row = Row::switch(
    "low_latency",
    "1 if slices become shorter the more queues are busy",
    |cfq, _| cfq.tunables.low_latency,
    |cfq, _, on| cfq.tunables.low_latency = on,
);
const ISOLATION: Row = Row::switch(
    "group_isolation",
    "0 if queues that jump about move to the root group",
    |cfq, _| cfq.tunables.group_isolation,
    |cfq, _, on| cfq.tunables.group_isolation = on,
);
const TARGET: Row = Row::time(
    "target_latency",
    Unit::Ms,
    "within which time every queue should have had its turn",
    |cfq, view| ticks(view, cfq.tunables.target_latency),
    |cfq, view, time| cfq.tunables.target_latency = kept(view, time),
)
.at_least(1);
const SEEK: Row = Row::choice(
    "seek_detection",
    "",
    &words(&DETECTIONS),
    "what makes a queue seeky: mean distance (2.6.33), distances, small requests (2010); auto \
     takes sizes on flash",
    |cfq, _| place_of(&DETECTIONS, &cfq.tunables.seek_detection),
    |cfq, _, place| {
        cfq.tunables.seek_detection = at_place(&DETECTIONS, place).unwrap_or_default();
    },
);
const OPTIMISTIC: Row = Row::choice(
    "optimistic_merge",
    "",
    &words(&MERGES),
    "a patch of 2010: merge queues that share the device well; measure only measures, the others \
     differ in when they try and when they split",
    |cfq, _| place_of(&MERGES, &cfq.tunables.optimistic_merge),
    |cfq, _, place| cfq.tunables.optimistic_merge = at_place(&MERGES, place).unwrap_or_default(),
);
const TUNING: Row = Row::switch(
    "slice_idle_tuning",
    "1 if slice_idle climbs to where the throughput is best (a patch of 2010)",
    |cfq, _| cfq.tunables.slice_idle_tuning,
    |cfq, _, on| cfq.tunables.slice_idle_tuning = on,
);
const TAG: Row = Row::text(
    "hw_tag",
    "",
    "1 if the device is taken to queue commands, 0 if not, -1 if not known",
    |cfq, view, out| knob::show_if_known(cfq.device.queues_commands(view), out),
);
const DEPTH: Row = Row::figure(
    "hw_tag_est_depth",
    "requests",
    "the most requests that have been in the device at a time",
    |cfq, view| cfq.device.estimated_depth(view).into(),
);
const RATE: Row = Row::text(
    "bandwidth",
    "sectors/tick",
    "of the active queue, the best of unmerged and of merged queues (with optimistic_merge)",
    |cfq, _, out| {
        let [single, merged] = cfq.cooperation.bandwidth.most;
        let active = cfq.service.queue().map_or(0, |active| cfq.queues.at(active).bandwidth);
        write!(out, "{active}\t{single}\t{merged}")
    },
);

/// What every version has, in the order of the listing.
const COMMON: [Row; 9] = [
    QUANTUM,
    FIFO_SYNC,
    FIFO_ASYNC,
    BACK_MAX,
    BACK_PENALTY,
    SLICE_SYNC,
    SLICE_ASYNC,
    SLICE_ASYNC_RQ,
    SLICE_IDLE,
];
/// Attributes that no kernel has.
const OURS: [Row; 6] = [SEEK, OPTIMISTIC, TUNING, TAG, DEPTH, RATE];

/// The attributes of 2.6.34, and ours.
static KNOBS_2_6_34: [Row; 17] = joined(&[&COMMON, &[LOW_LATENCY, ISOLATION], &OURS]);

/// What 3.6 and 4.19 have, and ours.
static KNOBS_3_6: [Row; 18] = joined(&[&COMMON, &[GROUP_IDLE, LOW_LATENCY, TARGET], &OURS]);

/// The listings of both.
static ATTRIBUTES_2_6_34: [Attribute; 17] = knob::attributes(&KNOBS_2_6_34);
static ATTRIBUTES_3_6: [Attribute; 18] = knob::attributes(&KNOBS_3_6);

/// The parts in order; together they are `N`.
const fn joined<const N: usize>(parts: &[&[Row]]) -> [Row; N] {
    let mut all = [QUANTUM; N];
    let (mut part, mut place) = (0, 0);
    while part < parts.len() {
        let mut own = 0;
        while own < parts[part].len() {
            all[place] = parts[part][own];
            (place, own) = (place + 1, own + 1);
        }
        part += 1;
    }
    assert!(place == N, "the parts are fewer than the whole");
    all
}

impl KnobTable for Cfq {
    fn table(&self) -> (&'static [Knob<Cfq>], &'static [Attribute]) {
        if self.version.idles_for_groups {
            (&KNOBS_3_6, &ATTRIBUTES_3_6)
        } else {
            (&KNOBS_2_6_34, &ATTRIBUTES_2_6_34)
        }
    }

    fn was_set(&mut self, view: &mut QueueView) {
        self.climber = Climber::new(view.now(), self.tunables.slice_idle);
    }
}
