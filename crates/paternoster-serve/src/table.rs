// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables: numbered places for things that come and go, up to a limit.
//!
//! The number of a place is small and used again; memory grows with the most that were there at a
//! time, never beyond the limit.
//!
//! Places are looked up dozens of times for each request, and inlined for that: as calls they made
//! a tenth of a request's instructions.
//!
//! Invariant: `len` counts the places that are taken; the others are in the list of free ones.

/// Numbered places.
#[derive(Debug)]
pub(crate) struct Table<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
    most: u32,
}

impl<T> Table<T> {
    /// A table for at most `most` values.
    pub(crate) const fn new(most: u32) -> Table<T> {
        Table { places: Vec::new(), free: Vec::new(), most }
    }

    /// Puts something into a free place; gives it back if there is none.
    ///
    /// # Errors
    /// Gives the value back if there is no room for it.
    pub(crate) fn insert(&mut self, thing: T) -> Result<u32, T> {
        if self.is_full() {
            return Err(thing);
        }
        if let Some(index) = self.free.pop() {
            self.places[index as usize] = Some(thing);
            return Ok(index);
        }
        self.places.push(Some(thing));
        #[allow(clippy::cast_possible_truncation, reason = "no more places than `most`")]
        Ok((self.places.len() - 1) as u32)
    }

    /// Empties a place.
    ///
    /// # Panics
    /// It is empty: the caller has lost count.
    pub(crate) fn release(&mut self, index: u32) -> T {
        let thing = self.places[index as usize].take().expect("the place is taken");
        self.free.push(index);
        thing
    }

    /// What is in a place.
    ///
    /// # Panics
    /// It is empty: the caller has lost count.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &T {
        self.places[index as usize].as_ref().expect("the place is taken")
    }

    /// What is in a place, to be changed.
    ///
    /// # Panics
    /// It is empty: the caller has lost count.
    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        self.places[index as usize].as_mut().expect("the place is taken")
    }

    /// Whether a place is taken.
    #[inline]
    pub(crate) fn is_live(&self, index: u32) -> bool {
        self.places.get(index as usize).is_some_and(Option::is_some)
    }

    /// Number of places taken.
    #[allow(clippy::cast_possible_truncation, reason = "no more places than `most`")]
    pub(crate) const fn len(&self) -> u32 {
        (self.places.len() - self.free.len()) as u32
    }

    /// Whether all places are free.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no place is free.
    pub(crate) const fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// The numbers of the values for which it holds.
    pub(crate) fn which(&self, is_so: impl Fn(&T) -> bool) -> Vec<u32> {
        self.iter().filter(|(_, thing)| is_so(thing)).map(|(index, _)| index).collect()
    }

    /// All values, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.places).filter_map(|(index, place)| Some((index, place.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are numbers used again, and is the limit one?
    #[test]
    fn numbers_are_used_again() {
        let mut table = Table::new(2);
        assert_eq!(
            (table.insert('a'), table.insert('b'), table.insert('c')),
            (Ok(0), Ok(1), Err('c'))
        );
        assert_eq!(table.release(0), 'a');
        assert!(!table.is_live(0) && table.is_live(1) && !table.is_full());
        assert_eq!((table.insert('d'), table.len()), (Ok(0), 2));
        assert_eq!(
            table.iter().map(|(index, &thing)| (index, thing)).collect::<Vec<_>>(),
            [(0, 'd'), (1, 'b')]
        );
    }
}
