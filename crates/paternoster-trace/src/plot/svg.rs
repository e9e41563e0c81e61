// SPDX-License-Identifier: MIT OR Apache-2.0
//! SVG: elements, attributes and texts, escaped, with lengths in tenths of a pixel.
//!
//! Lengths are integers until they are written, `123.4`, so that no machine rounds them
//! differently. The width of a text is unknown here; the caller places its beginning, its end or
//! its middle.

use std::fmt::{self, Display, Write as _};

/// A length or a place, in tenths of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Px(pub(super) i64);

/// Whole pixels.
pub(super) const fn px(pixels: i64) -> Px {
    Px(pixels * 10)
}

impl std::ops::Add for Px {
    type Output = Px;
    fn add(self, other: Px) -> Px {
        Px(self.0 + other.0)
    }
}

impl std::ops::Sub for Px {
    type Output = Px;
    fn sub(self, other: Px) -> Px {
        Px(self.0 - other.0)
    }
}

impl Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let tenths = self.0.unsigned_abs();
        match tenths % 10 {
            0 => write!(f, "{sign}{}", tenths / 10),
            tenth => write!(f, "{sign}{}.{tenth}", tenths / 10),
        }
    }
}

/// The attributes of an element.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

/// A document in the making.
#[derive(Debug, Default)]
pub(super) struct Svg {
    text: String,
    open: Vec<&'static str>,
}

impl Svg {
    /// Opens an element; what follows is inside it.
    pub(super) fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.tag(name, attributes, ">\n");
        self.open.push(name);
    }

    /// Closes the element that was opened last.
    pub(super) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.indent();
            self.add(&format_args!("</{name}>\n"));
        }
    }

    /// An element with nothing inside.
    pub(super) fn empty(&mut self, name: &str, attributes: Attributes<'_>) {
        self.tag(name, attributes, "/>\n");
    }

    /// An element with a text inside.
    pub(super) fn text(&mut self, name: &str, attributes: Attributes<'_>, content: &str) {
        self.tag(name, attributes, ">");
        escape(&mut self.text, content);
        self.add(&format_args!("</{name}>\n"));
    }

    /// The document, with whatever is still open closed.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn tag(&mut self, name: &str, attributes: Attributes<'_>, end: &str) {
        self.indent();
        self.add(&format_args!("<{name}"));
        for (attribute, value) in attributes {
            self.add(&format_args!(" {attribute}=\""));
            escape(&mut self.text, &value.to_string());
            self.text.push('"');
        }
        self.text.push_str(end);
    }

    fn indent(&mut self) {
        for _ in &self.open {
            self.text.push(' ');
        }
    }

    fn add(&mut self, what: &dyn Display) {
        let _infallible = write!(self.text, "{what}");
    }
}

/// Adds `text` so that a parser reads it back. What XML cannot express (control characters) becomes
/// U+FFFD, the replacement character.
fn escape(to: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => to.push('\u{fffd}'),
            _ if letter.is_control() => to.push('\u{fffd}'),
            _ => to.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are tenths of a pixel written without floats and without a needless digit?
    #[test]
    fn tenths() {
        let texts = [px(12), Px(123), Px(-5), Px(0)].map(|length| length.to_string());
        assert_eq!(texts, ["12", "12.3", "-0.5", "0"]);
    }

    /// Does a parser read back what was written, even if it looks like XML?
    #[test]
    fn texts_are_escaped() {
        let mut svg = Svg::default();
        svg.open("g", &[("id", &"a\"<b>&'c")]);
        svg.text("title", &[], "5 < 6 & \"so\" on\u{7}");
        let text = svg.finish();
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        let root = document.root_element();
        assert_eq!(root.attribute("id"), Some("a\"<b>&'c"));
        let title = root.first_element_child().and_then(|title| title.text());
        assert_eq!(title, Some("5 < 6 & \"so\" on\u{fffd}"));
    }
}
