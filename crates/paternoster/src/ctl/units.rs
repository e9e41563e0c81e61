// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units: a server's figures as people read them; and names from outside, made harmless.
//!
//! A histogram has buckets of powers of two: of a percentile it knows only between which two powers
//! it lies, and prints that: `<0.512` ms.

use paternoster_serve::control::snapshot::Figures;

/// Text that came from clients, without what would move a terminal's cursor.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// `1.5 KiB`, `64.0 GiB`; whole bytes below a KiB.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // What would print as 1024.0 is one of the next.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Milliseconds in three digits or a little more: `0.047`, `8.19`, `65.5`, `1049`.
pub(crate) fn millis(nanos: f64) -> String {
    let millis = nanos / 1e6;
    match millis {
        0.0 => "0".to_owned(),
        ..0.9995 => format!("{millis:.3}"),
        ..9.995 => format!("{millis:.2}"),
        ..99.95 => format!("{millis:.1}"),
        _ => format!("{millis:.0}"),
    }
}

/// `part` of `whole` in percent.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Requests that have a latency.
pub(crate) fn requests(figures: &Figures) -> u64 {
    figures.latency_log2_us.iter().fold(0, |sum, bucket| sum.saturating_add(*bucket))
}

/// The mean latency in nanoseconds, if there was a request.
pub(crate) fn mean(figures: &Figures) -> Option<f64> {
    let requests = requests(figures);
    (requests > 0).then(|| figures.latency_ns as f64 / requests as f64)
}

/// A bound of a percentile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// It is less than this many nanoseconds.
    Below(f64),
    /// It is at least this many: the last bucket has no end.
    AtLeast(f64),
}

impl Bound {
    pub(crate) const fn nanos(self) -> f64 {
        match self {
            Bound::Below(nanos) | Bound::AtLeast(nanos) => nanos,
        }
    }

    /// The bound in milliseconds, as text.
    pub(crate) fn told(self) -> String {
        match self {
            Bound::Below(nanos) => format!("<{}", millis(nanos)),
            Bound::AtLeast(nanos) => format!("≥{}", millis(nanos)),
        }
    }
}

/// Where the 99th percentile of latencies lies, if there was a request.
pub(crate) fn p99(figures: &Figures) -> Option<Bound> {
    let buckets = &figures.latency_log2_us;
    let all = u128::from(requests(figures));
    let mut below = 0;
    for (place, bucket) in buckets.iter().enumerate() {
        below += u128::from(*bucket);
        if *bucket == 0 || below * 100 < all * 99 {
            continue;
        }
        // Bucket i holds those below 2^i microseconds.
        let power = |place: usize| 1e3 * 2_f64.powi(i32::try_from(place).unwrap_or(0));
        let last = place + 1 == buckets.len();
        return Some(match place.checked_sub(1) {
            Some(before) if last => Bound::AtLeast(power(before)),
            _ => Bound::Below(power(place)),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are numbers as wide as they need to be?
    #[test]
    fn numbers() {
        let expected = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "64.0 GiB", "16.0 EiB"];
        let counts = [0, 1023, 1024, 1536, (1 << 20) - 1, 64 << 30, u64::MAX];
        assert_eq!(counts.map(bytes), expected);
        let expected = ["0", "0.047", "1.00", "8.19", "65.5", "1049"];
        let nanos = [0.0, 47_000.0, 999_900.0, 8_192_000.0, 65_536_000.0, 1_048_576_000.0];
        assert_eq!(nanos.map(millis), expected);
    }

    /// Between which powers does the 99th percentile lie?
    #[test]
    fn percentiles() {
        let with = |buckets: &[u64]| Figures {
            latency_log2_us: buckets.to_vec(),
            latency_ns: 4_000,
            ..Figures::default()
        };
        assert_eq!(p99(&with(&[])), None);
        assert_eq!(p99(&with(&[0, 0])), None);
        // 98 of 100 are below 1 us, the 99th is below 4 us.
        assert_eq!(p99(&with(&[98, 0, 2, 0])), Some(Bound::Below(4_000.0)));
        // 99 of 100 are below 1 us.
        assert_eq!(p99(&with(&[99, 0, 1, 0])), Some(Bound::Below(1_000.0)));
        // The last bucket begins at 2 us.
        assert_eq!(p99(&with(&[0, 0, 7])), Some(Bound::AtLeast(2_000.0)));
        assert_eq!(p99(&with(&[0, 0, 7])).map(Bound::told), Some("≥0.002".to_owned()));
        assert_eq!(mean(&with(&[1, 3])), Some(1_000.0));
    }

    /// Can a client's name do nothing to the terminal?
    #[test]
    fn names_are_harmless() {
        assert_eq!(harmless("a\x1b[2Jé\n"), "a\u{fffd}[2Jé\u{fffd}");
    }
}
