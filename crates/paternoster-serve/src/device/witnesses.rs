// SPDX-License-Identifier: MIT OR Apache-2.0
//! Witnesses: a durable write is reported as done once no other job can still receive its error.
//!
//! The kernel reports a failed write-back once to each open description. If two durable writes of
//! one description are under way together, it gives one of them the error of both, and the end of
//! the other may be seen first:
//!
//! ```text
//! kernel    A's data are lost     B is told: EIO     A is told: 0
//! here                                        A: 0 ── told as done? ── B: EIO
//!                                             └────── waits for B ─────┴▶ A: EIO, too
//! ```
//!
//! So a write that ended well waits for the ends of the jobs that were under way at that time, its
//! witnesses: an error that it did not get, one of them did. It waits for no later job, so for no
//! longer than the device takes for the work that it has already. Flushes are witnesses of each
//! other, and of durable writes where they have no description of their own.
//!
//! A write that bypasses the page cache waits for none: its errors are its own. But it is a
//! witness: zeroes written at the same time may be in the page cache (`files::shares_errors`), and
//! the kernel may report their loss to this write. Jobs that end at once have no witnesses.
//!
//! Invariants: I1 a job is reported once; I2 a job that has failed is reported at once; I3 no job
//! is kept once the jobs that were under way at its end have ended.

use super::{Finished, Shares, Work};
#[cfg(test)]
use crate::device_loop::planted::{self, Bug};

/// A job that may get the error of another, or another its error.
#[derive(Debug, Clone, Copy)]
struct Job {
    /// Counts the jobs in the order in which they began.
    number: u64,
    /// The file that it writes to; `None` for a flush.
    file: Option<u16>,
    /// For a write: whether flushes use its description.
    with_flushes: bool,
    /// What it has written is in the page cache, so that another may get its error.
    waits: bool,
    /// What it does: whether it may have been too slow, whatever became of others.
    work: Work,
}

impl Job {
    /// Whether one may get the error that belongs to the other.
    fn shares_with(&self, other: &Job) -> bool {
        match (self.file, other.file) {
            (Some(one), Some(other)) => one == other,
            (None, None) => true,
            (Some(_), None) => self.with_flushes,
            (None, Some(_)) => other.with_flushes,
        }
    }
}

/// A job that has ended well.
#[derive(Debug)]
struct Kept {
    slot: u32,
    job: Job,
    /// The jobs that had begun before its end have smaller numbers.
    until: u64,
}

/// Jobs under way that may get the errors of others.
#[derive(Debug)]
pub(super) struct Witnesses {
    /// Jobs under way, by slot.
    begun: Vec<Option<Job>>,
    next: u64,
    kept: Vec<Kept>,
    /// Kept to be used again.
    ended: Vec<Finished>,
    under_way: usize,
}

impl Witnesses {
    /// The witnesses of a backend with this many slots.
    pub(super) fn new(depth: usize) -> Witnesses {
        Witnesses {
            begun: vec![None; depth],
            next: 0,
            kept: Vec::with_capacity(depth),
            ended: Vec::with_capacity(depth),
            under_way: 0,
        }
    }

    /// Notes that a job has begun; `shared`: which jobs of its file may get each other's errors.
    pub(super) fn begin(
        &mut self,
        slot: u32,
        work: Work,
        file: u16,
        shared: impl FnOnce() -> Shares,
    ) {
        let zeroes = match work {
            Work::Flush => None,
            Work::Write { fua: true } => Some(false),
            Work::Zero { fua: true, .. } => Some(true),
            _ => return,
        };
        let number = self.next;
        let job = match zeroes {
            None => Job { number, file: None, with_flushes: false, waits: true, work },
            Some(zeroes) => {
                let shares = shared();
                if !shares.told {
                    return;
                }
                #[cfg(test)]
                let zeroes = zeroes && !planted::has(Bug::TrustsZeroes);
                let waits = zeroes || shares.writes;
                Job { number, file: Some(file), with_flushes: shares.flushes, waits, work }
            }
        };
        if let Some(place) = self.begun.get_mut(slot as usize) {
            self.next += 1;
            self.under_way += 1;
            *place = Some(job);
        }
    }

    /// Looks at the reports from place `from` on: keeps back jobs that have witnesses under way,
    /// and adds those that have none left.
    pub(super) fn hear(&mut self, finished: &mut Vec<Finished>, from: usize) {
        #[cfg(test)]
        if planted::has(Bug::AsksNoWitness) {
            return;
        }
        if self.under_way == 0 {
            return;
        }
        self.ended.extend(finished.drain(from..));
        for place in 0..self.ended.len() {
            let ended = self.ended[place];
            let begun = self.begun.get_mut(ended.slot as usize).and_then(Option::take);
            let Some(job) = begun else {
                finished.push(ended);
                continue;
            };
            self.under_way -= 1;
            if ended.error == 0 && job.waits && self.has_witness(&job, self.next) {
                self.kept.push(Kept { slot: ended.slot, job, until: self.next });
            } else {
                finished.push(ended);
            }
            let is_loss = !job.work.is_too_slow(ended.error);
            self.let_go(&job, if is_loss { ended.error } else { 0 }, finished);
        }
        self.ended.clear();
    }

    /// Whether a witness that began before `until` is under way.
    fn has_witness(&self, job: &Job, until: u64) -> bool {
        let mut begun = self.begun.iter().flatten();
        begun.any(|other| other.number < until && other.shares_with(job))
    }

