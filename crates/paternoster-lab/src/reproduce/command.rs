// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command: the line with which a person repeats a run by hand.
//!
//! ```text
//! paternoster run jobs/fair-warm.fio --ramp_time=1 --device flash-card-2010 --scheduler cfq …
//! ```

use std::fmt::Write as _;

use paternoster_core::Nanos;
use paternoster_workload::builtin::dd::Dd;
use paternoster_workload::builtin::disktest::Disktest;
use paternoster_workload::builtin::startup::Startup;
use paternoster_workload::builtin::sysbench::{IoMode, Sysbench};
use paternoster_workload::builtin::tiotest::Tiotest;
use paternoster_workload::fio::syncs::FileSync;

use super::experiment::{Device, Experiment, FioJobs, Run, Workload};
use crate::experiments;

/// The experiment's own device files, then a line for each run.
pub(crate) fn lines(experiment: &Experiment) -> String {
    let mut text = format!("# {}: {}\n", experiment.name, experiment.summary);
    let mut written: Vec<&str> = Vec::new();
    for run in &experiment.runs {
        if let Device::File { name, text: file } = &run.device
            && !written.contains(&name.as_str())
        {
            let _infallible = writeln!(text, "cat > {name}.toml <<'END'\n{file}END");
            written.push(name);
        }
    }
    for run in &experiment.runs {
        let _infallible = writeln!(text, "{}", line(run));
    }
    text
}

/// The lines of all experiments.
#[must_use]
pub fn all_lines() -> Vec<String> {
    let runs = experiments::all().into_iter().flat_map(|experiment| experiment.runs);
    runs.map(|run| line(&run)).collect()
}

/// The command line of a run.
pub(crate) fn line(run: &Run) -> String {
    let device = match &run.device {
        Device::Named(name) => (*name).to_owned(),
        Device::File { name, .. } => format!("{name}.toml"),
    };
    let Run { scheduler, set, submit_cost, placement, .. } = run;
    let mut words: Vec<String> = vec!["paternoster".to_owned()];
    match &run.workload {
        Workload::Fio(jobs) => words.extend(fio(jobs)),
        Workload::Tiotest(tiotest) => words.extend(self::tiotest(tiotest)),
        Workload::Disktest(disktest) => words.extend(self::disktest(disktest)),
        Workload::Dd(dd) => words.extend(self::dd(dd)),
        Workload::Startup { startup, repeat } => words.extend(self::startup(startup, *repeat)),
        Workload::Sysbench(sysbench) => words.extend(self::sysbench(sysbench)),
        // Only an experiment has doors.
        Workload::Doors(doors) => return format!("paternoster reproduce {}", doors.experiment),
        Workload::Listing => {
            words.extend([format!("devices {device} --grep=2.6.34 --scheduler {scheduler}")]);
        }
    }
    if !matches!(run.workload, Workload::Listing) {
        words.push(format!("--device {device} --scheduler {scheduler}"));
    }
    if matches!(run.workload, Workload::Fio(_)) {
        words.push("--start-jitter 0".to_owned());
    }
    words.extend(set.iter().map(|text| format!("--set {text}")));
    words.extend(submit_cost.iter().map(|time| format!("--submit-cost {time}")));
    if *placement != "near" {
        words.push(format!("--placement {placement}"));
    }
    words.join(" ")
}

fn fio(jobs: &FioJobs) -> Vec<String> {
    let mut words = vec!["run".to_owned(), jobs.path.to_owned()];
    words.extend(jobs.options.iter().map(|(name, value)| format!("--{name}={value}")));
    words.extend(jobs.sections.iter().map(|name| format!("--section={name}")));
    words
}

fn tiotest(tiotest: &Tiotest) -> Vec<String> {
    let Tiotest { threads, file_mb, random_calls, block, drop_caches, .. } = tiotest;
    let drop_caches = drop_caches.then(|| "-F".to_owned());
    let words = format!("tiotest -t {threads} -f {file_mb} -r {random_calls} -b {block}");
    [words].into_iter().chain(drop_caches).collect()
}

fn disktest(disktest: &Disktest) -> Vec<String> {
    let Disktest { block, threads, time, path, .. } = disktest;
    let seconds = time.as_millis() / 1000;
    vec![format!("disktest -B {block} -h 1 -I BD -K {threads} -p l -P T -T {seconds} -r {path}")]
}

