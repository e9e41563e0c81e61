// SPDX-License-Identifier: MIT OR Apache-2.0
//! Digits: numbers and words in columns, without the machinery of `write!`, which would take a
//! third of a line's time.
//!
//! ```text
//! number(1234, 7)   "   1234"        zeros(1234, 9)   "000001234"
//! word("ab", 4)     "  ab"           a field that is too long keeps all its characters
//! ```

/// Blanks to copy from.
const BLANKS: &[u8; 32] = b"                                ";

/// Appends `count` blanks.
#[inline]
pub(super) fn blanks(line: &mut Vec<u8>, mut count: usize) {
    while count > BLANKS.len() {
        line.extend_from_slice(BLANKS);
        count -= BLANKS.len();
    }
    line.extend_from_slice(&BLANKS[..count]);
}

/// `00`, `01` … `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut value: u8 = 0;
    while value < 100 {
        pairs[value as usize] = [b'0' + value / 10, b'0' + value % 10];
        value += 1;
    }
    pairs
};

/// Writes the digits of a number at the end of a buffer, two at a time; returns where they begin.
#[inline]
fn digits(mut value: u64, buffer: &mut [u8; 20]) -> usize {
    let mut at = buffer.len();
    let pair = |value: u64| PAIRS[usize::try_from(value % 100).unwrap_or(0)];
    while value >= 10 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&pair(value));
        value /= 100;
    }
    if value > 0 || at == buffer.len() {
        at -= 1;
        buffer[at] = pair(value)[1];
    }
    at
}

/// Appends a number, right-aligned.
#[inline]
pub(super) fn number(line: &mut Vec<u8>, value: u64, width: usize) {
    let mut buffer = [0; 20];
    let at = digits(value, &mut buffer);
    blanks(line, width.saturating_sub(buffer.len() - at));
    line.extend_from_slice(&buffer[at..]);
}

/// Appends a number that may be negative, right-aligned.
#[inline]
pub(super) fn signed(line: &mut Vec<u8>, value: i64, width: usize) {
    if value >= 0 {
        return number(line, value.unsigned_abs(), width);
    }
    let mut buffer = [0; 20];
    let at = digits(value.unsigned_abs(), &mut buffer);
    blanks(line, width.saturating_sub(buffer.len() - at + 1));
    line.push(b'-');
    line.extend_from_slice(&buffer[at..]);
}

/// Appends a number, left-aligned.
#[inline]
pub(super) fn left_number(line: &mut Vec<u8>, value: u64, width: usize) {
    let from = line.len();
    number(line, value, 0);
    blanks(line, (from + width).saturating_sub(line.len()));
}

/// Appends a number with zeros before it.
#[inline]
pub(super) fn zeros(line: &mut Vec<u8>, value: u64, width: usize) {
    let mut buffer = [0; 20];
    let at = digits(value, &mut buffer);
    let missing = width.saturating_sub(buffer.len() - at);
    line.resize(line.len() + missing, b'0');
    line.extend_from_slice(&buffer[at..]);
}

/// Appends a word, right-aligned.
#[inline]
pub(super) fn word(line: &mut Vec<u8>, text: &[u8], width: usize) {
    blanks(line, width.saturating_sub(text.len()));
    line.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do they write what `write!` would?
    #[test]
    fn they_write_what_write_would() {
        for value in [0, 7, 10, 99, 100, 123_456_789, u64::MAX] {
            for width in [0, 1, 3, 9, 20, 70] {
                let mut line = Vec::new();
                number(&mut line, value, width);
                zeros(&mut line, value, width);
                left_number(&mut line, value, width);
                signed(&mut line, -i64::try_from(value / 2).unwrap(), width);
                word(&mut line, b"ab", width);
                let half = -i64::try_from(value / 2).unwrap();
                let wanted = format!(
                    "{value:>width$}{value:0>width$}{value:<width$}{half:>width$}{:>width$}",
                    "ab"
                );
                assert_eq!(String::from_utf8(line).unwrap(), wanted);
            }
        }
    }
}
