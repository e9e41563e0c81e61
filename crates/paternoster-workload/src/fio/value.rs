// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values: the right-hand side of `option=value` as sizes, times, percentages, ranges and lists.
//!
//! fio's numbers have habits that job files depend on without knowing. Measured on fio 3.33:
//!
//! ```text
//! 4k 4kb 4kB 4KB 4ki 4Ki   4096     suffixes are powers of 1024, in any case
//! 4KiB 4kib 4Kib           4000     the three-letter form is the other way round
//! 1.5k                     1        reading stops at the point; so 2*4k is 2
//! 30 (a time)              30 s     but thinktime=30 is 30 us: the default unit is the option's
//! 2m                       2 MiB as a size, 2 minutes as a time
//! ```
//!
//! We read the same numbers and leave a note where a habit is likely to surprise. What fio would
//! silently misread for other reasons (overflow, a unit that does not exist) is an error here.
//!
//! Invariant: every result is exact or an error; nothing wraps and nothing is clamped.
//!
//! Source: FIO-12 to FIO-17.

use paternoster_core::Nanos;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub(super) const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds in a microsecond.
pub(super) const MICROSECOND: u64 = 1_000;

/// A size that is either absolute or a part of the file or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// This many hundredths, 0 to 100, of the file or device.
    Percent(u8),
}

impl Amount {
    /// The amount in bytes where the whole is `whole` bytes, rounded down.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            // The whole is divided first and the rest apart, so that nothing can overflow.
            Amount::Percent(percent) => {
                let percent = u64::from(percent);
                (whole / 100) * percent + (whole % 100) * percent / 100
            }
        }
    }
}

/// Reads values, and collects notes about those which fio reads in a surprising way.
#[derive(Debug)]
pub struct Reader<'a> {
    /// 1024, or 1000 with `kb_base=1000`.
    kilo: u64,
    notes: &'a mut Vec<String>,
}

impl<'a> Reader<'a> {
    /// A reader with the suffix `k` worth `kilo` bytes: 1024 or 1000.
    pub fn new(kilo: u64, notes: &'a mut Vec<String>) -> Reader<'a> {
        Reader { kilo, notes }
    }

    /// A whole number, decimal or `0x`, with an optional suffix.
    ///
    /// # Errors
    /// A message when `text` is no number, its unit does not exist or it does not fit in 64 bits.
    pub fn size(&mut self, text: &str) -> Result<u64, String> {
        let (number, rest) = self.number(text)?;
        let scale = self.scale(text, rest)?;
        number.checked_mul(scale).ok_or_else(|| format!("`{text}` does not fit in 64 bits"))
    }

    /// A whole number from `least` to `most`.
    ///
    /// # Errors
    /// As [`Reader::size`], and when the number is out of range.
    pub fn integer(&mut self, text: &str, least: u64, most: u64) -> Result<u64, String> {
        let number = self.size(text)?;
        if (least..=most).contains(&number) {
            Ok(number)
        } else {
            Err(format!("{number} is out of range: it must be from {least} to {most}"))
        }
    }

    /// As [`Reader::integer`], in the type that the field has.
    ///
    /// # Errors
    /// As [`Reader::integer`].
    pub fn small<T: TryFrom<u64>>(
        &mut self,
        text: &str,
        least: u64,
        most: u64,
    ) -> Result<T, String> {
        let number = self.integer(text, least, most)?;
        T::try_from(number).map_err(|_| format!("{number} is too large"))
    }

    /// A number that may be negative.
    ///
    /// # Errors
    /// As [`Reader::size`].
    pub fn signed(&mut self, text: &str) -> Result<i64, String> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let size = self.size(digits)?;
        let number =
            i64::try_from(size).map_err(|_| format!("`{text}` does not fit in 63 bits"))?;
        Ok(if negative { -number } else { number })
    }

    /// Bytes, or `N%`.
    ///
    /// # Errors
    /// As [`Reader::size`], and for more than 100 %.
    pub fn amount(&mut self, text: &str) -> Result<Amount, String> {
        match text.strip_suffix('%') {
            Some(percent) => Ok(Amount::Percent(self.small(percent, 0, 100)?)),
            None => Ok(Amount::Bytes(self.size(text)?)),
        }
    }