fn dd(dd: &Dd) -> Vec<String> {
    let together = dd.together.then(|| "--together".to_owned());
    let words = format!("dd --files {} --size {} --bs {}", dd.files, dd.size, dd.block);
    [words].into_iter().chain(together).collect()
}

/// The command `startup` with all its settings, but for device and scheduler.
#[must_use]
pub fn startup(startup: &Startup, repeat: u32) -> Vec<String> {
    let Startup { profile, readers, writers, random_readers, direct, .. } = startup;
    let (warmup, limit) = (startup.warmup.as_millis(), startup.limit.as_millis());
    let mut words = vec![
        format!("startup --profile {} --readers {readers} --writers {writers}", profile.name),
        format!("--warmup {warmup}ms --limit {limit}ms --repeat {repeat}"),
    ];
    if *random_readers > 0 {
        words.push(format!("--random-readers {random_readers}"));
    }
    words.extend(direct.then(|| "--direct".to_owned()));
    words.extend(startup.file_size.map(|bytes| format!("--file-size {bytes}")));
    words
}

/// The command `sysbench` with the options that are not its defaults.
#[must_use]
pub fn sysbench(sysbench: &Sysbench) -> Vec<String> {
    let plain = Sysbench::new(sysbench.mode);
    let millis =
        |time: Option<Nanos>| time.map_or("0".to_owned(), |time| format!("{}ms", time.as_millis()));
    let on_off = |on: bool| if on { "on" } else { "off" }.to_owned();
    let number = |number: Option<u64>| number.unwrap_or(0).to_string();
    let told = |of: &Sysbench| {
        let open = match of.open {
            FileSync::None => None,
            FileSync::Sync => Some("sync"),
            FileSync::Dsync => Some("dsync"),
        };
        let flags: Vec<&str> = open.into_iter().chain(of.direct.then_some("direct")).collect();
        let (io_mode, backlog) = match of.io_mode {
            IoMode::Sync => ("sync", 128),
            IoMode::Async(backlog) => ("async", backlog),
        };
        [
            ("threads", of.threads.to_string()),
            ("time", millis(of.time)),
            ("events", number(of.events)),
            ("rate", number(of.rate)),
            ("percentile", of.percentile.to_string()),
            ("report-interval", millis(of.report_interval)),
            ("file-num", of.files.to_string()),
            ("file-block-size", of.block.to_string()),
            ("file-total-size", of.total.to_string()),
            ("file-io-mode", io_mode.to_owned()),
            ("file-async-backlog", backlog.to_string()),
            ("file-extra-flags", flags.join(",")),
            ("file-fsync-freq", of.sync_every.to_string()),
            ("file-fsync-all", on_off(of.sync_all)),
            ("file-fsync-end", on_off(of.sync_end)),
            ("file-fsync-mode", of.sync_call.name().to_owned()),
            ("file-merged-requests", of.merged.to_string()),
            ("file-rw-ratio", of.ratio.to_string()),
        ]
    };
    let mode = format!("--file-test-mode={}", sysbench.mode.name());
    let mut words = vec!["sysbench".to_owned(), "fileio".to_owned(), mode];
    let changed = told(sysbench).into_iter().zip(told(&plain)).filter(|(one, usual)| one != usual);
    words.extend(changed.map(|((name, value), _)| format!("--{name}={value}")));
    words.push("run".to_owned());
    words
}

#[cfg(test)]
mod tests {
    use paternoster_workload::builtin::startup::profile::by_name;

    use super::*;

    /// Has the line of a run the workload's words, its device and its scheduler?
    #[test]
    fn a_line_has_device_and_scheduler() {
        let startup = Startup::new(by_name("xterm").expect("a profile"));
        let workload = Workload::Startup { startup: startup.clone(), repeat: 100 };
        let line = line(&Run::new("a", workload, Device::Named("hdd-7200"), "cfq"));
        let words = self::startup(&startup, 100).join(" ");
        assert_eq!(line, format!("paternoster {words} --device hdd-7200 --scheduler cfq"));
        assert!(line.contains("--repeat 100"), "{line}");
    }
}
