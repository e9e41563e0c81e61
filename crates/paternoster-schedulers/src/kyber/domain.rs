// SPDX-License-Identifier: MIT OR Apache-2.0
//! Domains: reads, writes, discards and the rest, in turns and by tokens.
//!
//! Waiting requests are in one line per domain, first come first served. The lines take turns: 16
//! reads, 8 writes, one discard, one of the rest; a line that is empty, or may not go, is passed
//! over. Each request takes a token of its domain along and returns it at its end. A domain without
//! tokens waits, the others go on:
//!
//! ```text
//!            waiting      in flight   tokens
//! reads      ◦◦◦◦◦◦◦◦     •••••         256      16 in a row
//! writes     ◦◦◦          ••            128       8
//! discards   ◦            (64)           64       1     waits for a token, the others go on
//! the rest                               16       1
//! ```
//!
//! A token is a place in the list of requests in flight: nothing is counted twice, and the audit
//! can check what each of them is doing.
//!
//! # Invariants
//! I1  A request is in the line of its own domain exactly while it waits.
//! I2  It is in flight from its pick until it waits again (the device refused it) or is released.
//!
//! Source: KY-5, KY-8.
//!
//! Differs: tokens are a number. Linux's are bits, and a smaller depth uses the lower ones: when a
//! depth shrinks, there a request may go once a lower bit is free, here once enough requests have
//! ended.

use alloc::format;

use paternoster_core::elevator::{Fault, Position};
use paternoster_core::event::Note;
use paternoster_core::list::{Links, List};
use paternoster_core::{Op, QueueView, RequestId, Stage};

/// How many domains there are.
pub(super) const DOMAINS: usize = 4;

/// How many requests of each domain may be in flight.
pub(super) type Depths = [u32; DOMAINS];

/// For a forced dispatch: any number.
pub(super) const NO_LIMIT: Depths = [u32::MAX; DOMAINS];

/// The constants of a domain.
#[derive(Debug)]
pub(super) struct Kind {
    /// The name of a request of this domain.
    pub(super) name: &'static str,
    /// The operation that notes name it by.
    pub(super) op: Op,
    /// How many may be in flight, at most.
    pub(super) tokens: u32,
    /// How many go in a row.
    pub(super) batch: u32,
}

/// The domains, in the order of their turns.
pub(super) static KINDS: [Kind; DOMAINS] = [
    Kind { name: "read", op: Op::Read, tokens: 256, batch: 16 },
    Kind { name: "write", op: Op::Write, tokens: 128, batch: 8 },
    Kind { name: "discard", op: Op::Discard, tokens: 64, batch: 1 },
    Kind { name: "other request", op: Op::Flush, tokens: 16, batch: 1 },
];

/// The domain of a request.
pub(super) fn domain_of(view: &QueueView, request: RequestId) -> usize {
    match view.request(request).op() {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
        // Flushes without data never come here; this is for operations that are yet to be added.
        _ => 3,
    }
}

/// The requests of one domain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Domain {
    pub(super) waiting: List,
    /// Requests in flight; each has one token.
    pub(super) in_flight: List,
    /// It is out of tokens, and that was noted, since the last of its requests went.
    throttled: bool,
}

/// All domains, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Domains {
    links: Links,
    each: [Domain; DOMAINS],
    turn: usize,
    /// How many requests have gone in this turn.
    batching: u32,
}

impl Domains {
    /// Empty domains, for requests in slots below `slots`.
    pub(super) fn with_capacity(slots: u32) -> Domains {
        Domains { links: Links::with_capacity(slots), ..Domains::default() }
    }

    /// A request begins to wait, perhaps again: then it returns its token.
    pub(super) fn insert(&mut self, view: &QueueView, request: RequestId, position: Position) {
        let domain = domain_of(view, request);
        self.end_flight(domain, request);
        let waiting = &mut self.each[domain].waiting;
        match position {
            Position::Sorted => waiting.push_back(&mut self.links, request.index()),
            Position::Head => waiting.push_front(&mut self.links, request.index()),
        }
    }

