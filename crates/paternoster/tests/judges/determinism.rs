// SPDX-License-Identifier: MIT OR Apache-2.0
//! Same seed, same job: the same bytes, on every machine, debug or release.
//!
//! A thousand seeds of a job of at most 2,000 requests, each under one of the schedulers on one
//! of five devices. The digests of the reports and event streams are compared with
//! `golden/determinism.txt`, which `./test` does in debug and in release: a run that depends on
//! the profile, the hash order or the clock differs. Every tenth seed is run twice.
//!
//! After an intended change of behaviour: `PATERNOSTER_GOLDEN=write cargo test --release -p
//! paternoster --test judges determinism`, and read the diff.
use paternoster_sim::{Description, Simulated, catalog};
use paternoster_workload::fio::jobfile::{JobFile, Source, parse};
use paternoster_workload::meter::EventHash;
use paternoster_workload::outcome::{Outcome, Subject};
use paternoster_workload::{NoWatcher, RunError, Settings, report};

const SEEDS: u64 = 1000;
const SEEDS_A_LINE: u64 = 50;
const REQUESTS_MAX: u64 = 2000;
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/determinism.txt");

/// Deep and shallow, reads and writes, merges, two groups, a rate, think time, a stonewall, the
/// page cache with its syncs.
const JOB: &str = "
[global]
direct=1
randrepeat=0
size=16m
[deep]
ioengine=libaio
iodepth=16
rw=randrw
bsrange=4k-32k
number_ios=500
cgroup=a
[sequential]
ioengine=libaio
iodepth=4
rw=write
bs=4k
number_ios=300
cgroup=b
cgroup_weight=300
[shallow]
rw=randread
number_ios=200
numjobs=2
startdelay=1ms-9ms
thinktime=300
[trim]
stonewall
rw=randtrim
bs=64k
number_ios=100
rate_iops=2000
[cached]
stonewall
direct=0
rw=readwrite
bs=4k
size=512k
fsync=64
numjobs=2
[large]
direct=1
rw=randread
bs=2m
number_ios=20
prioclass=1
prio=2
";

const PARALLEL: &str = include_str!("../parallel.toml");

fn jobs() -> JobFile {
    let include = |_: &str, _: &str| Err(String::new());
    let source = Source { name: "determinism.fio", text: JOB };
    parse(&[source], &[], &[], &|_| None, &include).expect("a sound job file")
}

/// The digest of a seed's report and event stream.
fn digest(jobs: &JobFile, devices: &[Description], seed: u64) -> u64 {
    let schedulers = u64::try_from(paternoster_schedulers::ALL.len()).unwrap();
    let entry = &paternoster_schedulers::ALL[usize::try_from(seed % schedulers).unwrap()];
    let count = u64::try_from(devices.len()).unwrap();
    let device = &devices[usize::try_from(seed / schedulers % count).unwrap()];
    let settings = Settings { seed, submit_cost: device.submit_cost, ..Settings::default() };
    let mut simulated = Simulated::new(device.model());
    let (result, hash, _) = paternoster_workload::run::<_, RunError>(
        &jobs.jobs,
        &settings,
        &mut simulated,
        (entry.make)(),
        EventHash::default(),
        |_| Ok(()),
        &mut NoWatcher,
    )
    .unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
    let requests: u64 = result.device.ios.iter().sum();
    assert!((1000..=REQUESTS_MAX).contains(&requests), "SEED={seed}: {requests} requests");
    let hash = hash.digest();
    let subject =
        Subject { jobs, device: &device.name, scheduler: entry.name, settings: &settings };
    let outcome = Outcome::new(&subject, &result, Some(hash));
    let text = report::normal(&outcome.report) + &report::json(&outcome.report);
    text.bytes()
        .fold(hash, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Are reports and event streams the same bytes for the same seed, even in the other profile?
#[test]
fn same_seed_same_bytes() {
    let jobs = jobs();
    let named = ["lab-disk", "hdd-7200", "ssd-870evo", "array-eva"];
    let mut devices: Vec<Description> =
        named.iter().map(|name| catalog::by_name(name).unwrap().unwrap()).collect();
    devices.push(Description::parse("parallel.toml", PARALLEL).unwrap());
    let mut found = String::new();
    for first in (0..SEEDS).step_by(usize::try_from(SEEDS_A_LINE).unwrap()) {
        let mut line = 0u64;
        for seed in first..first + SEEDS_A_LINE {
            let once = digest(&jobs, &devices, seed);
            if seed % 10 == 0 {
                assert_eq!(once, digest(&jobs, &devices, seed), "SEED={seed} differs from itself");
            }
            line = line.rotate_left(7) ^ once;
        }
        found
            .push_str(&format!("seeds {first:3} to {:3}: {line:016x}\n", first + SEEDS_A_LINE - 1));
    }
    if std::env::var_os("PATERNOSTER_GOLDEN").is_some() {
        std::fs::write(GOLDEN, found).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(GOLDEN).expect("golden/determinism.txt");
    assert_eq!(found, golden, "behaviour changed, or depends on the profile or the machine");
}
