// SPDX-License-Identifier: MIT OR Apache-2.0
//! array-disktest: seed 001. 32 threads that read one stream, under noop and under CFQ.
//!
//! Each thread has its own I/O context and reads every n-th block of one stream. To the device that
//! is one sequential reader with 32 requests in flight; to CFQ it is 32 readers, and it waits for
//! each of them.

use paternoster_core::Nanos;
use paternoster_workload::builtin::disktest::Disktest;

use crate::reproduce::experiment::{Device, Experiment, Figure, Results, Run, Workload, of, ratio};

/// IOPS.
const PUBLISHED: [(&str, f64); 2] = [("noop", 27_285.0), ("cfq", 3670.0)];
const SOURCE: &str = "disktest -B 4k -h 1 -I BD -K 32 -p l -P T -T 300 -r, 16 April 2010";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "array-disktest",
        summary: "32 threads that read one stream directly, noop and CFQ",
        source: "Chris, linux-kernel, 16 April 2010",
        notes: &[
            "10 s instead of 300: the rate does not change. The original's array and kernel (Red \
             Hat's of April 2010) are not known; the device here is array-eva, the kernel 2.6.34.",
            "Another array, another CFQ. That of 2.6.34 knows cooperators: queues that read near \
             each other share one. The original's presumably did not.",
        ],
        runs: ["noop", "cfq", "cfq:slice_idle=0"].map(run).into(),
        figures: figures(),
        conclude,
    }
}

fn run(scheduler: &str) -> Run {
    let disktest = Disktest {
        block: 4096,
        heartbeat: Nanos::from_secs(1),
        direct: true,
        threads: 32,
        random: false,
        time: Nanos::from_secs(10),
        write: false,
        path: "/dev/sdf".to_owned(),
        size: None,
    };
    let workload = Workload::Disktest(disktest);
    Run::new(scheduler, workload, Device::Named("array-eva"), scheduler).set(&["hz=1000"])
}

fn figures() -> Vec<Figure> {
    let iops = |run: &str| of(run, "IOPS");
    let [(_, noop), (_, cfq)] = PUBLISHED;
    let each = PUBLISHED.map(|(scheduler, published)| {
        let label = format!("{scheduler}: reads of 4 KiB a second");
        Figure::new(label, "IOPS", iops(scheduler)).published(published, SOURCE)
    });
    let mut figures = Vec::from(each);
    let by_noop = Figure::new("cfq by noop", "", ratio(iops("cfq"), iops("noop")));
    figures.push(by_noop.published(cfq / noop, SOURCE));
    let idle_0 = "cfq:slice_idle=0";
    let remedy = ratio(iops(idle_0), iops("noop"));
    figures.push(Figure::new("cfq with slice_idle=0 by noop", "", remedy));
    figures
}

fn conclude(results: &Results) -> Vec<String> {
    let iops = |run: &str| results.number(run, "IOPS");
    let (Some(noop), Some(cfq)) = (iops("noop"), iops("cfq")) else { return Vec::new() };
    let by_noop = cfq / noop;
    let mut told = format!(
        "One stream read by 32 threads goes at {by_noop:.2} of noop's rate under CFQ; published \
         was 0.13."
    );
    if by_noop > 0.9 {
        told.push_str(" With cooperators in one queue nothing is lost; theirs may have had none.");
    }
    vec![told]
}
