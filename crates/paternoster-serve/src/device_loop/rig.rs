// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rig: a loop in simulated time, with a device that does everything at once, for tests that count.
//!
//! ```text
//! test ─▶ client ══ socket pair ══▶ loop (as in production) ─▶ device: nothing is stored
//! ```
//!
//! One thread does everything; time passes only when a test says so.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use paternoster_core::{DeviceFacts, Nanos};

use super::inbox::Slot;
use super::{DeviceLoop, Message, NO_TIME, Newcomer, Opened, Seat};
use crate::clock::Clock;
use crate::config::{Config, Device, Direct, Engine, Volume};
use crate::device::{Backend, Extent, FileFacts, Finished, Full, Job};
use crate::nbd::Negotiated;
use crate::server::Options;
use crate::wire::Wire;

pub(super) const READ: u16 = 0;
pub(super) const WRITE: u16 = 1;
pub(super) const TRIM: u16 = 4;
pub(super) const CACHE: u16 = 5;
pub(super) const ZEROES: u16 = 6;
pub(super) const STATUS: u16 = 7;
/// Bytes of the volume, and of the loop's memory.
pub(super) const SIZE: u64 = 8 << 30;
pub(super) const MEMORY: u64 = 4 << 20;
/// Bytes of a block.
pub(super) const BLOCK: u64 = 4096;

/// Ends each job when it is next asked, unless it holds back. Every second block is a hole.
#[derive(Default)]
pub(super) struct Prompt {
    held: Vec<Finished>,
    holds: Arc<AtomicBool>,
    runs_told: Arc<AtomicU32>,
    commands: Arc<AtomicU32>,
    longest: Arc<AtomicU64>,
}

impl Prompt {
    /// While it is set the device ends nothing.
    pub(super) fn holds(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.holds)
    }
}

// SAFETY: it never touches a piece.
unsafe impl Backend for Prompt {
    fn describe(&self) -> String {
        "nothing".to_owned()
    }

    fn facts(&self) -> DeviceFacts {
        DeviceFacts { depth: 32, fua: true, ..DeviceFacts::default() }
    }

    fn file(&self, _: u16) -> FileFacts {
        FileFacts::of_a_test(SIZE, 4096)
    }

    unsafe fn submit(&mut self, _: Nanos, job: Job<'_>) -> Result<(), Full> {
        self.commands.fetch_add(1, Ordering::SeqCst);
        self.longest.fetch_max(job.length, Ordering::SeqCst);
        self.held.push(Finished { slot: job.slot, error: 0 });
        Ok(())
    }

    fn kick(&mut self) {}

