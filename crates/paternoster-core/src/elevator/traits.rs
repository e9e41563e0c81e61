// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traits: what an elevator says of itself, so that a queue need not ask with each request.
//!
//! ```text
//! new queue, change of elevator ─┐
//!                                ├─▶ Elevator::traits ──▶ kept by the queue, read with each bio
//! an attribute was set ──────────┘
//! ```
//!
//! What may differ from one request to the next is a method of [`Elevator`]; what an elevator is,
//! or what an attribute makes of it, is here.
//!
//! # Invariants
//! I1  Between two attributes that are set an elevator always says the same (the audit compares).
//!
//! Source: ours; in Linux these are flags of an elevator's type, and of the queue.
//!
//! [`Elevator`]: super::Elevator

use super::Place;

/// Which of the two block layers of Linux an elevator was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// The single queue until 5.0: request pools with batching, sorted dispatch list, requeue to
    /// its head.
    #[default]
    Legacy,
    /// blk-mq: tags, requeue through the scheduler.
    Mq,
}

/// What an elevator is.
///
/// ```
/// use paternoster_core::elevator::{Rules, Traits};
///
/// let traits = Traits { merges_front: true, ..Traits::mq("lottery") };
/// assert_eq!((traits.name, traits.rules), ("lottery", Rules::Mq));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// The name it is chosen by.
    pub name: &'static str,
    /// The block layer it was made for.
    pub rules: Rules,
    /// Whether it only passes requests on, so that under mq rules they are the device's own tags
    /// and no more of them are useful (BLK-8, a hardware queue without scheduler).
    pub passes_through: bool,
    /// Whether bios are merged before waiting requests too, and not only behind them.
    pub merges_front: bool,
    /// Whether a request that has become free is for those that slept before, under mq rules.
    /// Otherwise it may go to one that comes sooner, be it the client whose request has just ended;
    /// but no client is passed over so twice.
    pub admits_in_turn: bool,
    /// Whether a fresh request may be inserted at the head, past its client's turn.
    pub inserts_at_head: bool,
    /// Whether what [`Elevator::charge`](super::Elevator::charge) answers is for the other owners
    /// of flushes, too, because it counts clients that have nothing waiting.
    pub charges_for_owners: bool,
    /// Where a forced dispatch puts what it drains (legacy rules; under mq it is the tail).
    pub drain_place: Place,
}

impl Traits {
    /// One of this name and these rules, without anything special.
    #[must_use]
    pub const fn new(name: &'static str, rules: Rules) -> Traits {
        Traits {
            name,
            rules,
            passes_through: false,
            merges_front: false,
            admits_in_turn: false,
            inserts_at_head: false,
            charges_for_owners: false,
            drain_place: Place::Sorted,
        }
    }

    /// One that was made for the legacy block layer.
    #[must_use]
    pub const fn legacy(name: &'static str) -> Traits {
        Traits::new(name, Rules::Legacy)
    }

    /// One that was made for blk-mq.
    #[must_use]
    pub const fn mq(name: &'static str) -> Traits {
        Traits::new(name, Rules::Mq)
    }
}
