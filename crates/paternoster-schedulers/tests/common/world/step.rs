// SPDX-License-Identifier: MIT OR Apache-2.0
//! Step: one thing that the caller does, drawn from a kind and a number, so that it shrinks well.
//!
//! A step names nothing that may be gone by the time it is done: its numbers choose among what
//! exists then (see [`choose`]), so that any part of a list of steps is a list of steps again.
//! Shrinking needs that. The kinds are weighted: a third are single bios, most others keep the
//! queue going, and what is rare for a caller (a change of elevator, stale handles) is rare here.
//!
//! # Invariants
//! I1  Each kind and number is a step, and the same pair always the same one.
//! I2  The plainest choice is the first: a read, after the last one, that ends well. Numbers shrink
//!     towards it.

use paternoster_core::Class;
use proptest::prelude::*;

/// Values of attributes: small, large, wrong, some attributes' words.
pub(super) const VALUES: [&str; 21] = [
    "0",
    "1",
    "2",
    "3",
    "5",
    "8",
    "40",
    "100",
    "1000",
    "18446744073709551615",
    "-1",
    "many",
    "mq",
    "legacy",
    "device",
    "probe",
    "off",
    "unqueueable",
    "writes",
    "head",
    "tail",
];

/// Its place in [`VALUES`]: the greatest number.
const GREATEST: u8 = 9;

/// What a bio is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Read,
    Write,
    SyncWrite,
    Discard,
    Flush,
    Fua,
    Preflush,
    PreflushFua,
    ReadFua,
    Alone,
    Urgent,
}

/// Where a bio is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Where {
    /// After the client's last.
    Behind,
    /// Before the client's last.
    Before,
    /// After another client's last.
    BehindOther(u8),
    At(u16),
    BeyondTheEnd,
}

/// How far time goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Span {
    /// To the time that the last `Wait` gave.
    Until,
    Micros(u16),
    Millis(u16),
    Hours(u16),
    /// Backwards: the queue takes it as no advance.
    Back,
}

/// How a command ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Ok,
    Served(u16),
    Failed(u8),
}

/// One thing that the caller does. Numbers choose among what exists.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Submit {
        who: u8,
        what: What,
        place: Where,
        sectors: u8,
    },
    /// Several bios one after the other, or with gaps, until one is not accepted.
    Burst {
        who: u8,
        what: What,
        at: u16,
        count: u8,
        gap: u8,
    },
    Pump,
    Next(u8),
    Complete(u8, End),
    Pass(Span),
    Requeue(u8),
    Cancel(u8),
    Plug(u8),
    Unplug(u8),
    ChangeElevator(u8),
    /// Puts the previous elevator back.
    RestoreElevator,
    Set {
        attribute: u8,
        value: u8,
    },
    Attach {
        group: u8,
        class: u8,
    },
    Detach(u8),
    SetPriority {
        who: u8,
        class: u8,
        level: u8,
    },
    Move {
        who: u8,
        group: u8,
    },
    AddGroup {
        parent: u8,
        weight: u16,
    },
    SetWeight {
        group: u8,
        weight: u16,
    },
    RemoveGroup(u8),
    DispatchAll,
    Explain(u8),
    /// Stale handles.
    Misuse(u8),
}

/// Takes a number apart, least significant choice first.
struct Dice(u32);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        let face = self.0 % sides;
        self.0 /= sides;
        face
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.roll(16)).unwrap_or(0)
    }

    fn short(&mut self, sides: u16) -> u16 {
        u16::try_from(self.roll(sides.into())).unwrap_or(0)
    }
}

impl What {
    fn roll(dice: &mut Dice) -> What {
        match dice.roll(32) {
            0..14 => What::Read,
            14..20 => What::Write,
            20..23 => What::SyncWrite,
            23 => What::Discard,
            24 => What::Flush,
            25 => What::Fua,
            26 => What::Preflush,
            27 => What::PreflushFua,
            28 => What::ReadFua,
            29 => What::Alone,
            _ => What::Urgent,
        }
    }
}

