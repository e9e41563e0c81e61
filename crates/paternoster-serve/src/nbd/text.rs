// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that travel: cut to a length, and quoted when they came from outside.

/// Characters of a foreign name that a message repeats.
const QUOTED_MOST: usize = 64;

/// The longest beginning of `text` of at most `most` bytes that ends between characters.
pub(super) fn clip(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `text` in quotation marks, without control characters, and not at any length.
pub(super) fn quote(text: &str) -> String {
    let shown = clip(text, QUOTED_MOST);
    let more = if shown.len() < text.len() { "..." } else { "" };
    format!("{shown:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is no character cut in two, and nothing lost that fits?
    #[test]
    fn clipping_keeps_characters_whole() {
        // "ä" has two bytes: 3 bytes hold one "ä" and half of the next.
        assert_eq!(clip("ääa", 3), "ä");
        assert_eq!(clip("ääa", 5), "ääa");
        assert_eq!(clip("", 0), "");
    }

    /// Can a foreign name spoil a log or fill it?
    #[test]
    fn quotes_are_short_and_printable() {
        assert_eq!(quote("a\n\"b"), r#""a\n\"b""#);
        // 64 characters, two marks, three points.
        assert_eq!(quote(&"x".repeat(4096)).len(), 64 + 2 + 3);
    }
}
