// SPDX-License-Identifier: MIT OR Apache-2.0
//! Escaping: foreign text as text of a page, of an attribute, and as data in a block of JSON.
//!
//! A page has two kinds of places with foreign text. Between tags and in quoted attributes five
//! letters are written as names; within `<script type="application/json">` a parser looks only for
//! `</script` and `<!--`, so every `<` is written `\u003c`, which JSON reads back.

use serde::Serialize;

/// The form between tags or in a quoted attribute. Control characters, which show nothing, become
/// U+FFFD; line ends stay.
pub(super) fn text(foreign: &str) -> String {
    let mut safe = String::with_capacity(foreign.len());
    for letter in foreign.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            _ if letter.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(letter),
        }
    }
    safe
}

/// The form in a block of JSON.
pub(super) fn json(data: &impl Serialize) -> String {
    // What is written here are strings and numbers: nothing that can fail.
    let plain = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    // Outside of strings JSON has none of these.
    plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Does what looks like an end of the script end nothing?
    #[test]
    fn no_end_of_a_script() {
        assert_eq!(json(&"</script><b>"), "\"\\u003c/script\\u003e\\u003cb\\u003e\"");
        assert_eq!(
            text("</script><b a='\"&\u{7}"),
            "&lt;/script&gt;&lt;b a=&#39;&quot;&amp;\u{fffd}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, ..ProptestConfig::default()
        })]

        /// Has no text a letter left that a parser takes for its own, and does it read back?
        #[test]
        fn any_text(foreign in any::<String>()) {
            let safe = text(&foreign);
            prop_assert!(!safe.contains(['<', '>', '"', '\'']));
            let element = format!("<a b=\"{safe}\">{safe}</a>");
            let parsed = roxmltree::Document::parse(&element);
            let visible = |letter: char| match letter {
                '\n' | '\t' => letter,
                letter if letter.is_control() => '\u{fffd}',
                letter => letter,
            };
            // Two letters that HTML allows and XML does not are not tested.
            prop_assume!(!foreign.contains(['\u{fffe}', '\u{ffff}']));
            let told: String = foreign.chars().map(visible).collect();
            let parsed = parsed.expect("sound");
            prop_assert_eq!(parsed.root_element().text().unwrap_or(""), told);
        }

        /// Is data read back as it was, and is nothing in it that a parser of pages looks for?
        #[test]
        fn any_data(foreign in prop::collection::vec(any::<String>(), 0..5)) {
            let safe = json(&foreign);
            prop_assert!(!safe.contains(['<', '>', '&']));
            let back: Vec<String> = serde_json::from_str(&safe).expect("sound");
            prop_assert_eq!(back, foreign);
        }
    }
}
