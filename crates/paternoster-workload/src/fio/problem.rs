// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problem: a mistake in a job file, or something that the user should know.
//!
//! Prints as compilers do, `file:line: message: `text``, so that editors can jump there.

use core::fmt;

/// After this many problems the rest of the text is not worth reading.
pub(super) const PROBLEMS_MAX: usize = 100;

/// The longest piece of offending text that is quoted.
const QUOTE_MAX: usize = 200;

/// One finding: where, which text, and what would be valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the source, or `command line`.
    pub file: String,
    /// Line in it from 1; on the command line the number of the argument.
    pub line: u32,
    /// The offending text.
    pub text: String,
    /// What is wrong and what would be valid.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(file: &str, line: u32, text: &str, message: impl Into<String>) -> Problem {
        let mut quoted: String = text.chars().take(QUOTE_MAX).collect();
        if quoted.len() < text.len() {
            quoted.push_str("...");
        }
        Problem { file: file.to_owned(), line, text: quoted, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: `{}`", self.file, self.line, self.message, self.text)
    }
}

impl core::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a problem print as `file:line: message: text`, with endless text cut?
    #[test]
    fn prints_as_compilers_do() {
        let problem = Problem::new("a.fio", 3, "bs=4q", "no unit");
        assert_eq!(problem.to_string(), "a.fio:3: no unit: `bs=4q`");
        let long = Problem::new("a.fio", 1, &"é".repeat(1000), "long");
        assert_eq!(long.text.chars().count(), QUOTE_MAX + 3);
    }
}
