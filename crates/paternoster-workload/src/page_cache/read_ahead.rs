// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read-ahead: how many pages a buffered reader brings in, and when it brings the next ones.
//!
//! Each open file has a *window*: pages that were requested together. The first page of its last
//! part has a *marker*; the reader that meets it starts the next window, so that it finds its pages
//! in memory when it gets there. Windows grow while reads are sequential:
//!
//! ```text
//! reads of one page, read_ahead_kb 128 (32 pages); M is the marker
//! page     0 1 2 3 4 . . . . . . . 12 . . . . . . . . . 28
//! window  [0 M 2 3]                                     page 0 is absent: 4 pages, 3 ahead
//!                 [M              ]                     page 1 met the marker: 8 pages
//!                                  [M                 ] page 4 met the marker: 16 pages
//!                                                     … page 12: 32 pages, and so from now on
//! ```
//!
//! A random reader gets the pages that it reads and no more. Several readers of one open file meet
//! markers that are not its window's; they are recognised by the hole after the pages that exist.
//!
//! # Invariants
//! I1  A window is not empty, begins at or after the page that caused it or at the first absent
//!     page after it, and has at most the larger of `most` and what was requested.
//!
//! Source: FIO-56; F. Wu and others, "On the design of a new Linux readahead
//! framework" (2008), for interleaved readers and for the doubling by four of small windows.

use super::pages::Pages;

/// Why a reader asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The page is absent: a process waits for it.
    Absent,
    /// The page has the marker: no process waits yet.
    Marker,
}

/// The pages that are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First page.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
    /// The page that shall carry the marker.
    pub marker: Option<u64>,
}

/// A reader's question.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    /// The reason for reading them.
    pub cause: Cause,
    /// The file.
    pub file: u32,
    /// The page where the reader is.
    pub page: u64,
    /// How many pages the reader still wants from `page` on, at least 1.
    pub wanted: u64,
    /// The largest window, in pages (`read_ahead_kb`).
    pub most: u64,
}

/// The window of one open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadAhead {
    first: u64,
    pages: u64,
    /// How many pages at its end lie ahead of the reader; the first of them has the marker.
    ahead: u64,
    /// The page that was read last.
    last: Option<u64>,
}

impl ReadAhead {
    /// A reader has read a page.
    pub const fn has_read(&mut self, page: u64) {
        self.last = Some(page);
    }

    /// What to read, for a reader that met an absent page or a marker. `None`: nothing, for a
    /// marker after which everything is there.
    pub fn plan(&mut self, demand: Demand, pages: &Pages) -> Option<Window> {
        let Demand { page, wanted, most, .. } = demand;
        if most == 0 {
            return Some(Window { first: page, pages: wanted, marker: None });
        }
        if page == 0 {
            self.begin(page, wanted, most);
        } else if page == self.first + self.pages - self.ahead.min(self.pages)
            || page == self.first + self.pages
        {
            self.advance(most);
        } else if demand.cause == Cause::Marker {
            // Another reader's marker: go on after the existing pages.
            let first = pages.next_absent(demand.file, page + 1, most)?;
            self.first = first;
            self.pages = next_size(first - page + wanted, most);
            self.ahead = self.pages;
        } else if wanted > most || self.goes_on_at(page) {
            self.begin(page, wanted, most);
        } else if !self.joins_what_is_there(demand, pages) {
            return Some(Window { first: page, pages: wanted, marker: None });
        }
        self.extend_if_marker_is_met_at_once(page, most);
        let marker = (self.ahead > 0).then(|| self.first + self.pages - self.ahead);
        Some(Window { first: self.first, pages: self.pages, marker })
    }

    fn goes_on_at(&self, page: u64) -> bool {
        self.last.is_some_and(|last| page == last || page == last + 1)
    }

    /// The first window: a few times what is wanted.
    fn begin(&mut self, page: u64, wanted: u64, most: u64) {
        let pages = wanted.next_power_of_two();
        self.first = page;
        self.pages = if pages <= most / 32 {
            pages * 4
        } else if pages <= most / 4 {
            pages * 2
        } else {
            most
        };
        self.ahead = if self.pages > wanted { self.pages - wanted } else { self.pages };
    }

    /// The window after this one, larger.
    fn advance(&mut self, most: u64) {
        self.first += self.pages;
        self.pages = next_size(self.pages, most);
        self.ahead = self.pages;
    }

    /// No history of its own, but pages right before are there: a stream that this window lost, or
    /// another reader's. Their number says how far it may go on.
    fn joins_what_is_there(&mut self, demand: Demand, pages: &Pages) -> bool {
        let Demand { page, wanted, most, .. } = demand;
        let before = pages.run_before(demand.file, page, most);
        if before <= wanted {
            return false;
        }
        // All the way from the beginning of the file: surely a stream.
        let size = if before >= page { before * 2 } else { before };
        self.first = page;
        self.pages = (size + wanted).min(most).max(wanted);
        self.ahead = 1.min(self.pages - 1);
        true
    }

