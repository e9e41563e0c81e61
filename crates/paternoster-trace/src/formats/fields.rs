// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields: the pieces of a line, and numbers out of them, without floats and without copies.
//!
//! ```text
//! 128166372003061629,hm,0,Read     commas: blanks around a field are ignored
//! 0.000004  supervise 1950         words: any blanks between; from the right where the first
//!                                  ones may hold blanks themselves
//! 0.551706 s = 551_706_000 ns      what is below the nanosecond is cut
//! ```
//!
//! Invariants: I1 no bytes make a number panic; I2 what is not a number, or does not fit, is
//! [`Wrong`] and never another number.

use crate::blktrace::Categories;

/// Nanoseconds of a second, a millisecond, a microsecond: units of [`fixed`].
pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MILLISECOND: u64 = 1_000_000;
pub(super) const MICROSECOND: u64 = 1_000;

/// Why a line is refused: the wrong text, and what would be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wrong<'t> {
    /// The wrong text; empty if there is none.
    pub(super) text: &'t [u8],
    /// What would be right: `… is not right`.
    pub(super) right: &'static str,
}

/// The pieces between bytes `BY`, without the blanks around them.
#[derive(Debug)]
pub(super) struct Pieces<'t, const BY: u8>(Option<&'t [u8]>);

/// The pieces between commas.
pub(super) type Commas<'t> = Pieces<'t, b','>;

impl<'t, const BY: u8> Pieces<'t, BY> {
    pub(super) const fn of(line: &'t [u8]) -> Pieces<'t, BY> {
        Pieces(Some(line))
    }

    /// The next field, which must be there.
    #[inline]
    pub(super) fn field(&mut self, right: &'static str) -> Result<&'t [u8], Wrong<'t>> {
        self.next().ok_or(Wrong { text: b"", right })
    }

    /// The rest of the line.
    pub(super) fn rest(&self) -> &'t [u8] {
        self.0.unwrap_or(b"")
    }

    /// The rest must be empty.
    pub(super) fn end(&mut self) -> Result<(), Wrong<'t>> {
        let right = "the end of the line";
        self.next().map_or(Ok(()), |text| Err(Wrong { text, right }))
    }
}

impl<'t, const BY: u8> Iterator for Pieces<'t, BY> {
    type Item = &'t [u8];

    #[inline]
    fn next(&mut self) -> Option<&'t [u8]> {
        let rest = self.0?;
        let place = rest.iter().position(|byte| *byte == BY);
        let (field, rest) = match place {
            Some(place) => (&rest[..place], Some(&rest[place + 1..])),
            None => (rest, None),
        };
        self.0 = rest;
        Some(field.trim_ascii())
    }
}

/// The pieces between blanks, from either side.
#[derive(Debug)]
pub(super) struct Words<'t>(&'t [u8]);

impl<'t> Words<'t> {
    pub(super) const fn of(line: &'t [u8]) -> Words<'t> {
        Words(line.trim_ascii())
    }

    /// The next word from the left, which must be there.
    #[inline]
    pub(super) fn left(&mut self, right: &'static str) -> Result<&'t [u8], Wrong<'t>> {
        let line = self.0;
        let length = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
        self.0 = line[length..].trim_ascii_start();
        present(&line[..length], right)
    }

    /// The next word from the right, which must be there.
    #[inline]
    pub(super) fn right(&mut self, right: &'static str) -> Result<&'t [u8], Wrong<'t>> {
        let line = self.0;
        let from = line.iter().rposition(u8::is_ascii_whitespace).map_or(0, |place| place + 1);
        self.0 = line[..from].trim_ascii_end();
        present(&line[from..], right)
    }

    /// The text between those that were taken.
    pub(super) const fn rest(&self) -> &'t [u8] {
        self.0
    }

    /// The rest must be empty.
    pub(super) fn end(&self) -> Result<(), Wrong<'t>> {
        let right = "the end of the line";
        if self.0.is_empty() { Ok(()) } else { Err(Wrong { text: self.0, right }) }
    }
}

fn present<'t>(text: &'t [u8], right: &'static str) -> Result<&'t [u8], Wrong<'t>> {
    if text.is_empty() { Err(Wrong { text, right }) } else { Ok(text) }
}

/// A whole number.
#[inline]
pub(super) fn whole<'t>(text: &'t [u8], right: &'static str) -> Result<u64, Wrong<'t>> {
    digits(text).filter(|_| !text.is_empty()).ok_or(Wrong { text, right })
}

