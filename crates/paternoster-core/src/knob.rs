// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knobs: an attribute of a component, written once.
//!
//! A [`Knob`] of a `T` states in one place an attribute's name, unit, range and meaning, and how it
//! is read from a `T` and set in one. A component has a table of them; the listing
//! ([`attributes`]), reading and setting all use the index into that table, so that none of them
//! can forget a row:
//!
//! ```text
//! Knob::time("slice_idle", Unit::Ms, "how long …", |t, _| t.idle, |t, _, idle| t.idle = idle)
//!             name         unit      help          read           set
//!      .at_most(10_000)
//!       range
//! ```
//!
//! `C` is the context for reading and setting: for elevators the [`QueueView`], which has the
//! ticks.
//!
//! # Invariants
//! I1  A setter is called only with values in the range.
//!
//! Source: `/sys/block/*/queue` and `iosched/` of Linux, where an attribute is one row as well.

use alloc::string::String;
use core::fmt;

use crate::attribute::{Attribute, AttributeError, Values};
use crate::queue_view::QueueView;
use crate::time::Nanos;
pub use crate::unit::Unit;

/// Times stay below twelve days in milliseconds: sums of them never exceed 64 bits.
const TIME_MAX: u64 = 1_000_000_000;

/// The greatest number, unless a knob sets another limit.
const NUMBER_MAX: u64 = i32::MAX as u64;

type Get<T, C, V> = fn(&T, &C) -> V;
type Set<T, C, V> = fn(&mut T, &mut C, V);

type Show<T, C> = fn(&T, &C, &mut dyn fmt::Write) -> fmt::Result;
type Check = fn(&str) -> Result<(), String>;

/// How the value is read and set.
enum Access<T, C> {
    Number(Get<T, C, u64>, Set<T, C, u64>),
    Switch(Get<T, C, bool>, Set<T, C, bool>),
    Time(Unit, Get<T, C, Nanos>, Set<T, C, Nanos>),
    Figure(Get<T, C, u64>),
    Text(Show<T, C>),
    Line(Show<T, C>, fn(&mut T, &mut C, &str) -> Result<(), String>, Check),
}

impl<T, C> Clone for Access<T, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, C> Copy for Access<T, C> {}

/// One attribute of a `T`. See the [module](self).
pub struct Knob<T, C = QueueView> {
    attribute: Attribute,
    access: Access<T, C>,
    most: Option<Get<T, C, u64>>,
}

impl<T, C> Clone for Knob<T, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, C> Copy for Knob<T, C> {}

impl<T, C> fmt::Debug for Knob<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Knob").field(&self.attribute).finish()
    }
}

impl<T, C> Knob<T, C> {
    const fn new(
        name: &'static str,
        unit: &'static str,
        values: Values,
        help: &'static str,
        access: Access<T, C>,
    ) -> Knob<T, C> {
        Knob { attribute: Attribute { name, unit, values, help }, access, most: None }
    }

    /// A whole number from 0 to 2^31 - 1, unless [`Knob::at_least`] and [`Knob::at_most`] change
    /// that.
    #[must_use]
    pub const fn number(
        name: &'static str,
        unit: &'static str,
        help: &'static str,
        get: fn(&T, &C) -> u64,
        set: fn(&mut T, &mut C, u64),
    ) -> Knob<T, C> {
        let values = Values::Number { min: 0, max: NUMBER_MAX };
        Knob::new(name, unit, values, help, Access::Number(get, set))
    }

    /// 0 or 1.
    #[must_use]
    pub const fn switch(
        name: &'static str,
        help: &'static str,
        get: fn(&T, &C) -> bool,
        set: fn(&mut T, &mut C, bool),
    ) -> Knob<T, C> {
        let values = Values::Number { min: 0, max: 1 };
        Knob::new(name, "", values, help, Access::Switch(get, set))
    }