    /// The device refused a request, which is about to wait again: it goes first (BLK-9), so its
    /// domain has the turn. A device that takes it only when it is empty would otherwise never be.
    pub(super) fn refused(&mut self, view: &QueueView, request: RequestId) {
        (self.turn, self.batching) = (domain_of(view, request), 0);
    }

    /// A request stops waiting without being picked.
    pub(super) fn remove(&mut self, view: &QueueView, request: RequestId) {
        let waiting = &mut self.each[domain_of(view, request)].waiting;
        waiting.remove(&mut self.links, request.index());
    }

    /// A request ends its life: if it had been picked, it returns its token.
    pub(super) fn release(&mut self, view: &QueueView, request: RequestId) {
        self.end_flight(domain_of(view, request), request);
    }

    /// A request that does not wait is in flight, or in no list.
    fn end_flight(&mut self, domain: usize, request: RequestId) {
        if self.links.contains(request.index()) {
            self.each[domain].in_flight.remove(&mut self.links, request.index());
        }
    }

    /// Whether a request is in a list: one that has been picked is then in flight.
    pub(super) fn contains(&self, request: RequestId) -> bool {
        self.links.contains(request.index())
    }

    /// The next request, which takes a token along: from the current domain until its batch is
    /// full, then from the next domain that has one and a token for it.
    pub(super) fn take(&mut self, view: &mut QueueView, depths: &Depths) -> Option<RequestId> {
        if self.batching < KINDS[self.turn].batch
            && let Some(request) = self.take_of_turn(view, depths)
        {
            return Some(request);
        }
        self.batching = 0;
        (0..DOMAINS).find_map(|_| {
            self.turn = (self.turn + 1) % DOMAINS;
            self.take_of_turn(view, depths)
        })
    }

    fn take_of_turn(&mut self, view: &mut QueueView, depths: &Depths) -> Option<RequestId> {
        let domain = &mut self.each[self.turn];
        let first = domain.waiting.first()?;
        let was_throttled = domain.throttled;
        domain.throttled = domain.in_flight.len() >= depths[self.turn];
        if domain.throttled {
            if !was_throttled {
                view.note(Note::Throttled { op: KINDS[self.turn].op });
            }
            return None;
        }
        domain.waiting.remove(&mut self.links, first);
        domain.in_flight.push_back(&mut self.links, first);
        self.batching += 1;
        Some(RequestId::from_index(first))
    }

    /// How many wait, in all domains.
    pub(super) fn waiting(&self) -> u32 {
        self.each.iter().map(|domain| domain.waiting.len()).sum()
    }

    /// One domain.
    pub(super) const fn get(&self, domain: usize) -> &Domain {
        &self.each[domain]
    }

    /// Whose turn it is, and how many have gone in it.
    pub(super) const fn turn(&self) -> (usize, u32) {
        (self.turn, self.batching)
    }

    /// How many requests are before this one in its line. O(n).
    pub(super) fn before(&self, view: &QueueView, request: RequestId) -> usize {
        let waiting = &self.each[domain_of(view, request)].waiting;
        waiting.iter(&self.links).take_while(|&index| index != request.index()).count()
    }

    /// Verifies I1 and I2. O(n).
    pub(super) fn check(&self, view: &QueueView) -> Result<(), Fault> {
        for (number, domain) in self.each.iter().enumerate() {
            domain.waiting.check(&self.links)?;
            domain.in_flight.check(&self.links)?;
            let waiting = domain.waiting.iter(&self.links).map(|index| (index, "I1", true));
            let in_flight = domain.in_flight.iter(&self.links).map(|index| (index, "I2", false));
            for (index, rule, waits) in waiting.chain(in_flight) {
                let request = RequestId::from_index(index);
                let name = KINDS[number].name;
                if !view.is_live(RequestId::from_index(index)) {
                    return Err(format!("{rule}: request {index} has ended as a {name}"));
                }
                let stage = view.request(request).stage();
                let right = match stage {
                    Stage::Waiting => waits,
                    Stage::Dispatched | Stage::InDevice => !waits,
                    Stage::Free | Stage::Plugged | Stage::Throttled | Stage::Flushing => false,
                };
                if !right || domain_of(view, request) != number {
                    return Err(format!("{rule}: request {index} is {stage:?} as a {name}"));
                }
            }
        }
        Ok(())
    }
}
