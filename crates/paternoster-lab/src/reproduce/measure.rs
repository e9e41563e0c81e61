// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measure: executes a run and gives its results, by name.
//!
//! | workload | names |
//! |---|---|
//! | fio | of each job, all clones: `JOB kB/s`, `JOB IOPS`, `JOB max us`, `JOB device time %`, |
//! | | `JOB raises` (how often one of its queues began to weigh more) |
//! | | `JOB least IOPS`, `JOB least share %` (of device time, flushes too), in a second |
//! | | of each player: `JOB frames`, `JOB late frames`, `JOB worst ms late` |
//! | | of each section between stonewalls: `section N kB/s`, `section N MB/s` (10^6), |
//! | | `section N IOPS`, `section N I/Os`, `section N Jain` (of device time), |
//! | | `section N busy %` (of its time the device did something) |
//! | | if all run in the same time `max-min error %`, `group NAME share %` ([`super::maxmin`]) |
//! | tiotest | for each phase: `PHASE MB/s` (of 2^20), `PHASE mean ms`, `PHASE max ms` |
//! | disktest | `IOPS` |
//! | dd | `MB/s` (10^6): bytes of all files by the time of all |
//! | startup | `min s`, `median s`, `max s`, `alone s` (median), `by alone`; of each `seed N s` |
//! | | `given up` (starts; they have no time), `merged` (queues, in all starts), `seed N merged` |
//! | | `starts merged` (with a queue of others), `max s merged` (the longest of these) |
//! | | `others read MB/s`, `others written MB/s`, `others MB/s` (10^6) |
//! | sysbench | `reads/s`, `writes/s`, `fsyncs/s` (with those at the end), `mean ms`, `max ms`, |
//! | | `percentile ms` of events; `reads`, `writes`, `fsyncs` (of bursts), `MB/s` (10^6), `s` |
//! | | of the device: `requests` that ended, `others` of them no reads; `busy %` |
//! | doors | of each class `CLASS MB/s` (10^6), `CLASS IOPS`, `CLASS share %` (of bytes), |
//! | | `CLASS p50 us`, `CLASS p99 us`, `CLASS p99.9 us`, from ask to end; `all MB/s` |
//! | listing | the lines, by their number from 1, as texts |
//!
//! If a run has its block trace analysed, what btt says of it: `btt Q2Q us`, `btt I2D %` and so on
//! ([`super::blocktrace`]).
//!
//! And every read-only attribute of the scheduler, as at the end of the run, by its name: `hw_tag`,
//! `bandwidth`. And what it did in the run: `merges` of queues, `partings`, `injections` of
//! requests, `flushes`, `flush ms` (mean device time), `refused flushes` and `refused` others.

use paternoster_core::{Nanos, NoObserver, Values};
use paternoster_frame::choice::SchedulerChoice;
use paternoster_frame::setting::{Setting, SettingOptions};
use paternoster_frame::starts::{Figures, starts};
use paternoster_frame::target::Target;
use paternoster_frame::{Failure, choice, sysfs};
use paternoster_sim::Description;
use paternoster_workload::builtin::dd::Dd;
use paternoster_workload::builtin::startup::Startup;
use paternoster_workload::builtin::sysbench::{Sysbench, Totals};
use paternoster_workload::builtin::tiotest::Tiotest;
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::run::RunResult;
use paternoster_workload::shares::shares;
use paternoster_workload::statistics::JobStatistics;
use paternoster_workload::{Direction, Queue};

use super::blocktrace::BlockTrace;
use super::counts::Counts;
use super::experiment::{Device, FioJobs, Measured, Run, Workload};
use super::{doors, maxmin};

/// Executes the run.
///
/// # Errors
/// The experiment requires what does not exist, or a job has failed.
pub(crate) fn measure(run: &Run) -> Result<Measured, Failure> {
    measure_this(run).map_err(|failure| failure.of(&format!("run {}", run.name)))
}