/// A whole number of 32 bits.
#[inline]
pub(super) fn whole_u32<'t>(text: &'t [u8], right: &'static str) -> Result<u32, Wrong<'t>> {
    whole(text, right)?.try_into().map_err(|_| Wrong { text, right })
}

/// The number of these digits; 0 if there are none.
#[inline]
fn digits(text: &[u8]) -> Option<u64> {
    // Nineteen digits always fit.
    let checked = text.len() > 19;
    let mut number = 0_u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = if checked {
            number.checked_mul(10)?.checked_add(digit.into())?
        } else {
            number * 10 + u64::from(digit)
        };
    }
    Some(number)
}

/// A number with or without decimals, in units of this many nanoseconds (a power of ten), returned
/// in nanoseconds; fractions of one are cut.
#[inline]
pub(super) fn fixed<'t>(text: &'t [u8], unit: u64, right: &'static str) -> Result<u64, Wrong<'t>> {
    let wrong = Wrong { text, right };
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let decimals = text.get(point + 1..).unwrap_or(b"");
    if point == 0 && decimals.is_empty() {
        return Err(wrong);
    }
    let ns = digits(&text[..point]).and_then(|number| number.checked_mul(unit)).ok_or(wrong)?;
    let (mut fraction, mut unit) = (0, unit);
    for byte in decimals {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(wrong);
        }
        unit /= 10;
        fraction += unit * u64::from(digit);
    }
    ns.checked_add(fraction).ok_or(wrong)
}

/// Whole seconds, in nanoseconds; there is room to spread within the last one.
#[inline]
pub(super) fn whole_seconds(text: &[u8]) -> Result<u64, Wrong<'_>> {
    let right = "a time in whole seconds, below 2^64 ns";
    let seconds = whole(text, right)?;
    if seconds < u64::MAX / SECOND { Ok(seconds * SECOND) } else { Err(Wrong { text, right }) }
}

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 512;
/// No I/O is beyond this sector: its bytes are counted with 63 bits.
const SECTOR_MAX: u64 = 1 << 54;

/// A length in bytes.
#[inline]
pub(super) fn length(text: &[u8]) -> Result<u32, Wrong<'_>> {
    whole_u32(text, "a length in bytes, less than 4 GiB")
}

/// A length in sectors, in bytes.
#[inline]
pub(super) fn sectors(text: &[u8]) -> Result<u32, Wrong<'_>> {
    let right = "a length in sectors, less than 4 GiB";
    let bytes = whole(text, right)?.checked_mul(SECTOR).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or(Wrong { text, right })
}

/// An offset in bytes, as the sector that it lies in.
#[inline]
pub(super) fn offset(text: &[u8]) -> Result<u64, Wrong<'_>> {
    let right = "an offset in bytes, below 2^63";
    let sector = whole(text, right)? / SECTOR;
    if sector < SECTOR_MAX { Ok(sector) } else { Err(Wrong { text, right }) }
}

/// A sector.
#[inline]
pub(super) fn sector(text: &[u8]) -> Result<u64, Wrong<'_>> {
    let right = "a sector, below 2^54";
    let sector = whole(text, right)?;
    if sector < SECTOR_MAX { Ok(sector) } else { Err(Wrong { text, right }) }
}

/// Read or write by a letter, in either case.
#[inline]
pub(super) fn letter(text: &[u8]) -> Result<Categories, Wrong<'_>> {
    match text {
        b"R" | b"r" => Ok(Categories::READ),
        b"W" | b"w" => Ok(Categories::WRITE),
        _ => Err(Wrong { text, right: "`R` or `W`" }),
    }
}

