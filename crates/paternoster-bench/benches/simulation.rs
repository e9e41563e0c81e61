// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many requests per second does a whole simulation do on one core: process, queue, scheduler,
//! model, statistics?
//!
//! Budget: 2 million a second under noop on the linear model, 1 million under mq-deadline on an SSD
//! (random reads of 4 KiB at depth 32). For comparison: MQSim 0.13 to 0.19
//! million, DiskSim 0.10 to 0.16 million.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use paternoster_core::NoObserver;
use paternoster_sim::{Description, Simulated};
use paternoster_workload::fio::jobfile::{JobFile, Source, parse};
use paternoster_workload::{NoWatcher, RunError, Settings};

const REQUESTS: u64 = 100_000;

const DEVICE: &str = include_str!("../../paternoster/tests/parallel.toml");
const SSD: &str = include_str!("../../../devices/ssd-870evo.toml");

fn jobs(text: &str) -> JobFile {
    let include = |_: &str, _: &str| Err(String::new());
    parse(&[Source { name: "bench", text }], &[], &[], &|_| None, &include).expect("a sound job")
}

fn run(jobs: &JobFile, device: &Description, scheduler: &str) {
    let settings = Settings { submit_cost: device.submit_cost, ..Settings::default() };
    let mut simulated = Simulated::new(device.model());
    let elevator = paternoster_schedulers::by_name(scheduler).expect("a scheduler of ours");
    let done = paternoster_workload::run::<_, RunError>(
        &jobs.jobs,
        &settings,
        &mut simulated,
        elevator,
        NoObserver,
        |_| Ok(()),
        &mut NoWatcher,
    );
    let (result, ..) = done.expect("the run ends");
    assert_eq!(result.device.ios[0], REQUESTS);
}

fn simulation(criterion: &mut Criterion) {
    let device = Description::parse("bench", DEVICE).expect("a sound device");
    let one = format!(
        "[a]\ndirect=1\nrw=randread\nsize=1g\nioengine=libaio\niodepth=32\nnumber_ios={REQUESTS}\n"
    );
    let many = format!(
        "[a]\ndirect=1\nrw=randread\nfilename=x\nsize=1g\nnumjobs=10\nnumber_ios={}\n",
        REQUESTS / 10
    );
    let mut group = criterion.benchmark_group("simulation");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, jobs) in [("one_job_depth_32", jobs(&one)), ("ten_jobs_depth_1", jobs(&many))] {
        for scheduler in ["noop", "deadline", "mq-deadline"] {
            group.bench_function(BenchmarkId::new(scheduler, name), |bencher| {
                bencher.iter(|| run(&jobs, &device, scheduler));
            });
        }
    }
    group.finish();
}

fn on_an_ssd(criterion: &mut Criterion) {
    let device = Description::parse("bench", SSD).expect("a sound device");
    let deep = "direct=1\nsize=1g\nioengine=libaio\niodepth=32\nbs=4k\n";
    let reads = format!("[a]\n{deep}rw=randread\nnumber_ios={REQUESTS}\n");
    let mut group = criterion.benchmark_group("ssd");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for scheduler in ["noop", "mq-deadline"] {
        group.bench_function(BenchmarkId::new(scheduler, "random_reads"), |bencher| {
            let jobs = jobs(&reads);
            bencher.iter(|| run(&jobs, &device, scheduler));
        });
    }
    group.finish();
}

criterion_group!(benches, simulation, on_an_ssd);
criterion_main!(benches);