fn measure_this(run: &Run) -> Result<Measured, Failure> {
    if let Workload::Doors(doors) = &run.workload {
        return doors::measure(doors, &run.device);
    }
    let device = match &run.device {
        Device::Named(name) => choice::device(name)?,
        Device::File { name, text } => Description::parse(name, text)?,
    };
    let device = Target::from(device);
    if let Workload::Listing = run.workload {
        let queue = choice::queue(&run.scheduler, device.facts, &run.set)?;
        return Ok(lines(&sysfs::listing(&queue)?));
    }
    let setting = Setting::new(&options(run), None)?;
    let scheduler = SchedulerChoice::parse(&run.scheduler)?;
    if let Workload::Startup { startup, repeat } = &run.workload {
        return self::startup((&setting, &device, &scheduler), startup, *repeat);
    }
    let jobs = jobs(&run.workload)?;
    let trace = BlockTrace::new(run.btt, &scheduler.name);
    let observer = ((Counts::default(), maxmin::tally(&jobs)), trace);
    let (result, observer, queue) =
        setting.run(&jobs, &device, &scheduler, observer, &mut |_| {})?;
    if let Some(failed) = result.processes.iter().find(|process| process.error != 0) {
        let name = &jobs[failed.job].name;
        return Err(Failure::Job(format!("job {name} failed with errno {}", failed.error)));
    }
    let mut measured = attributes(&queue);
    let ((counts, mut tally), mut trace) = observer;
    trace.tell(&mut measured)?;
    told(&counts, &mut measured);
    match &run.workload {
        Workload::Fio(_) => {
            fio(&jobs, &result, &counts, &mut measured);
            maxmin::tell(&jobs, &result, &mut tally, &mut measured);
        }
        Workload::Tiotest(tiotest) => self::tiotest(tiotest, &result, &mut measured),
        Workload::Disktest(_) => disktest(&result, &mut measured),
        Workload::Dd(dd) => self::dd(dd, &result, &mut measured),
        Workload::Sysbench(sysbench) => self::sysbench(sysbench, &result, &mut measured),
        Workload::Startup { .. } | Workload::Doors(_) | Workload::Listing => {}
    }
    Ok(measured)
}

/// Everything except the device and the scheduler, which are read already. All processes begin at
/// once, so that nothing is left to chance.
fn options(run: &Run) -> SettingOptions {
    SettingOptions {
        set: run.set.clone(),
        submit_cost: run.submit_cost.clone(),
        placement: run.placement.to_owned(),
        ..SettingOptions::plain()
    }
}

fn jobs(workload: &Workload) -> Result<Vec<Job>, Failure> {
    match workload {
        Workload::Fio(jobs) => fio_jobs(jobs),
        Workload::Tiotest(tiotest) => Ok(tiotest.jobs()),
        Workload::Disktest(disktest) => Ok(disktest.jobs()),
        Workload::Dd(dd) => Ok(dd.jobs()),
        Workload::Sysbench(sysbench) => {
            sysbench.check().map_err(Failure::Request)?;
            Ok(sysbench.jobs())
        }
        Workload::Startup { .. } | Workload::Doors(_) | Workload::Listing => Ok(Vec::new()),
    }
}

fn fio_jobs(jobs: &FioJobs) -> Result<Vec<Job>, Failure> {
    let source = Source { name: jobs.path, text: jobs.text };
    let defaults: Vec<(String, String)> =
        jobs.options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let sections: Vec<String> = jobs.sections.iter().map(|name| (*name).to_owned()).collect();
    let include = |_: &str, named: &str| Err(format!("{named}: a job file of the program's own"));
    let parsed = parse(&[source], &defaults, &sections, &|_| None, &include);
    let parsed = parsed.map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::Request(lines.join("; "))
    })?;
    Ok(parsed.jobs)
}

fn lines(text: &str) -> Measured {
    let numbered = text.lines().zip(1..).map(|(line, number)| (number.to_string(), line.into()));
    Measured { texts: numbered.collect(), ..Measured::default() }
}

/// The scheduler's own figures.
fn attributes(queue: &Queue) -> Measured {
    let mut measured = Measured::default();
    queue.for_each_attribute(|path, attribute, value| {
        if attribute.values == Values::ReadOnly && path.starts_with("iosched/") {
            let name = attribute.name.to_owned();
            match value.parse() {
                Ok(number) => drop(measured.numbers.insert(name, number)),
                Err(_) => drop(measured.texts.insert(name, value.to_owned())),
            }
        }
    });
    measured
}

