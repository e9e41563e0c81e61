// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of lines: UTC, to the millisecond, as RFC 3339 writes them.
//!
//! A year is counted from March, so that the day that is not always there is its last:
//!
//! ```text
//! day 0 of such a year is 1 March; month m of it (March: 0) begins on day (153 m + 2) / 5
//! 400 years have 146,097 days; 1970-01-01 is day 719,468 since 0000-03-01
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

/// Days of 400 years.
const ERA: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: u64 = 719_468;

/// `2026-11-26T12:00:00.123Z`. A time before 1970 is written as 1970.
pub(super) fn utc(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = date(seconds / 86_400);
    let second = seconds % 86_400;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of the month, `days` days after 1970-01-01.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH;
    let (era, day) = (days / ERA, days % ERA);
    // Leap days before it: one in 4 years (1,460 days and one), but for three in 400.
    let year = (day - day / 1460 + day / 36_524 - day / (ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next = month >= 10;
    let month = if is_next { month - 9 } else { month + 3 };
    (400 * era + year + is_next as u64, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Are days those of the calendar? 1970 begins it; 11,016 days later is 2000-02-29 (30 years of
    /// 365 days, 7 leap days, 31 + 28 days); 2100 has no leap day.
    #[test]
    fn days_of_the_calendar() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(30 * 365 + 7 + 31 + 28), (2000, 2, 29));
        assert_eq!(date(30 * 365 + 7 + 31 + 29), (2000, 3, 1));
        // 130 years, 32 leap days (1972 to 2096), 31 + 28 days: 2100-03-01.
        assert_eq!(date(130 * 365 + 32 + 31 + 28), (2100, 3, 1));
    }

    /// Does each day follow the one before it, for 200 years?
    #[test]
    fn days_follow_each_other() {
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut expected = (1970, 1, 1);
        for day in 0..73_048 {
            assert_eq!(date(day), expected);
            let (year, month, day) = &mut expected;
            let is_leap = *year % 4 == 0 && (*year % 100 != 0 || *year % 400 == 0);
            let length = lengths[usize::try_from(*month - 1).unwrap()];
            *day += 1;
            if *day > length + u64::from(*month == 2 && is_leap) {
                (*month, *day) = (*month + 1, 1);
            }
            if *month == 13 {
                (*year, *month) = (*year + 1, 1);
            }
        }
    }

    /// Is a time written to the millisecond? 1,764,158,400 s are 20,418 days and 12 hours.
    #[test]
    fn a_time_in_words() {
        let at = UNIX_EPOCH + Duration::from_millis(1_764_158_400_123);
        assert_eq!(utc(at), "2025-11-26T12:00:00.123Z");
    }
}
