// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block status: runs of hole and data as the descriptors of `base:allocation`.
//!
//! ```text
//! request      |────────────────────────────────────|
//! runs         │data│data│  hole      │ data │     hole  …     as the file system tells them
//! blocks       |     |     |     |     |     |     |
//! descriptors  |────data───|hole |────data───|hole──|          merged, in blocks, cut
//! ```
//!
//! Neighbours of one sort are merged; holes shrink to whole blocks, which is always safe, as
//! whatever is called data may be anything; the last descriptor ends at the request's end at the
//! latest. There are at most [`DESCRIPTORS_MOST`], or one if the client wants no more; the client
//! asks again from where they end. There is at least one: if nothing is known, all is data.
//!
//! Source: `doc/proto.md`, "Metadata contexts" and NBD_CMD_BLOCK_STATUS.

use super::wire::{STATE_HOLE, STATE_ZERO};
use crate::device::Extent;

/// Most descriptors of a reply: 2 KiB of them. A connection may have many such replies that wait to
/// be sent, and they are not in the device's memory.
pub const DESCRIPTORS_MOST: usize = 256;

/// Most descriptors of a reply; `one`: its client wants one.
pub const fn descriptors_most(one: bool) -> usize {
    if one { 1 } else { DESCRIPTORS_MOST }
}

/// Gathers the descriptors of one request.
#[derive(Debug, Clone)]
pub struct Descriptors {
    /// Multiple of which descriptors are.
    block: u64,
    /// First byte of the request, and the one after its last.
    start: u64,
    end: u64,
    /// The run that is not reported yet, as it may go on: where it begins, where it ends for now.
    run: (u64, u64),
    hole: bool,
    /// Up to where descriptors tell.
    told: u64,
    most: usize,
    list: Vec<(u32, u32)>,
}

impl Descriptors {
    /// For a request of `length` bytes from `offset` on, in blocks of `block` bytes (1: any);
    /// `one`: the client wants one descriptor.
    pub fn new(offset: u64, length: u32, block: u32, one: bool) -> Descriptors {
        Descriptors {
            block: u64::from(block.max(1)),
            start: offset,
            end: offset.saturating_add(u64::from(length)),
            run: (offset, offset),
            hole: false,
            told: offset,
            most: descriptors_most(one),
            list: Vec::new(),
        }
    }

    /// Takes the next run; returns false if no more are wanted.
    pub fn push(&mut self, extent: Extent) -> bool {
        let at = self.run.1;
        if extent.hole != self.hole {
            if !self.tell_run() {
                return false;
            }
            self.run.0 = at;
            self.hole = extent.hole;
        }
        self.run.1 = at.saturating_add(extent.length).min(self.end);
        self.run.1 < self.end
    }

    /// Tells the run, which is whole now; false if there is no room for it.
    fn tell_run(&mut self) -> bool {
        let (from, to) = self.run;
        if !self.hole {
            return self.tell(to, 0);
        }
        // What begins or ends with the request need not be in blocks there.
        let first = match from.checked_next_multiple_of(self.block) {
            Some(rounded) if from != self.start => rounded,
            _ => from,
        };
        let last = if to == self.end { to } else { to - to % self.block };
        if first >= last {
            return self.tell(to, 0);
        }
        self.tell(first, 0) && self.tell(last, STATE_HOLE | STATE_ZERO)
    }

    /// Descriptors up to `to` have these flags; false if there is no room for one more.
    fn tell(&mut self, to: u64, flags: u32) -> bool {
        let length = to.saturating_sub(self.told);
        let length = u32::try_from(length).expect("no longer than the request");
        if length == 0 {
            return true;
        }
        let full = self.list.len() == self.most;
        match self.list.last_mut() {
            Some((last, same)) if *same == flags => *last += length,
            _ if full => return false,
            _ => self.list.push((length, flags)),
        }
        self.told = to;
        true
    }

