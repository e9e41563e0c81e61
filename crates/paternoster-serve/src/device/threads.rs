// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads: plain threads and plain system calls, where io_uring is refused.
//!
//! ```text
//! submit ──▶ waiting ──▶ a thread for each job, up to 32 ──▶ ended ──▶ reap
//!            (bounded by the depth)                            └─▶ event
//! ```
//!
//! With a thread for each job the queue decides the order, and no second queue in here; with a
//! depth above 32 some jobs wait here too. Buffers of tasks are reused: in the steady state nothing
//! is allocated.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use paternoster_core::{DeviceFacts, Nanos};

use super::event::Event;
use super::files::{self, File};
use super::holes::Holes;
use super::open::facts;
use super::{Backend, FileFacts, Finished, Full, Job, NewFile, Piece, Shares, Work, plain};
use crate::locked::locked;
use crate::vital;

/// More threads would only wait for each other.
const THREADS_MAX: u32 = 32;

/// A job on its way to a thread.
struct Task {
    slot: u32,
    work: Work,
    file: u16,
    offset: u64,
    length: u64,
    pieces: Vec<Piece>,
}

#[derive(Default)]
struct State {
    /// The present files: a job that has begun keeps the files of its beginning.
    files: Arc<Vec<File>>,
    waiting: VecDeque<Task>,
    ended: Vec<Finished>,
    /// Empty lists of pieces.
    spare: Vec<Task>,
    stop: bool,
}

struct Shared {
    state: Mutex<State>,
    come: Condvar,
    event: Event,
}

impl Shared {
    fn files(&self) -> Arc<Vec<File>> {
        Arc::clone(&self.lock().files)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

/// Does jobs on threads.
pub(super) struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    depth: u32,
    inside: u32,
}

impl Threads {
    pub(super) fn new(files: Vec<File>, depth: u32) -> io::Result<Threads> {
        let depth_in_all = depth as usize;
        let state = State {
            files: Arc::new(files),
            waiting: VecDeque::with_capacity(depth_in_all),
            ended: Vec::with_capacity(depth_in_all),
            spare: Vec::with_capacity(depth_in_all),
            stop: false,
        };
        let (state, come) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { state, come, event: Event::new()? });
        let mut backend =
            Threads { shared: Arc::clone(&shared), threads: Vec::new(), depth, inside: 0 };
        for number in 0..depth.min(THREADS_MAX) {
            let shared = Arc::clone(&shared);
            let thread = vital::spawn(format!("disk {number}"), move || work(&shared));
            backend.threads.push(thread?);
        }
        Ok(backend)
    }
}

/// Does tasks until there shall be none any more.
fn work(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        if state.stop {
            return;
        }
        let Some(mut task) = state.waiting.pop_front() else {
            state = shared.come.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let files = Arc::clone(&state.files);
        drop(state);
        let Task { slot, work, file, offset, length, .. } = task;
        let job = Job { slot, work, file, offset, length, pieces: &task.pieces, sector: 0 };
        // SAFETY: the submitter's promise, kept until it is reported below.
        let error = unsafe { plain::perform(&files, &job) };
        task.pieces.clear();
        state = shared.lock();
        state.ended.push(Finished { slot, error });
        state.spare.push(task);
        shared.event.set();
    }
}

// SAFETY: a thread forgets the pieces of a job before it says that it has ended.
unsafe impl Backend for Threads {
    fn describe(&self) -> String {
        format!("{} threads, {}", self.threads.len(), files::how(&self.shared.files()))
    }

    fn facts(&self) -> DeviceFacts {
        facts(&self.shared.files(), self.depth)
    }

    fn file(&self, file: u16) -> FileFacts {
        self.shared.files()[usize::from(file)].facts()
    }

    unsafe fn submit(&mut self, _: Nanos, job: Job<'_>) -> Result<(), Full> {
        if self.inside >= self.depth {
            return Err(Full);
        }
        self.inside += 1;
        let mut state = self.shared.lock();
        let Job { slot, work, file, offset, length, .. } = job;
        let mut pieces = state.spare.pop().map_or_else(Vec::new, |task| task.pieces);
        pieces.extend_from_slice(job.pieces);
        state.waiting.push_back(Task { slot, work, file, offset, length, pieces });
        drop(state);
        self.shared.come.notify_one();
        Ok(())
    }

    fn kick(&mut self) {}

    fn reap(&mut self, _: Nanos, finished: &mut Vec<Finished>) {
        if self.inside == 0 {
            return;
        }
        let mut state = self.shared.lock();
        // With the lock, as it is set: a signal of what is taken here does not come later.
        self.shared.event.clear();
        self.inside -= u32::try_from(state.ended.len()).unwrap_or(self.inside);
        finished.append(&mut state.ended);
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.event.as_fd())
    }

    fn can_add(&self, _files: &[NewFile]) -> bool {
        true
    }

    fn add(&mut self, file: NewFile) -> Option<u16> {
        files::add(Arc::make_mut(&mut self.shared.lock().files), file)
    }

    fn remove(&mut self, file: u16) -> Option<NewFile> {
        let mut state = self.shared.lock();
        let files: &mut Vec<File> = Arc::make_mut(&mut state.files);
        files::remove(files, file)
    }

    fn shares_errors(&self, file: u16) -> Shares {
        files::shares_errors(&self.shared.files(), file)
    }

    fn lost(&self) -> Option<i32> {
        files::lost(&self.shared.files())
    }

    fn to_hand_over(&self) -> Vec<super::Giving> {
        files::to_hand_over(&self.shared.files())
    }

    fn holes(&self, file: u16) -> Option<Holes> {
        Some(self.shared.files()[usize::from(file)].holes())
    }
}

impl Drop for Threads {
    /// Jobs that have begun are ended, others never begin: no piece is touched after this.
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.come.notify_all();
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
    }
}
