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
//! Single pages, which most requests want, are kept on a short stack first: the one used last goes
//! out next, and nothing is split or joined for them.
//!
//! # Invariants
//! I1  Every page is in one block that is out, in one free list, or on the stack.
//! I2  `used` is the bytes of the blocks that are out.
//! I3  No two free buddies: they are joined.
//! I4  A block that is out is the only way to its bytes: its owner may read and write them, as with
//!     a `Box<[u8]>`. A region of which blocks are out is never unmapped.
//!
//! The types ensure I4. A block cannot be copied, does not borrow from the arena, and is given away
//! when it is lent to a backend ([`super::lender`]): while the kernel writes to it, no code has
//! access to it.
//!
//! ```
//! use paternoster_serve::device::arena::Arena;
//!
//! let mut arena = Arena::new(1 << 20)?;
//! let (mut one, other) = (arena.take(4096).unwrap(), arena.take(100).unwrap());
//! one.bytes_mut()[..4].copy_from_slice(b"data");
//! assert_eq!((&one.bytes()[..4], other.bytes()[0]), (&b"data"[..], 0));
//! arena.give_back(one);
//! arena.give_back(other);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A block that was given back cannot be read any more, a block cannot have two owners, and its
//! bytes cannot be read and written at the same time:
//!
//! ```compile_fail,E0382
//! # let mut arena = paternoster_serve::device::arena::Arena::new(1 << 20)?;
//! let block = arena.take(4096).unwrap();
//! arena.give_back(block);
//! block.bytes();
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ```compile_fail,E0599
//! # let mut arena = paternoster_serve::device::arena::Arena::new(1 << 20)?;
//! let block = arena.take(4096).unwrap();
//! let twice = (block.clone(), block);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ```compile_fail,E0502
//! # let mut arena = paternoster_serve::device::arena::Arena::new(1 << 20)?;
//! let mut block = arena.take(4096).unwrap();
//! let before = block.bytes();
//! block.bytes_mut().fill(1);
//! assert_eq!(before[0], 0);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::Piece;

/// The smallest block.
pub const PAGE: usize = 4096;
/// The largest block: 2^8 pages, 1 MiB.
const ORDERS: usize = 9;
/// Bytes of the largest block.
pub const LARGEST: usize = PAGE << (ORDERS - 1);
/// Pages on the stack at most.
const STACK: usize = 256;
const NONE: u32 = u32::MAX;

/// Memory of the arena that has one owner (I4). A block that is dropped and not given back is lost
/// for good.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a block that is not given back is out for good"]
pub struct Block {
    at: NonNull<u8>,
    order: u8,
}

// SAFETY: a block owns its bytes as a `Box<[u8]>` does (I4), and nothing in it depends on a thread.
unsafe impl Send for Block {}

impl Block {
    /// Size of the block in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        PAGE << self.order
    }

    /// The block's bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, since its region stays while the block is out; filled with zeroes by the
        // system at first. These bytes belong to this block alone (I4); to write to them one must
        // own the block or borrow it mutably, which this borrow excludes.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.size()) }
    }

    /// The block's bytes, for writing.
    #[must_use]
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; and the borrow keeps all others away.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.size()) }
    }

    /// Its first bytes, as a piece for a backend.
    ///
    /// # Panics
    /// The memory has fewer bytes.
    pub(super) fn piece(&mut self, length: usize) -> Piece {
        assert!(length <= self.size(), "{length} bytes of a block of {}", self.size());
        Piece { at: self.at, length }
    }
}

#[derive(Debug, Clone, Copy)]
struct Links {
    previous: u32,
    next: u32,
    /// Order of the free block that begins here; `ORDERS` if none does.
    order: u8,
}

/// Where an arena's memory is. Mapped for as long as this is there.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: it is an address and a length, and nothing is read or written by way of it.
unsafe impl Send for Region {}
// SAFETY: the same.
unsafe impl Sync for Region {}

impl Region {
    fn new(length: usize) -> io::Result<Region> {
        // SAFETY: a fresh private mapping, at a place that the kernel chooses, touches nothing.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { base, length })
    }

