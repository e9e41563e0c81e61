// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chunks: an array that grows without ever being copied.
//!
//! A vector that doubles holds one and a half times its contents while it moves. A trace that lost
//! its completions has a hundred megabytes of outstanding bios, and that would show as our memory.
//! Chunks cost one more look-up.

/// Elements of a chunk, as a power of two.
const SHIFT: u32 = 14;
const MASK: usize = (1 << SHIFT) - 1;

/// An array in chunks, indexed by 32 bits.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
    len: u32,
}

impl<T> Chunks<T> {
    pub(super) const fn new() -> Chunks<T> {
        Chunks { chunks: Vec::new(), len: 0 }
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Appends an element; returns its place.
    pub(super) fn push(&mut self, element: T) -> u32 {
        let at = self.len;
        if self.chunks.last().is_none_or(|last| last.len() > MASK) {
            // The first chunk grows as it is filled: most arrays stay small.
            let first = self.chunks.is_empty();
            self.chunks.push(if first { Vec::new() } else { Vec::with_capacity(MASK + 1) });
        }
        let last = self.chunks.last_mut().expect("a chunk was just made");
        last.push(element);
        self.len += 1;
        at
    }
}

impl<T> core::ops::Index<u32> for Chunks<T> {
    type Output = T;
    fn index(&self, at: u32) -> &T {
        &self.chunks[(at >> SHIFT) as usize][at as usize & MASK]
    }
}

impl<T> core::ops::IndexMut<u32> for Chunks<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.chunks[(at >> SHIFT) as usize][at as usize & MASK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is every element found again, within the first chunk and after it?
    #[test]
    fn elements_stay_where_they_were_put() {
        let mut chunks = Chunks::new();
        for value in 0..40_000_u32 {
            assert_eq!(chunks.push(value * 3), value);
        }
        chunks[20_000] = 7;
        // 16384 elements are a chunk: 16383 is the last of the first.
        assert_eq!((chunks[16_383], chunks[16_384], chunks[20_000]), (49_149, 49_152, 7));
        assert_eq!((chunks.len(), chunks[39_999]), (40_000, 119_997));
    }
}