    /// A time, written as a whole number of `unit`s, up to 10^9 of them.
    #[must_use]
    pub const fn time(
        name: &'static str,
        unit: Unit,
        help: &'static str,
        get: fn(&T, &C) -> Nanos,
        set: fn(&mut T, &mut C, Nanos),
    ) -> Knob<T, C> {
        let values = Values::Number { min: 0, max: TIME_MAX };
        Knob::new(name, unit.name(), values, help, Access::Time(unit, get, set))
    }

    /// One of `words`; its number is its index among them.
    #[must_use]
    pub const fn choice(
        name: &'static str,
        unit: &'static str,
        words: &'static [&'static str],
        help: &'static str,
        get: fn(&T, &C) -> u64,
        set: fn(&mut T, &mut C, u64),
    ) -> Knob<T, C> {
        Knob::new(name, unit, Values::Choice(words), help, Access::Number(get, set))
    }

    /// A read-only number.
    #[must_use]
    pub const fn figure(
        name: &'static str,
        unit: &'static str,
        help: &'static str,
        get: fn(&T, &C) -> u64,
    ) -> Knob<T, C> {
        Knob::new(name, unit, Values::ReadOnly, help, Access::Figure(get))
    }

    /// A read-only text, which is not a single number.
    #[must_use]
    pub const fn text(
        name: &'static str,
        unit: &'static str,
        help: &'static str,
        show: fn(&T, &C, &mut dyn fmt::Write) -> fmt::Result,
    ) -> Knob<T, C> {
        Knob::new(name, unit, Values::ReadOnly, help, Access::Text(show))
    }

    /// A text of several parts; `form` says which. `check` and `set` say what is wrong with a text.
    #[must_use]
    pub const fn line(
        name: &'static str,
        form: &'static str,
        help: &'static str,
        show: fn(&T, &C, &mut dyn fmt::Write) -> fmt::Result,
        set: fn(&mut T, &mut C, &str) -> Result<(), String>,
        check: fn(&str) -> Result<(), String>,
    ) -> Knob<T, C> {
        Knob::new(name, "", Values::Text(form), help, Access::Line(show, set, check))
    }

    /// Sets the least value.
    #[must_use]
    pub const fn at_least(mut self, least: u64) -> Knob<T, C> {
        if let Values::Number { min, .. } = &mut self.attribute.values {
            *min = least;
        }
        self
    }

    /// Sets the greatest value.
    #[must_use]
    pub const fn at_most(mut self, greatest: u64) -> Knob<T, C> {
        if let Values::Number { max, .. } = &mut self.attribute.values {
            *max = greatest;
        }
        self
    }

    /// Refuses values above what `most` returns for a `T`: capacities that were fixed when it was
    /// built.
    #[must_use]
    pub const fn within(mut self, most: fn(&T, &C) -> u64) -> Knob<T, C> {
        self.most = Some(most);
        self
    }

    /// The attribute's description.
    #[must_use]
    pub const fn attribute(&self) -> &Attribute {
        &self.attribute
    }

    /// Its value, if it is a single number.
    #[must_use]
    pub fn get(&self, of: &T, beside: &C) -> Option<u64> {
        match self.access {
            Access::Number(get, _) | Access::Figure(get) => Some(get(of, beside)),
            Access::Switch(get, _) => Some(get(of, beside).into()),
            Access::Time(unit, get, _) => Some(unit.number(get(of, beside))),
            Access::Text(_) | Access::Line(..) => None,
        }
    }

    /// Sets it; `value` must be in its range.
    ///
    /// # Errors
    /// [`AttributeError::ReadOnly`], [`AttributeError::Capacity`], or [`AttributeError::Value`] if
    /// it is a text; nothing has changed then.
    pub fn set(&self, of: &mut T, beside: &mut C, value: u64) -> Result<(), AttributeError> {
        let name = self.attribute.name;
        if let Some(most) = self.most.map(|most| most(of, beside)).filter(|&most| value > most) {
            return Err(AttributeError::Capacity { name, most });
        }
        match self.access {
            Access::Number(_, set) => set(of, beside, value),
            Access::Switch(_, set) => set(of, beside, value == 1),
            Access::Time(unit, _, set) => set(of, beside, unit.time(value)),
            Access::Figure(_) | Access::Text(_) => return Err(AttributeError::ReadOnly { name }),
            Access::Line(..) => self.attribute.number(value.into()).map(|_| ())?,
        }
        Ok(())
    }

    /// Sets it to a text.
    ///
    /// # Errors
    /// [`AttributeError::ReadOnly`], or [`AttributeError::Part`]; nothing has changed then.
    pub fn set_text(&self, of: &mut T, beside: &mut C, text: &str) -> Result<(), AttributeError> {
        let name = self.attribute.name;
        let Access::Line(_, set, _) = self.access else {
            return Err(AttributeError::ReadOnly { name });
        };
        set(of, beside, text.trim()).map_err(|why| AttributeError::Part { name, why })
    }

    /// Whether it takes this text.
    ///
    /// # Errors
    /// As [`Knob::set_text`].
    pub fn check_text(&self, text: &str) -> Result<(), AttributeError> {
        let name = self.attribute.name;
        let Access::Line(_, _, check) = self.access else {
            return Err(AttributeError::ReadOnly { name });
        };
        check(text.trim()).map_err(|why| AttributeError::Part { name, why })
    }

    /// Writes its value as sysfs shows it.
    ///
    /// # Errors
    /// Only what `out` reports.
    pub fn show(&self, of: &T, beside: &C, out: &mut dyn fmt::Write) -> fmt::Result {
        match self.access {
            Access::Text(show) | Access::Line(show, ..) => show(of, beside, out),
            _ => self.get(of, beside).map_or(Ok(()), |value| self.attribute.show(value, out)),
        }
    }
}

