// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block map: which blocks of a region were used, with a fast search for the next that was not.
//!
//! A random job touches each block once per pass: a draw that hits a used block takes the next free
//! one instead. Near the end of a pass nearly every draw hits, and a plain bitmap would be scanned
//! from end to end. So words that are full are marked in a bitmap above, whose full words are
//! marked in one above that, until one word is left:
//!
//! ```text
//! level 1                 1 0 ...            word 0 below is full, word 1 is not
//! level 0   1111....1111  1101....           next_free(3): up over the full word, down to bit 66
//! ```
//!
//! 2^32 blocks have six levels, so a search reads at most eleven words.
//!
//! Invariants: I1 a bit above is set exactly if all 64 bits below are; I2 bits after the last block
//! are set, so that no search ends there.

/// Blocks in a word.
const WORD: u64 = 64;

/// A set of blocks, numbered from 0.
#[derive(Debug, Clone)]
pub(super) struct BlockMap {
    count: u64,
    levels: Vec<Vec<u64>>,
}

/// A position as an index; what does not fit cannot be stored and is found nowhere.
fn index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

impl BlockMap {
    /// A map of `count` free blocks.
    pub(super) fn new(count: u64) -> BlockMap {
        let mut levels = Vec::new();
        let mut bits = count.max(1);
        loop {
            let words = bits.div_ceil(WORD);
            // Zeroed memory is not touched until it is used: a large map of a short job is cheap.
            levels.push(vec![0; index(words)]);
            if words == 1 {
                break;
            }
            bits = words;
        }
        let mut map = BlockMap { count, levels };
        map.close_tails();
        map
    }

    /// How many blocks it has.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Frees every block.
    pub(super) fn clear(&mut self) {
        for level in &mut self.levels {
            level.fill(0);
        }
        self.close_tails();
    }

    /// Establishes I2. A tail never fills its word, because it holds at least one block, except in
    /// a map of no blocks.
    fn close_tails(&mut self) {
        let mut bits = self.count;
        for level in &mut self.levels {
            if let Some(last) = level.last_mut() {
                *last |= match bits % WORD {
                    0 if bits > 0 => 0,
                    used => u64::MAX << used,
                };
            }
            bits = bits.div_ceil(WORD);
        }
    }

    /// Marks `block` as used.
    pub(super) fn take(&mut self, block: u64) {
        assert!(block < self.count, "a block of the map");
        let mut position = block;
        for level in &mut self.levels {
            let word = &mut level[index(position / WORD)];
            *word |= 1 << (position % WORD);
            if *word != u64::MAX {
                break;
            }
            position /= WORD;
        }
    }

    /// The first free block from `from` on, without wrapping.
    pub(super) fn next_free(&self, from: u64) -> Option<u64> {
        let mut position = from;
        let mut level = 0;
        loop {
            let words = self.levels.get(level)?;
            let word = words.get(index(position / WORD))?;
            let free = !word & (u64::MAX << (position % WORD));
            if free != 0 {
                position = position / WORD * WORD + u64::from(free.trailing_zeros());
                break;
            }
            position = position / WORD + 1;
            level += 1;
        }
        for words in self.levels[..level].iter().rev() {
            let free = !words[index(position)];
            position = position * WORD + u64::from(free.trailing_zeros());
        }
        Some(position)
    }

    /// Takes free blocks from `first` on, at most `most`, up to the first used one; says how many.
    pub(super) fn take_run(&mut self, first: u64, most: u64) -> u64 {
        let mut taken = 0;
        while taken < most && self.is_free(first + taken) {
            self.take(first + taken);
            taken += 1;
        }
        taken
    }

    fn is_free(&self, block: u64) -> bool {
        let word = self.levels[0].get(index(block / WORD));
        word.is_some_and(|word| word & (1 << (block % WORD)) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Does the module's map find bit 66 after a full word?
    #[test]
    fn search_goes_over_full_words() {
        let mut map = BlockMap::new(200);
        assert_eq!(map.take_run(0, 66), 66);
        assert_eq!(map.next_free(3), Some(66));
        assert_eq!(map.take_run(67, 1000), 133);
        assert_eq!(map.next_free(67), None);
        assert_eq!(map.take_run(66, 5), 1);
        assert_eq!(map.next_free(0), None);
        map.clear();
        assert_eq!(map.next_free(199), Some(199));
        assert_eq!(BlockMap::new(0).next_free(0), None);
    }

    proptest! {
        /// Does the map equal a plain list of used blocks?
        #[test]
        fn equals_a_plain_list(
            count in 1_u64..9000,
            steps in prop::collection::vec((0_u64..9000, 1_u64..700), 1..60),
        ) {
            let mut map = BlockMap::new(count);
            let mut used = vec![false; index(count)];
            for (first, most) in steps {
                let first = first % count;
                let run = used[index(first)..].iter().take_while(|used| !**used);
                let run = u64::try_from(run.count()).unwrap().min(most);
                prop_assert_eq!(map.take_run(first, most), run);
                used[index(first)..index(first + run)].fill(true);
                let free = used[index(first)..].iter().position(|used| !used);
                let free = free.map(|at| first + u64::try_from(at).unwrap());
                prop_assert_eq!(map.next_free(first), free);
            }
        }
    }
}
