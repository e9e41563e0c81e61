// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arena: the memory for data under way, one region, never more.
//!
//! Blocks are powers of two of pages, from 4 KiB to 1 MiB, as buddies: a block is split into two
//! halves when only a larger one is free, and joined with its other half when both are free.
//!
//! ```text
//! 16 KiB  |---------------|                 wanted: 4 KiB
//!         |-------|-------|                 split
//!         |---|---|-------|                 split; the first is given out
//! ```
//!
//! Single pages, which most requests want, are kept on a short stack first: the warmest goes out
//! next and nothing is split or joined for them.
//!
//! # Invariants
//! I1  Every page is in one block that is out, in one free list, or on the stack.
//! I2  `used` is the bytes of the blocks that are out.
//! I3  No two free buddies: they are joined.

use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The smallest block.
pub(super) const PAGE: usize = 4096;
/// The largest block: 2^8 pages, 1 MiB.
const ORDERS: usize = 9;
/// Bytes of the largest block.
pub(super) const LARGEST: usize = PAGE << (ORDERS - 1);
/// Pages on the stack at most.
const STACK: usize = 256;
const NONE: u32 = u32::MAX;

/// A piece of the arena that somebody has. Must be given back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    page: u32,
    order: u8,
}

#[derive(Debug, Clone, Copy)]
struct Links {
    previous: u32,
    next: u32,
    /// Order of the free block that begins here; `ORDERS` if none does.
    order: u8,
}

/// The memory for data under way.
#[derive(Debug)]
pub(super) struct Arena {
    base: NonNull<u8>,
    length: usize,
    heads: [u32; ORDERS],
    links: Vec<Links>,
    stack: Vec<u32>,
    used: usize,
}

// SAFETY: the region belongs to the arena alone; the pointer is not tied to a thread.
unsafe impl Send for Arena {}

