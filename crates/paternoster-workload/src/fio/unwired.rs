// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unwired: what a job file may say but a run cannot do yet.
//!
//! The language knows more than the processes do. Such a job is refused before it runs, never
//! approximated in silence. One line per option; who makes a run honour it takes the line out.
//!
//! Source: spec `fio.md` section 3, for what each option would do.

use super::job::{Engine, Job, SubmitMode};
use super::option;
use super::problem::Problem;
use super::strides::ZoneMode;

/// An option, how to see that a job uses it, and what to do instead.
struct Unwired {
    option: &'static str,
    used: fn(&Job) -> bool,
    hint: &'static str,
}

const fn unwired(option: &'static str, used: fn(&Job) -> bool, hint: &'static str) -> Unwired {
    Unwired { option, used, hint }
}

const VERIFY: &str = "there are no data to verify; leave the option out";
const LOGS: &str = "leave the option out and use the report";
const REPLAY: &str = "give the I/O as rw, bs and offset instead of a log";
const TARGET: &str = "give a fixed iodepth instead";
const CLASSES: &str = "give prio and prioclass for the whole job instead";
const ENDING: &str = "give each job a runtime instead";
const RATES: &str = "use rate or rate_iops";
const BATCHES: &str = "I/Os go and come one by one here; leave it at 1";
const FILES: &str = "give the files as several jobs instead";
const CACHE: &str = "the page cache comes later; use direct=1";
const CPU: &str = "use thinktime_spin";
const ZBD: &str = "it needs a zoned device, and no device model is zoned; use zonemode=strided";

/// Every option that a run cannot honour, in the order of `option.rs`.
static UNWIRED: &[Unwired] = &[
    unwired("offset_align", |job| job.offset_align > 0, "give an aligned offset"),
    unwired("filesize", |job| job.filesize_range.is_some(), "give one size for all files"),
    unwired("nrfiles", |job| job.nrfiles > 1, FILES),
    unwired("zonemode", |job| job.strides.mode == ZoneMode::Zbd, ZBD),
    unwired("ioengine", |job| job.engine == Engine::Cpu, CPU),
    unwired("iodepth_batch_submit", |job| job.iodepth_batch_submit > 1, BATCHES),
    unwired("iodepth_batch_complete_min", |job| job.iodepth_batch_complete_min != 1, BATCHES),
    unwired("iodepth_batch_complete_max", |job| job.iodepth_batch_complete_max > 1, BATCHES),
    unwired("io_submit_mode", |job| job.submit_mode == SubmitMode::Offload, RATES),
    unwired("serialize_overlap", |job| job.serialize_overlap, "use iodepth=1"),
    unwired("pre_read", |job| job.pre_read, CACHE),
    unwired("wait_for", |job| job.ending.wait_for.is_some(), "use stonewall"),
    unwired("exitall", |job| job.ending.exit_all, ENDING),
    unwired("exitall_on_error", |job| job.ending.on_error, ENDING),
    unwired("thinktime_blocks_type", |job| job.think_at_issue, "thinking counts completions"),
    unwired("thinktime_iotime", |job| job.think_io_time.0 > 0, "use thinktime_blocks"),
    unwired("rate_min", |job| job.rates.min.iter().any(Option::is_some), RATES),
    unwired("rate_iops_min", |job| job.rates.iops_min.iter().any(Option::is_some), RATES),
    unwired("rate_process", |job| job.rates.poisson, RATES),
    unwired("rate_ignore_thinktime", |job| job.rates.ignore_thinktime, RATES),
    unwired("flow", |job| job.flow.weight > 0, RATES),
    unwired("latency_target", |job| job.latency_goal.target.0 > 0, TARGET),
    unwired("max_latency", |job| job.max_latency.iter().any(Option::is_some), TARGET),
    unwired("cmdprio_percentage", |job| job.command_priority.percentage != [0; 2], CLASSES),
    unwired(
        "cmdprio_bssplit",
        |job| job.command_priority.splits.iter().any(|splits| !splits.is_empty()),
        CLASSES,
    ),
    unwired("status-interval", |job| job.status_interval.is_some(), LOGS),
    unwired("write_bw_log", |job| job.logs.bandwidth.is_some(), LOGS),
    unwired("write_lat_log", |job| job.logs.latency.is_some(), LOGS),
    unwired("write_iops_log", |job| job.logs.iops.is_some(), LOGS),
    unwired("write_hist_log", |job| job.logs.histogram.is_some(), LOGS),
    unwired("verify", |job| job.verify.enabled && job.verify.reads, VERIFY),
    unwired("verify_only", |job| job.verify.only, VERIFY),
    unwired("trim_percentage", |job| job.verify.trim_percentage > 0, VERIFY),
    unwired("read_iolog", |job| job.replay.is_used(), REPLAY),
    unwired("write_iolog", |job| job.replay.record.is_some(), REPLAY),
    unwired("profile", |job| job.profile.is_some(), "write its jobs out"),
];

/// What a run of these jobs cannot do, each option of a job once.
#[must_use]
pub fn problems(jobs: &[Job]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for job in jobs {
        for feature in UNWIRED.iter().filter(|feature| (feature.used)(job)) {
            let problem = refusal(job, feature);
            // A global holds for many jobs, and stands on one line.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    problems
}

fn refusal(job: &Job, feature: &Unwired) -> Problem {
    let name = feature.option;
    let help = option::find(name).map_or("", |option| option.help);
    let message =
        format!("`{name}` is known to fio but not supported yet ({help}): {}", feature.hint);
    match job.origins.get(name) {
        Some(origin) => Problem::new(&origin.file, origin.line, &origin.text, message),
        None => Problem::new(&job.file, job.line, &job.name, message),
    }
}

#[cfg(test)]
mod tests {
    use super::super::apply::apply;
    use super::super::job::Unified;
    use super::*;

    /// Is every option of the table known and supported by the language, once?
    #[test]
    fn options_are_known() {
        for (place, feature) in UNWIRED.iter().enumerate() {
            let option = option::find(feature.option).expect(feature.option);
            assert_eq!(option.status, option::Status::Supported, "{}", feature.option);
            let again = UNWIRED[place + 1..].iter().any(|other| other.option == feature.option);
            assert!(!again, "{} twice", feature.option);
        }
    }

    /// Does a plain job use none of them, and one that asks for max_latency get the sentence?
    #[test]
    fn sentences() {
        let mut job = Job::default();
        assert_eq!(problems(&[job.clone()]), []);
        apply(&mut job, 1024, "max_latency", Some("16"), &mut Vec::new()).unwrap();
        let found = problems(&[job.clone(), job]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].message,
            "`max_latency` is known to fio but not supported yet (fail when an I/O takes longer): \
             give a fixed iodepth instead"
        );
    }

    /// Is what only the report does not refused? It can be told to tell directions as one.
    #[test]
    fn reports_as_one_are_made() {
        let job = Job { unified: Unified::Mixed, ..Job::default() };
        assert_eq!(problems(&[job]), []);
    }
}