    fn reap(&mut self, _: Nanos, finished: &mut Vec<Finished>) {
        if !self.holds.load(Ordering::SeqCst) {
            finished.append(&mut self.held);
        }
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn extents(
        &mut self,
        _: u16,
        _: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> std::io::Result<()> {
        let mut runs =
            (0..length / BLOCK).map(|which| Extent { length: BLOCK, hole: which % 2 == 1 });
        while runs.next().is_some_and(|run| {
            self.runs_told.fetch_add(1, Ordering::SeqCst);
            each(run)
        }) {}
        Ok(())
    }
}

/// A loop and its device.
pub(super) struct Rig {
    pub(super) device_loop: DeviceLoop,
    /// While it is set the device ends nothing.
    pub(super) holds: Arc<AtomicBool>,
    /// Runs of hole and data that the device has reported.
    pub(super) runs_told: Arc<AtomicU32>,
    /// Commands that the device was given.
    pub(super) commands: Arc<AtomicU32>,
    /// Bytes of the longest of them.
    pub(super) longest: Arc<AtomicU64>,
    pub(super) now: Nanos,
    /// A clock that advances by this many nanoseconds at each look, instead of standing still in a
    /// turn.
    pub(super) work: Option<(&'static AtomicU64, u64)>,
    number: u64,
    seats: Arc<AtomicU32>,
    pub(super) exports: Vec<crate::nbd::ExportFacts>,
    pub(super) config: Config,
    /// The inbox into which a negotiation puts new clients.
    pub(super) messages: Slot<Message>,
}

impl Rig {
    /// A loop under `scheduler`, configured otherwise by `settle`.
    pub(super) fn new(scheduler: &str, settle: impl FnOnce(&mut Config)) -> Rig {
        crate::log::SILENT.set(true);
        let device = Device {
            name: "dev".to_owned(),
            scheduler: scheduler.to_owned(),
            attributes: Vec::new(),
            depth: None,
            memory: MEMORY,
            direct: Direct::Auto,
            engine: Engine::Auto,
            delay_bound: None,
            volumes: vec![Volume::new("disk", "disk")],
        };
        let mut config = Config { devices: vec![device], ..Config::default() };
        settle(&mut config);
        let holds = Arc::new(AtomicBool::new(false));
        let runs_told = Arc::new(AtomicU32::new(0));
        let commands = Arc::new(AtomicU32::new(0));
        let longest = Arc::new(AtomicU64::new(0));
        let backend = Box::new(Prompt {
            held: Vec::new(),
            holds: Arc::clone(&holds),
            runs_told: Arc::clone(&runs_told),
            commands: Arc::clone(&commands),
            longest: Arc::clone(&longest),
        });
        let device = &config.devices[0];
        let opened = DeviceLoop::before(backend, Vec::new(), &config, device, &Options::default());
        let Opened { mut device_loop, exports, slot: messages, .. } = opened.expect("a loop");
        device_loop.time.clock = Clock::Told(Nanos::ZERO);
        let seats = Arc::new(AtomicU32::new(0));
        Rig {
            device_loop,
            holds,
            runs_told,
            commands,
            longest,
            now: Nanos::ZERO,
            work: None,
            number: 0,
            seats,
            exports,
            config,
            messages,
        }
    }

    /// A client of this tenant.
    pub(super) fn connect(&mut self, tenant: &str) -> Client {
        let (stream, theirs) = UnixStream::pair().expect("sockets");
        theirs.set_nonblocking(true).expect("a socket");
        stream.set_nonblocking(true).expect("a socket");
        self.number += 1;
        self.device_loop.welcome(Newcomer {
            handed: None,
            link: Wire::plain(OwnedFd::from(theirs)).into(),
            negotiated: Negotiated {
                export: "disk".to_owned(),
                facts: self.exports[0].clone(),
                structured: true,
                allocation: true,
                block_sizes_known: false,
            },
            id: self.number,
            peer: format!("client {}", self.number).into(),
            pid: 0,
            tenant: tenant.to_owned(),
            identity: None,
            input: Vec::new(),
            output: Vec::new(),
            seat: Seat::take(&self.seats, u32::MAX).expect("a seat"),
        });
        Client { stream, last: Vec::new(), cookie: 0, input: Vec::new() }
    }

    /// A turn of the loop, after this much time.
    pub(super) fn turn(&mut self, passes: Nanos) {
        let _more = self.turns_out(passes);
    }

    /// As [`Rig::turn`]; whether there is more to do at once.
    fn turns_out(&mut self, passes: Nanos) -> bool {
        self.now += passes;
        self.device_loop.time.clock = match self.work {
            None => Clock::Told(self.now),
            Some((clock, each)) => Clock::Passing(clock, each),
        };
        let sockets = self.device_loop.connections.len();
        self.device_loop.poller.look(sockets, &NO_TIME);
        self.device_loop.note_events();
        let until = self.device_loop.turn();
        !self.device_loop.connections.turns.is_empty()
            || until.is_some_and(|until| until <= self.now)
    }

    /// Turns at one instant: as many as a request takes from its header to its answer, and then
    /// until there is nothing to do at once.
    pub(super) fn settle(&mut self) {
        for turn in 0..1000 {
            if !self.turns_out(Nanos::ZERO) && turn >= 16 {
                return;
            }
        }
    }
}

/// A client with structured replies.
pub(super) struct Client {
    pub(super) stream: UnixStream,
    /// The last request, as it was sent.
    pub(super) last: Vec<u8>,
    cookie: u64,
    input: Vec<u8>,
}

impl Client {
    /// Sends a request; its cookie.
    pub(super) fn send(&mut self, kind: u16, at: u64, length: u64, payload: &[u8]) -> u64 {
        self.send_flagged(0, kind, at, length, payload)
    }

    /// Sends a request with flags; see [`Client::send`].
    pub(super) fn send_flagged(
        &mut self,
        flags: u16,
        kind: u16,
        at: u64,
        length: u64,
        payload: &[u8],
    ) -> u64 {
        self.cookie += 1;
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(at.to_be_bytes());
        bytes.extend(u32::try_from(length).expect("a length").to_be_bytes());
        bytes.extend(payload);
        self.stream.write_all(&bytes).expect("room in the socket");
        self.last = bytes;
        self.cookie
    }

    /// What has been answered since the last time: cookies, and errnos.
    pub(super) fn answers(&mut self) -> Vec<(u64, u32)> {
        let mut bytes = [0; 1 << 16];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let mut told = Vec::new();
        while let Some((length, answer)) = first(&self.input) {
            self.input.drain(..length);
            told.extend(answer);
        }
        told
    }
}

/// The first reply, or chunk, if it is whole: its length; what it says if it is the last.
fn first(input: &[u8]) -> Option<(usize, Option<(u64, u32)>)> {
    let number = |at: usize| Some(u32::from_be_bytes(*input.get(at..)?.first_chunk()?));
    let cookie = u64::from_be_bytes(*input.get(8..)?.first_chunk()?);
    if number(0)? == 0x6744_6698 {
        return Some((16, Some((cookie, number(4)?))));
    }
    let (head, length) = (number(4)?, 20 + number(16)? as usize);
    input.get(..length)?;
    let errno = if head >> 15 & 1 == 1 { number(20)? } else { 0 };
    let is_last = head >> 16 & 1 == 1;
    Some((length, is_last.then_some((cookie, errno))))
}
