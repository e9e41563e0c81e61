// SPDX-License-Identifier: MIT OR Apache-2.0
//! Letters: short options as C programs take them: `-A`, `-o out`, `-oout`, `-AX`.

/// An option, with its value if it takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) name: char,
    pub(super) value: String,
}

/// Takes words apart. `known` has every letter, followed by a colon if it takes a value, like
/// getopt's; `long` turns long names into letters.
///
/// # Errors
/// The word that is not an option, or that lacks its value.
pub(super) fn read(
    words: &[String],
    known: &str,
    long: &[(&str, char)],
) -> Result<Vec<Letter>, String> {
    let takes_value = |name: char| {
        let at = known.find(name).filter(|_| name != ':')?;
        Some(known[at + name.len_utf8()..].starts_with(':'))
    };
    let mut letters = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let unknown = || format!("{word}: there is no such option; there are {}", listed(known));
        let missing = || format!("{word}: this option needs a value");
        if let Some(option) = word.strip_prefix("--") {
            let (option, value) = match option.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (option, None),
            };
            let found = long.iter().find(|(name, _)| *name == option);
            let name = found.map(|(_, letter)| *letter).ok_or_else(unknown)?;
            let value = match takes_value(name).ok_or_else(unknown)? {
                true => value.or_else(|| words.next().cloned()).ok_or_else(missing)?,
                false => String::new(),
            };
            letters.push(Letter { name, value });
            continue;
        }
        let mut rest =
            word.strip_prefix('-').filter(|rest| !rest.is_empty()).ok_or_else(unknown)?;
        while let Some(name) = rest.chars().next() {
            rest = &rest[name.len_utf8()..];
            let mut value = String::new();
            if takes_value(name).ok_or_else(unknown)? {
                value = match core::mem::take(&mut rest) {
                    "" => words.next().cloned().ok_or_else(missing)?,
                    rest => rest.to_owned(),
                };
            }
            letters.push(Letter { name, value });
        }
    }
    Ok(letters)
}

fn listed(known: &str) -> String {
    let letters = known.chars().filter(|letter| *letter != ':');
    letters.map(|letter| format!("-{letter}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn shown(text: &str) -> Result<String, String> {
        let letters = read(&words(text), "AXo:w:", &[("output-file", 'o')])?;
        Ok(letters.iter().map(|letter| format!("{}={}", letter.name, letter.value)).collect())
    }

    /// Are values taken from the same word and from the next, and letters put together?
    #[test]
    fn options_are_taken_apart() {
        assert_eq!(shown("-AX -o out -wend").unwrap(), "A=X=o=outw=end");
        assert_eq!(shown("--output-file=x --output-file y").unwrap(), "o=xo=y");
        assert!(shown("-Q").unwrap_err().starts_with("-Q: there is no such option; there are -A"));
        assert!(shown("-A -o").unwrap_err().contains("needs a value"));
        assert!(shown("stray").is_err() && shown("-").is_err() && shown("--bogus").is_err());
    }
}
