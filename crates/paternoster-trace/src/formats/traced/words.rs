// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words: what a line is cut into, and the numbers, devices and times among them.

use crate::blktrace::DeviceNumber;

/// A line, from which words are cut off.
#[derive(Debug, Clone, Copy)]
pub(in crate::formats) struct Words<'a>(pub(in crate::formats) &'a [u8]);

impl<'a> Words<'a> {
    /// The next word without the blank after it; empty at the end.
    #[inline]
    pub(in crate::formats) fn word(&mut self) -> &'a [u8] {
        let text = self.0.trim_ascii_start();
        let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        word
    }

    /// The next word, which stays.
    pub(in crate::formats) fn peek(mut self) -> &'a [u8] {
        self.word()
    }

    /// The rest, without the one blank before it.
    pub(in crate::formats) fn rest(self) -> &'a [u8] {
        self.0.strip_prefix(b" ").unwrap_or(self.0)
    }
}

/// A number of digits alone.
#[inline]
pub(in crate::formats) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(digit.into())
    })
}

/// A number of digits that fits 32 bits.
pub(in crate::formats) fn whole_u32(text: &[u8]) -> Option<u32> {
    u32::try_from(whole(text)?).ok()
}

/// An errno, which may be negative.
pub(in crate::formats) fn errno(text: &[u8]) -> Option<u16> {
    match text.strip_prefix(b"-") {
        Some(digits) => Some(0_u16.wrapping_sub(u16::try_from(whole(digits)?).ok()?)),
        None => u16::try_from(whole(text)?).ok(),
    }
}

/// `8,64`.
pub(in crate::formats) fn device(text: &[u8]) -> Option<DeviceNumber> {
    let comma = text.iter().position(|&byte| byte == b',')?;
    let (major, minor) = (whole(&text[..comma])?, whole(&text[comma + 1..])?);
    if major > 0xfff || minor > 0xf_ffff {
        return None;
    }
    Some(DeviceNumber::new(u32::try_from(major).ok()?, u32::try_from(minor).ok()?))
}

/// `3987.797223` as nanoseconds: six decimals, or nine.
pub(in crate::formats) fn seconds(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|&byte| byte == b'.')?;
    let (seconds, decimals) = (&text[..point], &text[point + 1..]);
    let unit = match decimals.len() {
        6 => 1000,
        9 => 1,
        _ => return None,
    };
    whole(seconds)?.checked_mul(1_000_000_000)?.checked_add(whole(decimals)? * unit)
}

/// Splits before and after the first occurrence.
pub(in crate::formats) fn split<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let place = text.windows(at.len()).position(|window| window == at)?;
    Some((&text[..place], &text[place + at.len()..]))
}

/// Splits before and after the last occurrence of a byte.
pub(in crate::formats) fn split_last(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().rposition(|&byte| byte == at)?;
    Some((&text[..place], &text[place + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are valid numbers read, and nothing else?
    #[test]
    fn numbers() {
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        for wrong in
            [&b"18446744073709551616"[..], b"", b"+1", b"-1", b"1x", b"0000000000000000000001"]
        {
            assert_eq!(whole(wrong), None);
        }
        assert_eq!((errno(b"-5"), errno(b"5"), errno(b"65536")), (Some(65531), Some(5), None));
        assert_eq!(device(b"8,64"), Some(DeviceNumber(0x80_0040)));
        assert_eq!((device(b"4096,0"), device(b"8"), device(b",")), (None, None, None));
        assert_eq!(seconds(b"3.000001"), Some(3_000_001_000));
        assert_eq!(seconds(b"3.000000001"), Some(3_000_000_001));
        assert_eq!((seconds(b"3.0"), seconds(b".000001"), seconds(b"3")), (None, None, None));
    }
}
