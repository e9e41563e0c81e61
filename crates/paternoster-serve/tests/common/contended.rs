// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that several want at a time, in real time, and figures that may be tried again.
//!
//! A millisecond a request, four at a time: the machine's own speed hardly matters. Shares are
//! counted in requests between two snapshots of the server, a ratio, whatever the time it took. A
//! machine that is busy with something else may still disturb one: a figure has five tries.
//!
//! Debug builds audit the queue at nearly every call and are slower than the device: there is
//! nothing to be measured, and these tests say so and pass. `./test` runs them in release.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::skipped;

/// A millisecond for every command, four at a time: 4,000 a second.
pub(crate) const MODEL: &str = r#"
name = "contended"
model = "linear"
summary = "four servers of a millisecond"
valid = "tests"
[facts]
capacity = { value = "1 GiB", source = "assumed" }
depth = { value = 4, source = "assumed" }
[linear]
servers = { value = 4, source = "assumed" }
base = { value = "1 ms", source = "assumed" }
rate = { value = "999 TB/s", source = "assumed: no time for data" }
[host]
submit_cost = { value = "1 ns", source = "assumed: no time for the host" }
"#;

/// Requests that are answered before anything is counted: a second and a half.
pub(crate) const SETTLE: u64 = 6000;
/// Requests that are counted: a second.
pub(crate) const COUNT: u64 = 4000;
/// bfq with turns of 256 sectors, which are 32 requests. Its own are up to 16,384, ended after
/// 125 ms: exact over many seconds, and within one a few turns more or less are several percent.
pub(crate) const BFQ: &str = "bfq:max_budget=256";
/// Tries of a figure: one of them must be within its bounds.
pub(crate) const TRIES: u32 = 5;
/// A wait that is longer than this is none.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Whether each figure is within its bounds at one of some tries.
pub(crate) fn one_of_some(
    what: &str,
    bounds: &[RangeInclusive<u64>],
    mut figures: impl FnMut() -> Vec<u64>,
) {
    if cfg!(debug_assertions) {
        return skipped(&format!("{what}: debug builds are slower than the device; use --release"));
    }
    let mut tries = Vec::new();
    for _ in 0..TRIES {
        let found = figures();
        eprintln!("{what}: {found:?}, wanted {bounds:?}");
        if found.iter().zip(bounds).all(|(figure, bounds)| bounds.contains(figure)) {
            return;
        }
        tries.push(found);
    }
    panic!("{what}: none of {tries:?} is within {bounds:?}");
}
