// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sync: the shell's locks, threads and clock: from `std`; or, for the test that draws schedules,
//! from shuttle, with a clock that advances when a thread waits for it.

#[cfg(not(feature = "shuttle"))]
mod real {
    pub(crate) use std::sync::{Arc, Mutex, MutexGuard, Weak};
    use std::thread;
    pub(crate) use std::thread::{Thread, current};
    use std::time::{Duration, Instant};

    use crate::Nanos;

    /// A clock that begins with the gate.
    #[derive(Debug, Clone)]
    pub(crate) struct Clock(Instant);

    impl Clock {
        pub(crate) fn new() -> Clock {
            Clock(Instant::now())
        }

        pub(crate) fn now(&self) -> Nanos {
            let passed = self.0.elapsed();
            // In 64 bits: 584 years.
            Nanos(passed.as_secs() * 1_000_000_000 + u64::from(passed.subsec_nanos()))
        }

        /// Sleeps until another thread unparks this one, at most until `until`.
        pub(crate) fn park(&self, until: Option<Nanos>) {
            match until {
                None => thread::park(),
                Some(until) => thread::park_timeout(Duration::from_nanos((until - self.now()).0)),
            }
        }
    }

    /// A thread that calls `work` until that returns that it is done; `None` if no thread can be
    /// started.
    pub(crate) fn spawn(mut work: impl FnMut() -> bool + Send + 'static) -> Option<Thread> {
        let builder = thread::Builder::new().name("paternoster-gate".into());
        let handle = builder.spawn(move || while work() {}).ok()?;
        Some(handle.thread().clone())
    }
}

#[cfg(feature = "shuttle")]
mod real {
    pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, Weak};
    pub(crate) use shuttle::thread::{Thread, current};
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::Nanos;

    /// Time passes by a microsecond with each look, and to its end with each timed wait.
    #[derive(Debug, Clone)]
    pub(crate) struct Clock(Arc<AtomicU64>);

    impl Clock {
        pub(crate) fn new() -> Clock {
            Clock(Arc::new(AtomicU64::new(0)))
        }

        pub(crate) fn now(&self) -> Nanos {
            Nanos(self.0.fetch_add(1000, Ordering::Relaxed))
        }

        pub(crate) fn park(&self, until: Option<Nanos>) {
            match until {
                None => shuttle::thread::park(),
                Some(until) => {
                    self.0.fetch_max(until.0, Ordering::Relaxed);
                    shuttle::thread::yield_now();
                }
            }
        }
    }

    pub(crate) fn spawn(mut work: impl FnMut() -> bool + Send + 'static) -> Option<Thread> {
        let handle = shuttle::thread::spawn(move || while work() {});
        Some(handle.thread().clone())
    }
}

pub(crate) use real::*;
