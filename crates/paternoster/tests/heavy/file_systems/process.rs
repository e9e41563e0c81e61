// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that runs during a test, and what ends it whatever happens.
//!
//! A file system on a device whose server hangs blocks every process that touches it, without end
//! and deaf to signals. The one remedy is to kill the server: then the kernel answers for it, with
//! errors. The [`Watch`] does that when a test has taken too long, so that it fails instead.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a test may use one set of servers. The slowest takes ten seconds on an otherwise idle
/// machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a program has to end when asked to, before it is killed.
const GOOD_ORDER: Duration = Duration::from_secs(60);

/// A running program; killed, if it still runs, when this is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Process(Arc<Mutex<Child>>);

impl Process {
    /// Starts it; all its output is appended to `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Process {
        let open = || File::options().append(true).create(true).open(log).expect("a log");
        let child = command.stdout(open()).stderr(open()).spawn();
        Process(Arc::new(Mutex::new(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))))
    }

    /// `kill -9`, and nothing of it is left afterwards. Does nothing if it has ended.
    pub(crate) fn kill(&self) {
        let mut child = self.child();
        let _has_ended = child.kill();
        let _is_gone = child.wait();
    }

    /// Asks it to end; returns whether it did, and well. It is gone in any case.
    pub(crate) fn end(&self, signal: &str) -> bool {
        let pid = self.child().id().to_string();
        if self.is_running() {
            let _has_ended = Command::new("kill").args([signal, &pid]).status();
        }
        self.ends_by_itself()
    }

    /// Waits until it has ended; returns whether it did, and well. It is gone in any case.
    pub(crate) fn ends_by_itself(&self) -> bool {
        let ended = until(GOOD_ORDER, || !self.is_running());
        self.kill();
        ended && self.child().wait().is_ok_and(|status| status.success())
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.child().try_wait(), Ok(None))
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The clones of a watch see it live on.
        if Arc::strong_count(&self.0) == 1 {
            self.kill();
        }
    }
}

/// Kills processes when a test takes too long.
#[derive(Debug)]
pub(crate) struct Watch(Option<(Sender<()>, JoinHandle<()>)>);

impl Watch {
    pub(crate) fn over(processes: Vec<Process>) -> Watch {
        let (sender, over) = channel::<()>();
        let thread = std::thread::spawn(move || {
            if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("nothing moves: the servers are killed");
                processes.iter().for_each(Process::kill);
            }
        });
        Watch(Some((sender, thread)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _no_matter = thread.join();
        }
    }
}

/// Checks every few milliseconds; returns whether it came true within this time.
pub(crate) fn until(limit: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if is_true() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
