// SPDX-License-Identifier: MIT OR Apache-2.0
//! Name hash: the number that fio makes of a file's name, to seed its skewed distributions.
//!
//! It is Jenkins's lookup3 (public domain, 2006) with the initial value 0x61c88647. For names of
//! more than twelve bytes fio differs: of each whole group of twelve bytes only bytes 0, 4 and 8
//! count. Found on fio 3.33 by searching all 2^32 seeds for those that give the offsets of a zipf
//! job:
//!
//! ```text
//! a                0x6bbe9f77
//! b                0x946df31f
//! judge.dat        0x56153d86
//! abcdefghijklm    0x59536a0b     thirteen bytes: a, e, i are mixed in, then m
//! ```

/// The initial value, to which the length is added.
const INITIAL: u32 = 0x61c8_8647;
/// Bytes of a group.
const GROUP: usize = 12;

/// The hash of a file's name, with its directory as given.
pub(super) fn name_hash(name: &str) -> u32 {
    // fio counts in 32 bits; longer names do not exist.
    let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
    let mut state = [INITIAL.wrapping_add(length); 3];
    let mut rest = name.as_bytes();
    while rest.len() > GROUP {
        for (word, place) in state.iter_mut().zip([0, 4, 8]) {
            *word = word.wrapping_add(u32::from(rest[place]));
        }
        mix(&mut state);
        rest = &rest[GROUP..];
    }
    for (word, bytes) in state.iter_mut().zip(rest.chunks(4)) {
        let mut four = [0; 4];
        four[..bytes.len()].copy_from_slice(bytes);
        *word = word.wrapping_add(u32::from_le_bytes(four));
    }
    finish(state)
}

/// lookup3's mixing of three words between groups.
fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |from: &mut u32, minus: &mut u32, plus: u32, bits: u32| {
        *from = from.wrapping_sub(*minus) ^ minus.rotate_left(bits);
        *minus = minus.wrapping_add(plus);
    };
    step(a, c, *b, 4);
    step(b, a, *c, 6);
    step(c, b, *a, 8);
    step(a, c, *b, 16);
    step(b, a, *c, 19);
    step(c, b, *a, 4);
}

/// lookup3's final mixing; the third word is the hash.
fn finish([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    let step = |word: &mut u32, by: u32, bits: u32| {
        *word = (*word ^ by).wrapping_sub(by.rotate_left(bits));
    };
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the hashes those that were found?
    #[test]
    fn hashes_equal_fio() {
        assert_eq!(name_hash("a"), 0x6bbe_9f77);
        assert_eq!(name_hash("b"), 0x946d_f31f);
        assert_eq!(name_hash("judge.dat"), 0x5615_3d86);
        assert_eq!(name_hash("abcdefghijklm"), 0x5953_6a0b);
        assert_ne!(name_hash(""), name_hash("x"));
    }
}
