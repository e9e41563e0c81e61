// SPDX-License-Identifier: MIT OR Apache-2.0
//! What does a request cost on its whole way through the library: submit, merge attempts, insert,
//! pick, complete?
//!
//! Budgets (plan of the house, issue of the first elevators), on the kind of machine that CI has:
//! noop 80 ns, mq-deadline 150 ns, cfq 250 ns, and with more clients no more than their logarithm
//! on top. At 100 ns one core could schedule ten million requests a
//! second.

#[path = "common/rig.rs"]
mod rig;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use rig::Rig;

const BATCH: u64 = 1000;

fn schedulers(criterion: &mut Criterion) {
    for (name, sequential) in [("random", 0), ("half_sequential", 128)] {
        let mut group = criterion.benchmark_group(format!("request/{name}"));
        group.throughput(Throughput::Elements(BATCH));
        for scheduler in ["noop", "deadline", "mq-deadline", "kyber", "cfq", "cfq-4.19"] {
            let mut rig = Rig::new(scheduler, 16, 128, sequential);
            rig.turn(100_000);
            group.bench_function(BenchmarkId::from_parameter(scheduler), |bencher| {
                bencher.iter(|| black_box(&mut rig).turn(BATCH));
            });
        }
        group.finish();
    }
}

/// Does the cost grow with the logarithm of the clients? One bio of each waits.
fn clients(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("request/clients");
    group.throughput(Throughput::Elements(BATCH));
    for scheduler in ["mq-deadline", "cfq"] {
        for clients in [16, 100, 1000, 10_000] {
            let mut rig = Rig::new(scheduler, clients, clients, 0);
            rig.turn(100_000);
            group.bench_function(BenchmarkId::new(scheduler, clients), |bencher| {
                bencher.iter(|| black_box(&mut rig).turn(BATCH));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, schedulers, clients);
criterion_main!(benches);
