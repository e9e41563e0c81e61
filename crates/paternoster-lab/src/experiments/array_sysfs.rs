// SPDX-License-Identifier: MIT OR Apache-2.0
//! array-sysfs: seed 001. The queue folder of Miklos Szeredi's array, line by line.
//!
//! The kernel of the listing ticks 250 times a second, as the listing shows: a FIFO expiry of an
//! eighth of a second is 31 ticks of 4 ms, shown as 124.

use crate::reproduce::experiment::{Device, Experiment, Figure, Run, Workload, of};

const LISTING: &str = "\
./iosched/quantum:8
./iosched/fifo_expire_sync:124
./iosched/fifo_expire_async:248
./iosched/back_seek_max:16384
./iosched/back_seek_penalty:2
./iosched/slice_sync:100
./iosched/slice_async:40
./iosched/slice_async_rq:2
./iosched/slice_idle:8
./iosched/low_latency:0
./iosched/group_isolation:0
./nr_requests:128
./read_ahead_kb:512
./max_hw_sectors_kb:32767
./max_sectors_kb:512
./max_segments:64
./max_segment_size:65536
./scheduler:noop deadline [cfq]
./hw_sector_size:512
./logical_block_size:512
./physical_block_size:512
./minimum_io_size:512
./optimal_io_size:0
./discard_granularity:0
./discard_max_bytes:0
./discard_zeroes_data:0
./rotational:1
./nomerges:0
./rq_affinity:1
";
const SOURCE: &str = "grep -r . . in /sys/block/*/queue, 22 April 2010";

pub(crate) fn experiment() -> Experiment {
    let run = Run::new("listing", Workload::Listing, Device::Named("array-eva"), "cfq");
    Experiment {
        name: "array-sysfs",
        summary: "the queue folder of an array under CFQ, line by line",
        source: "Miklos Szeredi, linux-kernel, 22 April 2010",
        notes: &["hz=250; low_latency=0 and read_ahead_kb=512 are his settings."],
        runs: vec![run.set(&["hz=250", "low_latency=0", "read_ahead_kb=512"])],
        figures: LISTING.lines().zip(1..).map(figure).collect(),
        conclude: |_| Vec::new(),
    }
}

fn figure((line, number): (&'static str, u32)) -> Figure {
    Figure::new(format!("line {number}"), "", of("listing", number.to_string())).line(line, SOURCE)
}
