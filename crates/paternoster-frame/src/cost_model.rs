// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost models of devices, measured: twelve short loads that each fill the device with one kind.
//!
//! ```text
//! rbps       1 MiB, one behind the other     read       bytes a second
//! rseqiops   4 KiB, one behind the other     read       requests a second
//! rrandiops  4 KiB, anywhere in a tenth      randread   requests a second
//! rrandbps   1 MiB, the same                 randread   bytes a second
//! rneariops  4 KiB, anywhere in a hundredth  randread   requests a second, on a disk
//! rendbps    1 MiB, in sequence, at the end  read       bytes a second, on a disk
//! wbps, wseqiops, wrandiops, …               the same, written
//! ```
//!
//! They are the sections of `jobs/measure/cost-model.fio`, which fio runs on a real device as it
//! is. Here each runs alone on a fresh model, with as many requests outstanding as fill it, for a
//! time that depends on the kind of device; the first half does not count:
//!
//! | device | time |
//! |---|---|
//! | rotates | 20 s |
//! | takes one command at a time | 4 s |
//! | takes up to 64 | 2 s |
//! | takes more | 1 s |
//!
//! # Invariants
//! I1  A measure depends on the device alone: not on jobs, schedulers, seeds or other measures.
//!
//! Source: own.

use paternoster_core::{DeviceFacts, Nanos, NoObserver};
pub use paternoster_schedulers::CostModel;
use paternoster_workload::fio::job::Job;
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::fio::value::Amount;

use crate::Failure;
use crate::choice::SchedulerChoice;
use crate::entitled::full_depth;
use crate::setting::{Setting, SettingOptions};
use crate::target::Target;

/// The loads, for fio.
pub const JOBS: &str = include_str!("../jobs/measure/cost-model.fio");
/// The attribute that takes a cost model, and the value that stands for a measured one.
pub const ATTRIBUTE: &str = "cost_model";
const MEASURED: &str = "measured";
/// What the loads of a hundredth of the device, and of its end, are named by: they are for what
/// rotates.
const NEAR: &str = "neariops";
const END: &str = "endbps";
/// The device itself.
const WHOLE: &str = "/dev/whole";
/// First come, first served, and each request is a command.
const SCHEDULER: &str = "noop:nr_requests=256,nomerges=2";

/// How long each load runs.
fn time(facts: &DeviceFacts) -> Nanos {
    Nanos::from_millis(match (facts.rotational, facts.depth) {
        (true, _) => 20_000,
        (false, ..=1) => 4000,
        (false, ..=64) => 2000,
        (false, _) => 1000,
    })
}

/// The loads on a device, in the order of the keys; random requests lie in `span` bytes, or in as
/// many as the file says.
fn loads(facts: &DeviceFacts, span: Option<u64>) -> Result<Vec<Job>, Failure> {
    let include = |_: &str, named: &str| Err(format!("{named}: a job file of the program's own"));
    let source = Source { name: "jobs/measure/cost-model.fio", text: JOBS };
    let whole = [("filename".to_owned(), WHOLE.to_owned())];
    let parsed = parse(&[source], &whole, &[], &|_| None, &include).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::Request(lines.join("; "))
    })?;
    let half = Nanos(time(facts).0 / 2);
    let mut jobs = parsed.jobs;
    // Of a span that is given nothing nearer is known.
    jobs.retain(|job| match job.name.get(1..) {
        Some(NEAR) => facts.rotational && span.is_none(),
        Some(END) => facts.rotational,
        _ => true,
    });
    for job in &mut jobs {
        job.clones.stonewall = false;
        (job.time.ramp_time, job.time.runtime) = (half, Some(half));
        if let (Some(bytes), true) = (span, job.order.rw.random) {
            job.region.size = Some(Amount::Bytes(bytes));
        }
        let depth = full_depth(facts);
        (job.queue.iodepth, job.queue.iodepth_low) = (depth, depth);
    }
    Ok(jobs)
}