    /// `lo-hi` or `lo:hi`, swapped if reversed; a single value is a range of itself.
    ///
    /// # Errors
    /// As [`Reader::size`].
    pub fn range(&mut self, text: &str) -> Result<(u64, u64), String> {
        let Some((low, high)) = text.split_once(['-', ':']) else {
            let value = self.size(text)?;
            return Ok((value, value));
        };
        let (low, high) = (self.size(low)?, self.size(high)?);
        Ok((low.min(high), low.max(high)))
    }

    /// The range of a file's size as written, perhaps backwards. fio reads its first number as
    /// hexadecimal if the second is: `40k-0x60600` begins at 64k.
    ///
    /// # Errors
    /// As [`Reader::range`].
    pub fn range_of_files(&mut self, text: &str) -> Result<(u64, u64), String> {
        let is_hexadecimal = |text: &str| text.contains("0x") || text.contains("0X");
        let Some((low, high)) = text.split_once(['-', ':']) else { return self.range(text) };
        if is_hexadecimal(high) && !is_hexadecimal(low) {
            let note =
                format!("fio reads `{low}` in `{text}` as `0x{low}`, and so it is read here");
            self.notes.push(note);
            return Ok((self.size(&format!("0x{low}"))?, self.size(high)?));
        }
        Ok((self.size(low)?, self.size(high)?))
    }

    /// A time; a bare number counts in `unit` nanoseconds.
    ///
    /// # Errors
    /// A message when `text` is no number, its unit is no unit of time or it does not fit.
    pub fn time(&mut self, text: &str, unit: u64) -> Result<Nanos, String> {
        let (number, rest) = self.number(text)?;
        let scale = match rest.to_ascii_lowercase().as_str() {
            "" => unit,
            "d" => 86_400 * SECOND,
            "h" => 3_600 * SECOND,
            "m" => 60 * SECOND,
            "s" => SECOND,
            "ms" | "msec" => MILLISECOND,
            "us" | "usec" => MICROSECOND,
            _ => {
                return Err(format!(
                    "`{rest}` in `{text}` is no unit of time: use d, h, m, s, ms or us"
                ));
            }
        };
        let nanos = number.checked_mul(scale);
        Ok(Nanos(nanos.ok_or_else(|| format!("`{text}` is longer than 584 years"))?))
    }

    /// A time, or a range `lo-hi` of times, in seconds if no unit is given.
    ///
    /// # Errors
    /// As [`Reader::time`].
    pub fn time_range(&mut self, text: &str) -> Result<(Nanos, Nanos), String> {
        let Some((low, high)) = text.split_once(['-', ':']) else {
            let time = self.time(text, SECOND)?;
            return Ok((time, time));
        };
        let (low, high) = (self.time(low, SECOND)?, self.time(high, SECOND)?);
        Ok((low.min(high), low.max(high)))
    }

    /// A time in seconds if no unit is given.
    ///
    /// # Errors
    /// As [`Reader::time`].
    pub fn seconds(&mut self, text: &str) -> Result<Nanos, String> {
        self.time(text, SECOND)
    }

    /// The digits at the beginning of `text`, and what follows them.
    fn number<'t>(&mut self, text: &'t str) -> Result<(u64, &'t str), String> {
        let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
        let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let (digits, rest) = digits.split_at(end);
        if digits.is_empty() {
            return Err(if text.is_empty() {
                "a number is missing".to_owned()
            } else {
                format!("`{text}` is no number")
            });
        }
        let number = u64::from_str_radix(digits, radix)
            .map_err(|_| format!("`{text}` does not fit in 64 bits"))?;
        if rest.starts_with(|c: char| c.is_alphabetic() || c == '%') || rest.is_empty() {
            return Ok((number, rest));
        }
        self.notes.push(format!(
            "`{text}` is read as {number}, as fio does: there are no fractions and no sums here"
        ));
        Ok((number, ""))
    }

    /// What the suffix `rest` of `text` multiplies by.
    fn scale(&mut self, text: &str, rest: &str) -> Result<u64, String> {
        let lower = rest.to_ascii_lowercase();
        let wrong = || {
            format!("`{rest}` in `{text}` is no unit: sizes take k, m, g, t or p, powers of 1024")
        };
        let mut letters = lower.chars();
        let power = match letters.next() {
            None => return Ok(1),
            Some('b') if lower == "b" => return Ok(1),
            Some('k') => 1,
            Some('m') => 2,
            Some('g') => 3,
            Some('t') => 4,
            Some('p') => 5,
            Some(_) => return Err(wrong()),
        };
        match letters.as_str() {
            "" | "b" | "i" => Ok(self.kilo.pow(power)),
            "ib" => {
                let other = if self.kilo == 1024 { 1000_u64 } else { 1024 };
                self.notes.push(format!(
                    "`{rest}` counts in powers of {other} here, as in fio; \
                     write `{}` for powers of {}",
                    &rest[..1],
                    self.kilo
                ));
                Ok(other.pow(power))
            }
            _ => Err(wrong()),
        }
    }
}

