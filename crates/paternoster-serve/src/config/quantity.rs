// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantities as people write them: `64MiB`, `50 ms`, `100MB/s`, `2.5%`.
//!
//! A number, a blank if one likes, a unit. Decimals are read as digits, not as floating point, so
//! that they are exact to the byte and the nanosecond. `MB` is 10^6 bytes, `MiB` 2^20.

use std::fmt::Write;

use paternoster_base::quantity::{SIZES, exact};
use paternoster_core::Nanos;

type Units = [(&'static str, u64)];

const TIMES: &Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// Without a unit, a size is in bytes.
const BYTES: &Units = &[("", 1)];
/// Thousandths of a whole in a percent.
const PERCENT: &Units = &[("%", 10)];

/// A span of time.
///
/// # Errors
/// What would be right.
pub fn time(text: &str) -> Result<Nanos, String> {
    exact(text, TIMES).map(Nanos).ok_or_else(|| {
        "a span of time: a number and one of ns, us, ms, s, min, h, as `50ms`".to_owned()
    })
}

/// A size in bytes; without a unit it is bytes.
///
/// # Errors
/// What would be right.
pub fn size(text: &str) -> Result<u64, String> {
    exact(text, &SIZES).or_else(|| exact(text, BYTES)).ok_or_else(|| {
        "a size: a number and one of B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB \
         (powers of 1024), as `64MiB`"
            .to_owned()
    })
}

/// Bytes a second.
///
/// # Errors
/// What would be right.
pub fn rate(text: &str) -> Result<u64, String> {
    let bytes = text.trim().strip_suffix("/s").and_then(|size| exact(size, &SIZES));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        "a rate: a size and `/s`, as `100MB/s`; leave it out for no limit".to_owned()
    })
}

/// A part of a whole, in thousandths.
///
/// # Errors
/// What would be right.
pub fn percent(text: &str) -> Result<u16, String> {
    let thousandths = exact(text, PERCENT).filter(|thousandths| *thousandths <= 1000);
    thousandths.and_then(|thousandths| u16::try_from(thousandths).ok()).ok_or_else(|| {
        "a part of the whole: 0% to 100% in steps of 0.1%, as `10%` or `2.5%`".to_owned()
    })
}

/// Permission bits in octal: `0660`.
///
/// # Errors
/// What would be right.
pub fn mode(text: &str) -> Result<u32, String> {
    let octal = (3..=4).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    let bits = if octal { u32::from_str_radix(text, 8).ok() } else { None };
    bits.filter(|bits| *bits <= 0o777)
        .ok_or_else(|| "permission bits in octal as a text, as `\"0660\"`".to_owned())
}

/// A size in the largest unit of which it is a whole number: `64MiB`.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    let units = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let fits = units.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}

/// A rate in the largest unit of 1000s of which it is a whole number: `100MB/s`.
#[must_use]
pub fn show_rate(bytes: u64) -> String {
    let units = [("TB", 1_000_000_000_000u64), ("GB", 1_000_000_000), ("MB", 1_000_000)];
    let fits = units.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{bytes}B/s"), |(name, unit)| format!("{}{name}/s", bytes / unit))
}

/// A span of time in the largest unit of which it is a whole number: `50ms`.
#[must_use]
pub fn show_time(time: Nanos) -> String {
    let fits = TIMES.iter().rev().find(|(_, unit)| time.0 >= *unit && time.0.is_multiple_of(*unit));
    fits.map_or_else(|| "0s".to_owned(), |(name, unit)| format!("{}{name}", time.0 / unit))
}

/// Thousandths as a percentage: `2.5%`.
#[must_use]
pub fn show_percent(thousandths: u16) -> String {
    let mut text = (thousandths / 10).to_string();
    if !thousandths.is_multiple_of(10) {
        // Writing to a String cannot fail.
        let _written = write!(text, ".{}", thousandths % 10);
    }
    text + "%"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is what people write read exactly?
    #[test]
    fn quantities_are_exact() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1.5 KiB"), Ok(1536));
        assert_eq!(size("0"), Ok(0));
        assert_eq!(time("50ms"), Ok(Nanos(50_000_000)));
        assert_eq!(time("1.5 s"), Ok(Nanos(1_500_000_000)));
        assert_eq!(time("2 min"), Ok(Nanos::from_secs(120)));
        assert_eq!(rate("100MB/s"), Ok(100_000_000));
        assert_eq!(rate("1 GiB/s"), Ok(1 << 30));
        assert_eq!(percent("10%"), Ok(100));
        assert_eq!(percent("2.5 %"), Ok(25));
        assert_eq!(percent("100%"), Ok(1000));
        assert_eq!(mode("0660"), Ok(0o660));
        assert_eq!(mode("600"), Ok(0o600));
    }

    /// Is nonsense refused, with an example of what would be right and without a panic?
    #[test]
    fn nonsense_is_refused() {
        for text in ["", "MiB", "-1", "1.2.3MiB", "64M", ".5MiB", "5.MiB", "0.1B", "1e3", "1µ"] {
            assert!(size(text).unwrap_err().contains("as `64MiB`"), "{text}");
        }
        for text in ["18446744073709551616", "99999999 TiB", "9999999999999999999999999999999999"] {
            assert!(size(text).is_err(), "{text}");
        }
        for text in ["10", "ms", "1 d", "-1s", "0.5ns"] {
            assert!(time(text).unwrap_err().contains("as `50ms`"), "{text}");
        }
        for text in ["100MB", "0B/s", "100/s", "/s", "1MB/ms"] {
            assert!(rate(text).unwrap_err().contains("as `100MB/s`"), "{text}");
        }
        for text in ["10", "101%", "0.05%", "%", "-1%"] {
            assert!(percent(text).unwrap_err().contains("as `10%`"), "{text}");
        }
        for text in ["", "66", "0888", "1777", "0o60", "+660", "rw-rw----"] {
            assert!(mode(text).unwrap_err().contains("0660"), "{text}");
        }
    }

    /// Is a quantity shown as one would write it?
    #[test]
    fn quantities_are_shown() {
        assert_eq!(show_size(64 << 20), "64MiB");
        assert_eq!(show_size(1000), "1000B");
        assert_eq!(show_rate(100_000_000), "100MB/s");
        assert_eq!(show_rate(1234), "1234B/s");
        assert_eq!(show_time(Nanos(50_000_000)), "50ms");
        assert_eq!(show_time(Nanos(0)), "0s");
        assert_eq!(show_percent(25), "2.5%");
        assert_eq!(show_percent(100), "10%");
    }
}
