// SPDX-License-Identifier: MIT OR Apache-2.0
//! ssd-injection: seed 002. Five random readers of different weights on flash.
//!
//! To give each reader its share bfq keeps the device for the active queue, even while it has no
//! request, and so a device that could serve five at once serves one. The patch serves others in
//! the meantime, ten sectors for each of the queue's own:
//!
//! ```text
//! none            5 in the device   110 MB/s   shares 1 : 1 : 1 : 1 : 1
//! without it      1 in the device    25 MB/s          1 : 2 : 3 : 4 : 5
//! with it         up to 5           100 MB/s   whose requests are injected follows no weights
//! ```
//!
//! Also: weights of groups instead of processes, the effect of raising, and what a current kernel
//! did on an emulated device.

use crate::reproduce::experiment::{
    Device, Experiment, Figure, FioJobs, Judge, Quantity, Results, Run, Workload, of, parts, ratio,
};

const LEVELS: FioJobs =
    FioJobs::new("jobs/weighted-readers.fio", include_str!("../../jobs/weighted-readers.fio"));
const GROUPS: FioJobs =
    FioJobs::new("jobs/weighted-groups.fio", include_str!("../../jobs/weighted-groups.fio"));
const DRIVE: Device = Device::Named("ssd-px256m5s");
/// The device on which a kernel's bfq was recorded.
const EMULATED: Device = Device::Named("lab-flash");

/// The readers; they weigh 1 to 5, 15 together.
const READERS: [(&str, f64); 5] = [("w1", 1.0), ("w2", 2.0), ("w3", 3.0), ("w4", 4.0), ("w5", 5.0)];

/// The variants that are compared: name and scheduler.
const NONE: (&str, &str) = ("none", "none");
const OFF: (&str, &str) = ("off", "bfq-4.19:low_latency=0,inject=off");
const COEFFICIENT: (&str, &str) = ("coefficient", "bfq-4.19:low_latency=0");
const MEASURED: (&str, &str) = ("measured", "bfq:low_latency=0");
const PATERNOSTER: (&str, &str) = ("paternoster", "paternoster");
const ALL: [(&str, &str); 5] = [NONE, OFF, COEFFICIENT, MEASURED, PATERNOSTER];
/// The same with raising.
const RAISING: [(&str, &str); 3] =
    [("off", "bfq-4.19:inject=off"), ("coefficient", "bfq-4.19"), ("measured", "bfq")];

const SOURCE: &str = "the patch's message: \"from 25 to 100MB/s\", \"10MB/s lower than that \
                      reached with none\"";
const RECORDED: &str = "a Linux 6.18 that was recorded on such an emulated device, 4 s";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "ssd-injection",
        summary: "five random readers of different weights on flash, without and with injection",
        source: "Paolo Valente, Linux 4.20, 14 September 2018",
        notes: &[
            "`off` is bfq-4.19 with inject=off, `coefficient` the patch (bfq-4.19), `measured` \
             what came later (bfq); all with low_latency=0, which bfq's manual wants for \
             throughput. hz=250, 5 us from completion to submission, 1 s of ramp and 5 s; without \
             injection, when turns are long, 5 s and 15 s. MB are 10^6 bytes.",
            "The device was fitted to 25 MB/s of one reader at a time and 110 of five. What \
             injection makes of that was not fitted.",
            "`levels`: five processes of priority levels 7 to 3, which weigh 10 to 50. `groups`: \
             five cgroups of weight 100 to 500. The seed does not say which it had.",
            "`raising`: with low_latency=1, after 10 s of ramp. Of a queue that injection has \
             emptied the patch does not see how fast it comes back, so it is taken for soft real \
             time; what is raised is not injected into. In Linux 5.2 queues that only jump about \
             are no soft real time any more: `measured` has that.",
            "`emulated`: 32 servers of 1.64 ms, 51 us from completion to submission, as a kernel \
             was recorded. That kernel injected in phases: 540 requests a second for seconds on \
             end, 2700 in between. The first injection needs that a run that a timer brings falls \
             into the 51 us that the process takes, there as here, so that the rate is a throw of \
             dice (4.9 to 9.2 MB/s with other seeds of the device).",
            "paternoster is judged: at least 98 % of none, and max-min fair within 2 %. The error \
             is the scoreboard's: nobody who waits in the elevator is short of his share. Five \
             readers of depth 1 on a drive that serves 32 never wait, and share alike: that is all \
             they ask for, whatever they weigh.",
        ],
        runs: runs(),
        figures: figures(),
        conclude,
    }
}