    /// If the page that is read now would carry the marker itself, the next window joins this one.
    fn extend_if_marker_is_met_at_once(&mut self, page: u64, most: u64) {
        if page != self.first || self.ahead != self.pages {
            return;
        }
        let next = next_size(self.pages, most);
        if self.pages + next <= most {
            self.ahead = next;
            self.pages += next;
        } else if self.pages <= most {
            self.pages = most;
            self.ahead = most / 2;
        }
    }
}

/// Four times a small window, twice a larger one.
fn next_size(pages: u64, most: u64) -> u64 {
    if pages < most / 16 {
        pages * 4
    } else if pages <= most / 2 {
        pages * 2
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::super::pages::{PageState, Run};
    use super::*;

    /// Reads `pages` pages one by one as a process does and returns the windows.
    fn read(
        ahead: &mut ReadAhead,
        cache: &mut Pages,
        at: impl Iterator<Item = u64>,
        wanted: u64,
        most: u64,
    ) -> Vec<(u64, u64)> {
        let mut windows = Vec::new();
        for page in at {
            let cause = match cache.meet(0, page) {
                PageState::Present { marked: false } | PageState::Reading => None,
                PageState::Present { marked: true } => Some(Cause::Marker),
                PageState::Absent => Some(Cause::Absent),
            };
            if let Some(cause) = cause {
                let demand = Demand { cause, file: 0, page, wanted, most };
                if let Some(window) = ahead.plan(demand, cache) {
                    windows.push((window.first, window.pages));
                    let run = Run { first: window.first, pages: window.pages };
                    cache.begin_read(0, run);
                    cache.end_read(0, run, true);
                    window.marker.into_iter().for_each(|marker| cache.mark(0, marker));
                }
            }
            ahead.has_read(page);
        }
        windows
    }

    fn cache() -> Pages {
        Pages::new(&[64 << 20], 1 << 14)
    }

    /// Do windows grow as drawn above? 4, 8 (32/16 = 2 <= 4 <= 16: twice), 16, 32, 32 …
    #[test]
    fn windows_grow_in_sequence() {
        let windows = read(&mut ReadAhead::default(), &mut cache(), 0..100, 1, 32);
        assert_eq!(windows, [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32), (92, 32), (124, 32)]);
    }

    /// With 512 KiB (128 pages) the first window is 4 pages, and small ones grow by four:
    /// 4 < 128/16.
    #[test]
    fn small_windows_grow_by_four() {
        let windows = read(&mut ReadAhead::default(), &mut cache(), 0..300, 1, 128);
        assert_eq!(windows[..5], [(0, 4), (4, 16), (20, 32), (52, 64), (116, 128)]);
    }

    /// Does a random reader get what it wants and no more?
    #[test]
    fn random_reads_are_not_extended() {
        let at = [700, 20, 400, 90, 3000];
        let windows = read(&mut ReadAhead::default(), &mut cache(), at.into_iter(), 1, 32);
        assert_eq!(windows, at.map(|page| (page, 1)));
    }

    /// A read as large as the window at the start of a file: 32 wanted of 32. All of it would lie
    /// ahead and the marker on the page that is read, so half of it is marked for the next window.
    #[test]
    fn a_large_read_marks_its_middle() {
        let mut ahead = ReadAhead::default();
        let demand = Demand { cause: Cause::Absent, file: 0, page: 0, wanted: 32, most: 32 };
        let window = ahead.plan(demand, &cache()).unwrap();
        assert_eq!(window, Window { first: 0, pages: 32, marker: Some(16) });
    }

    /// Are two streams that one open file reads in turns both seen as streams?
    #[test]
    fn interleaved_streams_are_found() {
        let (mut ahead, mut cache) = (ReadAhead::default(), cache());
        let both = (0..400).flat_map(|page| [page, 4000 + page]);
        let windows = read(&mut ahead, &mut cache, both, 1, 32);
        let pages: u64 = windows.iter().map(|window| window.1).sum();
        let mean = pages / windows.len() as u64;
        assert!(mean >= 16, "windows of {mean} pages on average: {windows:?}");
    }

    /// Without read-ahead each read brings its own pages.
    #[test]
    fn no_read_ahead() {
        let windows = read(&mut ReadAhead::default(), &mut cache(), 0..3, 1, 0);
        assert_eq!(windows, [(0, 1), (1, 1), (2, 1)]);
    }
}