/// What the device does of each load; random requests lie in `span` bytes.
///
/// # Errors
/// It is no model, or does nothing of one of the loads.
pub fn measure(target: &Target, span: Option<u64>) -> Result<CostModel, Failure> {
    let setting = Setting::new(&SettingOptions::plain(), None)?;
    let scheduler = SchedulerChoice::parse(SCHEDULER)?;
    let mut line = String::new();
    for job in loads(&target.facts, span)? {
        let name = job.name.clone();
        let run = setting.run(&[job], target, &scheduler, NoObserver, &mut |_| ());
        let (result, ..) = run.map_err(|failure| failure.of(&name))?;
        let done = result.processes[0].statistics.mixed();
        let all = if name.ends_with("bps") { done.bytes() } else { done.ios() };
        let each = u128::from(all) * 1000 / u128::from(done.runtime_ms().max(1));
        line += &format!("{name}={each} ");
    }
    line.parse().map_err(|error| Failure::Request(format!("{}: {error}", target.name)))
}

/// The schedulers for `target`: with the measured model where one asks for that.
///
/// # Errors
/// As [`measure`]; or the target is no model.
pub fn resolved(
    schedulers: &[SchedulerChoice],
    target: &Target,
) -> Result<Vec<SchedulerChoice>, Failure> {
    let asks = |one: &SchedulerChoice| one.asks(ATTRIBUTE, MEASURED);
    if !schedulers.iter().any(asks) {
        return Ok(schedulers.to_vec());
    }
    if target.as_real().is_some() {
        let message = format!(
            "--device {}: it is no model; run the jobs of `paternoster cost-model --jobs` on it, \
             and write the numbers instead of `{MEASURED}`",
            target.name
        );
        return Err(Failure::Request(message));
    }
    let model = measure(target, None)?.to_string();
    let own =
        |one: &SchedulerChoice| if asks(one) { one.with(ATTRIBUTE, &model) } else { one.clone() };
    Ok(schedulers.iter().map(own).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Real;

    fn target(name: &str) -> Target {
        Target::find(name, Real::Refused, 0).expect("it is there")
    }

    /// Are the numbers what the device does? Seed 000's card takes 1116 us for a request and 46.04
    /// us for each KiB: 1116 + 4 * 46.04 = 1300 us for 4 KiB, 769 a second, wherever they lie;
    /// large ones are as large as it takes them.
    #[test]
    fn a_card_is_measured() {
        let card = target("flash-card-2010");
        let model = measure(&card, None).expect("it is a model");
        for rates in [model.read, model.write] {
            assert!(rates.seqiops.abs_diff(769) <= 2 && rates.randiops.abs_diff(769) <= 2);
            let kib = u64::from(card.facts.max_sectors / 2).min(1024);
            let right = kib * 1024 * 100_000_000 / (111_600 + kib * 4604);
            for bps in [rates.bps, rates.randbps.unwrap_or(0)] {
                assert!(bps.abs_diff(right) < right / 50, "{bps} of {right}");
            }
        }
    }

    /// I1: is `measured` replaced by the same numbers for each scheduler that asks for it, and
    /// nothing else changed?
    #[test]
    fn i1_what_is_measured_depends_on_the_device_alone() {
        let card = target("flash-card-2010");
        let texts = ["noop", "paternoster:cost_model=measured,strictness=8"];
        let asked: Vec<SchedulerChoice> =
            texts.iter().map(|text| SchedulerChoice::parse(text).expect("one of ours")).collect();
        let found = resolved(&asked, &card).expect("a model");
        let line = measure(&card, None).expect("a model").to_string();
        assert_eq!(found[0], asked[0]);
        assert_eq!(found[1].text, texts[1]);
        let own = [(ATTRIBUTE, line.as_str()), ("strictness", "8")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found[1].attributes(), own);
        assert_eq!(resolved(&asked[..1], &card).expect("nothing to measure"), asked[..1]);
    }
}
