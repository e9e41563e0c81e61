// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls: what a process asked of a file, and where the answer goes.
//!
//! ```text
//! front ──Call──▶ loop: the connection of its caller ──▶ I/O ──▶ … ──▶ answer
//! ```
//!
//! Invariant: every answer is given once; one that is dropped is an error to its process, which
//! would wait for ever otherwise.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};

use super::callers::Caller;
use crate::locked::locked;
use crate::nbd::transmission::Kind;

/// What a process asked of a volume's file.
#[derive(Debug)]
pub struct Call {
    /// Number of the volume within its loop.
    pub place: u32,
    /// The caller; `None`: unknown.
    pub caller: Option<Arc<Caller>>,
    /// Read, write, zero or flush.
    pub kind: Kind,
    /// Durable before the answer.
    pub fua: bool,
    /// Zeroes that stay allocated.
    pub no_hole: bool,
    /// First byte, within the volume.
    pub offset: u64,
    /// Bytes, not beyond its end.
    pub length: u32,
    /// Data of a write.
    pub payload: Vec<u8>,
    /// Where the answer is sent.
    pub answer: Answer,
}

/// The kernel's request that awaits an answer.
#[derive(Debug)]
pub enum Answer {
    /// A read: answered with data.
    Data(ReplyData),
    /// A write of this many bytes.
    Written(ReplyWrite, u32),
    /// An operation without data.
    Done(ReplyEmpty),
    /// A part of a request: several calls share its answer.
    Share(Arc<Shares>),
    /// A test waits for the answer.
    #[cfg(test)]
    Test(std::sync::mpsc::Sender<Result<Vec<u8>, i32>>),
}

impl Answer {
    /// Answers with success; `data` are for reads alone.
    pub(crate) fn good(self, data: &[u8]) {
        match self {
            Answer::Data(reply) => reply.data(data),
            Answer::Written(reply, bytes) => reply.written(bytes),
            Answer::Done(reply) => reply.ok(),
            Answer::Share(shares) => shares.ended(0),
            #[cfg(test)]
            Answer::Test(to) => to.send(Ok(data.to_vec())).unwrap_or(()),
        }
    }

    /// Answers with an errno of Linux.
    pub(crate) fn bad(self, errno: i32) {
        let error = Errno::from_i32(errno);
        match self {
            Answer::Data(reply) => reply.error(error),
            Answer::Written(reply, _) => reply.error(error),
            Answer::Done(reply) => reply.error(error),
            Answer::Share(shares) => shares.ended(errno),
            #[cfg(test)]
            Answer::Test(to) => to.send(Err(errno)).unwrap_or(()),
        }
    }
}

/// The answer that several calls share: given when the last of them ends, with the first error.
#[derive(Debug)]
pub struct Shares {
    left: AtomicU32,
    errno: AtomicI32,
    reply: Mutex<Option<ReplyEmpty>>,
}

impl Shares {
    /// The answer to this many calls.
    pub(super) fn new(calls: u32, reply: ReplyEmpty) -> Arc<Shares> {
        Arc::new(Shares {
            left: AtomicU32::new(calls),
            errno: AtomicI32::new(0),
            reply: Mutex::new(Some(reply)),
        })
    }

    fn ended(&self, errno: i32) {
        if errno != 0 {
            // The first one stays.
            let _later = self.errno.compare_exchange(0, errno, Ordering::SeqCst, Ordering::SeqCst);
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) != 1 {
            return;
        }
        let reply = locked(&self.reply).take();
        match (reply, self.errno.load(Ordering::SeqCst)) {
            (Some(reply), 0) => reply.ok(),
            (Some(reply), errno) => reply.error(Errno::from_i32(errno)),
            (None, _) => {}
        }
    }
}