    /// A witness has ended.
    fn let_go(&mut self, witness: &Job, error: i32, finished: &mut Vec<Finished>) {
        let mut place = 0;
        while let Some(kept) = self.kept.get(place) {
            let heard = kept.job.shares_with(witness) && witness.number < kept.until;
            let error = if heard && error != 0 { libc::EIO } else { 0 };
            if error == 0 && self.has_witness(&kept.job, kept.until) {
                place += 1;
                continue;
            }
            let slot = self.kept.remove(place).slot;
            finished.push(Finished { slot, error });
        }
    }
}

#[cfg(test)]
mod tests {
    use libc::{EIO, ENOSPC, EOPNOTSUPP};

    use super::*;

    const WRITE: Work = Work::Write { fua: true };
    const ZERO: Work = Work::Zero { may_unmap: true, fua: true, fast: false };
    /// Through the page cache; the same with one description for all; past the page cache.
    const CACHED: Shares = Shares { told: true, writes: true, flushes: false };
    const ONE: Shares = Shares { flushes: true, ..CACHED };
    const DIRECT: Shares = Shares { writes: false, ..CACHED };

    fn ends(witnesses: &mut Witnesses, ended: &[(u32, i32)]) -> Vec<(u32, i32)> {
        let each = ended.iter().map(|&(slot, error)| Finished { slot, error });
        let mut finished: Vec<Finished> = each.collect();
        witnesses.hear(&mut finished, 0);
        finished.iter().map(|it| (it.slot, it.error)).collect()
    }

    /// Does a write that ended well wait for the jobs that were under way at that time, and for no
    /// other; and does it fail if one of these fails?
    #[test]
    fn a_good_end_waits_for_its_witnesses() {
        let mut all = Witnesses::new(4);
        all.begin(0, WRITE, 7, || CACHED);
        assert_eq!(ends(&mut all, &[(0, 0)]), [(0, 0)], "it was alone");
        for slot in 0..3 {
            all.begin(slot, WRITE, 7, || CACHED);
        }
        assert_eq!(ends(&mut all, &[(0, 0)]), []);
        all.begin(3, WRITE, 7, || CACHED);
        assert_eq!(ends(&mut all, &[(1, 0)]), [], "0 waits for 2, and 1 for 2 and 3");
        assert_eq!(ends(&mut all, &[(2, 0)]), [(0, 0)], "2 waits for 3");
        assert_eq!(ends(&mut all, &[(3, ENOSPC)]), [(3, ENOSPC), (1, EIO), (2, EIO)]);
        assert_eq!((all.under_way, all.kept.len()), (0, 0));
    }

    /// Do a write of another file, one that bypasses the cache, and one that is not durable wait
    /// for nothing? Is a flush a witness of other flushes, and of writes by the same description?
    #[test]
    fn others_are_no_witnesses() {
        let mut all = Witnesses::new(8);
        all.begin(0, WRITE, 1, || CACHED);
        all.begin(1, WRITE, 2, || ONE);
        all.begin(2, WRITE, 1, Shares::default);
        all.begin(3, Work::Write { fua: false }, 1, || CACHED);
        all.begin(4, Work::Flush, 0, Shares::default);
        assert_eq!(ends(&mut all, &[(0, 0), (2, 0), (3, 0)]), [(0, 0), (2, 0), (3, 0)]);
        assert_eq!(ends(&mut all, &[(1, 0)]), [], "the flush may have been told");
        all.begin(5, Work::Flush, 0, Shares::default);
        assert_eq!(ends(&mut all, &[(5, 0)]), []);
        assert_eq!(ends(&mut all, &[(4, EIO)]), [(4, EIO), (1, EIO), (5, EIO)]);
    }

    /// Is a flush not told an error by zeroes that were given up because they would be slow?
    #[test]
    fn what_is_too_slow_is_no_loss() {
        let mut all = Witnesses::new(4);
        all.begin(0, Work::Flush, 0, Shares::default);
        all.begin(1, Work::Zero { may_unmap: true, fua: true, fast: true }, 1, || ONE);
        assert_eq!(ends(&mut all, &[(0, 0)]), []);
        assert_eq!(ends(&mut all, &[(1, EOPNOTSUPP)]), [(1, EOPNOTSUPP), (0, 0)]);
    }

    /// If it bypasses the page cache, does a durable write wait for no other job, and do durable
    /// zeroes wait for the write that may have got the error for their loss?
    #[test]
    fn zeroes_past_the_cache_have_witnesses() {
        let mut all = Witnesses::new(4);
        all.begin(0, WRITE, 1, || DIRECT);
        all.begin(1, WRITE, 1, || DIRECT);
        all.begin(2, ZERO, 1, || DIRECT);
        assert_eq!(ends(&mut all, &[(0, 0)]), [(0, 0)]);
        assert_eq!(ends(&mut all, &[(2, 0)]), []);
        assert_eq!(ends(&mut all, &[(1, EIO)]), [(1, EIO), (2, EIO)]);
        all.begin(0, Work::Flush, 0, Shares::default);
        all.begin(1, WRITE, 1, || Shares { flushes: true, ..DIRECT });
        assert_eq!(ends(&mut all, &[(0, 0)]), [], "they have one description");
        assert_eq!(ends(&mut all, &[(1, EIO)]), [(1, EIO), (0, EIO)]);
    }
}
