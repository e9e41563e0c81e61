// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model thread: the thread that lets a model live in real time, and answers when the model is
//! done.
//!
//! ```text
//!            event - 100 us       event
//! ── sleeps ──────┤── looks again ──┤── advance, answer ──
//!    ▲ a request ends the sleep: it goes to the model with the time at which it was asked
//! ```
//!
//! The model's time is never what a late thread says: requests carry their own times, events have
//! theirs, and a model thread that overslept by 1 ms answers 1 ms late once, but the model does not
//! know and what follows is not later for it.
//!
//! # Invariants
//! I1  Nothing is answered before the model is done with it.
//! I2  When the model thread ends, even by a panic, the door closes: no process waits for ever.

use std::thread;
use std::time::Duration;

use fuser::Errno;
use paternoster_core::Nanos;
use paternoster_sim::Model;

use super::model_queue::{Ended, ModelQueue};
use super::shared::{Answer, Asked, Shared};

/// Before an event the model thread stays awake for this long: the time to wake a thread, usually
/// 45 us, and 90 in one case of a hundred.
const AWAKE: Nanos = Nanos::from_micros(100);

/// The model thread's things.
struct ModelThread<'a> {
    shared: &'a Shared,
    line: ModelQueue<Answer>,
    asked: Vec<Asked>,
    ended: Vec<Ended<Answer>>,
    buffer: Vec<u8>,
}

/// Closes the queue when its model thread ends, also by a panic.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Keeps until the door is closed.
pub(super) fn keep(shared: &Shared, model: Box<dyn Model>) {
    let _closing = Closing(shared);
    let (asked, ended, buffer) = (Vec::new(), Vec::new(), Vec::new());
    let mut model_thread =
        ModelThread { shared, line: ModelQueue::new(model), asked, ended, buffer };
    while !shared.is_closed() {
        model_thread.look();
        model_thread.answer();
        model_thread.sleep();
    }
}

impl ModelThread<'_> {
    /// Submits what was asked to the model, and advances the model's clock to the present.
    fn look(&mut self) {
        self.shared.take(&mut self.asked);
        for Asked { at, io, answer } in self.asked.drain(..) {
            // When there are too many, the answer is dropped and says EIO.
            let _taken = self.line.ask(at, io, answer, &mut self.ended);
        }
        self.line.live(self.shared.now(), &mut self.ended);
    }

    fn answer(&mut self) {
        for ended in self.ended.drain(..) {
            let Ended { token, kind, set, at, error } = ended;
            tell(token, error, self.shared, &mut self.buffer);
            let ended = Ended { token: (), kind, set, at, error };
            self.shared.tally().add(&ended, self.shared.now());
        }
    }

    /// Until there is something to do.
    fn sleep(&self) {
        while !self.shared.is_rung() {
            let Some(at) = self.line.next_event() else {
                debug_assert!(self.line.is_idle(), "who waits for a model that does nothing?");
                thread::park();
                continue;
            };
            let left = at - self.shared.now().min(at);
            if left == Nanos::ZERO {
                return;
            }
            if left > AWAKE {
                thread::park_timeout(Duration::from_nanos((left - AWAKE).0));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Reports how the thread ended.
fn tell(answer: Answer, error: i32, shared: &Shared, buffer: &mut Vec<u8>) {
    let failed = (error != 0).then(|| Errno::from_i32(error));
    match (answer, failed) {
        (Answer::Read { reply, .. }, Some(errno)) => reply.error(errno),
        (Answer::Write { reply, .. }, Some(errno)) => reply.error(errno),
        (Answer::Done(reply), Some(errno)) => reply.error(errno),
        (Answer::Read { reply, offset, length }, None) => {
            read(reply, offset, length, shared, buffer);
        }
        (Answer::Write { reply, length }, None) => reply.written(length),
        (Answer::Done(reply), None) => reply.ok(),
    }
}

/// Answers a read with its data; the buffer is as large as the largest one was.
pub(super) fn read(
    reply: fuser::ReplyData,
    offset: u64,
    length: usize,
    shared: &Shared,
    buffer: &mut Vec<u8>,
) {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    let data = &mut buffer[..length];
    match shared.data.read(data, offset) {
        Ok(()) => reply.data(data),
        Err(error) => reply.error(Errno::from(error)),
    }
}
