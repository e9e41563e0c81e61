// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transfer: how long bytes take, as a fraction of two whole numbers.

use paternoster_core::Nanos;

/// Time per byte as a fraction, so that `46.04 us/KiB` and `150 MB/s` are both exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Nanoseconds ...
    pub nanos: u64,
    /// ... for this many bytes, at least 1.
    pub bytes: u64,
}

impl Transfer {
    /// How long `bytes` take, rounded down to a nanosecond.
    #[must_use]
    pub fn time(&self, bytes: u64) -> Nanos {
        let time = u128::from(bytes) * u128::from(self.nanos) / u128::from(self.bytes.max(1));
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the fitted card of seed 000 exact? 4 KiB: 1.116 + 4 * 0.04604 = 1.30016 ms.
    #[test]
    fn a_fraction_of_time_per_kib_is_exact() {
        let card = Transfer { nanos: 46_040, bytes: 1024 };
        assert_eq!(card.time(4096), Nanos(184_160));
        let disk = Transfer { nanos: 1_000_000_000, bytes: 150_000_000 };
        assert_eq!(disk.time(150_000_000), Nanos::from_secs(1));
    }
}
