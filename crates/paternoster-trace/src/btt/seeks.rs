// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeks: how far the start of each I/O is from the one before it on the device.
//!
//! ```text
//!                 last I/O
//!  ────┬──────────█████████──────────────┬────▶ sectors
//!      └ new I/O                         └ new I/O
//!        distance to the start: negative   distance to the end: positive
//!                  inside or touching: 0
//! ```
//!
//! One is kept for the bios as they come (Q2Q) and one for the requests as they go to the device
//! (D2D). The first I/O of a device is a seek from sector 0.
//!
//! Source: BTT-16 to BTT-19.

use super::distances::{Distances, Modes};

/// The seeks of one device, of bios or of requests.
#[derive(Debug)]
pub(super) struct Seeks {
    start: u64,
    end: u64,
    seeks: u64,
    sum: u128,
    distances: Distances,
}

/// The reported figures of a device's seeks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeekFigures {
    /// Number of seeks.
    pub seeks: u64,
    /// The mean distance, in sectors.
    pub mean: f64,
    /// What btt calls the median, in sectors: 0 for most workloads.
    pub btt_median: u64,
    /// The median distance, in sectors.
    pub median: u64,
    /// The most frequent distances, in sectors, in btt's order: the first two.
    pub modes: Vec<u64>,
    /// How many distances are equally frequent.
    pub mode_ties: u64,
    /// How often each of these distances occurred.
    pub mode_count: u64,
}

impl SeekFigures {
    /// Keeps the first two of the most frequent distances only.
    pub(super) fn forget_modes(&mut self) {
        self.modes.truncate(2);
        self.modes.shrink_to_fit();
    }
}

/// The figures of several devices as one: means weighted by seeks, and the most frequent of their
/// most frequent distances.
#[expect(clippy::cast_precision_loss, reason = "a mean of means, as btt has it")]
pub(super) fn together(devices: Vec<SeekFigures>) -> SeekFigures {
    let seeks: u64 = devices.iter().map(|one| one.seeks).sum();
    if seeks == 0 {
        return SeekFigures::default();
    }
    let weighted = |value: &dyn Fn(&SeekFigures) -> u64| {
        let sum = devices.iter().map(|one| u128::from(one.seeks) * u128::from(value(one)));
        u64::try_from(sum.sum::<u128>() / u128::from(seeks)).unwrap_or(u64::MAX)
    };
    let (btt_median, median) = (weighted(&|one| one.btt_median), weighted(&|one| one.median));
    let mean: f64 = devices.iter().map(|one| one.seeks as f64 * one.mean).sum();
    let mean = mean / seeks as f64;
    let (modes, mode_ties, mode_count) = merge_modes(devices);
    SeekFigures { seeks, mean, btt_median, median, modes, mode_ties, mode_count }
}

/// The distance with the largest sum of counts (of those the one that was met first), how many have
/// as large a sum, and the sum.
fn merge_modes(devices: Vec<SeekFigures>) -> (Vec<u64>, u64, u64) {
    let mut used = devices.into_iter().filter(|one| one.seeks > 0);
    let Some(first) = used.next() else { return (Vec::new(), 0, 0) };
    let mut all: Vec<(u64, u64, u64)> = Vec::new();
    let mut others = used.peekable();
    if others.peek().is_none() {
        return (first.modes, first.mode_ties, first.mode_count);
    }
    for device in core::iter::once(first).chain(others) {
        let (met, count) = (all.len() as u64, device.mode_count);
        all.extend((met..).zip(device.modes).map(|(met, mode)| (mode, met, count)));
    }
    all.sort_unstable();
    let same = |a: &(u64, u64, u64), b: &(u64, u64, u64)| a.0 == b.0;
    let sums = || all.chunk_by(same).map(|one| (one[0].0, one[0].1, sum(one)));
    let largest = sums().map(|(.., sum)| sum).max().unwrap_or(0);
    let mut ties: Vec<(u64, u64)> =
        sums().filter(|one| one.2 == largest).map(|(mode, met, _)| (met, mode)).collect();
    let count = ties.len() as u64;
    ties.sort_unstable();
    (ties.into_iter().take(2).map(|(_, mode)| mode).collect(), count, largest)
}