/// `0` or `1`; a bare option is 1.
///
/// # Errors
/// A message for anything else.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("`{text}` is neither 0 nor 1")),
    }
}

/// `reads,writes,trims`: which text is for which direction; `None` leaves the default.
///
/// One value is for all three, two are for reads and for writes with trims; an empty place, or the
/// place after a trailing comma, is left alone.
///
/// # Errors
/// A message when there are more than three places.
pub fn triple(text: &str) -> Result<[Option<&str>; 3], String> {
    let filled = |part: &'_ str| !part.is_empty();
    let parts: Vec<Option<&str>> = text.split(',').map(|p| Some(p).filter(|p| filled(p))).collect();
    match parts[..] {
        [all] => Ok([all, all, all]),
        [read, write] if text.ends_with(',') => Ok([read, write, None]),
        [read, write] => Ok([read, write, write]),
        [read, write, trim] => Ok([read, write, trim]),
        _ => Err(format!("`{text}` has more than three places: reads,writes,trims")),
    }
}

/// Numbers with fractions, separated by `:`.
///
/// # Errors
/// A message when one is no finite number from 0 to 100, or there are more than `most`.
pub fn percentages(text: &str, most: usize) -> Result<Vec<f64>, String> {
    let read = |part: &str| match part.parse::<f64>() {
        Ok(number) if (0.0..=100.0).contains(&number) => Ok(number),
        _ => Err(format!("`{part}` is no percentage from 0 to 100")),
    };
    let list = text.split(':').map(read).collect::<Result<Vec<f64>, String>>()?;
    if list.len() > most {
        return Err(format!("there are {} percentages, at most {most} fit", list.len()));
    }
    Ok(list)
}

