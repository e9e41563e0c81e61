// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random schedules: threads, a task, functions and holders that never give back, in orders drawn
//! by shuttle. A program of its own, since locks and threads are shuttle's here.
//!
//! `PATERNOSTER_SCHEDULES` says how many, `PATERNOSTER_SCHEDULES_SEED` which; shuttle prints a
//! failing schedule.

use std::sync::Arc;

use paternoster_gate::{Ask, Class, ClassSpec, Gate, Nanos, Op, Permit, PermitError, Settings};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::Mutex;
use shuttle::{Config, Runner, future, thread};

const READ: Ask = Ask::new(Op::Read, 4096);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Waits for a permit in one of several ways, and ends it in one.
fn hold(class: &Class, manner: usize, inside: &Mutex<u32>) {
    let permit = match manner {
        0 => class.permit_for(READ),
        1 => class.permit_for(READ.until(class.gate().now() + Nanos(20_000))),
        2 => future::block_on(class.permit_async(READ)),
        3 => {
            // Dropped before its outcome, or with it.
            let mut task = Box::pin(class.permit_async(READ));
            let waker = std::task::Waker::noop();
            let _ready = task.as_mut().poll(&mut std::task::Context::from_waker(waker));
            return;
        }
        4 => {
            let told = Arc::new(Mutex::new(false));
            let tell = Arc::clone(&told);
            class
                .permit_then(READ, move |permit| {
                    drop(permit);
                    *tell.lock().unwrap() = true;
                })
                .unwrap();
            while !*told.lock().unwrap() {
                thread::yield_now();
            }
            return;
        }
        _ => {
            // A holder that is killed.
            let _lost = class.permit_for(READ).map(Permit::into_ticket);
            return;
        }
    };
    match permit {
        Ok(permit) => {
            *inside.lock().unwrap() += 1;
            thread::yield_now();
            *inside.lock().unwrap() -= 1;
            drop(permit);
        }
        Err(PermitError::TooLate) => assert_eq!(manner, 1),
        Err(other) => panic!("{other}"),
    }
}

fn world() {
    let expires_after = Nanos::from_millis(1);
    let settings =
        Settings { permits: 2, asks: 16, classes: 4, expires_after, ..Settings::default() };
    let gate = Gate::new(settings);
    let classes = ["a", "b"].map(|name| gate.class(ClassSpec::new(name)).unwrap());
    let inside = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..4)
        .map(|place| {
            let (class, inside) = (classes[place % 2].clone(), Arc::clone(&inside));
            thread::spawn(move || {
                use shuttle::rand::Rng;
                for _ in 0..2 {
                    hold(&class, shuttle::rand::thread_rng().gen_range(0..6), &inside);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // Leaked permits expire: then every waiter has its outcome, and nothing is out.
    let permit = classes[0].permit_for(READ);
    drop(permit);
    let (waiting, _) = gate.in_all();
    assert_eq!(waiting, 0);
    gate.check().unwrap();
    let sum = |count: fn(&paternoster_gate::Counts) -> u64| -> u64 {
        classes.iter().map(|class| count(&class.counts().unwrap())).sum()
    };
    let (asked, granted) = (sum(|counts| counts.asked), sum(|counts| counts.granted));
    assert_eq!(asked, granted + sum(|counts| counts.withdrawn + counts.too_late));
}

/// Does every waiter get its permit or its end, in every schedule, and does none sleep forever,
/// although holders are killed?
#[test]
fn whoever_waits_is_told() {
    let schedules = usize::try_from(number("PATERNOSTER_SCHEDULES", 10_000)).unwrap();
    let seed = number("PATERNOSTER_SCHEDULES_SEED", 1);
    let mut config = Config::default();
    config.stack_size = 1 << 19;
    config.silence_warnings = true;
    let scheduler = RandomScheduler::new_from_seed(seed, schedules);
    Runner::new(scheduler, config).run(world);
}
