// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocated: which pages of a file have blocks of their own on the device.
//!
//! Kept as runs that do not touch each other, so that a file written from its beginning is one:
//!
//! ```text
//! written   0-7   16-23        then 8-15        then 20-40
//! runs      0-8 16-24          0-24             0-41          (first, and after the last)
//! ```
//!
//! # Invariants
//! I1  Runs are not empty, and between two of them is at least one page.

use std::collections::BTreeMap;

use crate::page_cache::pages::Run;

/// The pages of a file that have blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Allocated {
    /// By the first page of a run: the page after its last.
    ends: BTreeMap<u64, u64>,
}

impl Allocated {
    /// The first `pages` pages.
    pub(super) fn whole(pages: u64) -> Allocated {
        let mut all = Allocated::default();
        if pages > 0 {
            all.ends.insert(0, pages);
        }
        all
    }

    /// Whether all pages of `run` have blocks.
    pub(super) fn covers(&self, run: Run) -> bool {
        let before = self.ends.range(..=run.first).next_back();
        run.pages == 0 || before.is_some_and(|(_, &end)| run.first + run.pages <= end)
    }

    /// The pages of `run` get blocks. False if they have them already.
    pub(super) fn add(&mut self, run: Run) -> bool {
        if self.covers(run) {
            return false;
        }
        let (mut first, mut end) = (run.first, run.first + run.pages);
        // From the end: every run that this one touches becomes part of it.
        while let Some((&other, &its_end)) = self.ends.range(..=end).next_back() {
            if its_end < first {
                break;
            }
            self.ends.remove(&other);
            (first, end) = (first.min(other), end.max(its_end));
        }
        self.ends.insert(first, end);
        true
    }

    /// The parts of `run` that have blocks.
    pub(super) fn within(&self, run: Run) -> Vec<Run> {
        let end = run.first + run.pages;
        let before = self.ends.range(..=run.first).next_back().map_or(run.first, |(&at, _)| at);
        let parts = self.ends.range(before..end).map(|(&at, &its_end)| {
            let first = at.max(run.first);
            Run { first, pages: its_end.min(end).saturating_sub(first) }
        });
        parts.filter(|part| part.pages > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn run(first: u64, end: u64) -> Run {
        Run { first, pages: end - first }
    }

    fn runs(all: &Allocated) -> Vec<(u64, u64)> {
        all.ends.iter().map(|(&first, &end)| (first, end)).collect()
    }

    /// Are runs joined as in the drawing above?
    #[test]
    fn runs_are_joined() {
        let mut all = Allocated::default();
        assert!(all.add(run(0, 8)) && all.add(run(16, 24)));
        assert_eq!(runs(&all), [(0, 8), (16, 24)]);
        assert_eq!(all.within(run(4, 18)), [run(4, 8), run(16, 18)]);
        assert_eq!(all.within(run(8, 16)), []);
        assert!(all.add(run(8, 16)));
        assert_eq!(runs(&all), [(0, 24)]);
        assert!(!all.add(run(3, 24)));
        assert!(all.add(run(20, 41)));
        assert_eq!(runs(&all), [(0, 41)]);
        assert!(!Allocated::whole(4).add(run(0, 4)));
    }
}
