// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantity: a number, an optional blank, a unit, as `1.116 ms` or `4 GiB`.
//!
//! Decimals are exact: they are read as digits, not as floating point. Which units there are is the
//! caller's; each is a multiple of the smallest. SI prefixes are powers of 1000, KiB and the like
//! powers of 1024.

/// Units of sizes.
pub const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// `text` as a number of the table's smallest unit, rounded down; `None` if it is not one or too
/// large.
#[must_use]
pub fn rounded_down(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    read(text, units).map(|(value, _)| value)
}

/// The same, but nothing is rounded, and a point needs a digit after it: `None` if it is not a
/// whole number of the table's smallest unit.
#[must_use]
pub fn exact(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    read(text, units).and_then(|(value, is_exact)| is_exact.then_some(value))
}

/// The number, rounded down, and whether it is exact.
fn read(text: &str, units: &[(&str, u64)]) -> Option<(u64, bool)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let factor = units.iter().find(|(name, _)| *name == unit).map(|&(_, factor)| factor)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // 18 digits and a factor below 2^64 stay below 2^128.
    if whole.is_empty() || fraction.len() > 18 || fraction.contains('.') {
        return None;
    }
    let whole: u128 = whole.parse().ok()?;
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let parts: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let parts = parts * u128::from(factor);
    let value = whole.checked_mul(u128::from(factor))?.checked_add(parts / scale)?;
    let is_exact = parts.is_multiple_of(scale) && !number.ends_with('.');
    u64::try_from(value).ok().map(|value| (value, is_exact))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a decimal read to its last digit, and a part of the smallest unit rounded down or
    /// refused, as is asked for?
    #[test]
    fn decimals_are_digits() {
        assert_eq!(exact("1.5 KiB", &SIZES), Some(1536));
        assert_eq!(exact("0.1 GB", &SIZES), Some(100_000_000));
        assert_eq!((exact("0.3 B", &SIZES), rounded_down("0.3 B", &SIZES)), (None, Some(0)));
        // 2^64 bytes are one too many.
        assert_eq!(exact("16777216 TiB", &SIZES), None);
        assert_eq!(exact("16777215 TiB", &SIZES), Some(u64::MAX - (1 << 40) + 1));
        for text in ["", "B", "1", "1.", "1.2.3 B", ".5 KiB", "-1 B", "1 XiB"] {
            assert_eq!(exact(text, &SIZES), None, "{text}");
        }
    }
}
