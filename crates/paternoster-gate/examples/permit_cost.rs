// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a permit costs: asked for and given back, beside a mutex and a semaphore in the same run.
//!
//! ```text
//! cargo run --profile dist -p paternoster-gate --example permit_cost
//! ```
//!
//! The device is none: a permit is given back at once. Each figure is the least of seven runs.

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Instant;

use paternoster_gate::{Ask, ClassSpec, Core, Gate, Nanos, Next, Op, Settings};

const ROUNDS: u32 = 200_000;
const RUNS: u32 = 7;

/// So many at a time, as programs write it today.
struct Semaphore(Mutex<u32>, Condvar);

impl Semaphore {
    fn take_and_give(&self) {
        let mut left = self.0.lock().expect("nobody panics");
        while *left == 0 {
            left = self.1.wait(left).expect("nobody panics");
        }
        *left -= 1;
        drop(left);
        *self.0.lock().expect("nobody panics") += 1;
        self.1.notify_one();
    }
}

/// Nanoseconds that one round takes, of all threads together.
fn measure(threads: u32, round: &(dyn Fn() + Sync)) -> u128 {
    let run = || {
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..ROUNDS / threads).for_each(|_| round()));
            }
        });
        start.elapsed().as_nanos() / u128::from(ROUNDS / threads * threads)
    };
    (0..RUNS).map(|_| run()).min().unwrap_or(0)
}

fn main() {
    let mutex = Mutex::new(0_u64);
    let semaphore = Semaphore(Mutex::new(32), Condvar::new());
    let gate = Gate::new(Settings::default());
    let class = gate.class(ClassSpec::new("a")).expect("one of 255");
    println!("threads   mutex   semaphore   gate    (ns a round)");
    for threads in [1, 2, 16] {
        let lock = measure(threads, &|| *mutex.lock().expect("nobody panics") += 1);
        let count = measure(threads, &|| semaphore.take_and_give());
        let permit = measure(threads, &|| drop(class.permit(Op::Read, 4096)));
        println!("{threads:7} {lock:7} {count:11} {permit:6}");
    }
    let mut core = Core::new(Settings::default());
    let class = core.open(ClassSpec::new("a")).expect("one of 255");
    let start = Instant::now();
    for round in 0..u64::from(ROUNDS) {
        let now = Nanos(round * 1000);
        let ticket = core.ask(now, class, Ask::new(Op::Read, 4096)).expect("one of 4,096");
        let granted = core.next(now);
        assert_eq!(granted, Next::Granted(ticket));
        core.give_back(now + Nanos(500), ticket).expect("it is out");
    }
    println!("core alone {} ns", start.elapsed().as_nanos() / u128::from(ROUNDS));
}
