// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recent: a bounded cache that drops the least recently used value.
//!
//! ```text
//! newest ─▶ [4711] ⇄ [4712] ⇄ … ⇄ [93] ◀─ oldest: it goes when the memory is full
//! ```
//!
//! The values are in an array and linked by index; a table finds a key's index. A lookup reads the
//! table once and moves one value to the front: no allocation.
//!
//! R1  There are never more than `most` values.
//! R2  The chain has every value once, the last one looked up in front.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// The end of the chain.
const NONE: usize = usize::MAX;

#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    newer: usize,
    older: usize,
}

/// Values by their keys, `most` of them.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    most: usize,
    numbers: HashMap<K, usize>,
    slots: Vec<Slot<K, V>>,
    newest: usize,
    oldest: usize,
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    /// An empty memory for `most` values, at least one.
    pub(super) fn new(most: usize) -> Recent<K, V> {
        let most = most.max(1);
        Recent { most, numbers: HashMap::new(), slots: Vec::new(), newest: NONE, oldest: NONE }
    }

    /// The key's value, which is the newest from now on.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let number = *self.numbers.get(key)?;
        self.make_newest(number);
        Some(&mut self.slots[number].value)
    }

    /// Keeps the value as the newest. What had to go for it comes out: the key's last value, or
    /// the oldest one.
    pub(super) fn put(&mut self, key: K, value: V) -> Option<V> {
        if let Some(kept) = self.get(&key) {
            return Some(std::mem::replace(kept, value));
        }
        if self.slots.len() < self.most {
            let number = self.slots.len();
            self.slots.push(Slot { key: key.clone(), value, newer: NONE, older: NONE });
            self.numbers.insert(key, number);
            self.link(number);
            return None;
        }
        let number = self.oldest;
        self.make_newest(number);
        let slot = &mut self.slots[number];
        self.numbers.remove(&slot.key);
        slot.key = key.clone();
        let gone = std::mem::replace(&mut slot.value, value);
        self.numbers.insert(key, number);
        Some(gone)
    }

    fn make_newest(&mut self, number: usize) {
        if self.newest == number {
            return;
        }
        let (newer, older) = (self.slots[number].newer, self.slots[number].older);
        // It is not the newest, so that there is a newer one.
        self.slots[newer].older = older;
        match older {
            NONE => self.oldest = newer,
            _ => self.slots[older].newer = newer,
        }
        self.link(number);
    }

    /// Puts a slot that is in no chain in front.
    fn link(&mut self, number: usize) {
        let second = self.newest;
        self.slots[number].newer = NONE;
        self.slots[number].older = second;
        match second {
            NONE => self.oldest = number,
            _ => self.slots[second].newer = number,
        }
        self.newest = number;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Does the least recently used go first, and a value that is looked up stay?
    #[test]
    fn the_longest_unused_goes_first() {
        let mut memory = Recent::new(2);
        assert_eq!(memory.put(1, "one"), None);
        assert_eq!(memory.put(2, "two"), None);
        assert_eq!(memory.get(&1), Some(&mut "one"));
        assert_eq!(memory.put(3, "three"), Some("two"));
        assert_eq!(memory.get(&2), None);
        assert_eq!(memory.put(1, "uno"), Some("one"));
        assert_eq!(memory.put(4, "four"), Some("three"));
    }

    proptest! {
        /// Is it the same as a list that is searched from the front (R1, R2)?
        #[test]
        fn it_is_as_a_plain_list(
            most in 1_usize..6,
            steps in prop::collection::vec((any::<bool>(), 0_u8..8), 0..200),
        ) {
            let mut memory = Recent::new(most);
            let mut list: Vec<(u8, usize)> = Vec::new();
            for (time, (put, key)) in steps.into_iter().enumerate() {
                let found = list.iter().position(|(other, _)| *other == key);
                let kept = found.map(|place| list.remove(place));
                if put {
                    let full = list.len() == most;
                    let gone = kept.map(|(_, value)| value);
                    let gone = gone.or_else(|| full.then(|| list.pop()).flatten().map(|old| old.1));
                    list.insert(0, (key, time));
                    prop_assert_eq!(memory.put(key, time), gone);
                } else {
                    list.splice(0..0, kept);
                    prop_assert_eq!(memory.get(&key).copied(), kept.map(|(_, value)| value));
                }
                prop_assert_eq!(memory.slots.len(), list.len());
            }
        }
    }
}