    /// The whole arena, for registration with the kernel.
    pub(super) const fn whole(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base, self.length)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, with this length. No block is lent, since a lent block keeps its
        // arena; and no backend knows the memory any more, since code that passes the memory to a
        // backend keeps the arena as well.
        let _unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// The memory for data under way.
#[derive(Debug)]
pub struct Arena {
    region: Arc<Region>,
    heads: [u32; ORDERS],
    links: Vec<Links>,
    stack: Vec<u32>,
    used: usize,
}

impl Arena {
    /// At least `bytes`, rounded up to whole largest blocks.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(bytes: usize) -> io::Result<Arena> {
        let length = bytes.div_ceil(LARGEST).max(1) * LARGEST;
        let pages = length / PAGE;
        let empty = Links { previous: NONE, next: NONE, order: 0xff };
        let mut arena = Arena {
            region: Arc::new(Region::new(length)?),
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

    /// Its memory, for code that passes it to a backend.
    pub(super) fn region(&self) -> Arc<Region> {
        Arc::clone(&self.region)
    }

    /// Bytes in all.
    #[must_use]
    pub fn length(&self) -> usize {
        self.region.length
    }

    /// Bytes that are out.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// A block of at least `bytes`, at most [`LARGEST`]; `None` when none is free.
    pub fn take(&mut self, bytes: usize) -> Option<Block> {
        debug_assert!(bytes <= LARGEST, "a block of {bytes} bytes");
        let order = bytes.div_ceil(PAGE).next_power_of_two().trailing_zeros() as usize;
        if order == 0
            && let Some(page) = self.stack.pop()
        {
            self.used += PAGE;
            return Some(Block { at: self.at(page), order: 0 });
        }
        let page = self.split_off(order).or_else(|| {
            self.empty_stack();
            self.split_off(order)
        })?;
        self.used += PAGE << order;
        #[allow(clippy::cast_possible_truncation, reason = "below ORDERS")]
        Some(Block { at: self.at(page), order: order as u8 })
    }

    /// Takes a block back.
    ///
    /// # Panics
    /// It is another arena's.
    #[allow(clippy::needless_pass_by_value, reason = "who gives it back has it no more")]
    pub fn give_back(&mut self, block: Block) {
        // While a block is out its region stays mapped: no other arena has the same addresses.
        let from = block.at.addr().get().wrapping_sub(self.region.base.addr().get());
        assert!(from < self.region.length, "a block of another arena");
        let (page, order) = (index(from / PAGE), usize::from(block.order));
        self.used -= PAGE << order;
        if order == 0 && self.stack.len() < STACK {
            self.stack.push(page);
        } else {
            self.join(page, order);
        }
    }

    /// Address of a page.
    fn at(&self, page: u32) -> NonNull<u8> {
        // SAFETY: only pages of the region are in the lists and on the stack.
        unsafe { self.region.base.add(page as usize * PAGE) }
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
    /// I4: a block that is out can still be read. Memory that a backend still writes to also stays.
    fn drop(&mut self) {
        if self.used != 0 {
            std::mem::forget(Arc::clone(&self.region));
        }
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

    /// Is a page that is given back and taken again the same one, still in the cache?
    #[test]
    fn the_warmest_page_goes_out_next() {
        let mut arena = Arena::new(1).unwrap();
        let first = arena.take(512).unwrap();
        let at = first.at;
        arena.give_back(first);
        let again = arena.take(4096).unwrap();
        assert_eq!(again.at, at);
        assert_eq!(arena.used(), 4096);
        arena.give_back(again);
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

    /// Can a block be read whose arena has gone, and does another arena not take it?
    #[test]
    fn a_block_outlives_its_arena() {
        let mut arena = Arena::new(1).unwrap();
        let mut block = arena.take(PAGE).unwrap();
        block.bytes_mut().fill(7);
        drop(arena);
        let mut other = Arena::new(1).unwrap();
        assert_eq!(block.bytes(), [7; PAGE]);
        let mine = other.take(PAGE).unwrap();
        assert_eq!(mine.bytes(), [0; PAGE]);
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            other.give_back(block);
        }));
        assert!(refused.is_err());
        assert_eq!(other.used(), PAGE);
        other.give_back(mine);
    }

    proptest! {
        /// Do blocks that are out never overlap, and is `used` their sum?
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
                    prop_assert!(block.size() >= bytes);
                    let (from, to) = (block.at.as_ptr() as usize, block.size());
                    for other in &out {
                        let start = other.at.as_ptr() as usize;
                        prop_assert!(start + other.size() <= from || from + to <= start);
                    }
                    out.push(block);
                }
                prop_assert_eq!(arena.used(), out.iter().map(Block::size).sum::<usize>());
            }
            out.into_iter().for_each(|block| arena.give_back(block));
            let whole: Vec<_> = (0..3).map(|_| arena.take(LARGEST)).collect();
            prop_assert!(whole.iter().all(Option::is_some));
        }
    }
}
