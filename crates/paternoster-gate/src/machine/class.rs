// SPDX-License-Identifier: MIT OR Apache-2.0
//! Class: which clients share with which. A tree of weights, translated into the queue's terms.
//!
//! A class with none below it is a client of the queue. The first class below it makes it a group,
//! and its own client becomes a member of that:
//!
//! ```text
//! reads 400                    client "reads"
//! reads 400 ─┬─ (itself) 100   group "reads" with a client of its own
//!            ├─ alice 100      client
//!            └─ bob 300        client
//! ```

use alloc::string::String;

use paternoster_core::list::List;
use paternoster_core::{Class as Urgency, ClientId, GroupId, Nanos, Priority};

use super::rates::{Cap, Floor, Rate};

/// The weight of a class unless set.
pub(super) const WEIGHT: u32 = 100;
/// A background class weighs its weight divided by this.
const BACKGROUND: u32 = 16;
/// The largest weight that the queue takes.
const WEIGHT_MOST: u32 = 10_000;

/// Names a class of a gate. The id of a closed class is recognised as stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(super) paternoster_core::slab::Key);

impl ClassId {
    /// A small number, unique among the present classes: an index for tables.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0.index()
    }
}

/// The kind of a class, in addition to its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Kind {
    /// The class shares by weight.
    #[default]
    Normal,
    /// The class always goes before its siblings, which get what it leaves.
    Urgent,
    /// It shares by a sixteenth of its weight: never starved, hardly noticed.
    Background,
    /// It gets what its siblings leave; one permit in 200 ms while they want everything.
    Idle,
}

/// A class to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSpec {
    pub(super) name: String,
    pub(super) weight: u32,
    pub(super) kind: Kind,
    pub(super) below: Option<ClassId>,
    pub(super) cap: Rate,
    pub(super) floor: Rate,
}

impl ClassSpec {
    /// A class with this name, weight 100, of the normal kind, below no other.
    #[must_use]
    pub fn new(name: &str) -> ClassSpec {
        let (weight, kind, none) = (WEIGHT, Kind::Normal, Rate::NONE);
        ClassSpec { name: name.into(), weight, kind, below: None, cap: none, floor: none }
    }

    /// Share relative to the siblings: 1 to 10,000; other values are clamped to that range.
    #[must_use]
    pub const fn weight(mut self, weight: u32) -> ClassSpec {
        self.weight = weight;
        self
    }

    /// Urgent, background, idle.
    #[must_use]
    pub const fn kind(mut self, kind: Kind) -> ClassSpec {
        self.kind = kind;
        self
    }

    /// It shares what `class` gets with the other classes below that and with asks for `class`
    /// itself, which weigh 100 among them. Only a class of the normal kind has others below it.
    #[must_use]
    pub const fn below(mut self, class: ClassId) -> ClassSpec {
        self.below = Some(class);
        self
    }

    /// It and those below it are granted no more than this, even while nothing else asks; a burst
    /// of a tenth of a second's worth is allowed.
    #[must_use]
    pub const fn cap(mut self, rate: Rate) -> ClassSpec {
        self.cap = rate;
        self
    }

    /// It is granted no less than this while it asks for that much, whatever its weight, if the
    /// device can do the sum of all floors. A cap takes precedence over a floor. Only a class with
    /// none below it can have a floor.
    #[must_use]
    pub const fn floor(mut self, rate: Rate) -> ClassSpec {
        self.floor = rate;
        self
    }
}

/// The state of a class.
#[derive(Debug, Clone, Default)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) weight: u32,
    pub(super) kind: Kind,
    pub(super) above: Option<ClassId>,
    pub(super) client: ClientId,
    /// Set once a class was opened below it.
    pub(super) group: Option<GroupId>,
    pub(super) below: u32,
    pub(super) waiting: u32,
    pub(super) inside: u32,
    pub(super) counts: Counts,
    pub(super) pace: super::eta::Pace,
    pub(super) corrections: super::eta::Corrections,
    pub(super) cap: Cap,
    /// Asks that wait for its cap, or for one above it.
    pub(super) kept: List,
    pub(super) floor: Floor,
    /// While it has a floor: asks that wait in the queue for its usual client.
    pub(super) queued: List,
    /// The client for asks that the floor moves, and how many wait for it.
    pub(super) urgent: Option<ClientId>,
    pub(super) moved: u32,
    /// Start tags: the class's own among its siblings; that of its own asks among its child
    /// classes; and that of the child that was let in last.
    pub(super) tag: u64,
    pub(super) own_tag: u64,
    pub(super) tag_below: u64,
}

impl Class {
    /// Its weight among its siblings.
    pub(super) fn effective_weight(&self) -> u32 {
        let weight = self.weight.clamp(1, WEIGHT_MOST);
        if self.kind == Kind::Background { (weight / BACKGROUND).max(1) } else { weight }
    }

    /// The weight of its line at a cap, among those of its siblings.
    pub(super) fn weight_in_line(&self) -> u64 {
        u64::from(if self.kind == Kind::Idle { 1 } else { self.effective_weight() })
    }

    /// The weight of its client, among the classes below it or its siblings.
    pub(super) fn client_weight(&self) -> u32 {
        if self.group.is_some() { WEIGHT } else { self.effective_weight() }
    }

    pub(super) fn priority(&self) -> Priority {
        let class = match self.kind {
            Kind::Urgent => Urgency::Realtime,
            Kind::Idle => Urgency::Idle,
            Kind::Normal | Kind::Background => Urgency::BestEffort,
        };
        Priority { class, ..Priority::default() }
    }
}

/// What a class has received; see [`super::Core::counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Permits requested.
    pub asked: u64,
    /// Permits given.
    pub granted: u64,
    /// Permits given back.
    pub given_back: u64,
    /// Permits that were never given back, and expired.
    pub expired: u64,
    /// Asks that were withdrawn before they were granted.
    pub withdrawn: u64,
    /// Asks that were refused, or given up, because their deadline could not be kept.
    pub too_late: u64,
    /// Bytes of the permits that were given back.
    pub bytes: u64,
    /// Device time: while k permits are out, each is charged 1/k of the time that passes.
    pub device_time: Nanos,
    /// Total waiting time for permits that were given.
    pub waited: Nanos,
}