fn jobs(jobs: FioJobs, ramp: u32, runtime: u32) -> FioJobs {
    jobs.option("ramp_time", ramp).option("runtime", runtime)
}

fn run(name: String, jobs: FioJobs, device: Device, scheduler: &str) -> Run {
    Run::new(name, Workload::Fio(jobs), device, scheduler).set(&["hz=250"])
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for (kind, readers) in [("levels", LEVELS), ("groups", GROUPS)] {
        for (word, scheduler) in ALL {
            let [ramp, runtime] = if word == OFF.0 { [5, 15] } else { [1, 5] };
            let jobs = jobs(readers.clone(), ramp, runtime);
            let run = run(format!("{kind}, {word}"), jobs, DRIVE, scheduler);
            runs.push(run.submit_cost("5us"));
        }
    }
    for (word, scheduler) in RAISING {
        let jobs = jobs(LEVELS, 10, 5);
        let run = run(format!("raising, {word}"), jobs, DRIVE, scheduler);
        runs.push(run.submit_cost("5us"));
    }
    for (word, scheduler) in ALL {
        let jobs = jobs(GROUPS, 0, 4);
        let run = run(format!("emulated, {word}"), jobs, EMULATED, scheduler);
        runs.push(run.submit_cost("51us"));
    }
    runs
}

fn total(run: &str) -> Quantity {
    of(run, "section 0 MB/s")
}

fn figures() -> Vec<Figure> {
    let mut all = Vec::new();
    for kind in ["levels", "groups"] {
        all.push(judged(kind));
    }
    all.push(["levels", "groups"].into_iter().flat_map(fair).collect());
    all.extend(ALL.map(|(word, _)| shares(&format!("levels, {word}"))));
    let farthest = |(word, _)| farthest(&format!("groups, {word}"));
    all.push(ALL.map(farthest).to_vec());
    all.push(RAISING.iter().flat_map(|(word, _)| raised(word)).collect());
    all.push(emulated());
    parts(all)
}

/// The sums, as published.
fn judged(kind: &str) -> Vec<Figure> {
    let name = |(word, _): (&str, &str)| format!("{kind}, {word}");
    let sum = |of: (&str, &str)| Figure::new(name(of), "MB/s", total(&name(of)));
    let by = |above, below| ratio(total(&name(above)), total(&name(below)));
    let label = |words: &str| format!("{kind}, {words}");
    vec![
        sum(NONE).published(110.0, SOURCE).judged(Judge::Within(3.0)).fitted(true),
        sum(OFF).published(25.0, SOURCE).judged(Judge::Within(5.0)).fitted(true),
        sum(COEFFICIENT).published(100.0, SOURCE),
        sum(MEASURED),
        Figure::new(label("coefficient by none"), "", by(COEFFICIENT, NONE))
            .published(100.0 / 110.0, SOURCE),
        Figure::new(label("coefficient by off"), "", by(COEFFICIENT, OFF))
            .published(4.0, "\"grow by 400%, from 25 to 100MB/s\""),
        Figure::new(label("measured by none"), "", by(MEASURED, NONE)),
        sum(PATERNOSTER),
        Figure::new(label("paternoster by none"), "", by(PATERNOSTER, NONE))
            .judged(Judge::AtLeast(0.98)),
    ]
}

