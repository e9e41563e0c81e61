// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes: what can be set at run time, under the names that sysfs gives them.
//!
//! A listing looks like that of `grep -r . .` in `/sys/block/sda/queue`:
//!
//! ```text
//! ./nr_requests:128
//! ./nomerges:0
//! ./iosched/read_expire:500
//! ```
//!
//! As in sysfs a number outside its range is clamped, and text that is no number is refused. A
//! caller whose users should be told instead checks first ([`Attribute::check`]). A program that
//! has values rather than text passes a [`Value`]: that is never clamped, and refused if it does
//! not fit.
//!
//! Source: CFQ-1, BLK-7, BFQ-186; `docs/rules/deadline.md` for the defaults there.

use alloc::string::{String, ToString};
use core::fmt;

use crate::time::Nanos;
use crate::unit::Unit;

/// What values an attribute takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Whole numbers; others are clamped into `min..=max`.
    Number {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// One of these words; the value is its index.
    Choice(&'static [&'static str]),
    /// A text of several parts; this says which.
    Text(&'static str),
    /// Cannot be set.
    ReadOnly,
}

/// A value with its type: what an attribute is set to, or has.
///
/// ```
/// use paternoster_core::{Nanos, Value};
/// assert_eq!(Value::from(true), Value::Number(1));
/// assert_eq!(Value::from(Nanos::from_millis(8)).to_string(), "8 ms");
/// assert_eq!(Value::from("write back").to_string(), "write back");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, or a switch: 0 or 1.
    Number(u64),
    /// A time, for an attribute whose unit is one.
    Time(Nanos),
    /// One of the words of a choice.
    Word(&'a str),
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Value::Number(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Value::Number(number.into())
    }
}

impl From<bool> for Value<'_> {
    fn from(on: bool) -> Self {
        Value::Number(on.into())
    }
}

impl From<Nanos> for Value<'_> {
    fn from(time: Nanos) -> Self {
        Value::Time(time)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(word: &'a str) -> Self {
        Value::Word(word)
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Time(time) => write!(f, "{time}"),
            Value::Word(word) => f.write_str(word),
        }
    }
}

/// One attribute: name, unit, values, meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute {
    /// Its name, as in sysfs.
    pub name: &'static str,
    /// The number's unit: `ms`, `KiB`, `requests`; empty if it has none.
    pub unit: &'static str,
    /// The values it takes.
    pub values: Values,
    /// What it does, in a sentence.
    pub help: &'static str,
}

/// An attribute was not set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributeError {
    /// No attribute has this name.
    Unknown {
        /// The name given.
        name: String,
    },
    /// It is read-only.
    ReadOnly {
        /// Its name.
        name: &'static str,
    },
    /// The text is not a valid value.
    Value {
        /// Its name.
        name: &'static str,
        /// The text.
        text: String,
        /// What would be valid.
        values: Values,
    },
    /// A part of the text is not valid.
    Part {
        /// Its name.
        name: &'static str,
        /// What is wrong, and what would be valid.
        why: String,
    },
    /// What it shows is not a single value.
    Text {
        /// Its name.
        name: &'static str,
    },
    /// The queue's capacities, fixed when it was built, do not allow it.
    Capacity {
        /// Its name.
        name: &'static str,
        /// The most it can be.
        most: u64,
    },
}

impl fmt::Display for AttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeError::Unknown { name } => write!(f, "there is no attribute `{name}`"),
            AttributeError::ReadOnly { name } => {
                write!(f, "attribute `{name}` can be read but not set")
            }
            AttributeError::Value { name, text, values } => {
                write!(f, "attribute `{name}` cannot be `{text}`: it takes {values}")
            }
            AttributeError::Part { name, why } => write!(f, "attribute `{name}`: {why}"),
            AttributeError::Text { name } => {
                write!(f, "attribute `{name}` is not one value: it can only be shown")
            }
            AttributeError::Capacity { name, most } => {
                write!(f, "attribute `{name}` can be at most {most} in this queue")
            }
        }
    }
}

impl core::error::Error for AttributeError {}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Number { min, max: u64::MAX } => write!(f, "a whole number from {min} up"),
            Values::Number { min, max } => write!(f, "a whole number from {min} to {max}"),
            Values::ReadOnly => f.write_str("no value, it is read-only"),
            Values::Text(form) => f.write_str(form),
            Values::Choice(words) => {
                for (place, word) in words.iter().enumerate() {
                    let between = if place == 0 { "" } else { " or " };
                    write!(f, "{between}{word}")?;
                }
                Ok(())
            }
        }
    }
}

impl Attribute {
    /// The value that `text` means for this attribute, if that is a number or a word.
    ///
    /// # Errors
    /// [`AttributeError::ReadOnly`], or [`AttributeError::Value`] when the text is not what it
    /// takes.
    pub fn parse(&self, text: &str) -> Result<u64, AttributeError> {
        let text = text.trim();
        let refused = || self.refused(text);
        match self.values {
            Values::ReadOnly => Err(AttributeError::ReadOnly { name: self.name }),
            Values::Number { min, max } => {
                // A negative number is below any range, however long it is.
                let negative =
                    text.strip_prefix('-').is_some_and(|digits| digits.parse::<u64>().is_ok());
                let value: u64 = if negative { 0 } else { text.parse().map_err(|_| refused())? };
                Ok(value.clamp(min, max))
            }
            Values::Choice(words) => {
                let place = words.iter().position(|&word| word == text).ok_or_else(refused)?;
                Ok(place as u64)
            }
            Values::Text(_) => Err(refused()),
        }
    }

