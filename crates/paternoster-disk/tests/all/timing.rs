// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the disk take the time of a run of Paternoster under `none`, to the nanosecond; and always
//! the same?

use paternoster_core::event::Action;
use paternoster_core::{Event, Flags, Note, Observer};
use paternoster_disk::{Device, Disk, Nanos, Next, Op};
use paternoster_sim::{Simulated, catalog};
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::{NoWatcher, RunError, Settings};

/// What went to a device or came back: when, what, first sector, sectors.
type Line = (Nanos, Op, u64, u64);

/// Commands in order of issue, and in order of completion.
#[derive(Debug, Default)]
struct Both {
    issued: Vec<Line>,
    ended: Vec<Line>,
}

fn line(event: &Event) -> Line {
    let op = match event.op {
        paternoster_core::Op::Read => Op::Read,
        paternoster_core::Op::Write if event.flags.contains(Flags::FUA) => Op::WriteFua,
        paternoster_core::Op::Write => Op::Write,
        paternoster_core::Op::Discard => Op::Discard,
        paternoster_core::Op::Flush => Op::Flush,
        other => unreachable!("{other:?}"),
    };
    (event.at, op, event.sector, event.sectors.into())
}

impl Observer for Both {
    fn event(&mut self, event: &Event) {
        match event.action {
            Action::Issue => self.issued.push(line(event)),
            Action::Complete => self.ended.push(line(event)),
            // The device has refused its last command: a flush that cannot be queued.
            Action::Requeue => assert_eq!(self.issued.pop(), Some(line(event))),
            _ => {}
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}

/// A run of this job on a device under `none`.
fn run(device: &str, job: &str) -> Both {
    let device = catalog::by_name(device).unwrap().unwrap();
    let include = |_: &str, _: &str| Err(String::new());
    let source = Source { name: "timing.fio", text: job };
    let jobs = parse(&[source], &[], &[], &|_| None, &include).expect("a sound job file");
    let settings = Settings { submit_cost: device.submit_cost, ..Settings::default() };
    let (_, both, _) = paternoster_workload::run::<_, RunError>(
        &jobs.jobs,
        &settings,
        &mut Simulated::new(device.model()),
        paternoster_schedulers::by_name("none").unwrap(),
        Both::default(),
        |_| Ok(()),
        &mut NoWatcher,
    )
    .expect("the run ends");
    both
}

/// The same commands at the same times through a disk, in order of completion.
fn through_disk(device: &str, issued: &[Line]) -> Vec<Line> {
    let mut disk = Disk::new(&Device::named(device).unwrap().without_data(), 1);
    let mut ended = Vec::new();
    for (at, op, sector, sectors) in issued {
        disk.submit(*at, *op, sector * 512, sectors * 512).unwrap();
        while let Next::Done(done) = disk.next(*at) {
            ended.push((done.at, done.op, done.offset / 512, done.len / 512));
        }
    }
    while let Some(done) = disk.wait() {
        ended.push((done.at, done.op, done.offset / 512, done.len / 512));
    }
    ended
}

const MIXED: &str = "[a]\ndirect=1\nrw=randrw\nbsrange=4k-64k\nsize=1g\nioengine=libaio\n\
                     iodepth=24\nnumber_ios=4000\n";
const SYNCED: &str = "[a]\ndirect=1\nrw=randwrite\nbs=4k\nsize=256m\nioengine=libaio\niodepth=8\n\
                      fsync=16\nnumber_ios=2000\n[b]\ndirect=1\nrw=randread\nbs=4k\nsize=256m\n\
                      number_ios=500\n";

/// Is each completion that of the run, on devices of each model, with flushes between?
#[test]
fn completions_are_those_of_a_run() {
    for device in ["ssd-870evo", "nvme-kc3000", "hdd-7200", "array-eva", "lab-flash", "null"] {
        for job in [MIXED, SYNCED] {
            let mut both = run(device, job);
            assert!(both.ended.len() >= 2500, "{device}: {}", both.ended.len());
            let mut through = through_disk(device, &both.issued);
            // Operations that end at one instant may be reported in another order.
            both.ended.sort_unstable();
            through.sort_unstable();
            let differs = both.ended.iter().zip(&through).position(|(run, disk)| run != disk);
            if let Some(at) = differs {
                panic!("{device}: run {:?}, disk {:?}", both.ended[at], through[at]);
            }
            assert_eq!(both.ended.len(), through.len(), "{device}");
        }
    }
}

/// The digest of 264 operations, 64 of them always under way, more than the device takes.
fn closed_loop(seed: u64) -> u64 {
    let mut disk = Disk::new(&Device::named("ssd-870evo").unwrap().without_data(), seed);
    disk.episode("delay probability=0.1 time=1ms").unwrap();
    let mut place = seed;
    let mut submit = |disk: &mut Disk| {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        let op = if place >> 60 == 0 { Op::Write } else { Op::Read };
        disk.submit(disk.now(), op, (place >> 40) * 4096, 4096).unwrap();
    };
    for _ in 0..64 {
        submit(&mut disk);
    }
    for _ in 0..200 {
        disk.wait().unwrap();
        submit(&mut disk);
    }
    while disk.wait().is_some() {}
    disk.digest()
}

/// Does one seed give one digest in a thousand runs, and another seed another?
#[test]
fn a_thousand_runs_have_one_digest() {
    let first = closed_loop(7);
    assert!((0..1000).all(|_| closed_loop(7) == first));
    assert_ne!(closed_loop(8), first);
}
