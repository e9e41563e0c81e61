// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the levels of CFQ are reversed on flash while there is a client of the idle class.
//!
//! Two readers, of level 0 and 7, each 8 deep, on an SSD that queues commands, where 2.6.34 idles
//! for no queue: an empty queue loses the rest of its turn, at once. Half of `quantum` (4) of a
//! queue may be in flight while its slice ends soon, that is within `slice_idle` for each of them;
//! otherwise 8.
//!
//! ```text
//! level 0, slice 180 ms: 8 * 8 = 64 ms are left: all 8 go ── its queue is empty ── the turn ends
//! level 7, slice  40 ms: 5 * 8 = 40 ms are not: 4 or 5 go ── never empty ── it keeps its 40 ms
//! ```
//!
//! Without a third client, level 7 is the only busy queue while those 8 are in flight, nothing
//! limits it, and it also loses its turn. A queue of the idle class is always busy, and counts as
//! one. With 16 requests each, neither is ever empty, and the slices are what they should be.
//!
//! This breaks no rule of the preset: how many may be in flight, when a turn ends and which queues
//! are busy are decisions in which we agree with the recorded ones of 4.19 (2.6.34 was not
//! recorded). 4.19 itself has `slice_idle=0` on flash, where no slice ends soon.
//!
//! Source: CFQ-20, CFQ-61, CFQ-65; `paternoster run` of the issue's load.

use paternoster_core::NoObserver;
use paternoster_sim::{Simulated, catalog};
use paternoster_workload::{NoWatcher, RunError, Settings, run};

use crate::common::jobs_of;

/// I/Os in 400 ms, after a ramp, of a reader of level 0 and one of level 7.
fn reads(depth: u32, beside_idle_class: bool) -> [u64; 2] {
    let device = catalog::by_name("ssd-870evo").expect("it is known").expect("it is sound");
    let idle = if beside_idle_class { "[idle]\nprioclass=3\n" } else { "" };
    let text = format!(
        "[global]\ndirect=1\nsize=1g\nbs=4k\ntime_based\nnorandommap\nrw=randread\n\
         ioengine=libaio\niodepth={depth}\nramp_time=600ms\nruntime=400ms\n\
         [first]\nprioclass=2\nprio=0\n[last]\nprioclass=2\nprio=7\n{idle}"
    );
    let jobs = jobs_of(&text).expect("a sound job file").jobs;
    let settings = Settings { submit_cost: device.submit_cost, ..Settings::default() };
    let elevator = paternoster_schedulers::by_name("cfq").expect("it is known");
    let mut model = Simulated::new(device.model());
    let done: Result<_, RunError> =
        run(&jobs, &settings, &mut model, elevator, NoObserver, |_| Ok(()), &mut NoWatcher);
    let (result, ..) = done.unwrap_or_else(|error| panic!("{error}"));
    [0, 1].map(|place: usize| result.processes[place].statistics.ios())
}

/// Do levels turn round where, and only where, the first empties its queue and the last does not?
#[test]
fn levels_turn_round_where_the_first_is_empty_and_the_last_never() {
    let [first, last] = reads(8, true);
    assert!(last > 20 * first, "8 deep beside the idle class: {first} and {last}");
    let [first, last] = reads(8, false);
    assert!(first.abs_diff(last) < last / 20, "8 deep: {first} and {last}");
    // 180 : 40 ms of turns.
    let [first, last] = reads(16, true);
    assert!(first > 4 * last, "16 deep beside the idle class: {first} and {last}");
}