    /// Whether this attribute takes `text` as it is, without clamping.
    ///
    /// # Errors
    /// As [`Attribute::parse`]; also for a number outside the range.
    pub fn check(&self, text: &str) -> Result<(), AttributeError> {
        let value = self.parse(text)?;
        let same = match self.values {
            Values::Number { .. } => text.trim().parse() == Ok(value),
            Values::Choice(_) | Values::Text(_) | Values::ReadOnly => true,
        };
        if same {
            return Ok(());
        }
        Err(self.refused(text.trim()))
    }

    fn refused(&self, text: &str) -> AttributeError {
        AttributeError::Value { name: self.name, text: String::from(text), values: self.values }
    }

    /// The number that `value` means for this attribute.
    ///
    /// # Errors
    /// [`AttributeError::ReadOnly`], or [`AttributeError::Value`] for a number outside the range, a
    /// time that is not a whole number of the unit, or the wrong kind of value.
    pub fn number(&self, value: Value<'_>) -> Result<u64, AttributeError> {
        let number = match (self.values, value) {
            (Values::ReadOnly, _) => return Err(AttributeError::ReadOnly { name: self.name }),
            (Values::Number { .. }, Value::Number(number)) => Some(number),
            (Values::Number { .. }, Value::Time(time)) => Unit::by_name(self.unit)
                .map(|unit| (unit, unit.number(time)))
                .filter(|&(unit, number)| unit.time(number) == time)
                .map(|(_, number)| number),
            (Values::Choice(words), Value::Word(word)) => {
                words.iter().position(|&one| one == word).map(|place| place as u64)
            }
            (Values::Text(_), _)
            | (Values::Number { .. }, Value::Word(_))
            | (Values::Choice(_), Value::Number(_) | Value::Time(_)) => None,
        };
        let fits = |number: &u64| match self.values {
            Values::Number { min, max } => (min..=max).contains(number),
            Values::Choice(_) | Values::Text(_) | Values::ReadOnly => true,
        };
        number.filter(fits).ok_or_else(|| self.refused(&value.to_string()))
    }

    /// The value of `number`, in this attribute's unit or words.
    #[must_use]
    pub fn value(&self, number: u64) -> Value<'static> {
        match (self.values, Unit::by_name(self.unit)) {
            (Values::Choice(words), _) => {
                let place = usize::try_from(number).unwrap_or(usize::MAX);
                Value::Word(words.get(place).copied().unwrap_or("?"))
            }
            (_, Some(unit)) => Value::Time(unit.time(number)),
            _ => Value::Number(number),
        }
    }

    /// Writes `value` as sysfs shows it: a number, or its word.
    ///
    /// # Errors
    /// Only what `out` reports.
    pub fn show(&self, value: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        match self.values {
            Values::Choice(_) => write!(out, "{}", self.value(value)),
            Values::Number { .. } | Values::Text(_) | Values::ReadOnly => write!(out, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: Attribute = Attribute {
        name: "quantum",
        unit: "requests",
        values: Values::Number { min: 1, max: 9 },
        help: "",
    };

    /// Is a number clamped to its range, and is text refused, saying what would be valid?
    #[test]
    fn numbers_are_clamped_and_text_is_refused() {
        assert_eq!(NUMBER.parse("0"), Ok(1));
        assert_eq!(NUMBER.parse("-5"), Ok(1));
        assert_eq!(NUMBER.parse(" 12\n"), Ok(9));
        assert_eq!(
            NUMBER.parse("many").unwrap_err().to_string(),
            "attribute `quantum` cannot be `many`: it takes a whole number from 1 to 9"
        );
    }

    /// Is a typed value taken as it is or refused, and never clamped?
    #[test]
    fn typed_values_are_taken_or_refused() {
        let number = |value: Value<'_>| NUMBER.number(value);
        assert_eq!(number(9_u64.into()), Ok(9));
        for (value, text) in [
            (Value::from(10_u64), "10"),
            (false.into(), "0"),
            (Nanos::from_millis(1).into(), "1 ms"),
            ("9".into(), "9"),
        ] {
            let words = alloc::format!("cannot be `{text}`: it takes a whole number from 1 to 9");
            let refusal = number(value).unwrap_err().to_string();
            assert_eq!(refusal, alloc::format!("attribute `quantum` {words}"));
        }
        let idle = Attribute { name: "slice_idle", unit: "ms", ..NUMBER };
        assert_eq!(idle.number(Nanos::from_millis(8).into()), Ok(8));
        assert!(idle.number(Nanos::from_micros(8500).into()).is_err(), "no whole milliseconds");
        assert_eq!(idle.value(8), Value::Time(Nanos::from_millis(8)));
        let rules = Attribute { values: Values::Choice(&["legacy", "mq"]), ..NUMBER };
        assert_eq!(rules.number("mq".into()), Ok(1));
        assert_eq!(rules.value(1), Value::Word("mq"));
        assert!(rules.number(1_u64.into()).is_err(), "a choice takes words");
    }

    /// Are words converted to and from their index?
    #[test]
    fn words_are_places() {
        let rules = Attribute { values: Values::Choice(&["legacy", "mq"]), ..NUMBER };
        assert_eq!(rules.parse("mq"), Ok(1));
        let mut shown = String::new();
        rules.show(0, &mut shown).unwrap();
        assert_eq!(shown, "legacy");
        assert!(rules.parse("blk").unwrap_err().to_string().ends_with("it takes legacy or mq"));
    }
}
