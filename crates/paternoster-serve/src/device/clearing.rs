// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clearing: how a range becomes a hole or zeroes, the best way first.
//!
//! ```text
//! discard               punch ──▶ leave it (a discard is a hint)
//! zero, may unmap       punch ──▶ zero range ──▶ write zeroes
//! zero, keep the space  zero range ──▶ punch and allocate again ──▶ write zeroes
//! either, to be fast    the same                                 ──▶ EOPNOTSUPP
//! ```
//!
//! A file that does not support a way says so the first time, and the way is not tried on it again;
//! a way that does not suit one range (a block device wants whole blocks) is passed over for that
//! range. On block devices `fallocate` is the device's own zeroing, which leaves nothing to
//! allocate.
//!
//! Nothing is done here: a backend asks for [`Clearing::next`], does it, and reports how it ended.
//!
//! Source: fallocate(2).

use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::FallocateFlags;

/// A way to clear a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Punch,
    ZeroRange,
    PunchAndAllocate,
    Write,
    Leave,
}

const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
const ZERO_RANGE: FallocateFlags = FallocateFlags::ZERO_RANGE.union(FallocateFlags::KEEP_SIZE);

impl Way {
    /// The calls of `fallocate` that it takes.
    const fn calls(self) -> &'static [FallocateFlags] {
        match self {
            Way::Punch => &[PUNCH],
            Way::ZeroRange => &[ZERO_RANGE],
            Way::PunchAndAllocate => &[PUNCH, FallocateFlags::KEEP_SIZE],
            Way::Write | Way::Leave => &[],
        }
    }
}

const DISCARD: &[Way] = &[Way::Punch, Way::Leave];
const UNMAP: &[Way] = &[Way::Punch, Way::ZeroRange, Way::Write];
const KEEP: &[Way] = &[Way::ZeroRange, Way::PunchAndAllocate, Way::Write];
const KEEP_ON_DEVICE: &[Way] = &[Way::ZeroRange, Way::Write];

/// The ways that a file does not support.
#[derive(Debug, Default)]
pub(super) struct Refusals(AtomicU8);

impl Refusals {
    fn add(&self, way: Way) {
        self.0.fetch_or(1 << way as u8, Ordering::Relaxed);
    }

    /// As for a file that supports nothing but writes.
    #[cfg(test)]
    pub(super) fn refuse_all(&self) {
        [Way::Punch, Way::ZeroRange, Way::PunchAndAllocate].iter().for_each(|way| self.add(*way));
    }

    fn has(&self, way: Way) -> bool {
        self.0.load(Ordering::Relaxed) & (1 << way as u8) != 0
    }
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// `fallocate` the range with these flags.
    Allocate(FallocateFlags),
    /// Write zeroes over the range; that is all.
    Write,
    /// Only that would be left, and it is to be fast: the range is given up.
    TooSlow,
    /// Nothing is left to do.
    Done,
}

/// A range that is being cleared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clearing {
    ways: &'static [Way],
    /// The way that is tried, and how many of its calls were made.
    way: usize,
    call: usize,
    /// Nothing is written.
    fast: bool,
}

impl Clearing {
    pub(super) const fn discard() -> Clearing {
        Clearing { ways: DISCARD, way: 0, call: 0, fast: false }
    }

    pub(super) const fn zero(may_unmap: bool, block_device: bool, fast: bool) -> Clearing {
        let ways = match (may_unmap, block_device) {
            (true, _) => UNMAP,
            (false, false) => KEEP,
            (false, true) => KEEP_ON_DEVICE,
        };
        Clearing { ways, way: 0, call: 0, fast }
    }

    /// The next step to take now.
    pub(super) fn next(&mut self, refusals: &Refusals) -> Next {
        while refusals.has(self.ways[self.way]) {
            self.pass_over();
        }
        match self.ways[self.way] {
            Way::Write if self.fast => Next::TooSlow,
            Way::Write => Next::Write,
            way => way.calls().get(self.call).map_or(Next::Done, |flags| Next::Allocate(*flags)),
        }
    }

    /// A call has ended with this errno, 0 for none.
    ///
    /// # Errors
    /// The errno, if the range must be given up.
    pub(super) fn ended(&mut self, refusals: &Refusals, errno: i32) -> Result<(), i32> {
        match errno {
            0 => self.call += 1,
            libc::EINTR => {}
            libc::EOPNOTSUPP | libc::ENOSYS => {
                refusals.add(self.ways[self.way]);
                self.pass_over();
            }
            libc::EINVAL => self.pass_over(),
            errno => return Err(errno),
        }
        Ok(())
    }

    /// Goes on to the next way. The last one of each list makes no call that a file could refuse.
    fn pass_over(&mut self) {
        self.way = (self.way + 1).min(self.ways.len() - 1);
        self.call = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls of a file that refuses some flags for good.
    fn calls(
        mut clearing: Clearing,
        refusals: &Refusals,
        refused: &[FallocateFlags],
    ) -> (Vec<FallocateFlags>, Next) {
        let mut made = Vec::new();
        loop {
            match clearing.next(refusals) {
                Next::Allocate(flags) => {
                    made.push(flags);
                    let errno = if refused.contains(&flags) { libc::EOPNOTSUPP } else { 0 };
                    clearing.ended(refusals, errno).unwrap();
                }
                end => return (made, end),
            }
        }
    }

    /// Is each way tried in its turn, and one that was refused never again?
    #[test]
    fn ways_are_tried_in_order() {
        let file = Refusals::default();
        let keep = || Clearing::zero(false, false, false);
        let as_tmpfs = &[ZERO_RANGE];
        let allocate = FallocateFlags::KEEP_SIZE;
        assert_eq!(calls(keep(), &file, as_tmpfs), (vec![ZERO_RANGE, PUNCH, allocate], Next::Done));
        assert_eq!(calls(keep(), &file, as_tmpfs), (vec![PUNCH, allocate], Next::Done));
        assert_eq!(
            calls(Clearing::zero(true, false, false), &file, &[]),
            (vec![PUNCH], Next::Done)
        );
        let nothing = &[PUNCH, ZERO_RANGE];
        let file = Refusals::default();
        assert_eq!(calls(Clearing::discard(), &file, nothing), (vec![PUNCH], Next::Done));
        assert_eq!(
            calls(Clearing::zero(true, false, false), &file, nothing),
            (vec![ZERO_RANGE], Next::Write)
        );
        let fast = Clearing::zero(true, false, true);
        assert_eq!(calls(fast, &file, nothing), (vec![], Next::TooSlow));
        assert_eq!(calls(Clearing::discard(), &file, nothing), (vec![], Next::Done));
    }

    /// Does a range that does not suit a way say nothing of the file, and an error end it?
    #[test]
    fn errors_are_of_the_range() {
        let file = Refusals::default();
        let mut clearing = Clearing::zero(true, true, false);
        clearing.ended(&file, libc::EINVAL).unwrap();
        assert_eq!(clearing.next(&file), Next::Allocate(ZERO_RANGE));
        assert_eq!(clearing.ended(&file, libc::ENOSPC), Err(libc::ENOSPC));
        assert_eq!(Clearing::discard().next(&file), Next::Allocate(PUNCH));
    }
}
