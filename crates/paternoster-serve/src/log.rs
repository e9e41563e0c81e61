// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log: lines on standard error, by a thread of their own.
//!
//! `entry.rs` makes the lines; this module writes them.
//!
//! Whether anything reads them must not matter: a pipe that is open but not read takes 64 KiB and
//! then blocks its writer, and a client could fill it; if it is closed, or the disk is full, each
//! write fails. And no client may fill the disk with lines, or crowd out the lines of others.
//!
//! ```text
//! negotiation, loops ─▶ 20 lines in 10 s an origin ──▶ 512 that wait ──▶ thread ──▶ standard error
//!                     └ left out: counted, reported       └ dropped: counted, reported when the
//!                       when the 10 s are over              sink takes lines again
//! ```
//!
//! An origin is a user, or an address. 256 of them have a window each; further ones share one.
//! Clients that come and go without an error have a separate window, of 200 lines: a host that
//! starts its machines is no flood, and such lines do not crowd out errors.
//!
//! Invariants: I1 logging never fails, and waits for no sink; I2 each line is written, or counted
//! in another line; I3 at most twice 512 lines are kept, each of 1 KiB of text and some fields of
//! 256 bytes.

mod entry;
mod time;

use std::collections::{HashMap, VecDeque};
use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

pub(crate) use self::entry::Entry;
use self::entry::Style;
use crate::config;
use crate::config::Level;
use crate::host::peer::Origin;
use crate::locked::locked;

/// Lines that wait to be written.
const LINES: usize = 512;
/// Lines of one origin within [`PERIOD`]: warnings and errors, and those of clients that come and
/// go.
const EACH: u32 = 20;
const EACH_WELL: u32 = 200;
const PERIOD: Duration = Duration::from_secs(10);
/// Origins that have a window of their own.
const ORIGINS: usize = 256;

/// The log of the process. Its thread begins with the first line, so that a server can enter its
/// sandbox before there is any thread.
static LOG: OnceLock<Arc<Log>> = OnceLock::new();

/// How lines are printed; can be set before the first one.
static STYLE: Mutex<Option<Style>> = Mutex::new(None);

/// The least urgent level that is logged.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Sets what is logged from now on, and how.
pub(crate) fn configure(server: &config::Server) {
    let level = if server.verbose { Level::Debug } else { server.log_level };
    LEVEL.store(level as u8, Ordering::Relaxed);
    let style = Style::of(server.log_format);
    *locked(&STYLE) = Some(style);
    if let Some(log) = LOG.get() {
        log.lock().style = style;
    }
}

fn log() -> &'static Log {
    LOG.get_or_init(|| {
        let log = Log::start(std::io::stderr());
        log.lock().style = locked(&STYLE).unwrap_or_default();
        log
    })
}

/// Logs a warning of the server itself.
pub(crate) fn tell(words: Arguments<'_>) {
    Entry::new(Level::Warning, "server").tell(words);
}

/// Logs a warning that a client of this origin has caused.
pub(crate) fn tell_of(origin: Origin, words: Arguments<'_>) {
    Entry::new(Level::Warning, "client").tell_of(origin, words);
}

/// Logs what the program says at its start: all of it, however long, unless standard error takes
/// nothing for a second.
pub fn announce(level: Level, lines: &str) {
    for (number, line) in lines.lines().enumerate() {
        if number % (LINES / 2) == LINES / 2 - 1 {
            settle(Duration::from_secs(1));
        }
        Entry::new(level, "start").tell(format_args!("{line}"));
    }
}

impl Entry {
    fn is_told(&self) -> bool {
        self.level as u8 <= LEVEL.load(Ordering::Relaxed) && !is_silent()
    }

    /// Logs it as the server's own.
    pub(crate) fn tell(&self, words: Arguments<'_>) {
        // Debug lines are about single requests, of which there are many: they leave half of the
        // room to others.
        let room = if self.level == Level::Debug { LINES / 2 } else { LINES };
        #[cfg(test)]
        self.count(None, words);
        if self.is_told() {
            log().add(None, room, Instant::now(), |style| self.line(style, words));
        }
    }

