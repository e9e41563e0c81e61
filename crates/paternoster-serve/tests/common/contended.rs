// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that several want at a time, in real time, and figures that a busy machine disturbs.
//!
//! A millisecond a request, four at a time: the machine's own speed hardly matters. Shares are
//! counted in requests between two snapshots of the server, a ratio, whatever the time it took. A
//! machine that is busy with something else may still disturb one. So a figure is the median of
//! three tries. Meanwhile a thread sleeps a millisecond at a time, as the device does, and measures
//! how late the machine wakes it: that is the machine's noise.
//!
//! ```text
//! 740 ..= 759 wanted, 20 thousandths of noise:  median 730  730 + 730 * 20 / 1000 >= 740: passes
//!                                               median 712  712 + 14 < 740:               fails
//! ```
//!
//! A machine that wakes a thread later than [`TOO_NOISY`] cannot judge: that is said, and counted
//! as skipped.
//!
//! Debug builds audit the queue at nearly every call and are slower than the device: there is
//! nothing to measure, so these tests print that and pass. `./test` runs them in release.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
/// Tries of a figure; the median has to be within its bounds, widened by the noise.
const TRIES: usize = 3;
/// Thousandths of a millisecond by which a thread is woken late, on average, where shares of a
/// device of a millisecond cannot be judged any more.
const TOO_NOISY: u64 = 300;
/// Longer waits are not counted.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// By how many thousandths of its sleep is a thread woken late?
struct Noise {
    ends: Arc<AtomicBool>,
    sleeper: JoinHandle<Vec<u64>>,
}

impl Noise {
    const ASKED: Duration = Duration::from_millis(1);

    fn listen() -> Noise {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let sleeper = std::thread::spawn(move || {
            let mut late = Vec::new();
            while !seen.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(Noise::ASKED);
                let excess = began.elapsed().saturating_sub(Noise::ASKED);
                late.push(u64::try_from(excess.as_micros()).unwrap_or(u64::MAX));
            }
            late
        });
        Noise { ends, sleeper }
    }

    /// The mean above the least, which is what the timer itself takes on a machine at rest. A
    /// millisecond has a thousand microseconds: these are thousandths.
    fn end(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        let late = self.sleeper.join().expect("a thread that only sleeps");
        let least = late.iter().min().copied().unwrap_or(0);
        let mean = late.iter().sum::<u64>() / u64::try_from(late.len().max(1)).unwrap_or(1);
        mean - least
    }
}

/// Whether a figure is within its bounds, as far as this noise, in thousandths, lets one see.
fn is_within(figure: u64, bounds: &RangeInclusive<u64>, noise: u64) -> bool {
    let unseen = figure * noise / 1000;
    figure + unseen >= *bounds.start() && figure.saturating_sub(unseen) <= *bounds.end()
}

/// Asserts that the median of each figure is within its bounds.
pub(crate) fn median_is(
    what: &str,
    bounds: &[RangeInclusive<u64>],
    mut figures: impl FnMut() -> Vec<u64>,
) {
    if cfg!(debug_assertions) {
        return skipped(&format!("{what}: debug builds are slower than the device; use --release"));
    }
    let noise = Noise::listen();
    let tries: Vec<Vec<u64>> = (0..TRIES).map(|_| figures()).collect();
    let noise = noise.end();
    let median = |figure: usize| {
        let mut of_tries: Vec<u64> = tries.iter().map(|found| found[figure]).collect();
        of_tries.sort_unstable();
        of_tries[TRIES / 2]
    };
    let medians: Vec<u64> = (0..bounds.len()).map(median).collect();
    eprintln!("{what}: {medians:?} of {tries:?}, wanted {bounds:?}, noise {noise} thousandths");
    if noise > TOO_NOISY {
        return skipped(&format!("{what}: the machine is too busy to judge shares: noise {noise}"));
    }
    let are_within = medians.iter().zip(bounds).all(|(figure, of)| is_within(*figure, of, noise));
    assert!(are_within, "{what}: {medians:?} of {tries:?}, wanted {bounds:?}, noise {noise}");
}

/// Does noise widen bounds by that part of the figure, and no more? 730 * 20 / 1000 = 14.
#[test]
fn noise_widens_bounds() {
    assert!(is_within(740, &(740..=759), 0) && !is_within(739, &(740..=759), 0));
    assert!(is_within(730, &(740..=759), 20) && !is_within(712, &(740..=759), 20));
    assert!(is_within(774, &(740..=759), 20) && !is_within(780, &(740..=759), 20));
}
