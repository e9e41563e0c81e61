// SPDX-License-Identifier: MIT OR Apache-2.0
//! Poller: where a loop sleeps, what wakes it, and the messages that it gets.
//!
//! ```text
//! sockets ──┐
//! device  ──┼─▶ epoll ─▶ found: tokens, and what they are ready for
//! bell    ──┘               └─ the inbox has rung ─▶ messages
//! ```
//!
//! The system returns some hundred events at a time, in turn: a look goes on until it has had those
//! of all sockets, or a client that was not returned would wait for another round.
//!
//! Invariant: a loop that sleeps wants the bell rung, and one that is awake does not.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};

use super::busy_poll::BusyPoll;
use super::inbox::Inbox;
use super::messages::Message;
use crate::host::notify::Pulse;

/// Events fetched by one system call.
const EVENTS: usize = 256;
/// A timeout that has passed already.
pub(super) const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Token of the inbox's bell.
const INBOX: u64 = u64::MAX;
/// Token of what has nothing to be done for but waking up.
const WAKES: u64 = u64::MAX - 1;

/// See above.
#[derive(Debug)]
pub(super) struct Poller {
    poll: OwnedFd,
    inbox: Inbox<Message>,
    /// The inbox has signalled.
    rung: bool,
    /// What the last look has found, with tokens.
    found: Vec<(u64, epoll::EventFlags)>,
    /// Whether to stay awake.
    pub busy_poll: BusyPoll,
    /// Counts turns of the loop.
    pulse: Pulse,
    /// Number of looks at the sockets.
    #[cfg(test)]
    looks: u64,
}

impl Poller {
    /// Of this inbox, on a machine with this many processors.
    ///
    /// # Errors
    /// No more file descriptors.
    pub(super) fn new(inbox: Inbox<Message>, processors: usize) -> std::io::Result<Poller> {
        let poller = Poller {
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            inbox,
            rung: false,
            found: Vec::with_capacity(EVENTS),
            busy_poll: BusyPoll::new(processors),
            pulse: Pulse::default(),
            #[cfg(test)]
            looks: 0,
        };
        poller.add(poller.inbox.bell(), INBOX, epoll::EventFlags::IN)?;
        Ok(poller)
    }

    fn add(&self, fd: impl AsFd, token: u64, flags: epoll::EventFlags) -> std::io::Result<()> {
        crate::tally::call();
        Ok(epoll::add(&self.poll, fd, epoll::EventData::new_u64(token), flags)?)
    }

