// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times, as btt computes and prints them: nanoseconds as integers until the last step.

use core::fmt;

/// No time: a step that did not happen.
pub(super) const NEVER: u64 = u64::MAX;

/// Nanoseconds in seconds, whole ones and fraction apart: the roundings are btt's.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "seconds, and a fraction of 30 bits")]
pub(super) fn seconds(ns: u64) -> f64 {
    (ns / 1_000_000_000) as f64 + (ns % 1_000_000_000) as f64 / 1e9
}

/// Nanoseconds in seconds by one division, which rounds differently: btt has it in files of
/// latencies.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "the rounding is meant")]
pub(super) fn in_one(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A time with all its digits, `1.000000002`, of its seconds the low 32 bits; a width pads these.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exact(pub(super) u64);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = f.width().unwrap_or(0);
        let whole = (self.0 / 1_000_000_000) & 0xffff_ffff;
        write!(f, "{whole:width$}.{:09}", self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a time printed with all its digits, however large?
    #[test]
    fn times_have_all_their_digits() {
        assert_eq!(format!("{:5}", Exact(1_000_000_002)), "    1.000000002");
        assert_eq!(Exact(2350).to_string(), "0.000002350");
        // What btt prints where a step is missing: 2^64 - 1 ns are 18446744073 s, of which it has
        // 32 bits, less 4 * 2^32.
        assert_eq!(Exact(NEVER).to_string(), "1266874889.709551615");
        assert_eq!(seconds(1_500_000_000), 1.5);
        // Half a microsecond: the one is a little below, the other a little above.
        let time = 1_883_229_500;
        assert_eq!(format!("{:.6} {:.6}", in_one(time), seconds(time)), "1.883229 1.883230");
    }
}