impl Where {
    fn roll(dice: &mut Dice) -> Where {
        match dice.roll(16) {
            0..7 => Where::Behind,
            7 | 8 => Where::Before,
            9..12 => Where::BehindOther(dice.byte()),
            12..15 => Where::At(dice.short(512)),
            _ if dice.roll(4) == 0 => Where::BeyondTheEnd,
            _ => Where::At(0),
        }
    }
}

impl Span {
    fn roll(dice: &mut Dice) -> Span {
        match dice.roll(16) {
            0..7 => Span::Until,
            7..11 => Span::Micros(dice.short(5000)),
            11..14 => Span::Millis(dice.short(200)),
            14 => Span::Back,
            _ => Span::Hours(dice.short(20)),
        }
    }
}

impl End {
    fn roll(dice: &mut Dice) -> End {
        match dice.roll(8) {
            0..5 => End::Ok,
            5 | 6 => End::Served(dice.short(10_000)),
            _ => End::Failed(dice.byte()),
        }
    }
}

impl Step {
    /// The step for a kind below 100; the rest is drawn from a number.
    pub(crate) fn draw(kind: u8, rest: u32) -> Step {
        let dice = &mut Dice(rest);
        match kind {
            0..33 => Step::Submit {
                who: dice.byte(),
                what: What::roll(dice),
                sectors: dice.byte(),
                place: Where::roll(dice),
            },
            33..36 => Step::Burst {
                who: dice.byte(),
                what: What::roll(dice),
                at: dice.short(512),
                count: dice.byte() + 4,
                gap: dice.byte() / 6,
            },
            36..48 => Step::Pump,
            48..54 => Step::Next(dice.byte()),
            54..68 => Step::Complete(dice.byte(), End::roll(dice)),
            68..75 => Step::Pass(Span::roll(dice)),
            75..78 => Step::Requeue(dice.byte()),
            78..81 => Step::Cancel(dice.byte()),
            81 | 82 => Step::Plug(dice.byte()),
            83 | 84 => Step::Unplug(dice.byte()),
            85 => Step::ChangeElevator(dice.byte()),
            86 if dice.roll(2) == 0 => Step::RestoreElevator,
            86 => Step::ChangeElevator(dice.byte()),
            87..90 => Step::Set { attribute: dice.byte() * 16 + dice.byte(), value: dice.byte() },
            90 => Step::Attach { group: dice.byte(), class: dice.byte() },
            91 => Step::Detach(dice.byte()),
            92 => Step::SetPriority { who: dice.byte(), class: dice.byte(), level: dice.byte() },
            93 => Step::Move { who: dice.byte(), group: dice.byte() },
            94 => Step::AddGroup { parent: dice.byte(), weight: dice.short(12_000) },
            95 => Step::SetWeight { group: dice.byte(), weight: dice.short(12_000) },
            96 => Step::RemoveGroup(dice.byte()),
            97 => Step::DispatchAll,
            98 => Step::Explain(dice.byte()),
            _ => Step::Misuse(dice.byte()),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    (0u8..100, any::<u32>()).prop_map(|(kind, rest)| Step::draw(kind, rest))
}

/// Random steps, at most `most`.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..=most)
}

/// Random steps, at most `most`, in which no hours go by. After hours most of what an elevator has
/// learned counts no more; in these it learns on.
pub(crate) fn steps_of_one_run(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = step().prop_map(|step| match step {
        Step::Pass(Span::Hours(hours)) => Step::Pass(Span::Millis(10 * hours)),
        other => other,
    });
    prop::collection::vec(step, 1..=most)
}

/// Random steps, at most `most`, after attributes were set, mostly to what is least or greatest.
pub(crate) fn steps_after_settings(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let value = prop_oneof![Just(0), Just(1), Just(GREATEST), any::<u8>()];
    let set = (any::<u8>(), value).prop_map(|(attribute, value)| Step::Set { attribute, value });
    let settings = prop::collection::vec(set, 1..=80);
    (settings, steps(most)).prop_map(|(settings, steps)| [settings, steps].concat())
}

/// The item that a random number means.
pub(super) fn choose<T>(items: &[T], number: u8) -> Option<&T> {
    if items.is_empty() { None } else { items.get(usize::from(number) % items.len()) }
}

pub(super) fn class(number: u8) -> Class {
    [Class::BestEffort, Class::Realtime, Class::Idle][usize::from(number) % 3]
}
