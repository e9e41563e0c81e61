// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units: one rule for figures, in all commands.
//!
//! ```text
//! tables, pages    a figure with the unit that suits it    4.6 ms   12.7k   200 MB/s   33.3 %
//! JSON, CSV        whole units, named in the key           p99_ns   iops    bytes_per_second
//! ```
//!
//! Units are powers of 1000. A figure has one decimal; with three digits or more before the point,
//! none.

use paternoster_core::Nanos;

/// Shown where nothing was measured.
pub const NONE: &str = "-";

/// Nanoseconds.
pub fn time(nanos: f64) -> String {
    scaled(nanos, &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")])
}

/// A span of time.
#[expect(clippy::cast_precision_loss, reason = "printed figures")]
pub fn span(span: Nanos) -> String {
    time(span.0 as f64)
}

/// I/Os a second.
pub fn rate(per_second: f64) -> String {
    scaled(per_second, &[(1e6, "M"), (1e3, "k"), (1.0, "")])
}

/// Bytes a second.
pub fn bandwidth(per_second: f64) -> String {
    scaled(per_second, &[(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")])
}

/// Bytes.
pub fn size(bytes: f64) -> String {
    scaled(bytes, &[(1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")])
}

/// The value of a figure, to sort by: `4.6 ms` is 4.6e6, `12.7k` is 12,700.
pub fn value(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[number.len()..].trim().trim_end_matches("/s") {
        "" | "%" | "B" | "ns" => 1.0,
        "us" | "k" | "kB" => 1e3,
        "ms" | "M" | "MB" => 1e6,
        "s" | "GB" => 1e9,
        "TB" => 1e12,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

/// A fraction of the whole.
pub fn percent(part: f64) -> String {
    if part.is_finite() { format!("{:.1} %", 100.0 * part) } else { NONE.to_owned() }
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let last = units.len() - 1;
    let fits = |&(size, _): &(f64, &str)| value >= size * 0.9995;
    let (size, unit) = units[units.iter().position(fits).unwrap_or(last)];
    let figure = value / size;
    if figure >= 99.95 || (size <= 1.0 && figure.fract() == 0.0) {
        format!("{figure:.0}{unit}")
    } else {
        format!("{figure:.1}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does each figure get a suitable unit?
    #[test]
    fn units_adapt() {
        assert_eq!(time(4.61e6), "4.6 ms");
        assert_eq!(time(999_900.0), "1.0 ms");
        assert_eq!(time(250_000.0), "250 us");
        assert_eq!(rate(12_700.0), "12.7k");
        assert_eq!(rate(88.7), "88.7");
        assert_eq!(bandwidth(2e8), "200 MB/s");
        assert_eq!(percent(1.0 / 3.0), "33.3 %");
        assert_eq!(size(4096.0), "4.1 kB");
        assert_eq!(time(f64::NAN), NONE);
    }

    /// Is a figure sorted by its value, and a word by nothing?
    #[test]
    fn figures_are_worth_something() {
        assert_eq!(value("4.6 ms"), Some(4.6e6));
        assert_eq!(value("12.7k"), Some(12_700.0));
        assert_eq!(value("200 MB/s"), Some(2e8));
        assert_eq!(value("33.3 %"), Some(33.3));
        assert_eq!([NONE, "yes 7.39", "ok", ""].map(value), [None; 4]);
    }
}
