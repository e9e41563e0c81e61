// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes: whole numbers in as few bytes as they need, texts, and a digest.
//!
//! ```text
//! varint    7 bits to a byte, the low ones first; the top bit says that more follows
//!           300 = 0b10_0101100   ─▶   1_0101100  0_0000010
//! zigzag    0, -1, 1, -2, 2 …    ─▶   0, 1, 2, 3, 4 …     so that small steps back are short
//! digest    64-bit FNV-1a: one changed byte always changes it, for every step is a bijection
//! ```

/// What is wrong with some bytes, as the end of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bad(pub(super) &'static str);

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 128")]
    out.push(number as u8);
}

/// The step from one number to another, where all of 64 bits may be passed.
#[inline]
pub(super) const fn step(from: u64, to: u64) -> u64 {
    let by = to.wrapping_sub(from).cast_signed();
    ((by << 1) ^ (by >> 63)).cast_unsigned()
}

/// Where a [`step`] from a number leads.
#[inline]
pub(super) const fn stepped(from: u64, step: u64) -> u64 {
    from.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg())
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Bytes to be read.
#[derive(Debug, Clone)]
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, at: 0 }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Bad> {
        let byte = *self.bytes.get(self.at).ok_or(Bad("it ends in the middle"))?;
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn varint(&mut self) -> Result<u64, Bad> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Bad("a number has more than 64 bits"))
    }

    /// A number of a smaller type.
    pub(super) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Bad> {
        T::try_from(self.varint()?).map_err(|_| Bad("a number is larger than it may be"))
    }

    pub(super) fn flag(&mut self) -> Result<bool, Bad> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Bad("a byte should be 0 or 1")),
        }
    }

    /// A text of at most `most` bytes.
    pub(super) fn text(&mut self, most: usize) -> Result<&'a str, Bad> {
        let length: usize = self.number()?;
        if length > most {
            return Err(Bad("a text is longer than it may be"));
        }
        let bytes = self.bytes.get(self.at..self.at + length);
        self.at += length;
        std::str::from_utf8(bytes.ok_or(Bad("it ends in the middle of a text"))?)
            .map_err(|_| Bad("a text is not UTF-8"))
    }
}

/// A digest of a stream of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest(pub(super) u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Is the digest the published one? FNV-1a of "a" and of "foobar".
    #[test]
    fn the_digest_is_fnv_1a() {
        let of = |text: &str| {
            let mut digest = Digest::default();
            digest.take(text.as_bytes());
            digest.0
        };
        assert_eq!(of("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(of("foobar"), 0x8594_4171_f739_67e8);
    }

    /// Is a number of more than 64 bits refused, and one that is cut?
    #[test]
    fn numbers_that_are_none_are_refused() {
        let long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(Input::new(&long).varint(), Err(Bad("a number has more than 64 bits")));
        assert_eq!(Input::new(&[0x80]).varint(), Err(Bad("it ends in the middle")));
    }

    proptest! {
        /// Is every number read as it was written, also as a step from another one?
        #[test]
        fn numbers_come_back(from: u64, to: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, to);
            put_varint(&mut out, step(from, to));
            let mut input = Input::new(&out);
            prop_assert_eq!(input.varint(), Ok(to));
            prop_assert_eq!(input.varint().map(|by| stepped(from, by)), Ok(to));
            prop_assert!(input.is_at_end());
        }
    }
}