impl Arena {
    /// At least `bytes`, rounded up to whole largest blocks.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn new(bytes: usize) -> std::io::Result<Arena> {
        let length = bytes.div_ceil(LARGEST).max(1) * LARGEST;
        // SAFETY: a fresh private mapping that nobody else knows.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let pages = length / PAGE;
        let empty = Links { previous: NONE, next: NONE, order: 0xff };
        let mut arena = Arena {
            base,
            length,
            heads: [NONE; ORDERS],
            links: vec![empty; pages],
            stack: Vec::with_capacity(STACK),
            used: 0,
        };
        // From the end, so that the first block is the first to go out.
        for block in (0..length / LARGEST).rev() {
            arena.push(index(block * (LARGEST / PAGE)), ORDERS - 1);
        }
        Ok(arena)
    }

    /// All of it, for registration.
    pub(super) fn region(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base, self.length)
    }

    /// Bytes in all.
    pub(super) const fn length(&self) -> usize {
        self.length
    }

    /// Bytes that are out.
    pub(super) const fn used(&self) -> usize {
        self.used
    }

    /// A block of at least `bytes`, at most [`LARGEST`]; `None` when none is free.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Block> {
        debug_assert!(bytes <= LARGEST, "a block of {bytes} bytes");
        let order = bytes.div_ceil(PAGE).next_power_of_two().trailing_zeros() as usize;
        if order == 0
            && let Some(page) = self.stack.pop()
        {
            self.used += PAGE;
            return Some(Block { page, order: 0 });
        }
        let page = self.split_off(order).or_else(|| {
            self.empty_stack();
            self.split_off(order)
        })?;
        self.used += PAGE << order;
        #[allow(clippy::cast_possible_truncation, reason = "below ORDERS")]
        Some(Block { page, order: order as u8 })
    }

    /// Takes a block back.
    #[allow(clippy::needless_pass_by_value, reason = "who gives it back has it no more")]
    pub(super) fn give_back(&mut self, block: Block) {
        let order = usize::from(block.order);
        self.used -= PAGE << order;
        if order == 0 && self.stack.len() < STACK {
            self.stack.push(block.page);
        } else {
            self.join(block.page, order);
        }
    }

    /// Where a block is.
    pub(super) fn at(&self, block: &Block) -> NonNull<u8> {
        // SAFETY: the block lies in the region.
        unsafe { self.base.add(block.page as usize * PAGE) }
    }

    /// Bytes of a block.
    pub(super) const fn size(block: &Block) -> usize {
        PAGE << block.order
    }

    /// The bytes of a block.
    pub(super) fn bytes(&self, block: &Block) -> &[u8] {
        // SAFETY: in the region, and the block belongs to the caller, who gave no job on it to a
        // backend or has seen it finished.
        unsafe { std::slice::from_raw_parts(self.at(block).as_ptr(), Arena::size(block)) }
    }

    /// The bytes of a block, to be written.
    pub(super) fn bytes_mut(&mut self, block: &Block) -> &mut [u8] {
        // SAFETY: as for `bytes`; blocks do not overlap.
        unsafe { std::slice::from_raw_parts_mut(self.at(block).as_ptr(), Arena::size(block)) }
    }

    fn split_off(&mut self, order: usize) -> Option<u32> {
        let from = (order..ORDERS).find(|&order| self.heads[order] != NONE)?;
        let page = self.heads[from];
        self.unlink(page);
        for half in (order..from).rev() {
            self.push(page + (1 << half), half);
        }
        Some(page)
    }

    fn join(&mut self, mut page: u32, mut order: usize) {
        while order < ORDERS - 1 {
            let buddy = page ^ (1 << order);
            if usize::from(self.links[buddy as usize].order) != order {
                break;
            }
            self.unlink(buddy);
            page = page.min(buddy);
            order += 1;
        }
        self.push(page, order);
    }

    fn empty_stack(&mut self) {
        while let Some(page) = self.stack.pop() {
            self.join(page, 0);
        }
    }

    fn push(&mut self, page: u32, order: usize) {
        let next = std::mem::replace(&mut self.heads[order], page);
        #[allow(clippy::cast_possible_truncation, reason = "below ORDERS")]
        let links = Links { previous: NONE, next, order: order as u8 };
        self.links[page as usize] = links;
        if next != NONE {
            self.links[next as usize].previous = page;
        }
    }

    fn unlink(&mut self, page: u32) {
        let Links { previous, next, order } = self.links[page as usize];
        self.links[page as usize].order = 0xff;
        if previous == NONE {
            self.heads[usize::from(order)] = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, with this length; nobody has a reference any more.
        let _unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[allow(clippy::cast_possible_truncation, reason = "an arena has fewer than 2^32 pages")]
const fn index(page: usize) -> u32 {
    page as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Is a page, given back and asked for again, the same one, still warm?
    #[test]
    fn the_warmest_page_goes_out_next() {
        let mut arena = Arena::new(1).unwrap();
        let first = arena.take(512).unwrap();
        let at = arena.at(&first);
        arena.give_back(first);
        let again = arena.take(4096).unwrap();
        assert_eq!(arena.at(&again), at);
        assert_eq!(arena.used(), 4096);
    }

    /// Does a 1 MiB arena hold 256 pages, no 257th, and one block of 1 MiB when all are back?
    #[test]
    fn everything_comes_back_together() {
        let mut arena = Arena::new(LARGEST).unwrap();
        let pages: Vec<Block> = (0..256).map(|_| arena.take(PAGE).unwrap()).collect();
        assert_eq!(arena.take(1), None);
        pages.into_iter().for_each(|page| arena.give_back(page));
        assert_eq!(arena.used(), 0);
        assert!(arena.take(LARGEST).is_some());
    }

    proptest! {
        /// Do blocks that are out never overlap, and is what is used what is out?
        #[test]
        fn blocks_do_not_overlap(
            steps in prop::collection::vec((1..=LARGEST, any::<bool>(), any::<usize>()), 1..300)
        ) {
            let mut arena = Arena::new(3 * LARGEST).unwrap();
            let mut out: Vec<Block> = Vec::new();
            for (bytes, give, which) in steps {
                if give && !out.is_empty() {
                    let block = out.swap_remove(which % out.len());
                    arena.give_back(block);
                } else if let Some(block) = arena.take(bytes) {
                    prop_assert!(Arena::size(&block) >= bytes);
                    let (from, to) = (arena.at(&block).as_ptr() as usize, Arena::size(&block));
                    for other in &out {
                        let start = arena.at(other).as_ptr() as usize;
                        prop_assert!(start + Arena::size(other) <= from || from + to <= start);
                    }
                    out.push(block);
                }
                prop_assert_eq!(arena.used(), out.iter().map(Arena::size).sum::<usize>());
            }
            out.into_iter().for_each(|block| arena.give_back(block));
            let whole: Vec<_> = (0..3).map(|_| arena.take(LARGEST)).collect();
            prop_assert!(whole.iter().all(Option::is_some));
        }
    }
}
