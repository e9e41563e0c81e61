// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inbox: how other threads hand something to a thread that sleeps on its file descriptors.
//!
//! A channel and an eventfd: who sends rings, the sleeper finds the eventfd readable. Ringing is a
//! system call, and so is hearing it; a sleeper that looks into its inbox anyway says when it is
//! awake, and nobody rings.
//!
//! ```text
//! sender     letter into the channel ──▶ does it sleep? ── yes ──▶ ring
//! sleeper    "I sleep" ──▶ is there a letter? ── no ──▶ sleep ──▶ "I am awake" ──▶ letters
//! ```
//!
//! Invariant: whoever sleeps and has a letter hears the bell: of the two who each write first and
//! look second at least one sees the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    /// Somebody is to ring.
    asleep: AtomicBool,
}

/// The sender's end; cheap to clone.
#[derive(Debug)]
pub struct Slot<T> {
    letters: Sender<T>,
    bell: Arc<Bell>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        Slot { letters: self.letters.clone(), bell: Arc::clone(&self.bell) }
    }
}

/// The sleeper's end.
#[derive(Debug)]
pub struct Inbox<T> {
    letters: Receiver<T>,
    /// One that was found in looking whether there is any.
    first: Option<T>,
    bell: Arc<Bell>,
}

/// A slot and the inbox behind it, whose owner sleeps.
///
/// # Errors
/// No more file descriptors.
pub fn inbox<T>() -> io::Result<(Slot<T>, Inbox<T>)> {
    let (sender, receiver) = channel();
    let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let bell = Arc::new(Bell { fd, asleep: AtomicBool::new(true) });
    let slot = Slot { letters: sender, bell: Arc::clone(&bell) };
    Ok((slot, Inbox { letters: receiver, first: None, bell }))
}

impl<T> Slot<T> {
    /// Hands over a letter; gives it back if nobody will ever read it.
    ///
    /// # Errors
    /// The letter: the other side has gone.
    pub fn put(&self, letter: T) -> Result<(), T> {
        self.letters.send(letter).map_err(|unsent| unsent.0)?;
        fence(Ordering::SeqCst);
        if self.bell.asleep.swap(false, Ordering::SeqCst) {
            // A full counter rings already.
            let _rung = rustix::io::write(&self.bell.fd, &1u64.to_ne_bytes());
        }
        Ok(())
    }
}

impl<T> Inbox<T> {
    /// Readable when somebody has rung.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.fd.as_fd()
    }

    /// Stops the bell, and wants it rung for the next letter; then take letters until there are
    /// none.
    pub fn hush(&self) {
        let mut count = [0; 8];
        let _was_ringing = rustix::io::read(&self.bell.fd, &mut count);
        self.bell.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Wants the bell rung from now on; whether one may sleep: no letter is there.
    pub fn doze(&mut self) -> bool {
        self.bell.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !self.has_letter()
    }

    /// Wants no bell: letters are looked for before the next sleep.
    pub fn wake(&self) {
        self.bell.asleep.store(false, Ordering::SeqCst);
    }

    /// Whether there is a letter.
    pub fn has_letter(&mut self) -> bool {
        if self.first.is_none() {
            self.first = self.letters.try_recv().ok();
        }
        self.first.is_some()
    }

    /// The next letter.
    pub fn take(&mut self) -> Option<T> {
        self.first.take().or_else(|| self.letters.try_recv().ok())
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

    /// Is the bell rung for who sleeps, once, and not for who is awake?
    #[test]
    fn who_sleeps_hears_the_bell() {
        let (slot, mut inbox) = inbox().unwrap();
        slot.put(1).unwrap();
        slot.put(2).unwrap();
        assert!(rings(&inbox, Duration::ZERO));
        inbox.hush();
        assert!(!rings(&inbox, Duration::ZERO));
        assert_eq!((inbox.take(), inbox.take(), inbox.take()), (Some(1), Some(2), None));
        inbox.wake();
        slot.put(3).unwrap();
        assert!(!rings(&inbox, Duration::ZERO));
        assert!(!inbox.doze(), "there is a letter");
        assert_eq!(inbox.take(), Some(3));
        assert!(inbox.doze());
        slot.put(4).unwrap();
        assert!(rings(&inbox, Duration::ZERO));
        drop(inbox);
        assert_eq!(slot.put(5), Err(5));
    }

    /// Does no letter lie while its reader sleeps, whenever the two come together?
    #[test]
    fn no_letter_is_slept_over() {
        const LETTERS: u32 = 20_000;
        let (slot, mut inbox) = inbox().unwrap();
        let sender = std::thread::spawn(move || {
            for letter in 0..LETTERS {
                slot.put(letter).unwrap();
                if letter % 3 == 0 {
                    std::thread::yield_now();
                }
            }
            slot
        });
        let mut expected = 0;
        while expected < LETTERS {
            if inbox.doze() {
                assert!(rings(&inbox, Duration::from_secs(60)), "letter {expected} was not rung");
                inbox.hush();
            }
            inbox.wake();
            while let Some(letter) = inbox.take() {
                assert_eq!(letter, expected);
                expected += 1;
            }
        }
        drop(sender.join().unwrap());
    }
}
