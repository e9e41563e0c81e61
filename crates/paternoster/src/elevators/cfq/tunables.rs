// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunables: what can be set under `iosched/`, with the kernel's names, units and clamps.
//!
//! Times are milliseconds for the reader and nanoseconds inside. A kernel keeps them in ticks: a
//! default of 125 ms is 31 ticks at HZ=250 and reads back as 124, a value that is written is
//! rounded up to whole ticks.
//!
//! What no kernel has stands behind the others: how seeks are detected, seed 001's experiments, and
//! three things that one would like to see.
//!
//! Source: spec `cfq-flush-block.md` 1.2 (CFQ-1), section 9; seed 001's listing.

use crate::attribute::{Attribute, Values};
use crate::observe::seek::SeekDetection;
use crate::time::{Hz, Nanos};

/// Seed 001's experiment: queues that share the device may be merged, if that pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum OptimisticMerge {
    /// As every kernel that was released.
    #[default]
    Off,
    /// Bandwidths are measured, nothing is done with them.
    Measure,
    /// Zoccolo's patches.
    Plain,
    /// With Goyal's window, in which merges are tried to learn what they bring.
    Sampled,
    /// With Zoccolo's later corrections of what is split, and when.
    Corrected,
}

/// What can be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tunables {
    pub(super) quantum: u32,
    /// Async, sync.
    pub(super) fifo_expire: [Nanos; 2],
    /// In KiB.
    pub(super) back_seek_max: u64,
    pub(super) back_seek_penalty: u32,
    /// Async, sync.
    pub(super) slice: [Nanos; 2],
    pub(super) slice_async_rq: u32,
    pub(super) slice_idle: Nanos,
    pub(super) group_idle: Nanos,
    pub(super) low_latency: bool,
    pub(super) group_isolation: bool,
    pub(super) target_latency: Nanos,
    pub(super) seek_detection: SeekDetection,
    pub(super) optimistic_merge: OptimisticMerge,
    pub(super) slice_idle_tuning: bool,
}

impl Default for Tunables {
    fn default() -> Tunables {
        Tunables {
            quantum: 8,
            fifo_expire: [Nanos::from_millis(250), Nanos::from_millis(125)],
            back_seek_max: 16 * 1024,
            back_seek_penalty: 2,
            slice: [Nanos::from_millis(40), Nanos::from_millis(100)],
            slice_async_rq: 2,
            slice_idle: Nanos::from_millis(8),
            group_idle: Nanos::from_millis(8),
            low_latency: true,
            group_isolation: false,
            target_latency: Nanos::from_millis(300),
            seek_detection: SeekDetection::Auto,
            optimistic_merge: OptimisticMerge::Off,
            slice_idle_tuning: false,
        }
    }
}

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

/// The names of the three attributes that can be read only.
pub(super) const HW_TAG: &str = "hw_tag";
pub(super) const EST_DEPTH: &str = "hw_tag_est_depth";
pub(super) const BANDWIDTH: &str = "bandwidth";

impl Tunables {
    /// The value of the attribute `name`, times in milliseconds of whole ticks.
    pub(super) fn get(&self, name: &str, hz: Hz) -> u64 {
        let ms = |time: Nanos| hz.floor(time).as_millis();
        match name {
            "quantum" => self.quantum.into(),
            "fifo_expire_sync" => ms(self.fifo_expire[1]),
            "fifo_expire_async" => ms(self.fifo_expire[0]),
            "back_seek_max" => self.back_seek_max,
            "back_seek_penalty" => self.back_seek_penalty.into(),
            "slice_sync" => ms(self.slice[1]),
            "slice_async" => ms(self.slice[0]),
            "slice_async_rq" => self.slice_async_rq.into(),
            "slice_idle" => ms(self.slice_idle),
            "group_idle" => ms(self.group_idle),
            "low_latency" => self.low_latency.into(),
            "group_isolation" => self.group_isolation.into(),
            "target_latency" => ms(self.target_latency),
            "seek_detection" => place_of(&DETECTIONS, self.seek_detection),
            "optimistic_merge" => place_of(&MERGES, self.optimistic_merge),
            "slice_idle_tuning" => self.slice_idle_tuning.into(),
            _ => 0,
        }
    }

