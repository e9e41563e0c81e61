// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inbox: how other threads hand something to a thread that sleeps on its file descriptors.
//!
//! A channel and an eventfd: who sends rings, the sleeper finds the eventfd readable.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};

/// The sender's end; cheap to clone.
#[derive(Debug)]
pub struct Slot<T> {
    letters: Sender<T>,
    bell: Arc<OwnedFd>,
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
    bell: Arc<OwnedFd>,
}

/// A slot and the inbox behind it.
///
/// # Errors
/// No more file descriptors.
pub fn inbox<T>() -> io::Result<(Slot<T>, Inbox<T>)> {
    let (sender, receiver) = channel();
    let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    Ok((Slot { letters: sender, bell: Arc::clone(&bell) }, Inbox { letters: receiver, bell }))
}

impl<T> Slot<T> {
    /// Hands over a letter; gives it back if nobody will ever read it.
    ///
    /// # Errors
    /// The letter: the other side has gone.
    pub fn put(&self, letter: T) -> Result<(), T> {
        self.letters.send(letter).map_err(|unsent| unsent.0)?;
        // A full counter rings already.
        let _rung = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        Ok(())
    }
}

impl<T> Inbox<T> {
    /// Readable when there are letters.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Stops the bell; then take letters until there are none.
    pub fn hush(&self) {
        let mut count = [0; 8];
        let _was_ringing = rustix::io::read(&*self.bell, &mut count);
    }

    /// The next letter.
    pub fn take(&self) -> Option<T> {
        self.letters.try_recv().ok()
    }
}
