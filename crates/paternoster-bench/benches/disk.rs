// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many operations per second does a disk for simulators do on one core, each submitted when
//! one has ended, 32 under way?
//!
//! Budget: 1 million a second on `ssd-870evo` without data (random reads of 4 KiB).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use paternoster_disk::{Device, Disk, Op};

const OPERATIONS: u64 = 100_000;

/// One operation of 4 KiB at a random place.
fn submit(disk: &mut Disk, place: &mut u64, writes: bool) {
    *place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
    let (now, offset) = (disk.now(), (*place >> 48) * 4096);
    let taken = if writes && *place >> 32 & 3 == 0 {
        disk.write(now, offset, &[7; 4096], false)
    } else {
        disk.submit(now, Op::Read, offset, 4096)
    };
    taken.expect("within the disk");
}

fn closed_loop(device: &Device, writes: bool) -> u64 {
    let mut disk = Disk::new(device, 1);
    let mut place = 1;
    (0..32).for_each(|_| submit(&mut disk, &mut place, writes));
    for _ in 32..OPERATIONS {
        disk.wait().expect("32 are under way");
        submit(&mut disk, &mut place, writes);
    }
    while disk.wait().is_some() {}
    disk.digest()
}

fn disk(criterion: &mut Criterion) {
    let ssd = Device::named("ssd-870evo").expect("a device of ours");
    let timed = ssd.clone().without_data();
    let mut group = criterion.benchmark_group("disk");
    group.throughput(Throughput::Elements(OPERATIONS)).sample_size(10);
    for (name, device, writes) in
        [("reads", &timed, false), ("a_quarter_writes", &timed, true), ("with_data", &ssd, true)]
    {
        group.bench_function(name, |bencher| bencher.iter(|| closed_loop(device, writes)));
    }
    group.finish();
}

criterion_group!(benches, disk);
criterion_main!(benches);
