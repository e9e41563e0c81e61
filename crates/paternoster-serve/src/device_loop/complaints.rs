// SPDX-License-Identifier: MIT OR Apache-2.0
//! Complaints: logs commands that the device failed, by volume and errno, at most one line each in
//! 10 s.
//!
//! ```text
//! vm1, EIO    0 s a line    0.1 … 9.9 s counted    10 s "531 more"    20 s none: it is over
//! vm1, ENOSPC                5 s a line
//! ```
//!
//! A disk that dies fails every command, thousands in a second: the first line says where, the
//! following ones how many. 256 pairs have a line of their own; all further ones are counted
//! together.
//!
//! Invariants: I1 each failed command is logged, or counted in a line; I2 no more than 257 windows.

use std::collections::BTreeMap;

use paternoster_core::Nanos;

use super::volumes::Volumes;
use crate::config::Level;
use crate::log::Entry;

const PERIOD: Nanos = Nanos::from_secs(10);
/// Pairs of volume and errno.
const PAIRS: usize = 256;
/// A flush concerns all volumes.
const ALL: u32 = u32::MAX;

/// What failed: the volume's place, and an errno of Linux.
type Pair = (u32, i32);

#[derive(Debug)]
struct Window {
    since: Nanos,
    more: u64,
}

/// Commands that failed.
#[derive(Debug)]
pub(super) struct Complaints {
    device: String,
    /// `None`: all pairs without a window of their own.
    windows: BTreeMap<Option<Pair>, Window>,
    /// Failures since the start, by errno, and the last one.
    pub count: BTreeMap<i32, u64>,
    /// See above.
    pub last: Option<(Nanos, String)>,
}

impl Complaints {
    /// No complaints yet about this device.
    pub(super) fn new(device: &str) -> Complaints {
        let device = device.to_owned();
        Complaints { device, windows: BTreeMap::new(), count: BTreeMap::new(), last: None }
    }

    /// A command has failed; returns whether it gets a line of its own.
    fn add(&mut self, now: Nanos, pair: Pair) -> bool {
        *self.count.entry(pair.1).or_default() += 1;
        let known = self.windows.contains_key(&Some(pair));
        let key = (known || self.windows.len() < PAIRS).then_some(pair);
        let window = self.windows.entry(key).or_insert(Window { since: now, more: 0 });
        let is_told = !known && key.is_some();
        window.more += u64::from(!is_told);
        is_told
    }

    /// The counts of the windows that are over by `now`, or of all windows.
    fn counted(&mut self, now: Nanos, all: bool) -> Vec<(Option<Pair>, u64)> {
        let mut told = Vec::new();
        self.windows.retain(|&pair, window| {
            if !all && window.since + PERIOD > now {
                return true;
            }
            let more = std::mem::take(&mut window.more);
            window.since = now;
            if more != 0 {
                told.push((pair, more));
            }
            // A window goes on as long as there is something to count.
            more != 0
        });
        told
    }

    /// The device has failed a command: what that was to do, and of which volume, if only one.
    pub(super) fn complain(
        &mut self,
        now: Nanos,
        volumes: &Volumes,
        volume: Option<u32>,
        what: &str,
        errno: i32,
    ) {
        let place = volume.unwrap_or(ALL);
        let words = format!("{}{what} failed: {}", of_volume(volumes, place), in_words(errno));
        if self.add(now, (place, errno)) {
            let entry = self.error_of(volumes, place, errno);
            entry.tell(format_args!("device {}: {words}", self.device));
        }
        self.last = Some((now, words));
    }

    /// Logs the counts of windows that are over, or of all.
    pub(super) fn tell(&mut self, now: Nanos, volumes: &Volumes, all: bool) {
        for (pair, more) in self.counted(now, all) {
            let device = &self.device;
            match pair {
                Some((place, errno)) => {
                    let entry = self.error_of(volumes, place, errno).with("count", more);
                    let (volume, why) = (of_volume(volumes, place), in_words(errno));
                    entry.tell(format_args!(
                        "device {device}: {volume}{more} more commands failed within 10 s: {why}"
                    ));
                }
                None => Entry::new(Level::Error, "io-error")
                    .with("device", &**device)
                    .with("count", more)
                    .tell(format_args!(
                        "device {device}: {more} more commands of further volumes failed"
                    )),
            }
        }
    }

    fn error_of(&self, volumes: &Volumes, place: u32, errno: i32) -> Entry {
        let mut entry = Entry::new(Level::Error, "io-error").with("device", &*self.device);
        if place != ALL {
            entry = entry.with("volume", &*volumes.at(place).name);
        }
        entry.with("errno", errno.unsigned_abs())
    }
}

fn of_volume(volumes: &Volumes, place: u32) -> String {
    if place == ALL { String::new() } else { format!("{}: ", volumes.at(place).name) }
}

fn in_words(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

#[cfg(test)]
mod tests {
    use libc::{EIO, ENOSPC};

    use super::*;

    /// Does a disk that fails 1,000 commands a second for 15 s get a line at once and two more, and
    /// is each command logged or counted? 1 + 9,999 + 5,000.
    #[test]
    fn a_dying_disk_has_a_line_in_ten_seconds() {
        let (mut complaints, mut told, mut counted) = (Complaints::new("dev"), 0, Vec::new());
        for ms in 0..40_000 {
            let now = Nanos::from_millis(ms);
            if ms < 15_000 {
                told += u32::from(complaints.add(now, (0, EIO)));
            }
            if ms % 1000 == 0 {
                counted.extend(complaints.counted(now, false));
            }
        }
        // The window that ends at 10 s has seen the first of that second, too.
        assert_eq!((told, counted), (1, vec![(Some((0, EIO)), 10_000), (Some((0, EIO)), 4_999)]));
        // The window is over: the next failure has a line of its own.
        assert!(complaints.add(Nanos::from_secs(50), (0, EIO)));
        assert_eq!(complaints.count, [(EIO, 15_001)].into());
    }

    /// Are volumes and errnos told apart, and pairs beyond 256 counted together?
    #[test]
    fn pairs_are_bounded() {
        let mut complaints = Complaints::new("dev");
        let told = (0..300).filter(|&place| complaints.add(Nanos::ZERO, (place, EIO))).count();
        // One more window for all others.
        assert_eq!((told, complaints.windows.len()), (256, 257));
        assert!(!complaints.add(Nanos::ZERO, (0, ENOSPC)), "it would be the 257th");
        assert_eq!(complaints.counted(PERIOD, false), [(None, 45)]);
    }

    /// Are counts logged at the end, too?
    #[test]
    fn the_end_tells_all() {
        let mut complaints = Complaints::new("dev");
        assert!(complaints.add(Nanos::ZERO, (0, EIO)));
        assert!(!complaints.add(Nanos::ZERO, (0, EIO)));
        assert_eq!(complaints.counted(Nanos::ZERO, true), [(Some((0, EIO)), 1)]);
    }
}