    /// Logs it for a client of this origin.
    pub(crate) fn tell_of(&self, origin: Origin, words: Arguments<'_>) {
        #[cfg(test)]
        self.count(Some(origin), words);
        let origin = Some((origin, self.level));
        if self.is_told() {
            log().add(origin, LINES, Instant::now(), |style| self.line(style, words));
        }
    }

    /// Counts what a silent thread would log, with separate limits whose time does not pass.
    #[cfg(test)]
    fn count(&self, origin: Option<Origin>, words: Arguments<'_>) {
        let is_heard = self.level as u8 <= Level::Info as u8;
        let admits = |origin| {
            COUNTED.with_borrow_mut(|(since, limits)| limits.admits(origin, self.level, *since))
        };
        if is_silent() && is_heard && origin.is_none_or(admits) {
            crate::tally::said(self.line(Style::default(), words).len() + 1);
        }
    }

    fn line(&self, style: Style, words: Arguments<'_>) -> String {
        self.render(style, SystemTime::now(), words)
    }
}

/// Waits until everything is written, with a time limit.
pub fn settle(most: Duration) {
    if let Some(log) = LOG.get() {
        log.settle(most);
    }
}

/// On this thread, the limits for counting start afresh.
#[cfg(test)]
pub(crate) fn count_anew() {
    COUNTED.set((Instant::now(), Limits::default()));
}

fn is_silent() -> bool {
    #[cfg(test)]
    return SILENT.get();
    #[cfg(not(test))]
    false
}

#[cfg(test)]
thread_local! {
    /// This thread's loops close thousands of clients on purpose, so its lines are not logged.
    pub(crate) static SILENT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static COUNTED: std::cell::RefCell<(Instant, Limits)> =
        std::cell::RefCell::new((Instant::now(), Limits::default()));
}

/// The recent lines of one origin.
#[derive(Debug)]
struct Window {
    since: Instant,
    lines: u32,
    left_out: u64,
}

/// How many lines each origin has logged.
#[derive(Debug, Default)]
struct Limits {
    /// By origin and whether all is well; `None` is for origins without a window of their own.
    windows: HashMap<Option<(Origin, bool)>, Window>,
}

impl Limits {
    /// Whether another line of this origin is logged.
    fn admits(&mut self, origin: Origin, level: Level, now: Instant) -> bool {
        let is_well = level > Level::Warning;
        let of = Some((origin, is_well));
        let known = self.windows.contains_key(&of) || self.windows.len() < ORIGINS;
        let key = if known { of } else { None };
        let new = || Window { since: now, lines: 0, left_out: 0 };
        let window = self.windows.entry(key).or_insert_with(new);
        let is_told = window.lines < if is_well && known { EACH_WELL } else { EACH };
        if is_told {
            window.lines += 1;
        } else {
            window.left_out += 1;
        }
        is_told
    }

    /// Ends the windows that are over; returns the lines about them.
    fn end(&mut self, now: Instant) -> Vec<String> {
        let over = |window: &Window| window.since + PERIOD <= now;
        let mut told = Vec::new();
        self.windows.retain(|origin, window| {
            if over(window) && window.left_out != 0 {
                let who = origin.map_or("others".to_owned(), |(origin, _)| origin.to_string());
                let (lines, passed) = (window.left_out, now - window.since);
                let seconds = passed.as_secs();
                told.push(format!("{who}: {lines} more lines within {seconds} s were left out"));
            }
            !over(window)
        });
        told
    }
}

