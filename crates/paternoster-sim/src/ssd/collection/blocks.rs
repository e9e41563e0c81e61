// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks: where each page of the address space lies, and which block is erased next.
//!
//! Flash programs pages and erases blocks, so a page that is written again goes to another place
//! and leaves an *invalid* copy behind. When few erased blocks are left, the closed block with the
//! fewest valid pages (the *greedy* choice) is the **victim**: its valid pages are moved into a
//! block with those of other victims, and it is erased.
//!
//! ```text
//! host writes ──▶ [open block of the host]        victim: 5 of 8 valid
//!                                                 v . v v . v . v      8 - 5 = 3 pages gained
//! moved pages ──▶ [open block of collection] ◀────┘ 5 moves for 3 writes: amplification 8/3
//! ```
//!
//! Moves are spread over the writes for which they make room: each write does `valid` parts of a
//! move, and `pages - valid` parts are one move. So a block is free once the pages it gains are
//! written.
//!
//! # Invariants
//! I1  A page that was written and not trimmed has one place, and is that place's owner; other
//!     pages have no place.
//! I2  The valid pages of all blocks are the pages that have a place.
//! I3  A block is erased, open, closed or the victim; closed blocks are in the row for their number
//!     of valid pages, oldest first.
//! I4  Erased blocks are never fewer than the reserve.
//! I5  Pages programmed = pages written by the host + pages moved.
//!
//! Source: greedy choice: Bux and Iliadis (Performance Evaluation 67, 2010), Van Houdt (SIGMETRICS
//! 2013). Assumed: separate open blocks for host pages and moved pages; the pace of moves.

/// No page, no block.
const NONE: u32 = u32::MAX;
/// Collection begins when fewer than this many blocks beyond the reserve are erased: one is taken
/// by the host and one by collection before the victim is erased, and one more in the worst order.
pub(super) const AHEAD: u32 = 3;
/// Blocks that are open: the host's and the collection's.
pub(super) const OPEN: u32 = 2;

/// How a flash is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Pages of the address space.
    pub(super) logical: u32,
    /// Pages of a block.
    pub(super) pages: u32,
    /// Blocks.
    pub(super) blocks: u32,
    /// Erased blocks that are never touched.
    pub(super) reserve: u32,
}

impl Shape {
    /// The fewest blocks with which collection can still gain pages on a full drive: those of its
    /// data, those that are erased or open, and one.
    pub(super) const fn fewest(logical: u32, pages: u32, reserve: u32) -> u64 {
        logical.div_ceil(pages) as u64 + (reserve + AHEAD + OPEN + 1) as u64
    }
}

/// A block that is being emptied.
#[derive(Debug, Clone, Copy)]
struct Victim {
    block: u32,
    /// The next page to look at.
    cursor: u32,
    /// Its valid pages when it was chosen.
    valid: u32,
    /// Parts of moves that are due.
    due: u32,
}

/// The collection work done with a write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Pages moved.
    pub(super) moved: u32,
    /// Blocks erased.
    pub(super) erased: u32,
}

/// Pages and blocks.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    shape: Shape,
    /// For each page of the address space, its place.
    place: Vec<u32>,
    /// For each page of the flash, its owner.
    owner: Vec<u32>,
    /// For each block, its valid pages.
    valid: Vec<u32>,
    /// Erased blocks, the last erased on top.
    erased: Vec<u32>,
    /// Closed blocks by their valid pages: first and last of each row, links between them.
    first: Vec<u32>,
    last: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// No row below this one has a block.
    least: u32,
    /// Open blocks (the host's, the collection's) and how many of their pages are used.
    open: [(u32, u32); OPEN as usize],
    victim: Option<Victim>,
    mapped: u32,
    written: u64,
    moved: u64,
}

impl Blocks {
    /// A flash whose blocks are all erased. The shape has enough of them (see [`Shape::fewest`]).
    pub(super) fn new(shape: Shape) -> Blocks {
        let Shape { logical, pages, blocks, .. } = shape;
        let rows = vec![NONE; pages as usize + 1];
        let links = vec![NONE; blocks as usize];
        let mut erased: Vec<u32> = (0..blocks).rev().collect();
        let open = [0; OPEN as usize].map(|_: u32| (erased.pop().unwrap_or(0), 0));
        Blocks {
            shape,
            place: vec![NONE; logical as usize],
            owner: vec![NONE; pages as usize * blocks as usize],
            valid: vec![0; blocks as usize],
            erased,
            first: rows.clone(),
            last: rows,
            next: links.clone(),
            previous: links,
            least: pages,
            open,
            victim: None,
            mapped: 0,
            written: 0,
            moved: 0,
        }
    }

    /// The host writes a page.
    pub(super) fn write(&mut self, page: u32) -> Work {
        self.forget(page);
        self.written += 1;
        self.mapped += 1;
        self.program(page, 0);
        self.collect()
    }

    /// The host no longer needs a page.
    pub(super) fn trim(&mut self, page: u32) {
        self.forget(page);
    }

    /// Whether a page has a place.
    #[cfg(test)]
    pub(super) fn is_mapped(&self, page: u32) -> bool {
        self.place[page as usize] != NONE
    }

    /// Pages that have a place.
    pub(super) const fn mapped(&self) -> u32 {
        self.mapped
    }

    /// Pages of the host and pages moved, since the flash was new.
    #[cfg(test)]
    pub(super) const fn programmed(&self) -> (u64, u64) {
        (self.written, self.moved)
    }