/// The listing of a table of knobs.
#[must_use]
pub const fn attributes<T, C, const N: usize>(knobs: &[Knob<T, C>; N]) -> [Attribute; N] {
    const NONE: Attribute = Attribute { name: "", unit: "", values: Values::ReadOnly, help: "" };
    let mut all = [NONE; N];
    let mut place = 0;
    while place < N {
        all[place] = knobs[place].attribute;
        place += 1;
    }
    all
}

/// While the device is held idle nothing is served: more than ten seconds of that is never useful.
pub const IDLE_MAX_MS: u64 = 10_000;

/// A value as a component's counter type.
#[must_use]
pub fn count(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The words of a choice whose values have a type of their own.
#[must_use]
pub const fn words<V: Copy, const N: usize>(table: &[(&'static str, V); N]) -> [&'static str; N] {
    let mut all = [""; N];
    let mut place = 0;
    while place < N {
        all[place] = table[place].0;
        place += 1;
    }
    all
}

/// The index of `value` in such a table.
#[must_use]
pub fn place_of<V: PartialEq>(table: &[(&'static str, V)], value: &V) -> u64 {
    table.iter().take_while(|(_, other)| other != value).count() as u64
}

/// The value at index `place` of such a table.
#[must_use]
pub fn at_place<V: Copy>(table: &[(&'static str, V)], place: u64) -> Option<V> {
    usize::try_from(place).ok().and_then(|place| table.get(place)).map(|&(_, value)| value)
}

/// 1, 0, or -1 if unknown, as in listings of `hw_tag`.
///
/// # Errors
/// Only what `out` reports.
pub fn show_if_known(known: Option<bool>, out: &mut dyn fmt::Write) -> fmt::Result {
    match known {
        None => out.write_str("-1"),
        Some(is) => write!(out, "{}", u8::from(is)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Part {
        batch: u64,
        on: bool,
        idle: Nanos,
        name: String,
    }

    type Row = Knob<Part, ()>;

    fn word(text: &str) -> Result<(), String> {
        if text.contains(' ') { Err(format!("`{text}` is not one word")) } else { Ok(()) }
    }

    static KNOBS: [Row; 6] = [
        Row::number("batch", "requests", "", |part, ()| part.batch, |part, (), n| part.batch = n)
            .at_least(1)
            .at_most(64)
            .within(|_, ()| 32),
        Row::switch("on", "", |part, ()| part.on, |part, (), on| part.on = on),
        Row::time("idle", Unit::Us, "", |part, ()| part.idle, |part, (), idle| part.idle = idle),
        Row::figure("twice", "", "", |part, ()| 2 * part.batch),
        Row::text("both", "", "", |part, (), out| write!(out, "{}\t{}", part.batch, part.on)),
        Row::line(
            "name",
            "one word",
            "",
            |part, (), out| out.write_str(&part.name),
            |part, (), text| word(text).map(|()| part.name = text.into()),
            word,
        ),
    ];

    /// Does each row read what it sets, in its unit, and do read-only rows refuse?
    #[test]
    fn what_is_set_is_read() {
        let mut part = Part::default();
        for (place, value) in [(0, 7), (1, 1), (2, 250)] {
            KNOBS[place].set(&mut part, &mut (), value).unwrap();
            assert_eq!(KNOBS[place].get(&part, &()), Some(value));
        }
        let idle = Nanos::from_micros(250);
        assert_eq!(part, Part { batch: 7, on: true, idle, name: String::new() });
        // 2 * 7
        assert_eq!(KNOBS[3].get(&part, &()), Some(14));
        let refused = AttributeError::ReadOnly { name: "twice" };
        assert_eq!(KNOBS[3].set(&mut part, &mut (), 1), Err(refused));
        assert_eq!(KNOBS[4].get(&part, &()), None);
        let mut shown = String::new();
        KNOBS[4].show(&part, &(), &mut shown).unwrap();
        assert_eq!(shown, "7\ttrue");
    }

    /// Is a text set as it is, without the blanks around it, and refused with its own reason? Is a
    /// number no text, and a number's row none for texts?
    #[test]
    fn a_text_has_parts() {
        let (mut part, row) = (Part::default(), KNOBS[5]);
        row.set_text(&mut part, &mut (), " disk\n").unwrap();
        for refused in [row.check_text("a disk"), row.set_text(&mut part, &mut (), "a disk")] {
            let why = refused.unwrap_err().to_string();
            assert_eq!(why, "attribute `name`: `a disk` is not one word");
        }
        let mut shown = String::new();
        row.show(&part, &(), &mut shown).unwrap();
        assert_eq!((shown.as_str(), row.get(&part, &())), ("disk", None));
        let number = row.set(&mut part, &mut (), 7).unwrap_err().to_string();
        assert_eq!(number, "attribute `name` cannot be `7`: it takes one word");
        let refused = AttributeError::ReadOnly { name: "batch" };
        assert_eq!(KNOBS[0].set_text(&mut part, &mut (), "x"), Err(refused.clone()));
        assert_eq!(KNOBS[0].check_text("x"), Err(refused));
    }

    /// Is a number within its range but beyond its capacity refused, with the greatest possible
    /// value?
    #[test]
    fn a_capacity_is_kept() {
        let mut part = Part::default();
        let refused = AttributeError::Capacity { name: "batch", most: 32 };
        assert_eq!(KNOBS[0].set(&mut part, &mut (), 33), Err(refused));
        assert_eq!(part, Part::default());
    }

    /// Does the listing match the table?
    #[test]
    fn the_listing_is_the_table() {
        let listed = attributes(&KNOBS);
        assert_eq!(listed.map(|one| one.name), ["batch", "on", "idle", "twice", "both", "name"]);
        assert_eq!(listed[0].values, Values::Number { min: 1, max: 64 });
        assert_eq!(listed[2].unit, "us");
    }
}