    /// Adds what wakes the loop up. Edge-triggered: an event for what was handled already must not
    /// be reported over and over.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn add_wakeup(&self, fd: impl AsFd) -> std::io::Result<()> {
        self.add(fd, WAKES, epoll::EventFlags::IN | epoll::EventFlags::ET)
    }

    /// Adds a connection's socket.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn add_socket(&self, fd: impl AsFd, token: u64) -> std::io::Result<()> {
        self.add(fd, token, wanted(true))
    }

    /// A connection's socket became full, or no longer is.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn watch(&self, fd: impl AsFd, token: u64, writable: bool) -> std::io::Result<()> {
        crate::tally::call();
        Ok(epoll::modify(&self.poll, fd, epoll::EventData::new_u64(token), wanted(writable))?)
    }

    /// A socket's events no longer concern this loop.
    pub(super) fn forget(&self, fd: impl AsFd) {
        let _known = epoll::delete(&self.poll, fd);
    }

    /// Waits for events, until a message comes if there is a timeout.
    pub(super) fn sleep(&mut self, sockets: u32, timeout: &Timespec) {
        let may_sleep = *timeout != NO_TIME && self.inbox.doze();
        self.look(sockets, if may_sleep { timeout } else { &NO_TIME });
        self.inbox.wake();
    }

    /// Looks without waiting; returns whether anything has happened.
    pub(super) fn glance(&mut self, sockets: u32) -> bool {
        self.look(sockets, &NO_TIME);
        !self.found.is_empty() || self.inbox.has_message()
    }

    /// Waits for events, and collects those of all sockets.
    pub(super) fn look(&mut self, sockets: u32, timeout: &Timespec) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let mut room = [MaybeUninit::uninit(); EVENTS];
        let mut wait = timeout;
        // Besides connections there are inbox and backend.
        for _ in 0..(sockets as usize + 2).div_ceil(EVENTS) {
            crate::tally::call();
            // A signal: it is handled elsewhere.
            let Ok((found, _)) = epoll::wait(&self.poll, &mut room, Some(wait)) else { return };
            self.found.extend(found.iter().map(|event| (event.data.u64(), event.flags)));
            if found.len() < EVENTS {
                break;
            }
            wait = &NO_TIME;
        }
    }

    /// Takes the sockets' events that were found.
    pub(super) fn take_found(&mut self) -> Vec<(u64, epoll::EventFlags)> {
        let mut found = std::mem::take(&mut self.found);
        self.rung |= found.iter().any(|(token, _)| *token == INBOX);
        found.retain(|(token, _)| *token < WAKES);
        found
    }

    /// The list's memory, to be used again.
    pub(super) fn handled(&mut self, mut found: Vec<(u64, epoll::EventFlags)>) {
        found.clear();
        self.found = found;
    }

    /// Messages can be taken, after the bell if that has rung.
    pub(super) fn drain_bell(&mut self) {
        if std::mem::take(&mut self.rung) {
            self.inbox.drain_bell();
            // The loop is awake, and looks before it sleeps.
            self.inbox.wake();
        }
    }

    /// The next message.
    pub(super) fn message(&mut self) -> Option<Message> {
        self.inbox.take()
    }

    /// The counter of the loop's turns.
    pub(super) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// The loop has had a turn.
    pub(super) fn turned(&self) {
        self.pulse.turned();
    }

    /// Number of looks at the sockets.
    #[cfg(test)]
    pub(super) const fn looks(&self) -> u64 {
        self.looks
    }
}

/// The events wanted from a connection's socket. It reports room each time the client takes data:
/// only a connection that waits for room wants to be woken by that.
fn wanted(writable: bool) -> epoll::EventFlags {
    let always = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    if writable { always } else { always | epoll::EventFlags::OUT }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::device_loop::inbox::inbox;

    fn poller() -> (super::super::inbox::Slot<Message>, Poller) {
        let (slot, inbox) = inbox().unwrap();
        (slot, Poller::new(inbox, 1).unwrap())
    }

    /// Is a socket's event found once, and one that waits for room told of it alone?
    #[test]
    fn events_are_found_once() {
        let (_slot, mut poller) = poller();
        let (mut client, socket) = UnixStream::pair().unwrap();
        poller.add_socket(&socket, 7).unwrap();
        assert!(!poller.glance(1));
        client.write_all(b"x").unwrap();
        assert!(poller.glance(1));
        assert_eq!(poller.take_found(), [(7, epoll::EventFlags::IN)]);
        assert!(!poller.glance(1), "edges");
        poller.watch(&socket, 7, false).unwrap();
        assert!(poller.glance(1));
        let found = poller.take_found();
        assert!(found.iter().all(|(_, flags)| flags.contains(epoll::EventFlags::OUT)));
        poller.forget(&socket);
        client.write_all(b"x").unwrap();
        assert!(!poller.glance(1));
    }

    /// Does a message wake a sleeper, by the bell, and is the bell no event of a socket?
    #[test]
    fn messages_ring() {
        let (slot, mut poller) = poller();
        let leave = Message::Handover(crate::device_loop::handover::Post(Box::new(
            crate::device_loop::handover::HandoverMessage::Tenants(Vec::new()),
        )));
        slot.put(leave).unwrap();
        poller.sleep(0, &Timespec { tv_sec: 60, tv_nsec: 0 });
        assert!(poller.take_found().is_empty());
        poller.drain_bell();
        assert!(poller.message().is_some() && poller.message().is_none());
    }
}
