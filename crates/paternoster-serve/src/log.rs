// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log: lines on standard error, by a thread of their own.
//!
//! Whether anything reads them must not matter: a pipe that is open and not read takes 64 KiB and
//! then blocks its writer, and a client could fill it; one that is closed fails each write, and so
//! does a full disk. And what one client does must not fill the disk, or crowd out others' lines.
//!
//! ```text
//! lobby, loops ──▶ 20 lines in 10 s of each origin ──▶ 512 that wait ──▶ thread ──▶ standard error
//!                     └ left out: counted, told           └ dropped: counted, told when the
//!                       when the 10 s are over              sink takes lines again
//! ```
//!
//! An origin is a user, or an address. When 256 have a window, further ones share one.
//!
//! Invariants: I1 to tell something never fails, and waits for no sink; I2 each line is written,
//! or counted in one that says so; I3 no more than two times 512 lines of 1 KiB are kept.

use std::collections::{HashMap, VecDeque};
use std::fmt::{Arguments, Write as _};
use std::io::Write;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::host::peer::Origin;
use crate::locked::locked;

/// Lines that wait to be written.
const LINES: usize = 512;
/// Bytes of a line; what is longer ends there.
const LENGTH: usize = 1024;
/// Lines of one origin within [`PERIOD`].
const EACH: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);
/// Origins that have a window of their own.
const ORIGINS: usize = 256;

/// The log of the process.
static LOG: LazyLock<Arc<Log>> = LazyLock::new(|| Log::start(std::io::stderr()));

/// Tells a line of the server's own.
pub(crate) fn tell(words: Arguments<'_>) {
    if !is_silent() {
        LOG.add(None, LINES, Instant::now(), words);
    }
}

/// Tells of a request, which the administrator wants to hear of all: as far as it leaves half of
/// the places to others.
pub(crate) fn tell_request(words: Arguments<'_>) {
    if !is_silent() {
        LOG.add(None, LINES / 2, Instant::now(), words);
    }
}

/// Tells a line that a client of this origin has caused.
pub(crate) fn tell_of(origin: Origin, words: Arguments<'_>) {
    if !is_silent() {
        LOG.add(Some(origin), LINES, Instant::now(), words);
    }
}

/// Waits until everything is written, at most so long.
pub(crate) fn settle(most: Duration) {
    LOG.settle(most);
}

fn is_silent() -> bool {
    #[cfg(test)]
    return SILENT.get();
    #[cfg(not(test))]
    false
}

