// SPDX-License-Identifier: MIT OR Apache-2.0
//! Vital: threads that the server cannot do without.
//!
//! A server that has lost one of its threads looks alive and serves nobody: a device's clients wait
//! for ever, and a service manager sees a process that runs. So the loss ends the process, as a
//! kill would: what was flushed is durable, and what starts it again can see that it has ended.
//!
//! Invariant: a thread started here has either returned, or the process ends.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Tells of a loss, and ends the process, unless it is forgotten.
struct Loss(String);

impl Drop for Loss {
    fn drop(&mut self) {
        // By standard error itself, as the panic was: it may be the log's thread that is lost.
        eprintln!("paternoster: the thread `{}` is lost: the server ends", self.0);
        std::process::exit(1);
    }
}

/// Starts a thread whose panic ends the process.
///
/// # Errors
/// There is no thread for it.
pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let called = name.clone();
    Builder::new().name(name).spawn(move || {
        // Made in here: a closure that never ran is no loss.
        let loss = Loss(called);
        let result = run();
        std::mem::forget(loss);
        result
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    const CHILD: &str = "PATERNOSTER_TEST_LOST_THREAD";

    /// What the child of [`a_lost_thread_ends_the_process`] does; nothing otherwise.
    #[test]
    fn loses_a_thread_as_a_child() {
        if std::env::var_os(CHILD).is_some() {
            let lost = super::spawn("disk 7".to_owned(), || panic!("planted"));
            let _ended_with_the_process = lost.expect("a thread").join();
            // Nobody has noticed.
            std::process::exit(0);
        }
    }

    /// Does a thread that is lost end the process, with an exit status that is not 0 and its name
    /// in what is said?
    #[test]
    fn a_lost_thread_ends_the_process() {
        let own = std::env::current_exe().expect("this program");
        let child = Command::new(own)
            .args(["--exact", "vital::tests::loses_a_thread_as_a_child", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("a child");
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(1), "{said}");
        assert!(said.contains("the thread `disk 7` is lost"), "{said}");
    }

    /// Is a thread that returns no loss?
    #[test]
    fn a_thread_that_returns_is_no_loss() {
        let thread = super::spawn("one".to_owned(), || 7).expect("a thread");
        assert_eq!(thread.join().expect("no panic"), 7);
    }
}
