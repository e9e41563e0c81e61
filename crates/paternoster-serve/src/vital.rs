// SPDX-License-Identifier: MIT OR Apache-2.0
//! Vital: threads that the server cannot do without.
//!
//! A server that has lost one of its threads looks alive and serves no client: a device's clients
//! wait for ever, and a service manager sees a process that runs. So the loss ends the process, as
//! a kill would: what was flushed is durable, and what starts it again can see that it has ended.
//!
//! A library may start such a thread, too: FUSE's is known by its name. What is said of a loss
//! waits for standard error no longer than a second: a pipe that is full and not read would keep
//! the process for ever otherwise.
//!
//! Invariant: a thread started here has either returned, or the process ends.

use std::cell::Cell;
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Names of the threads in which `fuser` asks for answers begin so.
const OF_FUSE: &str = "fuser-";
/// How long standard error may take nothing.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// What is added to the nice value of a thread that goes behind.
const BEHIND: i32 = 10;
/// A pipe that is reported writable takes this much.
const PIPE_BYTES: usize = 4096;

static SERVES_FUSE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_VITAL: Cell<bool> = const { Cell::new(false) };
}

/// Tells of a loss, and ends the process, unless it is forgotten.
struct Loss(String);

impl Drop for Loss {
    fn drop(&mut self) {
        // By standard error itself, as the panic was: it may be the log's thread that is lost.
        end_without(&self.0);
    }
}

fn end_without(thread: &str) -> ! {
    say(&format!("paternoster: the thread `{thread}` is lost: the server ends\n"));
    std::process::exit(1);
}

/// Says something on standard error, if that takes it soon.
fn say(text: &str) {
    let stderr = io::stderr();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    if poll(&mut polled, Some(&PATIENCE)).is_ok_and(|ready| ready != 0) {
        let bytes = text.as_bytes();
        // There is no way left to report it.
        let _unheard = rustix::io::write(&stderr, &bytes[..bytes.len().min(PIPE_BYTES)]);
    }
}

/// Panics of vital threads are reported by [`say`], since the usual way may wait for ever.
fn tell_panics_soon() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("");
            let is_of_fuse = name.starts_with(OF_FUSE) && SERVES_FUSE.load(Ordering::Relaxed);
            if is_of_fuse || IS_VITAL.get() {
                say(&format!("thread `{name}`: {panic}\n"));
            } else {
                usual(panic);
            }
            if is_of_fuse {
                end_without(name);
            }
        }));
    });
}

/// From now on the loss of a thread that answers FUSE ends the process.
pub(crate) fn watch_fuse() {
    SERVES_FUSE.store(true, Ordering::Relaxed);
    tell_panics_soon();
}

/// Starts a thread whose panic ends the process.
///
/// # Errors
/// There is no thread for it.
pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    tell_panics_soon();
    let called = name.clone();
    Builder::new().name(name).spawn(move || {
        // Made in here: a closure that never ran is no loss.
        let loss = Loss(called);
        IS_VITAL.set(true);
        let result = run();
        std::mem::forget(loss);
        result
    })
}

/// As [`spawn`], a thread that goes behind the others where there are fewer processors than
/// threads that want one: its *nice* value is 10 more, which is a tenth of their part.
///
/// # Errors
/// There is no thread for it.
pub(crate) fn spawn_behind<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn(name, move || {
        // Linux counts it by thread. Where it is refused, threads are equal.
        if let Err(error) = rustix::process::nice(BEHIND) {
            let name = std::thread::current().name().unwrap_or("").to_owned();
            crate::log::tell(format_args!(
                "paternoster: the thread `{name}` has as much processor time as others: {error}"
            ));
        }
        run()
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output, Stdio};

    const CHILD: &str = "PATERNOSTER_TEST_LOST_THREAD";

    /// This program as a child that does one of the tests below, which lose a thread.
    fn child(test: &str, stderr: impl Into<Stdio>) -> Output {
        let own = std::env::current_exe().expect("this program");
        let mut command = Command::new(own);
        command.args(["--exact", &format!("vital::tests::{test}"), "--nocapture"]);
        command.env(CHILD, "1").stderr(stderr).output().expect("a child")
    }

    /// What the child of [`a_lost_thread_ends_the_process`] does; nothing otherwise.
    #[test]
    fn loses_a_thread_as_a_child() {
        if std::env::var_os(CHILD).is_some() {
            let lost = super::spawn("disk 7".to_owned(), || panic!("planted"));
            let _ended_with_the_process = lost.expect("a thread").join();
            // The loss was not noticed.
            std::process::exit(0);
        }
    }

    /// Does a thread that is lost end the process, with an exit status that is not 0 and its name
    /// in what is said?
    #[test]
    fn a_lost_thread_ends_the_process() {
        let child = child("loses_a_thread_as_a_child", Stdio::piped());
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(1), "{said}");
        assert!(said.contains("the thread `disk 7` is lost"), "{said}");
    }

    /// Does it end as well when what it says is not read? The pipe is full before the child begins.
    #[test]
    fn a_full_standard_error_does_not_keep_it() {
        let (read, write) = std::io::pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&write, true).expect("a pipe");
        while rustix::io::write(&write, &[b'x'; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&write, false).expect("a pipe");
        let child = child("loses_a_thread_as_a_child", write);
        assert_eq!(child.status.code(), Some(1));
        drop(read);
    }

    /// What the child of [`a_lost_thread_of_fuse_ends_the_process`] does; nothing otherwise.
    #[test]
    fn loses_a_thread_of_fuse_as_a_child() {
        if std::env::var_os(CHILD).is_some() {
            super::watch_fuse();
            let thread = std::thread::Builder::new().name("fuser-0".to_owned());
            let lost = thread.spawn(|| panic!("planted")).expect("a thread");
            let _ended_with_the_process = lost.join();
            std::process::exit(0);
        }
    }

    /// Does a thread of FUSE's library end the process, too?
    #[test]
    fn a_lost_thread_of_fuse_ends_the_process() {
        let child = child("loses_a_thread_of_fuse_as_a_child", Stdio::piped());
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(1), "{said}");
        assert!(said.contains("the thread `fuser-0` is lost"), "{said}");
    }

    /// Is a thread that returns no loss?
    #[test]
    fn a_thread_that_returns_is_no_loss() {
        let thread = super::spawn("one".to_owned(), || 7).expect("a thread");
        assert_eq!(thread.join().expect("no panic"), 7);
    }

    /// Does a thread that goes behind leave the others where they are? 19 is as far as there is.
    #[test]
    fn a_thread_goes_behind() {
        let nice = || rustix::process::getpriority_process(None).expect("a nice value");
        let before = nice();
        let thread = super::spawn_behind("behind".to_owned(), nice).expect("a thread");
        assert_eq!(thread.join().ok(), Some((before + 10).min(19)));
        assert_eq!(nice(), before);
    }
}
