// SPDX-License-Identifier: MIT OR Apache-2.0
//! Vital: threads that the server cannot do without.
//!
//! A server that has lost one of its threads looks alive but serves no client: a device's clients
//! wait for ever, and a service manager sees a process that runs. So the loss ends the process, as
//! a kill would: what was flushed is durable, and the service manager can see that it has ended.
//!
//! A library may start such a thread too: FUSE's is recognised by its name. The message about a
//! loss waits for standard error at most a second; otherwise a full pipe that is not read would
//! keep the process for ever.
//!
//! Invariant: a thread started here either returns, or the process ends.

use std::cell::Cell;
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The beginning of the names of the threads in which `fuser` asks for answers.
const OF_FUSE: &str = "fuser-";
/// How long to wait for standard error.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// What is added to the nice value of a thread of lower priority.
const BEHIND: i32 = 10;
/// A pipe that is reported writable takes this much.
const PIPE_BYTES: usize = 4096;

static SERVES_FUSE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_VITAL: Cell<bool> = const { Cell::new(false) };
}

/// When dropped, reports a loss and ends the process, unless it was forgotten.
struct Loss(String);

impl Drop for Loss {
    fn drop(&mut self) {
        // Directly on standard error, as the panic was: the lost thread may be the log's.
        end_without(&self.0);
    }
}

fn end_without(thread: &str) -> ! {
    say(&format!("paternoster: the thread `{thread}` is lost: the server ends\n"));
    std::process::exit(1);
}

/// Writes a message to standard error, if that accepts it soon.
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
        // Made inside the closure: a closure that never ran is no loss.
        let loss = Loss(called);
        IS_VITAL.set(true);
        let result = run();
        std::mem::forget(loss);
        result
    })
}

/// As [`spawn`], for a thread that gives way to the others when there are fewer processors than
/// threads that want one: its *nice* value is 10 higher, which gives it a tenth of their processor
/// time.
///
/// # Errors
/// There is no thread for it.
pub(crate) fn spawn_behind<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn(name, move || {
        // In Linux each thread has its own value. Where the change is refused, threads are equal.
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

    /// Does the loss of a thread end the process, with an exit status other than 0 and a message
    /// with the thread's name?
    #[test]
    fn a_lost_thread_ends_the_process() {
        let child = child("loses_a_thread_as_a_child", Stdio::piped());
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(1), "{said}");
        assert!(said.contains("the thread `disk 7` is lost"), "{said}");
    }

    /// Does it also end if its message is not read? The pipe is full before the child begins.
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

    /// Does the loss of a thread of FUSE's library end the process too?
    #[test]
    fn a_lost_thread_of_fuse_ends_the_process() {
        let child = child("loses_a_thread_of_fuse_as_a_child", Stdio::piped());
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(1), "{said}");
        assert!(said.contains("the thread `fuser-0` is lost"), "{said}");
    }

    /// Is a thread that returns not taken for a loss?
    #[test]
    fn a_thread_that_returns_is_no_loss() {
        let thread = super::spawn("one".to_owned(), || 7).expect("a thread");
        assert_eq!(thread.join().expect("no panic"), 7);
    }

    /// Does lowering one thread's priority leave that of the others unchanged? 19 is the largest
    /// nice value.
    #[test]
    fn a_thread_goes_behind() {
        let nice = || rustix::process::getpriority_process(None).expect("a nice value");
        let before = nice();
        let thread = super::spawn_behind("behind".to_owned(), nice).expect("a thread");
        assert_eq!(thread.join().ok(), Some((before + 10).min(19)));
        assert_eq!(nice(), before);
    }
}