/// How much of its possible share the worst-off reader misses.
fn fair(kind: &str) -> Vec<Figure> {
    let figure = |(word, _): (&str, &str)| {
        let run = format!("{kind}, {word}");
        let figure = Figure::new(format!("{run}: max-min error"), "%", of(run, "max-min error %"));
        let judged = word == PATERNOSTER.0;
        if judged { figure.judged(Judge::Between(0.0, 2.0)) } else { figure }
    };
    ALL.map(figure).to_vec()
}

fn share(run: &str, reader: &str) -> Quantity {
    ratio(of(run, format!("{reader} kB/s")), of(run, "section 0 kB/s"))
}

/// How much of the bandwidth each reader gets.
fn shares(run: &str) -> Vec<Figure> {
    let figure = |(reader, weight): (&str, f64)| {
        let label = format!("{run}: share of {reader}, {weight}/15 = {:.3}", weight / 15.0);
        Figure::new(label, "", share(run, reader))
    };
    READERS.into_iter().map(figure).chain([farthest(run)]).collect()
}

fn farthest(run: &str) -> Figure {
    let off = |(reader, weight): (&str, f64)| (share(run, reader), weight / 15.0);
    let label = format!("{run}: farthest from its share");
    Figure::new(label, "%", Quantity::Farthest(READERS.map(off).to_vec()))
}

/// With raising, which the patch does not mention.
fn raised(word: &str) -> Vec<Figure> {
    let run = format!("raising, {word}");
    let raises = READERS.map(|(reader, _)| of(&run, format!("{reader} raises")));
    vec![
        Figure::new(run.clone(), "MB/s", total(&run)),
        farthest(&run),
        Figure::new(format!("{run}: raises"), "", Quantity::Sum(raises.to_vec())),
    ]
}

fn emulated() -> Vec<Figure> {
    let figure = |(word, _): (&str, &str)| {
        let run = format!("emulated, {word}");
        Figure::new(run.clone(), "IOPS", of(run, "section 0 IOPS"))
    };
    let [none, off, coefficient, measured, paternoster] = ALL.map(figure);
    vec![
        // Five readers of equal weight, which bfq does not idle for.
        none.published(2747.0, "the same with equal weights, which nobody is idled for"),
        off.published(540.0, "the phases in which it did not inject"),
        coefficient,
        measured.published(1299.0, RECORDED),
        paternoster,
    ]
}

fn conclude(results: &Results) -> Vec<String> {
    let sum = |run: &str| results.number(run, "section 0 MB/s");
    let far = |run: &str| results.value(&farthest(run).quantity);
    let all = ALL.map(|(word, _)| format!("levels, {word}"));
    let sums: Option<Vec<f64>> = all.iter().map(|run| sum(run)).collect();
    let fars: Option<Vec<f64>> = all.iter().map(|run| far(run)).collect();
    let (Some(sums), Some(fars)) = (sums, fars) else { return Vec::new() };
    let (off, coefficient) = (fars[1], fars[2]);
    let price = if coefficient > 10.0 * off.max(1.0) {
        "The weights are the price: \"there might be loss of weighted fairness\""
    } else {
        "The weights are kept"
    };
    vec![
        format!(
            "Injection by coefficient gives {:.1} times the bandwidth that there is without \
             injection, and {:.0} % of what there is without a scheduler; by measure {:.0} %; \
             paternoster has {:.0} %.",
            sums[2] / sums[1],
            100.0 * sums[2] / sums[0],
            100.0 * sums[3] / sums[0],
            100.0 * sums[4] / sums[0]
        ),
        format!(
            "{price}: without injection nobody is farther than {off:.1} % from his share, with the \
             coefficient {coefficient:.0} %, measured {:.0} %, without a scheduler {:.0} %.",
            fars[3], fars[0]
        ),
    ]
}
