// SPDX-License-Identifier: MIT OR Apache-2.0
//! House: a whole server in the judge's thread, as it is started, lives and ends.
//!
//! ```text
//! client ─▶ street ─▶ Lobby (production) ─▶ Desk (production) ─▶ medium
//!           (the one entrance)   └── catalog, rules, seats ──┘
//! ```
//!
//! What is replaced: the clock (told), the listener (`Street`), the calls on files and the ring
//! (`calls`, `engine`), and the log, which is silent. Backends, lobby, catalog, rules, seats,
//! inboxes, loop, queue and ledger are those that serve. A server that dies leaves the street and
//! the medium; the next one finds them so.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use paternoster_core::Nanos;
use rustix::event::{EventfdFlags, eventfd};

use super::calls::Opened;
use super::engine::{self, Given};
use super::medium::Medium;
use super::plan::Plan;
use super::{NO_TIME, config};
use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::config::{Identity, TlsMode};
use crate::control::order::{Answer, Asked, Order};
use crate::desk::inbox::{Slot, inbox};
use crate::desk::{Desk, Letter, handover};
use crate::lobby::{Entrance, Lobby, Who};
use crate::locked::locked;
use crate::reload::Word;
use crate::server::Options;

/// The user of the first tenant's clients.
pub(super) const FIRST_USER: u32 = 1000;

#[derive(Debug)]
struct Waiting {
    clients: VecDeque<(OwnedFd, Who)>,
    /// The next call fails in this way.
    fails: Option<i32>,
}

/// Clients that wait to be let in: a listener's queue.
#[derive(Debug, Clone)]
pub(in crate::desk) struct Street {
    waiting: Arc<Mutex<Waiting>>,
    /// Readable while one waits.
    bell: Arc<OwnedFd>,
}

impl Street {
    pub(in crate::desk) fn new() -> Street {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a bell");
        let waiting = Waiting { clients: VecDeque::new(), fails: None };
        Street { waiting: Arc::new(Mutex::new(waiting)), bell: Arc::new(bell) }
    }

    /// A client of this tenant comes; the call that lets it in fails first, if it is to.
    pub(in crate::desk) fn come(&self, socket: OwnedFd, tenant: usize, fails: Option<i32>) {
        let uid = FIRST_USER + u32::try_from(tenant).unwrap();
        let identity = Identity { uid: Some(uid), ..Identity::default() };
        let mut waiting = locked(&self.waiting);
        waiting.clients.push_back((socket, Who { identity, words: format!("uid {uid}") }));
        waiting.fails = fails;
        rustix::io::write(&self.bell, &1u64.to_ne_bytes()).expect("it rings");
    }
}

impl AsFd for Street {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Entrance for Street {
    fn tls(&self) -> TlsMode {
        TlsMode::Off
    }

    fn open(&self) -> io::Result<()> {
        Ok(())
    }

    fn let_in(&self) -> io::Result<(OwnedFd, Who)> {
        let mut waiting = locked(&self.waiting);
        if let Some(errno) = waiting.fails.take() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let next = waiting.clients.pop_front();
        if waiting.clients.is_empty() {
            let _was_ringing = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        next.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

/// A server.
pub(super) struct House {
    pub(super) desk: Desk,
    pub(super) lobby: Lobby<Street>,
    /// It waits for a verdict.
    pub(super) is_paused: bool,
    letters: Slot<Letter>,
    /// The lobby closes with it.
    pub(super) door: Slot<Word>,
    /// Its files.
    pub(super) opened: Vec<Arc<Opened>>,
}

impl House {
    /// One that has just been started, with what another one has handed over.
    pub(super) fn open(
        plan: &Plan,
        medium: &Medium,
        street: &Street,
        handed: Option<&[Given]>,
    ) -> House {
        let (config, device) = config(plan);
        crate::watchdog::WATCHES_OURS.set(true);
        let (backend, files) = engine::open(plan, medium, handed);
        let backend = Box::new(backend);
        let opened = Desk::before(backend, Vec::new(), &config, &device, &Options::default());
        let opened = opened.expect("a desk");
        let mut catalog = Catalog::default();
        catalog.add(opened.exports, &opened.slot);
        let (door, inbox) = inbox().expect("an inbox");
        let lobby = Lobby::new(Arc::new(config), catalog, vec![street.clone()], None, inbox);
        let lobby = lobby.expect("a lobby");
        let (desk, letters) = (opened.desk, opened.slot);
        House { desk, lobby, is_paused: false, letters, door, opened: files }
    }

    /// A round of the lobby, and one of the loop.
    pub(super) fn turn(&mut self, now: Nanos) {
        self.lobby.clock = Clock::Told(now);
        self.desk.clock = Clock::Told(now);
        if !self.is_paused {
            self.lobby.round(&NO_TIME);
        }
        self.desk.look(&NO_TIME);
        self.desk.note_events();
        self.desk.round();
    }

    /// Asks the loop something; where its answer will be.
    pub(super) fn ask(&self, order: Order) -> Receiver<Answer> {
        let (answer, answers) = channel();
        self.letters.put(Letter::Asked(Asked { order, answer })).expect("the loop is there");
        answers
    }

    /// Tells the loop something of another server.
    pub(super) fn tell(&self, letter: handover::Letter) {
        let letter = Letter::Handover(handover::Post(Box::new(letter)));
        self.letters.put(letter).expect("the loop is there");
    }

    /// Clients that shake hands.
    pub(super) fn visitors(&self) -> u32 {
        self.lobby.visitors()
    }
}
