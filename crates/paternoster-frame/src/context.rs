// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context: what a command is given besides its words, when a program calls it.
//!
//! ```text
//! call ─▶ Context { files, threads, stop } ─▶ during(command) ─▶ file("a.fio")  is it in memory?
//!                    ▲                                            threads()      how many at most
//!                    └ another thread sets `stop`                 is_stopped()   end early?
//! ```
//!
//! A command that runs from a command line has none. What reads files, starts threads or waits asks
//! here, and need not know what a call is.
//!
//! # Invariants
//! I1  A context applies in the thread that works in it, and in those that it starts
//!     (`parallel.rs`); other threads do not see it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::guard::within;

thread_local! {
    static PRESENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Files in memory, a limit on threads, and what ends the work early.
#[derive(Debug, Clone, Default)]
pub struct Context {
    files: Arc<BTreeMap<String, String>>,
    threads: Option<usize>,
    stop: Arc<AtomicBool>,
    /// The stop of the context around it.
    whole: Option<Arc<AtomicBool>>,
}

impl Context {
    /// Adds files: their names and texts.
    #[must_use]
    pub fn with_files(self, files: BTreeMap<String, String>) -> Context {
        Context { files: Arc::new(files), ..self }
    }

    /// Work for several threads is done by at most this many.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Context {
        Context { threads: Some(threads), ..self }
    }

    /// Once it is set, the work ends early.
    #[must_use]
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// A part of it: it ends when the whole is stopped, and can be stopped by itself.
    #[must_use]
    pub fn part(&self) -> Context {
        Context { stop: Arc::default(), whole: Some(self.stop()), ..self.clone() }
    }

    /// Does `work` in this context.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        within(&PRESENT, Some(self.clone()), work).0
    }
}

/// The context of this thread.
pub fn present() -> Option<Context> {
    PRESENT.with_borrow(Clone::clone)
}

/// Whether this thread works for a call.
pub fn is_present() -> bool {
    PRESENT.with_borrow(Option::is_some)
}

/// Whether the work of this thread is to end early.
pub fn is_stopped() -> bool {
    let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
    let stopped =
        |context: &Context| is_set(&context.stop) || context.whole.as_ref().is_some_and(is_set);
    PRESENT.with_borrow(|context| context.as_ref().is_some_and(stopped))
}

/// The text of a file that is in memory.
pub fn file(name: &str) -> Option<String> {
    PRESENT.with_borrow(|context| context.as_ref()?.files.get(name).cloned())
}

/// How many threads the call allows.
pub fn threads() -> Option<usize> {
    PRESENT.with_borrow(|context| context.as_ref()?.threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a context apply while its work is done, in this thread alone, and does a part see what
    /// the whole was given?
    #[test]
    fn a_context_applies_to_its_work() {
        let files = [("a.fio".to_owned(), "[a]".to_owned())].into();
        let whole = Context::default().with_files(files).with_threads(3);
        let seen = || (file("a.fio"), file("b.fio"), threads(), is_stopped());
        let inside = (Some("[a]".to_owned()), None, Some(3), false);
        assert_eq!(whole.part().during(seen), inside);
        whole.during(|| {
            assert!(present().is_some());
            let other = std::thread::scope(|scope| scope.spawn(is_present).join());
            assert!(!other.expect("it ends"), "another thread has none");
        });
        assert!(!is_present());
    }

    /// Does stopping the whole stop its parts, and stopping a part nothing else?
    #[test]
    fn a_whole_stops_its_parts() {
        let whole = Context::default();
        let (one, other) = (whole.part(), whole.part());
        let stopped = || [&one, &other, &whole].map(|context| context.during(is_stopped));
        one.stop().store(true, Ordering::Relaxed);
        assert_eq!(stopped(), [true, false, false]);
        whole.stop().store(true, Ordering::Relaxed);
        assert_eq!(stopped(), [true; 3]);
    }
}
