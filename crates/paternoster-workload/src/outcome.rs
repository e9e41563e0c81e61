// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outcome: a run's result in the shape that fio's reports take.
//!
//! fio's own figures come from the processes; what fio does not know (device time, fairness, idle
//! time) goes under the key `paternoster` in JSON and into the table that compares schedulers.

use paternoster_core::Nanos;
use serde_json::{Value, json};

use crate::entitlement::Part;
use crate::fio::job::{Job, reporting_groups};
use crate::fio::jobfile::JobFile;
use crate::report::{DiskReport, JobReport, RunReport};
use crate::run::{ProcessResult, RunResult, Settings};
use crate::shares::{SectionShares, shares};

/// The outcome of a run under one scheduler on one device.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The figures in fio's terms.
    pub report: RunReport,
    /// How much of the device each process got.
    pub shares: Vec<SectionShares>,
    /// What each process got and what it is entitled to, where that is known; see
    /// [`Outcome::entitle`].
    pub parts: Vec<Option<Part>>,
    /// Digest of the event stream, if requested.
    pub event_hash: Option<u64>,
}

/// What ran.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The jobs.
    pub jobs: &'a JobFile,
    /// The device's name.
    pub device: &'a str,
    /// The scheduler, with the attributes that were set.
    pub scheduler: &'a str,
    /// Seed, submit cost.
    pub settings: &'a Settings,
}

impl Outcome {
    /// Makes the report of a run.
    #[must_use]
    pub fn new(subject: &Subject<'_>, result: &RunResult, event_hash: Option<u64>) -> Outcome {
        let groups = reporting_groups(&subject.jobs.jobs);
        let shares = shares(result);
        let elapsed_s = result.ended.0.div_ceil(Nanos::from_secs(1).0);
        let job_reports = result.processes.iter().map(|process| {
            let group = groups.get(process.job).copied().unwrap_or(0);
            job_report(&subject.jobs.jobs[process.job], process, group, elapsed_s)
        });
        let report = RunReport {
            device: subject.device.to_owned(),
            scheduler: subject.scheduler.to_owned(),
            seed: subject.settings.seed,
            global_options: subject.jobs.global.clone(),
            jobs: job_reports.collect(),
            disks: vec![disk(subject.device, result)],
            extra: extra(subject, result, &shares, event_hash),
        };
        let parts = vec![None; result.processes.len()];
        Outcome { report, shares, parts, event_hash }
    }

    /// Adds what each process got and is entitled to, for the JSON too.
    pub fn entitle(&mut self, parts: Vec<Option<Part>>) {
        self.parts = parts;
        for (place, section) in self.shares.iter().enumerate() {
            let worst_off = self.worst_off(section);
            let told = &mut self.report.extra["sections"][place];
            for (nth, &process) in section.processes.iter().enumerate() {
                if let Some(part) = self.parts[process] {
                    told["processes"][nth]["device_got"] = json!(part.got);
                    told["processes"][nth]["device_entitled"] = json!(part.entitled);
                }
            }
            if let Some((process, part)) = worst_off {
                told["worst_off"] = json!({
                    "jobname": self.report.jobs[process].name,
                    "got_of_entitled": part.ratio(),
                });
            }
        }
    }

    /// The process of a section that got the smallest part of its entitlement, where that is known.
    #[must_use]
    pub fn worst_off(&self, section: &SectionShares) -> Option<(usize, Part)> {
        let known = section.processes.iter().filter_map(|&place| Some((place, self.parts[place]?)));
        known.min_by(|one, other| one.1.ratio().total_cmp(&other.1.ratio()))
    }

    /// Whether no job failed.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.report.jobs.iter().all(|job| job.error == 0)
    }
}

fn job_report(job: &Job, process: &ProcessResult, group: u32, elapsed_s: u64) -> JobReport {
    JobReport {
        name: job.name.clone(),
        description: job.section.description.clone(),
        group,
        group_reporting: job.clones.group_reporting,
        clones: 1,
        error: process.error.unsigned_abs(),
        pid: process.pid,
        options: job.section.given.clone(),
        rw_text: job.order.rw_text.to_owned(),
        block_size: job.blocks.block_size,
        engine: job.queue.engine_name.clone(),
        iodepth: job.queue.iodepth,
        percentiles: job.report.percentile_list.clone(),
        elapsed_s,
        first_of_section: process.clone == 0,
        section_clones: job.clones.numjobs,
        unified: job.report.unified,
        latency_goal: job.pacing.latency_goal,
        searched_depth: process.searched_depth,
        statistics: process.statistics.clone(),
    }
}

fn disk(name: &str, result: &RunResult) -> DiskReport {
    let device = &result.device;
    let ticks_ms = device.ticks.map(Nanos::as_millis);
    #[expect(clippy::cast_precision_loss, reason = "a percentage")]
    let util = |busy: Nanos, all: Nanos| {
        if all == Nanos::ZERO { 0.0 } else { 100.0 * busy.0 as f64 / all.0 as f64 }
    };
    DiskReport {
        name: name.to_owned(),
        ios: device.ios,
        merges: device.merges,
        ticks_ms,
        in_queue_ms: ticks_ms.iter().sum(),
        util_percent: util(device.busy, result.ended),
    }
}

/// What fio's JSON has no key for.
fn extra(
    subject: &Subject<'_>,
    result: &RunResult,
    shares: &[SectionShares],
    event_hash: Option<u64>,
) -> Value {
    let process = |section: &SectionShares, nth: usize| {
        let process = &result.processes[section.processes[nth]];
        let mut told = json!({
            "jobname": subject.jobs.jobs[process.job].name,
            "clone": process.clone,
            "device_time_ns": process.served.0,
            "device_time_share": section.shares[nth],
        });
        if let Some(frames) = process.statistics.frames() {
            told["frames"] = json!({
                "total": frames.count(),
                "late": frames.late(),
                "unread": frames.unread(),
                "worst_lateness_ns": frames.worst().0,
                "longest_ns": frames.longest().0,
            });
        }
        told
    };
    let sections: Vec<Value> = shares
        .iter()
        .map(|section| {
            let members = (0..section.processes.len()).map(|nth| process(section, nth));
            json!({
                "section": section.section,
                "jain_device_time": section.jain,
                "device_idle": section.idle,
                "processes": members.collect::<Vec<Value>>(),
            })
        })
        .collect();
    let mut extra = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "device": subject.device,
        "scheduler": subject.scheduler,
        "seed": subject.settings.seed,
        "submit_cost_ns": subject.settings.submit_cost.0,
        "virtual_time_ns": result.ended.0,
        "refused_by_device": result.device.refused,
        "event_hash": event_hash.map(|hash| format!("{hash:016x}")),
        "sections": sections,
    });
    if !result.figures.is_empty() {
        let figures = result.figures.iter().map(|&(name, value)| (name.to_owned(), json!(value)));
        extra["device_figures"] = Value::Object(figures.collect());
    }
    extra
}