#[cfg(test)]
thread_local! {
    /// This thread's desks serve clients of which thousands are closed on purpose.
    pub(crate) static SILENT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// What one origin has said lately.
#[derive(Debug)]
struct Window {
    since: Instant,
    lines: u32,
    left_out: u64,
}

/// How many lines each origin has.
#[derive(Debug, Default)]
struct Limits {
    /// `None`: all that have no window of their own.
    windows: HashMap<Option<Origin>, Window>,
}

impl Limits {
    /// Whether another line of this origin is told.
    fn admits(&mut self, origin: Origin, now: Instant) -> bool {
        let known = self.windows.contains_key(&Some(origin)) || self.windows.len() < ORIGINS;
        let key = known.then_some(origin);
        let new = || Window { since: now, lines: 0, left_out: 0 };
        let window = self.windows.entry(key).or_insert_with(new);
        let is_told = window.lines < EACH;
        if is_told {
            window.lines += 1;
        } else {
            window.left_out += 1;
        }
        is_told
    }

    /// Ends the windows that are over; what is to be said of them.
    fn end(&mut self, now: Instant) -> Vec<String> {
        let over = |window: &Window| window.since + PERIOD <= now;
        let mut told = Vec::new();
        self.windows.retain(|origin, window| {
            if over(window) && window.left_out != 0 {
                let who = origin.map_or("others".to_owned(), |origin| origin.to_string());
                let (lines, passed) = (window.left_out, now - window.since);
                let seconds = passed.as_secs();
                told.push(format!(
                    "paternoster: {who}: {lines} more lines within {seconds} s were left out"
                ));
            }
            !over(window)
        });
        told
    }
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<String>,
    dropped: u64,
    limits: Limits,
    /// Some are being written.
    is_writing: bool,
}

impl State {
    fn push(&mut self, line: String, room: usize) {
        if self.lines.len() < room {
            self.lines.push_back(line);
        } else {
            self.dropped += 1;
        }
    }
}

#[derive(Debug, Default)]
struct Log {
    state: Mutex<State>,
    /// There is something to write; all of it was written.
    come: Condvar,
    gone: Condvar,
}

impl Log {
    /// A log that a thread writes to `sink`. Without a thread every line is dropped.
    fn start(sink: impl Write + Send + 'static) -> Arc<Log> {
        let log = Arc::new(Log::default());
        let theirs = Arc::clone(&log);
        let _none = crate::vital::spawn("log".to_owned(), move || theirs.write_to(sink));
        log
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Adds a line, if there are fewer than `room`.
    fn add(&self, origin: Option<Origin>, room: usize, now: Instant, words: Arguments<'_>) {
        let mut state = self.lock();
        if origin.is_some_and(|origin| !state.limits.admits(origin, now)) {
            return;
        }
        if state.lines.len() >= room {
            state.dropped += 1;
            return;
        }
        drop(state);
        let mut line = words.to_string();
        if line.len() > LENGTH {
            let end = (0..=LENGTH).rev().find(|&end| line.is_char_boundary(end));
            line.truncate(end.unwrap_or(0));
            line.push('…');
        }
        self.lock().push(line, room);
        self.come.notify_one();
    }

    /// Writes what comes, for ever.
    fn write_to(&self, mut sink: impl Write) {
        let mut state = self.lock();
        loop {
            for line in state.limits.end(Instant::now()) {
                state.push(line, LINES);
            }
            if state.lines.is_empty() && state.dropped == 0 {
                state.is_writing = false;
                self.gone.notify_all();
                let wait = self.come.wait_timeout(state, PERIOD / 10);
                state = wait.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.is_writing = true;
            let lines = std::mem::take(&mut state.lines);
            let dropped = std::mem::take(&mut state.dropped);
            drop(state);
            let mut text = String::new();
            for line in lines {
                text.push_str(&line);
                text.push('\n');
            }
            if dropped != 0 {
                let why = "they came faster than they were taken";
                let _fits = writeln!(text, "paternoster: {dropped} lines were dropped: {why}");
            }
            // Nothing is left that could be told.
            let _unheard = sink.write_all(text.as_bytes());
            state = self.lock();
        }
    }

    fn settle(&self, most: Duration) {
        let busy = |state: &mut State| state.is_writing || !state.lines.is_empty();
        let _late = self.gone.wait_timeout_while(self.lock(), most, busy);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes nothing until it may; then everything, which it sends on.
    struct Stuck {
        may: Receiver<()>,
        taken: Sender<String>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // The other side goes when everything may pass.
            let _open = self.may.recv();
            let text = String::from_utf8(bytes.to_vec()).expect("lines are text");
            self.taken.send(text).expect("the test listens");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Does a sink that takes nothing make no one wait, and is every line written or counted? Of
    /// 10,000 lines 512 wait and at most as many are being written.
    #[test]
    fn a_sink_that_never_drains() {
        let (open, may) = channel();
        let (taken, text) = channel();
        let log = Log::start(Stuck { may, taken });
        for number in 0..10_000 {
            log.add(None, LINES, Instant::now(), format_args!("line {number}"));
        }
        assert!(log.lock().lines.len() <= LINES);
        drop(open);
        let (mut told, mut dropped) = (0, 0);
        while told + dropped < 10_000 {
            for line in text.recv().expect("what is missing is told of").lines() {
                match line.strip_prefix("paternoster: ") {
                    Some(rest) => {
                        dropped += rest.split(' ').next().unwrap().parse::<u64>().unwrap();
                    }
                    None => told += 1,
                }
            }
        }
        assert_eq!(told + dropped, 10_000);
        assert!((LINES as u64..=2 * LINES as u64).contains(&told), "{told}");
        // And it goes on.
        log.add(None, LINES, Instant::now(), format_args!("the next"));
        assert_eq!(text.recv().unwrap(), "the next\n");
    }

    /// Does the flood of one origin leave in what others have to say, and is its rest counted? 20
    /// of 5,000 lines are told, 4,980 are not; ten seconds later it may speak again.
    #[test]
    fn a_flood_leaves_others_lines_in() {
        let (now, mut limits) = (Instant::now(), Limits::default());
        let (loud, calm) = (Origin::User(1000), Origin::User(1001));
        let told = (0..5000).filter(|_| limits.admits(loud, now)).count();
        assert_eq!(told, 20);
        assert!((0..20).all(|_| limits.admits(calm, now)));
        assert_eq!(limits.end(now + PERIOD / 2), Vec::<String>::new());
        assert!(!limits.admits(loud, now + PERIOD / 2));
        let told = limits.end(now + PERIOD);
        assert_eq!(told, ["paternoster: uid 1000: 4981 more lines within 10 s were left out"]);
        assert!(limits.admits(loud, now + PERIOD));
    }

    /// Are windows bounded, however many addresses there are? 256 have their own; all others share
    /// one more.
    #[test]
    fn windows_are_bounded() {
        let (now, mut limits) = (Instant::now(), Limits::default());
        let told = (0..10_000).filter(|&uid| limits.admits(Origin::User(uid), now)).count();
        assert_eq!((told, limits.windows.len()), (256 + 20, 256 + 1));
    }

    /// Does a line end somewhere, at a whole character?
    #[test]
    fn lines_are_cut() {
        let (taken, text) = channel();
        let (open, may) = channel();
        drop(open);
        let log = Log::start(Stuck { may, taken });
        log.add(None, LINES, Instant::now(), format_args!("{}", "ä".repeat(3000)));
        // 512 characters of two bytes.
        assert_eq!(text.recv().unwrap(), format!("{}…\n", "ä".repeat(512)));
    }
}
