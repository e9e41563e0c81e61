// SPDX-License-Identifier: MIT OR Apache-2.0
//! Futures: how well could anything tell when a permit's I/O ends, that knows what the gate knows?
//!
//! At a moment of a run, when an I/O has just been asked for, the process forks. All futures are
//! alike up to then; in each what is not known yet is drawn anew, and the I/O takes its time:
//!
//! ```text
//! ────────────── asked ─┬─ future 1: took 31 ms
//!   one past            ├─ future 2: took 28 ms      the one number within a quarter of the most:
//!                       └─ future 3: took 95 ms      29 ms, of two in three
//! ```
//!
//! Drawn anew is either what is asked for afterwards, or also where that lies which waits: its own
//! I/O and those before it. A gate that is not told where I/Os lie has seen nothing of that, nor
//! has the device, so that such futures are as probable as the one that came. What the device has
//! inside is as it was, though no gate sees it either: what is found is above what can be had.
//!
//! The best number chosen by those that it is judged by is too good, by chance; chosen by one half
//! and judged by the other it is too bad. The truth is between the two.

use std::io::{PipeWriter, Read, Write, pipe};

/// What is drawn anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anew {
    /// What is asked for afterwards.
    Asks,
    /// And where that lies which waits.
    Places,
}

/// Looks into futures, at each so manieth ask from some time on.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) anew: Anew,
    pub(crate) from: u64,
    pub(crate) every: u64,
    pub(crate) futures: usize,
    /// Asks from then on.
    pub(crate) asks: u64,
    /// By moment: how long the I/O took in each future, in ns.
    pub(crate) took: Vec<Vec<u64>>,
    /// This is a future: the I/O that it is about, and where to tell how long that took.
    pub(crate) told: Option<(usize, PipeWriter)>,
}

impl Look {
    pub(crate) fn new(anew: Anew, from: u64, every: u64, futures: usize) -> Look {
        Look { anew, from, every, futures, asks: 0, took: Vec::new(), told: None }
    }

    /// An I/O was asked for. In each future the number of that; in the one that forks none.
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
            // behind a fork, takes no lock that another thread may hold, and ends by `_exit`.
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

    /// An I/O has ended. The future that is about it is over.
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

/// The number within a quarter of the most of these.
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

/// In thousandths: how many are within a quarter of the best number, chosen by the other half, and
/// chosen by all of them.
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

/// Is the number of the essay found, and are all that are alike within a quarter of it?
#[test]
fn the_best_number_is_within_a_quarter_of_the_most() {
    let told = best(&[31, 28, 95]);
    assert_eq!(within(&[31, 28, 95], told), 2, "{told}");
    assert_eq!(can_be_told(&[vec![1000; 8], vec![70; 8]]), [1000; 2]);
    // Four in eight, whichever is chosen: a half says the one, and the other is the other.
    assert_eq!(can_be_told(&[vec![10, 10, 10, 10, 90, 90, 90, 90]]), [0, 500]);
}
