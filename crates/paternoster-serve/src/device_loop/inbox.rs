// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inbox: messages from other threads to a thread that sleeps on its file descriptors.
//!
//! A channel and an eventfd: the sender rings, the sleeper finds the eventfd readable. Ringing is a
//! system call, and so is hearing it; a sleeper that looks into its inbox anyway says when it is
//! awake, and then no sender rings.
//!
//! ```text
//! sender     message into the channel ──▶ does it sleep? ── yes ──▶ ring
//! sleeper    "I sleep" ──▶ is there a message? ── no ──▶ sleep ──▶ "I am awake" ──▶ messages
//! ```
//!
//! Invariant: a sleeper that has a message hears the bell: both sides write first and look second,
//! so at least one sees the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    /// A sender has to ring.
    asleep: AtomicBool,
}

/// The sender's end; cheap to clone.
#[derive(Debug)]
pub struct Slot<T> {
    messages: Sender<T>,
    bell: Arc<Bell>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        Slot { messages: self.messages.clone(), bell: Arc::clone(&self.bell) }
    }
}

/// The sleeper's end.
#[derive(Debug)]
pub struct Inbox<T> {
    messages: Receiver<T>,
    /// A message found when checking whether there is one.
    first: Option<T>,
    bell: Arc<Bell>,
}

/// The message about a loop that has not answered: it has ended, or it takes too long.
pub(crate) fn unanswered(why: RecvTimeoutError, patience: Duration) -> String {
    match why {
        RecvTimeoutError::Timeout => format!("no answer within {} s", patience.as_secs()),
        RecvTimeoutError::Disconnected => "its thread has ended".to_owned(),
    }
}

/// A slot in front of an inbox, whose owner sleeps.
///
/// # Errors
/// No more file descriptors.
pub fn inbox<T>() -> io::Result<(Slot<T>, Inbox<T>)> {
    let (sender, receiver) = channel();
    let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let bell = Arc::new(Bell { fd, asleep: AtomicBool::new(true) });
    let slot = Slot { messages: sender, bell: Arc::clone(&bell) };
    Ok((slot, Inbox { messages: receiver, first: None, bell }))
}

impl<T> Slot<T> {
    /// Hands over a message; gives it back if it will never be read.
    ///
    /// # Errors
    /// The message: the other side has gone.
    pub fn put(&self, message: T) -> Result<(), T> {
        self.messages.send(message).map_err(|unsent| unsent.0)?;
        fence(Ordering::SeqCst);
        if self.bell.asleep.swap(false, Ordering::SeqCst) {
            // A full counter rings already.
            let _rung = rustix::io::write(&self.bell.fd, &1u64.to_ne_bytes());
        }
        Ok(())
    }
}

impl<T> Inbox<T> {
    /// Readable when a sender has rung.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.fd.as_fd()
    }

    /// Stops the bell, and wants it rung for the next message; then take messages until there are
    /// none.
    pub fn drain_bell(&self) {
        let mut count = [0; 8];
        let _was_ringing = rustix::io::read(&self.bell.fd, &mut count);
        self.bell.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Wants the bell rung from now on; returns whether one may sleep: there is no message.
    pub fn doze(&mut self) -> bool {
        self.bell.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !self.has_message()
    }

    /// Wants no bell: messages are looked for before the next sleep.
    pub fn wake(&self) {
        self.bell.asleep.store(false, Ordering::SeqCst);
    }

    /// Whether there is a message.
    pub fn has_message(&mut self) -> bool {
        if self.first.is_none() {
            self.first = self.messages.try_recv().ok();
        }
        self.first.is_some()
    }

    /// The next message.
    pub fn take(&mut self) -> Option<T> {
        self.first.take().or_else(|| self.messages.try_recv().ok())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn rings<T>(inbox: &Inbox<T>, wait: Duration) -> bool {
        let bell = inbox.bell();
        let timeout = Timespec::try_from(wait).unwrap();
        poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&timeout)).unwrap() == 1
    }

    /// Does a sleeper get one ring, and a reader that is awake none?
    #[test]
    fn who_sleeps_hears_the_bell() {
        let (slot, mut inbox) = inbox().unwrap();
        slot.put(1).unwrap();
        slot.put(2).unwrap();
        assert!(rings(&inbox, Duration::ZERO));
        inbox.drain_bell();
        assert!(!rings(&inbox, Duration::ZERO));
        assert_eq!((inbox.take(), inbox.take(), inbox.take()), (Some(1), Some(2), None));
        inbox.wake();
        slot.put(3).unwrap();
        assert!(!rings(&inbox, Duration::ZERO));
        assert!(!inbox.doze(), "there is a message");
        assert_eq!(inbox.take(), Some(3));
        assert!(inbox.doze());
        slot.put(4).unwrap();
        assert!(rings(&inbox, Duration::ZERO));
        drop(inbox);
        assert_eq!(slot.put(5), Err(5));
    }

    /// Is no message left while its reader sleeps, whatever the timing of the two?
    #[test]
    fn no_message_is_slept_over() {
        const MESSAGES: u32 = 20_000;
        let (slot, mut inbox) = inbox().unwrap();
        let sender = std::thread::spawn(move || {
            for message in 0..MESSAGES {
                slot.put(message).unwrap();
                if message % 3 == 0 {
                    std::thread::yield_now();
                }
            }
            slot
        });
        let mut expected = 0;
        while expected < MESSAGES {
            if inbox.doze() {
                assert!(rings(&inbox, Duration::from_secs(60)), "message {expected} was not rung");
                inbox.drain_bell();
            }
            inbox.wake();
            while let Some(message) = inbox.take() {
                assert_eq!(message, expected);
                expected += 1;
            }
        }
        drop(sender.join().unwrap());
    }
}
