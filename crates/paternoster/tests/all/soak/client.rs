// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client of the soak: random requests on its region of a volume, never two on one byte at a
//! time; it repeats unanswered ones after a reconnect, and judges every answer.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use paternoster_sim::chance::Chance;

use super::model::Model;
use super::stream::{Answer, Door, FUA, Span, Stream, TRIM, ZEROES};
use crate::upgrade::{READ, WRITE, flagged, until};

pub(crate) const REGION: usize = 64 << 10;
const FLUSH: u16 = 3;
/// Requests in flight.
const DEPTH: usize = 6;
/// Bytes of a request at most.
const MOST: u64 = 12 << 10;

/// A client's nature.
pub(crate) struct Kind {
    pub(crate) door: Door,
    pub(crate) export: &'static str,
    /// First byte of its region.
    pub(crate) first: u64,
    pub(crate) is_structured: bool,
    /// The errno of its device's faults; with one it neither flushes nor uses FUA: a server treats
    /// a failed one as lost data, for good.
    pub(crate) fault: Option<u32>,
    /// The time between an answer and the next request.
    pub(crate) pause: Duration,
    pub(crate) seed: u64,
}

/// What all clients together have seen.
#[derive(Default)]
pub(crate) struct Met {
    pub(crate) answers: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// A request that is not answered.
struct Asked {
    kind: u16,
    flags: u16,
    span: Span,
    payload: Vec<u8>,
}

impl Asked {
    fn bytes(&self, cookie: u64) -> Vec<u8> {
        let Asked { kind, flags, span, .. } = *self;
        let payload = if kind == WRITE { &self.payload[..] } else { &[] };
        flagged(flags, kind, cookie, span.at, u32::try_from(span.length).expect("short"), payload)
    }

    fn meets(&self, other: &Asked) -> bool {
        let (a, b) = (self.span, other.span);
        a.at < b.at + b.length as u64 && b.at < a.at + a.length as u64
    }
}

/// Bytes by which neighbours can be told apart by their place.
pub(crate) fn fill(tag: u64, length: usize) -> Vec<u8> {
    let at = |at: usize| (tag + 31 * at as u64 + at as u64 / 256).to_le_bytes()[0];
    (0..length).map(at).collect()
}

pub(crate) struct Client<'a> {
    kind: Kind,
    met: &'a Met,
    chance: Chance,
    model: Model,
    pending: BTreeMap<u64, Asked>,
    cookie: u64,
    came: u64,
}

/// A client at its end: how often it connected, and what its region may hold.
pub(crate) struct Gone {
    pub(crate) export: &'static str,
    pub(crate) first: u64,
    pub(crate) came: u64,
    pub(crate) model: Model,
}

impl<'a> Client<'a> {
    pub(crate) fn new(kind: Kind, met: &'a Met) -> Client<'a> {
        let (chance, model) = (Chance::new(kind.seed, 1), Model::new(REGION));
        Client { kind, met, chance, model, pending: BTreeMap::new(), cookie: 0, came: 0 }
    }

    /// Works until it is to stop, and then until nothing is owed.
    pub(crate) fn work(mut self, stop: &AtomicBool) -> Gone {
        while !stop.load(Ordering::SeqCst) || !self.pending.is_empty() {
            let Kind { door, export, is_structured, .. } = &self.kind;
            let open = || Stream::open(door, export, *is_structured).ok();
            let mut stream = until(open, || format!("{export}: no server"));
            self.came += 1;
            self.met.connections.fetch_add(1, Ordering::SeqCst);
            if let Err(error) = self.talk(&mut stream, stop) {
                let ends =
                    [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
                // A request that is lost, or answered twice, is named by its cookie.
                let owed: Vec<u64> = self.pending.keys().copied().collect();
                let Kind { export, seed, .. } = &self.kind;
                let who = format!("{export}, client {seed}, connection {}", self.came);
                assert!(ends.contains(&error.kind()), "{who}: {error}; not answered: {owed:?}");
            }
        }
        let Kind { export, first, .. } = self.kind;
        Gone { export, first, came: self.came, model: self.model }
    }

    fn talk(&mut self, stream: &mut Stream, stop: &AtomicBool) -> Result<()> {
        for (cookie, asked) in &self.pending {
            stream.send(&asked.bytes(*cookie))?;
        }
        loop {
            while self.pending.len() < DEPTH && !stop.load(Ordering::SeqCst) {
                let asked = self.draw(stream.can_trim);
                if self.pending.values().any(|other| other.meets(&asked)) {
                    break;
                }
                self.cookie += 1;
                let bytes = asked.bytes(self.cookie);
                self.pending.insert(self.cookie, asked);
                stream.send(&bytes)?;
            }
            if self.pending.is_empty() {
                return Ok(());
            }
            let asked = |cookie: u64| {
                let asked = self.pending.get(&cookie)?;
                Some((asked.kind == READ).then_some(asked.span))
            };
            let answer = stream.hear(asked)?;
            self.judge(&answer);
            std::thread::sleep(self.kind.pause);
        }
    }

    fn draw(&mut self, can_trim: bool) -> Asked {
        let chance = &mut self.chance;
        let is_whole = chance.once_in(2);
        let length = 1 + chance.below(MOST);
        let at = chance.below(REGION as u64 - length);
        // Half of the requests are of whole blocks.
        let (at, length) =
            if is_whole { (at & !4095, (length + 4095) & !4095) } else { (at, length) };
        let mut length = usize::try_from(length).expect("short");
        let (mut kind, mut flags) = match chance.below(16) {
            0 => (FLUSH, 0),
            1 => (ZEROES, 0),
            2 => (TRIM, 0),
            3 => (WRITE, FUA),
            4..8 => (READ, 0),
            _ => (WRITE, 0),
        };
        if self.kind.fault.is_some() && (kind == FLUSH || flags == FUA) {
            (kind, flags) = (READ, 0);
        }
        if kind == TRIM && !can_trim {
            kind = READ;
        }
        length = length.min(REGION - usize::try_from(at).expect("short"));
        let mut span = Span { at: self.kind.first + at, length };
        if kind == FLUSH {
            span = Span { at: 0, length: 0 };
        }
        let payload = match kind {
            WRITE => fill(chance.next(), length),
            ZEROES | TRIM => vec![0; length],
            _ => Vec::new(),
        };
        Asked { kind, flags, span, payload }
    }

    fn judge(&mut self, answer: &Answer) {
        let Answer { cookie, errno, data } = answer;
        let Asked { kind, span, payload, .. } = self.pending.remove(cookie).expect("it was asked");
        let at = usize::try_from(span.at.saturating_sub(self.kind.first)).expect("short");
        self.met.answers.fetch_add(1, Ordering::SeqCst);
        self.met.bytes.fetch_add(span.length as u64, Ordering::SeqCst);
        if *errno != 0 {
            let export = self.kind.export;
            assert_eq!(Some(*errno), self.kind.fault, "{export}: errno for request {kind} {at}");
            self.met.failures.fetch_add(1, Ordering::SeqCst);
        }
        match kind {
            READ if *errno == 0 => {
                let seen = self.model.saw(at, data);
                seen.unwrap_or_else(|what| panic!("{}: {what}", self.kind.export));
            }
            WRITE | ZEROES if *errno == 0 => self.model.must(at, &payload),
            // A trim may do nothing.
            WRITE | ZEROES | TRIM => self.model.may(at, &payload),
            _ => {}
        }
    }
}
