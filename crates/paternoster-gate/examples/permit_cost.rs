// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a permit and its return, compared with locking and unlocking a mutex and with
//! reading the clock once, in one run: in ns, the median of interleaved rounds.
//!
//! ```text
//! cargo run --profile dist -p paternoster-gate --example permit_cost
//! ```
//!
//! First one thread that waits for nothing; then 16 threads, whose figure is the elapsed time
//! divided by the number of permits: the gate's throughput, not how long each waits.

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use paternoster_gate::{Class, ClassSpec, Gate, Op, Settings};

const ROUNDS: usize = 21;
const TIMES: u32 = 20_000;
const THREADS: u32 = 16;

fn ns_each(times: u32, mut what: impl FnMut()) -> f64 {
    let began = Instant::now();
    (0..times).for_each(|_| what());
    began.elapsed().as_secs_f64() * 1e9 / f64::from(times)
}

fn ns_of_threads(what: &(impl Fn() + Sync)) -> f64 {
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..TIMES / THREADS).for_each(|_| what()));
        }
    });
    began.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES)
}

fn permit(class: &Class) {
    drop(class.permit(Op::Read, 4096).expect("fewer than thousands ask"));
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let gate = Gate::new(Settings::default());
    let class = gate.class(ClassSpec::new("reads")).expect("there is a place");
    let mutex = Arc::new(Mutex::new(0_u64));
    let lock = || *mutex.lock().expect("no thread has panicked") += 1;
    let mut rounds: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        let figures = [
            ns_each(TIMES, || _ = black_box(Instant::now())),
            ns_each(TIMES, lock),
            ns_each(TIMES, || permit(&class)),
            ns_of_threads(&lock),
            ns_of_threads(&|| permit(&class)),
        ];
        rounds.iter_mut().zip(figures).for_each(|(round, figure)| round.push(figure));
    }
    let [clock, one_lock, one_permit, locks, permits] = rounds.map(median);
    println!("clock {clock:.0}, mutex {one_lock:.0}, permit {one_permit:.0} ns");
    println!("{THREADS} threads: mutex {locks:.0}, permit {permits:.0} ns");
}
