// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slab: a fixed number of slots, handed out and taken back without allocating.
//!
//! Everything that the library keeps (bios, requests, clients, groups) lives in a slab whose
//! capacity is fixed at the start. A [`Key`] identifies a slot and the *generation* of its tenant,
//! so that a handle kept too long is detected instead of reaching the next tenant:
//!
//! ```text
//! insert a  -> slot 0, generation 1        a's key (0, 1)
//! release   -> slot 0, generation 2 (free: even)
//! insert b  -> slot 0, generation 3        a's key (0, 1) != (0, 3): stale
//! ```
//!
//! # Invariants
//! I1  A slot is live exactly when its generation is odd.
//! I2  The free list holds every slot that is not live, once; the last released is reused first,
//!     so that the same calls give the same keys on every machine.

use alloc::vec::Vec;
use core::mem;

/// No slot.
pub const NIL: u32 = u32::MAX;

/// A slot and the generation of its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The slot number, below the slab's capacity: an index for tables parallel to the slab.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The key as a nonzero number, for callers that can store nothing else.
    #[must_use]
    pub fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The key of such a number. Any other number gives a key that no slot has or had.
    #[must_use]
    pub fn from_bits(bits: u64) -> Key {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(NIL);
        Key { index: half(bits), generation: half(bits >> 32) }
    }

    pub(crate) const fn new(index: u32, generation: u32) -> Key {
        Key { index, generation }
    }
}

/// In this order: the slot's own data are next to its tenant's first fields, which should be the
/// ones used most.
#[derive(Debug, Clone)]
#[repr(C)]
struct Slot<T> {
    /// Odd while live (I1).
    generation: u32,
    next_free: u32,
    value: T,
}

impl<T> Slot<T> {
    const fn is_live(&self) -> bool {
        self.generation % 2 == 1
    }

    /// Becomes the first free slot, before the former first.
    fn vacate(&mut self, index: u32, first_free: &mut u32) {
        self.generation = self.generation.wrapping_add(1);
        self.next_free = mem::replace(first_free, index);
    }
}

/// Reports a caller's error; kept apart so that it costs nothing otherwise.
#[cold]
#[inline(never)]
fn refuse(index: u32) -> ! {
    panic!("slot {index} is released twice")
}

/// Slots for `T`, numbered from 0 to the capacity.
#[derive(Debug, Clone)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    live: u32,
}

impl<T: Default> Slab<T> {
    /// A slab of `capacity` free slots; the only allocation it ever makes.
    #[must_use]
    pub fn with_capacity(capacity: u32) -> Slab<T> {
        assert!(capacity < NIL, "a slab of {capacity} slots cannot be numbered");
        let slots = (0..capacity)
            .map(|index| Slot {
                generation: 0,
                next_free: if index + 1 == capacity { NIL } else { index + 1 },
                value: T::default(),
            })
            .collect();
        Slab { slots, free: if capacity == 0 { NIL } else { 0 }, live: 0 }
    }

    /// Puts `value` into a free slot, or returns it when there is none.
    ///
    /// # Errors
    /// The value itself, when all slots are live.
    pub fn insert(&mut self, value: T) -> Result<Key, T> {
        match self.take() {
            Some((key, place)) => {
                *place = value;
                Ok(key)
            }
            None => Err(value),
        }
    }

    /// Ends the tenancy of slot `index` and returns its contents.
    pub fn release(&mut self, index: u32) -> T {
        self.free(index);
        mem::take(&mut self.slots[index as usize].value)
    }
}

impl<T> Slab<T> {
    /// A free slot, now live, with the contents of its last tenant: to be filled field by field,
    /// which is cheaper than building a large value elsewhere and moving it.
    pub fn take(&mut self) -> Option<(Key, &mut T)> {
        let index = self.free;
        if index == NIL {
            return None;
        }
        let slot = &mut self.slots[index as usize];
        self.free = slot.next_free;
        slot.generation = slot.generation.wrapping_add(1);
        self.live += 1;
        Some((Key { index, generation: slot.generation }, &mut slot.value))
    }