/// Adds what the scheduler did.
fn told(counts: &Counts, measured: &mut Measured) {
    let Counts { merges, partings, injections, flushes, flush_time, refused, .. } = *counts;
    let counts = [
        ("merges", merges),
        ("partings", partings),
        ("injections", injections),
        ("flushes", flushes),
        ("refused", refused[0]),
        ("refused flushes", refused[1]),
    ];
    for (what, count) in counts {
        measured.numbers.insert(what.to_owned(), as_f64(count));
    }
    if flushes > 0 {
        let mean = as_f64(flush_time.0) / as_f64(flushes) / 1e6;
        measured.numbers.insert("flush ms".to_owned(), mean);
    }
}

fn fio(jobs: &[Job], result: &RunResult, counts: &Counts, measured: &mut Measured) {
    let shares = shares(result);
    for (place, job) in jobs.iter().enumerate() {
        let Some(all) = result.together(|of| of == place) else { continue };
        let share = |section: &paternoster_workload::shares::SectionShares| -> f64 {
            let members = section.processes.iter().zip(&section.shares);
            let own = members.filter(|(process, _)| result.processes[**process].job == place);
            own.map(|(_, share)| share).sum()
        };
        let share: f64 = shares.iter().map(share).sum();
        let processes = result.processes.iter().enumerate();
        let own = processes.filter(|(_, process)| process.job == place);
        let numbers = [
            ("kB/s", kilobytes(&all)),
            ("IOPS", ios_per_second(&all)),
            ("max us", longest_us(&all)),
            ("device time %", share * 100.0),
            ("raises", as_f64(own.map(|(client, _)| counts.raises(client)).sum())),
        ];
        let is_own = |client: usize| {
            result.processes.get(client).is_some_and(|process| process.job == place)
        };
        let seconds = &counts.seconds;
        let least = [
            ("least IOPS", seconds.least_ios(job.time.ramp_time, &is_own).map(as_f64)),
            (
                "least share %",
                seconds.least_share(job.time.ramp_time, &is_own).map(|share| share * 100.0),
            ),
        ];
        for (what, number) in least {
            let named = |number| (format!("{} {what}", job.name), number);
            measured.numbers.extend(number.map(named));
        }
        let frames = all.frames().map(|frames| {
            [
                ("frames", as_f64(frames.count())),
                ("late frames", as_f64(frames.late())),
                ("worst ms late", as_f64(frames.worst().0) / 1e6),
            ]
        });
        for (what, number) in numbers.into_iter().chain(frames.into_iter().flatten()) {
            measured.numbers.insert(format!("{} {what}", job.name), number);
        }
    }
    for section in &shares {
        let number = section.section;
        let own = |job: usize| {
            section.processes.iter().any(|&process| result.processes[process].job == job)
        };
        let mut insert = |what: &str, value| {
            measured.numbers.insert(format!("section {number} {what}"), value);
        };
        if let Some(all) = result.together(own) {
            insert("kB/s", kilobytes(&all));
            insert("MB/s", kilobytes(&all) / 1000.0);
            insert("IOPS", ios_per_second(&all));
            insert("I/Os", as_f64(all.ios()));
        }
        if let Some(jain) = section.jain {
            insert("Jain", jain);
        }
        insert("busy %", (1.0 - section.idle) * 100.0);
    }
}

/// Bytes of all directions in a millisecond, as fio's `aggrb` of that age.
fn kilobytes(all: &JobStatistics) -> f64 {
    let rates = Direction::ALL.map(|way| all.direction(way).bytes_per_second());
    as_f64(rates.iter().sum()) / 1000.0
}

fn ios_per_second(all: &JobStatistics) -> f64 {
    Direction::ALL.map(|way| all.direction(way).ios_per_second()).iter().sum()
}

fn longest_us(all: &JobStatistics) -> f64 {
    let longest = Direction::ALL.map(|way| all.direction(way).completion().max());
    as_f64(longest.iter().map(|time| time.0).max().unwrap_or(0)) / 1000.0
}

fn tiotest(tiotest: &Tiotest, result: &RunResult, measured: &mut Measured) {
    for phase in tiotest.phase_results(result) {
        let [mean, max, _, _] = phase.latency().figures();
        for (what, number) in [("MB/s", phase.rate()), ("mean ms", mean), ("max ms", max)] {
            measured.numbers.insert(format!("{} {what}", phase.phase.name()), number);
        }
    }
}

fn disktest(result: &RunResult, measured: &mut Measured) {
    let iops = result
        .together(|_| true)
        .map_or(0.0, |all| all.direction(Direction::Read).ios_per_second());
    measured.numbers.insert("IOPS".to_owned(), iops);
}