    /// Sets the attribute `name`; the value is in its range.
    pub(super) fn set(&mut self, name: &str, value: u64, hz: Hz) {
        let count = u32::try_from(value).unwrap_or(u32::MAX);
        let time = hz.ceil(Nanos::from_millis(value));
        match name {
            "quantum" => self.quantum = count,
            "fifo_expire_sync" => self.fifo_expire[1] = time,
            "fifo_expire_async" => self.fifo_expire[0] = time,
            "back_seek_max" => self.back_seek_max = value,
            "back_seek_penalty" => self.back_seek_penalty = count,
            "slice_sync" => self.slice[1] = time,
            "slice_async" => self.slice[0] = time,
            "slice_async_rq" => self.slice_async_rq = count,
            "slice_idle" => self.slice_idle = time,
            "group_idle" => self.group_idle = time,
            "low_latency" => self.low_latency = value == 1,
            "group_isolation" => self.group_isolation = value == 1,
            "target_latency" => self.target_latency = time,
            "seek_detection" => self.seek_detection = at_place(&DETECTIONS, value),
            "optimistic_merge" => self.optimistic_merge = at_place(&MERGES, value),
            "slice_idle_tuning" => self.slice_idle_tuning = value == 1,
            _ => {}
        }
    }
}

fn place_of<T: PartialEq>(words: &[(&str, T)], value: T) -> u64 {
    words.iter().take_while(|(_, word)| *word != value).count() as u64
}

fn at_place<T: Copy + Default>(words: &[(&str, T)], place: u64) -> T {
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    words.get(place).map_or_else(T::default, |&(_, value)| value)
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

const fn choice(
    name: &'static str,
    words: &'static [&'static str],
    help: &'static str,
) -> Attribute {
    Attribute { name, unit: "", values: Values::Choice(words), help }
}

const fn shown(name: &'static str, unit: &'static str, help: &'static str) -> Attribute {
    Attribute { name, unit, values: Values::ReadOnly, help }
}

const QUANTUM: Attribute =
    number("quantum", "requests", 1, "requests of one queue that may be in flight");
const FIFO_SYNC: Attribute =
    number("fifo_expire_sync", "ms", 1, "after which time a sync request opens its queue's slice");
const FIFO_ASYNC: Attribute = number("fifo_expire_async", "ms", 1, "the same for an async request");
const BACK_MAX: Attribute =
    number("back_seek_max", "KiB", 0, "how far behind the head a request is still near");
const BACK_PENALTY: Attribute =
    number("back_seek_penalty", "", 1, "how many sectors ahead one sector back is worth");
const SLICE_SYNC: Attribute =
    number("slice_sync", "ms", 1, "time slice of a sync queue at level 4");
const SLICE_ASYNC: Attribute =
    number("slice_async", "ms", 1, "time slice of an async queue at level 4");
const SLICE_ASYNC_RQ: Attribute = number(
    "slice_async_rq",
    "requests",
    1,
    "bounds the requests of an async slice: 2 * this * (8 - level)",
);
const SLICE_IDLE: Attribute =
    idle("slice_idle", "how long the device idles for the next request of a queue");
const GROUP_IDLE: Attribute =
    idle("group_idle", "how long it idles for a group whose queues are not idled for");
const LOW_LATENCY: Attribute =
    switch("low_latency", "1 if slices become shorter the more queues are busy");
const ISOLATION: Attribute =
    switch("group_isolation", "0 if queues that jump about move to the root group");
const TARGET: Attribute =
    number("target_latency", "ms", 1, "within which time every queue should have had its turn");
const SEEK: Attribute = choice(
    "seek_detection",
    &["mean", "distance", "size", "auto"],
    "what makes a queue seeky: mean distance (2.6.33), distances, small requests (seed 000); auto \
     takes sizes on flash",
);
const OPTIMISTIC: Attribute = choice(
    "optimistic_merge",
    &["off", "measure", "plain", "sampled", "corrected"],
    "seed 001: merge queues that share the device well; measure only measures, the others differ \
     in when they try and when they split",
);
const TUNING: Attribute = switch(
    "slice_idle_tuning",
    "1 if slice_idle climbs to where the throughput is best (seed 001)",
);
const TAG: Attribute =
    shown(HW_TAG, "", "1 if the device is taken to queue commands, 0 if not, -1 if not known");
const DEPTH: Attribute =
    shown(EST_DEPTH, "requests", "the most requests that have been in the device at a time");
const RATE: Attribute = shown(
    BANDWIDTH,
    "sectors/tick",
    "of the active queue, the best of unmerged and of merged queues (with optimistic_merge)",
);

/// What every version has, in the order of the listing.
const COMMON: [Attribute; 9] = [
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
/// What no kernel has.
const OURS: [Attribute; 6] = [SEEK, OPTIMISTIC, TUNING, TAG, DEPTH, RATE];

/// What 2.6.34 has, and ours.
pub(super) static ATTRIBUTES_2_6_34: [Attribute; 17] =
    joined(&[&COMMON, &[LOW_LATENCY, ISOLATION], &OURS]);

/// What 3.6 and 4.19 have, and ours.
pub(super) static ATTRIBUTES_3_6: [Attribute; 18] =
    joined(&[&COMMON, &[GROUP_IDLE, LOW_LATENCY, TARGET], &OURS]);

/// The parts one behind the other; together they are `N`.
const fn joined<const N: usize>(parts: &[&[Attribute]]) -> [Attribute; N] {
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
