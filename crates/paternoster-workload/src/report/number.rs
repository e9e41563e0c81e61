// SPDX-License-Identifier: MIT OR Apache-2.0
//! Number: figures cut to a few digits and a prefix, as fio prints them.
//!
//! A figure is divided by 1024 (IEC prefixes) or 1000 (SI) until its whole part has no more digits
//! than wanted; what room is left shows a fraction, its point counted as a digit:
//!
//! ```text
//! 4 digits, IEC     8192 B                      8192            undivided
//!               16392192 B -> 16008 Ki -> 15.63 Mi -> 15.6Mi    2 digits, point, 1 digit
//!              139276288 B -> ......... -> 132.8 Mi -> 133Mi    3 digits: no room after a point
//! 6 digits, SI   4952494   -> 4952.494 k -> 4952.5k             4 digits, point, 1 digit
//! ```
//!
//! Sources: FIO-112; samples. A fraction which rounds up to one carries (the sample's
//! 26209158 B/s = 24.995 MiB/s is `25.0MiB/s`).

/// What a figure is divided by, and the prefixes for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// 1024: Ki, Mi, Gi ...
    Iec,
    /// 1000: k, M, G ...
    Si,
}

impl Base {
    fn divisor(self) -> u64 {
        match self {
            Base::Iec => 1024,
            Base::Si => 1000,
        }
    }

    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Base::Iec => &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"],
            Base::Si => &["", "k", "M", "G", "T", "P", "E"],
        }
    }
}

/// `value` in at most `digits` digits and a prefix.
#[must_use]
pub fn abbreviate(value: u64, digits: usize, base: Base) -> String {
    let (mut whole, mut rest, mut power) = (value, 0, 0);
    while digits_of(whole) > digits && power + 1 < base.prefixes().len() {
        rest = whole % base.divisor();
        whole /= base.divisor();
        power += 1;
    }
    let prefix = base.prefixes()[power];
    if power == 0 {
        return whole.to_string();
    }
    // One place goes to the point; what is then left shows the fraction.
    let decimals = digits.saturating_sub(digits_of(whole) + 1);
    if decimals == 0 {
        return format!("{}{prefix}", whole + u64::from(2 * rest >= base.divisor()));
    }
    let figure = whole as f64 + rest as f64 / base.divisor() as f64;
    format!("{figure:.decimals$}{prefix}")
}

/// Bytes in four digits, IEC: `15.6MiB`.
#[must_use]
pub fn bytes_iec(bytes: u64) -> String {
    abbreviate(bytes, 4, Base::Iec) + "B"
}

/// Bytes in four digits, SI: `24.6MB`.
#[must_use]
pub fn bytes_si(bytes: u64) -> String {
    abbreviate(bytes, 4, Base::Si) + "B"
}

fn digits_of(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the samples' figures met? Each pair is a number in `fair.json` or `mix.json` and its
    /// text in the normal report of the same run.
    #[test]
    fn figures_of_the_samples() {
        for (bytes, iec, si) in [
            (8192, "8192B", "8192B"),
            (16384, "16.0KiB", "16.4kB"),
            (3_277_782, "3201KiB", "3278kB"),
            (16_392_192, "15.6MiB", "16.4MB"),
            (26_209_158, "25.0MiB", "26.2MB"),
            (24_588_288, "23.4MiB", "24.6MB"),
            (139_268_096, "133MiB", "139MB"),
            (59_047_936, "56.3MiB", "59.0MB"),
            (0, "0B", "0B"),
        ] {
            assert_eq!((bytes_iec(bytes), bytes_si(bytes)), (iec.to_owned(), si.to_owned()));
        }
    }

    /// Does room for six digits show `4952.5k`, and leave shorter figures whole?
    #[test]
    fn six_digits() {
        assert_eq!(abbreviate(4_952_494, 6, Base::Si), "4952.5k");
        assert_eq!(abbreviate(246_047, 6, Base::Si), "246047");
        assert_eq!(abbreviate(12_345, 4, Base::Si), "12.3k");
    }

    /// Does the largest figure print, and the prefix list end without a crash?
    #[test]
    fn largest() {
        assert_eq!(abbreviate(u64::MAX, 4, Base::Iec), "16.0Ei");
        assert_eq!(abbreviate(u64::MAX, 1, Base::Si), "18E");
    }
}