    /// The descriptors: lengths and flags.
    pub fn finish(mut self) -> Vec<(u32, u32)> {
        self.tell_run();
        if self.list.is_empty() {
            self.tell(self.end, 0);
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOLE: u32 = STATE_HOLE | STATE_ZERO;

    fn describe(mut gathered: Descriptors, runs: &[(u64, bool)]) -> Vec<(u32, u32)> {
        for &(length, hole) in runs {
            if !gathered.push(Extent { length, hole }) {
                break;
            }
        }
        gathered.finish()
    }

    /// Are neighbours merged, and is the last run cut at the request's end?
    #[test]
    fn runs_are_merged_and_cut() {
        let runs = [(4096, false), (4096, false), (8192, true), (u64::MAX, false)];
        // 4096 + 4096 of data, 8192 of hole, and of the rest 20,480 - 16,384 = 4096.
        let told = describe(Descriptors::new(512, 20_480, 1, false), &runs);
        assert_eq!(told, [(8192, 0), (8192, HOLE), (4096, 0)]);
    }

    /// Does a client that wants one descriptor get one, merged all the same?
    #[test]
    fn one_is_one() {
        let runs = [(4096, true), (4096, true), (4096, false), (4096, true)];
        assert_eq!(describe(Descriptors::new(0, 16_384, 1, true), &runs), [(8192, HOLE)]);
    }

    /// Is the number of descriptors bounded, and are those there are from the beginning?
    #[test]
    fn many_runs_are_told_in_part() {
        let runs: Vec<(u64, bool)> = (0..5000).map(|place| (512, place % 2 == 0)).collect();
        let told = describe(Descriptors::new(0, 5000 * 512, 512, false), &runs);
        assert_eq!(told.len(), 256);
        assert_eq!(told[0], (512, HOLE));
    }

    /// Do holes shrink to blocks: 1,000 to 9,000 in blocks of 4096 is 4096 to 8192?
    #[test]
    fn holes_shrink_to_blocks() {
        let runs = [(1000, false), (8000, true), (3288, false)];
        let told = describe(Descriptors::new(0, 12_288, 4096, false), &runs);
        assert_eq!(told, [(4096, 0), (4096, HOLE), (4096, 0)]);
        // A hole without a whole block is data; one at the export's end ends with it.
        let runs = [(1000, false), (6000, true), (5288, false), (700, true)];
        let told = describe(Descriptors::new(0, 12_988, 4096, false), &runs);
        assert_eq!(told, [(12_288, 0), (700, HOLE)]);
    }

    /// Is there one descriptor where nothing is known?
    #[test]
    fn nothing_known_is_data() {
        assert_eq!(describe(Descriptors::new(0, u32::MAX, 1, false), &[]), [(u32::MAX, 0)]);
        let at_the_end = Descriptors::new(u64::MAX - 10, 100, 4096, false);
        assert_eq!(describe(at_the_end, &[(u64::MAX, true)]), [(10, HOLE)]);
    }

    proptest! {
        /// Whatever the runs: descriptors are not empty, alternate, are in blocks, never longer
        /// than the request, and no hole is reported where there is data.
        #[test]
        fn descriptors_tell_the_truth(
            runs in prop::collection::vec((0u64..5000, any::<bool>()), 0..40),
            first in 0u64..8,
            blocks in 1u32..20,
            one: bool,
        ) {
            let (offset, length) = (first * 512, blocks * 512);
            let told = describe(Descriptors::new(offset, length, 512, one), &runs);
            prop_assert!(!told.is_empty() && (!one || told.len() == 1));
            prop_assert!(told.windows(2).all(|two| two[0].1 != two[1].1));
            let all: u64 = told.iter().map(|(length, _)| u64::from(*length)).sum();
            prop_assert!(all <= u64::from(length));
            let ended: u64 = runs.iter().map(|(length, _)| length).sum();
            let whole = ended >= u64::from(length);
            let mut bytes = runs.iter().flat_map(|(length, hole)| {
                std::iter::repeat_n(*hole, usize::try_from(*length).unwrap())
            });
            for (length, flags) in told {
                prop_assert!(length > 0 && (!whole || length % 512 == 0));
                for _ in 0..length {
                    let hole = bytes.next().unwrap_or(false);
                    prop_assert!(hole || flags == 0);
                }
            }
        }
    }
}