fn dd(dd: &Dd, result: &RunResult, measured: &mut Measured) {
    let bytes = u64::from(dd.files) * dd.size;
    let time = result.sections.iter().fold(Nanos::ZERO, |sum, one| sum + (one.ended - one.began));
    let rate = if time == Nanos::ZERO { 0.0 } else { as_f64(bytes) * 1000.0 / as_f64(time.0) };
    measured.numbers.insert("MB/s".to_owned(), rate);
}

/// Starts a program this often; the scheduler's attributes are those at the end of the last start.
fn startup(
    on: (&Setting, &Target, &SchedulerChoice),
    startup: &Startup,
    repeat: u32,
) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let pairs = starts(
        on,
        startup,
        repeat,
        |_, _| Ok(NoObserver),
        |_, _, queue| {
            measured = attributes(queue);
            Ok(())
        },
    )?;
    let seconds = |time: Nanos| as_f64(time.0) / 1e9;
    let Figures { alone, beside, slowdown, given_up, others, merges } = Figures::of(&pairs);
    let times = [
        ("min s", beside.least.map(seconds)),
        ("median s", beside.median.map(seconds)),
        ("max s", beside.greatest.map(seconds)),
        ("alone s", alone.median.map(seconds)),
        ("by alone", slowdown),
        ("given up", Some(as_f64(given_up as u64))),
        ("merged", Some(as_f64(merges))),
        ("others read MB/s", Some(others[0] / 1e6)),
        ("others written MB/s", Some(others[1] / 1e6)),
        ("others MB/s", Some((others[0] + others[1]) / 1e6)),
    ];
    for (what, number) in times {
        measured.numbers.extend(number.map(|number| (what.to_owned(), number)));
    }
    for (what, time) in [("median s", beside.median), ("max s", beside.greatest)] {
        if time.is_none() {
            measured.texts.insert(what.to_owned(), format!("> {}", seconds(startup.limit)));
        }
    }
    let merged = || pairs.iter().map(|pair| pair.beside).filter(|start| start.merges > 0);
    measured.numbers.insert("starts merged".to_owned(), as_f64(merged().count() as u64));
    let longest = merged().map(|start| start.watched).max();
    measured.numbers.extend(longest.map(|time| ("max s merged".to_owned(), seconds(time))));
    for pair in pairs {
        let (seed, merges) = (pair.seed, as_f64(pair.beside.merges));
        measured.numbers.insert(format!("seed {seed} merged"), merges);
        let time = pair.beside.time.map(|time| (format!("seed {seed} s"), seconds(time)));
        measured.numbers.extend(time);
    }
    Ok(measured)
}

fn sysbench(sysbench: &Sysbench, result: &RunResult, measured: &mut Measured) {
    let totals = Totals::of(result);
    let [read, written] = totals.bytes_per_second();
    let millis = |time: Nanos| as_f64(time.0) / 1e6;
    let device = &result.device;
    let busy = 100.0 * as_f64(device.busy.0) / as_f64(totals.time.0.max(1));
    let numbers = [
        ("reads/s", totals.reads_per_second()),
        ("writes/s", totals.writes_per_second()),
        ("fsyncs/s", totals.fsyncs_per_second()),
        ("mean ms", totals.mean_ms()),
        ("max ms", millis(totals.greatest)),
        ("percentile ms", totals.percentile_ms(sysbench.percentile)),
        ("reads", as_f64(totals.reads)),
        ("writes", as_f64(totals.writes)),
        ("fsyncs", as_f64(totals.fsyncs)),
        ("MB/s", (read + written) / 1e6),
        ("s", millis(totals.time) / 1e3),
        ("requests", as_f64(device.ios.iter().sum())),
        ("others", as_f64(device.ios[1])),
        ("busy %", busy),
    ];
    measured.numbers.extend(numbers.map(|(what, number)| (what.to_owned(), number)));
}

