// SPDX-License-Identifier: MIT OR Apache-2.0
//! What does a request cost all the way through the library: submit, merge attempts, insert, pick,
//! complete?
//!
//! Budgets, set by us, on a machine like CI's: noop 80 ns, mq-deadline 150 ns, cfq 250 ns, bfq 250
//! ns with clients of different weights, growing at most with the logarithm of the number of
//! clients; paternoster 150 ns, and 250 with 10,000 clients. At 100 ns one core could schedule ten
//! million requests a second.

#[path = "../../paternoster-schedulers/examples/cost/rig.rs"]
mod rig;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use rig::{Load, Rig};

const BATCH: u64 = 1000;

fn bench(criterion: &mut Criterion, group: &str, cases: &[(&str, Load)]) {
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(BATCH));
    for &(scheduler, load) in cases {
        let mut rig = Rig::new(scheduler, load);
        rig.turn(100_000);
        let clients = load.clients;
        group.bench_function(BenchmarkId::new(scheduler, clients), |bencher| {
            bencher.iter(|| black_box(&mut rig).turn(BATCH));
        });
    }
    group.finish();
}

const ALL: [&str; 9] = [
    "noop",
    "deadline",
    "mq-deadline",
    "kyber",
    "cfq",
    "cfq-4.19",
    "bfq",
    "bfq-4.19",
    "paternoster",
];

fn schedulers(criterion: &mut Criterion) {
    for (name, sequential, weighted) in
        [("random", 0, false), ("half_sequential", 128, false), ("weighted", 0, true)]
    {
        let load = Load { sequential, weighted, ..Load::sixteen() };
        bench(criterion, &format!("request/{name}"), &ALL.map(|scheduler| (scheduler, load)));
    }
}

/// Does the cost grow with the logarithm of the number of clients? One bio of each waits.
fn clients(criterion: &mut Criterion) {
    for scheduler in ["mq-deadline", "cfq", "bfq", "paternoster"] {
        let load = |clients| Load { clients, waiting: clients, weighted: true, ..Load::sixteen() };
        let cases = [16, 100, 1000, 10_000].map(|clients| (scheduler, load(clients)));
        bench(criterion, "request/clients", &cases);
    }
}

/// And if each request is of a random client, out of sixteen or ten thousand?
fn roaming(criterion: &mut Criterion) {
    for scheduler in ["noop", "mq-deadline", "kyber", "cfq", "bfq", "paternoster"] {
        let load = |clients| Load { clients, weighted: true, roaming: true, ..Load::sixteen() };
        let cases = [16, 10_000].map(|clients| (scheduler, load(clients)));
        bench(criterion, "request/roaming", &cases);
    }
}

criterion_group!(benches, schedulers, clients, roaming);
criterion_main!(benches);