fn sum(same: &[(u64, u64, u64)]) -> u64 {
    same.iter().map(|(.., count)| count).sum()
}

/// From the last I/O to the next, in sectors; backwards is negative.
#[expect(clippy::cast_possible_wrap, reason = "the difference of sectors, whatever they are")]
pub(super) fn distance(last: (u64, u64), next: (u64, u64), absolute: bool) -> i64 {
    let within = |sector: u64| last.0 <= sector && sector <= last.1;
    if absolute {
        next.0.wrapping_sub(last.1) as i64
    } else if within(next.0) || within(next.1) {
        0
    } else if next.0 > last.1 {
        next.0.wrapping_sub(last.1) as i64
    } else {
        next.0.wrapping_sub(last.0) as i64
    }
}

impl Seeks {
    pub(super) const fn new() -> Seeks {
        Seeks { start: 0, end: 0, seeks: 0, sum: 0, distances: Distances::new() }
    }

    /// Counts the seek to an I/O; its distance.
    pub(super) fn seek(&mut self, start: u64, end: u64, absolute: bool) -> i64 {
        let distance = distance((self.start, self.end), (start, end), absolute);
        (self.start, self.end) = (start, end);
        self.seeks += 1;
        self.sum += u128::from(distance.unsigned_abs());
        self.distances.add(distance.unsigned_abs());
        distance
    }

    /// The statistics; the counts are given back to the system.
    pub(super) fn figures(mut self) -> SeekFigures {
        self.distances.settle();
        let btt_median = self.distances.median(self.seeks);
        let median = self.distances.true_median();
        let Modes { count, distances } = self.distances.into_modes();
        #[expect(clippy::cast_precision_loss, reason = "a mean, as btt has it")]
        let mean = if self.seeks == 0 { 0.0 } else { self.sum as f64 / self.seeks as f64 };
        let (seeks, modes, mode_count) = (self.seeks, distances, count);
        let mode_ties = modes.len() as u64;
        SeekFigures { seeks, mean, btt_median, median, modes, mode_ties, mode_count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the distance the one to the nearer end of the last I/O, and 0 where they touch?
    #[test]
    fn the_distance_is_to_the_nearer_end() {
        let last = (1000, 1008);
        // 1016 - 1008; 500 - 1000; touching after, before (992 + 8 = 1000), across.
        assert_eq!(distance(last, (1016, 1024), false), 8);
        assert_eq!(distance(last, (500, 508), false), -500);
        assert_eq!(distance(last, (1008, 1016), false), 0);
        assert_eq!(distance(last, (992, 1000), false), 0);
        // Around it: neither end lies in it, and its start is before.
        assert_eq!(distance(last, (900, 1100), false), -100);
        // With -a always from the end: 1000 - 1008.
        assert_eq!(distance(last, (1000, 1008), true), -8);
        assert_eq!(distance((0, 0), (u64::MAX, u64::MAX), false), -1);
    }

    /// Is the first I/O a seek from sector 0, and are the figures those of the golden device 8,32?
    #[test]
    fn figures_are_those_of_a_golden_device() {
        let mut seeks = Seeks::new();
        // 100 from 0; 900 from 108 is 792 away.
        assert_eq!(seeks.seek(100, 108, false), 100);
        assert_eq!(seeks.seek(900, 908, false), 792);
        let figures = seeks.figures();
        // (100 + 792) / 2; two distances, of which the first is on top: the second goes first.
        assert_eq!((figures.seeks, figures.mean), (2, 446.0));
        assert_eq!((figures.btt_median, figures.median), (100, 100));
        assert_eq!((figures.modes, figures.mode_count), (vec![792, 100], 1));
    }
}
