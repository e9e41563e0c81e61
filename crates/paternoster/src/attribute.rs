// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes: what can be set at run time, under the names that sysfs gives them.
//!
//! A listing prints as `grep -r . .` does in `/sys/block/sda/queue`:
//!
//! ```text
//! ./nr_requests:128
//! ./nomerges:0
//! ./iosched/read_expire:500
//! ```
//!
//! As in sysfs a number outside its range is brought into it, and text that is no number is
//! refused. A caller whose users should rather hear of that asks first ([`Attribute::check`]).
//!
//! Source: spec `cfq-flush-block.md` 1.2 (CFQ-1), 12.2, 13.

use alloc::string::String;
use core::fmt;

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
    /// One of these words; the value is its place.
    Choice(&'static [&'static str]),
    /// Cannot be set.
    ReadOnly,
}

/// One attribute: name, unit, values, meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute {
    /// As in sysfs.
    pub name: &'static str,
    /// Of the number: `ms`, `KiB`, `requests`; empty if it has none.
    pub unit: &'static str,
    /// What it takes.
    pub values: Values,
    /// What it does, in a sentence.
    pub help: &'static str,
}

/// An attribute was not set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributeError {
    /// There is none of this name.
    Unknown {
        /// As asked for.
        name: String,
    },
    /// It can be read only.
    ReadOnly {
        /// Which.
        name: &'static str,
    },
    /// The text is not what it takes.
    Value {
        /// Which.
        name: &'static str,
        /// The text.
        text: String,
        /// What would be right.
        values: Values,
    },
    /// The queue's capacities, fixed when it was made, do not allow it.
    Capacity {
        /// Which.
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
    /// The value that `text` means for this attribute.
    ///
    /// # Errors
    /// [`AttributeError::ReadOnly`], or [`AttributeError::Value`] when the text is not what it
    /// takes.
    pub fn parse(&self, text: &str) -> Result<u64, AttributeError> {
        let text = text.trim();
        let refused = || AttributeError::Value {
            name: self.name,
            text: String::from(text),
            values: self.values,
        };
        match self.values {
            Values::ReadOnly => Err(AttributeError::ReadOnly { name: self.name }),
            Values::Number { min, max } => {
                // A number below any range is below this one, however long it is.
                let negative =
                    text.strip_prefix('-').is_some_and(|digits| digits.parse::<u64>().is_ok());
                let value: u64 = if negative { 0 } else { text.parse().map_err(|_| refused())? };
                Ok(value.clamp(min, max))
            }
            Values::Choice(words) => {
                let place = words.iter().position(|&word| word == text).ok_or_else(refused)?;
                Ok(place as u64)
            }
        }
    }

    /// Whether this attribute takes `text` as it is, without bringing it into its range.
    ///
    /// # Errors
    /// As [`Attribute::parse`]; also for a number outside the range.
    pub fn check(&self, text: &str) -> Result<(), AttributeError> {
        let value = self.parse(text)?;
        let same = match self.values {
            Values::Number { .. } => text.trim().parse() == Ok(value),
            Values::Choice(_) | Values::ReadOnly => true,
        };
        if same {
            return Ok(());
        }
        let text = String::from(text.trim());
        Err(AttributeError::Value { name: self.name, text, values: self.values })
    }

    /// Writes `value` as sysfs shows it: a number, or its word.
    ///
    /// # Errors
    /// Only what `out` reports.
    pub fn show(&self, value: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        match self.values {
            Values::Choice(words) => {
                let place = usize::try_from(value).unwrap_or(usize::MAX);
                out.write_str(words.get(place).copied().unwrap_or("?"))
            }
            _ => write!(out, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const NUMBER: Attribute = Attribute {
        name: "quantum",
        unit: "requests",
        values: Values::Number { min: 1, max: 9 },
        help: "",
    };

    /// Is a number brought into its range, and text refused with what would be right?
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

    /// Do words go in and out by their place?
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