#[derive(Debug, Default)]
struct State {
    style: Style,
    lines: VecDeque<String>,
    dropped: u64,
    limits: Limits,
    /// Lines are being written.
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
    /// Signalled when there is something to write, and when all of it was written.
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
    fn add(
        &self,
        origin: Option<(Origin, Level)>,
        room: usize,
        now: Instant,
        line: impl FnOnce(Style) -> String,
    ) {
        let mut state = self.lock();
        if origin.is_some_and(|(origin, level)| !state.limits.admits(origin, level, now)) {
            return;
        }
        if state.lines.len() >= room {
            state.dropped += 1;
            return;
        }
        let style = state.style;
        drop(state);
        let line = line(style);
        self.lock().push(line, room);
        self.come.notify_one();
    }

    /// Writes what comes, for ever.
    fn write_to(&self, mut sink: impl Write) {
        let mut state = self.lock();
        loop {
            let own = |style, words: Arguments<'_>| {
                Entry::new(Level::Warning, "log").render(style, SystemTime::now(), words)
            };
            let style = state.style;
            for line in state.limits.end(Instant::now()) {
                state.push(own(style, format_args!("{line}")), LINES);
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
                text.push_str(&own(style, format_args!("{dropped} lines were dropped: {why}")));
                text.push('\n');
            }
            // There is no way left to report it.
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

    /// Accepts nothing until it is allowed to; from then on it sends everything to the test.
    struct Stuck {
        may: Receiver<()>,
        taken: Sender<String>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // The test drops its side when everything may pass.
            let _open = self.may.recv();
            let text = String::from_utf8(bytes.to_vec()).expect("lines are text");
            self.taken.send(text).expect("the test listens");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Does a sink that takes nothing delay no caller, and is every line written or counted? Of
    /// 10,000 lines 512 wait, and at most 512 are being written.
    #[test]
    fn a_sink_that_never_drains() {
        let (open, may) = channel();
        let (taken, text) = channel();
        let log = Log::start(Stuck { may, taken });
        for number in 0..10_000 {
            log.add(None, LINES, Instant::now(), |_| format!("line {number}"));
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
        // The flood goes on.
        log.add(None, LINES, Instant::now(), |_| "the next".to_owned());
        assert_eq!(text.recv().unwrap(), "the next\n");
    }

    /// Do lines of others get through the flood of one origin, and are its dropped lines counted?
    /// 20 of 5,000 lines are logged, 4,980 are not; ten seconds later it may log again.
    #[test]
    fn a_flood_leaves_others_lines_in() {
        let (now, mut limits) = (Instant::now(), Limits::default());
        let (loud, calm) = (Origin::User(1000), Origin::User(1001));
        let told = (0..5000).filter(|_| limits.admits(loud, Level::Warning, now)).count();
        assert_eq!(told, 20);
        assert!((0..20).all(|_| limits.admits(calm, Level::Warning, now)));
        assert_eq!(limits.end(now + PERIOD / 2), Vec::<String>::new());
        assert!(!limits.admits(loud, Level::Warning, now + PERIOD / 2));
        let told = limits.end(now + PERIOD);
        assert_eq!(told, ["uid 1000: 4981 more lines within 10 s were left out"]);
        assert!(limits.admits(loud, Level::Warning, now + PERIOD));
    }

    /// If a host starts 100 machines at once, each of which connects, do its error lines get
    /// through? There may be 200 lines of good news, and 20 others.
    #[test]
    fn what_is_well_crowds_nothing_out() {
        let (now, mut limits) = (Instant::now(), Limits::default());
        let told = |limits: &mut Limits, level| {
            (0..300).filter(|_| limits.admits(Origin::User(107), level, now)).count()
        };
        assert_eq!(told(&mut limits, Level::Info), 200);
        assert_eq!(told(&mut limits, Level::Warning), 20);
    }

    /// Are windows bounded, however many addresses there are? 256 have their own; all others share
    /// one more.
    #[test]
    fn windows_are_bounded() {
        let (now, mut limits) = (Instant::now(), Limits::default());
        let is_told = |&uid: &u32| limits.admits(Origin::User(uid), Level::Info, now);
        let told = (0..10_000).filter(is_told).count();
        assert_eq!((told, limits.windows.len()), (256 + 20, 256 + 1));
    }
}