/// Names separated by `:`, in which `\:` is a colon.
#[must_use]
pub fn names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let escaped = letter == '\\' && letters.peek() == Some(&':');
        match names.last_mut() {
            Some(_) if letter == ':' => names.push(String::new()),
            Some(name) => name.push(if escaped { ':' } else { letter }),
            None => {}
        }
        if escaped {
            letters.next();
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn size(text: &str) -> Result<u64, String> {
        Reader::new(1024, &mut Vec::new()).size(text)
    }

    /// Do suffixes mean what fio 3.33 was measured to make of them?
    #[test]
    fn suffixes_are_as_measured() {
        for text in ["4k", "4kb", "4kB", "4KB", "4ki", "4Ki", "4096", "4096b", "0x1000", "0X4k"] {
            assert_eq!(size(text), Ok(4096), "{text}");
        }
        for text in ["1mb", "1MB", "1Mi"] {
            assert_eq!(size(text), Ok(1_048_576), "{text}");
        }
        for (text, bytes) in [("4KiB", 4000), ("4kib", 4000), ("4Kib", 4000), ("1mib", 1_000_000)] {
            let mut notes = Vec::new();
            assert_eq!(Reader::new(1024, &mut notes).size(text), Ok(bytes));
            assert_eq!(notes.len(), 1, "{text} deserves a note");
        }
        // kb_base=1000 turns both forms round.
        for (text, bytes) in [("4KiB", 4096), ("4k", 4000), ("4ki", 4000)] {
            assert_eq!(Reader::new(1000, &mut Vec::new()).size(text), Ok(bytes));
        }
        assert_eq!(size("16p"), Ok(16 << 50));
    }

    /// Does reading stop at a point or a star, with a note, and fail at an unknown unit?
    #[test]
    fn fractions_are_cut_and_units_are_checked() {
        let mut notes = Vec::new();
        assert_eq!(Reader::new(1024, &mut notes).size("1.5k"), Ok(1));
        assert_eq!(Reader::new(1024, &mut notes).size("2*4k"), Ok(2));
        assert_eq!(notes.len(), 2);
        assert_eq!(
            size("4q").unwrap_err(),
            "`q` in `4q` is no unit: sizes take k, m, g, t or p, powers of 1024"
        );
        assert_eq!(size("").unwrap_err(), "a number is missing");
        assert_eq!(size("k").unwrap_err(), "`k` is no number");
        // 2^64 bytes is 16384 PiB.
        assert_eq!(size("16384p").unwrap_err(), "`16384p` does not fit in 64 bits");
        assert!(size("99999999999999999999").is_err());
        assert!(size("4é").is_err());
    }

    /// Are `m` minutes in times, and is the default unit the option's?
    #[test]
    fn times_have_their_own_units() {
        let mut notes = Vec::new();
        let mut reader = Reader::new(1024, &mut notes);
        assert_eq!(reader.seconds("2m"), Ok(Nanos::from_secs(120)));
        assert_eq!(reader.seconds("30"), Ok(Nanos::from_secs(30)));
        assert_eq!(reader.seconds("1d"), Ok(Nanos::from_secs(86_400)));
        assert_eq!(reader.time("30", MICROSECOND), Ok(Nanos::from_micros(30)));
        assert_eq!(reader.time("2msec", MICROSECOND), Ok(Nanos::from_millis(2)));
        assert!(reader.seconds("4k").is_err());
        assert!(reader.seconds("99999999999d").is_err());
        let range = (Nanos::from_secs(2), Nanos::from_secs(5));
        assert_eq!(reader.time_range("5-2"), Ok(range));
    }

    /// Do triples, ranges, amounts and lists follow FIO-15 to FIO-17?
    #[test]
    fn compound_values() {
        assert_eq!(triple("4k"), Ok([Some("4k"); 3]));
        assert_eq!(triple("4k,8k"), Ok([Some("4k"), Some("8k"), Some("8k")]));
        assert_eq!(triple(",8k"), Ok([None, Some("8k"), Some("8k")]));
        assert_eq!(triple(",8k,"), Ok([None, Some("8k"), None]));
        assert_eq!(triple("4k,"), Ok([Some("4k"), None, None]));
        assert!(triple("1,2,3,4").is_err());
        let mut notes = Vec::new();
        let mut reader = Reader::new(1024, &mut notes);
        assert_eq!(reader.range("64k-4k"), Ok((4096, 65_536)));
        assert_eq!(reader.range("1:2"), Ok((1, 2)));
        assert_eq!(reader.amount("20%"), Ok(Amount::Percent(20)));
        assert_eq!(reader.range_of_files("40k-0x60600"), Ok((0x40 << 10, 0x60600)));
        assert_eq!(reader.range_of_files("0xa000-64k"), Ok((0xa000, 64 << 10)));
        assert!(reader.amount("101%").is_err());
        assert_eq!(reader.signed("-8k"), Ok(-8192));
        // 20 % of 1003 is 200.6, rounded down.
        assert_eq!(Amount::Percent(20).of(1003), 200);
        assert_eq!(Amount::Percent(100).of(u64::MAX), u64::MAX);
        assert_eq!(names("a:b\\:c"), ["a", "b:c"]);
        assert_eq!(percentages("50:99.9", 20), Ok(vec![50.0, 99.9]));
        assert!(percentages("nan", 20).is_err());
    }

    proptest! {
        /// Does any text give a value or a message, and never a panic?
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,24}|[0-9xkKmMiIbB.%:,-]{0,24}") {
            let mut notes = Vec::new();
            let mut reader = Reader::new(1024, &mut notes);
            let _ = reader.size(&text);
            let _ = reader.signed(&text);
            let _ = reader.amount(&text);
            let _ = reader.time_range(&text);
            let _ = reader.range(&text);
            let _ = triple(&text);
            let _ = names(&text);
            let _ = percentages(&text, 20);
        }
    }
}
