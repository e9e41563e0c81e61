// SPDX-License-Identifier: MIT OR Apache-2.0
//! A choice as a number that can be compared with recordings: a yes or no, a span of time, a queue,
//! a request, one of several kinds; or nothing.
//!
//! ```text
//! bool              0, 1
//! Nanos             nanoseconds
//! RequestId         its slot
//! Kind              0 async, 1 not idled for, 2 idled for
//! Preemption        its place among CFQ's rules
//! Option            no number for `None`
//! ```
//!
//! Source: ours.

use crate::cfq::kind::{KINDS, Kind};
use paternoster_core::RequestId;
use paternoster_core::event::Preemption;
use paternoster_core::time::Nanos;

/// A value that a decision may choose.
pub trait Choice: Copy {
    /// The value as a number.
    fn number(self) -> Option<i64>;

    /// The choice of this number.
    fn chosen(number: Option<i64>) -> Self;
}

const PREEMPTIONS: [Preemption; 8] = [
    Preemption::OverIdleClass,
    Preemption::SyncOverAsync,
    Preemption::SliceUsed,
    Preemption::NextInTurn,
    Preemption::Urgent,
    Preemption::Realtime,
    Preemption::NotIdledFor,
    Preemption::Close,
];

/// The index of `wanted` in `all`.
fn place<T: PartialEq>(all: &[T], wanted: &T) -> Option<i64> {
    all.iter().position(|one| one == wanted).and_then(|place| place.try_into().ok())
}

fn at<T: Copy>(all: &[T], number: Option<i64>) -> Option<T> {
    all.get(usize::try_from(number?).ok()?).copied()
}

impl Choice for bool {
    fn number(self) -> Option<i64> {
        Some(self.into())
    }

    fn chosen(number: Option<i64>) -> bool {
        number == Some(1)
    }
}

impl Choice for i64 {
    fn number(self) -> Option<i64> {
        Some(self)
    }

    fn chosen(number: Option<i64>) -> i64 {
        number.unwrap_or(0)
    }
}

impl Choice for u64 {
    fn number(self) -> Option<i64> {
        self.try_into().ok()
    }

    fn chosen(number: Option<i64>) -> u64 {
        number.and_then(|number| number.try_into().ok()).unwrap_or(0)
    }
}

impl Choice for u32 {
    fn number(self) -> Option<i64> {
        Some(self.into())
    }

    fn chosen(number: Option<i64>) -> u32 {
        number.and_then(|number| number.try_into().ok()).unwrap_or(0)
    }
}

impl Choice for Nanos {
    fn number(self) -> Option<i64> {
        self.0.number()
    }

    fn chosen(number: Option<i64>) -> Nanos {
        Nanos(u64::chosen(number))
    }
}

impl Choice for RequestId {
    fn number(self) -> Option<i64> {
        self.index().number()
    }

    fn chosen(number: Option<i64>) -> RequestId {
        RequestId::from_index(u32::chosen(number))
    }
}

impl Choice for Kind {
    fn number(self) -> Option<i64> {
        place(&KINDS, &self)
    }

    fn chosen(number: Option<i64>) -> Kind {
        at(&KINDS, number).unwrap_or_default()
    }
}

impl Choice for Preemption {
    fn number(self) -> Option<i64> {
        place(&PREEMPTIONS, &self)
    }

    fn chosen(number: Option<i64>) -> Preemption {
        at(&PREEMPTIONS, number).unwrap_or(Preemption::Close)
    }
}

impl<C: Choice> Choice for Option<C> {
    fn number(self) -> Option<i64> {
        self.and_then(Choice::number)
    }

    fn chosen(number: Option<i64>) -> Option<C> {
        number.map(|number| C::chosen(Some(number)))
    }
}
