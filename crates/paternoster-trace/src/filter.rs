// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filter: which events are looked at, by kind and by time.
//!
//! ```text
//! -a issue -a complete      Mask    an event passes that has one of these categories
//! -w 1.5:3                  Window  seconds from the first event, both ends belong to it;
//!                                   either may be left out
//! ```
//!
//! Invariants: I1 a window is not empty; I2 without a mask every event passes that has a category.
//!
//! Source: TRACE-8, TRACE-12, TRACE-18.

use core::ops::BitOr;

use paternoster_core::Nanos;

use crate::blktrace::{Categories, Record};
use crate::source::quote;

/// Kinds of events that pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask(Categories);

impl Mask {
    /// Everything that has any category of version 7.
    pub const ALL: Mask = Mask(Categories(0xffff));

    /// Reads names of categories, separated by commas, or a number as `0x` and hexadecimal digits.
    ///
    /// # Errors
    ///
    /// A message with the unknown category, and the known ones.
    pub fn parse(text: &str) -> Result<Mask, String> {
        if text.starts_with("0x") || text.starts_with("0X") {
            return Mask::parse_hex(text);
        }
        let mut mask = Categories(0);
        for name in text.split(',') {
            mask |= Categories::by_name(name.trim()).ok_or_else(|| {
                let known = Categories::NAMES.join(", ").to_lowercase();
                format!("{} is no kind of event; these are: {known}", quote(name.as_bytes()))
            })?;
        }
        Ok(Mask(mask))
    }

    /// Reads a number of hexadecimal digits, with or without `0x`: 16 bits, not 0.
    ///
    /// # Errors
    ///
    /// A message with the text that is not such a number.
    pub fn parse_hex(text: &str) -> Result<Mask, String> {
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
        match u16::from_str_radix(digits, 16) {
            Ok(bits) if bits != 0 && !digits.starts_with('+') => Ok(Mask(Categories(bits.into()))),
            _ => Err(format!(
                "{} is no mask of 16 bits in hexadecimal digits, as `0x80`, with a bit set",
                quote(text.as_bytes())
            )),
        }
    }

    /// Whether this event passes.
    #[must_use]
    pub const fn passes(self, record: &Record) -> bool {
        record.categories.intersects(self.0)
    }
}

impl Default for Mask {
    fn default() -> Mask {
        Mask::ALL
    }
}

impl BitOr for Mask {
    type Output = Mask;
    fn bitor(self, other: Mask) -> Mask {
        Mask(self.0 | other.0)
    }
}

/// A span of the trace, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first instant.
    pub start: Nanos,
    /// Its last one.
    pub end: Nanos,
}

/// Where an instant lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Before the window.
    Before,
    /// Within it.
    Within,
    /// After it, like everything that follows.
    Behind,
}

impl Window {
    /// Reads `END`, `START:END`, `START:` or `:END`, in seconds with a fraction.
    ///
    /// # Errors
    ///
    /// A message with the text that is not a time, or that the window is empty.
    pub fn parse(text: &str) -> Result<Window, String> {
        let (start, end) = match text.split_once(':') {
            None => (Nanos::ZERO, seconds(text)?),
            Some((start, "")) if !start.is_empty() => (seconds(start)?, Nanos::MAX),
            Some(("", end)) if !end.is_empty() => (Nanos::ZERO, seconds(end)?),
            Some((start, end)) => (seconds(start)?, seconds(end)?),
        };
        if start >= end {
            let text = quote(text.as_bytes());
            return Err(format!("the window {text} ends before it has begun; as `1.5:3`"));
        }
        Ok(Window { start, end })
    }

    /// Where this instant lies.
    #[must_use]
    pub fn place(&self, at: Nanos) -> Position {
        if at < self.start {
            Position::Before
        } else if at > self.end {
            Position::Behind
        } else {
            Position::Within
        }
    }
}

/// Seconds as nanoseconds, rounded down, as blkparse does: through a floating-point number.
fn seconds(text: &str) -> Result<Nanos, String> {
    let value: f64 = text.trim().parse().unwrap_or(f64::NAN);
    if !(0.0..1e10).contains(&value) {
        let text = quote(text.as_bytes());
        return Err(format!(
            "{text} is no time in seconds; a window is `END`, `START:END`, `START:` or `:END`"
        ));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1e19")]
    Ok(Nanos((value * 1e9) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(categories: Categories) -> Record {
        Record { categories, ..Record::default() }
    }

    /// Are masks read by name and number, and wrong ones refused with a word about right ones?
    #[test]
    fn masks_are_read() {
        let mask = Mask::parse("issue,BLK_TC_complete").unwrap();
        assert_eq!(mask, Mask::parse("0xc0").unwrap());
        assert_eq!(mask, Mask::parse_hex("40").unwrap() | Mask::parse_hex("0x80").unwrap());
        assert!(mask.passes(&of(Categories::ISSUE | Categories::READ)));
        assert!(!mask.passes(&of(Categories::QUEUE | Categories::READ)));
        assert!(!Mask::ALL.passes(&of(Categories(0))));
        let told = Mask::parse("issue,bogus").unwrap_err();
        assert!(told.starts_with("`bogus` is no kind of event; these are: read, write,"), "{told}");
        for wrong in ["0x", "0x10000", "zz", "0", "+4", ""] {
            assert!(Mask::parse_hex(wrong).is_err(), "{wrong}");
        }
    }

    /// Are windows read, with both ends inside, and wrong ones refused?
    #[test]
    fn windows_are_read() {
        let window = Window::parse("1.5:3").unwrap();
        let (start, end) = (Nanos(1_500_000_000), Nanos(3_000_000_000));
        assert_eq!(window, Window { start, end });
        let places = [start.0 - 1, start.0, end.0, end.0 + 1].map(|at| window.place(Nanos(at)));
        let [before, within, behind] = [Position::Before, Position::Within, Position::Behind];
        assert_eq!(places, [before, within, within, behind]);
        assert_eq!(Window::parse("1e-3").unwrap().end, Nanos(1_000_000));
        assert_eq!(Window::parse("1:").unwrap().end, Nanos::MAX);
        assert_eq!(Window::parse(":1").unwrap(), Window::parse("1").unwrap());
        for wrong in ["", ":", "2:1", "1:1", "-1:1", "1x", "inf", "nan", "1:2:3"] {
            assert!(Window::parse(wrong).is_err(), "{wrong}");
        }
    }
}
