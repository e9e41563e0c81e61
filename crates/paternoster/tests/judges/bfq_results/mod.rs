// SPDX-License-Identifier: MIT OR Apache-2.0
//! A free run compared with what Linux 6.18's BFQ did on the same modelled devices.
//!
//! The kernel's scheduler ran on a loop device over a program that answers as `linear` does. Each
//! row is a log of its decisions, and the same processes in the simulator, without forced history:
//! shares, throughput, the length of turns and why they ended are within 10 % (of the whole, for
//! shares and reasons).
//!
//! Where the kernel does badly, so does the preset: three readers that are raised together get a
//! tenth of what the disk could do, two that cooperate out of step a fifteenth.
//!
//! # One row is a throw of dice
//! Five weighted readers on parallel flash are served one at a time or all at once, for half a
//! second each; which of the two depends on whether a timer's run falls between an answer and the
//! next request (`bfq/runs.rs`). In 4 s the kernel changed four times. Eight runs of ours that
//! differ in the seed of the device reach different rates, and the kernel's lies among them. Shares
//! are compared with the mean of the eight. Turns are not: ours are preempted more often.
//!
//! Source: the logs in `bfq-decisions` and the README next to them.

mod figures;
mod ours;
mod theirs;

use std::time::Duration;

use figures::{Figures, REASONS};
use ours::Device;

/// One log.
struct Row {
    log: &'static str,
    device: Device,
    low_latency: bool,
    jobs: String,
    /// Which part of it is compared, in milliseconds.
    part: (u64, u64),
}

impl Row {
    fn part(&self) -> (Duration, Duration) {
        (Duration::from_millis(self.part.0), Duration::from_millis(self.part.1))
    }

    fn theirs(&self) -> Option<Figures> {
        theirs::figures(self.log, self.part().0, self.part().1)
    }

    fn ours(&self, seed: u64) -> Figures {
        let low_latency = if self.low_latency { "1" } else { "0" };
        let attributes = [("iosched/low_latency", low_latency)];
        ours::figures(&self.jobs, self.device, &attributes, self.part(), seed)
    }

    fn span(&self) -> Duration {
        self.part().1 - self.part().0
    }
}

fn sequential(name: &str, offset_mib: u32, more: &str) -> String {
    format!("[{name}]\nrw=read\nbs=128k\noffset={offset_mib}m\n{more}\n")
}

fn random(name: &str, kib: u32, more: &str) -> String {
    format!("[{name}]\nrw=randread\nbs={kib}k\n{more}\n")
}

/// What differs by more than allowed.
fn apart(row: &Row) -> Vec<String> {
    let Some(theirs) = row.theirs() else { return Vec::new() };
    let mut apart = Vec::new();
    for (what, our, their, distance) in rows(&row.ours(1), &theirs, row.span()) {
        println!("{:22} {what:20} {our:10.1} {their:10.1} {distance:+7.1} %", row.log);
        if distance.abs() > 10.0 {
            apart.push(format!("{}, {what}: {our:.1}, not {their:.1}", row.log));
        }
    }
    apart
}

/// The compared figures, ours, theirs, and their difference in hundredths.
fn rows(ours: &Figures, theirs: &Figures, span: Duration) -> Vec<(String, f64, f64, f64)> {
    let mut rows = Vec::new();
    for (place, (our, their)) in ours.shares().iter().zip(theirs.shares()).enumerate() {
        rows.push((format!("share {place} %"), *our, their, our - their));
    }
    let by = |our: f64, their: f64| 100.0 * (our / their - 1.0);
    let (our, their) = (ours.rate(span), theirs.rate(span));
    rows.push(("KiB/s".to_owned(), our, their, by(our, their)));
    let (our, their) = (ours.turn_ms(), theirs.turn_ms());
    rows.push(("turn ms".to_owned(), our, their, by(our, their)));
    for (place, (our, their)) in ours.mix().iter().zip(theirs.mix()).enumerate() {
        rows.push((format!("{} %", REASONS[place]), *our, their, our - their));
    }
    rows
}

fn table() -> Vec<Row> {
    let row = |log, device, jobs, part| Row { log, device, low_latency: false, jobs, part };
    let two = sequential("a", 0, "") + &sequential("b", 256, "");
    let mixed = sequential("a", 0, "") + &random("b", 4, "offset=1g");
    let deep = random("a", 4, "") + &random("b", 64, "offset=1g\nioengine=libaio\niodepth=16");
    let three: String = (0..3).map(|nth| sequential(&format!("s{nth}"), nth * 256, "")).collect();
    let starter = three + &random("d", 16, "offset=2g\nstartdelay=2s");
    let alternate = |name, offset, more: &str| {
        format!("[{name}]\nrw=read:64k\nbs=64k\noffset={offset}k\n{more}\n")
    };
    let coop = alternate("even", 0, "startdelay=1ms") + &alternate("odd", 64, "");
    let equal: String = (0..5).map(|nth| random(&format!("r{nth}"), 4, "")).collect();
    let disk = Device::Disk;
    vec![
        row("disk_2seq_ll0", disk, two, (200, 2900)),
        row("disk_seq_rand_ll0", disk, mixed, (200, 3900)),
        row("disk_shallow_deep_ll0", disk, deep, (200, 3900)),
        Row { low_latency: true, ..row("disk_starter_ll1", disk, starter, (700, 5900)) },
        row("disk_coop_ll0", disk, coop, (200, 2900)),
        row("ssd_5equal_rand_ll0", Device::Flash, equal, (200, 2900)),
    ]
}

/// Are our runs like the kernel's?
#[test]
fn free_runs_agree() {
    let apart: Vec<String> = table().iter().flat_map(apart).collect();
    assert!(apart.is_empty(), "{apart:#?}");
}

/// Is what five weighted readers got from the kernel one of the results that they get from ours?
#[test]
fn weighted_readers_on_flash_are_a_throw_of_dice() {
    let jobs = [400, 300, 500, 100, 200].iter().map(|weight| {
        let group = format!("cgroup=g{weight}\ncgroup_weight={weight}");
        random(&format!("w{weight}"), 4, &group)
    });
    let row = Row {
        log: "ssd_5groups_rand_ll0",
        device: Device::Flash,
        low_latency: false,
        jobs: jobs.collect(),
        part: (200, 3900),
    };
    let Some(theirs) = row.theirs() else { return };
    let ours: Vec<Figures> = (1..=8).map(|seed| row.ours(seed)).collect();
    let rates = ours.iter().map(|figures| figures.rate(row.span()));
    let (least, most) = rates.fold((f64::MAX, 0.0_f64), |(a, b), rate| (a.min(rate), b.max(rate)));
    let rate = theirs.rate(row.span());
    println!("{} KiB/s {least:.0} to {most:.0}, theirs {rate:.0}", row.log);
    assert!(least <= rate && rate <= most);
    for (place, their) in theirs.shares().into_iter().enumerate() {
        let our = ours.iter().map(|figures| figures.shares()[place]).sum::<f64>() / 8.0;
        println!("{} share {place} % {our:.1}, theirs {their:.1}", row.log);
        assert!((our - their).abs() <= 10.0);
    }
}
