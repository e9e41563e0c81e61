// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two arrays of seed 001: `array-eva`, with answers that are late now and then; and Miklos
//! Szeredi's, which is another one.
//!
//! # Late answers
//! One reader's longest call took 95 ms under noop and 59 under cfq, where nothing else was under
//! way and the mean is 1.1 ms. No distribution of an array's latencies was found. Published is one
//! of a disk, with its tail (a Seagate ST2000DM006, 4 KiB random reads; ublk-disksim, the data of
//! its figure of latencies):
//!
//! ```text
//! percentile     99      99.5    99.9    99.95 and 99.99
//! ms             28.4    40.6    103.3   156.2
//! beyond 28.4            12.2    74.9    127.8
//! part of the last hundredth
//!                0 %     50 %    90 %    95 to 100 %
//! ```
//!
//! So are late answers distributed here. How many answers are late is fitted, the only number, to
//! the two longest calls above. Each read 2 GB, 16,384 commands of 128 KiB, and a quiet call takes
//! 5.3 ms, so that the latest answer was 90 and 53.7 ms late; below these lie u = 0.914 and 0.765
//! of the late answers (interpolated: 0.9 + 0.05 * 15.1 / 52.9, 0.5 + 0.4 * 41.5 / 62.7). Of k late
//! answers the latest is at u with the density k u^(k-1), which is most likely at
//!
//! ```text
//! k = -2 / (ln 0.914 + ln 0.765) = 2 / (0.0899 + 0.2679) = 5.6      5.6 / 16,384 = 0.034 %
//! ```
//!
//! The mean lateness is 32 ms, of which 0.034 % are 11 us: 1 % of what a command takes.

use paternoster_sim::catalog;

use crate::reproduce::experiment::Device;

const LATE: &str = r#"late_quantiles = { value = [
  "99.966 % 0 ms", "99.983 % 12.2 ms", "99.9966 % 74.9 ms", "99.9983 % 127.8 ms"
], source = "how many: fitted, one reader's longest calls; the rest: a disk's percentiles" }
"#;
/// The lines before which it goes, and that Szeredi's array has otherwise.
const BEFORE: &str = "members = ";
const MEMBERS: &str = "members = { value = 20, source = \"fitted: the noop table";
/// So many give 260 MB/s under noop (14 give 225, 20 give 320).
const FEWER: &str = "members = { value = 16, source = \"fitted: 260 MB/s under noop";

/// The array of Goyal's tables.
pub(super) fn goyal() -> Device {
    late("array-eva-late", catalog::ARRAY_EVA)
}

/// Szeredi's: the same kind with fewer disks.
pub(super) fn szeredi() -> Device {
    late("array-eva-16", &catalog::ARRAY_EVA.replacen(MEMBERS, FEWER, 1))
}

/// An array some of whose answers are late.
fn late(name: &str, array: &str) -> Device {
    let text = array.replacen(BEFORE, &format!("{LATE}{BEFORE}"), 1);
    Device::File { name: name.to_owned(), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_sim::Description;

    /// Are both sound, and different from `array-eva` in what they should be?
    #[test]
    fn each_array_has_its_own_lines() {
        for (device, members) in [(goyal(), 20), (szeredi(), 16)] {
            let Device::File { name, text } = device else { panic!("it is a file") };
            Description::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
            assert!(text.contains(LATE), "{name}");
            assert!(text.contains(&format!("members = {{ value = {members}")), "{name}");
        }
    }
}
