// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time: nanoseconds everywhere, and the ticks in which a kernel with a given HZ sees them.
//!
//! The library never reads a clock: the caller passes `now` into every call. A kernel's schedulers
//! of the jiffies era saw time in ticks of 1/HZ; published experiments depend on that (an 8 ms
//! `slice_idle` is two ticks at HZ=250, a FIFO expiry of HZ/8 is 31 ticks = 124 ms). [`Hz`] rounds
//! time as such a kernel does; `hz=0` leaves it exact.
//!
//! ```text
//! exact   0    1    2    3    4    5    6    7    8    9 ms
//! hz=250  0 . . . . . . . . . 4 . . . . . . . . . . . 8 . .     now, rounded down
//! ```
//!
//! Source: BLK-19.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in time, or a duration, in nanoseconds.
///
/// Arithmetic saturates: a deadline beyond 584 years is "never", a negative duration is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of time, and the zero duration.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than everything.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `us` microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// `s` seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s.saturating_mul(1_000_000_000))
    }

    /// Whole microseconds, rounded down.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

/// Prints in the largest unit that keeps the number readable: `1.116 ms`, `20 us`, `5 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0 => return f.write_str("0 s"),
            1_000_000_000.. => (1_000_000_000, "s"),
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "us"),
            _ => (1, "ns"),
        };
        let (whole, rest) = (self.0 / unit, self.0 % unit);
        match rest * 1_000 / unit {
            0 => write!(f, "{whole} {name}"),
            milli => {
                let (mut digits, mut width) = (milli, 3);
                while digits % 10 == 0 {
                    digits /= 10;
                    width -= 1;
                }
                write!(f, "{whole}.{digits:0width$} {name}")
            }
        }
    }
}

/// `value * numerator / denominator`, rounded down, however large the product is.
#[must_use]
pub fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    if let Some(product) = value.checked_mul(numerator) {
        return product / denominator.max(1);
    }
    let wide = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Ticks per second of the kernel whose view of time the elevators see; 0 is exact time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hz(u32);

impl Hz {
    /// Exact time, no ticks.
    pub const EXACT: Hz = Hz(0);

    /// Ticks of 1/`hz` seconds: 0 (exact), or a divisor of 1 000 000 000 as 100, 250, 1000 are.
    #[must_use]
    pub const fn new(hz: u32) -> Option<Hz> {
        if hz == 0 || (hz <= 10_000 && 1_000_000_000 % hz == 0) { Some(Hz(hz)) } else { None }
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The tick in nanoseconds; 1 when time is exact.
    #[must_use]
    pub const fn tick(self) -> Nanos {
        if self.0 == 0 { Nanos(1) } else { Nanos(1_000_000_000 / self.0 as u64) }
    }

    /// `at`, rounded down to a tick: the time as this kernel sees it.
    #[must_use]
    pub const fn floor(self, at: Nanos) -> Nanos {
        if self.0 == 0 { at } else { Nanos(at.0 - at.0 % self.tick().0) }
    }

    /// `at`, rounded up to a tick: when a timer for `at` fires in this kernel.
    #[must_use]
    pub const fn ceil(self, at: Nanos) -> Nanos {
        let over = at.0 % self.tick().0;
        if over == 0 { at } else { Nanos(at.0.saturating_add(self.tick().0 - over)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Is time rounded as by a kernel of that HZ? HZ/8 at 250 is 31 ticks = 124 ms.
    #[test]
    fn ticks_round_down() {
        let hz = Hz::new(250).unwrap();
        assert_eq!(hz.floor(Nanos::from_millis(125)), Nanos::from_millis(124));
        assert_eq!(hz.floor(Nanos::from_millis(8)), Nanos::from_millis(8));
        assert_eq!(Hz::EXACT.floor(Nanos(7)), Nanos(7));
        assert_eq!(Hz::new(300), None);
    }

    /// Are durations printed as a person would write them?
    #[test]
    fn spans_print_readably() {
        for (ns, text) in [
            (0, "0 s"),
            (20_000, "20 us"),
            (1_116_000, "1.116 ms"),
            (5_000_000_000, "5 s"),
            (1_050_000, "1.05 ms"),
            (999, "999 ns"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }

    /// Is overflow a "never" and not a wrap?
    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos(1) - Nanos(2), Nanos::ZERO);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
    }
}