    /// Ends the tenancy of slot `index`; its contents, which are returned, stay until the next
    /// tenant overwrites them.
    pub fn free(&mut self, index: u32) -> &T {
        let slot = &mut self.slots[index as usize];
        if !slot.is_live() {
            refuse(index);
        }
        slot.vacate(index, &mut self.free);
        self.live -= 1;
        &slot.value
    }

    /// As [`Slab::free`] for the tenant with this `key`, or `None` when it has gone.
    pub fn free_by_key(&mut self, key: Key) -> Option<&T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation || !slot.is_live() {
            return None;
        }
        slot.vacate(key.index, &mut self.free);
        self.live -= 1;
        Some(&slot.value)
    }

    /// The number of slots.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(NIL)
    }

    /// The number of live slots.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.live
    }

    /// Whether no slot is live.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Whether every slot is live.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.free == NIL
    }

    /// The tenant with this `key`, or `None` when it has gone.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        match self.slots.get(key.index as usize) {
            Some(slot) if slot.generation == key.generation => Some(&slot.value),
            _ => None,
        }
    }

    /// The tenant with this `key`, or `None` when it has gone.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.index as usize) {
            Some(slot) if slot.generation == key.generation => Some(&mut slot.value),
            _ => None,
        }
    }

    /// The tenant of slot `index`, which must be live.
    #[must_use]
    pub fn at(&self, index: u32) -> &T {
        let slot = &self.slots[index as usize];
        debug_assert!(slot.is_live(), "slot {index} is not live");
        &slot.value
    }

    /// The tenant of slot `index`, which must be live.
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.is_live(), "slot {index} is not live");
        &mut slot.value
    }

    /// Whether slot `index` has a tenant.
    #[must_use]
    pub fn is_live(&self, index: u32) -> bool {
        self.slots.get(index as usize).is_some_and(|slot| slot.is_live())
    }

    /// The key of the present tenant of slot `index`, which must be live.
    #[must_use]
    pub fn key_at(&self, index: u32) -> Key {
        debug_assert!(self.is_live(index), "slot {index} is not live");
        Key { index, generation: self.slots[index as usize].generation }
    }

    /// All live tenants in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.is_live()).map(|(index, slot)| {
            let index = u32::try_from(index).unwrap_or(NIL);
            (Key { index, generation: slot.generation }, &slot.value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a key that outlived its tenant detected, also when the slot has a new one?
    #[test]
    fn stale_keys_are_noticed() {
        let mut slab = Slab::with_capacity(1);
        let first = slab.insert(7).unwrap();
        assert_eq!(slab.get(first), Some(&7));
        slab.release(first.index());
        assert_eq!(slab.get(first), None);
        let second = slab.insert(8).unwrap();
        assert_eq!(second.index(), first.index());
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&8)));
    }

    /// Is a tenant freed by its own key once, and never by another's?
    #[test]
    fn a_key_frees_once() {
        let mut slab = Slab::with_capacity(1);
        let first = slab.insert(7).unwrap();
        assert_eq!(slab.free_by_key(first), Some(&7));
        assert_eq!(slab.free_by_key(first), None);
        assert!(slab.is_empty());
        let second = slab.insert(8).unwrap();
        assert_eq!(slab.free_by_key(first), None);
        assert_eq!(slab.free_by_key(second), Some(&8));
        // Nor by the key of a slot that has never been assigned.
        assert_eq!(slab.free_by_key(Key::new(0, 0)), None);
    }

    /// Does a full slab refuse, and return the value?
    #[test]
    fn a_full_slab_refuses() {
        let mut slab = Slab::with_capacity(2);
        let a = slab.insert(1).unwrap();
        slab.insert(2).unwrap();
        assert_eq!(slab.insert(3), Err(3));
        slab.release(a.index());
        assert!(slab.insert(3).is_ok());
        assert!(slab.is_full());
    }
}
