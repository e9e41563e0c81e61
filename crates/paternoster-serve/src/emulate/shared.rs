// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared: what the file system and the model thread have in common: the clock, the data, the
//! figures, and the slot in the door through which the one hands requests to the other.
//!
//! The file system may not wait and the model thread may not miss anything: the file system pushes,
//! sets a flag and unparks; the model thread clears the flag before it looks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use std::time::Instant;

use fuser::{ReplyData, ReplyEmpty, ReplyWrite};
use paternoster_core::Nanos;

use super::data::Data;
use super::model_queue::{IOS_MAX, Io};
use super::overhead::Overhead;
use super::spread::Tally;
use crate::locked::locked;

/// A waiting request. Dropped without an answer it answers EIO, so that no process waits for ever.
#[derive(Debug)]
pub(super) enum Answer {
    Read { reply: ReplyData, offset: u64, length: usize },
    Write { reply: ReplyWrite, length: u32 },
    Done(ReplyEmpty),
}

/// A request on its way to the model thread.
#[derive(Debug)]
pub(super) struct Asked {
    /// When the kernel was asked, as far as that is known.
    pub(super) at: Nanos,
    pub(super) io: Io,
    pub(super) answer: Answer,
}

/// State that the file system and the model thread share.
#[derive(Debug)]
pub(super) struct Shared {
    began: Instant,
    pub(super) data: Data,
    /// Known once it has been measured.
    pub(super) overhead: OnceLock<Overhead>,
    /// The thread that measures it, whose reads are answered at once; 0 if there is none.
    pub(super) measuring: AtomicU32,
    /// The thread that is woken.
    pub(super) model_thread: OnceLock<Thread>,
    asked: Mutex<Vec<Asked>>,
    rung: AtomicBool,
    closed: AtomicBool,
    tally: Mutex<Tally>,
}

impl Shared {
    pub(super) fn new(data: Data) -> Shared {
        Shared {
            began: Instant::now(),
            data,
            overhead: OnceLock::new(),
            measuring: AtomicU32::new(0),
            model_thread: OnceLock::new(),
            asked: Mutex::new(Vec::new()),
            rung: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            tally: Mutex::new(Tally::new()),
        }
    }

    /// Time since the emulation began.
    pub(super) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Hands a request over, which was read at `read`.
    pub(super) fn ask(&self, read: Nanos, io: Io, answer: Answer) {
        let overhead = self.overhead.get().map_or(Nanos::ZERO, |overhead| overhead.of(io));
        let at = read - overhead.min(read);
        let mut asked = locked(&self.asked);
        if asked.len() >= IOS_MAX as usize || self.is_closed() {
            // The answer is dropped and says EIO.
            return;
        }
        asked.push(Asked { at, io, answer });
        drop(asked);
        self.ring();
    }

    fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        if let Some(model_thread) = self.model_thread.get() {
            model_thread.unpark();
        }
    }

    /// Whether the model thread should look.
    pub(super) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Takes all requests that have arrived.
    pub(super) fn take(&self, into: &mut Vec<Asked>) {
        self.rung.store(false, Ordering::Release);
        into.append(&mut locked(&self.asked));
    }

    /// Nothing is answered any more, except that it is not.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        locked(&self.asked).clear();
        self.ring();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        locked(&self.tally)
    }
}
