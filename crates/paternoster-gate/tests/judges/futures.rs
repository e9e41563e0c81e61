// SPDX-License-Identifier: MIT OR Apache-2.0
//! Futures: how well could anything that knows what the gate knows predict when a permit's I/O
//! ends?
//!
//! At some moments of a run, when an I/O has just been asked for, the process forks. All futures
//! have the same past; in each, what is not known yet is drawn anew, and the I/O's duration is
//! measured:
//!
//! ```text
//! ────────────── asked ─┬─ future 1: took 31 ms
//!   one past            ├─ future 2: took 28 ms      the estimate within a quarter of most:
//!                       └─ future 3: took 95 ms      29 ms, for two of three
//! ```
//!
//! Drawn again are either the later asks, or these and the offsets of all waiting I/Os: this one
//! and those before it. Neither a gate that is not told offsets nor the device has seen these, so
//! such futures are as probable as the real one. The device's own state is kept, although no gate
//! sees it either: so the result is above what a gate can reach.
//!
//! An estimate that is chosen by the same futures that judge it looks too good, by chance; chosen
//! by one half and judged by the other, it looks too bad. The truth is between the two.

use std::io::{PipeWriter, Read, Write, pipe};

/// What is drawn again in each future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anew {
    /// Later asks.
    Asks,
    /// The later asks, and the offsets of the I/Os that wait.
    Places,
}

/// Looks into futures at every `every`-th ask, from the time `from` on.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) anew: Anew,
    pub(crate) from: u64,
    pub(crate) every: u64,
    pub(crate) futures: usize,
    /// How many asks there were since `from`.
    pub(crate) asks: u64,
    /// For each moment: how long the I/O took in each future, in ns.
    pub(crate) took: Vec<Vec<u64>>,
    /// In a future: the I/O that it is about, and where to report how long that took.
    pub(crate) told: Option<(usize, PipeWriter)>,
}

impl Look {
    pub(crate) fn new(anew: Anew, from: u64, every: u64, futures: usize) -> Look {
        Look { anew, from, every, futures, asks: 0, took: Vec::new(), told: None }
    }

    /// An I/O was asked for. Returns the future's number in each future, and `None` in the process
    /// that forks them.
    pub(crate) fn asked(&mut self, now: u64, io: usize) -> Option<usize> {
        if now < self.from || self.told.is_some() {
            return None;
        }
        self.asks += 1;
        if !self.asks.is_multiple_of(self.every) {
            return None;
        }
        let mut took = Vec::new();
        for number in 0..self.futures {
            let (mut reader, writer) = pipe().expect("a pipe");
            // SAFETY: the child goes on in this thread alone. It allocates, which glibc allows
            // after a fork, takes no lock that another thread may hold, and ends by `_exit`.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "no fork");
            if child == 0 {
                self.told = Some((io, writer));
                return Some(number);
            }
            drop(writer);
            let mut time = [0; 8];
            reader.read_exact(&mut time).expect("a future tells how long it took");
            took.push(u64::from_le_bytes(time));
            // SAFETY: it is our child, and no status is asked for.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        }
        self.took.push(took);
        None
    }

    /// An I/O has ended, and with it the future that is about it.
    pub(crate) fn ended(&mut self, io: usize, took: u64) {
        if let Some((own, writer)) = &mut self.told
            && *own == io
        {
            writer.write_all(&took.to_le_bytes()).expect("the parent reads");
            // SAFETY: always sound; nothing of the parent's is flushed or dropped here.
            unsafe { libc::_exit(0) };
        }
    }
}

/// The estimate that is within a quarter of the largest number of these.
fn best(took: &[u64]) -> u64 {
    let mut took = took.to_vec();
    took.sort_unstable();
    let end = |from: usize| took.partition_point(|time| 3 * time <= 5 * took[from]);
    let from = (0..took.len()).max_by_key(|from| end(*from) - from).expect("there are some");
    // From 3/4 of the last to 5/4 of the first is within a quarter of all of them.
    u64::midpoint(took[end(from) - 1] * 3 / 4, took[from] * 5 / 4)
}

fn within(took: &[u64], told: u64) -> usize {
    took.iter().filter(|time| told.abs_diff(**time) * 4 <= **time).count()
}

/// In thousandths, how many are within a quarter of the best estimate: one chosen by the other
/// half, and one chosen by all.
pub(crate) fn can_be_told(moments: &[Vec<u64>]) -> [u64; 2] {
    let (mut by_others, mut by_all, mut all) = (0, 0, 0);
    for took in moments {
        let (one, other) = took.split_at(took.len() / 2);
        by_others += within(one, best(other)) + within(other, best(one));
        by_all += within(took, best(took));
        all += took.len();
    }
    [by_others, by_all].map(|count| count as u64 * 1000 / (all as u64).max(1))
}

/// Is the best estimate the one in the module's drawing, and if all times are equal, are they all
/// within a quarter of it?
#[test]
fn the_best_number_is_within_a_quarter_of_the_most() {
    let told = best(&[31, 28, 95]);
    assert_eq!(within(&[31, 28, 95], told), 2, "{told}");
    assert_eq!(can_be_told(&[vec![1000; 8], vec![70; 8]]), [1000; 2]);
    // Four in eight, whichever value is chosen; but each half chooses the value that the other half
    // does not have.
    assert_eq!(can_be_told(&[vec![10, 10, 10, 10, 90, 90, 90, 90]]), [0, 500]);
}
