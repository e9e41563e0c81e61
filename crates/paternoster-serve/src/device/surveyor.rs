// SPDX-License-Identifier: MIT OR Apache-2.0
//! Surveyor: a thread that is asked where files have holes, and may wait for the answer.
//!
//! ```text
//! loop ──question (slot)──▶ waiting ──▶ thread: lseek, lseek, … ──▶ ended ──▶ event ──▶ reap
//! ```
//!
//! io_uring has no such call, and the loop in front of a device must not make it itself: a file
//! system that hangs would hang all its clients. There is one thread for each device, started with
//! the first question. Questions are bounded by the device's depth, each has a slot of it.
//!
//! Invariant: each question that was taken ends once. Nothing waits for the thread at the end: it
//! has no memory but its own.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::event::Event;
use super::{Extent, Finished};
use crate::locked::locked;

/// Finds runs of hole and data; may wait.
pub(super) type Question = Box<dyn FnOnce() -> io::Result<Vec<Extent>> + Send>;

#[derive(Default)]
struct State {
    waiting: VecDeque<(u32, Question)>,
    ended: Vec<(Finished, Vec<Extent>)>,
    stop: bool,
}

struct Shared {
    state: Mutex<State>,
    come: Condvar,
    event: Event,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

/// Asks on a thread of its own.
pub(super) struct Surveyor {
    shared: Arc<Shared>,
    is_started: bool,
    under_way: usize,
}

impl Surveyor {
    pub(super) fn new() -> io::Result<Surveyor> {
        let (state, come, event) = (Mutex::default(), Condvar::new(), Event::new()?);
        let shared = Arc::new(Shared { state, come, event });
        Ok(Surveyor { shared, is_started: false, under_way: 0 })
    }

    /// Takes a question; [`Surveyor::reap`] reports its end.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn ask(&mut self, slot: u32, question: Question) -> io::Result<()> {
        if !self.is_started {
            let shared = Arc::clone(&self.shared);
            crate::vital::spawn("holes".to_owned(), move || answer(&shared))?;
            self.is_started = true;
        }
        self.under_way += 1;
        self.shared.lock().waiting.push_back((slot, question));
        self.shared.come.notify_one();
        Ok(())
    }

    /// Adds what has ended.
    pub(super) fn reap(
        &mut self,
        finished: &mut Vec<Finished>,
        runs: &mut Vec<(u32, Vec<Extent>)>,
    ) {
        if self.under_way == 0 {
            return;
        }
        let mut state = self.shared.lock();
        self.shared.event.clear();
        self.under_way -= state.ended.len();
        for (ended, found) in state.ended.drain(..) {
            runs.push((ended.slot, found));
            finished.push(ended);
        }
    }

    /// Readable when [`Surveyor::reap`] has something.
    pub(super) fn wakeup(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

/// Answers questions until there shall be none any more.
fn answer(shared: &Shared) {
    let mut state = shared.lock();
    while !state.stop {
        let Some((slot, question)) = state.waiting.pop_front() else {
            state = shared.come.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(state);
        let (error, runs) = match question() {
            Ok(runs) => (0, runs),
            Err(error) => (error.raw_os_error().unwrap_or(libc::EIO), Vec::new()),
        };
        state = shared.lock();
        state.ended.push((Finished { slot, error }, runs));
        shared.event.set();
    }
}

impl Drop for Surveyor {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.come.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    /// Are questions asked on another thread, and does one that hangs keep neither the one that
    /// asks waiting, nor the end?
    #[test]
    fn a_question_may_hang() {
        let mut surveyor = Surveyor::new().unwrap();
        let (go, may_go) = channel::<()>();
        let (told, asked_on) = channel();
        let run = Extent { length: 4096, hole: true };
        let question = move || {
            told.send(std::thread::current().id()).unwrap();
            let _gone = may_go.recv();
            Ok(vec![run])
        };
        surveyor.ask(3, Box::new(question)).unwrap();
        surveyor.ask(4, Box::new(|| Err(io::Error::from_raw_os_error(libc::EIO)))).unwrap();
        assert_ne!(asked_on.recv().unwrap(), std::thread::current().id());
        let (mut finished, mut runs) = (Vec::new(), Vec::new());
        surveyor.reap(&mut finished, &mut runs);
        assert!(finished.is_empty());
        drop(go);
        while finished.len() < 2 {
            let event = surveyor.wakeup();
            poll(&mut [PollFd::new(&event, PollFlags::IN)], None).unwrap();
            surveyor.reap(&mut finished, &mut runs);
        }
        let ends: Vec<_> = finished.iter().map(|ended| (ended.slot, ended.error)).collect();
        assert_eq!(ends, [(3, 0), (4, libc::EIO)]);
        assert_eq!(runs, [(3, vec![run]), (4, Vec::new())]);
        let (kept, hangs) = channel::<()>();
        surveyor
            .ask(5, Box::new(move || hangs.recv().map(|()| Vec::new()).map_err(io::Error::other)))
            .unwrap();
        drop(surveyor);
        drop(kept);
    }
}