    fn forget(&mut self, page: u32) {
        let place = std::mem::replace(&mut self.place[page as usize], NONE);
        if place == NONE {
            return;
        }
        self.mapped -= 1;
        self.owner[place as usize] = NONE;
        let block = place / self.shape.pages;
        let closed = self.is_closed(block);
        if closed {
            self.leave_row(block);
        }
        self.valid[block as usize] -= 1;
        if closed {
            self.enter_row(block);
        }
    }

    fn is_closed(&self, block: u32) -> bool {
        let open = self.open.iter().any(|(open, _)| *open == block);
        !open && self.victim.is_none_or(|victim| victim.block != block)
    }

    /// Puts a page into the open block of the host (0) or of the collection (1).
    fn program(&mut self, page: u32, kind: usize) {
        let (block, used) = self.open[kind];
        let place = block * self.shape.pages + used;
        self.place[page as usize] = place;
        self.owner[place as usize] = page;
        self.valid[block as usize] += 1;
        self.open[kind].1 += 1;
        if used + 1 == self.shape.pages {
            // The shape leaves more than the two that can be taken before one is erased (I4).
            let fresh = self.erased.pop().unwrap_or(block);
            debug_assert!(fresh != block, "no erased block is left");
            self.open[kind] = (fresh, 0);
            self.enter_row(block);
        }
    }

    /// The share of collection that goes with one written page.
    fn collect(&mut self) -> Work {
        let mut work = Work::default();
        let below = self.shape.reserve + AHEAD;
        if self.victim.is_none() && self.erased.len() < below as usize {
            self.choose();
        }
        let Some(mut victim) = self.victim else { return work };
        victim.due += victim.valid;
        let won = self.shape.pages - victim.valid;
        let base = victim.block * self.shape.pages;
        while self.valid[victim.block as usize] > 0 && victim.due >= won {
            victim.due -= won;
            while self.owner[(base + victim.cursor) as usize] == NONE {
                victim.cursor += 1;
            }
            let page = self.owner[(base + victim.cursor) as usize];
            self.owner[(base + victim.cursor) as usize] = NONE;
            self.valid[victim.block as usize] -= 1;
            self.program(page, 1);
            self.moved += 1;
            work.moved += 1;
        }
        self.victim = Some(victim);
        if self.valid[victim.block as usize] == 0 {
            self.victim = None;
            self.erased.push(victim.block);
            work.erased += 1;
        }
        work
    }

    /// Makes the closed block with the fewest valid pages the victim.
    fn choose(&mut self) {
        while self.least < self.shape.pages && self.first[self.least as usize] == NONE {
            self.least += 1;
        }
        let block = self.first[self.least as usize];
        if block == NONE || self.least == self.shape.pages {
            return;
        }
        self.leave_row(block);
        let valid = self.valid[block as usize];
        self.victim = Some(Victim { block, cursor: 0, valid, due: 0 });
    }

    fn enter_row(&mut self, block: u32) {
        let row = self.valid[block as usize];
        let last = std::mem::replace(&mut self.last[row as usize], block);
        self.previous[block as usize] = last;
        self.next[block as usize] = NONE;
        match last {
            NONE => self.first[row as usize] = block,
            last => self.next[last as usize] = block,
        }
        self.least = self.least.min(row);
    }

    fn leave_row(&mut self, block: u32) {
        let row = self.valid[block as usize] as usize;
        let (before, behind) = (self.previous[block as usize], self.next[block as usize]);
        match before {
            NONE => self.first[row] = behind,
            before => self.next[before as usize] = behind,
        }
        match behind {
            NONE => self.last[row] = before,
            behind => self.previous[behind as usize] = before,
        }
    }

    /// Pages of the flash that can be programmed: in erased blocks, or unused in open ones.
    #[cfg(test)]
    pub(super) fn erased_pages(&self) -> u64 {
        let pages = u64::from(self.shape.pages);
        let rest: u64 = self.open.iter().map(|(_, used)| pages - u64::from(*used)).sum();
        self.erased.len() as u64 * pages + rest
    }

    /// Checks the invariants; says which one fails.
    #[cfg(test)]
    pub(super) fn audit(&self) -> Result<(), String> {
        let fail = |what: String| Err(what);
        let mut mapped = 0;
        for (page, &place) in self.place.iter().enumerate() {
            if place != NONE {
                mapped += 1;
                if self.owner[place as usize] as usize != page {
                    return fail(format!("I1: page {page} is not the owner of its place"));
                }
            }
        }
        let owners = self.owner.iter().filter(|&&owner| owner != NONE).count();
        let valid: u64 = self.valid.iter().map(|&valid| u64::from(valid)).sum();
        if (mapped, owners) != (self.mapped as usize, mapped) || valid != mapped as u64 {
            return fail(format!("I2: {mapped} places, {owners} owners, {valid} valid"));
        }
        let mut seen = vec![0u32; self.valid.len()];
        self.erased.iter().for_each(|&block| seen[block as usize] += 1);
        self.open.iter().for_each(|&(block, _)| seen[block as usize] += 1);
        self.victim.iter().for_each(|victim| seen[victim.block as usize] += 1);
        for (row, &first) in self.first.iter().enumerate() {
            let mut block = first;
            while block != NONE {
                seen[block as usize] += 1;
                if self.valid[block as usize] as usize != row || row < self.least as usize {
                    return fail(format!("I3: block {block} is in row {row}"));
                }
                block = self.next[block as usize];
            }
        }
        if seen.iter().any(|&times| times != 1) {
            return fail(format!("I3: a block is in several places or in none: {seen:?}"));
        }
        if self.erased.len() < self.shape.reserve as usize {
            return fail(format!("I4: {} blocks are erased", self.erased.len()));
        }
        Ok(())
    }
}