/// The meaning of blkparse's letters: `R`, `WS`, `RA`, `FWFSM`, `D`.
pub(super) fn letters(text: &[u8]) -> Result<Categories, Wrong<'_>> {
    let wrong = Wrong { text, right: "what blkparse calls an I/O: `R`, `WS`, `RM`, `FWFS`, `D`" };
    let mut kind = Categories::default();
    // `F` alone, as some tools have it, is a flush; before a letter it is one first.
    let rest = match text {
        [b'F', rest @ ..] => {
            kind |= Categories::FLUSH;
            rest
        }
        _ => text,
    };
    let flags = match rest {
        [b'R', flags @ ..] => {
            kind |= Categories::READ;
            flags
        }
        [b'W', flags @ ..] => {
            kind |= Categories::WRITE;
            flags
        }
        [b'D', flags @ ..] => {
            kind |= Categories::DISCARD | Categories::WRITE;
            flags
        }
        [b'N', flags @ ..] => flags,
        flags if kind.contains(Categories::FLUSH) => flags,
        _ => return Err(wrong),
    };
    for flag in flags {
        kind |= match flag {
            b'F' => Categories::FUA,
            b'A' => Categories::AHEAD,
            b'S' => Categories::SYNC,
            b'M' => Categories::META,
            _ => return Err(wrong),
        };
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are whole numbers read up to the largest, and nothing else?
    #[test]
    fn whole_numbers_are_read_up_to_the_largest() {
        assert_eq!(whole(b"18446744073709551615", "x"), Ok(u64::MAX));
        assert_eq!(whole(b"00000000000000000000000007", "x"), Ok(7));
        for text in ["", "-1", "+1", "1.0", "18446744073709551616", "1e3", "\u{661}"] {
            let text = text.as_bytes();
            assert_eq!(whole(text, "x"), Err(Wrong { text, right: "x" }));
        }
        assert!(whole_u32(b"4294967296", "x").is_err());
    }

    /// Are decimals nanoseconds, exactly?
    #[test]
    fn decimals_are_nanoseconds_exactly() {
        for (text, unit, ns) in [
            ("0.551706", SECOND, 551_706_000),
            (".000479", SECOND, 479_000),
            ("5.", SECOND, 5_000_000_000),
            ("1455592200.008817000", SECOND, 1_455_592_200_008_817_000),
            ("46.004000", MILLISECOND, 46_004_000),
            ("0.74", MILLISECOND, 740_000),
            // 4757.708232 us: the last three decimals are below the nanosecond.
            ("4757.708232", MICROSECOND, 4_757_708),
            ("7", MICROSECOND, 7_000),
        ] {
            assert_eq!(fixed(text.as_bytes(), unit, "x"), Ok(ns), "{text}");
        }
        for text in ["", ".", "-0.1", "1.2.3", "1e-5", "18446744074", "nan"] {
            assert!(fixed(text.as_bytes(), SECOND, "x").is_err(), "{text}");
        }
    }

    /// Do fields and words come unchanged, from both sides?
    #[test]
    fn pieces_come_from_both_sides() {
        let fields: Vec<&[u8]> = Commas::of(b"0, 303567 ,,w").collect();
        assert_eq!(fields, [&b"0"[..], b"303567", b"", b"w"]);
        let mut words = Words::of(b"  1.5  Web Content\t77 sda  ");
        assert_eq!(words.left("x"), Ok(&b"1.5"[..]));
        assert_eq!(words.right("x"), Ok(&b"sda"[..]));
        assert_eq!(words.right("x"), Ok(&b"77"[..]));
        assert_eq!(words.rest(), b"Web Content");
        assert!(words.end().is_err());
        assert_eq!(Words::of(b" ").right("x"), Err(Wrong { text: b"", right: "x" }));
    }

    /// Do letters have blkparse's meaning?
    #[test]
    fn letters_say_what_blkparse_means() {
        use Categories as C;
        for (text, kind) in [
            ("R", C::READ),
            ("RA", C::READ | C::AHEAD),
            ("WS", C::WRITE | C::SYNC),
            ("FWFSM", C::FLUSH | C::WRITE | C::FUA | C::SYNC | C::META),
            ("D", C::DISCARD | C::WRITE),
            ("FN", C::FLUSH),
            ("F", C::FLUSH),
            ("FF", C::FLUSH | C::FUA),
            ("N", C::default()),
        ] {
            assert_eq!(letters(text.as_bytes()), Ok(kind), "{text}");
        }
        assert!(letters(b"").is_err() && letters(b"X").is_err() && letters(b"Rx").is_err());
    }

    /// Is a place beyond the end of any device refused?
    #[test]
    fn sectors_have_limits() {
        assert_eq!(offset(b"9748688896"), Ok(9_748_688_896 / 512));
        assert_eq!(offset(b"513"), Ok(1));
        assert_eq!(offset(b"9223372036854775807"), Ok((1 << 54) - 1));
        assert!(offset(b"9223372036854775808").is_err());
        assert!(sector(b"18014398509481984").is_err());
        assert_eq!(sectors(b"8388607"), Ok(8_388_607 * 512));
        assert!(sectors(b"8388608").is_err());
    }
}
