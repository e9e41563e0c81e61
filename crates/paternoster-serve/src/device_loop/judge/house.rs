// SPDX-License-Identifier: MIT OR Apache-2.0
//! House: a whole server in the judge's thread, as it is started, lives and ends.
//!
//! ```text
//! client ─▶ street ─▶ Negotiation (production) ─▶ Loop (production) ─▶ medium
//!           (the one entrance)   └── export table, rules, seats ──┘
//! ```
//!
//! What is replaced: the clock (told), the listener (`Street`), the calls on files and the ring
//! (`calls`, `engine`), and the log, which is silent. Backends, negotiation, export table, rules,
//! seats, inboxes, loop, queue and recorded queue are those that serve. A server that dies leaves
//! the street and the medium; the next one finds them so.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use paternoster_core::Nanos;
use rustix::event::{EventfdFlags, eventfd};

use super::engine::{self, Given};
use super::medium::Medium;
use super::names::Names;
use super::plan::Plan;
use super::{NO_TIME, config};
use crate::clock::Clock;
use crate::config::{Identity, TlsMode};
use crate::control::order::{Answer, Asked, Order};
use crate::device::system::System;
use crate::device_loop::inbox::{Slot, inbox};
use crate::device_loop::{DeviceLoop, Message, handover};
use crate::export_table::ExportTable;
use crate::locked::locked;
use crate::negotiation::{Entrance, Negotiation, Who};
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
pub(in crate::device_loop) struct Street {
    waiting: Arc<Mutex<Waiting>>,
    /// Readable while one waits.
    bell: Arc<OwnedFd>,
}

impl Street {
    pub(in crate::device_loop) fn new() -> Street {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a bell");
        let waiting = Waiting { clients: VecDeque::new(), fails: None };
        Street { waiting: Arc::new(Mutex::new(waiting)), bell: Arc::new(bell) }
    }

    /// A client of this tenant comes; the call that lets it in fails first, if it is to.
    pub(in crate::device_loop) fn come(&self, socket: OwnedFd, tenant: usize, fails: Option<i32>) {
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

/// A server's process.
#[derive(Debug, Clone)]
pub(super) struct Own {
    /// Number of the server.
    pub(super) server: usize,
    /// The file system as this server sees it.
    pub(super) system: System,
}

impl Own {
    pub(super) fn new(plan: &Plan, medium: &Medium, names: &Names) -> Own {
        let server = medium.state().begin_again();
        Own { server, system: names.system(medium, server, plan) }
    }
}

thread_local! {
    /// Files that are to be closed.
    static CLOSES: RefCell<Vec<Box<dyn FnOnce() + Send>>> = const { RefCell::new(Vec::new()) };
}

/// Does the work of the thread that closes files: all that is due by now.
pub(super) fn close_files() {
    for closes in CLOSES.take() {
        closes();
    }
}

/// Forgets the work of that thread, which has ended with its process.
pub(super) fn forget_closing() {
    drop(CLOSES.take());
}

/// A server.
pub(super) struct House {
    pub(super) own: Own,
    pub(super) device_loop: DeviceLoop,
    pub(super) negotiation: Negotiation<Street>,
    /// Whether the loop waits for a verdict.
    pub(super) is_paused: bool,
    messages: Slot<Message>,
    /// The negotiation closes with it.
    pub(super) door: Slot<Word>,
}

impl House {
    /// A server that has just been started, with what another one has handed over.
    pub(super) fn open(
        plan: &Plan,
        medium: &Medium,
        street: &Street,
        own: Own,
        handed: &[Given],
    ) -> House {
        let (config, device) = config(plan);
        crate::watchdog::WATCHES_OURS.set(true);
        let backend = Box::new(engine::open(plan, medium, &own, handed));
        let options = Options { system: own.system.clone(), ..Options::default() };
        let opened = DeviceLoop::before(backend, Vec::new(), &config, &device, &options);
        let opened = opened.expect("a loop");
        let mut export_table = ExportTable::default();
        export_table.add(opened.exports, &opened.slot);
        let (door, inbox) = inbox().expect("an inbox");
        let negotiation =
            Negotiation::new(Arc::new(config), export_table, vec![street.clone()], None, inbox);
        let negotiation = negotiation.expect("a negotiation");
        let (mut device_loop, messages) = (opened.device_loop, opened.slot);
        device_loop.volumes.close_by(|closes| CLOSES.with_borrow_mut(|all| all.push(closes)));
        House { own, device_loop, negotiation, is_paused: false, messages, door }
    }

    /// Runs one round of the negotiation and one of the loop.
    pub(super) fn turn(&mut self, now: Nanos) {
        self.negotiation.clock = Clock::Told(now);
        self.device_loop.time.clock = Clock::Told(now);
        if !self.is_paused {
            self.negotiation.round(&NO_TIME);
        }
        let sockets = self.device_loop.connections.len();
        self.device_loop.poller.look(sockets, &NO_TIME);
        self.device_loop.note_events();
        self.device_loop.round();
    }

    /// Asks the loop something; where its answer will be.
    pub(super) fn ask(&self, order: Order) -> Receiver<Answer> {
        let (answer, answers) = channel();
        self.messages.put(Message::Asked(Asked { order, answer })).expect("the loop is there");
        answers
    }

    /// The loop's inbox.
    pub(super) const fn messages(&self) -> &Slot<Message> {
        &self.messages
    }

    /// Tells the loop something of another server.
    pub(super) fn tell(&self, message: handover::HandoverMessage) {
        let message = Message::Handover(handover::Post(Box::new(message)));
        self.messages.put(message).expect("the loop is there");
    }

    /// Clients that shake hands.
    pub(super) fn in_handshake(&self) -> u32 {
        self.negotiation.in_handshake()
    }
}
