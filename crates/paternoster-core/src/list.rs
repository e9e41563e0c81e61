// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists whose links are stored separately from a slab: FIFOs, plugs, sleepers, the dispatch list.
//!
//! [`Links`] holds one pair of links for each slot of a slab; a [`List`] has a head and a tail in
//! it. Many lists share one set of links as long as each slot is in at most one of them at a time:
//!
//! ```text
//! slot     0     1     2     3            fifo: first 2, last 0, len 3
//! prev     3     .     -     2            2 -> 3 -> 0
//! next     -     .     3     0            slot 1 is in no list
//! ```
//!
//! The end of a list, `-`, is a number that no slot has: a lookup with it finds no slot, without a
//! separate check for the end.
//!
//! # Invariants
//! I1  A slot is in no list exactly when its links are `OUT` (`.` above).
//! I2  Walking forwards and backwards from a list's ends visits the same `len` slots.

use alloc::vec::Vec;
use core::mem;

use crate::slab::NIL;

/// In no list. As with `NIL`, no slot has this number.
const OUT: u32 = NIL - 1;

#[derive(Debug, Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
}

impl Link {
    const OUTSIDE: Link = Link { prev: OUT, next: OUT };

    const fn is_in_list(self) -> bool {
        self.prev != OUT
    }
}

/// One pair of links per slot.
#[derive(Debug, Clone, Default)]
pub struct Links(Vec<Link>);

impl Links {
    /// Links for slots 0 to `capacity`, none of them in a list.
    #[must_use]
    pub fn with_capacity(capacity: u32) -> Links {
        assert!(capacity < OUT, "links of {capacity} slots cannot be numbered");
        Links((0..capacity).map(|_| Link::OUTSIDE).collect())
    }

    /// Whether slot `index` is in some list of these links.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        self.0[index as usize].is_in_list()
    }

    /// The slot after `index` in its list.
    #[must_use]
    pub fn next(&self, index: u32) -> Option<u32> {
        some(self.0[index as usize].next)
    }

    /// The slot before `index` in its list.
    #[must_use]
    pub fn prev(&self, index: u32) -> Option<u32> {
        some(self.0[index as usize].prev)
    }
}

/// Reports a caller's error; kept apart so that it costs nothing otherwise.
#[cold]
#[inline(never)]
fn refuse(index: u32, why: &str) -> ! {
    panic!("slot {index} {why}")
}

const fn some(index: u32) -> Option<u32> {
    if index >= OUT { None } else { Some(index) }
}

/// The ends of a list in some [`Links`]; always pass it the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl List {
    /// An empty list.
    #[must_use]
    pub const fn new() -> List {
        List { first: NIL, last: NIL, len: 0 }
    }

    /// How many slots are in it.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first slot.
    #[must_use]
    pub const fn first(&self) -> Option<u32> {
        some(self.first)
    }

    /// The last slot.
    #[must_use]
    pub const fn last(&self) -> Option<u32> {
        some(self.last)
    }

    /// Adds `index` after all others.
    pub fn push_back(&mut self, links: &mut Links, index: u32) {
        self.link_between(links, self.last, NIL, index);
    }

    /// Adds `index` before all others.
    pub fn push_front(&mut self, links: &mut Links, index: u32) {
        self.link_between(links, NIL, self.first, index);
    }

    /// Adds `index` directly after `place`, which is in this list.
    pub fn insert_after(&mut self, links: &mut Links, place: u32, index: u32) {
        let next = links.0[place as usize].next;
        self.link_between(links, place, next, index);
    }

    /// Adds `index` directly before `place`, which is in this list.
    pub fn insert_before(&mut self, links: &mut Links, place: u32, index: u32) {
        let prev = links.0[place as usize].prev;
        self.link_between(links, prev, place, index);
    }

    fn link_between(&mut self, links: &mut Links, prev: u32, next: u32, index: u32) {
        let link = &mut links.0[index as usize];
        if link.is_in_list() {
            refuse(index, "is in a list already");
        }
        *link = Link { prev, next };
        match links.0.get_mut(prev as usize) {
            Some(prev) => prev.next = index,
            None => self.first = index,
        }
        match links.0.get_mut(next as usize) {
            Some(next) => next.prev = index,
            None => self.last = index,
        }
        self.len += 1;
    }

    /// Removes `index`, which is in this list.
    pub fn remove(&mut self, links: &mut Links, index: u32) {
        let link = mem::replace(&mut links.0[index as usize], Link::OUTSIDE);
        if !link.is_in_list() {
            refuse(index, "is in no list");
        }
        match links.0.get_mut(link.prev as usize) {
            Some(prev) => prev.next = link.next,
            None => self.first = link.next,
        }
        match links.0.get_mut(link.next as usize) {
            Some(next) => next.prev = link.prev,
            None => self.last = link.prev,
        }
        self.len -= 1;
    }

    /// Removes the first slot and returns it.
    #[inline]
    pub fn pop_front(&mut self, links: &mut Links) -> Option<u32> {
        let first = self.first;
        let link = mem::replace(links.0.get_mut(first as usize)?, Link::OUTSIDE);
        self.first = link.next;
        match links.0.get_mut(link.next as usize) {
            Some(next) => next.prev = NIL,
            None => self.last = NIL,
        }
        self.len -= 1;
        Some(first)
    }

    /// The slots from first to last.
    pub fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = u32> + use<'a> {
        core::iter::successors(self.first(), |&index| links.next(index))
    }

    /// Verifies I1 and I2 in O(n).
    ///
    /// # Errors
    /// The invariant that is broken.
    pub fn check(&self, links: &Links) -> Result<(), &'static str> {
        let (mut prev, mut count) = (NIL, 0);
        for index in self.iter(links) {
            let link = links.0[index as usize];
            if !link.is_in_list() || link.prev != prev {
                return Err("list I1: a slot on the way is not linked back");
            }
            prev = index;
            count += 1;
            if count > self.len {
                return Err("list I2: more slots than counted");
            }
        }
        if prev == self.last && count == self.len {
            Ok(())
        } else {
            Err("list I2: the ends disagree")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        /// Does a list do what a `VecDeque` does, whatever is added and removed where?
        #[test]
        fn equals_a_vecdeque(steps in prop::collection::vec((0u8..5, 0u32..16), 1..200)) {
            let mut links = Links::with_capacity(16);
            let (mut list, mut model) = (List::new(), VecDeque::new());
            for (step, index) in steps {
                let place = model.iter().position(|&other| other == index);
                match (step, place) {
                    (0, None) => { list.push_back(&mut links, index); model.push_back(index); }
                    (1, None) => { list.push_front(&mut links, index); model.push_front(index); }
                    (2, None) if !model.is_empty() => {
                        let at = index as usize % model.len();
                        list.insert_after(&mut links, model[at], index);
                        model.insert(at + 1, index);
                    }
                    (3, None) if !model.is_empty() => {
                        let at = index as usize % model.len();
                        list.insert_before(&mut links, model[at], index);
                        model.insert(at, index);
                    }
                    (4, _) => prop_assert_eq!(list.pop_front(&mut links), model.pop_front()),
                    (_, Some(at)) => { list.remove(&mut links, index); model.remove(at); }
                    _ => {}
                }
                prop_assert_eq!(list.check(&links), Ok(()));
                prop_assert!(list.iter(&links).eq(model.iter().copied()));
            }
        }
    }
}
