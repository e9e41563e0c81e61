// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantities of device files: `1.116 ms`, `4 GiB`, `150 MB/s`, `46.04 us/KiB`.
//!
//! Numbers with units are read by `paternoster-base`, exact to the nanosecond or byte; here are the
//! units and words of device files.

use paternoster_base::quantity::SIZES;
pub(crate) use paternoster_base::quantity::rounded_down as quantity;
use paternoster_core::Nanos;

use crate::transfer::Transfer;

const TIMES: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// A span of time.
pub(crate) fn time(text: &str) -> Result<Nanos, String> {
    quantity(text, &TIMES).map(Nanos).ok_or_else(|| {
        "not a span of time: a number and one of ns, us, ms, s (as `1.116 ms`)".to_owned()
    })
}

/// A span of time that may be negative, in nanoseconds.
pub(crate) fn signed_time(text: &str) -> Result<i64, String> {
    let (sign, text) = match text.trim_start().strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let size = i64::try_from(time(text)?.0).map_err(|_| "too long".to_owned())?;
    Ok(sign * size)
}

/// A size in bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    quantity(text, &SIZES).ok_or_else(|| {
        "not a size: a number and one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB (as `4 GiB`)"
            .to_owned()
    })
}

/// A rate, as bytes per second or as time per size.
pub(crate) fn transfer(text: &str) -> Result<Transfer, String> {
    let wrong = || {
        "not a rate: a size per second (`150 MB/s`) or a time per size (`46.04 us/KiB`)".to_owned()
    };
    let (left, right) = text.split_once('/').ok_or_else(wrong)?;
    let (left, right) = (left.trim(), right.trim());
    let unit = |table: &[(&str, u64)], name: &str| {
        table.iter().find(|(unit, _)| *unit == name).map(|&(_, factor)| factor)
    };
    let transfer = match (quantity(left, &SIZES), quantity(left, &TIMES)) {
        (Some(bytes), _) => Transfer { nanos: unit(&TIMES, right).ok_or_else(wrong)?, bytes },
        (_, Some(nanos)) => Transfer { nanos, bytes: unit(&SIZES, right).ok_or_else(wrong)? },
        _ => return Err(wrong()),
    };
    if transfer.bytes == 0 { Err("a rate of 0 bytes never ends".to_owned()) } else { Ok(transfer) }
}

/// `text`, a decimal without a unit, times `factor`, rounded down; `None` if it is not one.
pub(crate) fn decimal(text: &str, factor: u64) -> Option<u64> {
    quantity(text, &[("", factor)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are decimals exact, and are the units understood that people write?
    #[test]
    fn quantities_are_exact() {
        assert_eq!(time("1.116 ms"), Ok(Nanos(1_116_000)));
        assert_eq!(time("20us"), Ok(Nanos(20_000)));
        assert_eq!(size("4 GiB"), Ok(4 << 30));
        assert_eq!(transfer("46.04 us/KiB"), Ok(Transfer { nanos: 46_040, bytes: 1024 }));
        assert_eq!(transfer("150 MB/s"), Ok(Transfer { nanos: 1_000_000_000, bytes: 150_000_000 }));
    }

    /// Is nonsense refused with what would be valid, without a panic?
    #[test]
    fn nonsense_is_refused() {
        for text in ["", "ms", "1", "-1 ms", "1.2.3 ms", "99999999999999999999 s", ".5 ms", "1 µs"]
        {
            assert!(time(text).unwrap_err().contains("as `1.116 ms`"), "{text}");
        }
        for text in ["150 MB", "0 B/s", "1/2", "5 ms/s", "/", "1 MB/KiB"] {
            assert!(transfer(text).is_err(), "{text}");
        }
    }
}