#[expect(clippy::cast_precision_loss, reason = "printed figures")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use paternoster_workload::builtin::startup::profile::by_name;
    use paternoster_workload::builtin::sysbench::Mode;

    use super::*;

    const JOB: &str = "[a]\nrw=randread\nbs=4k\nsize=1m\ndirect=1\nnumber_ios=10\n\
                       [b]\nstonewall\nrw=randread\nbs=4k\nsize=1m\ndirect=1\nnumber_ios=10\n";

    fn run_of(text: &'static str) -> Run {
        let workload = Workload::Fio(FioJobs::new("jobs/test.fio", text));
        Run::new("test", workload, Device::Named("flash-card-2010"), "noop")
    }

    /// Are jobs and sections measured under their names? One reader at a time, 1116 us + 4 * 46.04
    /// us = 1300.16 us and 20 us of the host for each of ten: 40960 bytes in 13 whole ms are 3150.8
    /// kB/s, and all of the device.
    #[test]
    fn jobs_have_names() {
        let measured = measure(&run_of(JOB)).unwrap();
        let number = |name: &str| measured.numbers[name];
        assert!((number("a kB/s") - 3150.8).abs() < 0.1, "{measured:?}");
        assert!((number("section 1 kB/s") - number("b kB/s")).abs() < 1.0);
        assert!((number("section 1 MB/s") * 1000.0 - number("b kB/s")).abs() < 1.0);
        assert!((number("section 1 I/Os") - 10.0).abs() < 1e-9);
        assert!((number("section 1 IOPS") - number("b IOPS")).abs() < 1e-9);
        assert_eq!([number("merges"), number("injections"), number("b raises")], [0.0; 3]);
        assert!((number("a device time %") - 100.0).abs() < 1e-9);
        assert!((number("section 0 Jain") - 1.0).abs() < 1e-9);
        assert!((number("a max us") - 1300.16).abs() < 1.0, "{measured:?}");
    }

    /// Are start-ups measured under their names, each start by its seed? On a device without seeks
    /// and with no other load, each takes the same time, alone or not.
    #[test]
    fn startups_have_names() {
        let profile = by_name("xterm").expect("a profile");
        let startup = Startup { readers: 0, writers: 0, ..Startup::new(profile) };
        let workload = Workload::Startup { startup, repeat: 3 };
        let run = Run::new("test", workload, Device::Named("lab-flash"), "kyber");
        let measured = measure(&run).unwrap();
        let number = |name: &str| measured.numbers[name];
        assert!((number("median s") - number("alone s")).abs() < 1e-9, "{measured:?}");
        assert!((number("by alone") - 1.0).abs() < 1e-9);
        assert_eq!((number("given up"), number("merged")), (0.0, 0.0));
        assert_eq!(number("starts merged"), 0.0);
        assert!(!measured.numbers.contains_key("max s merged"));
        assert!(number("min s") <= number("seed 2 s") && number("seed 2 s") <= number("max s"));
        assert_eq!(number("seed 0 merged"), 0.0);
        assert!(!measured.numbers.contains_key("seed 3 s"));
    }

    /// Is sysbench measured under its names? Direct reads one by one of 16 KiB: 1116 us + 16 *
    /// 46.04 us of the card and 20 us of the host are 1872.64 us, 534.0 a second, after each other
    /// in the device for all but the 20 us.
    #[test]
    fn sysbench_has_names() {
        let sysbench = Sysbench { direct: true, ..Sysbench::new(Mode::RandomRead) };
        let workload = Workload::Sysbench(sysbench);
        let run = Run::new("test", workload, Device::Named("flash-card-2010"), "noop");
        let measured = measure(&run).unwrap();
        let number = |name: &str| measured.numbers[name];
        assert!((number("reads/s") - 1e6 / 1872.64).abs() < 0.5, "{measured:?}");
        assert!((number("mean ms") - 1.852_64).abs() < 0.001, "{measured:?}");
        assert!((number("busy %") - 100.0 * 1852.64 / 1872.64).abs() < 0.1, "{measured:?}");
        assert_eq!((number("reads"), number("writes/s")), (number("requests"), 0.0));
        let endless = Sysbench { time: None, ..Sysbench::new(Mode::RandomRead) };
        let run = Run { workload: Workload::Sysbench(endless), ..run };
        let Err(Failure::Request(message)) = measure(&run) else { panic!("not refused") };
        assert!(message.contains("never end"), "{message}");
    }

    /// Does a failure name its run?
    #[test]
    fn failures_name_the_run() {
        let Err(Failure::Request(message)) = measure(&run_of("[a]\nrw=sideways\n")) else {
            panic!("not refused")
        };
        assert!(message.starts_with("run test: jobs/test.fio:2"), "{message}");
    }
}
