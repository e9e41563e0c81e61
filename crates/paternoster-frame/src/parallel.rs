// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parallel: independent runs on the machine's cores.
//!
//! ```text
//! steps  0 1 2 3 4      thread A  0 . . 3      results  0 1 2 3 4
//!                       thread B  1 2 . 4
//! ```
//!
//! # Invariants
//! I1  Results are in the order of the steps, whichever thread did them: equal steps, equal bytes.
//! I2  A step's panic is passed on with its message, once all threads have ended.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::{context, guard};

/// As many threads as there are processors, or as a call allows.
pub fn threads() -> usize {
    let all = thread::available_parallelism().map_or(2, NonZero::get);
    context::threads().map_or(all, |most| most.min(all))
}

/// Does all steps, on at most this many threads.
pub fn each<S: Sync, R: Send>(
    threads: usize,
    steps: &[S],
    work: impl Fn(&S) -> R + Sync,
) -> Vec<R> {
    if threads <= 1 {
        return steps.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let (context, heard) = (context::present(), guard::heard());
    let done = Mutex::new(Vec::new());
    let task = || loop {
        let place = next.fetch_add(1, Ordering::Relaxed);
        let Some(step) = steps.get(place) else { return };
        let found = work(step);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((place, found));
    };
    thread::scope(|scope| {
        let begin = |_| {
            scope.spawn(|| {
                guard::during(heard.clone(), || match &context {
                    Some(context) => context.during(task),
                    None => task(),
                });
            })
        };
        let begun: Vec<_> = (0..threads.min(steps.len())).map(begin).collect();
        for thread in begun {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, found)| found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::guarded;

    /// Are results in the order of the steps, on one thread and on several, and is nothing done for
    /// no steps?
    #[test]
    fn results_stand_in_order() {
        let steps: Vec<u32> = (0..100).collect();
        for threads in [1, 3, 200] {
            let doubled = each(threads, &steps, |step| 2 * step);
            assert_eq!(doubled, steps.iter().map(|step| 2 * step).collect::<Vec<_>>());
        }
        assert_eq!(each(2, &[] as &[u32], |step| *step), [0; 0]);
    }

    /// Is a step's panic passed on unchanged, on one thread and on several?
    #[test]
    fn a_panic_keeps_its_words() {
        let steps: Vec<u32> = (0..9).collect();
        for threads in [1, 3] {
            let work = |step: &u32| assert!(*step != 7, "step {step}");
            let told = guarded(|| each(threads, &steps, work)).expect_err("one panics");
            assert!(told.contains("panic: step 7 ("), "{told}");
        }
    }
}
